"""Why a response stops growing over a number of workers or a load: which resource was used up at that level.

A cause is a counter that is at its limit where the gain ends, or that certainly rises from the level before to the
level after, by the model of condition means that every claim about a response rests on. Counters share the risk. Where
none does, the cause is NONE. What was not measured can be no cause. Sentences are made elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from ioassay.analysis.effects.level_contrasts import LevelFamily
from ioassay.analysis.measurements.resource_use import FLOORS, SHARES, Use, resource_use
from ioassay.stats.condition_means import Scale, fit
from ioassay.stats.contrasts import Contrasts
from ioassay.stats.result import Floats, Undefined, mean_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

FULL = 0.9
"""From this share of its time or limit on, a resource is used up."""
NEARLY = 0.8
"""The same at the level where the gain ends, when the next one is above FULL: its last worker fills the rest."""
WAITING = 0.2
"""Least share of the time that tasks wait, for memory, for packets that are lost, or in a run queue."""
STALLED = 0.1
GROWTH = 1.5
"""Least factor by which a number per operation rises where operations get in each other's way."""
IN_PROPORTION = 0.7
"""Least share of the growth of the load by which latency rises when requests queue (Little's law)."""
FEWEST_FAULTS = 100.0
"""Major page faults a second that hold a load up."""


class Cause(StrEnum):
    """What is used up; in the order in which candidates are tried, the narrower limit first."""

    QUOTA = "CPU limit"
    MEMORY = "memory"
    IO_LIMIT = "I/O limit"
    PROCESSORS = "processors"
    DISK = "disk"
    LOCK = "lock"
    RUN_QUEUE = "run queue"
    NETWORK = "network"
    STALLS = "memory bandwidth"
    CONTENTION = "contention"
    NONE = "none"


class PerOperation(StrEnum):
    """Numbers of one operation: a rate of the machine over the response, and the time of a request."""

    SWITCHES = "voluntary context switches per operation"
    CPU = "CPU time per operation"
    LATENCY = "latency"


Counter = Use | PerOperation


@dataclass(frozen=True)
class Reading:
    """One counter: its means at the levels before, at and after the end of the gain.

    `rises`: it is certainly higher after than before; `reaches`: certainly higher at the end than before.
    """

    counter: Counter
    before: float
    end: float
    after: float
    rises: bool
    reaches: bool

    @property
    def changes(self) -> bool:
        """True if it rises to the end of the gain or beyond."""
        return self.rises or self.reaches

    @property
    def factor(self) -> float:
        """How many times as high it is after; infinite where it was 0."""
        return self.after / self.before if self.before > 0 else float("inf")


@dataclass(frozen=True)
class Explanation:
    """Why the gain ends at the level `end`; indices count the levels. `evidence` is what the cause follows from."""

    cause: Cause
    end: int
    before: int
    after: int
    evidence: tuple[Reading, ...]
    readings: Mapping[Counter, Reading]
    lock: str = ""
    """The system call of a lock that the load makes most often, where calls were counted."""

    @property
    def others(self) -> float:
        """Share of the processors' time that other programs took where the gain ends."""
        return self.readings[Use.OTHERS].end if Use.OTHERS in self.readings else 0.0

    def statistics(self, levels: Sequence[object]) -> dict[str, Any]:
        """The numbers under stable names."""
        return {
            "name": self.cause,
            "end": levels[self.end],
            "before": levels[self.before],
            "after": levels[self.after],
            "evidence": [_plain(reading) for reading in self.evidence],
            "counters": [_plain(reading) for reading in self.readings.values()],
            "others_share": self.others,
            "lock": self.lock,
        }


def _plain(reading: Reading) -> dict[str, Any]:
    means = {name: getattr(reading, name) for name in ("before", "end", "after")}
    return {"counter": reading.counter, **means, "rises": reading.changes}


def explain(records: Dataset, study: Study, family: LevelFamily, end: int) -> Explanation | None:
    """The cause for the end of the gain at a level; None where no processors were watched, so nothing is known."""
    found = readings(records, study, family, end)
    if Use.BUSY not in found:
        return None
    before, after = neighbours(family, end)
    numbers = family.numbers or ()
    load = numbers[after] / numbers[end] if numbers and numbers[end] > 0 else 1.0
    for cause, test in _TESTS.items():
        if evidence := test(found, end == 0, load):
            lock = _lock(records, study, family, end) if cause is Cause.LOCK else ""
            return Explanation(cause, end, before, after, tuple(evidence), found, lock)
    return Explanation(Cause.NONE, end, before, after, (), found)


