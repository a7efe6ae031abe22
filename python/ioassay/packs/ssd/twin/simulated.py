"""A simulated drive as the target of a battery of loads: what a fit compares with, and what tests hide parameters in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ioassay import _core
from ioassay.errors import UsageError
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.twin.loads import Load, Reading
from ioassay.simulation import traces
from ioassay.simulation.options import setup

REQUESTS = 2000
"""Of a load that states none."""
_QUANTILES = {"p50_us": 0.5, "p99_us": 0.99}


def capacity_bytes(options: Mapping[str, Any]) -> int:
    return int(simulator.check(options)["capacity_bytes"])


def simulate(options: Mapping[str, Any], capacity: int, load: Load, seed: int = 1) -> Reading:
    """The reading of one read load on a drive that was written once in sequence. Raises UsageError."""
    if load.operation != "read" or load.begin_bytes:
        raise UsageError(f"load '{load.name}' is of {load.operation}s, expected reads from address 0")
    recipe = traces.recipe(
        requests=load.requests or REQUESTS,
        arrivals="none",
        addresses="sequential" if load.pattern == "sequential" else f"zipf:{load.zipf}" if load.zipf else "uniform",
        sizes=load.size_bytes,
        reads=1.0,
        range=min(load.span_bytes or capacity, capacity),
        align=load.align_bytes or load.size_bytes,
        seed=seed,
    )
    loop = {"feed": f"closed:{load.depth}", "window": None, "driver": "fcfs"}
    raw = _core.simulate(traces.source(recipe), setup({**options, **loop}), 1)
    return reading(load, raw)


def reading(load: Load, raw: Mapping[str, Any]) -> Reading:
    """What the core's result says of a load."""
    times, tally = raw["all"], raw["tally"]
    histogram = times["response_ns"]
    seconds = max(tally["last_completion_ps"], tally["last_issue_ps"]) / 1e12
    values, counts = histogram.buckets()
    quantiles = histogram.quantiles(list(_QUANTILES.values()))
    statistics = {
        "mean_us": times["mean_response_ps"] / 1e6,
        **{name: value / 1e3 for name, value in zip(_QUANTILES, quantiles, strict=True)},
        "iops": times["count"] / seconds,
    }
    bins = np.asarray(values, dtype=np.float64) / 1e3
    return Reading(load, times["count"], seconds, statistics, {}, None, bins, np.asarray(counts))


class SimulatedTarget:
    """A `Target`. With `noise`, each statistic is off by a random factor of that relative standard deviation."""

    def __init__(self, options: Mapping[str, Any], seed: int = 1, *, noise: float = 0.0) -> None:
        self._options, self._noise, self._seed = dict(options), noise, seed
        self._random = np.random.default_rng(seed)
        self._capacity_bytes = capacity_bytes(options)

    @property
    def capacity_bytes(self) -> int:
        return self._capacity_bytes

    def run(self, loads: Sequence[Load]) -> list[Reading]:
        return [self._run(load) for load in loads]

    def _run(self, load: Load) -> Reading:
        seed = int(self._random.integers(1, 2**31))
        found = simulate(self._options, self._capacity_bytes, load, seed)
        if not self._noise:
            return found
        noisy = {
            name: value * math.exp(self._noise * self._random.standard_normal())
            for name, value in found.statistics.items()
        }
        return replace(found, statistics=noisy, noise=dict.fromkeys(noisy, self._noise))
