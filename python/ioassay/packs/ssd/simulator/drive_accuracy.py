"""Short closed loops of a described drive: compared with public measurements of it, and as figures of its own.

Each point is one simulation of uniform or sequential requests at a constant queue depth. To be quick, the drive is
fresh and smaller than its file says: neither reads nor the first writes to a drive depend on its capacity.
Deterministic; sentences and tables are made elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from ioassay.errors import InputError, UsageError
from ioassay.packs.ssd import simulator
from ioassay.simulation import traces
from ioassay.simulation.drive_files import DriveFile, Measurement, Point
from ioassay.simulation.options import NAMES, read

_CAPACITY_BYTES = 2**30
"""Of the drive with fewer blocks, about: beyond the caches that are simulated."""
_SPARE_OF_WRITES = 1.5
"""Over-provisioned space, in units of what a point writes: the drive stays fresh."""
_BLOCKS = 256
"""Of a plane, so that shares of them, over-provisioning and the threshold of garbage collection, keep their meaning."""
_PAGES = 96
"""Pages of a block are a multiple of it, and with them those of common program units and page types."""
_FLOW_BYTES = 4 * 2**30
"""More than the flows of any point write."""
_REQUESTS, _REQUESTS_OF_DEPTH, _BYTES = 4000, 24, 80 * 2**20
"""Least requests of a point, least requests for each of its depth, least bytes: the first requests hardly count."""
_CACHES, _MOST_REQUESTS = 40, 100_000
"""Writes in units of the write cache, whose first filling is fast; and the most requests for the sake of it."""


@dataclass(frozen=True)
class Comparison:
    point: Point
    simulated: Mapping[str, float]
    """The statistics of the point, of the model."""
    is_fitted: bool
    """Whether a fit may have used the point."""

    def error(self, statistic: str) -> float:
        """Of the model, as a share of the measured value."""
        return self.simulated[statistic] / self.point.statistics[statistic] - 1


@dataclass(frozen=True)
class Accuracy:
    measurement: Measurement
    comparisons: tuple[Comparison, ...]

    def errors(self, statistic: str, fitted: bool | None = None) -> list[float]:
        """Absolute errors, of the fitted points, of those held out, or of all."""
        chosen = (each for each in self.comparisons if fitted in (None, each.is_fitted))
        return [abs(each.error(statistic)) for each in chosen if statistic in each.point.statistics]

    def mean_error(self, statistic: str, fitted: bool | None = None) -> float:
        errors = self.errors(statistic, fitted)
        return fmean(errors) if errors else 0.0

    @property
    def excesses(self) -> dict[str, float]:
        """Statistic -> mean error, of those that are above their limit."""
        found = {name: self.mean_error(name) for name in self.measurement.limits}
        return {name: error for name, error in found.items() if error > self.measurement.limits[name]}


def accuracy(drive: DriveFile, measurement: Measurement, options: Mapping[str, Any] | None = None) -> Accuracy:
    """Simulate all points of a measurement. `options` override those of the drive and of the measurement."""
    of_campaign = {name: entry.value for name, entry in measurement.options.items()}
    model = small({**drive.options, **of_campaign, **(options or {})}, measurement.points)
    try:
        answers = [simulated(model, point) for point in measurement.points]
    except UsageError as error:
        raise InputError(f"{drive.path}: measurements.{measurement.name}: {error}") from None
    both = zip(measurement.points, answers, strict=True)
    return Accuracy(measurement, tuple(Comparison(point, done, point in measurement.fitted) for point, done in both))


def simulated(options: Mapping[str, Any], point: Point) -> dict[str, float]:
    """Mean, median and p99 of the response time in microseconds, and IOPS, of a closed loop like that of `point`."""
    if point.flows:
        load = {"operation": point.operation, "pattern": point.pattern, "size": point.size_bytes, "depth": point.depth}
        load |= {"requests": max(_REQUESTS, _REQUESTS_OF_DEPTH * point.depth), "name": "measured"}
        return simulator.simulate(simulator.flows(load, point.flows), **options).parts["measured"].statistics()
    size, capacity_bytes = point.size_bytes, simulator.check(options)["capacity_bytes"]
    law = "uniform" if point.pattern == "random" else "sequential"
    where = {"addresses": law, "range": capacity_bytes // size * size, "align": size}
    reads = 1.0 if point.operation == "read" else 0.0
    recipe = traces.recipe(requests=_requests(options, point), arrivals="none", sizes=size, reads=reads, **where)
    loop = {"feed": f"closed:{point.depth}", "window": None, "driver": "fcfs"}
    return simulator.simulate(recipe, **{**options, **loop}).statistics()


def _requests(options: Mapping[str, Any], point: Point) -> int:
    cached = _CACHES * int(options.get("write_cache", 0)) if point.operation == "write" else 0
    by_size = min(_MOST_REQUESTS, max(_BYTES, cached) // point.size_bytes)
    return max(_REQUESTS, _REQUESTS_OF_DEPTH * point.depth, by_size)


def small(options: Mapping[str, Any], points: Iterable[Point]) -> dict[str, Any]:
    """The same drive with fewer and smaller blocks, if it is larger than these points need.

    A drive with an SLC region keeps its blocks: how long the first writes are fast depends on them.
    """
    names = ("slc_region", "page", "reserve", "min_free", "blocks", "pages_per_block")
    given = (read(NAMES[name], options.get(name, NAMES[name].default)) for name in names)
    slc_region, page_bytes, reserve, min_free, blocks, pages = given
    if slc_region:
        return dict(options)
    writes = [point for point in points if point.operation == "write"]
    written = [_requests(options, point) * max(point.size_bytes, page_bytes) for point in writes]
    written += [_FLOW_BYTES for point in points if point.flows]
    wanted_bytes = _CAPACITY_BYTES + _SPARE_OF_WRITES * max(written, default=0) / max(reserve - min_free, 0.01)
    fewer = min(blocks, _BLOCKS)
    share = wanted_bytes / simulator.check(options)["capacity_bytes"] * blocks / fewer
    fewer_pages = math.ceil(pages * share / _PAGES) * _PAGES
    return {**options, "blocks": fewer, "pages_per_block": min(pages, fewer_pages)}


def modelled(options: Mapping[str, Any], point: Point) -> Point:
    """The point with the statistics of the model: where a description has no measurements."""
    return replace(point, statistics=simulated(small(options, [point]), point))


_FIGURES = (
    ("read at depth 1", Point("read", "random", 4096, 1, {})),
    ("write at depth 1", Point("write", "random", 4096, 1, {})),
    ("random reads", Point("read", "random", 4096, 256, {})),
    ("random writes", Point("write", "random", 4096, 256, {})),
    ("sequential reads", Point("read", "sequential", 131072, 32, {})),
    ("sequential writes", Point("write", "sequential", 131072, 32, {})),
)
"""What a data sheet states: latencies at depth 1 and rates at saturation."""
LOADS = tuple(point for _, point in _FIGURES)


def figures(options: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Name -> size, depth, mean latency, IOPS and MB/s of the loads of a data sheet, of a fresh drive."""
    found = {}
    for name, point in _FIGURES:
        model = small(options, [point])
        # The first writes to a drive with an SLC region depend on how full it is: a fresh one is empty.
        if point.operation == "write" and "slc_region" in options:
            model = {"fill": 0.0, **model}
        done = simulated(model, point)
        rates = {name: done[name] for name in ("mean_us", "iops")} | {"mb_s": done["iops"] * point.size_bytes / 1e6}
        found[name] = {"size_bytes": point.size_bytes, "depth": point.depth, **rates}
    return found
