"""How many repetitions does it take to see a difference? From the scatter of those that there are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Undefined, sum_of_squares

POWER = 0.8
"""The chance with which the difference is to be seen: Cohen, "Statistical Power Analysis" (1988), 2.4."""
MOST = 1000


def repetitions_needed(
    groups: Sequence[Floats], difference: float, confidence: float, pairs: int = 1
) -> int | Undefined:
    """The repetitions of each group with which `pairs` tests of two groups show a `difference` of means, MOST at most.

    Two-sided t tests at the risk that Bonferroni's inequality leaves each, over the pooled scatter of the groups; power
    by the noncentral t distribution (Cohen, 1988, chapter 2). Holm's steps need no more.
    """
    freedom = sum(max(group.size - 1, 0) for group in groups)
    if freedom < 1:
        return Undefined("each level has one repetition only, so nothing says how far chance goes")
    scatter = math.sqrt(sum(sum_of_squares(group) for group in groups) / freedom)
    if scatter == 0 or difference <= 0:
        return 2 if difference > 0 else MOST
    low, high = 1, 2
    while high < MOST and not _seen(high, difference / scatter, confidence, pairs):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _seen(middle, difference / scatter, confidence, pairs) else (middle, high)
    return min(high, MOST)


def _seen(n: int, effect: float, confidence: float, pairs: int) -> bool:
    df = 2 * (n - 1)
    bound = float(distributions.t_ppf(1 - (1 - confidence) / pairs / 2, df))
    return float(distributions.noncentral_t_sf(bound, df, effect * math.sqrt(n / 2))) >= POWER
