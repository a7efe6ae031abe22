"""Who uses a device or its family now: mounts in any namespace, swap, md, dm, bcache, loop devices, programs.

Finds and describes; `safety` decides. Reads /proc, /sys and /dev below an injected root, and opens devices for
reading only: an exclusive open that fails (EBUSY, open(2)) is the kernel's own word that a device is claimed, also
from where nothing else can be seen. The claims that this process takes itself are here too (`take`).
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ioassay.errors import SafetyRefusal, ToolError
from ioassay.host import block_devices, mounts
from ioassay.host.block_devices import BACKING, HOLDER, LOOP, PARTITION, SELF, TWIN, Device, Member, Number, text_of
from ioassay.targets import occupancy

_MOUNTS_SHOWN = 4
_SYSTEM_POINTS = ("/", "/usr", "/boot", "/boot/efi", "/var", "/home")
_ACCESS_MODE = 0o3  # O_ACCMODE of fdinfo's octal flags, proc_pid_fdinfo(5)


@dataclass(frozen=True)
class Finding:
    """One reason not to write. `text` is a sentence that names what and where."""

    text: str
    in_use: bool
    """True: consent does not cover it."""
    remedies: tuple[str, ...] = ()
    """The commands that end the use, in their order."""
    beside: bool = False
    """True: not the target itself is in use, but something beside it on the same disk."""


@dataclass(frozen=True)
class Family:
    """A target with everything that shares its bytes or lies beside it."""

    members: Sequence[Member]
    path: Path
    """The node by which the target was named."""
    root: Path
    _known: dict[Number, str] = field(default_factory=dict)

    @property
    def target(self) -> Device:
        return self.members[0].device

    def node(self, device: Device) -> Path | None:
        return self.path if device.number == self.target.number else block_devices.node_of(device, self.root)

    def title(self, member: Member) -> str:
        """A member for people: `/dev/sda1 (ext4, label data), a partition of sda,`."""
        number = member.device.number
        if number not in self._known:
            node, found = self.node(member.device), []
            with suppress(ToolError):  # only the name suffers: `safety` asks for the target's own formats, and refuses
                found = occupancy.signatures(node) if node is not None else []
            self._known[number] = f" ({'; '.join(map(str, found))})" if found else ""
        name = f"/dev/{member.device.name}{self._known[number]}"
        return f"{name}, {member.role.format(via=member.via)}," if member.role else name


def family(target: Device, path: Path, root: Path) -> Family:
    return Family(block_devices.family(target, root), path, root)


def uses(of: Family) -> list[Finding]:
    """All uses that can be seen. What lies beside the target is a finding that consent covers."""
    return [*_mounted(of), *_built_on(of), *_programs(of), *_exported(of)]


def _mounted(of: Family) -> Iterator[Finding]:
    table, pools = mounts.mounts(of.root), mounts.pooled(of.root)
    for member in of.members:
        number = member.device.number
        here = list({mount.point: mount for mount in reversed(table) if number in mount.devices}.values())[::-1]
        for mount in here[:_MOUNTS_SHOWN]:
            elsewhere = "" if mount.namespace == mounts.HERE else f" (in {mount.namespace})"
            remedy = f"umount {shlex.quote(mount.point)}{elsewhere}"
            if mount.point in _SYSTEM_POINTS:
                remedy = f"choose another device (the system runs from {mount.point})"
            yield _use(member, f"{of.title(member)} is mounted on {mount.point} in {mount.namespace}", remedy)
        if number in pools and not here:
            what = f"belongs to a {pools[number]} file system that is mounted"
            yield _use(member, f"{of.title(member)} {what}", "unmount it")
    active = {swap.number: swap for swap in mounts.swaps(of.root) if swap.number is not None}
    for member in of.members:
        if (swap := active.get(member.device.number)) is not None:
            yield _use(member, f"{of.title(member)} is active swap", f"swapoff {shlex.quote(swap.path)}")


def _built_on(of: Family) -> Iterator[Finding]:
    for member in of.members:
        device = member.device
        if member.role == HOLDER:
            kind, remedy = _holder(device)
            yield _use(member, f"/dev/{device.name} ({kind}) is built on {member.via}", remedy)
        elif member.role == LOOP:
            text = f"the loop device /dev/{device.name} lies over {member.via}"
            yield _use(member, text, f"losetup -d /dev/{device.name}")
        elif member.role == TWIN:
            yield Finding(f"/dev/{device.name} is another way to the data of {member.via}", False)
        elif member.role == PARTITION and member.overlaps:
            yield Finding(f"{of.title(member).rstrip(',')}, would be overwritten", False)


def _holder(device: Device) -> tuple[str, str]:
    """What sysfs says of a holder (`dm LVM vg-home`, `md raid1`, `bcache`), and the command that stops it."""
    folder, node = device.folder, f"/dev/{device.name}"
    if (folder / "dm").is_dir():
        uuid, name = (text_of(folder / "dm" / file) for file in ("uuid", "name"))
        kind = f"device mapper {uuid.partition('-')[0]} {name}".replace("  ", " ")
        return kind, f"dmsetup remove {shlex.quote(name)}"
    if (folder / "md").is_dir():
        return f"md {text_of(folder / 'md/level')}", f"mdadm --stop {node}"
    return "bcache" if (folder / "bcache").is_dir() else "a block device", f"stop {node}"


def _programs(of: Family) -> Iterator[Finding]:
    """Other programs that have the device open for writing: a virtual machine, a database on a raw device."""
    members = {member.device.number: member for member in of.members if member.overlaps}
    seen = set()
    for pid, number in _writers(of.root):
        if number in members and (pid, number) not in seen:
            seen.add((pid, number))
            process = of.root / "proc" / str(pid)
            name = text_of(process / "comm")
            if not name and not process.exists():
                continue  # it has ended meanwhile
            what = f"is open for writing in process {pid} ({name})"
            yield _use(members[number], f"{of.title(members[number])} {what}", f"end process {pid}")


def _exported(of: Family) -> Iterator[Finding]:
    """Devices that this machine serves to others by NVMe over Fabrics: the kernel's target claims none of them."""
    for space in sorted((of.root / "sys/kernel/config/nvmet/subsystems").glob("*/namespaces/*")):
        path = text_of(space / "device_path")
        number = block_devices.number_of(of.root / path.lstrip("/")) if path else None
        for member in of.members:
            if member.device.number == number and text_of(space / "enable") == "1":
                what = f"is served to other machines as {space.parent.parent.name} (NVMe over Fabrics)"
                yield _use(member, f"{of.title(member)} {what}", f"echo 0 > {space}/enable")


