"""How many repetitions does it take to see a difference of the margin? From the scatter of a model, or assumed."""

from __future__ import annotations

import math
from collections.abc import Callable

from ioassay.stats import distributions
from ioassay.stats.contrasts import LINES_SHARE, MARGIN, Contrasts, range_quantile

POWER = 0.8
"""The chance with which the difference is to be seen: Cohen, "Statistical Power Analysis" (1988), 2.4."""
MOST = 1000


def repetitions_needed(family: Contrasts) -> int:
    """The repetitions of each condition with which this family shows a difference of its margin, MOST at most."""
    means = family.means
    deviation = math.sqrt(float((means.squared_errors * means.sizes).mean()))
    if deviation == 0:
        return 2
    if family.bound == 0:
        return MOST  # all means are 0, and no number is a share of them
    scatter, conditions, risk = deviation / family.bound, means.sizes.size, family.pair_risk
    return fewest(lambda n: _seen(n, scatter, conditions, risk))


def repetitions_for(
    variation: float,
    conditions: int,
    confidence: float,
    *,
    margin: float = MARGIN,
    lines: bool = False,
    share: int = 1,
) -> int:
    """The same of conditions that all scatter by `variation`, a share of the mean.

    `lines`: their levels are numbers; `share`: how many such families share the risk.
    """
    risk = (1 - confidence) / share * (1 - LINES_SHARE if lines else 1)
    return fewest(lambda n: _seen(n, variation / math.log1p(margin), conditions, risk))


def fewest(seen: Callable[[int], bool]) -> int:
    """The smallest number from 2 to MOST for which `seen` holds: by doubling, then halving."""
    low, high = 1, 2
    while high < MOST and not seen(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return min(high, MOST)


def _seen(n: int, scatter: float, conditions: int, risk: float) -> bool:
    """Whether the half-width of all pairs, and what power asks beyond it, fit into the margin.

    `scatter` is the deviation of one repetition in margins.

    Two means at the margin from each other are told apart with POWER then, and two equal ones are shown to be within
    it more often still: that takes one-sided tests only.
    """
    df = float(conditions * (n - 1))
    reach = range_quantile(1 - risk, max(conditions, 2), df) + distributions.t_ppf(POWER, df)
    return reach * scatter * math.sqrt(2 / n) <= 1
