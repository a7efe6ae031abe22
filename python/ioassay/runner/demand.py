"""Is what a trial takes too much for this host? Asked before anything runs, from what its driver says it needs.

A trial that would leave the host without memory, process numbers, open files, terminals, space or inodes is an error
unless its study accepts that. Where `run.memory_limit` bounds the memory, the host is safe and a warning says how the
trial will end. What a driver's parameters come to is the driver's own knowledge (`Estimate.demand`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from ioassay import units
from ioassay.errors import StudyError
from ioassay.host import capacity
from ioassay.host.capacity import Bound
from ioassay.host.machine import Machine
from ioassay.records.record import Warning_
from ioassay.roles import (
    DISK,
    FILES,
    MEMORY,
    OF_FREE,
    OF_MAPPINGS,
    OF_STACK,
    OF_TOTAL,
    PROCESSES,
    TERMINALS,
    Demand,
    Need,
)
from ioassay.targets import filesystem

_IN_BYTES = (MEMORY, DISK)


def check(
    demand: Demand, memory_limit: int | None, folder: Path | None, machine: Machine | None = None
) -> list[Warning_]:
    """Warnings about one trial's demand; StudyError where it takes more than the host can spare.

    `memory_limit` is the trial's own. Its files go to `folder`, None: to storage that is only for it.
    """
    machine = machine or Machine()
    warnings = []
    for need in demand.needs:
        bound = capacity.tightest(_bounds(need.resource, folder, machine))
        amount = _amount(need, bound, machine)
        if need.resource == MEMORY and memory_limit is not None and (bound is None or memory_limit <= bound.usable):
            if amount > memory_limit:  # all that it may have leaves the host what it needs
                limit = units.format_size(memory_limit)
                text = (
                    f"{need.cause} takes {_shown(need.resource, amount)}, and run.memory_limit is {limit}: the kernel "
                    "will end its processes, and the trial will be failed"
                )
                remedy = "raise run.memory_limit, or let it take less"
                warnings.append(Warning_("memory-limit-too-small", text, remedy))
        elif bound is not None and amount > bound.usable and not demand.accepted:
            raise StudyError(_refusal(need, amount, bound, demand.consent), key=need.key)
    return warnings


def _bounds(resource: str, folder: Path | None, machine: Machine) -> Iterator[Bound]:
    host = {
        MEMORY: capacity.memory,
        PROCESSES: capacity.processes,
        FILES: capacity.files,
        TERMINALS: capacity.terminals,
    }
    if resource in host:
        yield from host[resource](machine)
    elif folder is not None and folder.is_dir():  # space and inodes, with the margin that files of ours keep
        if resource == DISK:
            room = filesystem.room(folder, machine.root)
            yield Bound(room.free_bytes, room.margin_bytes, f"free on {folder}")
        else:
            facts = os.statvfs(folder)
            free = facts.f_favail if facts.f_files else math.inf  # btrfs makes them as it needs them
            yield Bound(free, filesystem.MARGIN_SHARE * facts.f_files, f"free on {folder}")


def _amount(need: Need, bound: Bound | None, machine: Machine) -> float:
    bases = {
        "": lambda: 1.0,
        OF_TOTAL: lambda: capacity.total_memory_bytes(machine),
        OF_FREE: lambda: bound.free if bound else 0.0,
        OF_MAPPINGS: lambda: capacity.mappings(machine),
        OF_STACK: capacity.stack_bytes,
    }
    return need.amount * bases[need.of]()


def _refusal(need: Need, amount: float, bound: Bound, consent: str) -> str:
    free, usable = (_number(need.resource, size) for size in (bound.free, bound.usable))
    remedies = [need.remedy] if need.remedy else []
    if need.resource == MEMORY and bound.usable:
        remedies.append(f"let the kernel end it with run.memory_limit = '{int(bound.usable) >> 20}MiB' or less")
    remedies += [f"accept the harm with {consent}"] if consent else []
    return (
        f"{need.cause} takes {_shown(need.resource, amount)}; this host has {free} ({bound.source}), and a trial may "
        f"take {usable}: {', or '.join(remedies)}"
    )


def _shown(resource: str, amount: float) -> str:
    if math.isinf(amount):
        return f"{resource} without end"
    return f"{_number(resource, amount)} of {resource}" if resource in _IN_BYTES else f"{amount:.0f} {resource}"


def _number(resource: str, amount: float) -> str:
    return units.format_size(amount) if resource in _IN_BYTES else f"{amount:.0f}"
