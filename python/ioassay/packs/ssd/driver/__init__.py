"""The driver simulate: a trial is a simulation of a trace over an SSD, and nothing on the machine is touched.

Parameters are the options of `ioassay.simulator` and the source of the requests (`read`). A pure
driver: all work is done in `parse`, in any process. A run that saturated has no latencies in its record: how long its
requests waited is about the length of the trace. What was seen of them stays in the raw summary.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioassay.errors import StudyError, UsageError
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.simulator import OfflineOptimum, Simulation
from ioassay.packs.ssd.simulator.flow_description import FlowParameters
from ioassay.records.record import FAILED, OK, SKIPPED, Buckets, Series, Warning_
from ioassay.roles import NOTHING, Command, Driver, Estimate, Load, Outcome, Parsed, Portable, Touch, Trial
from ioassay.simulation import drive_files, traces
from ioassay.simulation.options import DRIVE, NAMES, OPTIONS, PADDED, of_key
from ioassay.simulation.trace_parameters import NotFound, TraceParameters, find

SUMMARY, ELEMENTS = "summary.json", "elements.json"


class Simulate(Driver):
    """Simulates an SSD over a trace. Implements `roles.Driver`."""

    name = "simulate"
    measures = False
    deterministic = True
    counts_from_arrival = True

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError names the parameter that is wrong; a warning for a trace that is not here and may be absent."""
        wanted = read(params)
        check(wanted)
        try:
            wanted.trace.trace(repetition=0)
        except NotFound as error:
            return [Warning_("trace-absent", f"{error}; its trials will be skipped", wanted.trace.get)]
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        return NOTHING

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        return ()

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """Seconds from the number of requests (of a file from its size), memory from the drive."""
        wanted = read(params)
        pads = wanted.options.get("padding") or wanted.options.get("policy") == PADDED
        seconds = wanted.trace.requests() * (_PADDED_REQUEST_S if pads else _REQUEST_S)
        return Estimate(seconds + 0.05, written_bytes=0, memory_bytes=drive(wanted)["memory_bytes"])

    def portable(self, params: Mapping[str, Any]) -> Portable:
        """The file of its trace goes along; of a drive's own file the options, since that may name further files."""
        wanted, drive = read(params), params.get(_OF_DRIVE)
        if drive is not None and drive not in drive_files.builtin():
            params = {**wanted.options, **{name: value for name, value in params.items() if name != _OF_DRIVE}}
        try:
            found = find(wanted.trace.names) if wanted.trace.names else ""
        except NotFound:
            found = ""
        return Portable(params, {"trace": found} if isinstance(found, Path) else {})

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        return None

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Simulate one trial. `raw` gets the summary and the elements as the simulator said them."""
        wanted = read(trial.params)
        try:
            trace = wanted.trace.trace(trial.repetition)
            done = simulator.simulate(
                trace, format=wanted.trace.format, read=wanted.trace.read, prepare=wanted.prepared(), **wanted.options
            )
            optimum = optimum_of(wanted, trace)
        except NotFound as error:
            return Parsed(SKIPPED, f"{error}. {wanted.trace.get}")
        except UsageError as error:  # a trace that makes no sense, or a drive that does not fit into the memory
            return Parsed(FAILED, str(error))
        (raw / SUMMARY).write_text(json.dumps(_summary(done, trace, optimum), indent=1), encoding="utf-8")
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
    "translation_reads", "translation_writes", "unfinished", "saturated",
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


def _metrics(done: Simulation, optimum: OfflineOptimum | None) -> dict[str, float]:
    """Rates and latencies of reads, writes and all requests, and what drive and buffer did, with the bound of hits."""
    summary = done.summary
    found = {name: float(summary[key]) for name, key in _SIM.items() if summary[key] is not None}
    if optimum:
        found["sim.optimum_hit_ratio"], share = optimum.hit_ratio, optimum.gain_share(summary["hit_ratio"])
        found |= {} if share is None else {"sim.gain_share": share}
    parts = [("", done), *((f"{name}/", part) for name, part in done.parts.items())]
    for (prefix, part), (kind, direction) in itertools.product(parts, _KINDS.items()):
        if not (count := part.raw[kind]["count"]):
            continue
        name, size_bytes = f"{prefix}{direction}", part.user_bytes(kind)
        found |= {f"{name}.ios": float(count), f"{name}.bytes": float(size_bytes)}
        if part.span_s > 0:
            found |= {f"{name}.iops": count / part.span_s, f"{name}.bw": size_bytes / part.span_s}
        found |= {} if summary["saturated"] else _latencies(part, kind, name)
    return found


def _latencies(done: Simulation, kind: str, direction: str) -> dict[str, float]:
    values = done.response(kind).quantiles([*(percent / 100 for percent in PERCENTILES), 1.0])
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
            found.append(Series(metric, known["time_s"].to_list(), [value * factor for value in known[column]]))
    return found


def _summary(done: Simulation, trace: traces.Trace, optimum: OfflineOptimum | None) -> dict[str, Any]:
    """What is kept verbatim: the summary, the counts behind it, and which trace it was."""
    counts = {name: done.raw[name] for name in ("format", "changes", "tally", "drive", "steadiness", "preconditioned")}
    infinite = {name for name, value in done.summary.items() if isinstance(value, float) and not math.isfinite(value)}
    rest = {"offline_optimum": vars(optimum)} if optimum else {"flows": done.flows}
    described = dict(trace) if isinstance(trace, Mapping) else str(trace)
    return {"trace": described, "summary": {**done.summary, **dict.fromkeys(infinite)}, **counts, **rest}


# The parameters of a trial, and what follows from them: the options of `ioassay.simulator`, and those of the trace

_OF_DRIVE = "drive"
"""The parameter that names a drive; and `prepare.shrink = "drive"`: to the size of the drive that is simulated."""
_REQUEST_S, _PADDED_REQUEST_S = 3.5e-7, 1e-5
"""What a request takes a processor of today; one that brings a whole block with it."""


@dataclass(frozen=True)
class Settings:
    options: Mapping[str, Any]
    trace: TraceParameters | FlowParameters

    def prepared(self) -> dict[str, Any] | None:
        """What is done to the trace. Pages are those of the drive, which the trace may be shrunk to."""
        shrinks = self.trace.prepare.get("shrink") == _OF_DRIVE
        sizes = {_OF_DRIVE: drive(self)["capacity_bytes"]} if shrinks else {}
        return self.trace.prepared(self.options.get("page", NAMES["page"].default), **sizes)


def read(params: Mapping[str, Any]) -> Settings:
    """The parameters apart: options of the simulation, and the trace. StudyError for names and kinds that are wrong."""
    kind, others = (FlowParameters, ()) if "flows" in params else (TraceParameters, ("flows",))
    trace, drive = kind.of(params, [_OF_DRIVE, *others, *NAMES]), params.get(_OF_DRIVE)
    if drive is not None and not isinstance(drive, str):
        raise StudyError(f"is {drive!r}; expected a drive's name, or the path of its file", key=f"params.{_OF_DRIVE}")
    try:
        of_drive = simulator.drive_options(drive)
    except UsageError as error:
        raise StudyError(str(error), key=f"params.{_OF_DRIVE}") from None
    return Settings({**of_drive, **{name: value for name, value in params.items() if name in NAMES}}, trace)


def optimum_of(wanted: Settings, trace: traces.Trace) -> simulator.OfflineOptimum | None:
    """The offline optimum of the point's buffer on its trace, counted once for all policies and arrival modes."""
    if isinstance(wanted.trace, FlowParameters):  # which pages they write depends on the drive
        return None
    names = [option.name for option in OPTIONS if option.group == DRIVE] + ["buffer", "unaligned"]
    options = {name: wanted.options[name] for name in names if name in wanted.options}
    state = Path(trace).stat() if isinstance(trace, str | Path) and Path(trace).exists() else None
    version = (state.st_mtime_ns, state.st_size) if state else None
    how = {"format": wanted.trace.format, "read": wanted.trace.read, "prepare": wanted.prepared(), **options}
    return _optimum(pickle.dumps((trace, how)), version)


@functools.lru_cache(maxsize=64)
def _optimum(arguments: bytes, version: tuple[int, int] | None) -> simulator.OfflineOptimum:
    """`version`: of a trace's file, which may change while this process lives."""
    trace, how = pickle.loads(arguments)
    return simulator.offline_optimum(trace, **how)


def drive(wanted: Settings) -> Mapping[str, Any]:
    """What the drive is, as `simulation.check` says it: pages, bytes, and the memory that it takes."""
    return _checked(json.dumps(dict(wanted.options), sort_keys=True, default=str))


@functools.lru_cache(maxsize=1024)
def _checked(options: str) -> Mapping[str, Any]:
    return simulator.check(json.loads(options))


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
        prepare = wanted.prepared()
    wanted.trace.check(prepare)
