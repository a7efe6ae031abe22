"""The driver simulate: a trial is a simulation of a trace over an SSD, and nothing on the machine is touched.

Parameters are the options of `ioassay.simulator` and the source of the requests (`simulation_parameters`). A pure
driver: all work is done in `parse`, in any process. A run that saturated has no latencies in its record: how long its
requests waited is about the length of the trace. What was seen of them stays in the raw summary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.errors import UsageError
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.packs.ssd import simulator, traces
from ioassay.packs.ssd.driver import simulation_parameters
from ioassay.packs.ssd.driver.simulation_parameters import NotFound
from ioassay.packs.ssd.simulator import OfflineOptimum, Simulation
from ioassay.records.record import FAILED, OK, SKIPPED, Buckets, Series, Warning_
from ioassay.roles import NOTHING, Command, Driver, Estimate, Load, Outcome, Parsed, Portable, Tool, Touch, Trial

SUMMARY, ELEMENTS = "summary.json", "elements.json"


class Simulate(Driver):
    """Simulates an SSD over a trace. Implements `roles.Driver`."""

    name = "simulate"
    measures = False
    deterministic = True

    def tool(self) -> Tool | None:
        """None: the simulator is part of ioassay."""
        return None

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Nothing to take."""

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError names the parameter that is wrong; a warning for a trace that is not here and may be absent."""
        wanted = simulation_parameters.read(params)
        simulation_parameters.check(wanted)
        try:
            simulation_parameters.trace(wanted, repetition=0)
        except NotFound as error:
            return [Warning_("trace-absent", f"{error}; its trials will be skipped", wanted.get)]
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        """Nothing is ever touched."""
        return NOTHING

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """No paths: traces are only read."""
        return ()

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """Seconds from the number of requests, memory from the size of the drive."""
        return simulation_parameters.cost(simulation_parameters.read(params))

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """None: a simulation lasts as long as its trace."""
        return None

    def portable(self, params: Mapping[str, Any]) -> Portable:
        """The file of its trace goes along; of a drive's own file the options, since that may name further files."""
        return simulation_parameters.portable(params)

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        """None: no process."""
        return None

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Simulate one trial. `raw` gets the summary and the elements as the simulator said them."""
        wanted = simulation_parameters.read(trial.params)
        try:
            trace = simulation_parameters.trace(wanted, trial.repetition)
            done = simulator.simulate(
                trace,
                format=wanted.format,
                read=wanted.read,
                prepare=simulation_parameters.prepared(wanted),
                **wanted.options,
            )
            optimum = simulation_parameters.optimum(wanted, trace)
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
            OK,
            metrics=_metrics(done, optimum),
            buckets=_buckets(done),
            series=_series(done),
            warnings=done.warnings,
        )


_KINDS = {"read": "read", "write": "write", "all": "total"}
"""What the simulator tells apart, and the direction in names of metrics."""
_PS_PER_NS = 1e3
_SIM = {
    "sim.hit_ratio": "hit_ratio",
    "sim.read_hit_ratio": "read_hit_ratio",
    "sim.write_amplification": "write_amplification",
    "sim.erases": "erases",
    "sim.cleanings": "cleanings",
    "sim.moved_pages": "moved_pages",
    "sim.written_pages": "written_pages",
    "sim.dead_blocks": "dead_blocks",
    "sim.slc_pages": "slc_pages",
    "sim.folded_pages": "folded_pages",
    "sim.slc_free_share": "slc_free_share",
    "sim.mapping_hit_ratio": "mapping_hit_ratio",
    "sim.mapping_hits": "mapping_hits",
    "sim.mapping_misses": "mapping_misses",
    "sim.translation_reads": "translation_reads",
    "sim.translation_writes": "translation_writes",
    "sim.utilisation": "mean_utilisation",
    "sim.unfinished": "unfinished",
    "sim.span": "simulated_s",
    "sim.wall": "wall_s",
}
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
    counts = {name: raw[name] for name in ("format", "changes", "requests", "buffer", "drive", "steadiness")}
    infinite = {name for name, value in done.summary.items() if isinstance(value, float) and not math.isfinite(value)}
    numbers = {**done.summary, **dict.fromkeys(infinite)}
    counts["offline_optimum"] = vars(optimum)
    return {"trace": described, "summary": numbers, **counts, "preconditioned": raw["preconditioned"]}
