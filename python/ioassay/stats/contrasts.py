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

Means are compared by their ratios, because storage results span decades and 'twice as fast' needs no unit. The log of
a ratio is estimated: its interval is the same whichever mean is divided by the other. How many repetitions show a
difference of the margin follows from the same intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from ioassay.stats import distributions
from ioassay.stats.condition_means import ConditionMeans, Scale
from ioassay.stats.result import Floats, Interval

Bools = npt.NDArray[np.bool_]
MARGIN = 0.05
"""Differences below this share count as none, where the user wants no other."""
PAIRS_SHARE = 0.8
"""Part of the risk that the pairs have where lines over a numeric factor have one, too."""
LINES_SHARE = 0.3
"""That of the lines. Of OVERLAP levels at most both exceed the risk by nothing, though not by Bonferroni's inequality:
where equal levels seem to follow a line, the ends mostly seem to differ (tests/analysis/test_contrasts.py)."""
OVERLAP = 8
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
    bounded: tuple[int, ...] = ()
    """Conditions whose means are lower bounds: nothing is certainly above one, or as high."""

    @property
    def risk(self) -> float:
        """Of the whole family."""
        return (1 - self.confidence) / self.share

    @property
    def pair_risk(self) -> float:
        """Of all pairs together."""
        return self.risk * PAIRS_SHARE if self.lines else self.risk

    @property
    def lines_share(self) -> float:
        """The part of the risk that all lines together have."""
        return LINES_SHARE if self.means.sizes.size <= OVERLAP else 1 - PAIRS_SHARE

    @cached_property
    def differences(self) -> Floats:
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
        k, squared = self.means.sizes.size, self.means.squared_errors
        places = np.stack([np.repeat(np.arange(k), k), np.tile(np.arange(k), k)], axis=1)
        return self.means.df_of_sums(squared[places], places).reshape(k, k)

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
        return self._of_known(self.differences > self.reach)

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
        return self._of_known(-self.differences + self.tolerance <= self.bound)

    def _of_known(self, certain: Bools) -> Bools:
        found: Bools = np.array(certain)
        found[:, list(self.bounded)] = False
        np.fill_diagonal(found, np.diagonal(certain))
        return found

    @property
    def equivalent(self) -> bool:
        return bool(self.near.all())

    @property
    def different(self) -> bool:
        return bool(self.above.any())

    def equal(self, first: int, second: int) -> bool:
        """Both are certainly within the margin of each other."""
        return bool(self.near[first, second] and self.near[second, first])

    def pair(self, high: int, low: int) -> Pair:
        return self.as_pair(self.differences[high, low], self.reach[high, low], self.p(high, low))

    def as_pair(self, difference: float, reach: float, p: float) -> Pair:
        """A difference on the scale of the estimates and half the width of its interval, as they are shown."""
        ends = [float(one) for one in (difference, difference - reach, difference + reach)]
        shown, low, high = map(bounded_exp, ends) if self.means.scale == Scale.LOG else ends
        return Pair(shown, Interval(low, high, self.confidence, "simultaneous"), p)

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
        below = float(distributions.range_cdf(q, k, np.array([grid_df(float(self.df[first, second]))]))[0])
        # Below the whole risk where the interval of the pair excludes 0.
        cost = 1 / PAIRS_SHARE if self.lines else 1.0
        return min(1.0, (1 - below) * self.share * cost)

    @cached_property
    def largest(self) -> tuple[int, int]:
        """The pair that differs most clearly: the first above the second, by the ratio of difference to interval."""
        if self.means.exact:
            return best(self.means.means), best(self.means.means, lower=True)
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


def slopes(family: Contrasts, regressors: Mapping[str, Sequence[float] | Floats]) -> dict[str, Slope]:
    """The slopes of least squares through all repetitions over two `regressors` at most: contrasts of the means.

    Their errors follow from the variances of the conditions, whatever they are, and not from how far the means are from
    the line. All lines together have one part of the risk: two are correlated, and cost little more than one.
    """
    weights = family.means.sizes.astype(np.float64)
    contrasts = []
    for x in regressors.values():
        centred = np.asarray(x, dtype=np.float64) - np.average(x, weights=weights)
        contrasts.append(weights * centred / float(np.sum(weights * centred**2)))
    if not contrasts:
        return {}
    variances = _variances(family.means)
    first, last = contrasts[0], contrasts[-1]
    scale = math.sqrt(float(np.sum(first**2 * variances) * np.sum(last**2 * variances)))
    correlation = float(np.sum(first * last * variances)) / scale if scale else 1.0
    share, found = family.lines_share, dict[str, Slope]()
    for kind, contrast in zip(regressors, contrasts, strict=True):
        estimate, error, df = _measured(family.means, contrast)
        if error == 0:
            exact = Interval(estimate, estimate, family.confidence, "exact")
            found[kind] = Slope(estimate, 0.0, math.inf, exact, float(estimate == 0))
            continue
        half = distributions.two_t_quantile(family.risk * share, df, correlation) * error
        p = distributions.two_t_sf(abs(estimate) / error, df, correlation) / share * family.share
        interval = Interval(estimate - half, estimate + half, family.confidence, "simultaneous")
        found[kind] = Slope(estimate, error, df, interval, min(1.0, p))
    return found


