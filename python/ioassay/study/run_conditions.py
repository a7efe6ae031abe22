"""What a study may ask of a trial's conditions, and how it is written: checked as text and numbers, nothing more.

Whether this host can do it is asked by `policy` and `cgroup`. A value is returned as it is stored in a plan, in one
spelling; ValueError says what was wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ioassay import units
from ioassay.hints import nearest

REAL_TIME = ("fifo", "rr")
NORMAL = ("other", "batch", "idle")
LEAST_MEMORY_BYTES = 2**20
"""Less than this is not enough to start a program."""
LEAST_CORES = 0.01
"""The kernel's least quota is 1 ms, of periods of 100 ms (Documentation/scheduler/sched-bwc.rst)."""
_NICE = range(-20, 20)
_PRIORITIES = range(1, 100)  # sched(7)


@dataclass(frozen=True)
class Conditions:
    """What one trial's processes run under; None: as the runner itself does."""

    scheduler: str | None = None
    """`fifo:<priority>`, `rr:<priority>`, `other`, `batch` or `idle`."""
    affinity: str | None = None
    """A list of processors such as `0-2,5`."""
    nice: int | None = None
    cpu_limit: float | None = None
    """Processors' worth of time: 1.5 is 150 %."""
    memory_limit: int | None = None
    """Bytes, swap included."""

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Conditions:
        """Those of a trial's `run`, as `study.Run` validated it."""
        return cls(**{key: run.get(key) for key in KEYS})

    def __bool__(self) -> bool:
        return self != Conditions()

    @property
    def real_time(self) -> bool:
        """Whether nothing of normal priority runs where these processes run."""
        return self.scheduler is not None and self.scheduler.split(":")[0] in REAL_TIME

    @property
    def limits(self) -> bool:
        return self.cpu_limit is not None or self.memory_limit is not None

    @property
    def text(self) -> str:
        """For messages: `run.scheduler = fifo:99, run.nice = 5`."""
        given = ((key, getattr(self, key)) for key in KEYS)
        return ", ".join(f"run.{key} = {value}" for key, value in given if value is not None)


KEYS = tuple(Conditions.__dataclass_fields__)


def scheduler(value: Any) -> str:
    """`fifo:99`, `rr:1`, `batch`, `idle`, `other`."""
    policy, colon, priority = str(value).strip().lower().partition(":")
    if policy == "deadline":
        # sched(7): fork fails with EAGAIN under SCHED_DEADLINE, unless children fall back to the normal policy.
        raise ValueError("a program under the deadline policy may not start others, so no load could be made by it")
    if policy in NORMAL and not colon:
        return policy
    if policy in REAL_TIME and priority.isdecimal() and int(priority) in _PRIORITIES:
        return f"{policy}:{int(priority)}"
    raise ValueError(
        "expected 'fifo:<priority>' or 'rr:<priority>' with a priority from 1 to 99, 'other', 'batch', 'idle'"
        + nearest(policy, (*REAL_TIME, *NORMAL))
    )


def affinity(value: Any) -> str:
    """A list of processors such as `0-2,5`, or the number of one."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("expected a list of processors such as '0-2,5'")
    return units.format_processors(units.parse_processors(str(value)))


def nice(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in _NICE:
        raise ValueError("expected a whole number from -20 to 19")
    return value


def cores(value: Any) -> float:
    """Processors' worth of time: `150%` and 1.5 are the same."""
    try:
        number = units.parse_share(value)
    except ValueError:
        number = 0.0
    if isinstance(value, bool) or not LEAST_CORES <= number <= units.MOST_CPUS:
        raise ValueError(
            f"expected a share of one processor such as '150%', or a number of them such as 1.5, at least {LEAST_CORES}"
        )
    return number


def size_bytes(value: Any) -> int:
    """A size such as `1GiB`."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("not a size; expected for example '1GiB' or a number of bytes")
    return units.parse_size(value)


def memory_bytes(value: Any) -> int:
    """A size such as `1GiB`, at least 1 MiB."""
    if not LEAST_MEMORY_BYTES <= (size := size_bytes(value)) < 2**63:
        raise ValueError("expected 1MiB or more: no program could start in less")
    return size
