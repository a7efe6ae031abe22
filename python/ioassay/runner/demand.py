"""Is what a trial takes too much for this host? Asked before anything runs, from what its driver says it needs.

A trial that would leave the host without memory, process numbers, open files, terminals, space or inodes is an error
unless its study accepts that. Each resource has several bounds, and a part of each is kept for everybody else. Where
`run.memory_limit` bounds the memory, the host is safe and a warning says how the trial will end. What a driver's
parameters come to is the driver's own knowledge (`Estimate.demand`).
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ioassay import roles, units
from ioassay.errors import StudyError
from ioassay.host import system
from ioassay.host.machine import Machine, whole_number
from ioassay.records.record import Warning_
from ioassay.roles import DISK, FILES, INODES, MEMORY, PROCESSES, TERMINALS, Demand, Need
from ioassay.targets import filesystem

MEMORY_KEPT_SHARE, MEMORY_KEPT_BYTES = 0.1, 256 << 20
"""Of the memory that is available, what is kept: a tenth, at least 256 MiB."""
NUMBERS_KEPT_SHARE = 0.75
"""Of process numbers that are free on the whole host. Every program needs one to start another."""
_OWN_KEPT = 64
"""Of a limit of this user or control group: the lab's own processes and what they start."""
_FILES_KEPT_SHARE = 0.5
_MAPPINGS = 65_530
"""How many mappings a process may have where the kernel does not say (proc_sys_vm(5))."""


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


def check(
    demand: Demand, memory_limit: int | None, folder: Path | None, machine: Machine | None = None
) -> list[Warning_]:
    """Warnings about one trial's demand; StudyError where it takes more than the host can spare.

    `memory_limit` is the trial's own. Its files go to `folder`, None: to storage that is only for it.
    """
    machine = machine or Machine()
    warnings = []
    for need in demand.needs:
        bound = min(_bounds(need.resource, folder, machine), key=lambda bound: bound.usable, default=None)
        amount = _amount(need, bound, machine)
        if math.isinf(amount):
            taken = f"{need.cause} takes {need.resource} without end"
        else:
            of = " of" if need.resource in (MEMORY, DISK) else ""
            taken = f"{need.cause} takes {_number(need.resource, amount)}{of} {need.resource}"
        if need.resource == MEMORY and memory_limit is not None and (bound is None or memory_limit <= bound.usable):
            if amount > memory_limit:  # all that it may have leaves the host what it needs
                limit = units.format_size(memory_limit)
                text = f"{taken}, and run.memory_limit is {limit}: the kernel will end its processes"
                remedy = "raise run.memory_limit, or let it take less"
                warnings.append(Warning_("memory-limit-too-small", f"{text}, and the trial will be failed", remedy))
        elif bound is not None and amount > bound.usable and not demand.accepted:
            free, usable = (_number(need.resource, size) for size in (bound.free, bound.usable))
            remedies = [need.remedy] if need.remedy else []
            if need.resource == MEMORY and bound.usable:
                limit = f"'{int(bound.usable) >> 20}MiB'"
                remedies.append(f"let the kernel end it with run.memory_limit = {limit} or less")
            remedies += [f"accept the harm with {demand.consent}"] if demand.consent else []
            has = f"this host has {free} ({bound.source}), and a trial may take {usable}"
            raise StudyError(f"{taken}; {has}: {', or '.join(remedies)}", key=need.key)
    return warnings


def _number(kind: str, amount: float) -> str:
    return units.format_size(amount) if kind in (MEMORY, DISK) else f"{amount:.0f}"


def _amount(need: Need, bound: Bound | None, machine: Machine) -> float:
    stack_bytes, _ = resource.getrlimit(resource.RLIMIT_STACK)
    bases: dict[str, Callable[[], float]] = {
        "": lambda: 1.0,
        roles.OF_TOTAL: lambda: system.memory(machine).get("total_bytes", 0),
        roles.OF_FREE: lambda: bound.free if bound else 0.0,
        roles.OF_MAPPINGS: lambda: machine.number("proc/sys/vm/max_map_count") or _MAPPINGS,
        roles.OF_STACK: lambda: math.inf if stack_bytes == resource.RLIM_INFINITY else stack_bytes,
    }
    return float(need.amount * bases[need.of]())


def _bounds(kind: str, folder: Path | None, machine: Machine) -> Iterator[Bound]:
    """Every bound of a resource: those of the host, of this user and of its control group, or of a file system."""
    if kind == MEMORY:
        found = {
            "MemAvailable": system.memory(machine).get("available_bytes"),
            "the limit of this control group": system.limits(machine).get("memory_bytes"),
        }
        for source, free_bytes in found.items():
            if free_bytes is not None:
                yield Bound(free_bytes, max(MEMORY_KEPT_SHARE * free_bytes, MEMORY_KEPT_BYTES), source)
    elif kind == PROCESSES:
        yield from _of_processes(machine)
    elif kind == FILES:  # of the whole host (proc_sys_fs(5))
        most, words = machine.number("proc/sys/fs/file-max"), (machine.text("proc/sys/fs/file-nr") or "0").split()
        if most is not None:
            free = max(most - (whole_number(words[0]) or 0), 0)
            yield Bound(free, _FILES_KEPT_SHARE * free, "fs.file-max")
    elif kind == TERMINALS:  # pty(7): without one nobody can log in
        most, taken = (machine.number(f"proc/sys/kernel/pty/{name}") for name in ("max", "nr"))
        if most is not None:
            yield Bound(max(most - (taken or 0), 0), _OWN_KEPT, "kernel.pty.max")
    elif folder is not None and folder.is_dir() and kind == DISK:  # with the margin that files of ours keep
        room = filesystem.room(folder, machine.root)
        yield Bound(room.free_bytes, room.margin_bytes, f"free on {folder}")
    elif folder is not None and folder.is_dir() and kind == INODES:
        facts = os.statvfs(folder)
        inodes = facts.f_favail if facts.f_files else math.inf  # btrfs makes them as it needs them
        yield Bound(inodes, filesystem.MARGIN_SHARE * facts.f_files, f"free on {folder}")


def _of_processes(machine: Machine) -> Iterator[Bound]:
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
