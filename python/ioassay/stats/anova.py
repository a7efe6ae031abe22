"""Differences between groups: classic, Welch's and Kruskal-Wallis' tests, their effect sizes and their assumptions.

Each takes a sequence of groups (arrays of finite values). Which group differs from which is `posthoc.py`.
The test of normality is Shapiro and Wilk's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions, ranks
from ioassay.stats.result import Floats, Undefined, as_floats, mean_of, sum_of_squares

NO_SPREAD = "the repetitions of every condition are identical, so there is no spread to test against"


@dataclass(frozen=True)
class OneWay:
    """Classic one-way analysis of variance. `eta2` is R²; `omega2` is corrected for chance (may be below 0).

    `ss_*` are sums of squares and `ms_*` mean squares in the squared unit of the values.
    """

    df_between: int
    df_within: int
    ss_between: float
    ss_within: float
    ms_between: float
    ms_within: float
    f: float
    p: float
    eta2: float
    omega2: float

    @property
    def residual_stddev(self) -> float:
        """Deviation inside the groups, in the unit of the values."""
        return float(np.sqrt(self.ms_within))


@dataclass(frozen=True)
class Welch:
    """Welch's analysis of variance for unequal variances; `df_within` is not whole. For `omega2` see `welch`."""

    df_between: int
    df_within: float
    f: float
    p: float
    omega2: float


@dataclass(frozen=True)
class Ranks:
    """The test of Kruskal and Wallis: `h` against chi-squared with `df`; `epsilon2` is the share of rank variance."""

    h: float
    df: int
    p: float
    epsilon2: float


@dataclass(frozen=True)
class Assumption:
    """One assumption tested: a small `p` speaks against it."""

    statistic: float
    p: float


def usable(groups: Sequence[Floats]) -> list[Floats]:
    """The groups as arrays, without the empty ones."""
    return [array for array in map(as_floats, groups) if array.size]


def one_way(groups: Sequence[Floats]) -> OneWay | Undefined:
    """Fisher's one-way analysis of variance (Statistical Methods for Research Workers, 1925)."""
    arrays = usable(groups)
    count, size = len(arrays), sum(array.size for array in arrays)
    if count < 2:
        return Undefined(f"{count} condition with values; a comparison needs at least 2")
    if size <= count:
        return Undefined("no condition has a second repetition, so there is no spread to test against")
    # A common offset (13 leading digits in NIST's SmLs09) must not eat the digits that differ.
    origin = float(np.median(np.concatenate(arrays)))
    arrays = [array - origin for array in arrays]
    ss_within = float(sum(sum_of_squares(array) for array in arrays))
    ss_between = _between(arrays)
    if ss_within == 0:
        return Undefined(NO_SPREAD)
    return _one_way(count - 1, size - count, ss_between, ss_within)


def _between(arrays: Sequence[Floats]) -> float:
    sizes = np.array([array.size for array in arrays], dtype=np.float64)
    means = np.array([mean_of(array) for array in arrays])
    return float(np.sum(sizes * (means - np.average(means, weights=sizes)) ** 2))


def _one_way(df_between: int, df_within: int, ss_between: float, ss_within: float) -> OneWay:
    ms_between, ms_within = ss_between / df_between, ss_within / df_within
    total = ss_between + ss_within
    f = ms_between / ms_within
    return OneWay(
        df_between=df_between,
        df_within=df_within,
        ss_between=ss_between,
        ss_within=ss_within,
        ms_between=ms_between,
        ms_within=ms_within,
        f=f,
        p=float(distributions.f_sf(f, df_between, df_within)),
        eta2=ss_between / total,
        omega2=(ss_between - df_between * ms_within) / (total + ms_within),
    )


def welch(groups: Sequence[Floats]) -> Welch | Undefined:
    """Welch, "On the comparison of several mean values: an alternative approach", Biometrika 38 (1951).

    `omega2` is the adjusted omega squared, df (F - 1) / (df (F - 1) + N), from Welch's F: Carroll and Nordholm,
    "Sampling characteristics of Kelley's epsilon and Hays' omega" (Educational and Psychological Measurement 35, 1975).
    """
    arrays = usable(groups)
    if len(arrays) < 2:
        return Undefined(f"{len(arrays)} condition with values; a comparison needs at least 2")
    if min(array.size for array in arrays) < 2:
        return Undefined("a condition has one repetition only, so its variance is unknown")
    sizes = np.array([array.size for array in arrays], dtype=np.float64)
    variances = np.array([sum_of_squares(array) / (array.size - 1) for array in arrays])
    if not variances.all():
        return Undefined("the repetitions of a condition are identical, so its weight would be infinite")
    origin = float(np.median(np.concatenate(arrays)))
    return _welch(sizes, np.array([mean_of(array - origin) for array in arrays]), variances)


def _welch(sizes: Floats, means: Floats, variances: Floats) -> Welch:
    weights = sizes / variances
    shares = weights / weights.sum()
    k = sizes.size
    between = float(np.sum(weights * (means - np.sum(shares * means)) ** 2)) / (k - 1)
    spread = float(np.sum((1 - shares) ** 2 / (sizes - 1)))
    f = between / (1 + 2 * (k - 2) / (k**2 - 1) * spread)
    df_within = (k**2 - 1) / (3 * spread)
    effect = (k - 1) * (f - 1)
    return Welch(
        k - 1, df_within, f, float(distributions.f_sf(f, k - 1, df_within)), effect / (effect + float(sizes.sum()))
    )


