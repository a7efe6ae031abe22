"""A simulated drive as a target of loads: what a fit compares with, and what tests hide parameters in."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ioassay import _core
from ioassay.errors import UsageError
from ioassay.packs.ssd.twin.loads import Load, Reading
from ioassay.simulation.options import setup

REQUESTS = 2000
"""Of a load that states none."""
READ, WRITE, FLUSH = 0, 1, 3
_QUANTILES = {"p50_us": 0.5, "p99_us": 0.99}


def new_drive(options: Mapping[str, Any]) -> Any:
    """A drive in memory, full as if written once in sequence. Raises UsageError and CoreError for what cannot be."""
    return _core.SimulatedDrive(setup(options))


def arrays(load: Load, capacity: int, draws: np.random.Generator) -> dict[str, np.ndarray]:
    """The requests of a load on a target of that capacity. Raises UsageError for one that does not fit."""
    size, count = load.size_bytes, load.requests or REQUESTS
    align = load.align_bytes or size
    span = min(load.span_bytes or capacity, capacity - load.begin_bytes)
    places = (span - size) // align + 1
    if places < 1:
        raise UsageError(f"load '{load.name}' has {span} bytes for requests of {size}, expected room for one")
    if load.pattern == "sequential":
        chosen = np.arange(count) % places
    elif load.zipf:
        weights = np.cumsum(np.arange(1, places + 1, dtype=float) ** -load.zipf)
        ranks = np.searchsorted(weights, draws.random(count) * weights[-1])
        chosen = np.random.default_rng(1).permutation(places)[np.minimum(ranks, places - 1)]
    else:
        chosen = draws.integers(places, size=count)
    shares = {"read": 1.0, "mixed": load.read_share}
    kinds = np.where(draws.random(count) < shares.get(load.operation, 0.0), READ, WRITE).astype(np.uint8)
    found: dict[str, np.ndarray] = {"kind": kinds, "bytes": np.full(count, size, dtype=np.uint32)}
    found["offset_bytes"] = (load.begin_bytes + chosen * align).astype(np.uint64)
    if load.operation == "durable":  # each write is followed by a flush, as one with O_DSYNC
        found = {name: np.repeat(values, 2) for name, values in found.items()}
        found["kind"][1::2] = FLUSH
    return found


def feed(load: Load) -> dict[str, Any]:
    return {"feed": f"closed:{load.depth}", "window": 0, "driver": "fcfs", "slices": 2}


def statistics(times: Mapping[str, Any], seconds: float) -> dict[str, float]:
    """Of the requests of one kind in the core's result."""
    quantiles = times["response_ns"].quantiles(list(_QUANTILES.values()))
    found = {name: value / 1e3 for name, value in zip(_QUANTILES, quantiles, strict=True)}
    return {"mean_us": times["mean_response_ps"] / 1e6, **found, "iops": times["count"] / seconds}


def seconds_of(raw: Mapping[str, Any]) -> float:
    """Simulated time of a run until its last request is complete."""
    tally = raw["tally"]
    return max(float(tally["last_completion_ps"]), float(tally["last_issue_ps"]), 1.0) / 1e12


def reading(load: Load, raw: Mapping[str, Any]) -> Reading:
    """What the core's result says of a load."""
    seconds = seconds_of(raw)
    if load.operation == "durable":
        each = np.frombuffer(raw["latency_us"], dtype=np.float64)
        both = each[0::2] + each[1::2]
        quantiles = map(float, np.quantile(both, list(_QUANTILES.values())))
        found = {"mean_us": float(both.mean()), **dict(zip(_QUANTILES, quantiles, strict=True))}
        found["iops"] = len(both) / seconds
        bins, counts = np.unique(both, return_counts=True)
        return Reading(load, len(both), seconds, found, {}, both if load.in_order else None, bins, counts)
    kind = "write" if load.operation == "write" else "read"
    times = raw[kind] if raw[kind]["count"] else raw["all"]
    found = statistics(times, seconds)
    if load.operation == "mixed" and raw["write"]["count"]:
        found |= {f"write_{name}": value for name, value in statistics(raw["write"], seconds).items()}
    values, counts = times["response_ns"].buckets()
    in_order = np.frombuffer(raw["latency_us"], dtype=np.float64) if load.in_order else None
    bins = np.asarray(values, dtype=np.float64) / 1e3
    return Reading(load, times["count"], seconds, found, {}, in_order, bins, np.asarray(counts))


class SimulatedTarget:
    """A `Target` whose state goes on. With `noise`, each statistic is off by a random factor of that deviation."""

    def __init__(self, options: Mapping[str, Any], seed: int = 1, *, noise: float = 0.0) -> None:
        self._noise = noise
        self._random = np.random.default_rng(seed)
        self._drive = new_drive(options)

    @property
    def capacity_bytes(self) -> int:
        return int(self._drive.capacity_bytes)

    def copy(self) -> SimulatedTarget:
        """The same drive in the same state, with random numbers of its own."""
        other = copy.copy(self)
        other._drive, other._random = self._drive.copy(), np.random.default_rng(self._random.integers(2**31))
        return other

    def set_timing(self, options: Mapping[str, Any]) -> None:
        """Times and rules that a drive in any state can take."""
        self._drive.set_timing(dict(options))

    def run(self, loads: Sequence[Load]) -> list[Reading]:
        return [self._run(load) for load in loads]

    def _run(self, load: Load) -> Reading:
        if load.rest_s:
            self._rest(load.rest_s)
        source = {"arrays": arrays(load, self.capacity_bytes, self._random)}
        is_kept = load.in_order or load.operation == "durable"
        found = reading(load, self._drive.run(source, feed(load), latencies=is_kept))
        if not self._noise:
            return found
        factors = {name: math.exp(self._noise * self._random.standard_normal()) for name in found.statistics}
        noisy = {name: value * factors[name] for name, value in found.statistics.items()}
        return replace(found, statistics=noisy, noise=dict.fromkeys(noisy, self._noise))

    def _rest(self, seconds: float) -> None:
        """Idle time between two reads of one page."""
        page = Load("rest", "", "read", 4096, span_bytes=4096, requests=2)
        source = arrays(page, self.capacity_bytes, np.random.default_rng(1)) | {"at_us": np.array([0.0, seconds * 1e6])}
        self._drive.run({"arrays": source}, {"feed": "open", "window": 0, "driver": "fcfs", "slices": 2})
