"""Where the variation lies: between repetitions or inside them. Variance components and intraclass correlation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.anova import OneWay, one_way, usable
from ioassay.stats.result import Floats, Interval, Undefined


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