def _measured(means: ConditionMeans, contrast: Floats) -> tuple[float, float, float]:
    """A contrast of the means in the unit of the response, its standard error and degrees of freedom."""
    estimate = float(np.sum(contrast * (means.means - means.means.mean())))
    parts = contrast**2 * _variances(means)
    # Rounding leaves something of equal means.
    if abs(estimate) <= TIE * float(np.abs(means.means).max() * np.abs(contrast).max()):
        estimate = 0.0
    if not (whole := float(parts.sum())):
        return estimate, 0.0, math.inf
    df = means.df_of_sums(parts[None, :], np.arange(parts.size)[None, :])
    return estimate, math.sqrt(whole), grid_df(float(df[0]))


def _variances(means: ConditionMeans) -> Floats:
    """Of the means, in the squared unit of the response."""
    return means.squared_errors * means.means**2 if means.scale == Scale.LOG else means.squared_errors


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
    return float(distributions.range_quantile(level, means, np.array([df]))[0]) / math.sqrt(2)


def bounded_exp(value: float) -> float:
    """A ratio from its logarithm, within what a float holds."""
    return math.exp(min(max(value, -700.0), 700.0))


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


POWER = 0.8
"""The chance with which the difference is to be seen: Cohen, "Statistical Power Analysis" (1988), 2.4."""
MOST = 1000


def repetitions_needed(family: Contrasts, critical: Callable[[float], float] | None = None, errors: int = 2) -> int:
    """The repetitions of each condition with which this family shows a difference of its margin, MOST at most.

    Without a `critical` value by degrees of freedom all pairs are meant, of which each has the `errors` of two means.
    """
    means = family.means
    deviation = math.sqrt(float((means.squared_errors * means.sizes).mean()))
    if deviation == 0:
        return 2
    if family.bound == 0:
        return MOST  # all means are 0, and no number is a share of them
    conditions, level = means.sizes.size, 1 - family.pair_risk
    critical = critical or (lambda df: range_quantile(level, max(conditions, 2), df))
    return _fewest(deviation / family.bound, conditions, critical, errors)


def repetitions_for(
    variation: float, conditions: int, confidence: float, *, margin: float = MARGIN, lines: bool = False, share: int = 1
) -> int:
    """The same of conditions that all scatter by `variation`, a share of the mean.

    `lines`: their levels are numbers; `share`: how many such families share the risk.
    """
    level = 1 - (1 - confidence) / share * (PAIRS_SHARE if lines else 1)
    scatter = variation / math.log1p(margin)
    return _fewest(scatter, conditions, lambda df: range_quantile(level, max(conditions, 2), df), 2)


