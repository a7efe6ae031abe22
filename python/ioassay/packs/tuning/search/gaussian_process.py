"""What measured points say about all points: a Gaussian process over the grid, with noise. Chooses nothing.

Method: C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2, 4.2 and 5. The
kernel is Matern 5/2 with a length for each axis; words differ by 1 from each other. Two things are added to it: what a
level has of its own that its neighbours do not share, and the noise of a repetition, which repetitions divide by their
number. The posterior mean of a point is therefore pooled over its repetitions and its neighbours and drawn towards
them: the best of many noisy values is not taken at its word (J. E. Smith, R. L. Winkler, "The Optimizer's Curse",
Management Science 52, 2006). Lengths, noise and the rest are the most probable ones under the priors below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

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
    """A fitted process; `posterior` of any rows of coordinates."""

    def __init__(self, observed: Observed, ordered: Sequence[bool], prior: Prior) -> None:
        import numpy as np

        self._rows, self._ordered = observed.rows, tuple(ordered)
        self._centre = float(np.average(observed.means, weights=observed.counts))
        spread = float(observed.means.std())
        self._scale = spread if spread > _ROUNDING * abs(self._centre) else 1.0
        self._values = (observed.means - self._centre) / self._scale
        self._counts = observed.counts
        self._within = observed.within / self._scale**2
        self._degrees = observed.degrees
        self._prior = prior
        self._squares = self._squared(self._rows, self._rows)
        self._fit()

    @property
    def noise(self) -> float:
        """Standard deviation of one repetition."""
        return float(math.exp(self._theta[-1])) * self._scale

    def posterior(self, rows: Array, among: Array) -> tuple[Array, Array, Array]:
        """Mean and variance at `rows` and their covariance with `among` (rows by among)."""
        import numpy as np

        known = self._cross(rows, self._rows)
        weights = known @ self._inverse
        mean = known @ self._weights
        variance = np.maximum(self._peak - np.einsum("ij,ij->i", weights, known), _FLOOR)
        covariance = self._cross(rows, among) - weights @ self._cross(self._rows, among)
        return mean * self._scale + self._centre, variance * self._scale**2, covariance * self._scale**2

    def _fit(self) -> None:
        """The most probable lengths, signal, own part and noise."""
        import numpy as np

        prior, axes = self._prior, len(self._ordered)
        centres = np.array([prior.length[0]] * axes + [prior.signal[0], prior.own[0], prior.noise[0]])
        widths = np.array([prior.length[1]] * axes + [prior.signal[1], prior.own[1], prior.noise[1]])
        starts = [
            centres,
            centres + np.array([-0.7] * axes + [0.0, 0.0, 1.0]),
            centres + np.array([0.7] * axes + [0.0, 0.0, -1.0]),
        ]
        fits = [descend(lambda theta: self._surprise(theta, centres, widths), start) for start in starts]
        self._solve(min(fits, key=lambda fit: fit[1])[0])

    def shortened(self, share: float) -> Surrogate:
        """The same with lengths this much shorter: what is far from everything measured is less sure."""
        import copy

        import numpy as np

        other = copy.copy(self)
        other._solve(self._theta + np.array([math.log(share)] * len(self._ordered) + [0.0] * 3))
        return other

    def _solve(self, theta: Array) -> None:
        import numpy as np

        axes = len(self._ordered)
        self._theta = theta
        self._peak = math.exp(2 * self._theta[axes]) + math.exp(2 * self._theta[-2]) + _MEAN_VARIANCE
        self._inverse = np.linalg.inv(self._covariance(self._theta)[0])
        self._weights = self._inverse @ self._values

    def _covariance(self, theta: Array) -> tuple[Array, list[Array]]:
        """Of the measured means, and its derivatives by theta."""
        import numpy as np

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
        import numpy as np

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
        import numpy as np

        found = []
        for place, ordered in enumerate(self._ordered):
            apart = left[:, None, place] - right[None, :, place]
            found.append(np.asarray(apart**2 if ordered else (apart != 0).astype(float)))
        return found

    def _cross(self, left: Array, right: Array) -> Array:
        """Covariance of true values: equal rows share what is their own."""
        import numpy as np

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
    import numpy as np

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
