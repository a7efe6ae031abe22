"""One sample: moments, intervals of its mean, outliers, and whether it drifts in order of time, or has settled.

Outliers are flagged, never removed. The test of a trend is one of ranks, which supposes no shape. Steady state is
SNIA's: over a window of five rounds, the difference of the largest and the smallest value is at most 20 % of their
average, and the line fitted to them rises or falls by at most 10 % of the average over the window ("Solid State Storage
Performance Test Specification" version 2.0.2, 2020). The caller says what a round is and gives one value a round.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined, as_floats, mean_of, sum_of_squares

VAGUEST = 1000.0
"""Repetitions that bound a mean to no better than this factor do not bound it."""
SMALLEST_FOR_OUTLIERS = 5
OUTLIER_RISK = 0.01


@dataclass(frozen=True)
class Moments:
    """Description of one sample, in the unit of its values; `stddev` and `cv` are None where n = 1.

    `stddev` has the divisor n - 1; `cv` is stddev / |mean|, None for a mean of 0.
    """

    n: int
    mean: float
    median: float
    stddev: float | None
    cv: float | None
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Outlier:
    """The value at `index` lies `score` deviations from the mean of those not further out; its sign is the side."""

    index: int
    score: float


def moments(values: Sequence[float] | Floats) -> Moments:
    """Moments of a sample of one value or more; ValueError when it is empty."""
    array = as_floats(values)
    if array.size == 0:
        raise ValueError("moments of no values; expected at least one")
    mean = mean_of(array)
    stddev = float(np.sqrt(sum_of_squares(array) / (array.size - 1))) if array.size > 1 else None
    cv = stddev / abs(mean) if stddev is not None and mean != 0 else None
    return Moments(int(array.size), mean, float(np.median(array)), stddev, cv, float(array.min()), float(array.max()))


def median_of(values: Sequence[float | None]) -> float | None:
    """The median of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def t_interval(values: Sequence[float] | Floats, confidence: float) -> Interval | Undefined:
    """Student's t interval of the mean ("The probable error of a mean", Biometrika 6, 1908)."""
    array = as_floats(values)
    if array.size < 2:
        return Undefined(f"{array.size} repetition{'' if array.size == 1 else 's'}; an interval needs at least 2")
    deviation = float(np.sqrt(sum_of_squares(array) / (array.size - 1)))
    half = float(distributions.t_ppf((1 + confidence) / 2, array.size - 1)) * deviation / float(np.sqrt(array.size))
    mean = mean_of(array)
    return Interval(mean - half, mean + half, confidence, "t")


def mean_interval(
    values: Sequence[float] | Floats, confidence: float, bounds: tuple[float, float] | None = None
) -> Interval | Undefined:
    """The interval of the mean of a quantity that lies within `bounds`, so that no end of it leaves them.

    Student's, made on the scale where the quantity has no bounds: of the logarithm where it is positive, of the log
    odds where it is a share, with the error of the mean carried over (delta method, as in `condition_means`). `bounds`
    are (0, inf), (0, 1) or (-inf, inf); None takes the first where all values are positive, else the last. An interval
    of a positive quantity ends at the latest at VAGUEST times the mean, and begins at the mean by VAGUEST.
    """
    array = as_floats(values)
    found = t_interval(array, confidence)
    if isinstance(found, Undefined):
        return found
    mean = mean_of(array)
    low, high = within(mean, found.high - mean, bounds or (0.0 if array.min() > 0 else -math.inf, math.inf))
    return replace(found, low=low, high=high)


