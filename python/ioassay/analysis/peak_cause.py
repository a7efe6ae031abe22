"""Why a response stops growing over a number of workers or a load: which resource was used up at that level.

A cause is a counter that is at its limit where the gain ends, or that certainly rises from the level before to the
level after, by the model of condition means that every claim about a response rests on. Counters share the risk. Where
none does, the cause is NONE. What was not measured can be no cause. Sentences are made elsewhere.

`resource_use` says how far each trial used what it could have used up: processors, quota, memory, devices, limits of
its control group. Its shares and rates of whole trials come from whatever was recorded: the account of the machine
around the trial, the witness's counters, and monitors. What was not recorded is missing, and is not 0.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import polars as pl

from ioassay import units
from ioassay.analysis.measurements import memoized, monitor_rates
from ioassay.analysis.one_factor import LevelFamily
from ioassay.stats.condition_means import Scale, fit
from ioassay.stats.contrasts import Contrasts
from ioassay.stats.result import Floats, Undefined, mean_of
from ioassay.store.dataset import Dataset
from ioassay.study import run_conditions
from ioassay.study.model import Study

_PINNING = ("taskset", "cpus_allowed")
"""Parameters by which tools bind their own processes to processors."""
_TICKED = 0.3
"""Seconds; what ticks of 10 ms say of a shorter trial is rough."""


class Use(StrEnum):
    """What is measured of a trial."""

    BUSY = "processors busy"  # share of the time of the processors that the trial may run on
    OWN = "own share of the processors"  # share of that time that the trial's processes took
    OTHERS = "other programs"  # share of that time that programs other than the trial's took
    WAIT = "run-queue wait"  # share of the time that its tasks could have run, in which they waited for a processor
    QUOTA = "use of the CPU limit"  # processor time that the trial took over what its limit allows
    THROTTLED = "throttled periods"  # share of the periods of the limit in which the group's time was used up
    MEMORY_PRESSURE = "memory pressure"  # share of the time in which some task of the machine waited for memory
    LIMIT_HITS = "memory limit hits"  # times a second that the group's memory limit was reached
    RECLAIM = "direct reclaim"  # pages a second that tasks had to look at themselves for want of free ones
    SWAP = "swap"  # pages a second, in and out
    MAJOR_FAULTS = "major page faults"  # a second, of the trial's processes
    IO_PRESSURE = "I/O pressure"  # share of the time in which some task of the machine waited for I/O
    DISK_BUSY = "device busy"  # share of the time in which the busiest device had a request
    DISK_QUEUE = "requests in the device"  # mean number in flight, of the device that has most
    IO_LIMIT = "use of the I/O limit"  # rate of the group's I/O over the limit that it comes nearest to
    SWITCHES = "voluntary context switches"  # a second: a task waited for another task, a lock or a device
    SYSTEM = "kernel share"  # share of the trial's processor time that was spent in the kernel
    CPU = "CPU time"  # seconds a second, of the trial's processes
    DROPS = "dropped packets"  # share of all packets
    STALLS = "cycles per instruction"


SHARES = frozenset(
    (
        *(Use.BUSY, Use.OWN, Use.OTHERS, Use.WAIT, Use.QUOTA, Use.THROTTLED, Use.MEMORY_PRESSURE, Use.IO_PRESSURE),
        *(Use.DISK_BUSY, Use.IO_LIMIT, Use.SYSTEM, Use.DROPS),
    )
)
"""Shares of a time, of a limit or of a number, compared by their differences: ratios of shares near 0 scatter."""
FLOORS: dict[str, float] = {Use.LIMIT_HITS: 1.0, Use.RECLAIM: 100.0, Use.SWAP: 100.0, Use.MAJOR_FAULTS: 100.0}
"""Rates a second that are nothing yet. Each is added before rates are compared by their ratios: they may be 0."""


_Values = Iterator[tuple[str, Use, float]]
_COUNTED: dict[str, tuple[tuple[Use, str, str, str], ...]] = {
    "schedstat": ((Use.WAIT, "wait_ns", "(run|wait)_ns", ""),),
    "cgroup": (
        (Use.THROTTLED, "cpu.throttled", "cpu.periods", "cpu.quota_us"),
        (Use.LIMIT_HITS, "memory.limit_hits", "", "memory.limit_bytes"),
    ),
    "memory": ((Use.RECLAIM, "scanned_direct_pages", "", ""), (Use.SWAP, "swapped_(in|out)_pages", "", "")),
    "net": ((Use.DROPS, ".*x_(dropped|errors)", ".*x_packets", ""),),
}
"""Monitor -> what its counters mean: patterns of those that are added up, and of those that they are a share of; where
there are none, it is their rate. Last the limit of a group without which they say nothing."""
_LIMITED = {
    "read_limit": ("read_sectors", monitor_rates.SECTOR_BYTES),
    "write_limit": ("write_sectors", monitor_rates.SECTOR_BYTES),
    "read_limit_iops": ("reads", 1),
    "write_limit_iops": ("writes", 1),
}
"""Limit of a group -> the counter that it limits, and what one of it is in the limit's unit."""


