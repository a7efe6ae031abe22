"""The driver simulate: a trial is a simulation of a trace over an SSD, and nothing on the machine is touched.

Parameters are the options of `ioassay.simulator` and the source of the requests (`read`). A pure
driver: all work is done in `parse`, in any process. A run that saturated has no latencies in its record: how long its
requests waited is about the length of the trace. What was seen of them stays in the raw summary.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay.errors import StudyError, UsageError
from ioassay.hints import suggestion
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.packs.ssd import simulator, traces
from ioassay.packs.ssd.simulator import OfflineOptimum, Simulation
from ioassay.records.record import FAILED, OK, SKIPPED, Buckets, Series, Warning_
from ioassay.roles import NOTHING, Command, Driver, Estimate, Load, Outcome, Parsed, Portable, Touch, Trial
from ioassay.simulation import drive_files
from ioassay.simulation.options import DRIVE, NAMES, OPTIONS, PADDED, of_key

SUMMARY, ELEMENTS = "summary.json", "elements.json"


class Simulate(Driver):
    """Simulates an SSD over a trace. Implements `roles.Driver`."""

    name = "simulate"
    measures = False
    deterministic = True

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError names the parameter that is wrong; a warning for a trace that is not here and may be absent."""
        wanted = read(params)
        check(wanted)
        try:
            trace_of(wanted, repetition=0)
        except NotFound as error:
            return [Warning_("trace-absent", f"{error}; its trials will be skipped", wanted.get)]
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        return NOTHING

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        return ()

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """Seconds from the number of requests (of a file from its size), memory from the drive."""
        wanted = read(params)
        pads = wanted.options.get("padding") or wanted.options.get("policy") == PADDED
        seconds = _requests(wanted) * (_PADDED_REQUEST_S if pads else _REQUEST_S)
        return Estimate(seconds + 0.05, written_bytes=0, memory_bytes=drive(wanted)["memory_bytes"])

    def portable(self, params: Mapping[str, Any]) -> Portable:
        """The file of its trace goes along; of a drive's own file the options, since that may name further files."""
        wanted, drive = read(params), params.get(_OF_DRIVE)
        if drive is not None and drive not in drive_files.builtin():
            params = {**wanted.options, **{name: value for name, value in params.items() if name != _OF_DRIVE}}
        try:
            found = find(wanted.traces) if wanted.traces else ""
        except NotFound:
            found = ""
        return Portable(params, {"trace": found} if isinstance(found, Path) else {})

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        return None

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Simulate one trial. `raw` gets the summary and the elements as the simulator said them."""
        wanted = read(trial.params)
        try:
            trace = trace_of(wanted, trial.repetition)
            done = simulator.simulate(
                trace, format=wanted.format, read=wanted.read, prepare=prepared(wanted), **wanted.options
            )
            optimum = optimum_of(wanted, trace)
        except NotFound as error:
            return Parsed(SKIPPED, f"{error}. {wanted.get}")
        except UsageError as error:  # a trace that makes no sense, or a drive that does not fit into the memory
            return Parsed(FAILED, str(error))
        said = json.dumps(_summary(done, trace, optimum), indent=1)
        (raw / SUMMARY).write_text(said, encoding="utf-8")
        (raw / ELEMENTS).write_text(json.dumps(dict(done.raw["elements"])), encoding="utf-8")
        if done.nothing and not done.summary["saturated"]:
            return Parsed(SKIPPED, f"nothing was measured: {done.nothing}", warnings=done.warnings)
        return Parsed(
            OK, metrics=_metrics(done, optimum), buckets=_buckets(done), series=_series(done), warnings=done.warnings
        )


_KINDS = {"read": "read", "write": "write", "all": "total"}
"""What the simulator tells apart, and the direction in names of metrics."""
_PS_PER_NS = 1e3
_ALIKE = (
    "hit_ratio", "read_hit_ratio", "write_amplification", "erases", "cleanings", "moved_pages", "written_pages",
    "dead_blocks", "slc_pages", "folded_pages", "slc_free_share", "mapping_hit_ratio", "mapping_hits", "mapping_misses",
    "translation_reads", "translation_writes", "unfinished",
)  # fmt: skip
_SIM = {
    **{f"sim.{name}": name for name in _ALIKE},
    "sim.utilisation": "mean_utilisation",
    "sim.span": "simulated_s",
    "sim.wall": "wall_s",
}
"""Metric -> number of the simulation's summary."""
_SERIES = {
    "total.lat.mean": ("mean_response_ms", 1e6),
    "sim.outstanding": ("outstanding", 1.0),
    "sim.utilisation": ("mean_utilisation", 1.0),
    "sim.write_amplification": ("write_amplification", 1.0),
}
"""Metric -> column of the simulation's series, and what it is multiplied with."""


