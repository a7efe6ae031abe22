"""Surfaces of known best points for `benches/tune.py`: simulated drives, and shapes that machines are known to have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ioassay.packs.tuning.search.space import Axis, Scale, counted, scale_of

Key = tuple[int, ...]
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
REQUESTS = 20_000


@dataclass(frozen=True)
class Surface:
    """True values over a grid; `limits`, one for each constraint, are fulfilled where they are 0 or less."""

    name: str
    axes: tuple[Axis, ...]
    values: np.ndarray[Any, Any]
    maximize: bool = True
    limited: np.ndarray[Any, Any] | None = None
    bound: float = 0.0

    def key(self, point: dict[str, Any]) -> Key:
        return tuple(axis.levels.index(point[axis.name]) for axis in self.axes)

    @property
    def best(self) -> float:
        """The exhaustive best of the noise-free surface, among the feasible points."""
        fit = self.values if self.limited is None else self.values[self.limited <= self.bound]
        return float(fit.max() if self.maximize else fit.min())

    def loss(self, key: Key) -> float:
        """What naming this point costs, as a share of the best; infinite where it breaks the constraint."""
        if self.limited is not None and self.limited[key] > self.bound:
            return float("inf")
        return abs(float(self.values[key]) / self.best - 1)


def axis(name: str, levels: tuple[Any, ...], log: bool = True) -> Axis:
    scale: Scale | None = scale_of(levels)
    if scale is None:
        return Axis(name, levels)
    return counted(name, scale, [scale.count(level) for level in levels], levels, log=log)


def simulated(horizontal: Axis, vertical: Axis, metric: str, **fixed: Any) -> np.ndarray[Any, Any]:
    """One metric of the simulated drive at every point of two of its options."""
    import ioassay
    from ioassay.simulation import traces

    recipe = traces.recipe(
        requests=REQUESTS, arrivals="poisson:20000", addresses="zipf:0.8", range="32MiB", seed=3, reads=0.3
    )

    def one(first: Any, second: Any) -> float:
        options = {**fixed, horizontal.name: first, vertical.name: second}
        drive = {"blocks": 64, "elements": options.pop("elements")}
        options["feed"] = f"closed:{options.pop('outstanding')}"
        return float(ioassay.simulate(recipe, drive=drive, **options).summary[metric])

    return np.array([[one(first, second) for second in vertical.levels] for first in horizontal.levels])


@cache
def surfaces() -> tuple[Surface, ...]:
    buffers = axis("buffer", tuple(f"{round(64 * 2 ** (place * 7 / 19)) * 4}KiB" for place in range(20)))
    elements = axis("elements", (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64))
    pages = axis(
        "page", tuple(f"{512 * sectors}B" for sectors in (*range(1, 11), 12, 14, 16, 20, 24, 32, 40, 48, 56, 64))
    )
    depths = axis("outstanding", DEPTHS)
    buffered: dict[str, Any] = {"elements": 16, "policy": "lru", "mode": "inline", "window": None}
    bare: dict[str, Any] = {"window": None}
    rates = simulated(buffers, depths, "iops", **buffered)
    bare_rates = simulated(elements, depths, "iops", **bare)
    tails = simulated(elements, depths, "p99_ms", **bare)
    return (
        Surface("drive: buffer x outstanding", (buffers, depths), rates),
        Surface("drive: elements x outstanding", (elements, depths), bare_rates),
        Surface("drive: elements x outstanding, p99 < 1 ms", (elements, depths), bare_rates, limited=tails, bound=1.0),
        Surface(
            "drive: response, elements x outst.",
            (elements, depths),
            simulated(elements, depths, "mean_response_ms", **bare),
            maximize=False,
        ),
        Surface("drive: page x outstanding", (pages, depths), simulated(pages, depths, "iops", elements=16, **bare)),
        shaped("saturates, falls (USL)", usl),
        shaped("plateau", plateau),
        shaped("two peaks", two_peaks),
        engines(),
        corner(),
        four(),
        mixed(),
        mixed(limit=0.02),
    )


def shaped(name: str, height: Callable[[Any, Any], Any]) -> Surface:
    """20 block sizes x 10 depths; heights over the two axes' shares 0 … 1 of their logarithms."""
    sizes = axis("bs", tuple(f"{round(4 * 2 ** (place * 8 / 19))}KiB" for place in range(20)))
    depths = axis("iodepth", DEPTHS)
    first, second = (np.log2(np.array(one.numbers)) for one in (sizes, depths))
    return Surface(name, (sizes, depths), height(first[:, None] - 12, second[None, :]))


def usl(size: Any, depth: Any) -> Any:
    """Gunther's universal scalability law over depth, whose peak moves down as blocks grow; large blocks cost less."""
    workers = 2**depth
    scaling = workers / (1 + 0.08 * (workers - 1) + 0.0015 * 2 ** (size / 2) * workers * (workers - 1))
    return scaling * 2**size / (1 + 2**size / 12)


