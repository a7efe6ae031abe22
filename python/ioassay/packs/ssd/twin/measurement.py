"""Loads as studies of fio, and the readings that their records give; `FioTarget` is a device or file under fio.

A load is a case of a study, and `load_of` reads it back from the trial's parameters. So readings come from any run
whose trials are closed loops of equal requests past the page cache, whoever planned it. Latencies are fio's total
latency (`lat`): from the issue of a request to its completion. What runs when is in `learning`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ioassay import host, units
from ioassay.errors import InputError
from ioassay.packs.ssd.twin.loads import Load, Operation, Pattern, Reading
from ioassay.records.record import OK
from ioassay.study import plan
from ioassay.study.model import Study, make_study

if TYPE_CHECKING:
    from ioassay.records.record import Record
    from ioassay.roles import Trial
    from ioassay.store.run_folder import RunStore

HOST = "host"
"""Stage of the loads that show what the host costs and how many requests it makes without the drive."""
LAYOUT = "layout"
"""Stage and name of the load that writes the range in sequence, so that it is known where each address lies."""
ENGINES = ("io_uring", "libaio")
"""Of fio, the one to prefer first; the other where the kernel or a container forbids it."""
_LOG = "log_lat.1.log"
"""Of single requests, in a trial's raw folder."""
_WINDOW_MS = 100
_MOST_CPU = 85.0
"""Per cent of a processor from which on the thread that issues requests, and not the drive, may limit a load."""
_MOST_OF_CEILING = 0.6
"""Share of the requests a second that the host makes of cached data, from which on a load counts as bound by it."""
_MOST_OF_DRIVE = 0.5
"""Share of the drive's shortest median that one of cached data may have."""
_STATISTICS = {"mean_us": "lat.mean", "p50_us": "lat.p50", "p99_us": "lat.p99"}
_QUANTILES = {"p50_us": 0.5, "p99_us": 0.99}
_BIN_NOISE = 1 / 64 / math.sqrt(12)
"""Relative: fio has 64 bins for each power of two, and a quantile is somewhere in one."""
_LEAST_WINDOWS = 5
_LEAST_RATED_S = 1.0
"""Length of a run from which on fio's own rate is used."""


def host_loads(seconds: float) -> tuple[Load, ...]:
    """Reads of cached data: the least latency of a request on this host, and the most requests a second."""
    cached = Load("", HOST, "read", 4096, span_bytes=4 * 2**20, seconds=seconds)
    return tuple(replace(cached, name=f"{HOST}-{depth}", depth=depth) for depth in (1, 256))


def layout_load() -> Load:
    """One request at a time, so that none overtakes another on its way to the drive."""
    return Load(LAYOUT, LAYOUT, "write", 128 * 1024, pattern="sequential")


# From loads to the parameters of fio, and back


_RW = {
    (operation, pattern): f"{prefix}{word}"
    for operation, word in {"read": "read", "write": "write", "mixed": "rw", "durable": "write"}.items()
    for pattern, prefix in {"random": "rand", "sequential": ""}.items()
}
_LOADS = {rw: key for key, rw in _RW.items() if key[0] != "durable"} | {"readwrite": ("mixed", "sequential")}
_KNOWN = {
    *("rw", "bs", "iodepth", "numjobs", "ioengine", "direct", "runtime", "size", "offset", "io_size", "norandommap"),
    *("blockalign", "rwmixread", "random_distribution", "time_based", "ramp_time", "logs", "log_interval", "sync"),
    *("end_fsync", "numa_cpu_nodes", "numa_mem_policy"),
    *("group_reporting", "refill_buffers", "randrepeat", "randseed", "pre_read", "invalidate", "buffered"),
    *("job", "name", "filename", "directory", "description", "thread", "allow_file_create", "startdelay"),
}
"""Parameters of fio that a load may have; with others it is another workload."""
_ALIASES = {"readwrite": "rw", "blocksize": "bs", "ba": "blockalign"}
_KILO_BYTE = re.compile(r"(?i)(?<=\d[kmgtp])b$")
_QUEUED = {"io_uring", "libaio", "posixaio", "spdk", "spdk_nvme", "spdk_bdev", "nbd"}
_DURABLE = ("sync", "dsync", "1")
_POLLING = "spdk"
"""How the engines of fio begin that poll for completions."""
_SYNCHRONOUS = {"psync", "sync", "pvsync", "pvsync2"}


