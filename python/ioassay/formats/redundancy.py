"""Printed numbers that follow from others of the same output, and those of them that do not fit.

A tool prints most of what it measured several times: a rate is an amount over a time, the longest request is the
highest percentile, a sum is a mean times a number. Readers state these relations with the rounding of each number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ioassay.records.record import Misfit

_EXACT = 1e-6
"""Of a number that was computed in double precision and printed with six or more digits."""


def between(name: str, value: float, low: float, high: float) -> list[Misfit]:
    """The number where it is not from `low` to `high`."""
    return [] if low <= value <= high else [Misfit(name, value, max(low, 0.0), high if high < math.inf else None)]


def equal(name: str, value: float, other: float, step: float) -> list[Misfit]:
    """The number where it is further than `step`, and the error of computed numbers, from what the others imply."""
    step += _EXACT * abs(other)
    return between(name, value, other - step, other + step)


def quotient(name: str, amount: float, seconds: float, per_s: float, *steps: float) -> list[Misfit]:
    """A rate that is not the amount over the time; `steps` are how far the three may be off by their rounding."""
    amount_step, seconds_step, rate_step = steps
    if seconds <= seconds_step:
        return []
    low, high = (amount - amount_step) / (seconds + seconds_step), (amount + amount_step) / (seconds - seconds_step)
    slack = rate_step + _EXACT * high
    return between(name, per_s, low - slack, high + slack)


@dataclass(frozen=True)
class Spread:
    """What is printed of one distribution; 0 of what is not. `step` is that of its printed numbers."""

    count: int
    mean: float
    stddev: float
    least: float
    most: float
    percentiles: Mapping[float, float] = field(default_factory=dict)
    step: float = 0.0
    bucket_share: float = 0.0
    """Width of a bucket, of which percentiles are printed, over its value."""


def of_spread(name: str, spread: Spread) -> list[Misfit]:
    """Statistics that no distribution has together."""
    count, mean, stddev, step = spread.count, spread.mean, spread.stddev, spread.step
    least, most, percentiles, share = spread.least, spread.most, spread.percentiles, spread.bucket_share
    if count < 1 or not most:
        return []
    found = between(f"{name} mean", mean, least - step, most + step) if mean else []
    for percent, value in percentiles.items():
        rank, loose = math.ceil(percent / 100 * count - _EXACT), 2 * step + share * value
        low, high = (most if rank >= count else least), (least if rank <= 1 else most)
        found += between(f"{name} p{percent:g}", value, low - loose, high + loose)
    for (low_percent, low), (high_percent, high) in pairwise(sorted(percentiles.items())):
        if low > high:
            found += between(f"{name} p{low_percent:g}", low, 0.0, percentiles[high_percent])
    if count > 1 and stddev and mean:
        # Bhatia and Davis (2000); and what the two ends alone amount to.
        widest = math.sqrt(max((most - mean) * (mean - least), 0.0) * count / (count - 1))
        narrowest = math.sqrt(((most - mean) ** 2 + (mean - least) ** 2) / count)
        found += between(f"{name} deviation", stddev, narrowest * (1 - 1e-4) - step, widest * (1 + 1e-4) + step)
    return found + (_by_percentiles(name, spread) if percentiles and mean else [])


def _by_percentiles(name: str, spread: Spread) -> list[Misfit]:
    """Mean and deviation lie between those of the lowest and the highest values that percentiles allow."""
    mean, step, loose = spread.mean, spread.step, 1 + spread.bucket_share
    edges = [(0.0, spread.least), *sorted(spread.percentiles.items()), (100.0, spread.most)]
    parts = [
        (high - low, below / loose - step, above * loose + step) for (low, below), (high, above) in pairwise(edges)
    ]
    lowest, highest = (sum(part[0] * part[end] for part in parts) / 100 for end in (1, 2))
    one = (spread.most - spread.least) / spread.count  # which the definitions of a percentile are apart
    found = between(f"{name} mean", mean, lowest - one, highest + one)
    if spread.stddev and spread.count > 1:
        squares = [(share, [(end - mean) ** 2 for end in (low, high)], low < mean < high) for share, low, high in parts]
        least = sum(share * (0.0 if inside else min(ends)) for share, ends, inside in squares) / 100
        most = sum(share * max(ends) for share, ends, _ in squares) / 100
        one = max(spread.most - mean, mean - spread.least) ** 2 / spread.count
        bounds = math.sqrt(max(least - one, 0.0)), math.sqrt(max(most + one, 0.0) * spread.count / (spread.count - 1))
        found += between(f"{name} deviation", spread.stddev, bounds[0] - step, bounds[1] + step)
    return found