@memoized
def resource_use(records: Dataset, study: Study) -> dict[str, dict[Use, float]]:
    found: dict[str, dict[Use, float]] = {}
    for part in (_of_trials, _counted, _devices):
        for trial, use, value in part(records, study):
            found.setdefault(trial, {})[use] = value
    return found


def _of_trials(records: Dataset, study: Study) -> _Values:
    """What the account of the machine, the witness and the monitor `cpu` say of each trial."""
    # Trial and core (`all` too) -> busy share in the median interval, where the monitor `cpu` was on.
    states = monitor_rates.during_load(monitor_rates.cpu(records, study))
    idle = pl.col("percent").filter(pl.col("state").is_in(["idle", "iowait"])).sum()
    each = states.group_by("trial", "core", "time_s").agg(busy=1 - idle / 100)
    shares = each.group_by("trial", "core").agg(pl.col("busy").median())
    cores = {(trial, core): busy for trial, core, busy in shares.iter_rows()}
    trials = records.trials_of(study)
    for point in trials.select("trial", *(name for name in study.levels if name in trials.columns)).to_dicts():
        trial = point.pop("trial")
        settings = {**study.params_at(point), **study.settings(point)}
        pinned = next((str(settings[key]) for key in _PINNING if settings.get(key)), "")
        environment, seen = records.environments.get(trial), records.observations.get(trial)
        if environment is not None and environment.seconds >= _TICKED:
            used = environment.own_share * environment.processors
            yield trial, Use.CPU, used
            if limit := settings.get("run.cpu_limit", study.run.cpu_limit):
                yield trial, Use.QUOTA, used / run_conditions.cores(limit)
            for name, use in (("memory", Use.MEMORY_PRESSURE), ("io", Use.IO_PRESSURE)):
                if name in environment.pressure:
                    yield trial, use, environment.pressure[name]
            if not pinned:
                yield trial, Use.OWN, environment.own_share
                yield trial, Use.OTHERS, environment.others_share
                if environment.idle_share is not None:
                    yield trial, Use.BUSY, 1 - environment.idle_share
        if environment is not None and environment.seconds > 0 and seen is not None:
            for name, use in (("voluntary_switches", Use.SWITCHES), ("major_faults", Use.MAJOR_FAULTS)):
                if name in seen.counters:
                    yield trial, use, seen.counters[name] / environment.seconds
            user_s, system_s = (seen.counters.get(name, 0.0) for name in ("user_s", "system_s"))
            if user_s + system_s > 0:
                yield trial, Use.SYSTEM, system_s / (user_s + system_s)
        allowed = pinned or str(settings.get("run.affinity", study.run.affinity) or "all")
        with suppress(KeyError, ValueError):  # a processor that was not watched, or no list of processors
            names = ["all"] if allowed == "all" else [f"cpu{number}" for number in units.parse_processors(allowed)]
            yield trial, Use.BUSY, sum(cores[trial, name] for name in names) / len(names)


