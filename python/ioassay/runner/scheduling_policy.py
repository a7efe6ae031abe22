"""Scheduling policy, processors and niceness of one process: set, and read back as the kernel has them.

Also which processors are left to the lab under a real-time policy, where nothing else runs on those of the load.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ioassay.errors import ConditionError
from ioassay.records.record import Warning_
from ioassay.study.run_conditions import Conditions
from ioassay.units import format_processors, parse_processors

_NUMBERS = {
    "other": os.SCHED_OTHER,
    "fifo": os.SCHED_FIFO,
    "rr": os.SCHED_RR,
    "batch": os.SCHED_BATCH,
    "idle": os.SCHED_IDLE,
}
_MAY = "run as root (with sudo), allow it with 'ulimit -r' and 'ulimit -e', or give the container CAP_SYS_NICE"


@dataclass(frozen=True)
class Share:
    """Who runs where: processors of the load (None: not asked) and, under a real-time policy, of the lab."""

    load: frozenset[int] | None
    lab: frozenset[int] | None = None
    warning: Warning_ | None = None


def share(wanted: Conditions, root: Path = Path("/")) -> Share:
    """How a host's processors are shared; ConditionError where it lacks one that is asked for, or has none to leave."""
    allowed = frozenset(os.sched_getaffinity(0))
    asked = parse_processors(wanted.affinity) if wanted.affinity is not None else None
    online = parse_processors((root / "sys/devices/system/cpu/online").read_text().strip())
    if asked is not None and (absent := asked - online):
        raise ConditionError(
            f"run.affinity = {wanted.affinity}: this host has no processor {format_processors(absent)}; "
            f"it has {format_processors(online)}"
        )
    return _shared(wanted, asked, allowed) if wanted.real_time else Share(asked)


def _shared(wanted: Conditions, asked: frozenset[int] | None, allowed: frozenset[int]) -> Share:
    load = allowed if asked is None else asked
    if lab := allowed - load:
        return Share(load, lab)
    spared = min(allowed)  # the first, which has most of the interrupts
    if not (rest := load - {spared}):
        raise ConditionError(
            f"run.scheduler = {wanted.scheduler}: under a real-time policy one processor is left to the runner, its "
            f"monitors and the watchdog, and it may run on processor {spared} only; expected a host with two or more"
        )
    kept = format_processors(rest)
    text = f"run.scheduler = {wanted.scheduler}: runs on {kept}, since processor {spared} is left to the lab"
    return Share(rest, frozenset({spared}), Warning_("affinity-narrowed", text, f"set run.affinity = '{kept}'"))


@contextmanager
def lab_on(processors: frozenset[int]) -> Iterator[None]:
    """This thread, and what it starts, on those processors only; afterwards as before."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def put(pid: int, wanted: Conditions, load: frozenset[int] | None) -> None:
    """Set what is asked for; the policy last, so that nothing is done under it here. ConditionError: not allowed."""
    if load is not None:
        with _refused(
            f"run.affinity = {format_processors(load)}", "expected processors that the runner's own cpuset has"
        ):
            os.sched_setaffinity(pid, load)
    if wanted.nice is not None:
        with _refused(f"run.nice = {wanted.nice}", _MAY):
            os.setpriority(os.PRIO_PROCESS, pid, wanted.nice)
    if wanted.scheduler is not None:
        policy, _, priority = wanted.scheduler.partition(":")
        with _refused(f"run.scheduler = {wanted.scheduler}", _MAY):
            os.sched_setscheduler(pid, _NUMBERS[policy], os.sched_param(int(priority or 0)))


@contextmanager
def _refused(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConditionError(f"{what}: the kernel refused ({error.strerror}); {remedy}") from None


def effective_policy(pid: int) -> dict[str, str | int]:
    """What the kernel says of a process: scheduler, affinity and nice, in the spelling of a study."""
    number, priority = os.sched_getscheduler(pid), os.sched_getparam(pid).sched_priority
    name = next((name for name, known in _NUMBERS.items() if known == number), str(number))
    status = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    allowed = next(line.split()[1] for line in status if line.startswith("Cpus_allowed_list:"))
    return {
        "scheduler": f"{name}:{priority}" if priority else name,
        "affinity": allowed,
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
    }
