"""What follows from fitted condition means: one family of contrasts, from which all claims about a response are read.

Three kinds of claims, each with a stated risk, never one from the lack of another:

- *Difference*: one condition is above another. All pairs hold at once (studentized range: Tukey; Games and Howell,
  Journal of Educational Statistics 1, 1976, for unequal variances; Satterthwaite's degrees of freedom, Biometrics
  Bulletin 2, 1946).
- *Equivalence*: a condition is within the margin of another, by two one-sided tests (Schuirmann, Journal of
  Pharmacokinetics and Biopharmaceutics 15, 1987). To be within the margin of all others is an intersection of such
  tests, each at that risk (Berger, Technometrics 24, 1982).
- *Slope*: a straight line over numbers rises or falls. Where there are numbers, pairs and lines share the risk.

What no claim covers is undecided. All use the same differences and standard errors, so they cannot contradict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from ioassay.stats import distributions, studentized_range
from ioassay.stats.condition_means import ConditionMeans, Scale
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Floats, Interval

Bools = npt.NDArray[np.bool_]
MARGIN = 0.05
"""Differences below this share count as none, where the user wants no other."""
LINES_SHARE = 0.2
"""Part of the risk that the lines over a numeric factor have; the pairs have the rest."""
TIE = 1e-12
"""Differences below this are rounding's, and none."""
_LARGEST_DF = 1000.0


@dataclass(frozen=True)
class Pair:
    """One condition against another: a ratio of means, or on the raw scale their difference, with its interval.

    `interval` holds together with all others of the family and of those that share its risk; `p` tests that there is no
    difference, adjusted for them.
    """

    estimate: float
    interval: Interval
    p: float


@dataclass(frozen=True)
class Contrasts:
    """The family of one question. `share`: how many such families share the risk, as places of a factor do.

    Matrices have the shape (k, k); entry [i, j] is about condition i against condition j.
    """

    means: ConditionMeans
    confidence: float
    margin: float = MARGIN
    share: int = 1
    lines: int = 0

    @property
    def risk(self) -> float:
        """Of the whole family."""
        return (1 - self.confidence) / self.share

    @property
    def pair_risk(self) -> float:
        """Of all pairs together."""
        return self.risk * (1 - LINES_SHARE) if self.lines else self.risk

    @cached_property
    def differences(self) -> Floats:
        """Estimate i minus estimate j."""
        estimates = self.means.estimates
        found: Floats = estimates[:, None] - estimates[None, :]
        size = 1.0 if self.means.scale == Scale.LOG else float(np.abs(estimates).max())
        found[np.abs(found) <= TIE * size] = 0.0
        return found

    @cached_property
    def bound(self) -> float:
        """The margin on the scale of the estimates; on the raw scale a share of the largest mean."""
        if self.means.scale == Scale.LOG:
            return math.log1p(self.margin)
        return self.margin * float(np.abs(self.means.means).max())

    @cached_property
    def errors(self) -> Floats:
        """Standard errors of the differences; 0 on the diagonal."""
        squared = self.means.squared_errors
        found: Floats = np.sqrt(squared[:, None] + squared[None, :])
        np.fill_diagonal(found, 0.0)
        return found

    @cached_property
    def df(self) -> Floats:
        """Degrees of freedom of the differences."""
        return self.means.df_of_pairs()

    @cached_property
    def reach(self) -> Floats:
        """Half the widths of the simultaneous intervals of the differences."""
        k, level = self.means.estimates.size, 1 - self.pair_risk
        return self.errors * by_df(self.df, lambda df: range_quantile(level, max(k, 2), df))

    @cached_property
    def tolerance(self) -> Floats:
        """How far a difference must lie inside the margin: a one-sided t test at the risk of all pairs."""
        level = 1 - self.pair_risk
        return self.errors * by_df(self.df, lambda df: distributions.t_ppf(level, df))

    @cached_property
    def above(self) -> Bools:
        """i is certainly above j."""
        return np.asarray(self.differences > self.reach)

    @cached_property
    def rises(self) -> Bools:
        """Of levels in order: [i, j] where the later j is certainly above i."""
        return np.asarray(np.triu(self.above.T, 1))

    @cached_property
    def falls(self) -> Bools:
        """Of levels in order: [i, j] where the later j is certainly below i."""
        return np.asarray(np.triu(self.above, 1))

    @cached_property
    def near(self) -> Bools:
        """i is certainly not below j by more than the margin."""
        return np.asarray(-self.differences + self.tolerance <= self.bound)

    @property
    def equivalent(self) -> bool:
        """True if all conditions are within the margin of each other."""
        return bool(self.near.all())

    @property
    def different(self) -> bool:
        """True if some condition is certainly above another."""
        return bool(self.above.any())

    def equal(self, first: int, second: int) -> bool:
        """Both are certainly within the margin of each other."""
        return bool(self.near[first, second] and self.near[second, first])

    def pair(self, high: int, low: int) -> Pair:
        """Condition `high` against condition `low`."""
        difference, reach = float(self.differences[high, low]), float(self.reach[high, low])
        ends = (difference - reach, difference + reach)
        if self.means.scale == Scale.LOG:
            shown, ends = math.exp(difference), (bounded_exp(ends[0]), bounded_exp(ends[1]))
        else:
            shown = difference
        interval = Interval(*ends, self.confidence, "simultaneous")
        return Pair(shown, interval, self.p(high, low))

    def ratio(self, high: int, low: int) -> Ratio:
        """The same on the logarithmic scale, with the error of the logarithm."""
        pair = self.pair(high, low)
        error, df = float(self.errors[high, low]), float(self.df[high, low])
        return Ratio(pair.estimate, pair.interval, error, df, pair.p)

    def p(self, first: int, second: int) -> float:
        """That both are equal, adjusted for all pairs and for all families that share the risk."""
        difference, error = abs(float(self.differences[first, second])), float(self.errors[first, second])
        if error == 0:
            return float(difference == 0)
        q, k = np.array([difference / error * math.sqrt(2)]), max(self.means.estimates.size, 2)
        below = float(studentized_range.cdf(q, k, np.array([grid_df(float(self.df[first, second]))]))[0])
        return min(1.0, (1 - below) * self.share * self._pairs_cost)

    @property
    def _pairs_cost(self) -> float:
        """By what the p of a pair is multiplied so that it is below the whole risk where its interval excludes 0."""
        return 1 / (1 - LINES_SHARE) if self.lines else 1.0

    @cached_property
    def largest(self) -> tuple[int, int]:
        """The pair that differs most clearly: the first above the second, by the ratio of difference to interval."""
        if self.means.exact:
            return int(self.means.estimates.argmax()), int(self.means.estimates.argmin())
        clear = np.where(self.reach > 0, self.differences / np.where(self.reach > 0, self.reach, 1.0), 0.0)
        high, low = np.unravel_index(int(clear.argmax()), clear.shape)
        return int(high), int(low)


