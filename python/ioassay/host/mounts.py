"""What is mounted and what is swap, in every mount namespace that can be seen: reads /proc below an injected root.

A namespace that no visible process is in cannot be read this way; an exclusive open of the device finds its mounts
all the same (`safety`). Sources: proc_pid_mountinfo(5), proc_swaps(5), mount_namespaces(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioassay.errors import ToolError
from ioassay.host import block_devices
from ioassay.host.block_devices import ROOT, FileId, Number

HERE = "this namespace"
_ANONYMOUS_MAJOR = 0
_POOLED = ("btrfs", "bcachefs")
"""File systems over several devices: mountinfo shows a number that is no device, and one of the devices' names."""


@dataclass(frozen=True)
class Mount:
    number: Number
    point: str
    kind: str
    """Type of the file system."""
    source: str
    options: frozenset[str]
    """Options of the mount and of the file system."""
    namespace: str
    devices: frozenset[Number]
    """The block devices behind it, as far as number and source tell."""


@dataclass(frozen=True)
class Swap:
    path: str
    number: Number | None
    file: FileId | None


def mounts(root: Path = ROOT) -> list[Mount]:
    """All mounts of this namespace, then those of the others, each namespace once."""
    own = root / "proc/self/mountinfo"
    found = list(_parsed(_text(own), own, HERE, root, root))
    seen = {_namespace(root / "proc/self")}
    processes = (path for path in (root / "proc").iterdir() if path.name.isdecimal())
    for process in sorted(processes, key=lambda path: int(path.name)):
        name = _namespace(process)
        if name and name not in seen:
            seen.add(name)
            where = f"the mount namespace of process {process.name} ({_text(process / 'comm').strip()})"
            table = process / "mountinfo"
            found += _parsed(_text(table), table, where, process / "root", root)
    return found


def mount_of(path: Path, root: Path = ROOT) -> Mount | None:
    """The mount that a resolved path lies on; of several over each other, the topmost."""
    best, most = "", -1
    for line in _text(root / "proc/self/mountinfo").split("\n"):
        point = _unescape(line.split(" ", 5)[4]) if line.count(" ") > 5 else ""
        if len(point) >= most and point and f"{path}/".startswith(f"{point.rstrip('/')}/"):
            best, most = line, len(point)
    return next(_parsed(best, root / "proc/self/mountinfo", HERE, root, root), None)


def swaps(root: Path = ROOT) -> list[Swap]:
    found = []
    for line in filter(str.strip, _text(root / "proc/swaps").split("\n")[1:]):
        path = _unescape(line.split()[0])
        found.append(Swap(path, _device_named(path, root, root), block_devices.file_id(root / path.lstrip("/"))))
    return found


def pooled(root: Path = ROOT) -> dict[Number, str]:
    """Devices of the mounted file systems that span several: btrfs and bcachefs list them in sysfs."""
    found: dict[Number, str] = {}
    for pattern, kind in (("btrfs/*/devices/*/dev", "btrfs"), ("bcachefs/*/dev-*/block/dev", "bcachefs")):
        for path in sorted((root / "sys/fs").glob(pattern)):
            if text := _text(path):  # it may have been unmounted meanwhile
                found[_number(text, str(path))] = kind
    return found


def _parsed(text: str, table: Path, namespace: str, view: Path, root: Path) -> Iterator[Mount]:
    """Lines of one mountinfo; `view` is the root folder as that namespace sees it."""
    for number, line in enumerate(text.split("\n"), 1):
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) < 6 or len(tail) < 2:
            continue
        device, kind, source = _number(fields[2], f"{table}: line {number}"), tail[0], _unescape(tail[1])
        devices = [device] if device.major != _ANONYMOUS_MAJOR else []
        # The source of a network or FUSE mount may be a path that hangs when it is looked at: only these are.
        if not devices and (source.startswith("/dev/") or (kind in _POOLED and source.startswith("/"))):
            named = (_device_named(name, view, root) for name in source.split(":"))
            devices = [one for one in named if one is not None]
        yield Mount(
            number=device,
            point=_unescape(fields[4]),
            kind=kind,
            source=source,
            options=frozenset((*fields[5].split(","), *(tail[2].split(",") if len(tail) > 2 else ()))),
            namespace=namespace,
            devices=frozenset(devices),
        )


def _number(text: str, place: str) -> Number:
    """ToolError where the kernel does not say what is mounted: nothing may be written then."""
    try:
        return Number.parse(text)
    except ValueError:
        raise ToolError(f"{place}: the device is {text.strip()[:40]!r}; expected major:minor") from None


def _device_named(path: str, view: Path, root: Path) -> Number | None:
    """The number behind a name in another namespace; by the kernel's name where the node is not there."""
    found = block_devices.number_of(view / path.lstrip("/"))
    if found is None and path.startswith("/dev/"):
        known = block_devices.named(path.removeprefix("/dev/").removesuffix(" (deleted)"), root)
        found = known.number if known is not None else None
    return found


def _namespace(process: Path) -> str:
    try:
        return str((process / "ns/mnt").readlink())
    except OSError:
        return ""


def _unescape(field: str) -> str:
    r"""Undo the kernel's octal escapes of space, tab, newline and backslash (`\040`)."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), field)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:
        return ""
