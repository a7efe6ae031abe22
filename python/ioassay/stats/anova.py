"""Differences between groups: the classic analysis of variance and Welch's, with their effect sizes.

Each takes a sequence of groups (arrays of finite values). Which group differs from which is `contrasts.py`.

An analysis of log samples that counts each as an observation believes in far more degrees of freedom than there are,
since samples of one run resemble their neighbours: `dependence` says how much independent information they hold, and
`corrected` what is left of the analysis. Variance components say where the variation lies: between repetitions or
inside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined, as_floats, mean_of, sum_of_squares

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
    if ss_within == 0:
        return Undefined(NO_SPREAD)
    sizes = np.array([array.size for array in arrays], dtype=np.float64)
    means = np.array([mean_of(array) for array in arrays])
    ss_between = float(np.sum(sizes * (means - np.average(means, weights=sizes)) ** 2))
    df_between, df_within = count - 1, size - count
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
    means, weights = np.array([mean_of(array - origin) for array in arrays]), sizes / variances
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


@dataclass(frozen=True)
class Dependence:
    """Dependence inside runs, pooled over them. `lag1` is the correlation of neighbours.

    `time` is the integrated autocorrelation time in samples (1: independent), `effective` = samples / time.
    """

    samples: int
    lag1: float
    time: float
    effective: float


@dataclass(frozen=True)
class Corrected:
    """An ANOVA over dependent samples, with its F deflated and its degrees of freedom reduced to what is there."""

    f: float
    df_between: int
    df_within: float
    p: float


def dependence(runs: Sequence[Floats]) -> Dependence | Undefined:
    """Lag-1 autocorrelation and effective sample size of runs of one condition, each about its own mean.

    The sum of autocorrelations stops where a pair of neighbouring lags first sums to less than zero: the initial
    positive sequence of Geyer, "Practical Markov chain Monte Carlo" (Statistical Science 7, 1992). Times below 1
    (negative correlation) are set to 1, which errs on the side of fewer samples. Series of fewer than about 50
    samples underestimate the dependence, because each run's own mean is taken out.
    """
    arrays = [array for array in map(as_floats, runs) if array.size >= 4]
    if not arrays:
        return Undefined("no run has 4 log samples")
    lags = min(array.size for array in arrays) // 2
    covariance = np.sum([_autocovariance(array, lags) for array in arrays], axis=0)
    if covariance[0] <= 0:
        return Undefined("the log samples of every run are identical")
    rho = covariance / covariance[0]
    pairs = rho[: rho.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    kept = pairs[: negative[0]] if negative.size else pairs
    # The pairs count lag 0 once; every other lag occurs on both sides.
    samples, time = sum(array.size for array in arrays), max(1.0, float(2 * kept.sum() - 1))
    return Dependence(samples, float(rho[1]), time, samples / time)


def _autocovariance(values: Floats, lags: int) -> Floats:
    """Sums of products of deviations at lags 0 to `lags`, shape (lags + 1,), by the Wiener-Khinchin theorem."""
    deviations = values - values.mean()
    spectrum = np.abs(np.fft.rfft(deviations, 2 * values.size)) ** 2
    return np.asarray(np.fft.irfft(spectrum)[: lags + 1])


def corrected(anova: OneWay, found: Dependence) -> Corrected:
    """The one-way ANOVA as if only `found.effective` samples had been taken: F / time, with as many degrees of freedom.

    The variance of a run's mean is `time` times what independent samples would give: Zwiers and von Storch,
    "Taking serial correlation into account in tests of the mean" (Journal of Climate 8, 1995). Approximate.
    """
    groups = anova.df_between + 1
    df_within = max(found.effective - groups, 1.0)
    f = anova.f / found.time
    return Corrected(f, anova.df_between, df_within, float(distributions.f_sf(f, anova.df_between, df_within)))


@dataclass(frozen=True)
class Components:
    """One-way random effects. `between` and `within` are variances in the squared unit of the values.

    `between` is the estimate itself and may be negative (repetitions closer to each other than chance); `icc` is
    between / (between + within), and `icc_interval` its interval.
    """

    between: float
    within: float
    icc: float
    icc_interval: Interval
    mean_size: float
    anova: OneWay


def components(groups: Sequence[Floats], confidence: float) -> Components | Undefined:
    """Variance components by equating mean squares, and ICC(1).

    Searle, Casella and McCulloch, "Variance Components" (1992), section 3.6; the interval is that of Shrout and
    Fleiss, "Intraclass correlations" (Psychological Bulletin 86, 1979), exact for groups of one size.
    """
    arrays = usable(groups)
    anova = one_way(arrays)
    if isinstance(anova, Undefined):
        return anova
    sizes = np.array([array.size for array in arrays], dtype=np.float64)
    size = float((sizes.sum() - np.sum(sizes**2) / sizes.sum()) / anova.df_between)
    between = (anova.ms_between - anova.ms_within) / size
    tail = (1 + confidence) / 2
    low = anova.f / float(distributions.f_ppf(tail, anova.df_between, anova.df_within))
    high = anova.f * float(distributions.f_ppf(tail, anova.df_within, anova.df_between))
    interval = Interval((low - 1) / (low + size - 1), (high - 1) / (high + size - 1), confidence, "F")
    return Components(between, anova.ms_within, between / (between + anova.ms_within), interval, size, anova)
