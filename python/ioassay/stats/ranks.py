"""Ranks with ties, and what chance makes of sums and orders of ranks: exactly for small samples, else about normal."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats

_SMALL_SIDE, _SMALL_ORDER = 8, 33
"""Up to these sizes without ties the probabilities are exact."""


def ranks(values: Floats) -> Floats:
    """Places from 1 on in ascending order; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def tie_sizes(values: Floats) -> Floats:
    """How often each distinct value occurs."""
    return np.unique(values, return_counts=True)[1].astype(np.float64)


def mann_whitney(first: Floats, second: Floats) -> tuple[float, float]:
    """The statistic U of the first sample and the two-sided p, with corrections for ties and continuity."""
    one, two = first.size, second.size
    everything = np.concatenate([first, second])
    statistic = float(ranks(everything)[:one].sum()) - one * (one + 1) / 2
    larger = max(statistic, one * two - statistic)
    ties = tie_sizes(everything)
    if min(one, two) <= _SMALL_SIDE and ties.max() == 1:
        counts = _rank_sums(min(one, two), max(one, two))
        p = 2 * sum(counts[round(larger) :]) / sum(counts)
    else:
        n = one + two
        variance = one * two / 12 * (n + 1 - float(np.sum(ties**3 - ties)) / (n * (n - 1)))
        p = 2 * distributions.normal_sf((larger - one * two / 2 - 0.5) / math.sqrt(variance))
    return statistic, min(p, 1.0)


@lru_cache(maxsize=64)
def _rank_sums(few: int, many: int) -> list[int]:
    """In how many orders U has each value: the coefficients of the Gaussian binomial (Mann and Whitney, 1947)."""
    size = few * many + 1
    counts = [1] + [0] * (size - 1)
    for factor in range(1, few + 1):
        for place in range(size - 1, many + factor - 1, -1):
            counts[place] -= counts[place - many - factor]
        for place in range(factor, size):
            counts[place] += counts[place - factor]
    return counts


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