def _metrics(done: Simulation, optimum: OfflineOptimum) -> dict[str, float]:
    """Rates and latencies of reads, writes and all requests, and what drive and buffer did, with the bound of hits."""
    summary = done.summary
    found = {name: float(summary[key]) for name, key in _SIM.items() if summary[key] is not None}
    found["sim.optimum_hit_ratio"] = optimum.hit_ratio
    if (share := optimum.gain_share(summary["hit_ratio"])) is not None:
        found["sim.gain_share"] = share
    found["sim.saturated"] = float(summary["saturated"])
    for kind, direction in _KINDS.items():
        if not (count := done.raw[kind]["count"]):
            continue
        size_bytes = done.user_bytes(kind)
        found |= {f"{direction}.ios": float(count), f"{direction}.bytes": float(size_bytes)}
        if done.span_s > 0:
            found |= {f"{direction}.iops": count / done.span_s, f"{direction}.bw": size_bytes / done.span_s}
        found |= {} if summary["saturated"] else _latencies(done, kind, direction)
    return found


def _latencies(done: Simulation, kind: str, direction: str) -> dict[str, float]:
    histogram = done.response(kind)
    values = histogram.quantiles([*(percent / 100 for percent in PERCENTILES), 1.0])
    named = dict(zip([*map(percentile_name, PERCENTILES), "max"], values, strict=True))
    named["mean"] = done.raw[kind]["mean_response_ps"] / _PS_PER_NS
    return {f"{direction}.lat.{statistic}": float(value) for statistic, value in named.items()}


def _buckets(done: Simulation) -> list[Buckets]:
    """The distributions of response times of reads, writes and all; none of a saturated run."""
    if done.summary["saturated"]:
        return []
    known = {kind: direction for kind, direction in _KINDS.items() if done.raw[kind]["count"]}
    return [Buckets(direction, "lat", *done.response(kind).buckets()) for kind, direction in known.items()]


def _series(done: Simulation) -> list[Series]:
    """Response, outstanding requests, utilisation and write amplification over simulated time."""
    frame, found = done.series, []
    for metric, (column, factor) in _SERIES.items():
        known = frame.select("time_s", column).drop_nulls()
        if known.height and not (done.summary["saturated"] and metric.startswith("total.lat")):
            values = [value * factor for value in known[column].to_list()]
            found.append(Series(metric, known["time_s"].to_list(), values))
    return found


def _summary(done: Simulation, trace: traces.Trace, optimum: OfflineOptimum) -> dict[str, Any]:
    """What is kept verbatim: the summary, the counts behind it, and which trace it was."""
    raw = done.raw
    described = dict(trace) if isinstance(trace, Mapping) else str(trace)
    counts = {name: raw[name] for name in ("format", "changes", "tally", "drive", "steadiness")}
    infinite = {name for name, value in done.summary.items() if isinstance(value, float) and not math.isfinite(value)}
    numbers = {**done.summary, **dict.fromkeys(infinite)}
    counts["offline_optimum"] = vars(optimum)
    return {"trace": described, "summary": numbers, **counts, "preconditioned": raw["preconditioned"]}


# The parameters of a trial: what they are, what follows from them, and what a trial with them costs. Beside the options
# of `ioassay.simulator` a trial has a trace: a file that is named (`trace`), or a recipe (`make`). A study that names a
# trace by its bare file name runs wherever somebody keeps that file

_OF_DRIVE = "drive"
"""The parameter that names a drive; and `prepare.shrink = "drive"`: to the size of the drive that is simulated."""
_TRACE_KEYS = ("trace", "make", "format", "read", "prepare", "sizes", "first", "get")
_TEXTS = ("arrivals", "addresses")
"""Of a recipe, what must be text."""
_REQUEST_S, _PADDED_REQUEST_S = 3.5e-7, 1e-5
"""What a request takes a processor of today; one that brings a whole block with it."""
_RECORD_BYTES, _PACKED_RECORD_BYTES = 30, 10
"""Of a trace file, for each request: a line of text, and one that is compressed."""


@dataclass(frozen=True)
class Settings:
    options: Mapping[str, Any]
    traces: Sequence[str] = ()
    make: Mapping[str, Any] | None = None
    format: str | None = None
    read: Mapping[str, Any] | None = None
    prepare: Mapping[str, Any] = field(default_factory=dict)
    sizes: str | None = None
    """That of the preparation, as a parameter of its own: it can be a factor."""
    first: int | None = None
    """No more than so many requests, of what the preparation leaves."""
    get: str = ""
    """How to get a trace that may be absent; '' for one that must be here."""


