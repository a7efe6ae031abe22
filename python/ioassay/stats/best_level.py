"""Which level is best, which others may be it, which are certainly as good? Read from one family of contrasts.

Knows no factor. Of levels in order also: where the plateau around the best begins and ends, and which peaks stand apart
from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.stats.contrasts import TIE, Bools, Contrasts
from ioassay.stats.result import Floats

DRAWS = 2000
_OFF = 0.5
"""A curve has levelled off where it gains less than this share of what it would gain straight on."""


@dataclass(frozen=True)
class BestLevel:
    """`index` of the best estimate; indices of `candidates` that no level is certainly better than.

    `as_good`: levels that are certainly within the margin of the best, whichever that is. `probability` of each level
    to be best, ties shared, sums to 1.
    """

    index: int
    candidates: tuple[int, ...]
    as_good: tuple[int, ...]
    probability: tuple[float, ...]


@dataclass(frozen=True)
class Plateau:
    """Levels `first` to `last` around the best are certainly within the margin of it; it begins not before `earliest`.

    Levels from `earliest` to `first` may belong to it.
    """

    first: int
    last: int
    earliest: int


def best_place(values: Floats, *, lower: bool) -> int:
    """The place of the largest value (smallest with `lower`); of values that differ by rounding the first."""
    behind = np.abs(values - (values.min() if lower else values.max()))
    return int(np.argmax(behind <= TIE * np.abs(values).max()))


def best_level(family: Contrasts, *, lower: bool = False, seed: int = 1) -> BestLevel:
    """The highest level (lowest with `lower`); of equal estimates the first.

    A level is as good if it is not below any other by more than the margin (an intersection of one-sided tests).
    """
    means, (better, near) = family.means, _oriented(family, lower)
    scores = -means.estimates if lower else means.estimates
    if means.exact:
        first = scores >= scores.max() - 1e-12 * max(abs(float(scores.max())), 1.0)
        probability = first / first.sum()
    else:  # how often each is best among draws about the estimates, with Student's deviations of the model
        deviations = np.random.default_rng(seed).standard_t(means.df, (DRAWS, scores.size))
        winners = np.argmax(scores + np.sqrt(means.squared_errors) * deviations, axis=1)
        probability = np.bincount(winners, minlength=scores.size) / DRAWS
    return BestLevel(
        _first_of_best(family, lower),
        tuple(np.flatnonzero(~better.any(axis=0)).tolist()),
        tuple(np.flatnonzero(near.all(axis=1)).tolist()),
        tuple(probability.tolist()),
    )


def plateau(family: Contrasts, *, lower: bool = False) -> Plateau | None:
    """The levels around the best one that are certainly as good; None where not even that level is certainly so.

    The levels are in order. Going outwards from the best, each is tested at the full risk until the first fails, so
    that the chance of one too many is that of a single test at each end (fixed sequence: Maurer, Hothorn and Lehmacher,
    1995; Westfall and Krishen, Journal of Statistical Planning and Inference 99, 2001).
    """
    found = _first_of_best(family, lower)
    _, near = _oriented(family, lower)
    good: Bools = np.asarray(near.all(axis=1))
    if not good[found]:
        return None
    first = last = found
    while first and good[first - 1]:
        first -= 1
    while last + 1 < good.size and good[last + 1]:
        last += 1
    worse = family.differences if lower else -family.differences
    beyond = np.asarray((worse - family.reach > family.bound).any(axis=1))  # certainly worse than some other
    earliest = first
    while earliest and not beyond[earliest - 1]:
        earliest -= 1
    return Plateau(first, last, earliest)


def levels_off(family: Contrasts, numbers: Sequence[float] | None, found: Plateau) -> bool:
    """Whether what follows the plateau's first level gains much less than the step before it, continued straight on.

    The last levels of a curve that still rises may be within the margin of each other, too.
    """
    if not found.first:
        return True
    means, x = family.means.means, numbers or range(family.means.sizes.size)
    slope = (means[found.first] - means[found.first - 1]) / (x[found.first] - x[found.first - 1])
    straight_on = slope * (x[found.last] - x[found.first])
    return bool(abs(means[found.last] - means[found.first]) < _OFF * abs(straight_on))


def second_peaks(family: Contrasts, *, lower: bool = False) -> tuple[int, ...]:
    """Levels on either side of the best that a level between them is certainly worse than: one a side at most."""
    better, _ = _oriented(family, lower)
    scores = -family.means.estimates if lower else family.means.estimates
    best = _first_of_best(family, lower)
    found = []
    for side in (range(best - 2, -1, -1), range(best + 2, scores.size)):
        apart = [
            index
            for index in side
            if any(better[best, low] and better[index, low] for low in range(min(best, index) + 1, max(best, index)))
        ]
        found += [max(apart, key=lambda index: float(scores[index]))] if apart else []
    return tuple(sorted(found))


def _first_of_best(family: Contrasts, lower: bool) -> int:
    """The level with the best estimate; of equal ones the first."""
    behind = -family.differences.min(axis=0) if lower else family.differences.max(axis=0)
    return int(np.argmin(behind > 0))


def _oriented(family: Contrasts, lower: bool) -> tuple[Bools, Bools]:
    """[i, j]: i is certainly better than j; i is certainly not worse than j by more than the margin."""
    return (family.above.T, family.near.T) if lower else (family.above, family.near)
