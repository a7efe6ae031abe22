"""How far each trial used what it could have used up: processors, quota, memory, devices, limits of its control group.

Shares and rates of whole trials, from whatever was recorded: the account of the machine around the trial, the witness's
counters, and monitors. What was not recorded is missing, and is not 0. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.analysis.measurements import monitor_rates
from ioassay.analysis.measurements.memo import memoized
from ioassay.store.dataset import Dataset
from ioassay.study import run_conditions
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

_PINNING = ("taskset", "cpus_allowed")
"""Parameters by which tools bind their own processes to processors."""
_TICKED = 0.3
"""Seconds; what ticks of 10 ms say of a shorter trial is rough."""


class Use(StrEnum):
    """What is measured of a trial."""

    BUSY = "processors busy"
    """Share of the time of the processors that the trial may run on."""
    OWN = "own share of the processors"
    """Share of that time that the trial's processes took."""
    OTHERS = "other programs"
    """Share of that time that programs other than the trial's took."""
    WAIT = "run-queue wait"
    """Share of the time that the trial's tasks ran or could have run, in which they waited for a processor."""
    QUOTA = "use of the CPU limit"
    """Processor time that the trial took over what its limit allows."""
    THROTTLED = "throttled periods"
    """Share of the periods of the limit in which the group's time was used up."""
    MEMORY_PRESSURE = "memory pressure"
    """Share of the time in which some task of the machine waited for memory."""
    LIMIT_HITS = "memory limit hits"
    """Times a second that the group's memory limit was reached."""
    RECLAIM = "direct reclaim"
    """Pages a second that tasks had to look at themselves for want of free ones."""
    SWAP = "swap"
    """Pages a second, in and out."""
    MAJOR_FAULTS = "major page faults"
    """A second, of the trial's processes."""
    IO_PRESSURE = "I/O pressure"
    """Share of the time in which some task of the machine waited for I/O."""
    DISK_BUSY = "device busy"
    """Share of the time in which the busiest device had a request."""
    DISK_QUEUE = "requests in the device"
    """Mean number in flight, of the device that has most."""
    IO_LIMIT = "use of the I/O limit"
    """Rate of the group's I/O over the limit that it comes nearest to."""
    SWITCHES = "voluntary context switches"
    """A second: a task waited for another task, a lock or a device."""
    SYSTEM = "kernel share"
    """Share of the trial's processor time that was spent in the kernel."""
    CPU = "CPU time"
    """Seconds a second, of the trial's processes."""
    DROPS = "dropped packets"
    """Share of all packets."""
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


@memoized
def resource_use(records: Dataset, study: Study) -> dict[str, dict[Use, float]]:
    """Trial -> what was measured of it."""
    found: dict[str, dict[Use, float]] = {}
    for trial, use, value in _values(records, study):
        found.setdefault(trial, {})[use] = value
    return found


def _values(records: Dataset, study: Study) -> Iterator[tuple[str, Use, float]]:
    names = ["trial", *(name for name in study.levels if name in records.trials_of(study).columns)]
    points = records.trials_of(study).select(names).to_dicts()
    cores = _core_use(records, study)
    for point in points:
        trial = point.pop("trial")
        settings = {**study.params_at(point), **study.settings(point)}
        yield from _of_machine(records, study, trial, settings)
        yield from _of_witness(records, trial)
        pinned = next((str(settings[key]) for key in _PINNING if settings.get(key)), "")
        if not pinned:
            yield from _of_processors(records, trial)
        processors = pinned or str(settings.get("run.affinity", study.run.affinity) or "all")
        if (busy := _mean_of_cores(cores.get(trial, {}), processors)) is not None:
            yield trial, Use.BUSY, busy
    for monitor in (_schedstat, _group, _memory, _disk, _network, _perf):
        yield from monitor(records, study)


