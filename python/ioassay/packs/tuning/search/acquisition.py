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
ICML 2010).

What measured points say about all points is a Gaussian process over the grid, with noise: C. E. Rasmussen,
C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2, 4.2 and 5. The kernel is Matern 5/2 with
a length for each axis; words differ by 1 from each other. Two things are added to it: what a level has of its own that
its neighbours do not share, and the noise of a repetition, which repetitions divide by their number. The posterior mean
of a point is therefore pooled over its repetitions and its neighbours and drawn towards them: the best of many noisy
values is not taken at its word (J. E. Smith, R. L. Winkler, "The Optimizer's Curse", Management Science 52, 2006).
Lengths, noise and the rest are the most probable ones under the priors below.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

_MEAN_VARIANCE = 4.0
"""Of the unknown overall mean, in variances of the values."""
_FLOOR = 1e-8
_ROUNDING = 1e-12
"""Values that differ by less than this share are equal."""
_STEPS, _ENOUGH = 40, 1e-3


@dataclass(frozen=True)
class Observed:
    """Distinct points as rows of coordinates, the mean of each, how many measurements it is worth; the sum of squares
    of the repetitions around their means, and its degrees of freedom."""

    rows: Array
    means: Array
    counts: Array
    within: float
    degrees: int


@dataclass(frozen=True)
class Prior:
    """Of the logarithms of what is fitted: centre and standard deviation, in units of the values' deviation."""

    length: tuple[float, float] = (math.log(0.5), 0.8)
    signal: tuple[float, float] = (0.0, 0.7)
    own: tuple[float, float] = (math.log(0.03), 0.8)
    noise: tuple[float, float] = (math.log(0.05), 1.2)


class Surrogate:
    def __init__(self, observed: Observed, ordered: Sequence[bool], prior: Prior) -> None:
        self._rows, self._ordered = observed.rows, tuple(ordered)
        self._centre = float(np.average(observed.means, weights=observed.counts))
        spread = float(observed.means.std())
        self._scale = spread if spread > _ROUNDING * abs(self._centre) else 1.0
        self._values = (observed.means - self._centre) / self._scale
        self._counts = observed.counts
        self._within = observed.within / self._scale**2
        self._degrees = observed.degrees
        self._squares = self._squared(self._rows, self._rows)
        # The most probable lengths, signal, own part and noise.
        axes = len(self._ordered)
        centres, widths = np.array([prior.length] * axes + [prior.signal, prior.own, prior.noise]).T
        away = np.array([0.7] * axes + [0.0, 0.0, -1.0])
        starts = (centres, centres - away, centres + away)
        fits = [descend(lambda theta: self._surprise(theta, centres, widths), start) for start in starts]
        self._solve(min(fits, key=lambda fit: fit[1])[0])

    @property
    def noise(self) -> float:
        return float(math.exp(self._theta[-1])) * self._scale

    def posterior(self, rows: Array, among: Array) -> tuple[Array, Array, Array]:
        """Mean and variance at `rows` and their covariance with `among` (rows by among)."""
        known = self._cross(rows, self._rows)
        weights = known @ self._inverse
        mean = known @ self._weights
        variance = np.maximum(self._peak - np.einsum("ij,ij->i", weights, known), _FLOOR)
        covariance = self._cross(rows, among) - weights @ self._cross(self._rows, among)
        return mean * self._scale + self._centre, variance * self._scale**2, covariance * self._scale**2

    def shortened(self, share: float) -> Surrogate:
        """The same with lengths this much shorter: what is far from everything measured is less sure."""
        other = copy.copy(self)
        other._solve(self._theta + np.array([math.log(share)] * len(self._ordered) + [0.0] * 3))
        return other

    def _solve(self, theta: Array) -> None:
        axes = len(self._ordered)
        self._theta = theta
        self._peak = math.exp(2 * self._theta[axes]) + math.exp(2 * self._theta[-2]) + _MEAN_VARIANCE
        self._inverse = np.linalg.inv(self._covariance(self._theta)[0])
        self._weights = self._inverse @ self._values

    def _covariance(self, theta: Array) -> tuple[Array, list[Array]]:
        """Of the measured means, and its derivatives by theta."""
        axes = len(self._ordered)
        lengths, (signal, own, noise) = np.exp(theta[:axes]), np.exp(2 * theta[axes:])
        parts = [square / length**2 for square, length in zip(self._squares, lengths, strict=True)]
        root = np.sqrt(5 * sum(parts, np.zeros_like(self._squares[0])))
        decay = np.exp(-root)
        smooth = signal * (1 + root + root**2 / 3) * decay
        slope = signal * (5 / 3) * (1 + root) * decay
        diagonal = np.eye(len(self._values))
        noisy = np.diag(noise / self._counts)
        whole = smooth + _MEAN_VARIANCE + own * diagonal + noisy + _FLOOR * diagonal
        return whole, [*(slope * part for part in parts), 2 * smooth, 2 * own * diagonal, 2 * noisy]

    def _surprise(self, theta: Array, centres: Array, widths: Array) -> tuple[float, Array]:
        """Minus the logarithm of the posterior density, and its gradient (Rasmussen and Williams, 5.8 and 5.9)."""
        covariance, slopes = self._covariance(theta)
        inverse = np.linalg.inv(covariance)
        weights = inverse @ self._values
        noise = math.exp(2 * theta[-1])
        distance = (theta - centres) / widths
        total = 0.5 * self._values @ weights + 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * (distance**2).sum()
        total += self._degrees * theta[-1] + 0.5 * self._within / noise
        inner = inverse - np.outer(weights, weights)
        gradient = np.array([0.5 * (inner * slope).sum() for slope in slopes]) + distance / widths
        gradient[-1] += self._degrees - self._within / noise
        return float(total), gradient

    def _squared(self, left: Array, right: Array) -> list[Array]:
        found = []
        for place, ordered in enumerate(self._ordered):
            apart = left[:, None, place] - right[None, :, place]
            found.append(np.asarray(apart**2 if ordered else (apart != 0).astype(float)))
        return found

    def _cross(self, left: Array, right: Array) -> Array:
        """Covariance of true values: equal rows share what is their own."""
        squares = self._squared(left, right)
        axes = len(self._ordered)
        parts = [square / math.exp(2 * length) for square, length in zip(squares, self._theta[:axes], strict=True)]
        root = np.sqrt(5 * sum(parts, np.zeros_like(squares[0])))
        smooth = math.exp(2 * self._theta[axes]) * (1 + root + root**2 / 3) * np.exp(-root)
        same = sum(squares, np.zeros_like(squares[0])) == 0
        return np.asarray(smooth + _MEAN_VARIANCE + math.exp(2 * self._theta[-2]) * same)