def read(params: Mapping[str, Any]) -> Settings:
    """The parameters apart: options of the simulation, and the trace. StudyError for names and kinds that are wrong."""
    known = [_OF_DRIVE, *NAMES, *_TRACE_KEYS]
    for name in params:
        if name not in known:
            raise StudyError(f"no such parameter; {suggestion(name, known)}", key=f"params.{name}")
    for name in ("make", "read", "prepare"):
        if not isinstance(params.get(name, {}), Mapping):
            raise StudyError(f"is {params[name]!r}; expected a table", key=f"params.{name}")
    for name in ("format", "get", "sizes"):
        if not isinstance(params.get(name, ""), str):
            raise StudyError(f"is {params[name]!r}; expected text", key=f"params.{name}")
    if ("trace" in params) == ("make" in params):
        raise StudyError("expected one of trace (a file) and make (a recipe)", key="params.trace")
    drive, names = params.get(_OF_DRIVE), params.get("trace", [])
    if drive is not None and not isinstance(drive, str):
        raise StudyError(f"is {drive!r}; expected a drive's name, or the path of its file", key=f"params.{_OF_DRIVE}")
    try:
        of_drive = simulator.drive_options(drive)
    except UsageError as error:
        raise StudyError(str(error), key=f"params.{_OF_DRIVE}") from None
    files = [names] if isinstance(names, str) else names
    named = isinstance(files, list) and all(isinstance(name, str) and name for name in files)
    if not named or ("trace" in params and not files):
        raise StudyError(f"is {names!r}; expected a file, or a list of file names", key="params.trace")
    return Settings(
        {**of_drive, **{name: value for name, value in params.items() if name in NAMES}},
        files,
        make=params.get("make"),
        format=params.get("format"),
        read=params.get("read"),
        prepare=params.get("prepare", {}),
        sizes=params.get("sizes"),
        first=_whole("params.first", params["first"]) if params.get("first") is not None else None,
        get=params.get("get", ""),
    )


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise StudyError(f"is {value!r}; expected a whole number of requests, at least 1", key=key)
    return value


def trace_of(wanted: Settings, repetition: int) -> traces.Trace:
    """The file or the recipe; NotFound for an absent trace that may be absent, StudyError for one that may not.

    A recipe without a seed of its own takes one from the repetition, the same at every point of a study: all policies
    meet the same requests, and repetitions are other traces of the same law.
    """
    if wanted.make is not None:
        recipe = made(wanted.make, repetition)
        return {**recipe, "requests": min(recipe["requests"], wanted.first or recipe["requests"])}
    try:
        return find(wanted.traces)
    except NotFound as error:
        if wanted.get:
            raise
        raise StudyError(str(error), key="params.trace") from None


def made(make: Mapping[str, Any], repetition: int) -> dict[str, Any]:
    """The recipe as `traces.recipe` makes it. StudyError for keys and kinds that are wrong."""
    _known_keys("make", make, traces.recipe)
    for name in _TEXTS:
        if not isinstance(make.get(name, ""), str):
            raise StudyError(f"is {make[name]!r}; expected text such as 'poisson:20000'", key=f"params.make.{name}")
    if "requests" in make:
        _whole("params.make.requests", make["requests"])
    try:
        return traces.recipe(**{"seed": repetition + 1, **make})
    except (UsageError, TypeError, AttributeError, ValueError) as error:
        raise StudyError(str(error), key="params.make") from None


def prepared(wanted: Settings) -> dict[str, Any] | None:
    """What is done to the trace. Pages are those of the drive unless told otherwise; a drive may be shrunk to."""
    keys = {**wanted.prepare}
    if wanted.sizes is not None:
        if "sizes" in keys:
            raise StudyError(
                f"is '{wanted.sizes}', and prepare.sizes is given; expected one of them", key="params.sizes"
            )
        keys["sizes"] = wanted.sizes
    if wanted.first is not None and wanted.make is None:
        keys["first"] = min(wanted.first, _whole("params.prepare.first", keys.get("first", wanted.first)))
    if not keys:
        return None
    _known_keys("prepare", keys, traces.preparation)
    keys = {"page": wanted.options.get("page", NAMES["page"].default), **keys}
    if keys.get("shrink") == _OF_DRIVE:
        keys["shrink"] = drive(wanted)["capacity_bytes"]
    try:
        return traces.preparation(**keys)
    except (TypeError, AttributeError, ValueError) as error:
        raise UsageError(str(error)) from None


def _known_keys(table: str, given: Mapping[str, Any], taker: Any) -> None:
    known = list(inspect.signature(taker).parameters)
    for name in given:
        if name not in known:
            raise StudyError(f"no such key; {suggestion(name, known)}", key=f"params.{table}.{name}")


def optimum_of(wanted: Settings, trace: traces.Trace) -> simulator.OfflineOptimum:
    """The offline optimum of the point's buffer on its trace, counted once for all policies and arrival modes."""
    names = [option.name for option in OPTIONS if option.group == DRIVE] + ["buffer", "unaligned"]
    options = {name: wanted.options[name] for name in names if name in wanted.options}
    state = Path(trace).stat() if isinstance(trace, str | Path) and Path(trace).exists() else None
    version = (state.st_mtime_ns, state.st_size) if state else None
    how = {"format": wanted.format, "read": wanted.read, "prepare": prepared(wanted), **options}
    return _optimum(pickle.dumps((trace, how)), version)


