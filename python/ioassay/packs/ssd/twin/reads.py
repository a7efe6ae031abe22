"""What reads tell of a drive's structure: which addresses share an element, the flash page, and the page types.

Change points and plateaus: no simulation, no search. The rules are those of a drive that was written in sequence, where
program unit u is on element u mod elements (docs/simulator.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ioassay.packs.ssd.twin.loads import Load, Reading

SINGLE = "place-0"
"""The load that reads one address, over and over."""
QUEUED = "-queued"
"""Ending of the name of a load with a queue."""
PAGE = 4096
_BANDWIDTH = 0.012
"""Of the density in which modes are sought, in logarithms."""
_LEAST_SHARE = 0.1
_NOISY = 0.0201
_STALL = 3.0
"""Times the shortest latency, for each request in the queue: page types differ by less."""
_MOST_TYPES = 5
_LARGEST_PAGE = 128 * 1024
_PARAMETER = 6.0
"""Of squares, that one more parameter has to save."""


def pair(distance: int) -> str:
    """The name of the load that reads two addresses that far apart."""
    return f"pair-{distance // 1024}KiB"


def mean_us(reading: Reading) -> float:
    """By Little's law where only the rate is known."""
    if "mean_us" in reading.statistics:
        return reading.statistics["mean_us"]
    return reading.load.depth / reading.statistics["iops"] * 1e6


def is_stalled(reading: Reading) -> bool:
    """Whether stalls of the host make the mean uncertain, so that the median is the better statistic."""
    return reading.noise.get("mean_us", 0.0) > _NOISY and "p50_us" in reading.statistics


def _service_us(reading: Reading) -> float:
    """Mean latency of a queue for at most two elements; where it varies, without what is surely a stall of the host.

    Not the median: of two elements, one of which is slower, that is the faster one's.
    """
    if reading.noise.get("mean_us", 0.0) <= _NOISY or reading.bins_us is None or reading.counts is None:
        return mean_us(reading)
    kept = reading.bins_us <= _STALL * reading.load.depth * reading.bins_us.min()
    return float(np.average(reading.bins_us[kept], weights=reading.counts[kept]))


def _queue_us(reading: Reading) -> float:
    """A queue's time for one request."""
    return _service_us(reading) / reading.load.depth


# Modes of a distribution


@dataclass(frozen=True)
class Mode:
    value_us: float
    share: float


def modes(reading: Reading) -> list[Mode]:
    """The separate modes of the latencies, ascending; a tail above twice the median is none. One without bins."""
    if reading.bins_us is None or reading.counts is None or not len(reading.bins_us):
        return [Mode(mean_us(reading), 1.0)]
    logs, weights = np.log(np.maximum(reading.bins_us, 1e-3)), np.asarray(reading.counts, dtype=float)
    grid = np.arange(logs.min() - 0.1, min(logs.max(), logs.min() + math.log(8)) + 0.1, _BANDWIDTH / 2)
    edges = np.histogram(logs, bins=grid, weights=weights)[0]
    kernel = np.exp(-0.5 * (np.arange(-8, 9) / 2) ** 2)
    density = np.convolve(edges, kernel / kernel.sum(), mode="same")
    centres = (grid[1:] + grid[:-1]) / 2
    inner = density[1:-1]
    merged: list[int] = []
    for place in (1 + np.flatnonzero((inner > 0) & (inner >= density[:-2]) & (inner > density[2:]))).tolist():
        if merged and density[merged[-1] : place + 1].min() > 0.4 * min(density[merged[-1]], density[place]):
            merged[-1] = max(merged[-1], place, key=lambda each: density[each])
        else:
            merged.append(place)
    borders = [-np.inf, *(centres[a + int(np.argmin(density[a : b + 1]))] for a, b in pairwise(merged)), np.inf]
    found = []
    for low, high in pairwise(borders):
        inside = (logs > low) & (logs <= high)
        share = float(weights[inside].sum() / weights.sum())
        if share >= _LEAST_SHARE:
            found.append(Mode(float(np.exp(np.average(logs[inside], weights=weights[inside]))), share))
    return found or [Mode(mean_us(reading), 1.0)]


def type_values(found: list[Mode]) -> list[float]:
    """A value for each page type, where types have equal shares: two modes of 2/3 and 1/3 are three types."""
    total = sum(mode.share for mode in found)
    for types in range(len(found), _MOST_TYPES + 1):
        counts = [round(mode.share / total * types) for mode in found]
        errors = [abs(mode.share / total - count / types) for mode, count in zip(found, counts, strict=True)]
        if min(counts) >= 1 and sum(counts) == types and max(errors) < 0.05:
            return [mode.value_us for mode, count in zip(found, counts, strict=True) for _ in range(count)]
    return [mode.value_us for mode in found]


def has_page_types(readings: Mapping[str, Reading]) -> bool:
    """Whether small reads have several latencies, or no bins say that they have not."""
    small = readings.get("small-depth-1")
    return small is None or small.bins_us is None or len(modes(small)) > 1


def types_by_unit(readings: Mapping[str, Reading]) -> bool:
    """Whether all flash pages of a program unit have one type: small reads of the first unit have one latency."""
    first = readings.get("size-512B")
    return first is not None and first.bins_us is not None and len(modes(first)) == 1


# Pairs of addresses


def _queued_pairs(readings: Mapping[str, Reading]) -> list[Reading]:
    """Ascending by their distance, of which their requests begin at multiples."""
    found = [each for name, each in readings.items() if name.startswith("pair-") and name.endswith(QUEUED)]
    return sorted(found, key=lambda each: each.load.align_bytes)