def neighbours(family: LevelFamily, end: int) -> tuple[int, int]:
    """The levels before and after; the end itself where there is none."""
    return max(end - 1, 0), min(end + 1, len(family.cells) - 1)


def readings(records: Dataset, study: Study, family: LevelFamily, end: int) -> dict[Counter, Reading]:
    """What every counter does about the end of the gain, of those that each trial of the levels has."""
    known = _values(records, study, family)
    before, after = neighbours(family, end)
    found: dict[Counter, Reading] = {}
    for counter, groups in known.items():
        compared = [group + FLOORS.get(counter, 0.0) for group in groups]
        scale = Scale.RAW if counter in SHARES else None
        model = fit(compared, [cell.repetition for cell in family.cells], scale=scale)
        above = None
        if not isinstance(model, Undefined):
            above = Contrasts(model, study.analysis.confidence, share=len(_TESTS)).above
        means = [mean_of(group) for group in groups]
        found[counter] = Reading(
            counter,
            means[before],
            means[end],
            means[after],
            rises=above is not None and bool(above[after, before]),
            reaches=above is not None and bool(above[end, before]),
        )
    return found


def _values(records: Dataset, study: Study, family: LevelFamily) -> dict[Counter, list[Floats]]:
    """Counter -> its values, an array for each level."""
    used = resource_use(records, study)
    rows = [[used.get(trial, {}) for trial in cell.trials] for cell in family.cells]
    every = [row for level in rows for row in level]
    found: dict[Counter, list[Floats]] = {}
    for use in Use:
        if every and all(use in row for row in every):
            found[use] = [np.array([row[use] for row in level]) for level in rows]
    for use, counter in ((Use.SWITCHES, PerOperation.SWITCHES), (Use.CPU, PerOperation.CPU)):
        if use in found and all((cell.measured > 0).all() for cell in family.cells):
            groups = zip(found[use], family.cells, strict=True)
            found[counter] = [values / cell.measured for values, cell in groups]
    if latency := _latency(records, study, family):
        found[PerOperation.LATENCY] = latency
    return found


def _latency(records: Dataset, study: Study, family: LevelFamily) -> list[Floats]:
    """Mean latency of each trial in the direction of the response; empty where the tool measures none."""
    trials = records.trials_of(study)
    direction = family.part.response.partition(".")[0]
    names = [f"{direction}.{kind}.mean" for kind in ("lat", "clat")]
    name = next((name for name in names if name in trials.columns), None)
    if name is None:
        return []
    known = dict(trials.select("trial", name).iter_rows())
    groups = [[known.get(trial) for trial in cell.trials] for cell in family.cells]
    if any(value is None for group in groups for value in group):
        return []
    return [np.array(group, dtype=np.float64) for group in groups]


# One test a cause: the readings that it follows from, none where it does not

Found = Mapping[Counter, Reading]


def _used_up(reading: Reading | None, first: bool) -> bool:
    """A share that is at its limit where the gain ends, and was not before, or was so from the first level on."""
    if reading is None:
        return False
    full = reading.end >= FULL or (reading.end >= NEARLY and reading.after >= FULL)
    return full and (reading.changes or (first and reading.end >= FULL))


def _rising(found: Found, counter: Counter, least: float, factor: float = 1.0) -> list[Reading]:
    reading = found.get(counter)
    if reading is None or not reading.rises or reading.after < least or reading.factor < factor:
        return []
    return [reading]


def _waiting(found: Found) -> list[Reading]:
    return _rising(found, Use.WAIT, WAITING)


def _quota(found: Found, first: bool, load: float) -> list[Reading]:
    throttled, quota = found.get(Use.THROTTLED), found.get(Use.QUOTA)
    if throttled is not None and throttled.end >= STALLED and (throttled.changes or first):
        return [throttled, *([quota] if quota else [])]
    return [quota] if quota is not None and _used_up(quota, first) else []