def plateau(size: Any, depth: Any) -> Any:
    """Rises to what the bus carries and stays there; large blocks at high depth lose a little."""
    return np.minimum(1.0, 0.08 * 2 ** (0.6 * size + 0.55 * depth)) * (1 - 0.004 * (size + depth))


def two_peaks(size: Any, depth: Any) -> Any:
    """A broad hill at small blocks, and a higher, narrower one elsewhere."""
    low = 0.9 * np.exp(-(((size - 2) / 3) ** 2) - ((depth - 1) / 2.5) ** 2)
    high = np.exp(-(((size - 6.3) / 1.6) ** 2) - ((depth - 3.8) / 1.3) ** 2)
    return 0.2 + np.maximum(low, high)


def engines() -> Surface:
    """Four engines, each with its own curve over 50 depths; the best two are 6 % apart."""
    names = Axis("ioengine", ("psync", "libaio", "io_uring", "posixaio"))
    depths = axis("iodepth", tuple(range(1, 51)))
    depth = np.arange(1, 51)
    curves = [
        np.full(50, 0.25),
        depth / (1 + 0.06 * (depth - 1) + 0.0012 * depth * (depth - 1)) / 8.0,
        depth / (1 + 0.05 * (depth - 1) + 0.0016 * depth * (depth - 1)) / 7.5,
        depth / (1 + 0.2 * (depth - 1) + 0.002 * depth * (depth - 1)) / 6.0,
    ]
    return Surface("4 engines x 50 depths", (names, depths), np.array(curves))


def corner() -> Surface:
    """Three axes of 20 levels; the latency is low at 1.2 % of the points, and the value high elsewhere."""
    along = tuple(axis(name, tuple(range(1, 21)), log=False) for name in ("x", "y", "z"))
    x, y, z = np.meshgrid(*[np.linspace(0, 1, 20)] * 3, indexing="ij")
    values = 100 * np.exp(-2 * (x**2 + (1 - y) ** 2 + (1 - z) ** 2))
    latency = np.exp(8 * np.sqrt((x - 0.7) ** 2 + (y - 0.3) ** 2 + (z - 0.2) ** 2))
    return Surface("3 axes, 1.2 % feasible", along, values, limited=latency, bound=float(np.quantile(latency, 0.012)))


def four() -> Surface:
    """Four numeric axes: depth times jobs saturates and falls, earlier with large blocks, which a cache helps."""
    depths, jobs, sizes, caches = (
        axis(name, (1, 2, 4, 8, 16, 32, 64, 128)) for name in ("iodepth", "jobs", "size", "cache")
    )
    depth, job, size, cache = (
        np.arange(8.0).reshape([8 if place == own else 1 for place in range(4)]) for own in range(4)
    )
    outstanding = 2 ** (depth + job)
    scaling = outstanding / (1 + 0.06 * (outstanding - 1) + 0.0004 * 2**size * outstanding * (outstanding - 1))
    carried = 2**size / (1 + 2**size / 10)
    help_of_cache = 1 - 0.05 * (cache - 1.5 - size / 2) ** 2 / 4
    processors = 1 - 0.03 * (job - 2) ** 2
    values = scaling * carried * np.maximum(help_of_cache, 0.2) * processors
    return Surface("4 axes", (depths, jobs, sizes, caches), values)


def mixed(limit: float = 1.0) -> Surface:
    """An engine, a word for the schedule, and three numeric axes; latency grows with all of the latter.

    Only the share `limit` of the points has a latency below the bound.
    """
    words = (Axis("ioengine", ("psync", "libaio", "io_uring")), Axis("scheduler", ("none", "kyber", "bfq")))
    numeric = tuple(axis(name, (1, 2, 4, 8, 16, 32, 64, 128)) for name in ("iodepth", "jobs", "size"))
    gain, share = np.array([0.6, 0.9, 1.0]), np.array([1.0, 0.95, 0.7])
    depth, jobs, size = (np.arange(8).reshape([8 if place == one else 1 for place in range(3)]) for one in range(3))
    hill = np.exp(-(((depth - 4) / 3) ** 2) - ((jobs - 3) / 2.5) ** 2 - ((size - 5 + depth / 4) / 3) ** 2)
    values = gain[:, None, None, None, None] * share[None, :, None, None, None] * hill[None, None]
    if limit == 1.0:
        return Surface("5 axes, 2 of words", (*words, *numeric), values)
    latency = (
        2.0 ** (depth + jobs + 0.5 * size)[None, None]
        / share[None, :, None, None, None]
        / gain[:, None, None, None, None]
    )
    bound = float(np.quantile(latency, limit))
    return Surface("5 axes, 2 of words, 2 % feasible", (*words, *numeric), values, limited=latency, bound=bound)
