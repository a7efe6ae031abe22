"""One sample: moments, intervals of its mean, outliers. Outliers are flagged, never removed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined, as_floats, mean_of, sum_of_squares

RESAMPLES = 5000
SEED = 20240229
SMALLEST_BOOTSTRAP = 3
SMALLEST_FOR_OUTLIERS = 5
OUTLIER_RISK = 0.01
# Rows of one call to the bootstrap, and resamples of one batch: bounds its memory to about 100 MB.
_ROWS = 128
_BATCH = 1000
_GRID = 2.0**36


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
        raise ValueError("moments of no values; wanted at least one")
    mean = mean_of(array)
    stddev = float(np.sqrt(sum_of_squares(array) / (array.size - 1))) if array.size > 1 else None
    cv = stddev / abs(mean) if stddev is not None and mean != 0 else None
    return Moments(int(array.size), mean, float(np.median(array)), stddev, cv, float(array.min()), float(array.max()))


def t_interval(values: Sequence[float] | Floats, confidence: float) -> Interval | Undefined:
    """Student's t interval of the mean ("The probable error of a mean", Biometrika 6, 1908)."""
    array = as_floats(values)
    if array.size < 2:
        return Undefined(f"{array.size} repetition{'' if array.size == 1 else 's'}; an interval needs at least 2")
    deviation = float(np.sqrt(sum_of_squares(array) / (array.size - 1)))
    half = float(distributions.t_ppf((1 + confidence) / 2, array.size - 1)) * deviation / float(np.sqrt(array.size))
    mean = mean_of(array)
    return Interval(mean - half, mean + half, confidence, "t")


def bca_intervals(
    samples: Sequence[Floats],
    confidence: float,
    *,
    statistic: Callable[..., Any] = np.mean,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Interval | Undefined]:
    """Bias-corrected and accelerated bootstrap intervals of many samples at once (by default of their means).

    Efron, "Better bootstrap confidence intervals", JASA 82 (1987). Samples of one size share their resampling
    indices, which makes one call of many; each interval alone is what a call for it alone would give. Values are
    sorted first, so that the interval does not depend on their order. `statistic` takes the keyword `axis`.
    """
    arrays = [np.sort(as_floats(sample)) for sample in samples]
    results: list[Interval | Undefined] = [_without_bootstrap(array, statistic, confidence) for array in arrays]
    usable = [number for number, array in enumerate(arrays) if _can_bootstrap(array)]
    for size in sorted({arrays[number].size for number in usable}):
        members = [number for number in usable if arrays[number].size == size]
        for start in range(0, len(members), _ROWS):
            rows = members[start : start + _ROWS]
            found = _bootstrap(np.stack([arrays[row] for row in rows]), confidence, statistic, resamples, seed)
            for row, interval in zip(rows, found, strict=True):
                results[row] = interval
    return results


def _can_bootstrap(array: Floats) -> bool:
    return array.size >= SMALLEST_BOOTSTRAP and array[0] != array[-1]


def _without_bootstrap(array: Floats, statistic: Callable[..., Any], confidence: float) -> Interval | Undefined:
    if array.size < SMALLEST_BOOTSTRAP:
        return Undefined(f"{array.size} repetition(s); the bootstrap needs at least {SMALLEST_BOOTSTRAP}")
    value = float(array[0]) if statistic is np.mean else float(statistic(array, axis=-1))
    return Interval(value, value, confidence, "BCa")


def _bootstrap(
    rows: Floats, confidence: float, statistic: Callable[..., Any], resamples: int, seed: int
) -> list[Interval | Undefined]:
    """`rows` has the shape (samples, n); every row varies and ascends."""
    grid, step = _gridded(rows) if statistic is np.mean else (rows, np.ones((rows.shape[0], 1)))
    ends = _percentiles(grid, confidence, statistic, resamples, np.random.default_rng(seed))
    origin = rows[:, 0] if statistic is np.mean else 0.0
    low, high = (end * step[:, 0] + origin for end in ends)
    return [_bca(float(a), float(b), confidence) for a, b in zip(low, high, strict=True)]


def _percentiles(
    rows: Floats, confidence: float, statistic: Callable[..., Any], resamples: int, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Both ends of each row's interval: Efron's equations 4.9 and 6.6; not a number where they are not defined."""
    size = rows.shape[1]
    batches = [min(_BATCH, resamples - begin) for begin in range(0, resamples, _BATCH)]
    drawn = [random.integers(0, size, (count, size)) for count in batches]
    spread = np.concatenate([statistic(rows[:, places], axis=-1) for places in drawn], axis=-1)
    own = statistic(rows, axis=-1)[:, None]
    below = ((spread < own).sum(axis=-1) + (spread <= own).sum(axis=-1)) / (2 * resamples)
    without = np.array([[place for place in range(size) if place != left] for left in range(size)])
    left_out = statistic(rows[:, without], axis=-1)
    influence = (size - 1) * (left_out.mean(axis=-1, keepdims=True) - left_out)
    with np.errstate(divide="ignore", invalid="ignore"):
        skew = np.sum(influence**3, axis=-1) / size**3 / (np.sum(influence**2, axis=-1) / size**2) ** 1.5 / 6
    spread.sort(axis=-1)
    ends = np.full((2, len(rows)), np.nan)
    for row, (lower, acceleration) in enumerate(zip(below.tolist(), skew.tolist(), strict=True)):
        bias = distributions.normal_ppf(lower)
        for end, tail in enumerate(((1 - confidence) / 2, (1 + confidence) / 2)):
            z = bias + distributions.normal_ppf(tail)
            if math.isfinite(z) and math.isfinite(acceleration) and acceleration * z != 1:
                share = distributions.normal_cdf(bias + z / (1 - acceleration * z))
                ends[end, row] = _interpolated(spread[row], share)
    return ends[0], ends[1]


def _interpolated(ordered: Floats, share: float) -> float:
    """The quantile between the nearest two: Hyndman and Fan's definition 7, numpy's default."""
    place = share * (ordered.size - 1)
    left = min(int(place), ordered.size - 2)
    return float(ordered[left] + (ordered[left + 1] - ordered[left]) * (place - left))


def _gridded(rows: Floats) -> tuple[Floats, Floats]:
    """Values as whole steps of a fine grid from the smallest, and the step of each row, shape (samples, 1).

    Sums of whole numbers are exact, so a resample with the sample's own mean is seen as equal to it. Rounding would
    put it above or below at random; of three values' resamples that is every fifth, and the bias correction with it.
    """
    step = (rows[:, -1:] - rows[:, :1]) / _GRID
    return np.round((rows - rows[:, :1]) / step), step


def _bca(low: float, high: float, confidence: float) -> Interval | Undefined:
    if not (np.isfinite(low) and np.isfinite(high)):
        return Undefined("the bootstrap's correction is not defined for these values")
    return Interval(low, high, confidence, "BCa")


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
        if abs(scores[furthest]) > _critical(left.size, risk):
            kept = step
        left, index = np.delete(left, furthest), np.delete(index, furthest)
    return removed[:kept]


def _critical(size: int, risk: float) -> float:
    """Largest studentized deviate of `size` normal values that chance explains: Rosner's equation 2.5."""
    t = float(distributions.t_ppf(1 - risk / (2 * size), size - 2))
    return (size - 1) * t / float(np.sqrt((size - 2 + t**2) * size))
