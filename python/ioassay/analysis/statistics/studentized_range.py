"""The distribution of the studentized range, for many pairs at once.

`scipy.stats.studentized_range` computes the same to the same digits, one pair in about 6 ms and one quantile in
about 85 ms; eleven block sizes make 55 pairs per response. Here the range's distribution of a known variance is
tabulated once per number of means, and the remaining integral over the variance is a sum. Agreement with scipy
to 1e-8 is a test.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy import interpolate, special, stats

from ioassay.analysis.statistics.result import Floats

_LARGEST_RANGE = 40.0
_KNOTS = 1601
_NODES = 128


def cdf(q: Floats, means: int, df: Floats) -> Floats:
    """P(range of `means` standard normal means / estimated deviation <= q); `q` and `df` of one shape (n,).

    Integral over the deviation s = chi(df) / sqrt(df): Lund and Lund, algorithm AS 190 (Applied Statistics 32, 1983).
    """
    return _integrate(np.asarray(q, dtype=np.float64), means, *_deviation(np.asarray(df, dtype=np.float64)))


def quantile(probability: float, means: int, df: Floats) -> Floats:
    """The q whose `cdf` is `probability`, for each of `df` (shape (n,)), by bisection to 15 digits."""
    deviation, mass = _deviation(np.asarray(df, dtype=np.float64))
    low, high = np.zeros(deviation.shape[0]), np.ones(deviation.shape[0])
    while (short := _integrate(high, means, deviation, mass) < probability).any() and high.max() < 1e6:
        high = np.where(short, high * 2, high)
    for _ in range(50):
        middle = (low + high) / 2
        below = _integrate(middle, means, deviation, mass) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def _deviation(df: Floats) -> tuple[Floats, Floats]:
    """Nodes over the estimated deviation and the probability at each, shape (n, nodes) both."""
    df = df[:, None]
    nodes, weights = _gauss()
    # The bounds leave out less than 2e-15 of the distribution.
    low = np.sqrt(stats.chi2.ppf(1e-15, df) / df)
    high = np.sqrt(stats.chi2.isf(1e-15, df) / df)
    deviation = low + (high - low) * (nodes + 1) / 2
    return deviation, weights * stats.chi2.pdf(df * deviation**2, df) * 2 * df * deviation * (high - low) / 2


def _integrate(q: Floats, means: int, deviation: Floats, mass: Floats) -> Floats:
    below = _known_variance(means)(np.minimum(q[:, None] * deviation, _LARGEST_RANGE))
    return np.asarray(np.clip(np.sum(mass * below, axis=1), 0.0, 1.0))


@lru_cache(maxsize=1)
def _gauss() -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss and Legendre's quadrature on -1 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


@lru_cache(maxsize=64)
def _known_variance(means: int) -> Any:
    """P(range of `means` standard normals <= w) = k ∫ φ(z) (Φ(z) - Φ(z - w))^(k-1) dz, as a spline over w."""
    w = np.linspace(0.0, _LARGEST_RANGE, _KNOTS)[:, None]
    nodes, weights = _gauss()
    # z runs over the largest of the means: beyond 9 its density is below 1e-18.
    z = nodes * 9.0
    inside = special.ndtr(z) - special.ndtr(z - w)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    table = means * np.sum(weights * 9.0 * density * inside ** (means - 1), axis=1)
    return interpolate.CubicSpline(w[:, 0], np.minimum(table, 1.0))
