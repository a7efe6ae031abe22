"""Did watching change the result? Runs with the witness against their twins without it.

Interleaved runs of the same point; the ratio of the medians with a distribution-free interval. Few runs give a wide
interval, and then nothing is claimed either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ioassay.stats import distributions
from ioassay.verify import tolerances
from ioassay.verify.statement import Code, Statement, state


@dataclass(frozen=True)
class Twins:
    """One metric of the same point, watched and not watched; one value a run."""

    metric: str
    traced: Sequence[float]
    untraced: Sequence[float]


@dataclass(frozen=True)
class Effect:
    """Median watched divided by median not watched, with its interval (None where it cannot be known)."""

    metric: str
    ratio: float
    low: float | None
    high: float | None
    runs: int
    """On each side; the smaller number."""

    def perturbed(self) -> bool:
        """Whether the interval excludes no effect, and the effect is more than the tolerance."""
        if self.low is None or self.high is None:
            return False
        return (self.high < 1 or self.low > 1) and abs(self.ratio - 1) > tolerances.of("probe_effect")

    def statement(self) -> Statement:
        """For the notes of a verdict."""
        code = Code.OBSERVER_EFFECT_UNKNOWN if self.low is None else Code.OBSERVER_EFFECT
        return state(code, metric=self.metric, ratio=self.ratio, low=self.low, high=self.high, runs=self.runs)


def effect(twins: Twins) -> Effect | None:
    """The probe effect; None where a side has no positive value.

    Interval: Price and Bonett, "Distribution-free confidence intervals for difference and ratio of medians", Journal
    of Statistical Computation and Simulation 72 (2002), with Student's t instead of the normal quantile, since their
    interval is too narrow for a handful of runs.
    """
    sides = [sorted(math.log(value) for value in side if value > 0) for side in (twins.traced, twins.untraced)]
    runs = min(map(len, sides))
    if not runs:
        return None
    log_ratio = median(sides[0]) - median(sides[1])
    if runs < 3:
        return Effect(twins.metric, math.exp(log_ratio), None, None, runs)
    half = float(distributions.t_ppf(0.975, sum(map(len, sides)) - 2)) * math.sqrt(sum(map(_variance, sides)))
    ratio, low, high = (math.exp(log_ratio + by) for by in (0.0, -half, half))
    return Effect(twins.metric, ratio, low, high, runs)


def _variance(values: Sequence[float]) -> float:
    """Of the median of sorted values, from the distance of two order statistics about it."""
    n = len(values)
    place = max(1, round((n + 1) / 2 - math.sqrt(n)))
    outside = 2 * sum(math.comb(n, i) for i in range(place)) / 2**n
    z = float(distributions.normal_ppf(1 - outside / 2))
    return ((values[n - place] - values[place - 1]) / (2 * z)) ** 2
