"""How far each trial used what it could have used up: processors, quota, memory, devices, limits of its control group.

Shares and rates of whole trials, from whatever was recorded: the account of the machine around the trial, the witness's
counters, and monitors. What was not recorded is missing, and is not 0. Nothing is judged here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum

import polars as pl

from ioassay import units
from ioassay.analysis.measurements import monitor_rates
from ioassay.analysis.measurements.memo import memoized
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
    """Trial -> what was measured of it."""
    found: dict[str, dict[Use, float]] = {}
    for part in (_of_trials, _counted, _limits, _disk, _stalls):
        for trial, use, value in part(records, study):
            found.setdefault(trial, {})[use] = value
    return found


def _of_trials(records: Dataset, study: Study) -> _Values:
    """What the account of the machine, the witness and the monitor `cpu` say of each trial."""
    trials, cores = records.trials_of(study), _core_use(records, study)
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


def _core_use(records: Dataset, study: Study) -> dict[tuple[str, str], float]:
    """Trial and core (`all` too) -> busy share in the median interval, where the monitor `cpu` was on."""
    states = monitor_rates.during_load(monitor_rates.cpu(records, study))
    idle = pl.col("percent").filter(pl.col("state").is_in(["idle", "iowait"])).sum()
    each = states.group_by("trial", "core", "time_s").agg(busy=1 - idle / 100)
    shares = each.group_by("trial", "core").agg(pl.col("busy").median())
    return {(trial, core): busy for trial, core, busy in shares.iter_rows()}


def _grown(records: Dataset, study: Study, monitor: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Trial -> counter -> growth and seconds of the whole trial."""
    frame = monitor_rates.counters(records, study, monitor, whole=True)
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for trial, name, delta, seconds in frame.select("trial", "name", "delta", "seconds").iter_rows():
        found.setdefault(trial, {})[name] = (delta, seconds)
    return found


def _group_levels(records: Dataset, study: Study) -> dict[tuple[str, str], float]:
    """Trial and name -> rates of the trial's group in the median interval, and its limits."""
    found = monitor_rates.during_load(monitor_rates.per_second(records, study, "cgroup"))
    medians = found.group_by("trial", "name").agg(pl.col("value").median())
    return {(trial, name): value for trial, name, value in medians.iter_rows()}


def _counted(records: Dataset, study: Study) -> _Values:
    """What counters say of whole trials."""
    levels = _group_levels(records, study)
    for monitor, uses in _COUNTED.items():
        for trial, grown in _grown(records, study, monitor).items():
            for use, own, of, limit in uses:
                parts = [delta if of else delta / s for name, (delta, s) in grown.items() if re.fullmatch(own, name)]
                whole = sum(delta for name, (delta, _) in grown.items() if re.fullmatch(of, name)) if of else 1.0
                if (of or parts) and whole > 0 and (not limit or (trial, limit) in levels):
                    yield trial, use, sum(parts) / whole


def _limits(records: Dataset, study: Study) -> _Values:
    """The group's I/O over the limit that it comes nearest to."""
    levels = _group_levels(records, study)
    shares: dict[str, float] = {}
    for (trial, name), limit in levels.items():
        device, _, field = name.rpartition(".")
        counter, size = _LIMITED.get(field, ("", 0))
        rate = levels.get((trial, f"{device}.{counter}"))
        if rate is not None and limit > 0:
            shares[trial] = max(shares.get(trial, 0.0), size * rate / limit)
    yield from ((trial, Use.IO_LIMIT, share) for trial, share in shares.items())


def _disk(records: Dataset, study: Study) -> _Values:
    """The busiest device and the longest queue, in the median interval."""
    found = monitor_rates.during_load(monitor_rates.disk(records, study))
    for use, quantity, factor in ((Use.DISK_BUSY, "util", 0.01), (Use.DISK_QUEUE, "queue", 1.0)):
        each = found.filter(quantity=quantity).group_by("trial", "device").agg(pl.col("value").median())
        for trial, most in each.group_by("trial").agg(pl.col("value").max()).iter_rows():
            yield trial, use, most * factor


def _stalls(records: Dataset, study: Study) -> _Values:
    """Cycles an instruction; of events that had a counter for a part of the time only, the estimate for all of it
    (perf_event_open(2))."""
    for trial, grown in _grown(records, study, "perf").items():
        scaled = []
        for event in ("cycles", "instructions"):
            names = (f"{event}.{part}" for part in ("count", "enabled_ns", "running_ns"))
            count, enabled, running = (grown.get(name, (0.0, 0.0))[0] for name in names)
            scaled.append(count * enabled / running if running > 0 else 0.0)
        if all(scaled):
            yield trial, Use.STALLS, scaled[0] / scaled[1]
