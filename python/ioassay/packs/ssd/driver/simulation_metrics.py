"""What a simulation said, as metrics, distributions and series of a record.

A run that saturated has no latencies here: how long its requests waited is about the length of the trace. What was
seen of them stays in the raw summary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.packs.ssd import traces
from ioassay.packs.ssd.simulator import OfflineOptimum, Simulation
from ioassay.records.record import Buckets, Series

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


def metrics(done: Simulation, optimum: OfflineOptimum) -> dict[str, float]:
    """Rates and latencies of reads, writes and all requests, and what drive and buffer did, with the bound of hits."""
    summary = done.summary
    found = {name: float(summary[key]) for name, key in _SIM.items() if summary[key] is not None}
    found["sim.optimum_hit_ratio"] = optimum.hit_ratio
    if (share := optimum.gain_share(summary["hit_ratio"])) is not None:
        found["sim.gain_share"] = share
    found["sim.saturated"] = float(summary["saturated"])
    for kind, direction in _KINDS.items():
        if done.raw[kind]["count"]:
            found |= _rates(done, kind, direction)
            found |= {} if summary["saturated"] else _latencies(done, kind, direction)
    return found


def _rates(done: Simulation, kind: str, direction: str) -> dict[str, float]:
    count, size_bytes = done.raw[kind]["count"], done.user_bytes(kind)
    found = {f"{direction}.ios": float(count), f"{direction}.bytes": float(size_bytes)}
    if done.span_s > 0:
        found |= {f"{direction}.iops": count / done.span_s, f"{direction}.bw": size_bytes / done.span_s}
    return found


def _latencies(done: Simulation, kind: str, direction: str) -> dict[str, float]:
    histogram = done.response(kind)
    values = histogram.quantiles([*(percent / 100 for percent in PERCENTILES), 1.0])
    named = dict(zip([*map(percentile_name, PERCENTILES), "max"], values, strict=True))
    named["mean"] = done.raw[kind]["mean_response_ps"] / _PS_PER_NS
    return {f"{direction}.lat.{statistic}": float(value) for statistic, value in named.items()}


def buckets(done: Simulation) -> list[Buckets]:
    """The distributions of response times of reads, writes and all; none of a saturated run."""
    if done.summary["saturated"]:
        return []
    known = {kind: direction for kind, direction in _KINDS.items() if done.raw[kind]["count"]}
    return [Buckets(direction, "lat", *done.response(kind).buckets()) for kind, direction in known.items()]


def series(done: Simulation) -> list[Series]:
    """Response, outstanding requests, utilisation and write amplification over simulated time."""
    frame, found = done.series, []
    for metric, (column, factor) in _SERIES.items():
        known = frame.select("time_s", column).drop_nulls()
        if known.height and not (done.summary["saturated"] and metric.startswith("total.lat")):
            values = [value * factor for value in known[column].to_list()]
            found.append(Series(metric, known["time_s"].to_list(), values))
    return found


def summary(done: Simulation, trace: traces.Trace, optimum: OfflineOptimum) -> dict[str, Any]:
    """What is kept verbatim: the summary, the counts behind it, and which trace it was."""
    raw = done.raw
    described = dict(trace) if isinstance(trace, Mapping) else str(trace)
    counts = {name: raw[name] for name in ("format", "changes", "requests", "buffer", "drive", "steadiness")}
    numbers = {name: _finite(value) for name, value in done.summary.items()}
    counts["offline_optimum"] = vars(optimum)
    return {"trace": described, "summary": numbers, **counts, "preconditioned": raw["preconditioned"]}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