def descend(surprise: Callable[[Array], tuple[float, Array]], start: Array) -> tuple[Array, float]:
    """The minimum near `start` of a function that also says its gradient: BFGS with backtracking.

    Source: J. Nocedal, S. J. Wright, "Numerical Optimization", 2006, algorithm 6.1. SciPy's is as good; its threads
    take a hundred times as long for matrices this small.
    """
    at, (value, slope) = start, surprise(start)
    inverse = np.eye(len(start))
    for _ in range(_STEPS):
        step = -inverse @ slope
        step *= min(1.0, 2.0 / float(np.abs(step).max() or 1.0))
        there, reached, there_slope = _less(surprise, at, step, value, slope)
        if there is None:
            break
        moved, turned = there - at, there_slope - slope
        improved, at, value, slope = value - reached, there, reached, there_slope
        if improved < _ENOUGH:
            break
        if (along := float(moved @ turned)) > 1e-10:
            left = np.eye(len(start)) - np.outer(moved, turned) / along
            inverse = left @ inverse @ left.T + np.outer(moved, moved) / along
    return at, value


def _less(
    surprise: Callable[[Array], tuple[float, Array]], at: Array, step: Array, value: float, slope: Array
) -> tuple[Array | None, float, Array]:
    """A point on the way of `step` where the function is lower by enough (Armijo's rule); None where there is none."""
    share = 1.0
    while share > 1e-4:
        reached, there_slope = surprise(at + share * step)
        if reached <= value + 1e-4 * share * float(slope @ step):
            return at + share * step, reached, there_slope
        share /= 2
    return None, value, slope


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
        return self._value.noise

    def belief(self, rows: Array) -> tuple[Array, Array]:
        """Mean of the true value at each row, and how likely it fulfils all constraints."""
        mean, *_ = self._value.posterior(rows, rows[:1])
        return mean, np.exp(_log_likely(self._limits, rows))

    def worth(self, rows: Array, measured: Flags, *, finishing: bool) -> Array:
        """Logarithm of what one more measurement at each row is worth; `measured` says which rows were.

        At the end of a search (`finishing`) only these and the point itself can be chosen, and nothing is spent on
        what might be found later. Where no measured row is likely feasible, it is how likely the row is.
        """
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
        if not (measured & (_log_likely(self._limits, rows) >= math.log(_LIKELY))).any():
            return np.full(len(rows), -np.inf)

        mean, variance, _ = self._wary.posterior(rows, rows[:1])
        open_to = ~measured & (_log_likely([*self._limits, *self._failures], rows) >= math.log(_HOPEFUL))
        return np.where(open_to, mean + _DEVIATIONS * np.sqrt(variance), -np.inf)


def _log_likely(limits: Sequence[Surrogate], rows: Array) -> Array:
    """Logarithm of how likely none of these is above 0."""
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
