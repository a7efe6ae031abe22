"""What the file system under a path does to a measurement, and how much room it has. Makes no file with a name.

Of a file it says which parts were never written: holes, and extents that are allocated but unwritten.

Each suspicion is a warning with the next step in it; no room is a StudyError.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ioassay import units
from ioassay.errors import StudyError
from ioassay.host import mounts, system
from ioassay.host.block_devices import ROOT
from ioassay.host.machine import Machine
from ioassay.records.record import Warning_
from ioassay.roles import Footprint

MARGIN_SHARE = 0.05
MARGIN_LEAST_BYTES, MARGIN_MOST_BYTES = 64 << 20, 8 << 30
"""Kept free: 5 % of the file system, from 64 MiB to 8 GiB. A full file system slows down and breaks other programs."""

_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "afs", "beegfs", "fuse.sshfs", "fuse.s3fs")
_SUSPECTS = {
    "fuse": ("fuse-filesystem", ": a process in user space takes part in each request"),
    "overlay": ("overlay-filesystem", ", a container's layers: the file system beneath is measured through them"),
    **dict.fromkeys(_MEMORY, ("memory-filesystem", ", which is memory: no disk is measured")),
    **dict.fromkeys(
        NETWORK, ("network-filesystem", ", a network file system: network and server are measured with the disk")
    ),
    **dict.fromkeys(
        ("9p", "virtiofs", "vboxsf", "fuse.vmhgfs-fuse"),
        ("host-filesystem", ", shared by the host of this virtual machine: the host's cache takes part"),
    ),
}
"""Type of a file system, or what stands before its point -> code of the warning, and what is said of it."""
_COMPRESSION = ("compress", "compress-force", "compression", "compress_algorithm")
_NO_PLACE_FOR_FILES = ("/dev", "/proc", "/sys")
_ELSEWHERE = "give a path on the disk that you want to measure"


@dataclass(frozen=True)
class Room:
    """Space of one file system, in bytes, as an unprivileged writer sees it."""

    free_bytes: int
    margin_bytes: int


def warnings(path: Path, root: Path = ROOT) -> list[Warning_]:
    """What is suspicious about measuring a file here. `path` is resolved; it need not exist yet."""
    mount = mounts.mount_of(path, root)
    found = []
    if mount is not None:
        where = f"{path} lies on {mount.point} ({mount.kind})"
        if row := _SUSPECTS.get(mount.kind) or _SUSPECTS.get(mount.kind.partition(".")[0]):
            code, text = row
            remedy = "give a path on a volume, or on the host" if mount.kind == "overlay" else _ELSEWHERE
            found.append(Warning_(code, f"{where}{text}", remedy))
        pairs = ((option, *option.partition("=")[::2]) for option in mount.options)
        active = [option for option, name, value in pairs if name in _COMPRESSION and value not in ("no", "none")]
        why = f"compresses ({active[0]})" if active else ""
        if why := "may compress, and caches in its own ARC" if mount.kind == "zfs" else why:
            effect = "data that compresses is not written in full, and reads may come from its cache"
            remedy = f"keep the load's data incompressible, or {_ELSEWHERE}"
            found.append(Warning_("compressed-filesystem", f"{where}, which {why}: {effect}", remedy))
    if direct_io(path) is False:
        text = f"{path}: its file system refuses direct I/O, so a load with direct=1 will fail"
        found.append(Warning_("no-direct-io", text, f"set direct = 0 and mind the page cache, or {_ELSEWHERE}"))
    return found


def require_real(path: Path, root: Path = ROOT) -> None:
    """StudyError for a new file in /dev, /proc or /sys: there it would be a mistyped device, made in memory."""
    mount = mounts.mount_of(path, root)
    if mount is not None and mount.point in _NO_PLACE_FOR_FILES and not path.exists():
        raise StudyError(
            f"{path} does not exist, and {mount.point} is no place for new files; expected a device that is there, or "
            "the path of a file on a disk",
            key="target.path",
        )


def direct_io(path: Path) -> bool | None:
    """Whether files here take direct I/O; None when that cannot be told without making a file with a name."""
    try:
        if path.is_file():
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC | os.O_NONBLOCK))
        else:
            os.close(os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return False if error.errno == errno.EINVAL else None
    return True


def room(folder: Path, root: Path = ROOT) -> Room:
    """Room in the file system of a folder; on a memory file system no more than the memory that is available."""
    facts = os.statvfs(folder)
    # Some file systems (ramfs, many over FUSE) give no sizes at all.
    free_bytes = facts.f_bavail * facts.f_frsize if facts.f_blocks else sys.maxsize
    mount = mounts.mount_of(folder, root)
    if mount is not None and mount.kind in _MEMORY:
        free_bytes = min(free_bytes, system.memory(Machine(root))["available_bytes"])
    share_bytes = int(facts.f_blocks * facts.f_frsize * MARGIN_SHARE)
    margin_bytes = min(max(share_bytes, MARGIN_LEAST_BYTES), MARGIN_MOST_BYTES)
    return Room(free_bytes, margin_bytes)


def fillable_bytes(point: Path) -> int:
    """What one file can fill of a file system that is for it alone, in whole MiB: where it lies takes room too."""
    space = os.statvfs(point)
    free_bytes = space.f_bavail * space.f_frsize
    return max(free_bytes - max(int(free_bytes * MARGIN_SHARE), 1 << 20), 0) >> 20 << 20


def require_room(path: Path, size_bytes: int, root: Path = ROOT) -> None:
    """StudyError unless a file of this size fits here with the margin left; what it has already counts as free."""
    here = room(path.parent, root)
    held_bytes = path.stat().st_blocks * 512 if path.is_file() else 0
    usable_bytes = here.free_bytes + held_bytes - here.margin_bytes
    if size_bytes <= usable_bytes:
        return
    shown = units.format_size
    raise StudyError(
        f"{path} of {shown(size_bytes)} does not fit: {shown(here.free_bytes + held_bytes)} are free and "
        f"{shown(here.margin_bytes)} of them are reserved; expected at most {shown(max(usable_bytes, 0))} "
        "(--set target.size=…), or a path with more room (--set target.path=…)",
        key="target.size",
    )


def require_total_room(footprints: Sequence[Footprint], root: Path = ROOT) -> None:
    """StudyError unless all files together fit into each file system, with its margin left.

    What the files hold already counts as free. Of footprints that are not lasting only the largest counts.
    """
    by_device: dict[int, list[Footprint]] = {}
    device_of = cache(lambda folder: existing_folder(folder / "file").stat().st_dev)
    for footprint in footprints:
        by_device.setdefault(device_of(footprint.path.parent), []).append(footprint)
    shown = units.format_size
    for group in by_device.values():
        missing: dict[Path, int] = {}  # what a file takes in addition to what it holds already
        for path, size_bytes in ((each.path, each.size_bytes) for each in group if each.lasting):
            if size_bytes is None:
                raise StudyError(
                    f"how large {path} becomes is computed by the tool, so whether it fits cannot be checked; write "
                    "its size in bytes (size=, filesize=, offset=)"
                )
            missing[path] = max(size_bytes - (path.stat().st_blocks * 512 if path.is_file() else 0), 0)
        passing = max((footprint.size_bytes or 0 for footprint in group if not footprint.lasting), default=0)
        wanted_bytes = sum(missing.values()) + passing
        folder = existing_folder(group[0].path)
        here = room(folder, root)
        usable_bytes = max(here.free_bytes - here.margin_bytes, 0)
        if wanted_bytes <= usable_bytes:
            continue
        largest = max(group, key=lambda footprint: footprint.size_bytes or 0)
        others = sum(1 for size_bytes in missing.values() if size_bytes) - 1
        more = f" and {others} more" if others > 0 else ""
        raise StudyError(
            f"{largest.path} of {shown(largest.size_bytes or 0)}{more} would take {shown(wanted_bytes)} of the file "
            f"system of {folder}: {shown(here.free_bytes)} are free and {shown(here.margin_bytes)} of them are "
            f"reserved; expected at most {shown(usable_bytes)} in all: lower the sizes or the number of files, or name "
            "paths with more room"
        )


def require_record_room(folder: Path, size_bytes: int, root: Path = ROOT) -> None:
    """StudyError unless what a run leaves fits; in a file system that is full already, half of what is free is used."""
    here = room(existing_folder(folder / "record"), root)
    usable_bytes = here.free_bytes - min(here.margin_bytes, here.free_bytes // 2)
    if size_bytes > usable_bytes:
        shown = units.format_size
        raise StudyError(
            f"the tools' logs would take about {shown(size_bytes)} in {folder}: {shown(here.free_bytes)} are free; "
            f"expected at most {shown(usable_bytes)}: average the logs (log_avg_msec), repeat less often, or give "
            "another folder (--output)"
        )


def existing_folder(path: Path) -> Path:
    """The nearest folder that is there: the others are made with the file."""
    return next(folder for folder in path.absolute().parents if folder.is_dir())


_FS_IOC_FIEMAP = 0xC020660B  # linux/fs.h
_HEAD = struct.Struct("=QQIIII")  # start, length, flags, mapped extents, room for extents, reserved
_EXTENT = struct.Struct("=QQQQQIIII")  # logical, physical, length, 2 reserved, flags, 3 reserved
_BATCH = 512
_SYNC = 0x1  # FIEMAP_FLAG_SYNC
_LAST = 0x1
_UNWRITTEN = 0x800
_NO_FIEMAP = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)


def first_unwritten_bytes(path: Path, end_bytes: int | None = None) -> int | None:
    """Offset of the first byte before `end_bytes` (by default the file's end) that was never written, or None.

    Data that is on its way to the disk lies in extents that are unwritten until it has arrived, so a gap counts only
    where it is still one after write-back.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(handle).st_size
        end = size_bytes if end_bytes is None else min(end_bytes, size_bytes)
        gap = _first_gap(handle, end)
        gap = _first_gap(handle, end, _SYNC) if gap < end else gap
    finally:
        os.close(handle)
    return gap if gap < end else None


def _first_gap(handle: int, end: int, how: int = 0) -> int:
    """Where the written part of a file that begins at its first byte ends."""
    reached: int = 0
    while reached < end:
        buffer = bytearray(_HEAD.size + _BATCH * _EXTENT.size)
        _HEAD.pack_into(buffer, 0, reached, end - reached, how, 0, _BATCH, 0)
        try:
            fcntl.ioctl(handle, _FS_IOC_FIEMAP, buffer)
        except OSError as error:
            if error.errno not in _NO_FIEMAP:
                raise
            return os.lseek(handle, 0, os.SEEK_HOLE)
        if (mapped := _HEAD.unpack_from(buffer)[3]) == 0:
            return reached
        for index in range(mapped):
            logical, _, length, _, _, flags, *_ = _EXTENT.unpack_from(buffer, _HEAD.size + index * _EXTENT.size)
            if logical > reached or flags & _UNWRITTEN:
                return reached
            reached = logical + length
            if flags & _LAST:
                return reached
    return reached
