"""Which groups differ from which, and how many tests may be believed at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ioassay.stats import studentized_range
from ioassay.stats.result import Floats, Undefined, as_floats, mean_of, sum_of_squares


@dataclass(frozen=True)
class PairDifference:
    """Mean of group `second` minus mean of group `first` (indices), in the unit of the values.

    `low` and `high` bound all differences at once with the asked confidence; `p` is adjusted for all pairs.
    """

    first: int
    second: int
    difference: float
    low: float
    high: float
    t: float
    df: float
    p: float


def games_howell(groups: Sequence[Floats], confidence: float) -> list[PairDifference] | Undefined:
    """All pairs, without assuming equal variances or sizes.

    Games and Howell, "Pairwise multiple comparison procedures with unequal n's and/or variances: a Monte Carlo
    study" (Journal of Educational Statistics 1, 1976). Conservative is it not quite: with fewer than about six
    values in a group its error rate may exceed the nominal one slightly.
    """
    arrays = [as_floats(group) for group in groups]
    if len(arrays) < 2:
        return Undefined(f"{len(arrays)} condition with values; a comparison needs at least 2")
    if min(array.size for array in arrays) < 2:
        return Undefined("a condition has one repetition only, so its variance is unknown")
    sizes = np.array([array.size for array in arrays], dtype=np.float64)
    variances = np.array([sum_of_squares(array) / (array.size - 1) for array in arrays])
    return games_howell_from_moments(sizes, np.array([mean_of(array) for array in arrays]), variances, confidence)


def games_howell_from_moments(
    sizes: Floats, means: Floats, variances: Floats, confidence: float
) -> list[PairDifference] | Undefined:
    """`games_howell` of groups known by size, mean and variance (divisor n - 1), arrays of one shape (k,)."""
    pairs = np.array(list(combinations(range(sizes.size), 2)))
    first, second = pairs[:, 0], pairs[:, 1]
    squared_errors = variances / sizes
    errors = squared_errors[first] + squared_errors[second]
    if not errors.all():
        return Undefined("two conditions have identical repetitions, so their difference has no spread to test against")
    df = errors**2 / (
        squared_errors[first] ** 2 / (sizes[first] - 1) + squared_errors[second] ** 2 / (sizes[second] - 1)
    )
    difference = means[second] - means[first]
    t = difference / np.sqrt(errors)
    p = 1 - studentized_range.cdf(np.abs(t) * np.sqrt(2), sizes.size, df)
    half = studentized_range.quantile(confidence, sizes.size, df) * np.sqrt(errors / 2)
    columns = (first, second, difference, difference - half, difference + half, t, df, p)
    return [
        PairDifference(int(a), int(b), *(float(number) for number in rest))
        for a, b, *rest in zip(*columns, strict=True)
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values that bound the chance of even one false positive.

    Holm, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal of Statistics 6, 1979).
    """
    order = np.argsort(np.asarray(p_values, dtype=np.float64), kind="stable")
    count = len(p_values)
    adjusted = np.empty(count)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return [float(value) for value in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values that bound the expected share of false positives among the positives.

    Benjamini and Hochberg, JRSS B 57 (1995); holds too where the tests are positively dependent (Benjamini and
    Yekutieli, Annals of Statistics 29, 2001), as bandwidth and IOPS of one trial are.
    """
    order = np.argsort(np.asarray(p_values, dtype=np.float64), kind="stable")[::-1]
    count = len(p_values)
    adjusted = np.empty(count)
    smallest = 1.0
    for place, index in enumerate(order):
        smallest = min(smallest, p_values[index] * count / (count - place))
        adjusted[index] = smallest
    return [float(value) for value in adjusted]
