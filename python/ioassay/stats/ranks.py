"""Ranks with ties, and what chance makes of orders of ranks: exactly for small samples, else about normal."""

from __future__ import annotations

import math

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats

_SMALL_ORDER = 33
"""Up to this size without ties the probabilities are exact."""


def ranks(values: Floats) -> Floats:
    """Places from 1 on in ascending order; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def tie_sizes(values: Floats) -> Floats:
    """How often each distinct value occurs."""
    return np.unique(values, return_counts=True)[1].astype(np.float64)


def kendall(x: Floats, y: Floats) -> tuple[float, float]:
    """Tau-b and its two-sided p."""
    n = x.size
    first, second = np.triu_indices(n, 1)
    balance = float(np.sum(np.sign(x[second] - x[first]) * np.sign(y[second] - y[first])))
    pairs = n * (n - 1) / 2
    ties = [tie_sizes(x), tie_sizes(y)]
    tied = [float(np.sum(size * (size - 1))) / 2 for size in ties]
    tau = balance / math.sqrt(pairs - tied[0]) / math.sqrt(pairs - tied[1])
    if not any(tied):
        fewer = round((pairs - abs(balance)) / 2)
        if n <= _SMALL_ORDER or fewer <= 1:
            orders = 1.0 if 2 * fewer == pairs else 2 * _inversions(n, fewer) / math.factorial(n)
            return tau, min(orders, 1.0)
    twice = 2 * pairs
    skewed = [float(np.sum(size * (size - 1) * (size - 2))) for size in ties]
    spread = [float(np.sum(size * (size - 1) * (2 * size + 5))) for size in ties]
    variance = (
        (twice * (2 * n + 5) - spread[0] - spread[1]) / 18
        + 2 * tied[0] * tied[1] / twice
        + skewed[0] * skewed[1] / (9 * twice * (n - 2))
    )
    return max(-1.0, min(1.0, tau)), 2 * distributions.normal_sf(abs(balance) / math.sqrt(variance))


def _inversions(n: int, most: int) -> int:
    """How many orders of n things have at most so many inversions."""
    counts = [1] + [0] * most
    for size in range(2, n + 1):
        sums = [0]
        for count in counts:
            sums.append(sums[-1] + count)
        counts = [sums[place + 1] - sums[max(place + 1 - size, 0)] for place in range(most + 1)]
    return sum(counts)


def spearman(x: Floats, y: Floats) -> tuple[float, float]:
    """The correlation of the ranks and its two-sided p by Student's distribution."""
    r = float(np.corrcoef(ranks(x), ranks(y))[0, 1])
    df = x.size - 2
    if abs(r) >= 1:
        return r, 0.0
    return r, 2 * distributions.t_sf(abs(r) * math.sqrt(df / ((1 + r) * (1 - r))), df)
