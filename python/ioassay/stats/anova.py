"""Differences between groups: the classic analysis of variance and Welch's, with their effect sizes.

Each takes a sequence of groups (arrays of finite values). Which group differs from which is `contrasts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions
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