def study(
    stage: str,
    loads: Sequence[Load],
    target: Mapping[str, Any],
    engine: str,
    seed: int,
    repetitions: int = 1,
    capacity_bytes: int | None = None,
) -> Study:
    """The study that measures loads in their order, and shuffled where repeated.

    They lie within `capacity_bytes`, by default the target's size.
    """
    is_host = loads[0].stage == HOST
    cached = {"direct": 0, "pre_read": 1}
    table = {
        "name": stage,
        "title": "What is this drive like?" if is_host else f"Loads: {stage}",
        "driver": "fio",
        "order": "listed" if repetitions == 1 else "shuffled",
        "repetitions": repetitions,
        "seed": seed,
        "target": dict(target),
        "params": {"ioengine": engine, "norandommap": 1, "refill_buffers": 0, **(cached if is_host else {"direct": 1})},
        "case": [{"name": load.name, **parameters(load, capacity_bytes or int(target["size"]))} for load in loads],
        # Observation of calls costs each request a fifth of a microsecond; a device's requests confirm as much.
        "watch": {"witness": "block" if host.devices(Path(str(target["path"]))) else "auto"},
        "analysis": {"questions": [*(["twin"] if is_host else []), "conditions", "verdict", "describe"]},
        "figures": [{"kind": "twin_curves", "name": "twin-reads"}] if is_host else [],
    }
    medians = {side: f"{side}.lat.p50" for load in loads for side in _sides(load).values()}
    made = make_study(table, stage, stored=True)  # a battery may repeat a load
    return made.model_copy(update={"analysis": made.analysis.model_copy(update={"responses": [*medians.values()]})})


