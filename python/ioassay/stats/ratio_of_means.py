"""Two samples against each other: how many times larger is one mean, is the difference real, is it negligible?

Ratios, because storage results span decades and 'twice as fast' needs no unit. The log of the ratio is estimated:
its interval is the same whichever sample is divided by the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined, as_floats, mean_of, sum_of_squares


@dataclass(frozen=True)
class Ratio:
    """Mean of the first sample divided by the mean of the second.

    `se` is the standard error of the ratio's natural logarithm, with `df` degrees of freedom (infinite when the
    repetitions are identical); `p` tests the ratio 1.
    """

    ratio: float
    interval: Interval
    se: float
    df: float
    p: float


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests: a small `p` proves the ratio within 1 / (1 + margin) and 1 + margin.

    `interval` has the confidence 1 - 2 alpha; it lies within the margin exactly when `equivalent`.
    """

    margin: float
    p: float
    interval: Interval
    equivalent: bool


def ratio_of_means(first: Floats, second: Floats, confidence: float) -> Ratio | Undefined:
    """Ratio of two means, interval and test: the delta method on the log scale with Satterthwaite's degrees of freedom.

    var(ln ratio) = s1² / (n1 m1²) + s2² / (n2 m2²): Hedges, Gurevitch and Curtis, "The meta-analysis of response
    ratios in experimental ecology" (Ecology 80, 1999), equation 1; Satterthwaite, Biometrics Bulletin 2 (1946).
    Good while each mean is at least three standard errors from 0, which a coefficient of variation below 50 % gives.
    """
    return average_ratio([(first, second)], confidence)


def average_ratio(pairs: Sequence[tuple[Floats, Floats]], confidence: float) -> Ratio | Undefined:
    """Geometric mean of the ratios of several independent pairs of samples; each pair as in `ratio_of_means`."""
    logs: list[float] = []
    variances: list[float] = []
    dfs: list[int] = []
    for pair in pairs:
        arrays = [as_floats(sample) for sample in pair]
        if min(array.size for array in arrays) < 2:
            return Undefined("a condition has one repetition only, so its spread is unknown")
        means = [mean_of(array) for array in arrays]
        if min(means) <= 0:
            return Undefined("a mean is not above 0, so there is no ratio")
        logs.append(float(np.log(means[0] / means[1])))
        variances += [sum_of_squares(a) / (a.size - 1) / a.size / m**2 for a, m in zip(arrays, means, strict=True)]
        dfs += [array.size - 1 for array in arrays]
    if not logs:
        return Undefined("no pair of conditions has values")
    return _ratio(float(np.mean(logs)), np.array(variances) / len(logs) ** 2, np.array(dfs), confidence)


def _ratio(log_ratio: float, variances: Floats, dfs: Floats, confidence: float) -> Ratio:
    variance = float(variances.sum())
    if variance == 0:
        ratio = float(np.exp(log_ratio))
        return Ratio(ratio, Interval(ratio, ratio, confidence, "exact"), 0.0, float("inf"), float(log_ratio == 0))
    # The log only matters through its error here; shares avoid the underflow of squares of tiny variances.
    df = float(1 / np.sum((variances / variance) ** 2 / dfs))
    se = float(np.sqrt(variance))
    p = float(2 * distributions.t_sf(abs(log_ratio) / se, df))
    return Ratio(float(np.exp(log_ratio)), ratio_interval(log_ratio, se, df, confidence), se, df, p)


def ratio_interval(log_ratio: float, se: float, df: float, confidence: float) -> Interval:
    """The interval of a ratio from its logarithm, the standard error of that, and its degrees of freedom."""
    half = float(distributions.t_ppf((1 + confidence) / 2, df)) * se
    return Interval(float(np.exp(log_ratio - half)), float(np.exp(log_ratio + half)), confidence, "log ratio, t")


def equivalence(found: Ratio, margin: float, alpha: float) -> Equivalence:
    """Is the ratio within the margin? Schuirmann's two one-sided tests (Journal of Pharmacokinetics 15, 1987).

    On the log scale with symmetric bounds, as bioequivalence is judged (FDA, "Statistical approaches to
    establishing bioequivalence", 2001).
    """
    bound, log_ratio = float(np.log1p(margin)), float(np.log(found.ratio))
    if found.se == 0:
        inside = abs(log_ratio) <= bound
        return Equivalence(margin, 0.0 if inside else 1.0, found.interval, inside)
    below = distributions.t_sf((log_ratio + bound) / found.se, found.df)
    above = distributions.t_sf(-(log_ratio - bound) / found.se, found.df)
    p = float(max(below, above))
    return Equivalence(margin, p, ratio_interval(log_ratio, found.se, found.df, 1 - 2 * alpha), p <= alpha)