def within(mean: float, half: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """What lies `half` to either side of `mean` on the scale where the quantity has no bounds; see `mean_interval`."""
    low, high = bounds or (-math.inf, math.inf)
    if not (math.isfinite(low) and low < mean < high) or half == 0:
        return max(mean - half, low), min(mean + half, high)
    if high == math.inf:
        factor = math.exp(min(half / mean, math.log(VAGUEST)))
        return mean / factor, mean * factor
    odds, reach = math.log(mean / (1 - mean)), half / (mean * (1 - mean))
    below, above = (1 / (1 + math.exp(min(-odds - side * reach, 700.0))) for side in (-1, 1))
    return below, above


def ratio_of_medians(one: Sequence[float], other: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The median of one divided by the other's, and the ends of its 95 % interval; None of fewer than three values.

    All are positive. Price and Bonett, "Distribution-free confidence intervals for difference and ratio of medians",
    Journal of Statistical Computation and Simulation 72 (2002), with Student's t instead of the normal quantile, since
    their interval is too narrow for a handful of values.
    """
    sides = [sorted(map(math.log, side)) for side in (one, other)]
    log_ratio = statistics.median(sides[0]) - statistics.median(sides[1])
    if min(map(len, sides)) < 3:
        return math.exp(log_ratio), None, None
    half = distributions.t_ppf(0.975, sum(map(len, sides)) - 2) * math.sqrt(sum(map(_median_variance, sides)))
    ratio, low, high = (math.exp(log_ratio + by) for by in (0.0, -half, half))
    return ratio, low, high


def _median_variance(values: Sequence[float]) -> float:
    """Of the median of sorted values, from the distance of two order statistics about it."""
    n = len(values)
    place = max(1, round((n + 1) / 2 - math.sqrt(n)))
    outside = 2 * sum(math.comb(n, i) for i in range(place)) / 2**n
    z = statistics.NormalDist().inv_cdf(1 - outside / 2)
    return ((values[n - place] - values[place - 1]) / (2 * z)) ** 2


def outliers(values: Sequence[float] | Floats, risk: float = OUTLIER_RISK) -> list[Outlier]:
    """Values that a normal sample of this size would hold with probability `risk` only.

    The generalised extreme studentized deviate test with up to a third of the values: Rosner, "Percentage points
    for a generalized ESD many-outlier procedure" (Technometrics 25, 1983); with one outlier it is Grubbs' test and
    exact. A cut-off in robust deviations flags every third clean sample of ten. Fewer than five values flag none.
    """
    left = as_floats(values)
    if left.size < SMALLEST_FOR_OUTLIERS:
        return []
    index, removed, kept = np.arange(left.size), [], 0
    for step in range(1, left.size // 3 + 1):
        deviation = float(np.sqrt(sum_of_squares(left) / (left.size - 1)))
        if deviation == 0:
            break
        scores = (left - mean_of(left)) / deviation
        furthest = int(np.argmax(np.abs(scores)))
        removed.append(Outlier(int(index[furthest]), float(scores[furthest])))
        # The largest studentized deviate that chance explains: Rosner's equation 2.5.
        t = distributions.t_ppf(1 - risk / (2 * left.size), left.size - 2)
        if abs(scores[furthest]) > (left.size - 1) * t / math.sqrt((left.size - 2 + t**2) * left.size):
            kept = step
        left, index = np.delete(left, furthest), np.delete(index, furthest)
    return removed[:kept]


# Trends, and steady state


@dataclass(frozen=True)
class Kendall:
    """The test of Mann and Kendall: `s` counts rising minus falling pairs, `z` is normal where nothing drifts.

    `tau` = s / number of pairs. `strata` is the number of sequences that were summed.
    """

    s: float
    variance: float
    z: float
    p: float
    tau: float
    strata: int


def mann_kendall(sequences: Sequence[Floats]) -> Kendall | Undefined:
    """Trend over the order of values, summed over `sequences` that must not be compared with each other.

    Mann, Econometrica 13 (1945); Kendall, "Rank Correlation Methods" (1975), with ties and continuity correction;
    the sum over strata is the seasonal Kendall test of Hirsch, Slack and Smith (Water Resources Research 18, 1982).
    """
    arrays = [array for array in map(as_floats, sequences) if array.size >= 3]
    if not arrays:
        return Undefined("no condition has 3 repetitions")
    s = float(sum(np.sum(np.triu(np.sign(array[None, :] - array[:, None]), 1)) for array in arrays))
    variance = 0.0
    for array in arrays:
        n, ties = array.size, np.unique(array, return_counts=True)[1]
        variance += float((n * (n - 1) * (2 * n + 5) - np.sum(ties * (ties - 1) * (2 * ties + 5))) / 18)
    if variance == 0:
        return Undefined("all repetitions are equal")
    z = (s - np.sign(s)) / np.sqrt(variance)
    pairs = sum(array.size * (array.size - 1) / 2 for array in arrays)
    return Kendall(s, variance, float(z), math.erfc(abs(z) / math.sqrt(2)), s / pairs, len(arrays))


ROUNDS = 5
MAX_RANGE = 0.20
MAX_SLOPE = 0.10


@dataclass(frozen=True)
class Window:
    """One window that ends with round `last` (from 0). `range` and `slope` are shares of the window's average."""

    last: int
    average: float
    range: float
    slope: float

    @property
    def steady(self) -> bool:
        return self.range <= MAX_RANGE and self.slope <= MAX_SLOPE


@dataclass(frozen=True)
class SteadyState:
    """`attained`: the last window is steady. `since`: first round of the first window from which all are, or None."""

    attained: bool
    since: int | None
    final: Window
    rounds: int


def steady_state(values: Floats) -> SteadyState | Undefined:
    """Judge one value a round, in order of time; Undefined for fewer than five rounds."""
    array = as_floats(values)
    if array.size < ROUNDS:
        return Undefined(f"{array.size} rounds; steady state is judged over {ROUNDS}")
    x, windows = np.arange(ROUNDS) - (ROUNDS - 1) / 2, []
    for last in range(ROUNDS - 1, array.size):
        values = array[last - ROUNDS + 1 : last + 1]
        average, spread = float(values.mean()), float(np.ptp(values))
        rise = abs(float(np.sum(x * (values - average)) / np.sum(x**2))) * (ROUNDS - 1)
        shares = (spread / abs(average), rise / abs(average)) if average else (math.inf if spread else 0.0, 0.0)
        windows.append(Window(last, average, *shares))
    steady = [window.steady for window in windows]
    unsteady = [number for number, good in enumerate(steady) if not good]
    first = unsteady[-1] + 1 if unsteady else 0
    return SteadyState(steady[-1], first if steady[-1] else None, windows[-1], int(array.size))