def parameters(load: Load, capacity_bytes: int) -> dict[str, Any]:
    """What a case sets for a load: parameters of fio, in bytes and seconds, and `run.cooldown`."""
    span = _range_bytes(load, capacity_bytes)
    made: dict[str, Any] = {"rw": _RW[load.operation, load.pattern], "bs": load.size_bytes, "iodepth": load.depth}
    made |= {"offset": load.begin_bytes, "size": span}
    requests = load.requests or (0 if load.seconds else span // load.size_bytes)
    if requests:
        made |= {"io_size": requests * load.size_bytes, "time_based": 0}
    made |= {
        "runtime": f"{round(load.seconds * 1000)}ms" if load.seconds else None,
        "blockalign": load.align_bytes if load.align_bytes and load.pattern == "random" else None,
        "rwmixread": round(load.read_share * 100) if load.operation == "mixed" else None,
        "sync": "dsync" if load.operation == "durable" else None,
        "end_fsync": 1 if load.stage == LAYOUT else None,  # what comes next finds an empty write cache
        "random_distribution": f"zipf:{load.zipf:g}" if load.zipf else None,
        "run.cooldown": load.rest_s or None,
        # Where a latency is the answer, each request; else averages, whose scatter tells the noise.
        "logs": ["requests" if load.in_order else "lat"],
        "log_interval": f"{_WINDOW_MS}ms",
    }
    return {name: value for name, value in made.items() if value is not None}


def reaches(load: Load, capacity_bytes: int) -> bool:
    """Whether fio can place the load's requests on a target of that capacity."""
    return load.size_bytes <= _range_bytes(load, capacity_bytes) <= capacity_bytes - load.begin_bytes


def _range_bytes(load: Load, capacity_bytes: int) -> int:
    """The `size` in which fio has all places of a load; of one to the end of the target, those whose step is whole.

    It counts whole steps of `blockalign`, wherever the last request ends (last_block, io_u.c).
    """
    room = capacity_bytes - load.begin_bytes
    span, align = load.span_bytes or room, load.align_bytes
    if not align or load.pattern != "random":
        return span
    beyond = max(load.size_bytes - align, 0)
    places = max(span - load.size_bytes, 0) // align + 1 if load.span_bytes else (room - beyond) // align
    return places * align + beyond


def load_of(trial: Trial) -> Load | None:
    """The load of a trial of fio; None where it is no closed loop of equal requests, or not past the page cache."""
    given = {_ALIASES.get(name, name): value for name, value in trial.params.items()}
    if trial.driver != "fio" or given.keys() - _KNOWN or trial.twin or trial.calls:
        return None
    kind = _LOADS.get(str(given.get("rw", "read")))
    jobs, engine = int(given.get("numjobs", 1)), str(given.get("ioengine", "psync"))
    is_cached = str(given.get("direct", 0)) not in ("1", "True") and trial.study != HOST
    distribution, _, theta = str(given.get("random_distribution", "random")).partition(":")
    is_known = engine in _QUEUED | _SYNCHRONOUS and distribution in ("random", "zipf")
    if kind is None or is_cached or not is_known or (jobs > 1 and kind[1] == "sequential"):
        return None
    try:
        size_bytes, span_bytes = _bytes(given, "bs", 4096), _bytes(given, "size", 0)
        depth = int(given.get("iodepth", 1)) if engine in _QUEUED else 1
        # fio has no more in flight than a job's `size` has requests, wherever they lie, unless time ends it.
        if span_bytes and str(given.get("time_based", 0)) not in ("1", "True"):
            depth = max(1, min(depth, span_bytes // size_bytes))
        case = trial.point.get("case")
        named = str(case) if case is not None else f"{trial.study} {plan.describe(trial.point)}"
        operation, pattern = kind
        if str(given.get("sync", "none")) in _DURABLE and operation == "write":
            operation = "durable"
        load = Load(named, trial.study, cast(Operation, operation), size_bytes, jobs * depth, cast(Pattern, pattern))
        return replace(
            load,
            align_bytes=_bytes(given, "blockalign", 0),
            read_share=int(given.get("rwmixread", 50)) / 100 if operation == "mixed" else 1.0,
            zipf=float(theta or 0) if distribution == "zipf" else 0.0,
            begin_bytes=_bytes(given, "offset", 0),
            span_bytes=span_bytes,
            requests=_bytes(given, "io_size", 0) // size_bytes,
            seconds=units.parse_duration_s(given["runtime"]) if "runtime" in given else 0.0,
            rest_s=float(trial.run.get("cooldown") or 0.0),
            in_order="requests" in given.get("logs", ()),
        )
    except (ValueError, ZeroDivisionError):  # several sizes, or one relative to the target
        return None


def _bytes(given: Mapping[str, Any], name: str, default: int) -> int:
    """fio reads `4kb` as it reads `4k`: 4096 bytes, since its `kb_base` is 1024 (HOWTO, "Parameter types")."""
    return units.parse_size(_KILO_BYTE.sub("", str(given[name]))) if name in given else default


# From records to readings


def readings(store: RunStore, known: dict[str, Reading | None] | None = None) -> list[Reading]:
    """What the trials of a run gave that went well, in the order of its plan; repetitions of a load are one reading.

    Of trials that are `known`, nothing is read again; the others are added. InputError for a damaged file of the run.
    """
    known = {} if known is None else known
    found: dict[Load, list[Reading]] = {}
    for trial in store.trials():
        if (load := load_of(trial)) is not None and store.has(trial.id):
            if trial.id not in known:
                is_polling = str(trial.params.get("ioengine", "")).startswith(_POLLING)
                known[trial.id] = reading(load, store.record(trial.id), store.folder(trial.id), is_polling=is_polling)
            one = known[trial.id]
            found.setdefault(load, []).extend([one] if one is not None else [])
    return with_ceiling([_merged(each) for each in found.values() if each])


def reading(load: Load, record: Record, folder: Path, *, is_polling: bool = False) -> Reading | None:
    """What one trial gave; None where it did not go well, or gave no latencies.

    An engine that `is_polling` keeps its processor busy at any rate, which says nothing about the host.
    """
    if record.status != OK:
        return None
    sides = _sides(load)
    metrics, statistics, noise = record.metrics, dict[str, float](), dict[str, float]()
    bins: tuple[np.ndarray, np.ndarray] | None = None
    for prefix, side in sides.items():
        known = {name: metrics.get(f"{side}.{metric}") for name, metric in _STATISTICS.items()}
        # Where a result states quantiles of the completion latency alone, as fio's JSON does by default: the mean of
        # the submission latency, which varies little, is added.
        for name in (name for name in _QUANTILES if known[name] is None):
            completion = metrics.get(f"{side}.clat.{name.removesuffix('_us')}")
            known[name] = None if completion is None else completion + metrics.get(f"{side}.slat.mean", 0.0)
        own = _possible({name: value / 1e3 for name, value in known.items() if value is not None})
        if own:
            own["iops"] = _rate(load, side, metrics)
        values_ns, counts = _columns(folder / "hist.parquet", "value_ns", "count", direction=side, kind="lat")
        (means,) = _columns(folder / "series.parquet", "value", metric=f"{side}.lat.mean")
        ascending = np.argsort(values_ns)
        of_side = (values_ns[ascending] / 1e3, counts[ascending]) if len(counts) else None
        scatter = noise_of(*of_side, means) if of_side else {}
        statistics |= {f"{prefix}{name}": value for name, value in own.items()}
        noise |= {f"{prefix}{name}": scatter[name] for name in own if name in scatter}
        bins = bins or of_side
    if "mean_us" not in statistics:
        return None
    requests = sum(metrics.get(f"{side}.ios", 0.0) for side in sides.values())
    seconds = max(metrics.get(f"{side}.runtime", 0.0) for side in (*sides.values(), "write"))
    is_busy = metrics.get("cpu.usr", 0.0) + metrics.get("cpu.sys", 0.0) > _MOST_CPU
    in_order = latencies(folder / "raw" / _LOG, sides[""]) if load.in_order else None
    is_host_bound = is_busy and load.stage != HOST and not is_polling
    bins_us, in_bins = bins or (None, None)
    return Reading(load, int(requests), seconds, statistics, noise, in_order, bins_us, in_bins, is_host_bound)


def _possible(statistics: dict[str, float]) -> dict[str, float]:
    """Without quantiles that no distribution of this mean has: by Markov's inequality q is at most mean / (1 - share).

    Some published results of fio state 17 s for each percentile of a latency of 11 us.
    """
    most = statistics.get("mean_us", math.inf) * (1 + 2 * _BIN_NOISE)
    beyond = {name for name, share in _QUANTILES.items() if statistics.get(name, 0.0) * (1 - share) > most}
    return {name: value for name, value in statistics.items() if name not in beyond}


def _rate(load: Load, side: str, metrics: Mapping[str, float]) -> float:
    """Requests a second of one direction.

    In runs of less than a second by Little's law, depth over mean latency: fio counts whole milliseconds, and the start
    and the end of the run with them, which made 10,700 of 16,800 in runs of 48 ms.
    """
    rate, seconds = metrics.get(f"{side}.iops"), metrics.get(f"{side}.runtime", 0.0)
    if rate is not None and seconds >= _LEAST_RATED_S:
        return rate
    sides = _sides(load).values()
    waited_s = sum(metrics.get(f"{one}.ios", 0.0) * metrics.get(f"{one}.lat.mean", 0.0) for one in sides) / 1e9
    return load.depth * metrics.get(f"{side}.ios", 0.0) / waited_s if waited_s else 0.0


def _sides(load: Load) -> dict[str, str]:
    """Prefix of a statistic -> the direction of fio's that it is of."""
    if load.operation == "mixed":
        return {"": "read", "write_": "write"}
    return {"": "write" if load.operation == "durable" else load.operation}


def with_ceiling(found: Iterable[Reading]) -> list[Reading]:
    """The readings, marked where the host's own rate of requests is near.

    Nothing is marked without its loads, nor where these took about as long as those of the drive: some file systems
    keep nothing in the page cache, FUSE with direct I/O for one, so that they reached the drive.
    """
    found = list(found)
    cached = [one for one in found if one.load.stage == HOST]
    own = [one for one in found if one.load.stage != HOST and one.load.operation == "read" and one.load.depth == 1]
    medians = ([one.statistics.get("p50_us", math.inf) for one in each] for each in (cached, own))
    fastest, of_drive = (min(each, default=math.inf) for each in medians)
    if not fastest < _MOST_OF_DRIVE * of_drive:
        return found
    most = max(one.statistics.get("iops", 0.0) for one in cached) * _MOST_OF_CEILING
    rates = [one.statistics.get("iops", 0.0) + one.statistics.get("write_iops", 0.0) for one in found]
    near = [rate > most and one.load.stage != HOST for rate, one in zip(rates, found, strict=True)]
    return [replace(one, is_host_bound=True) if is_near else one for is_near, one in zip(near, found, strict=True)]


def noise_of(
    bins_us: np.ndarray, counts: np.ndarray, window_means: Sequence[float] | np.ndarray = ()
) -> dict[str, float]:
    """Relative standard errors of the statistics of a distribution: shapes (bins,), (bins,).

    Of the mean by batch means, where there are windows, and at least that of independent requests (Law, Simulation
    Modeling and Analysis, section 9.5.3); of quantiles by the binomial law of ranks, for as many requests as would be
    independent.
    """
    number = float(counts.sum())
    mean = float((bins_us * counts).sum() / number) if number else 0.0
    if not mean:
        return {}
    spread = math.sqrt(max(float((counts * (bins_us - mean) ** 2).sum()) / number, 0.0)) / mean
    independent = max(spread, _BIN_NOISE) / math.sqrt(number)
    of_mean = independent
    if len(window_means) >= _LEAST_WINDOWS:
        batches = np.asarray(window_means, dtype=np.float64)
        of_mean = max(of_mean, float(batches.std(ddof=1)) / float(batches.mean()) / math.sqrt(len(batches)))
    effective = max(number * (independent / of_mean) ** 2, 1.0)
    shares = np.cumsum(counts) / number
    found = {"mean_us": of_mean, "iops": of_mean}
    for name, quantile in _QUANTILES.items():
        step = math.sqrt(quantile * (1 - quantile) / effective)
        places = np.searchsorted(shares, np.clip([quantile - step, quantile, quantile + step], 0.0, 1.0))
        low, middle, high = bins_us[np.minimum(places, len(bins_us) - 1)].tolist()
        found[name] = math.hypot((high - low) / 2 / middle, _BIN_NOISE)
    return found


def latencies(path: Path, side: str = "read") -> np.ndarray:
    """The latencies in a log of single requests, in microseconds, in the order of their completion.

    InputError where it is no such log.
    """
    import polars as pl

    try:
        lines = pl.read_csv(path.read_bytes().replace(b" ", b""), has_header=False)
        chosen = lines.filter(pl.nth(2) == (0 if side == "read" else 1))
        return chosen.select(pl.nth(1).cast(pl.Float64)).to_series().to_numpy() / 1e3
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; measure that load again") from None
    except pl.exceptions.PolarsError as error:
        wanted = "expected lines of a latency log of fio"
        raise InputError(f"{path}: {str(error).splitlines()[0]}; {wanted}; measure that load again") from None


def _merged(each: Sequence[Reading]) -> Reading:
    """Repetitions of one load: means of the statistics, whose noise their scatter gives."""
    first = each[0]
    if len(each) == 1:
        return first
    names = set.intersection(*(set(one.statistics) for one in each))
    values = {name: np.array([one.statistics[name] for one in each]) for name in names}
    positive = {name: some for name, some in values.items() if some.mean() > 0}
    noise = {name: float(some.std(ddof=1) / some.mean() / math.sqrt(len(each))) for name, some in positive.items()}
    with_bins = [(one.bins_us, one.counts) for one in each if one.bins_us is not None and one.counts is not None]
    if with_bins:
        values_us, counts = (np.concatenate(arrays) for arrays in zip(*with_bins, strict=True))
        at, place = np.unique(values_us, return_inverse=True)
        first = replace(first, bins_us=at, counts=np.bincount(place, weights=counts))
    return replace(
        first,
        requests=sum(one.requests for one in each),
        seconds=sum(one.seconds for one in each),
        statistics={name: float(some.mean()) for name, some in values.items()},
        noise=noise,
        is_host_bound=any(one.is_host_bound for one in each),
    )


def _columns(path: Path, *names: str, **of: str) -> list[np.ndarray]:
    """Columns of the rows about all jobs that have these values, in a table of a trial; empty without the table."""
    import polars as pl

    if not path.exists():
        return [np.empty(0) for _ in names]
    try:
        rows = pl.read_parquet(path).filter(job=-1, **of)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path}: is damaged: {str(error).splitlines()[0]}; measure that load again") from None
    return [rows[name].to_numpy().astype(np.float64) for name in names]


# The target that the battery sees


class Unmeasured(Exception):
    """Control flow: the loads that come next, where their readings are not there yet."""

    def __init__(self, loads: Sequence[Load]) -> None:
        super().__init__(f"{len(loads)} loads are not measured yet")
        self.loads = loads


@dataclass
class FioTarget:
    """A device or file under fio, as far as its run has come. Implements `loads.Target`.

    Each batch that is asked for is the next one that was measured. `run` raises Unmeasured for the first that was not:
    whoever carries out the run measures these loads, and asks the battery from its beginning again. So what a battery
    wants may depend on readings only, and a run that was killed goes on where it was.
    """

    capacity_bytes: int
    batches: Sequence[Sequence[Reading]] = ()
    _next: int = 0

    def run(self, loads: Sequence[Load]) -> list[Reading]:
        """The readings of loads that went well, of those that fio can place here. Unmeasured, see there."""
        loads = [load for load in loads if reaches(load, self.capacity_bytes)]
        if not loads:
            return []
        if self._next >= len(self.batches):
            raise Unmeasured(loads)
        self._next += 1
        return list(self.batches[self._next - 1])