def are_precise(readings: Mapping[str, Reading]) -> bool:
    """Whether most queued pairs vary little by themselves: otherwise they contradict no rule."""
    noise = [reading.noise.get("mean_us", 0.0) for reading in _queued_pairs(readings)]
    return bool(noise) and float(np.median(noise)) <= _NOISY


def _tested(readings: Mapping[str, Reading]) -> dict[int, bool]:
    """Distance in bytes -> whether it is within one element: a queue takes both times in turn, not the longer one."""
    single, alone, found = readings.get(SINGLE + QUEUED), readings.get(SINGLE), dict[int, bool]()
    if single is None or alone is None:
        return found
    first_us = _queue_us(single)
    fixed_us = _service_us(alone) - first_us
    for queued in _queued_pairs(readings):
        second_us = first_us
        if (both := readings.get(queued.load.name.removesuffix(QUEUED))) is not None:
            second_us = float(np.clip(2 * (_service_us(both) - fixed_us) - first_us, first_us / 4, first_us * 4))
        one_us = (first_us + second_us) / 2
        two_us = max(first_us, second_us) / 2 * (1 + 1 / queued.load.depth)
        found[queued.load.align_bytes] = _queue_us(queued) > math.sqrt(one_us * two_us)
    return found


def unit_bounds(readings: Mapping[str, Reading]) -> tuple[int, int]:
    """The farthest address that is surely in the first program unit, and the first that is surely not; 0: none."""
    low = 0
    for distance, shared in _tested(readings).items():
        if not shared:
            return low, distance
        low = distance
    return low, 0


def unit_bytes(readings: Mapping[str, Reading]) -> int:
    """The program unit, or 0."""
    low, high = unit_bounds(readings)
    return high if high - low == PAGE else 0


def possible_elements(readings: Mapping[str, Reading], unit: int) -> list[int]:
    """Counts of elements that agree with all pairs of whole units, ascending."""
    tests = {distance // unit: shared for distance, shared in _tested(readings).items() if distance % unit == 0}
    shared = [count for count, same in tests.items() if same]
    apart = [count for count, same in tests.items() if not same]
    common = math.gcd(*shared)
    divisors = [count for count in range(2, common + 1) if common % count == 0]
    return [count for count in divisors if all(distance % count for distance in apart)]


def elements(readings: Mapping[str, Reading]) -> int:
    """Their number, or 0."""
    unit = unit_bytes(readings)
    found = possible_elements(readings, unit) if unit else []
    return found[0] if len(found) == 1 else 0


# The flash page


def row_address(row: int, page: int, unit: int, elements: int) -> int:
    """Where flash page `row` of the first element begins."""
    rows = unit // page
    return row // rows * elements * unit + row % rows * page


def flash_page_bytes(readings: Mapping[str, Reading], unit: int) -> tuple[int, dict[int, float]]:
    """The flash page, and the sum of squares of each candidate, from depth 1 within the first unit.

    The flash pages of a request are of one element there, which takes them in turn: fixed + n * read + bytes * slope.
    A candidate with a read time of its own for at most 4 KiB has to earn it. No read takes less than a third of one
    address's in a queue: otherwise none at all, and any page would do.
    """
    queued = readings.get(SINGLE + QUEUED)
    least_us = _queue_us(queued) / 3 if queued is not None else 0.0
    sizes = [each for name, each in readings.items() if name.startswith("size-")]
    points = [(each.load, _service_us(each), math.hypot(each.noise.get("mean_us", 0.01), 0.005)) for each in sizes]
    squares = {}
    for page in range(PAGE, min(unit, _LARGEST_PAGE) + 1, PAGE):
        if unit % page or len(points) < 4:
            continue
        rows = [[1.0, *operations(load, page, unit), load.size_bytes / PAGE] for load, _, _ in points]
        weights = np.array([1 / (value * noise) for _, value, noise in points])
        table = np.array(rows) * weights[:, None]
        values = np.array([1 / noise for _, _, noise in points]) - least_us * table[:, 1:3].sum(axis=1)
        alike = table.copy()
        alike[:, 1] += alike[:, 2]
        one = _least_squares(np.delete(alike, 2, axis=1), values)
        # A small read takes at most as long as a whole one, and at least half of it.
        both = alike.copy()
        both[:, 2] = table[:, 1] + table[:, 2] / 2
        squares[page] = min(one, _least_squares(both, values) + _PARAMETER)
    return (min(squares, key=squares.__getitem__) if squares else 0), squares


def operations(load: Load, page: int, unit: int) -> tuple[float, float]:
    """Mean reads of more than 4 KiB, and of at most that, of a request of `load` within one unit."""
    begins = range(0, unit - load.size_bytes + 1, load.align_bytes or load.size_bytes)
    ends = [begin + load.size_bytes for begin in begins]
    borders = [range((begin // page + 1) * page, end, page) for begin, end in zip(begins, ends, strict=True)]
    parts = [np.diff([begin, *of, end]) for begin, of, end in zip(begins, borders, ends, strict=True)]
    large = sum(int((each > PAGE).sum()) for each in parts)
    return large / len(begins), (sum(map(len, parts)) - large) / len(begins)


def _least_squares(rows: np.ndarray, values: np.ndarray) -> float:
    """The residual sum of squares with coefficients of at least 0: an active set, as there are four."""
    columns = list(range(rows.shape[1]))
    while True:
        found, *_ = np.linalg.lstsq(rows[:, columns], values, rcond=1e-9)
        if (found >= -1e-9).all() or len(columns) == 1:
            return float(((rows[:, columns] @ found - values) ** 2).sum())
        del columns[int(np.argmin(found))]