def _fewest(scatter: float, conditions: int, critical: Callable[[float], float], errors: int) -> int:
    """The smallest number from 2 to MOST with which the half-width of an interval, and what power asks beyond it, fit
    into the margin: by doubling, then halving. `scatter` is the deviation of one repetition in margins.

    Two means at the margin from each other are told apart with POWER then, and two equal ones are shown to be within
    it more often still: that takes one-sided tests only.
    """

    def seen(n: int) -> bool:
        df = float(conditions * (n - 1))
        return (critical(df) + distributions.t_ppf(POWER, df)) * scatter * math.sqrt(errors / n) <= 1

    low, high = 1, 2
    while high < MOST and not seen(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return min(high, MOST)


# The best level


DRAWS = 2000
_OFF = 0.5
"""A curve has levelled off where it gains less than this share of what it would gain straight on."""


@dataclass(frozen=True)
class BestLevel:
    """`index` of the best estimate; indices of `candidates` that no level is certainly better than.

    `as_good`: levels that are certainly within the margin of the best, whichever that is. `probability` of each level
    to be best, ties shared, sums to 1.
    """

    index: int
    candidates: tuple[int, ...]
    as_good: tuple[int, ...]
    probability: tuple[float, ...]


@dataclass(frozen=True)
class Plateau:
    """Levels `first` to `last` around the best are certainly within the margin of it; it begins not before `earliest`.

    Levels from `earliest` to `first` may belong to it.
    """

    first: int
    last: int
    earliest: int


def best(values: Sequence[float] | Floats, *, lower: bool = False, bounded: Sequence[int] = ()) -> int:
    """The place of the largest value (smallest with `lower`); of values that differ by rounding the first.

    In the places `bounded` values are lower bounds: none is the smallest where another is known.
    """
    known = [place for place in range(len(values)) if not lower or place not in bounded] or [*range(len(values))]
    return known[int(np.argmax(is_best(np.asarray(values)[known], lower=lower)))]


def is_best(values: Sequence[float] | Floats, *, lower: bool = False) -> Bools:
    """Which values are the largest (smallest with `lower`), by all but rounding."""
    numbers = np.asarray(values, dtype=np.float64)
    behind = np.abs(numbers - (numbers.min() if lower else numbers.max()))
    return np.asarray(behind <= TIE * np.abs(numbers).max())


def best_level(family: Contrasts, *, lower: bool = False, seed: int = 1) -> BestLevel:
    """The highest level (lowest with `lower`); of equal estimates the first.

    A level is as good if it is not below any other by more than the margin (an intersection of one-sided tests).
    """
    means, (better, near) = family.means, _oriented(family, lower)
    scores = -means.estimates if lower else means.estimates
    if means.exact:
        first = is_best(means.means, lower=lower)
        probability = first / first.sum()
    else:  # how often each is best among draws about the estimates, with Student's deviations of the model
        deviations = np.random.default_rng(seed).standard_t(means.df, (DRAWS, scores.size))
        drawn = scores + np.sqrt(means.squared_errors) * deviations
        if lower and len(family.bounded) < scores.size:
            drawn[:, list(family.bounded)] = -np.inf
        winners = np.argmax(drawn, axis=1)
        probability = np.bincount(winners, minlength=scores.size) / DRAWS
    return BestLevel(
        best(means.means, lower=lower, bounded=family.bounded),
        tuple(np.flatnonzero(~better.any(axis=0)).tolist()),
        tuple(np.flatnonzero(near.all(axis=1)).tolist()),
        tuple(probability.tolist()),
    )


def plateau(family: Contrasts, *, lower: bool = False) -> Plateau | None:
    """The levels around the best one that are certainly as good; None where not even that level is certainly so.

    The levels are in order. Going outwards from the best, each is tested at the full risk until the first fails, so
    that the chance of one too many is that of a single test at each end (fixed sequence: Maurer, Hothorn and Lehmacher,
    1995; Westfall and Krishen, Journal of Statistical Planning and Inference 99, 2001).
    """
    found = best(family.means.means, lower=lower, bounded=family.bounded)
    good: Bools = np.asarray(_oriented(family, lower)[1].all(axis=1))
    if not good[found]:
        return None
    worse = family.differences if lower else -family.differences
    beyond: Bools = np.asarray((worse - family.reach > family.bound).any(axis=1))  # certainly worse than some other

    def reached(start: int, step: int, among: Bools) -> int:
        """The last level from there on, in steps, up to which all are among these."""
        while 0 <= start + step < among.size and among[start + step]:
            start += step
        return start

    first = reached(found, -1, good)
    return Plateau(first, reached(found, 1, good), reached(first, -1, ~beyond))


def levels_off(family: Contrasts, numbers: Sequence[float] | None, found: Plateau) -> bool:
    """Whether what follows the plateau's first level gains much less than the step before it, continued straight on.

    The last levels of a curve that still rises may be within the margin of each other, too.
    """
    if not found.first:
        return True
    means, x = family.means.means, numbers or range(family.means.sizes.size)
    slope = (means[found.first] - means[found.first - 1]) / (x[found.first] - x[found.first - 1])
    straight_on = slope * (x[found.last] - x[found.first])
    return bool(abs(means[found.last] - means[found.first]) < _OFF * abs(straight_on))


def second_peaks(family: Contrasts, *, lower: bool = False) -> tuple[int, ...]:
    """Levels on either side of the best that a level between them is certainly worse than: one a side at most."""
    better, _ = _oriented(family, lower)
    means = family.means.means
    peak, found = best(means, lower=lower, bounded=family.bounded), list[int]()
    for side in (range(peak - 2, -1, -1), range(peak + 2, means.size)):
        apart = [
            index
            for index in side
            if any(better[peak, low] and better[index, low] for low in range(min(peak, index) + 1, max(peak, index)))
        ]
        found += [apart[best(means[apart], lower=lower)]] if apart else []
    return tuple(sorted(found))


def _oriented(family: Contrasts, lower: bool) -> tuple[Bools, Bools]:
    """[i, j]: i is certainly better than j; i is certainly not worse than j by more than the margin."""
    return (family.above.T, family.near.T) if lower else (family.above, family.near)
