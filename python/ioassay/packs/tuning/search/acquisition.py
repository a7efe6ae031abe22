"""What measuring a point once more is worth, given what was measured. Keeps nothing and draws nothing.

The worth of a measurement is how much better the choice made after it is expected to be: P. Frazier, W. Powell,
S. Dayanik, "The Knowledge-Gradient Policy for Correlated Normal Beliefs", INFORMS Journal on Computing 21, 2009. What
is chosen is the measured point with the highest posterior mean. A point that was measured already has such a worth
too, so that repeating the leader or a rival competes with looking elsewhere, by how noisy the values are. The
expectation is taken over quantiles of the normal distribution. With constraints, a worth counts as often as the point
is expected to fulfil them: J. Gardner et al., "Bayesian Optimization with Inequality Constraints", ICML 2014. Where no
measured point is likely feasible, the value does not count: the search goes where feasibility is likeliest (M. Gelbart,
J. Snoek, R. Adams, "Bayesian Optimization with Unknown Constraints", UAI 2014). Both are computed with logarithms,
because the probability itself vanishes far from the feasible region.

A model that has seen one hill believes that everything is as smooth as that hill. Two things keep looking for others:
the worth is averaged with that under lengths half as long, and `promise` asks where the value may be highest with
lengths half as long and three deviations (N. Srinivas et al., "Gaussian Process Optimization in the Bandit Setting",
ICML 2010). Long searches also propose points where good ones lie dense and others do not (`Density`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from ioassay.packs.tuning.search.candidate_grid import Grid, Key
from ioassay.packs.tuning.search.gaussian_process import Observed, Prior, Surrogate

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]


_QUANTILES = tuple(NormalDist().inv_cdf((place + 0.5) / 24) for place in range(24))
_LIKELY = 0.5
_HOPEFUL = 0.3
_SHORTER = 0.5
_DEVIATIONS = 3.0
_RIVALS = 60
"""Points that were not measured and may be chosen after they will have been: so many of the most promising."""
_TAIL = 1e-6
_LEAST = 1e-300
"""No worth is below this, so that it has a logarithm."""
_ASYMPTOTIC = -20.0
"""Deviations from which the series replaces the error function, which is 0 below about -38."""
_OF_VIOLATIONS = Prior(noise=(math.log(0.2), 1.2))


@dataclass(frozen=True)
class Belief:
    """Mean and deviation of the true value at each row, and how likely it fulfils all constraints."""

    mean: Array
    deviation: Array
    feasible: Array


class Model:
    """Surrogates of the value (large is good) and of each constraint's violation."""

    def __init__(
        self,
        values: Observed,
        violations: Sequence[Observed],
        ordered: Sequence[bool],
        failures: Observed | None = None,
    ) -> None:
        """`failures`: 1 for points that failed and -1 for those that did not, where any did."""
        self._value = Surrogate(values, ordered, Prior())
        self._wary = self._value.shortened(_SHORTER)
        self._limits = [Surrogate(violation, ordered, _OF_VIOLATIONS) for violation in violations]
        self._failures = [] if failures is None else [Surrogate(failures, ordered, _OF_VIOLATIONS)]

    @property
    def noise(self) -> float:
        """Standard deviation of one repetition's value."""
        return self._value.noise

    def belief(self, rows: Array) -> Belief:
        """What is believed of points; rows of coordinates."""
        import numpy as np

        mean, variance, _ = self._value.posterior(rows, rows[:1])
        return Belief(mean, np.sqrt(variance), np.exp(_log_likely(self._limits, rows)))

    def worth(self, rows: Array, measured: Flags, *, finishing: bool) -> Array:
        """Logarithm of what one more measurement at each row is worth; `measured` says which rows were.

        At the end of a search (`finishing`) only these and the point itself can be chosen, and nothing is spent on
        what might be found later. Where no measured row is likely feasible, it is how likely the row is.
        """
        import numpy as np

        feasible = _log_likely(self._limits, rows)
        works = feasible + _log_likely(self._failures, rows)
        likely = feasible >= math.log(_LIKELY)
        if not (measured & likely).any():
            closed = measured & (works < math.log(_HOPEFUL))  # what was clearly beyond a constraint will be so again
            return works if closed.all() else np.where(closed, -np.inf, works)
        views = (self._value,) if finishing else (self._value, self._wary)
        gain = sum((_gradient(view, rows, measured, likely, finishing) for view in views), np.zeros(len(rows)))
        return np.asarray(np.log(np.maximum(gain, _LEAST)) + works)

    def promise(self, rows: Array, measured: Flags) -> Array:
        """How high the value may be at rows that were not measured, and may be feasible; minus infinity elsewhere, and
        everywhere while no measured row is likely feasible."""
        import numpy as np

        if not (measured & (_log_likely(self._limits, rows) >= math.log(_LIKELY))).any():
            return np.full(len(rows), -np.inf)

        mean, variance, _ = self._wary.posterior(rows, rows[:1])
        open_to = ~measured & (_log_likely([*self._limits, *self._failures], rows) >= math.log(_HOPEFUL))
        return np.where(open_to, mean + _DEVIATIONS * np.sqrt(variance), -np.inf)


