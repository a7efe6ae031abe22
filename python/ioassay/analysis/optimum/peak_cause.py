"""Why a response stops growing over a number of workers or a load: which resource was used up at that level.

A cause is a counter that is at its limit where the gain ends, or that certainly rises from the level before to the
level after, by the model of condition means that every claim about a response rests on. Counters share the risk. Where
none does, the cause is NONE. What was not measured can be no cause. Sentences are made elsewhere.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Collection, Mapping, Sequence
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
_LOCK_CALLS = ("futex", "futex_waitv", "flock", "fcntl", "semop", "semtimedop", "mq_timedreceive", "mq_timedsend")


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
    """The cause for the end of the gain at a level; None where no processors were watched, so nothing is known.

    The level before, or after, is the end itself where there is none. Only counters that every trial has are read.
    """
    before, after = max(end - 1, 0), min(end + 1, len(family.cells) - 1)
    found: dict[Counter, Reading] = {}
    for counter, groups in _values(records, study, family).items():
        compared = [group + FLOORS.get(counter, 0.0) for group in groups]
        scale = Scale.RAW if counter in SHARES else None
        model = fit(compared, [cell.repetition for cell in family.cells], scale=scale)
        rises = reaches = False
        if not isinstance(model, Undefined):
            above = Contrasts(model, study.analysis.confidence, share=len(_TESTS)).above
            rises, reaches = bool(above[after, before]), bool(above[end, before])
        means = {name: mean_of(groups[place]) for name, place in (("before", before), ("end", end), ("after", after))}
        found[counter] = Reading(counter, **means, rises=rises, reaches=reaches)
    if Use.BUSY not in found:
        return None
    numbers = family.numbers or ()
    gain = _Gain(found, end == 0, numbers[after] / numbers[end] if numbers and numbers[end] > 0 else 1.0)
    for cause, test in _TESTS.items():
        if evidence := test(gain):
            levels = {str(family.cells[place].point[family.factor]) for place in (before, end, after)}
            lock = _lock(records, study, family.factor, levels) if cause is Cause.LOCK else ""
            return Explanation(cause, end, before, after, tuple(evidence), found, lock)
    return Explanation(Cause.NONE, end, before, after, (), found)


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
    trials, direction = records.trials_of(study), family.part.response.partition(".")[0]
    names = [name for kind in ("lat", "clat") if (name := f"{direction}.{kind}.mean") in trials.columns]
    known = dict(trials.select("trial", names[0]).drop_nulls().iter_rows()) if names else {}
    if all(trial in known for cell in family.cells for trial in cell.trials):
        found[PerOperation.LATENCY] = [np.array([known[trial] for trial in cell.trials]) for cell in family.cells]
    return found


def _lock(records: Dataset, study: Study, factor: str, levels: Collection[str]) -> str:
    """The call of a lock that is made most often at the levels about the end, where calls were counted."""
    calls = records.calls
    if calls.is_empty() or factor not in calls.columns:
        return ""
    counts: Tally[str] = Tally()
    for level, name, count in calls.filter(study=study.name).select(factor, "name", "count").iter_rows():
        if str(level) in levels and name in _LOCK_CALLS:
            counts[name] += count
    return max(counts, key=lambda name: counts[name], default="")


# One test a cause: the readings that it follows from, none where it does not


@dataclass(frozen=True)
class _Gain:
    """What the tests look at: the readings, whether the gain ends at the first level, and how the load grows then."""

    found: Mapping[Counter, Reading]
    first: bool
    load: float

    def rising(self, counter: Counter, least: float = 0.0, factor: float = 1.0) -> list[Reading]:
        """The reading of a counter that rises to at least this, and by at least this factor."""
        one = self.found.get(counter)
        return [one] if one and one.rises and one.after >= least and one.factor >= factor else []

    def used_up(self, counter: Counter) -> list[Reading]:
        """That of a share at its limit where the gain ends, which was not before, or was so from the first level on."""
        one = self.found.get(counter)
        if one is None or one.end < (NEARLY if one.after >= FULL else FULL):
            return []
        return [one] if one.changes or (self.first and one.end >= FULL) else []


def _quota(gain: _Gain) -> list[Reading]:
    throttled = gain.found.get(Use.THROTTLED)
    if throttled is not None and throttled.end >= STALLED and (throttled.changes or gain.first):
        return [throttled, *([gain.found[Use.QUOTA]] if Use.QUOTA in gain.found else [])]
    return gain.used_up(Use.QUOTA)


def _memory(gain: _Gain) -> list[Reading]:
    evidence = [
        *gain.rising(Use.MEMORY_PRESSURE, STALLED),
        *gain.rising(Use.SWAP, FEWEST_FAULTS),
        *gain.rising(Use.MAJOR_FAULTS, FEWEST_FAULTS),
    ]
    if not evidence:  # reclaim of page cache that nobody needs again costs nothing: alone it is no cause
        return []
    return [*evidence, *gain.rising(Use.LIMIT_HITS, 1.0), *gain.rising(Use.RECLAIM, 1.0)]


def _processors(gain: _Gain) -> list[Reading]:
    busy, own, waiting = gain.found[Use.BUSY], gain.found.get(Use.OWN), gain.rising(Use.WAIT, WAITING)
    # Processors that other programs fill hold up a load only that fills the rest, or that waits for them.
    taken = own is None or own.end >= NEARLY
    if not taken and _blocking(gain):
        return []  # a task that waits for a processor does not give it up by itself
    rises = busy.changes or (own is not None and own.reaches)
    if busy.end >= FULL and (waiting or (taken and (rises or gain.first))):
        return [busy, *waiting]
    return [*gain.used_up(Use.BUSY), *waiting] if taken and gain.used_up(Use.BUSY) else []


def _disk(gain: _Gain) -> list[Reading]:
    """A busy device, and requests that queue: more of them take as much longer."""
    latency, queue = gain.found.get(PerOperation.LATENCY), gain.found.get(Use.DISK_QUEUE)
    if queue is not None and queue.after < GROWTH * max(queue.end, queue.before):
        return []  # they wait before the device: for a limit, or for a lock
    least = FULL if latency is None else NEARLY
    known = [gain.found[use] for use in (Use.DISK_BUSY, Use.IO_PRESSURE) if use in gain.found]
    waiting = [reading for reading in known if reading.end >= least]
    if latency is None:
        return [reading for reading in waiting if reading.changes]
    queues = latency.rises and latency.after >= latency.end * max(IN_PROPORTION * gain.load, 1.0)
    return [*waiting, latency] if waiting and queues else []


def _blocking(gain: _Gain) -> list[Reading]:
    """Tasks give up their processor by themselves more often, so they wait for each other."""
    return gain.rising(PerOperation.SWITCHES, factor=GROWTH)


_TESTS: dict[Cause, Callable[[_Gain], list[Reading]]] = {
    Cause.QUOTA: _quota,
    Cause.MEMORY: _memory,
    Cause.IO_LIMIT: lambda gain: gain.used_up(Use.IO_LIMIT),
    Cause.PROCESSORS: _processors,
    Cause.DISK: _disk,
    Cause.LOCK: _blocking,
    Cause.RUN_QUEUE: lambda gain: gain.rising(Use.WAIT, WAITING) if gain.found[Use.BUSY].end < FULL else [],
    Cause.NETWORK: lambda gain: gain.rising(Use.DROPS, 0.01),
    Cause.STALLS: lambda gain: gain.rising(Use.STALLS, factor=GROWTH),
    Cause.CONTENTION: lambda gain: gain.rising(PerOperation.CPU, factor=GROWTH),
}