def _of_machine(
    records: Dataset, study: Study, trial: str, settings: Mapping[str, Any]
) -> Iterator[tuple[str, Use, float]]:
    environment = records.environments.get(trial)
    if environment is None or environment.seconds < _TICKED:
        return
    limit = settings.get("run.cpu_limit", study.run.cpu_limit)
    if limit:
        yield trial, Use.QUOTA, environment.own_share * environment.processors / run_conditions.cores(limit)
    for name, use in (("memory", Use.MEMORY_PRESSURE), ("io", Use.IO_PRESSURE)):
        if name in environment.pressure:
            yield trial, use, environment.pressure[name]
    yield trial, Use.CPU, environment.own_share * environment.processors


def _of_processors(records: Dataset, trial: str) -> Iterator[tuple[str, Use, float]]:
    environment = records.environments.get(trial)
    if environment is None or environment.seconds < _TICKED:
        return
    if environment.idle_share is not None:
        yield trial, Use.BUSY, 1 - environment.idle_share
    yield trial, Use.OWN, environment.own_share
    yield trial, Use.OTHERS, environment.others_share


def _of_witness(records: Dataset, trial: str) -> Iterator[tuple[str, Use, float]]:
    seen = records.observations.get(trial)
    environment = records.environments.get(trial)
    if seen is None or environment is None or environment.seconds <= 0:
        return
    counters, seconds = seen.counters, environment.seconds
    if "voluntary_switches" in counters:
        yield trial, Use.SWITCHES, counters["voluntary_switches"] / seconds
    if "major_faults" in counters:
        yield trial, Use.MAJOR_FAULTS, counters["major_faults"] / seconds
    used_s = counters.get("user_s", 0.0) + counters.get("system_s", 0.0)
    if used_s > 0:
        yield trial, Use.SYSTEM, counters["system_s"] / used_s


def _core_use(records: Dataset, study: Study) -> dict[str, dict[str, float]]:
    """Trial -> core (`all` too) -> busy share in the median interval, where the monitor `cpu` was on."""
    import polars as pl

    states = monitor_rates.during_load(monitor_rates.cpu(records, study))
    idle = pl.col("percent").filter(pl.col("state").is_in(["idle", "iowait"])).sum()
    each = states.group_by("trial", "core", "time_s").agg(busy=1 - idle / 100)
    shares = each.group_by("trial", "core").agg(pl.col("busy").median())
    found: dict[str, dict[str, float]] = {}
    for trial, core, busy in shares.iter_rows():
        found.setdefault(trial, {})[core] = busy
    return found


def _mean_of_cores(busy: Mapping[str, float], pinned: str) -> float | None:
    if pinned == "all":
        return busy.get("all")
    try:
        cores = [busy[f"cpu{number}"] for number in units.parse_processors(pinned)]
    except (KeyError, ValueError):
        return None
    return sum(cores) / len(cores) if cores else None


