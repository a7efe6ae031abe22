"""What a block device is, and which other block devices share its bytes: reads /sys and /dev below an injected root.

A device is its number (`st_rdev`), never its name: symbolic links, by-id names and nodes made by mknod all lead there.
Writes nothing and starts no process. Deliberately not here: who mounts it (`host.mounts`), what it holds
(`targets.occupancy`) and whether it may be written (`targets.safety`).
Sources: Linux Documentation/ABI/{stable,testing}/sysfs-block, Documentation/admin-guide/iostats.rst, loop(4).
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ioassay.errors import ToolError

ROOT = Path("/")
SECTOR_BYTES = 512
"""Unit of /sys/block/*/size, whatever the device's own sector is (sysfs-block)."""

_LOOP_GET_STATUS64 = 0x4C05  # linux/loop.h
_VPD_HEADER_BYTES = 4
_LOOP_INFO64_BYTES = 232  # sizeof(struct loop_info64): device, inode and rdevice are its first three fields
_UNIQUE_WWID = ("naa.", "eui.", "uuid.")
"""World-wide names that their standards make unique; `t10.` is built from vendor text, which repeats."""


class Number(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}:{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Number:
        """`8:1` -> Number(8, 1); ValueError for anything else."""
        if not (found := re.fullmatch(r"([0-9]{1,10}):([0-9]{1,10})", text.strip())):
            raise ValueError(f"'{text.strip()[:40]}' is no device number; expected major:minor")
        return cls(int(found[1]), int(found[2]))


class FileId(NamedTuple):
    """What a file is, whatever names and hard links lead to it."""

    device: int
    inode: int


@dataclass(frozen=True)
class Device:
    number: Number
    name: str
    """The kernel's name: sda1, nvme0n1, dm-0."""
    folder: Path
    """Its folder in sysfs."""
    partition: int
    """Number of the partition, 0 for a whole device."""
    size_bytes: int
    read_only: bool
    diskseq: int | None
    """Sequence number of the medium (Linux 5.15): another disk under the same number has another one."""


@dataclass(frozen=True)
class Loop:
    """A loop device in use. Either `file` or `block` says what lies under it, where that could be found out."""

    device: Device
    backing: str
    """Path of the backing file as the kernel shows it; ` (deleted)` behind it when it has no name any more."""
    file: FileId | None
    block: Number | None


@dataclass(frozen=True)
class Member:
    """A device of the family: what it is to `via`, the member that led to it."""

    device: Device
    role: str
    """SELF, PARTITION, HOLDER, LOOP, DISK, UNDER, BACKING or TWIN: what it is, for people when `via` is put in."""
    via: str
    overlaps: bool
    """True: writing the target can change bytes that belong to it. False: it lies beside the target."""


SELF = ""
PARTITION = "a partition of {via}"
HOLDER = "built on {via}"
LOOP = "a loop device over {via}"
DISK = "the disk of {via}"
UNDER = "what {via} is built on"
BACKING = "the device under {via}"
TWIN = "another way to the data of {via}"


def number_of(path: Path) -> Number | None:
    """The device number behind a path, all links followed; None when it is no block device."""
    try:
        status = path.stat()
    except OSError:
        return None
    return Number(os.major(status.st_rdev), os.minor(status.st_rdev)) if stat.S_ISBLK(status.st_mode) else None


def file_id(path: Path) -> FileId | None:
    """The identity of a regular file, all links followed; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileId(status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def device(number: Number, root: Path = ROOT) -> Device | None:
    """What sysfs says of a number; None when it knows no such device."""
    link = root / "sys/dev/block" / str(number)
    return _read_device(link.resolve()) if link.exists() else None


def named(name: str, root: Path = ROOT) -> Device | None:
    link = root / "sys/class/block" / name.replace("/", "!")
    return _read_device(link.resolve()) if link.exists() else None


def disks(root: Path = ROOT) -> Iterator[Device]:
    yield from _linked(root / "sys/block")


def disk_of(part: Device) -> Device:
    """The disk of a partition; a whole device itself."""
    return (_read_device(part.folder.parent) if part.partition else None) or part


def partitions(disk: Device) -> list[Device]:
    """The partitions that the kernel knows of a disk, in their order."""
    found = [_read_device(entry) for entry in entries(disk.folder) if (entry / "partition").exists()]
    return sorted((part for part in found if part is not None), key=lambda part: part.partition)


def holders(of: Device) -> list[Device]:
    """The devices built on this one: md, dm (LVM, crypt, multipath), bcache."""
    return _linked(of.folder / "holders")


def slaves(of: Device) -> list[Device]:
    return _linked(of.folder / "slaves")


def loops(root: Path = ROOT) -> list[Loop]:
    """All loop devices in use, with what lies under them."""
    found = []
    for link in entries(root / "sys/block"):
        folder = link.resolve()
        if (backing := text_of(folder / "loop/backing_file")) and (here := _read_device(folder)) is not None:
            found.append(_read_loop(here, backing, root))
    return found


def node_of(found: Device, root: Path = ROOT) -> Path | None:
    """The device's node /dev/<name>, where one exists and really is this device."""
    node = root / "dev" / found.name
    return node if number_of(node) == found.number else None


def wwid(found: Device) -> str:
    """The world-wide name of a disk, empty where it has none that is unique by its standard."""
    names = (text_of(found.folder / "wwid"), text_of(found.folder / "device/wwid"))
    return next((name for name in names if name.startswith(_UNIQUE_WWID)), "")


def scsi_serial(disk: Path) -> str:
    """The serial number of a SCSI disk, empty where there is none (SPC-5, 7.7.9: unit serial number page)."""
    try:
        return (disk / "device/vpd_pg80").read_bytes()[_VPD_HEADER_BYTES:].decode("ascii", "replace").strip("\0 ")
    except OSError:
        return ""


def family(target: Device, root: Path = ROOT) -> list[Member]:
    """The target first, then every device that shares bytes with it, then those beside it on the same disk.

    Upwards: partitions, holders and loop devices over it, recursively. Downwards: its disk, what it is built on,
    the device under a loop device. Sideways: loop devices over the same file, other paths to the same drive.
    """
    walk = _Walk(root)
    walk.up(target, SELF, target.name, True)
    walk.down(target)
    return sorted(walk.found.values(), key=lambda member: not member.overlaps)


class _Walk:
    """Collects a family. What overlaps is always walked before what lies beside, so that the first answer stays."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: dict[Number, Member] = {}
        self._loops = loops(root)

    def up(self, here: Device, role: str, via: str, overlaps: bool) -> None:
        if not self._add(here, role, via, overlaps):
            return
        self._above(here, () if here.partition else partitions(here), PARTITION, overlaps)
        self._users(here, overlaps)

    def down(self, here: Device) -> None:
        """What this device lies on: its bytes overlap; what else lies there is beside it."""
        if here.partition:
            disk = disk_of(here)
            self._add(disk, DISK, here.name, True)
            self._users(disk, True)
            self._above(disk, partitions(disk), PARTITION, False)
        loop = self._loop(here)
        if loop is not None and loop.block is not None and (backing := device(loop.block, self.root)) is not None:
            self.up(backing, BACKING, here.name, True)
            self.down(backing)
        for slave in slaves(here):
            self._add(slave, UNDER, here.name, True)
            self._above(slave, self._over(slave), LOOP, True)
            self.down(slave)
        for slave in slaves(here):
            self._above(slave, partitions(slave), PARTITION, False)
            self._above(slave, holders(slave), HOLDER, False)

    def _users(self, here: Device, overlaps: bool) -> None:
        self._above(here, holders(here), HOLDER, overlaps)
        self._above(here, self._over(here), LOOP, overlaps)
        self._above(here, self._twins(here), TWIN, overlaps)

    def _above(self, here: Device, others: Sequence[Device], role: str, overlaps: bool) -> None:
        for other in others:
            self.up(other, role, here.name, overlaps)

    def _add(self, here: Device, role: str, via: str, overlaps: bool) -> bool:
        if here.number in self.found:
            return False
        self.found[here.number] = Member(here, role, via, overlaps)
        return True

    def _loop(self, here: Device) -> Loop | None:
        return next((loop for loop in self._loops if loop.device.number == here.number), None)

    def _over(self, here: Device) -> list[Device]:
        return [loop.device for loop in self._loops if loop.block == here.number]

    def _twins(self, here: Device) -> Sequence[Device]:
        """Other devices that hold the very same data: loops over one file, paths to one drive."""
        if (mine := self._loop(here)) is not None:
            return [
                loop.device
                for loop in self._loops  # by its path where the identity of its file cannot be read
                if (loop.file == mine.file if loop.file and mine.file else loop.backing == mine.backing)
            ]
        name = "" if here.partition else wwid(here)
        return [disk for disk in disks(self.root) if wwid(disk) == name] if name else ()


def _read_device(folder: Path) -> Device | None:
    try:
        number = Number.parse((folder / "dev").read_text())
    except (OSError, ValueError):
        return None
    sequence = _whole(folder / "diskseq")
    return Device(
        number=number,
        name=folder.name.replace("!", "/"),
        folder=folder,
        partition=_whole(folder / "partition") or 0,
        size_bytes=(_whole(folder / "size") or 0) * SECTOR_BYTES,
        read_only=text_of(folder / "ro") == "1",
        diskseq=_whole(folder.parent / "diskseq") if sequence is None else sequence,
    )


def _read_loop(here: Device, backing: str, root: Path) -> Loop:
    """The driver knows which file it really has; the path in sysfs may mean another one here, or nothing."""
    node = node_of(here, root)
    if node is not None:
        with suppress(OSError):
            handle = os.open(node, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                answer = fcntl.ioctl(handle, _LOOP_GET_STATUS64, bytes(_LOOP_INFO64_BYTES))
            finally:
                os.close(handle)
            lies_on, inode, raw_device = struct.unpack_from("=3Q", answer)
            # For a regular file the kernel gives its file system's device twice (drivers/block/loop.c).
            if raw_device not in (0, lies_on):
                return Loop(here, backing, None, Number(os.major(raw_device), os.minor(raw_device)))
            return Loop(here, backing, FileId(lies_on, inode), None)
    path = root / backing.lstrip("/")
    return Loop(here, backing, file_id(path), number_of(path))


def _linked(folder: Path) -> list[Device]:
    found = (_read_device(entry.resolve()) for entry in entries(folder))
    return [here for here in found if here is not None]


def entries(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing where there is none."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _whole(path: Path) -> int | None:
    """The whole number in a sysfs file, None where there is none; ToolError for anything else.

    What a device is must be known before anything is decided about it: no fallback is safe.
    """
    text = text_of(path)
    if text and not re.fullmatch(r"[0-9]{1,20}", text):
        raise ToolError(f"{path}: is {text[:40]!r}; expected a whole number")
    return int(text) if text else None


def text_of(path: Path) -> str:
    """The stripped content of a sysfs file, empty where there is none."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


# What whole devices did, and which devices lie below others

_DISK_COLUMNS = {
    "reads": 3,
    "read_merges": 4,
    "read_bytes": 5,
    "writes": 7,
    "write_merges": 8,
    "write_bytes": 9,
    "discards": 14,
    "flushes": 18,
}
"""Columns of /proc/diskstats (Documentation/admin-guide/iostats.rst); discards since Linux 4.18, flushes since 5.5."""


def disk_counters(devices: Collection[str], root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Totals of the named block devices since they are there; one that is not there is left out.

    Volumes are in bytes. Of a kernel that does not count discards or flushes, there are none.
    """
    found = {}
    with suppress(OSError, ValueError):
        for line in (root / "proc/diskstats").read_text().splitlines() if devices else ():
            columns = line.split()
            if len(columns) > 2 and columns[2] in devices:
                counted = {name: int(columns[at]) if at < len(columns) else 0 for name, at in _DISK_COLUMNS.items()}
                volumes = {name: counted[name] * SECTOR_BYTES for name in ("read_bytes", "write_bytes")}
                found[columns[2]] = counted | volumes
    return found


def below(devices: Sequence[str], root: Path = ROOT) -> list[str]:
    """`devices`, and every device that one of them lies on: its disk, what md and dm are built on, what a loop maps."""
    found = dict.fromkeys(devices)
    mapped = loops(root) if devices else []
    waiting = list(devices)
    while waiting:
        if (here := named(waiting.pop(), root)) is None:
            continue
        under = [disk_of(here), *slaves(here)]
        for loop in (loop for loop in mapped if loop.device.number == here.number):
            of = loop.file  # the device of its file system, where that has one
            number = loop.block if of is None else Number(os.major(of.device), os.minor(of.device))
            backing = device(number, root) if number is not None else None
            under += [backing] if backing is not None else []
        new = [each.name for each in under if each.name not in found]
        found |= dict.fromkeys(new)
        waiting += new
    return list(found)
