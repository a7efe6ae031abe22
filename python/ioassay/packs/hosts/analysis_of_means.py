"""Each condition against the mean of all: analysis of means, on the family of contrasts of one fitted model.

Ott, "Analysis of Means", Industrial Quality Control 24 (1967); Nelson, Wludyka and Copeland, "The Analysis of Means"
(2005). The critical value is that of the studentized maximum modulus, which holds whatever the correlations of the
contrasts are, and so for unequal variances and repetitions as well (Šidák, Journal of the American Statistical
Association 62, 1967; L. S. Nelson, Journal of Quality Technology 15, 1983, for unequal sizes). Of
equal variances it is above the exact value by 2.5 % for three conditions, and by less than 0.3 % from ten on.

One condition far from all others draws the mean, so that the others deviate from it as well. So the clearest one is
taken out of the mean and the rest compared anew, until the rest agrees (as outliers are: Rosner, Technometrics 25,
1983). Of equal conditions any is taken out at the risk of the family. Where no more than half agree, it is the mean of
all. Of two conditions each is against the other: both deviations from their mean are one comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.condition_means import Ints, Scale
from ioassay.stats.contrasts import POWER, Bools, Contrasts, Pair, bounded_exp, by_df, grid_df
from ioassay.stats.result import Floats

_TIE = 1e-12
"""Deviations below this are rounding's, and none."""


@dataclass(frozen=True)
class Deviations:
    """The contrasts of k conditions, two or more, with the mean of some of them; arrays have the shape (k,).

    `reference`: indices of the conditions whose mean it is.
    """

    family: Contrasts
    reference: tuple[int, ...]

    @cached_property
    def weights(self) -> Floats:
        """One contrast a row, shape (k, k)."""
        k = self.family.means.estimates.size
        if k == 2:
            return np.array([[1.0, -1.0], [-1.0, 1.0]])
        weights = np.eye(k)
        weights[:, self.reference] -= 1 / len(self.reference)
        return weights

    @property
    def comparisons(self) -> int:
        """How many contrasts the risk is of; the two of two conditions are one."""
        k = int(self.family.means.estimates.size)
        return k if k > 2 else 1

    @cached_property
    def estimates(self) -> Floats:
        """The deviations on the scale of the model."""
        estimates = self.family.means.estimates
        found: Floats = self.weights @ estimates
        size = 1.0 if self.family.means.scale == Scale.LOG else float(np.abs(estimates).max())
        found[np.abs(found) <= _TIE * size] = 0.0
        return found

    @cached_property
    def _parts(self) -> Floats:
        """What each condition adds to the variance of each contrast, shape (k, k)."""
        return np.asarray(self.weights**2 * self.family.means.squared_errors[None, :])

    @cached_property
    def errors(self) -> Floats:
        """Standard errors of the deviations."""
        return np.asarray(np.sqrt(self._parts.sum(axis=1)))

    @cached_property
    def df(self) -> Floats:
        """Their degrees of freedom."""
        k = self.family.means.estimates.size
        return self.family.means.df_of_sums(self._parts, np.tile(np.arange(k), (k, 1)))

    @cached_property
    def reach(self) -> Floats:
        """Half the widths of the simultaneous intervals: the decision limits lie so far from the mean."""
        level = 1 - self.family.risk
        return self.errors * by_df(self.df, lambda df: modulus_quantile(level, self.comparisons, df))

    @cached_property
    def tolerance(self) -> Floats:
        """How far a deviation must lie inside the margin: two one-sided t tests at the risk of the family."""
        level = 1 - self.family.risk
        return self.errors * by_df(self.df, lambda df: distributions.t_ppf(level, df))

    @cached_property
    def direction(self) -> Ints:
        """1 where a condition is certainly above the mean, -1 below it, else 0."""
        above, below = self.estimates > self.reach, -self.estimates > self.reach
        return np.asarray(above.astype(np.int64) - below)

    @cached_property
    def near(self) -> Bools:
        """Whether a condition is certainly within the margin of the mean."""
        return np.asarray(np.abs(self.estimates) + self.tolerance <= self.family.bound)

    @property
    def detectable(self) -> float:
        """The deviation that would be seen with POWER where the scatter is largest, a share where the scale is LOG."""
        beyond = self.errors * by_df(self.df, lambda df: distributions.t_ppf(POWER, df))
        most = float((self.reach + beyond).max())
        return bounded_exp(most) - 1 if self.family.means.scale == Scale.LOG else most

    def pair(self, index: int) -> Pair:
        """One condition against the mean: a ratio, or on the raw scale a difference."""
        return self.family.as_pair(self.estimates[index], self.reach[index], self.p(index))

    def p(self, index: int) -> float:
        """That a condition does not deviate, adjusted for all and for the families that share the risk."""
        estimate, error = abs(float(self.estimates[index])), float(self.errors[index])
        if error == 0:
            return float(estimate == 0)
        below = modulus_cdf(estimate / error, self.comparisons, grid_df(float(self.df[index])))
        return min(1.0, max(1 - below, 0.0) * self.family.share)


def deviations(family: Contrasts) -> Deviations:
    """Each condition against the mean of those that agree, where these are more than half; else of all."""
    k = int(family.means.estimates.size)
    reference = tuple(range(k))
    while 2 * len(reference) > k:
        found = Deviations(family, reference)
        outside = [index for index in reference if found.direction[index] and not found.near[index]]
        if not outside:
            return found
        widths = np.abs(found.estimates) / np.maximum(found.reach, _TIE)
        clearest = max(outside, key=lambda index: float(widths[index]))
        reference = tuple(index for index in reference if index != clearest)
    return Deviations(family, tuple(range(k)))


def modulus_cdf(value: float, comparisons: int, df: float) -> float:
    """P(largest of `comparisons` independent |Z| / estimated deviation <= value): the studentized maximum modulus."""
    deviation, mass = distributions.deviation_nodes(np.array([df]))
    inside = 2 * distributions.normal_cdfs(value * deviation) - 1
    return float(np.sum(mass * inside**comparisons))


@lru_cache(maxsize=1024)
def modulus_quantile(level: float, comparisons: int, df: float) -> float:
    """The value whose `modulus_cdf` is `level`, by halving."""
    low, high = 0.0, 1.0
    while modulus_cdf(high, comparisons, df) < level and high < 1e6:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if modulus_cdf(middle, comparisons, df) < level else (low, middle)
    return high