def _grown(records: Dataset, study: Study, monitor: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Trial -> counter -> growth and seconds of the whole trial."""
    frame = monitor_rates.counters(records, study, monitor, whole=True)
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for trial, name, delta, seconds in frame.select("trial", "name", "delta", "seconds").iter_rows():
        found.setdefault(trial, {})[name] = (delta, seconds)
    return found


def _counted(records: Dataset, study: Study) -> _Values:
    """What counters grew by, cycles an instruction, and the group's I/O over the limit that it comes nearest to."""
    # Trial and name -> rates of the trial's group in the median interval, and its limits.
    found = monitor_rates.during_load(monitor_rates.per_second(records, study, "cgroup"))
    medians = found.group_by("trial", "name").agg(pl.col("value").median())
    levels = {(trial, name): value for trial, name, value in medians.iter_rows()}
    for monitor, uses in _COUNTED.items():
        for trial, grown in _grown(records, study, monitor).items():
            for use, own, of, limit in uses:
                parts = [delta if of else delta / s for name, (delta, s) in grown.items() if re.fullmatch(own, name)]
                whole = sum(delta for name, (delta, _) in grown.items() if re.fullmatch(of, name)) if of else 1.0
                if (of or parts) and whole > 0 and (not limit or (trial, limit) in levels):
                    yield trial, use, sum(parts) / whole
    for trial, grown in _grown(records, study, "perf").items():
        # An event that had a counter for a part of the time only: the estimate for all of it (perf_event_open(2)).
        scaled = []
        for event in ("cycles", "instructions"):
            names = (f"{event}.{part}" for part in ("count", "enabled_ns", "running_ns"))
            count, enabled, running = (grown.get(name, (0.0, 0.0))[0] for name in names)
            scaled.append(count * enabled / running if running > 0 else 0.0)
        if all(scaled):
            yield trial, Use.STALLS, scaled[0] / scaled[1]
    shares: dict[str, float] = {}
    for (trial, name), limited in levels.items():
        device, _, field = name.rpartition(".")
        counter, size = _LIMITED.get(field, ("", 0))
        rate = levels.get((trial, f"{device}.{counter}"))
        if rate is not None and limited > 0:
            shares[trial] = max(shares.get(trial, 0.0), size * rate / limited)
    yield from ((trial, Use.IO_LIMIT, share) for trial, share in shares.items())


def _devices(records: Dataset, study: Study) -> _Values:
    """The busiest device and the longest queue, in the median interval."""
    found = monitor_rates.during_load(monitor_rates.disk(records, study))
    for use, quantity, factor in ((Use.DISK_BUSY, "util", 0.01), (Use.DISK_QUEUE, "queue", 1.0)):
        each = found.filter(quantity=quantity).group_by("trial", "device").agg(pl.col("value").median())
        for trial, most in each.group_by("trial").agg(pl.col("value").max()).iter_rows():
            yield trial, use, most * factor


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

    def statistics(self) -> dict[str, Any]:
        means = {name: getattr(self, name) for name in ("before", "end", "after")}
        return {"counter": self.counter, **means, "rises": self.changes}


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
    others: float = 0.0
    """Share of the processors' time that other programs took where the gain ends."""

    def statistics(self, levels: Sequence[object]) -> dict[str, Any]:
        return {
            "name": self.cause,
            "end": levels[self.end],
            "before": levels[self.before],
            "after": levels[self.after],
            "evidence": [reading.statistics() for reading in self.evidence],
            "counters": [reading.statistics() for reading in self.readings.values()],
            "others_share": self.others,
            "lock": self.lock,
        }


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
    tested = ((cause, tuple(test(gain))) for cause, test in _TESTS.items())
    cause, evidence = next((pair for pair in tested if pair[1]), (Cause.NONE, ()))
    levels = {str(family.cells[place].point[family.factor]) for place in (before, end, after)}
    lock = _lock(records, study, family.factor, levels) if cause is Cause.LOCK else ""
    others = found[Use.OTHERS].end if Use.OTHERS in found else 0.0
    return Explanation(cause, end, before, after, evidence, found, lock, others)


def _values(records: Dataset, study: Study, family: LevelFamily) -> dict[Counter, list[Floats]]:
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
    if not taken and _TESTS[Cause.LOCK](gain):
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


_TESTS: dict[Cause, Callable[[_Gain], list[Reading]]] = {
    Cause.QUOTA: _quota,
    Cause.MEMORY: _memory,
    Cause.IO_LIMIT: lambda gain: gain.used_up(Use.IO_LIMIT),
    Cause.PROCESSORS: _processors,
    Cause.DISK: _disk,
    # Tasks give up their processor by themselves more often, so they wait for each other.
    Cause.LOCK: lambda gain: gain.rising(PerOperation.SWITCHES, factor=GROWTH),
    Cause.RUN_QUEUE: lambda gain: gain.rising(Use.WAIT, WAITING) if gain.found[Use.BUSY].end < FULL else [],
    Cause.NETWORK: lambda gain: gain.rising(Use.DROPS, 0.01),
    Cause.STALLS: lambda gain: gain.rising(Use.STALLS, factor=GROWTH),
    Cause.CONTENTION: lambda gain: gain.rising(PerOperation.CPU, factor=GROWTH),
}