def _grown(records: Dataset, study: Study, monitor: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Trial -> counter -> growth and seconds of the whole trial."""
    frame: pl.DataFrame = monitor_rates.counters(records, study, monitor, whole=True)
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for trial, name, delta, seconds in frame.select("trial", "name", "delta", "seconds").iter_rows():
        found.setdefault(trial, {})[name] = (delta, seconds)
    return found


def _schedstat(records: Dataset, study: Study) -> Iterator[tuple[str, Use, float]]:
    for trial, grown in _grown(records, study, "schedstat").items():
        run_ns, wait_ns = (grown.get(name, (0.0, 0.0))[0] for name in ("run_ns", "wait_ns"))
        if run_ns + wait_ns > 0:
            yield trial, Use.WAIT, wait_ns / (run_ns + wait_ns)


def _group(records: Dataset, study: Study) -> Iterator[tuple[str, Use, float]]:
    import polars as pl

    frame = monitor_rates.per_second(records, study, "cgroup")
    levels = frame.filter(pl.col("name").str.contains(r"_limit(_iops)?$|quota_us$|memory\.limit_bytes$"))
    limits = {(trial, name): value for trial, name, value in levels.select("trial", "name", "value").iter_rows()}
    used: dict[tuple[str, str], float] = {}
    counted = monitor_rates.during_load(frame.filter(pl.col("name").str.contains(r"\.(read|write)(s|_sectors)$")))
    for trial, name, rate in counted.group_by("trial", "name").agg(pl.col("value").median()).iter_rows():
        used[trial, name] = rate
    for trial, grown in _grown(records, study, "cgroup").items():
        periods = grown.get("cpu.periods", (0.0, 0.0))[0]
        if (trial, "cpu.quota_us") in limits and periods > 0:
            yield trial, Use.THROTTLED, grown.get("cpu.throttled", (0.0, 0.0))[0] / periods
        if (trial, "memory.limit_bytes") in limits and "memory.limit_hits" in grown:
            hits, seconds = grown["memory.limit_hits"]
            yield trial, Use.LIMIT_HITS, hits / seconds
    shares: dict[str, float] = {}
    for (trial, name), limit in limits.items():
        device, _, field = name.rpartition(".")
        counter, size = _LIMITED.get(field, ("", 0))
        if (rate := used.get((trial, f"{device}.{counter}"))) is not None and limit > 0:
            shares[trial] = max(shares.get(trial, 0.0), size * rate / limit)
    yield from ((trial, Use.IO_LIMIT, share) for trial, share in shares.items())


_LIMITED = {
    "read_limit": ("read_sectors", monitor_rates.SECTOR_BYTES),
    "write_limit": ("write_sectors", monitor_rates.SECTOR_BYTES),
    "read_limit_iops": ("reads", 1),
    "write_limit_iops": ("writes", 1),
}
"""Limit of a group -> the counter that it limits, and what one of it is in the limit's unit."""


def _memory(records: Dataset, study: Study) -> Iterator[tuple[str, Use, float]]:
    for trial, grown in _grown(records, study, "memory").items():
        rate = {name: delta / seconds for name, (delta, seconds) in grown.items()}
        if "scanned_direct_pages" in rate:
            yield trial, Use.RECLAIM, rate["scanned_direct_pages"]
        if "swapped_in_pages" in rate:
            yield trial, Use.SWAP, rate["swapped_in_pages"] + rate.get("swapped_out_pages", 0.0)


def _disk(records: Dataset, study: Study) -> Iterator[tuple[str, Use, float]]:
    import polars as pl

    found = monitor_rates.during_load(monitor_rates.disk(records, study))
    for use, quantity, factor in ((Use.DISK_BUSY, "util", 0.01), (Use.DISK_QUEUE, "queue", 1.0)):
        each = found.filter(pl.col("quantity") == quantity).group_by("trial", "device").agg(pl.col("value").median())
        for trial, most in each.group_by("trial").agg(pl.col("value").max()).iter_rows():
            yield trial, use, most * factor


def _network(records: Dataset, study: Study) -> Iterator[tuple[str, Use, float]]:
    for trial, grown in _grown(records, study, "net").items():
        packets = sum(delta for name, (delta, _) in grown.items() if name.endswith("x_packets"))
        lost = sum(delta for name, (delta, _) in grown.items() if name.endswith(("x_dropped", "x_errors")))
        if packets > 0:
            yield trial, Use.DROPS, lost / packets


def _perf(records: Dataset, study: Study) -> Iterator[tuple[str, Use, float]]:
    for trial, grown in _grown(records, study, "perf").items():
        cycles, instructions = _scaled(grown, "cycles"), _scaled(grown, "instructions")
        if cycles and instructions:
            yield trial, Use.STALLS, cycles / instructions


def _scaled(grown: Mapping[str, tuple[float, float]], event: str) -> float | None:
    """The estimate for the whole time of an event that had a counter for a part of it only (perf_event_open(2))."""
    count, enabled, running = (
        grown.get(f"{event}.{name}", (0.0, 0.0))[0] for name in ("count", "enabled_ns", "running_ns")
    )
    return count * enabled / running if running > 0 else None
