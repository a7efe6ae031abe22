"""What the host has to give to one more program: memory, process numbers, open files, pseudoterminals.

Each resource has several bounds, and a part of each is kept for everybody else. Deliberately not here: space on a disk
(`targets.filesystem`), and whether what a trial takes is too much (`preflight`).
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from ioassay.host import system
from ioassay.host.machine import Machine, whole_number

MEMORY_KEPT_SHARE, MEMORY_KEPT_BYTES = 0.1, 256 << 20
"""Of the memory that is available, what is kept: a tenth, at least 256 MiB."""
NUMBERS_KEPT_SHARE = 0.75
"""Of process numbers that are free on the whole host. Every program needs one to start another."""
_OWN_KEPT = 64
"""Of a limit of this user or control group: the lab's own processes and what they start."""
_FILES_KEPT_SHARE = 0.5


@dataclass(frozen=True)
class Bound:
    """What is free of a resource by one of its limits, and how much of that is kept."""

    free: float
    kept: float
    source: str
    """What says so: `MemAvailable`, `kernel.pid_max`."""

    @property
    def usable(self) -> float:
        return max(self.free - self.kept, 0.0)


def tightest(bounds: Iterator[Bound]) -> Bound | None:
    """The bound that leaves least; None where nothing is known."""
    return min(bounds, key=lambda bound: bound.usable, default=None)


def memory(machine: Machine) -> Iterator[Bound]:
    """In bytes."""
    found = {
        "MemAvailable": system.memory(machine).get("available_bytes"),
        "the limit of this control group": system.limits(machine).get("memory_bytes"),
    }
    for source, free_bytes in found.items():
        if free_bytes is not None:
            yield Bound(free_bytes, max(MEMORY_KEPT_SHARE * free_bytes, MEMORY_KEPT_BYTES), source)


def processes(machine: Machine) -> Iterator[Bound]:
    """Processes and threads, which share their numbers (kernel.pid_max, kernel.threads-max)."""
    words = (machine.text("proc/loadavg") or "").split()
    taken = whole_number(words[3].rpartition("/")[2]) or 0 if len(words) > 3 else 0
    for name in ("pid_max", "threads-max"):
        most = machine.number(f"proc/sys/kernel/{name}")
        if most is not None:
            free = max(most - taken, 0)
            yield Bound(free, NUMBERS_KEPT_SHARE * free, f"kernel.{name}")
    free_in_group = system.limits(machine).get("processes")
    if free_in_group is not None:
        yield Bound(free_in_group, _OWN_KEPT, "pids.max of this control group")
    most_own, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.geteuid() and most_own != resource.RLIM_INFINITY:  # getrlimit(2): no bound for root
        own = 0
        for path in machine.paths("proc/[0-9]*"):
            with suppress(OSError):
                own += len(os.listdir(path / "task")) if path.stat().st_uid == os.getuid() else 0
        yield Bound(max(most_own - own, 0), _OWN_KEPT, "ulimit -u")


def files(machine: Machine) -> Iterator[Bound]:
    """Open files of the whole host (proc_sys_fs(5))."""
    most, words = machine.number("proc/sys/fs/file-max"), (machine.text("proc/sys/fs/file-nr") or "0").split()
    if most is not None:
        free = max(most - (whole_number(words[0]) or 0), 0)
        yield Bound(free, _FILES_KEPT_SHARE * free, "fs.file-max")


def terminals(machine: Machine) -> Iterator[Bound]:
    """Pseudoterminals (pty(7)): without one nobody can log in."""
    most, taken = (machine.number(f"proc/sys/kernel/pty/{name}") for name in ("max", "nr"))
    if most is not None:
        yield Bound(max(most - (taken or 0), 0), _OWN_KEPT, "kernel.pty.max")


def total_memory_bytes(machine: Machine) -> float:
    return float(system.memory(machine).get("total_bytes", 0))


def mappings(machine: Machine) -> float:
    """How many mappings a process may have (proc_sys_vm(5))."""
    return float(machine.number("proc/sys/vm/max_map_count") or 65_530)


def stack_bytes() -> float:
    soft_bytes, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return math.inf if soft_bytes == resource.RLIM_INFINITY else float(soft_bytes)
