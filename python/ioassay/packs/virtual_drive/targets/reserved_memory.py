"""Memory and processors that the kernel was told at boot to leave alone: what NVMeVirt takes for its drive.

Reads /proc/iomem, /proc/cmdline and /sys/devices/system/cpu below an injected root; says what is missing and the words
that the boot line needs. Memory counts as ours to give away only where both say so: other reserved memory is the
firmware's. Sources: Documentation/admin-guide/kernel-parameters.txt (memmap=, isolcpus=), kernel/resource.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ioassay import units
from ioassay.host.block_devices import ROOT

_RESERVED = "reserved"
_SUFFIXES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
_AFTER = "add it to the kernel's command line (in GRUB_CMDLINE_LINUX, where $ is written \\\\\\$), and boot again"


def memory_lack(start_bytes: int, size_bytes: int, root: Path = ROOT) -> str:
    """Why that memory cannot be had, with the boot line to add; empty when it is reserved for it."""
    wanted = f"memmap={_short(size_bytes)}${_short(start_bytes)}"
    end_bytes = start_bytes + size_bytes
    ours = [(start, end) for start, end in reserved_regions(root) if start <= start_bytes and end_bytes <= end]
    kinds = sorted({kind for start, end, kind in regions(root) if start < end_bytes and start_bytes < end})
    covered = any(
        start <= start_bytes and end_bytes <= end and kind.lower() == _RESERVED for start, end, kind in regions(root)
    )
    if ours and covered:
        return ""
    if ours:
        found = ", ".join(kinds) or "nothing"
        return f"{wanted} is on the command line, but /proc/iomem has {found} there; choose memory that the machine has"
    said = [word for word in _words(root) if word.startswith("memmap=")]
    beside = f"; found {' '.join(said)}" if said else ""
    if said and not any("$" in word for word in said):
        beside += ", whose $ the boot loader took for its own"
    return f"the kernel was not told to leave this memory alone: wanted {wanted} at boot{beside}; {_AFTER}"


def regions(root: Path = ROOT) -> list[tuple[int, int, str]]:
    """Start, end (exclusive) and kind of each region that lies in no other; without root all addresses are 0."""
    found = []
    for line in (root / "proc/iomem").read_text().splitlines():
        span, separator, kind = line.partition(" : ")
        if separator and not line.startswith(" "):
            first, _, last = span.partition("-")
            found.append((int(first, 16), int(last, 16) + 1, kind.strip()))
    return found


def reserved_regions(root: Path = ROOT) -> Iterator[tuple[int, int]]:
    """Start and end (exclusive) of each region that the command line reserves: `memmap=SIZE$START`."""
    for word in _words(root):
        for part in word.removeprefix("memmap=").split(",") if word.startswith("memmap=") else ():
            size, separator, start = part.partition("$")
            size_bytes, start_bytes = _number(size), _number(start)
            if separator and size_bytes is not None and start_bytes is not None:
                yield start_bytes, start_bytes + size_bytes


def absent(cpus: Sequence[int], root: Path = ROOT) -> list[int]:
    """Those that are no processors of this machine, or are off."""
    online = _processors(root / "sys/devices/system/cpu/online")
    return [cpu for cpu in cpus if cpu not in online]


def isolation_lack(cpus: Sequence[int], root: Path = ROOT) -> str:
    """Which of them other programs may be put on, with the boot line to add; empty when none."""
    isolated = _processors(root / "sys/devices/system/cpu/isolated")
    shared = [cpu for cpu in cpus if cpu not in isolated]
    if not shared:
        return ""
    names = ",".join(map(str, cpus))
    which = f"processor{'s' if len(shared) > 1 else ''} {','.join(map(str, shared))}"
    return f"{which}: other programs may run there: boot with isolcpus={names}"


def _words(root: Path) -> list[str]:
    return (root / "proc/cmdline").read_text(errors="replace").split()


def _number(text: str) -> int | None:
    """As memparse() of lib/cmdline.c reads it; None for anything else."""
    match = re.fullmatch(r"(0x[0-9a-f]+|[0-9]+)([kmgtpe]?)", text.lower())
    return None if match is None else int(match[1], 0 if "x" in match[1] else 10) * _SUFFIXES.get(match[2], 1)


def _short(size_bytes: int) -> str:
    """512M, 1G: as the kernel reads it."""
    unit = next((name for name in "gmk" if size_bytes and size_bytes % _SUFFIXES[name] == 0), "")
    return f"{size_bytes // _SUFFIXES.get(unit, 1)}{unit.upper()}"


def shown(start_bytes: int, size_bytes: int) -> str:
    """For people: `512 MiB at 1 GiB`."""
    return f"{units.format_size(size_bytes)} at {units.format_size(start_bytes)}"


def _processors(path: Path) -> frozenset[int]:
    """A list such as `0-3,6` (cpulist of the kernel); empty where there is none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return frozenset()
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