def _log_likely(limits: Sequence[Surrogate], rows: Array) -> Array:
    """Logarithm of how likely none of these is above 0."""
    import numpy as np

    total = np.zeros(len(rows))
    for limit in limits:
        over, variance, _ = limit.posterior(rows, rows[:1])
        total += [log_normal_cdf(-score) for score in over / np.sqrt(variance)]
    return total


def log_normal_cdf(score: float) -> float:
    """Logarithm of the standard normal distribution function, also where that is 0 in floating point.

    Source: M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions", 1964, 26.2.12.
    """
    if score > _ASYMPTOTIC:
        return math.log(0.5 * math.erfc(-score / math.sqrt(2)))
    inverse = 1 / score**2
    series = 1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse))
    return -0.5 * score**2 - math.log(-score * math.sqrt(2 * math.pi)) + math.log(series)


def _gradient(view: Surrogate, rows: Array, measured: Flags, likely: Flags, finishing: bool) -> Array:
    """The knowledge gradient at each row; where quantiles see none, the leader's and its rivals' tails decide."""
    import numpy as np

    mean, variance, _ = view.posterior(rows, rows[:1])
    among = measured & likely
    if not finishing:
        among[np.argsort(-(mean + np.sqrt(variance)) * likely)[:_RIVALS]] = True
    covariance = view.posterior(rows, rows[among])[2]
    spread = np.sqrt(variance + view.noise**2)
    moved, own = covariance / spread[:, None], variance / spread
    after = np.zeros(len(rows))
    for quantile in _QUANTILES:
        others = (mean[among][None, :] + moved * quantile).max(axis=1)
        after += np.maximum(others, mean + own * quantile)
    leader = int(np.flatnonzero(among)[mean[among].argmax()])
    tails = np.sqrt(variance) * np.exp(-0.5 * (mean[leader] - mean) ** 2 / (variance + variance[leader]))
    return np.asarray(after / len(_QUANTILES) - mean[leader] + _TAIL * tails)


_GOOD, _MOST_GOOD = 0.1, 25
_DRAWN = 24
_NARROWEST = 100
"""No kernel is narrower than this part of an axis."""


def proposed(grid: Grid, ranked: Sequence[Key], random: np.random.Generator) -> Key:
    """A point where the best of `ranked`, which is best first, lie denser than the others; at least one is needed."""
    count = min(math.ceil(_GOOD * len(ranked)), _MOST_GOOD)
    good, others = ranked[:count], ranked[count:]
    return tuple(
        _level(
            _density(places, ordered, [key[axis] for key in good]),
            _density(places, ordered, [key[axis] for key in others]),
            random,
        )
        for axis, (places, ordered) in enumerate(zip(grid.places, grid.ordered, strict=True))
    )


def _level(good: Array, others: Array, random: np.random.Generator) -> int:
    drawn = random.choice(len(good), _DRAWN, p=good)
    return int(drawn[(good / others)[drawn].argmax()])


def _density(places: Array, ordered: bool, levels: Sequence[int]) -> Array:
    """The probability of each level of an axis: of the levels seen and, once, of any."""
    import numpy as np

    anywhere = np.full(len(places), 1 / len(places))
    if not levels:
        return anywhere
    if not ordered:
        return np.asarray((np.bincount(levels, minlength=len(places)) + anywhere) / (len(levels) + 1))
    seen = np.sort(places[np.array(levels)])
    # As wide as the wider gap to a neighbour; the ends of the axis are neighbours too.
    gaps = np.diff(np.concatenate(([0.0], seen, [1.0])))
    widths = np.clip(np.maximum(gaps[:-1], gaps[1:]), 1 / min(_NARROWEST, 1 + len(seen)), 1.0)
    kernels = np.exp(-0.5 * ((places[None, :] - seen[:, None]) / widths[:, None]) ** 2) + 1e-12
    kernels /= kernels.sum(axis=1, keepdims=True)
    return np.asarray((kernels.sum(axis=0) + anywhere) / (len(levels) + 1))
