"""The ratio of two means with its error: its interval, and whether it is negligible.

Ratios, because storage results span decades and 'twice as fast' needs no unit. The log of the ratio is estimated:
its interval is the same whichever mean is divided by the other. Ratios come from fitted models (`contrasts.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Interval


@dataclass(frozen=True)
class Ratio:
    """The first mean divided by the second.

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