def _memory(found: Found, first: bool, load: float) -> list[Reading]:
    evidence = [
        *_rising(found, Use.MEMORY_PRESSURE, STALLED),
        *_rising(found, Use.SWAP, FEWEST_FAULTS),
        *_rising(found, Use.MAJOR_FAULTS, FEWEST_FAULTS),
    ]
    if not evidence:  # reclaim of page cache that nobody needs again costs nothing: alone it is no cause
        return []
    return [*evidence, *_rising(found, Use.LIMIT_HITS, 1.0), *_rising(found, Use.RECLAIM, 1.0)]


def _io_limit(found: Found, first: bool, load: float) -> list[Reading]:
    reading = found.get(Use.IO_LIMIT)
    return [reading] if reading is not None and _used_up(reading, first) else []


def _processors(found: Found, first: bool, load: float) -> list[Reading]:
    busy, own, waiting = found[Use.BUSY], found.get(Use.OWN), _waiting(found)
    # Processors that other programs fill hold up a load only that fills the rest, or that waits for them.
    taken = own is None or own.end >= NEARLY
    if not taken and _blocking(found, first, load):
        return []  # a task that waits for a processor does not give it up by itself
    rises = busy.changes or (own is not None and own.reaches)
    if busy.end >= FULL and (waiting or (taken and (rises or first))):
        return [busy, *waiting]
    return [busy, *waiting] if _used_up(busy, first) and taken else []


def _disk(found: Found, first: bool, load: float) -> list[Reading]:
    """A busy device, and requests that queue: more of them take as much longer."""
    latency = found.get(PerOperation.LATENCY)
    queues = latency is not None and latency.after >= latency.end * max(IN_PROPORTION * load, 1.0) and latency.rises
    queue = found.get(Use.DISK_QUEUE)
    if queue is not None and queue.after < GROWTH * max(queue.end, queue.before):
        return []  # they wait before the device: for a limit, or for a lock
    least = FULL if latency is None else NEARLY
    waiting = [found[use] for use in (Use.DISK_BUSY, Use.IO_PRESSURE) if use in found and found[use].end >= least]
    if latency is not None:
        return [*waiting, latency] if waiting and queues else []
    return [reading for reading in waiting if reading.changes]


def _lock(records: Dataset, study: Study, family: LevelFamily, end: int) -> str:
    """The call of a lock that is made most often at the levels about the end, where calls were counted."""
    calls = records.calls
    if calls.is_empty() or family.factor not in calls.columns:
        return ""
    levels = [str(family.cells[index].point[family.factor]) for index in (end, *neighbours(family, end))]
    counts: dict[str, int] = {}
    for of, level, name, count in calls.select("study", family.factor, "name", "count").iter_rows():
        if of == study.name and str(level) in levels and name in _LOCK_CALLS:
            counts[name] = counts.get(name, 0) + count
    return max(counts, key=lambda name: counts[name], default="")


_LOCK_CALLS = ("futex", "futex_waitv", "flock", "fcntl", "semop", "semtimedop", "mq_timedreceive", "mq_timedsend")


def _blocking(found: Found, first: bool, load: float) -> list[Reading]:
    """Tasks give up their processor by themselves more often, so they wait for each other."""
    return _rising(found, PerOperation.SWITCHES, 0.0, GROWTH)


def _run_queue(found: Found, first: bool, load: float) -> list[Reading]:
    return _waiting(found) if found[Use.BUSY].end < FULL else []


def _network(found: Found, first: bool, load: float) -> list[Reading]:
    return _rising(found, Use.DROPS, 0.01)


def _stalls(found: Found, first: bool, load: float) -> list[Reading]:
    return _rising(found, Use.STALLS, 0.0, GROWTH)


def _contention(found: Found, first: bool, load: float) -> list[Reading]:
    return _rising(found, PerOperation.CPU, 0.0, GROWTH)


_TESTS: dict[Cause, Callable[[Found, bool, float], list[Reading]]] = {
    Cause.QUOTA: _quota,
    Cause.MEMORY: _memory,
    Cause.IO_LIMIT: _io_limit,
    Cause.PROCESSORS: _processors,
    Cause.DISK: _disk,
    Cause.LOCK: _blocking,
    Cause.RUN_QUEUE: _run_queue,
    Cause.NETWORK: _network,
    Cause.STALLS: _stalls,
    Cause.CONTENTION: _contention,
}