@functools.lru_cache(maxsize=64)
def _optimum(arguments: bytes, version: tuple[int, int] | None) -> simulator.OfflineOptimum:
    """`version`: of a trace's file, which may change while this process lives."""
    trace, how = pickle.loads(arguments)
    return simulator.offline_optimum(trace, **how)


def _requests(wanted: Settings) -> float:
    most = wanted.first or float("inf")
    if wanted.make is not None:
        return min(most, float(wanted.make.get("requests", traces.recipe()["requests"])))
    try:
        found = find(wanted.traces)
    except NotFound:
        return 0
    path = found if isinstance(found, Path) else traces.shipped()[found]
    record_bytes = _PACKED_RECORD_BYTES if path.suffix in (".gz", ".zst") else _RECORD_BYTES
    return min(most, path.stat().st_size / record_bytes, float(wanted.prepare.get("first", float("inf"))))


def drive(wanted: Settings) -> Mapping[str, Any]:
    """What the drive is, as `simulation.check` says it: pages, bytes, and the memory that it takes."""
    return _checked(json.dumps(dict(wanted.options), sort_keys=True, default=str))


@functools.lru_cache(maxsize=1024)
def _checked(options: str) -> Mapping[str, Any]:
    return simulator.check(json.loads(options))


_ANY_TRACE, _PAGE_BYTES = "web", 4096
"""A trace to try how one is read; the range of a recipe whose request fits into any drive and any page."""


def check(wanted: Settings) -> None:
    """StudyError for what cannot be simulated, with its key; the drive, the recipe and the preparation are tried."""
    for name, value in wanted.options.items():
        with of_key(f"params.{name}"):
            simulator.setup({name: value})
    try:
        drive(wanted)
    except UsageError as error:
        # The first option that the core's message names: 'elements is 0, wanted 1 to 4096'.
        words = (word.rpartition(".")[2] for word in re.findall(r"[\w.]+", str(error)))
        key = next((f"params.{word}" for word in words if word in NAMES), "params")
        raise StudyError(str(error), key=key) from None
    with of_key("params.prepare"):
        prepare = prepared(wanted)
        _try({**traces.recipe(range=_PAGE_BYTES), "requests": 1}, prepare)
    if wanted.make is not None:
        for name in ("format", "read"):
            if getattr(wanted, name) is not None:
                raise StudyError("is about trace files, and the trace is made", key=f"params.{name}")
        trace_of(wanted, 0)
        with of_key("params.make"):
            _try({**made(wanted.make, 0), "requests": 1}, prepare)
        return
    if wanted.format is not None and wanted.format not in (names := [one["name"] for one in traces.formats()]):
        hint = suggestion(wanted.format, names)
        raise StudyError(f"'{wanted.format}' is no format of traces; {hint}", key="params.format")
    if wanted.read:
        with of_key("params.read"):
            _try(_ANY_TRACE, {"first": 1}, wanted.read)


def _try(trace: traces.Trace, prepare: Mapping[str, Any] | None, read: Mapping[str, Any] | None = None) -> None:
    """Look at one request of the trace, read and prepared as wanted."""
    _tried(pickle.dumps((trace, prepare, dict(read or {}))))


@functools.lru_cache(maxsize=256)
def _tried(arguments: bytes) -> None:
    trace, prepare, read = pickle.loads(arguments)
    traces.info(trace, read=read, prepare=prepare)


FOLDERS = "IOASSAY_TRACES"
"""Environment variable: folders in which traces are looked for first, with ':' between them."""
_COMPRESSED = ("", ".zst", ".gz")


class NotFound(Exception):
    """None of the wanted files is here; the message names them and the folders that were searched."""


def find(names: Sequence[str]) -> Path | str:
    """The first of the traces that is here: a path, or the name of a trace that is shipped. NotFound otherwise."""
    for name in names:
        if Path(name).is_file():
            return Path(name)
        if name in traces.shipped():
            return name
        if Path(name).name == name:
            for folder in folders():
                for ending in _COMPRESSED:
                    if (path := folder / f"{name}{ending}").is_file():
                        return path
    searched = any(Path(name).name == name for name in names)
    places = f", nor in the folders of ${FOLDERS}, in ./traces, ./data or ../*/data" if searched else ""
    raise NotFound(f"no file {' or '.join(names)} here{places}")


def folders() -> Iterator[Path]:
    yield from (Path(folder) for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder)
    yield from (Path("traces"), Path("data"))
    yield from sorted(Path("..").glob("*/data"))