def kruskal_wallis(groups: Sequence[Floats]) -> Ranks | Undefined:
    """Kruskal and Wallis, "Use of ranks in one-criterion variance analysis", JASA 47 (1952), with their tie correction.

    `epsilon2` = H / (N - 1), Tomczak and Tomczak, Trends in Sport Sciences 1 (2014).
    """
    arrays = usable(groups)
    if len(arrays) < 2:
        return Undefined(f"{len(arrays)} condition with values; a comparison needs at least 2")
    everything = np.concatenate(arrays)
    if everything.min() == everything.max():
        return Undefined("all values are equal")
    if everything.size <= len(arrays):
        return Undefined("no condition has a second repetition")
    h, p = ranks.kruskal(arrays)
    return Ranks(h, len(arrays) - 1, p, h / (everything.size - 1))


def brown_forsythe(groups: Sequence[Floats]) -> Assumption | Undefined:
    """Levene's test about the medians: are the variances equal? Brown and Forsythe, JASA 69 (1974)."""
    arrays = [array for array in usable(groups) if array.size > 2]
    if len(arrays) < 2:
        return Undefined("fewer than two conditions have three repetitions")
    done = one_way([np.abs(array - np.median(array)) for array in arrays])
    return done if isinstance(done, Undefined) else Assumption(done.f, done.p)


def normal_residuals(groups: Sequence[Floats]) -> Assumption | Undefined:
    """The test of Shapiro and Wilk (Biometrika 52, 1965) on the deviations from each group's mean."""
    repeated = [array for array in usable(groups) if array.size > 1]
    residuals = np.concatenate([array - mean_of(array) for array in repeated] or [np.empty(0)])
    if residuals.size < 3:
        return Undefined(f"{residuals.size} repeated values; the test needs at least 3")
    if residuals.min() == residuals.max():
        return Undefined(NO_SPREAD)
    return Assumption(*shapiro_wilk(residuals))


_FIRST = (0.0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056)
_SECOND = (0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633)
_SMALL_SHIFT = (-2.273, 0.459)
_SMALL_MEAN, _SMALL_SPREAD = (0.544, -0.39978, 0.025054, -6.714e-4), (1.3822, -0.77857, 0.062767, -0.0020322)
_LARGE_MEAN, _LARGE_SPREAD = (-1.5861, -0.31082, -0.083751, 0.0038915), (-0.4803, -0.082676, 0.0030302)


def shapiro_wilk(values: Floats) -> tuple[float, float]:
    """W and its p, of three values or more that are not all equal; beyond 5000 values p is approximate.

    Source: P. Royston, algorithm AS R94 (Applied Statistics 44, 1995), whose constants these are.
    """
    ordered = np.sort(values)
    ordered = ordered - ordered[ordered.size // 2]
    weights = _weights(ordered.size)
    deviations = ordered - ordered.mean()
    w = float(np.sum(weights * deviations)) ** 2 / float(np.sum(weights**2) * np.sum(deviations**2))
    return min(w, 1.0), _probability(min(w, 1.0), ordered.size)


def _weights(n: int) -> Floats:
    """Of the ordered values; those of the lower half are the upper half's with the other sign."""
    if n == 3:
        return np.array([-math.sqrt(0.5), 0.0, math.sqrt(0.5)])
    scores = np.array([distributions.normal_ppf((place - 0.375) / (n + 0.25)) for place in range(1, n // 2 + 1)])
    squares = 2 * float(np.sum(scores**2))
    root = 1 / math.sqrt(n)
    ends = [_polynomial(_FIRST, root) - scores[0] / math.sqrt(squares)]
    if n > 5:
        ends.append(_polynomial(_SECOND, root) - scores[1] / math.sqrt(squares))
    known = len(ends)
    left = squares - 2 * float(np.sum(scores[:known] ** 2))
    upper = np.concatenate([ends, -scores[known:] / math.sqrt(left / (1 - 2 * float(np.sum(np.square(ends)))))])
    return np.concatenate([-upper, np.zeros(n % 2), upper[::-1]])


def _probability(w: float, n: int) -> float:
    if n == 3:
        return max(0.0, 6 / math.pi * (math.asin(math.sqrt(w)) - math.asin(math.sqrt(0.75))))
    if w >= 1:
        return 1.0
    deviance, size = math.log(1 - w), math.log(n)
    if n <= 11:
        bound = _polynomial(_SMALL_SHIFT, n)
        if deviance >= bound:
            return 1e-99
        deviance = -math.log(bound - deviance)
        mean, spread = _polynomial(_SMALL_MEAN, n), math.exp(_polynomial(_SMALL_SPREAD, n))
    else:
        mean, spread = _polynomial(_LARGE_MEAN, size), math.exp(_polynomial(_LARGE_SPREAD, size))
    return distributions.normal_sf((deviance - mean) / spread)


def _polynomial(coefficients: tuple[float, ...], x: float) -> float:
    return sum(coefficient * x**power for power, coefficient in enumerate(coefficients))
