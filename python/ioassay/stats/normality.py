"""Is a sample normal? The test of Shapiro and Wilk."""

from __future__ import annotations

import math

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats

_FIRST = (0.0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056)
_SECOND = (0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633)
_SMALL_SHIFT = (-2.273, 0.459)
_SMALL_MEAN, _SMALL_SPREAD = (0.544, -0.39978, 0.025054, -6.714e-4), (1.3822, -0.77857, 0.062767, -0.0020322)
_LARGE_MEAN, _LARGE_SPREAD = (-1.5861, -0.31082, -0.083751, 0.0038915), (-0.4803, -0.082676, 0.0030302)


def shapiro_wilk(values: Floats) -> tuple[float, float]:
    """W and its p, of three values or more that are not all equal; beyond 5000 values p is approximate.

    Source: P. Royston, algorithm AS R94 (Applied Statistics 44, 1995), whose constants these are.
    """
    ordered = np.sort(values)
    ordered = ordered - ordered[ordered.size // 2]
    weights = _weights(ordered.size)
    deviations = ordered - ordered.mean()
    w = float(np.sum(weights * deviations)) ** 2 / float(np.sum(weights**2) * np.sum(deviations**2))
    return min(w, 1.0), _probability(min(w, 1.0), ordered.size)


def _weights(n: int) -> Floats:
    """Of the ordered values; those of the lower half are the upper half's with the other sign."""
    if n == 3:
        return np.array([-math.sqrt(0.5), 0.0, math.sqrt(0.5)])
    scores = np.array([distributions.normal_ppf((place - 0.375) / (n + 0.25)) for place in range(1, n // 2 + 1)])
    squares = 2 * float(np.sum(scores**2))
    root = 1 / math.sqrt(n)
    ends = [_polynomial(_FIRST, root) - scores[0] / math.sqrt(squares)]
    if n > 5:
        ends.append(_polynomial(_SECOND, root) - scores[1] / math.sqrt(squares))
    known = len(ends)
    left = squares - 2 * float(np.sum(scores[:known] ** 2))
    upper = np.concatenate([ends, -scores[known:] / math.sqrt(left / (1 - 2 * float(np.sum(np.square(ends)))))])
    return np.concatenate([-upper, np.zeros(n % 2), upper[::-1]])


def _probability(w: float, n: int) -> float:
    if n == 3:
        return max(0.0, 6 / math.pi * (math.asin(math.sqrt(w)) - math.asin(math.sqrt(0.75))))
    if w >= 1:
        return 1.0
    deviance, size = math.log(1 - w), math.log(n)
    if n <= 11:
        bound = _polynomial(_SMALL_SHIFT, n)
        if deviance >= bound:
            return 1e-99
        deviance = -math.log(bound - deviance)
        mean, spread = _polynomial(_SMALL_MEAN, n), math.exp(_polynomial(_SMALL_SPREAD, n))
    else:
        mean, spread = _polynomial(_LARGE_MEAN, size), math.exp(_polynomial(_LARGE_SPREAD, size))
    return distributions.normal_sf((deviance - mean) / spread)


def _polynomial(coefficients: tuple[float, ...], x: float) -> float:
    return sum(coefficient * x**power for power, coefficient in enumerate(coefficients))