@dataclass(frozen=True)
class Slope:
    """The slope of a straight line through the means, in the unit of the response per unit of x.

    `interval` holds together with all pairs and the other lines of the family, `p` is adjusted for them.
    """

    slope: float
    error: float
    df: float
    interval: Interval
    p: float

    @property
    def direction(self) -> int:
        """1 if it certainly rises, -1 if it certainly falls, else 0."""
        return int(self.interval.low > 0) - int(self.interval.high < 0)


def slope(family: Contrasts, x: Sequence[float] | Floats) -> Slope:
    """The slope of least squares through all repetitions, which is a contrast of the condition means.

    Its error follows from the variances of the conditions, whatever they are, and not from how far the means are from
    the line. `family.lines` lines share LINES_SHARE of the risk.
    """
    numbers = np.asarray(x, dtype=np.float64)
    weights = family.means.sizes.astype(np.float64)
    centred = numbers - np.average(numbers, weights=weights)
    estimate, error, df = _measured(family.means, weights * centred / float(np.sum(weights * centred**2)))
    if error == 0:
        exact = Interval(estimate, estimate, family.confidence, "exact")
        return Slope(estimate, 0.0, math.inf, exact, float(estimate == 0))
    lines = max(family.lines, 1)
    risk = family.risk * LINES_SHARE / lines
    half = distributions.t_ppf(1 - risk / 2, df) * error
    p = 2 * distributions.t_sf(abs(estimate) / error, df) * lines / LINES_SHARE * family.share
    interval = Interval(estimate - half, estimate + half, family.confidence, "simultaneous")
    return Slope(estimate, error, df, interval, min(1.0, p))


def _measured(means: ConditionMeans, contrast: Floats) -> tuple[float, float, float]:
    """A contrast of the means in the unit of the response, its standard error and degrees of freedom."""
    estimate = float(np.sum(contrast * (means.means - means.means.mean())))
    unit = means.means if means.scale == Scale.LOG else np.ones(contrast.size)
    parts = contrast**2 * means.squared_errors * unit**2
    # Rounding leaves something of equal means.
    if abs(estimate) <= TIE * float(np.abs(means.means).max() * np.abs(contrast).max()):
        estimate = 0.0
    whole = float(parts.sum())
    return (estimate, math.sqrt(whole), grid_df(means.df_of_sum(parts))) if whole else (estimate, 0.0, math.inf)


def bend_p(family: Contrasts, x: Sequence[float] | Floats, *, lower: bool = False) -> float:
    """That no line over the means gains less after a level inside than before it; `lower`: falling is gaining.

    Each level inside is the place of a bend, whose size is a contrast of the means; Bonferroni for all of them.
    """
    numbers = np.asarray(x, dtype=np.float64)
    weights = family.means.sizes.astype(np.float64)
    scaled = np.sqrt(weights)
    base = np.linalg.qr(np.column_stack([scaled, scaled * numbers]))[0]
    found = []
    for place in numbers[1:-1]:
        bent = scaled * np.maximum(numbers - place, 0.0)
        rest = bent - base @ (base.T @ bent)
        estimate, error, df = _measured(family.means, scaled * rest / float(rest @ rest))
        less = estimate if lower else -estimate
        found.append(distributions.t_sf(less / error, df) if error else float(less <= 0))
    return min(1.0, min(found, default=1.0) * len(found) * family.share)


def by_df(df: Floats, critical: Callable[[float], float]) -> Floats:
    """A critical value for each of `df`, on a grid so that equal ones are computed once."""
    grid = np.vectorize(grid_df, otypes=[np.float64])(df)
    values, places = np.unique(grid, return_inverse=True)
    found: Floats = np.array([critical(float(one)) for one in values])[places].reshape(df.shape)
    return found


def grid_df(df: float) -> float:
    """Rounded down, which widens: critical values are kept for few degrees of freedom."""
    if df < 20:
        return max(math.floor(4 * df + 1e-9) / 4, 0.5)
    return float(math.floor(df + 1e-9)) if df < 60 else min(10.0 * math.floor(df / 10), _LARGEST_DF)


@lru_cache(maxsize=4096)
def range_quantile(level: float, means: int, df: float) -> float:
    """What t is for one difference: the quantile of the studentized range over the square root of 2."""
    return float(studentized_range.quantile(level, means, np.array([df]))[0]) / math.sqrt(2)


def bounded_exp(value: float) -> float:
    """A ratio from its logarithm, within what a float holds."""
    return math.exp(min(max(value, -700.0), 700.0))