def _writers(root: Path) -> Iterator[tuple[int, Number]]:
    for process in (root / "proc").iterdir():
        if not process.name.isdecimal() or int(process.name) == os.getpid():
            continue
        try:
            entries = list((process / "fd").iterdir())
        except OSError:
            continue  # gone, or not ours to see
        for entry in entries:
            with suppress(OSError):  # closed meanwhile
                # Only names below /dev are followed: looking at a file of a dead network server hangs.
                if str(entry.readlink()).startswith("/dev/") and (number := block_devices.number_of(entry)) is not None:
                    flags = (process / "fdinfo" / entry.name).read_text().partition("flags:")[2].split()[0]
                    if int(flags, 8) & _ACCESS_MODE != os.O_RDONLY:
                        yield int(process.name), number


def claimed(of: Family, ours: Sequence[Number] = ()) -> list[Finding]:
    """Devices of the family that the kernel holds exclusively. `ours` are those that this process claims itself."""
    found = []
    for member in of.members:
        node = of.node(member.device)
        if member.role not in (SELF, TWIN, BACKING) or node is None or member.device.number in ours:
            continue
        try:
            os.close(os.open(node, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as error:
            what = f"cannot be opened to see whether something holds it: {error.strerror}"
            remedy = "run as root" if error.errno in (errno.EPERM, errno.EACCES) else ""
            if error.errno == errno.EBUSY:
                hidden = "mounted out of sight, part of a RAID or a pool, or being tested"
                what, remedy = f"is held by the kernel or another program: {hidden}", "end that use"
            found.append(_use(member, f"{of.title(member)} {what}", remedy))
    return found


def _use(member: Member, text: str, remedy: str) -> Finding:
    if member.overlaps:
        return Finding(text, True, (remedy,) if remedy else ())
    return Finding(f"{text} (beside the target, on the same disk)", False, beside=True)


_held: dict[Number, tuple[int, int]] = {}


def take(number: Number, path: Path) -> None:
    """Claim a device, or count one more user of a claim. SafetyRefusal when somebody else was faster."""
    if number in _held:
        handle, users = _held[number]
        _held[number] = (handle, users + 1)
        return
    try:
        # For reading: the close of a descriptor open for writing makes udev probe the device again.
        handle = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        raise SafetyRefusal(f"{path}: refused, nothing was written: something took it into use just now") from None
    if os.fstat(handle).st_rdev != os.makedev(*number):
        os.close(handle)
        raise SafetyRefusal(f"{path}: refused, nothing was written: it leads to another device since it was looked at")
    _held[number] = (handle, 1)


def give_back(number: Number) -> None:
    """Give back one use of a claim; the last one ends it."""
    handle, users = _held.pop(number)
    if users > 1:
        _held[number] = (handle, users - 1)
    else:
        os.close(handle)


def held() -> list[Number]:
    return list(_held)
