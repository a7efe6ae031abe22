"""Which level is best, how sure is that, and which others may be it as well? Knows no factor and no order of levels.

Two answers that complete each other: how often each level comes out best when the repetitions are drawn again, and the
set that holds all equally good levels with the asked confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ioassay.stats import distributions
from ioassay.stats.posthoc import holm
from ioassay.stats.result import Floats, Undefined, as_floats, mean_of, sum_of_squares

Indices = npt.NDArray[np.int64]
RESAMPLES = 5000
_TIE = 1e-12
"""Means that differ by less than this share are rounding's, and equal."""


@dataclass(frozen=True)
class BestLevel:
    """`index` of the best mean; `probability`: how often each level is best in resamples, ties shared, sums to 1.

    `low` and `high` are the indices that bound the best level with `confidence` where the levels ascend.
    """

    index: int
    probability: tuple[float, ...]
    low: int
    high: int
    confidence: float


@dataclass(frozen=True)
class NotWorse:
    """`members`: indices of the levels that may be as good as the best. `p`: of each level, that no other is better.

    A level with one repetition cannot be left out: `unjudged`.
    """

    members: tuple[int, ...]
    p: tuple[float, ...]
    unjudged: tuple[int, ...] = ()


def best_index(groups: Sequence[Floats], lower: bool = False) -> int:
    """The group with the highest mean (lowest with `lower`); the first of equals."""
    means = _means(groups, lower)
    return int(np.argmax(means >= means.max() - _TIE * abs(means.max())))


def bootstrap_best(
    groups: Sequence[Floats], confidence: float, seed: int, *, lower: bool = False, resamples: int = RESAMPLES
) -> BestLevel | Undefined:
    """How often each group's mean is best when each group's values are drawn again, and the percentile interval.

    Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13. The deviations from each mean are
    widened by sqrt(n / (n - 1)), without which the bootstrap of few values is too narrow (Hesterberg, "What teachers
    should know about the bootstrap", The American Statistician 69, 2015).
    """
    arrays = [np.sort(as_floats(group)) for group in groups]
    if min(array.size for array in arrays) < 2:
        return Undefined("a level has one repetition only, so nothing says how far chance goes")
    random = np.random.default_rng(seed)
    drawn = np.stack([_drawn_means(array, random, resamples) for array in arrays])
    drawn = -drawn if lower else drawn
    top = drawn.max(axis=0)
    first = drawn >= top - _TIE * np.abs(top)
    probability = (first / first.sum(axis=0)).mean(axis=1)
    below = np.cumsum(probability)
    tail = (1 - confidence) / 2
    low, high = (int(np.searchsorted(below, share + 1e-9)) for share in (tail, 1 - tail - 2e-9))
    return BestLevel(
        best_index(groups, lower),
        tuple(float(share) for share in probability),
        low,
        min(high, len(arrays) - 1),
        confidence,
    )


def _drawn_means(array: Floats, random: np.random.Generator, resamples: int) -> Floats:
    mean = mean_of(array)
    widened = (array - mean) * np.sqrt(array.size / (array.size - 1))
    means: Floats = mean + widened[random.integers(0, array.size, (resamples, array.size))].mean(axis=1)
    return means


def not_worse(groups: Sequence[Floats], confidence: float, *, lower: bool = False) -> NotWorse | Undefined:
    """The levels that no other level is significantly better than: multiple comparisons with the best.

    All pairs are tested (Welch), their p adjusted by Holm's steps; a level is left out where a better one differs. So
    the chance that even one level is left out that is as good as the best is at most 1 - confidence, however many
    are. The subset of Gupta (Technometrics 7, 1965) and Hsu ("Constrained simultaneous confidence intervals for
    multiple comparisons with the best", Annals of Statistics 12, 1984) is smaller, but promises to hold only one of
    several that are equally good, and supposes equal variances: a plateau would lose its ends.
    """
    arrays = [as_floats(group) for group in groups]
    sizes = np.array([array.size for array in arrays])
    if sizes.max() < 2:
        return Undefined("each level has one repetition only, so nothing says how far chance goes")
    means = _means(arrays, lower)
    errors = np.array([sum_of_squares(array) / max(array.size - 1, 1) / array.size for array in arrays])
    first, second = np.triu_indices(len(arrays), 1)
    judged = (sizes[first] > 1) & (sizes[second] > 1)
    first, second = first[judged], second[judged]
    adjusted = holm([float(p) for p in _differ(means, errors, sizes, first, second)])
    p = np.ones(len(arrays))
    for one, other, value in zip(first, second, adjusted, strict=True):
        worse = one if means[one] < means[other] else other
        p[worse] = min(p[worse], value)
    return NotWorse(
        tuple(int(index) for index in np.flatnonzero(p >= 1 - confidence)),
        tuple(float(value) for value in p),
        tuple(int(index) for index in np.flatnonzero(sizes < 2)),
    )


def exactly_best(groups: Sequence[Floats], *, lower: bool = False) -> NotWorse:
    """The same of results without chance (a simulation gives the same again): the best and its equals."""
    means = _means(groups, lower)
    equal = means >= means.max() - _TIE * abs(means.max())
    return NotWorse(tuple(int(index) for index in np.flatnonzero(equal)), tuple(float(value) for value in equal))


def _means(groups: Sequence[Floats], lower: bool) -> Floats:
    means = np.array([mean_of(np.asarray(group, dtype=np.float64)) for group in groups])
    return -means if lower else means


def _differ(means: Floats, errors: Floats, sizes: Indices, first: Indices, second: Indices) -> Floats:
    """Two-sided p of Welch's test of each pair of levels; `errors` are squared standard errors of the means."""
    difference, squared = np.abs(means[first] - means[second]), errors[first] + errors[second]
    spread = squared > 0
    safe = np.where(spread, squared, 1.0)
    shares = np.where(spread, errors[first] / safe, 0.5)  # of the variance: their squares cannot underflow
    df = 1 / (shares**2 / (sizes[first] - 1) + (1 - shares) ** 2 / (sizes[second] - 1))
    exact = np.where(difference > _TIE * np.abs(means).max(), 0.0, 1.0)
    p: Floats = np.where(spread, 2 * distributions.t_sfs(difference / np.sqrt(safe), df), exact)
    return p
