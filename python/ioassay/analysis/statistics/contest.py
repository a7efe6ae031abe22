"""Several options in several places: by how much is one ahead of another, and does that go beyond noise?

An option's scatter, as a share of its mean, is estimated over all places together, because three repetitions of one
place hardly tell it; options need not scatter alike. Ratios, as in `ratio`, for the same reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ioassay.analysis.statistics import studentized_range
from ioassay.analysis.statistics.result import Floats, Interval, as_floats, mean_of, sum_of_squares


@dataclass(frozen=True)
class Duel:
    """Two options by their indices: the mean of `high` is `ratio` times that of `low`, at least once.

    `interval` and `p` hold for all pairs of options at once, and in single places for all places as well; None where
    no option was repeated.
    """

    high: int
    low: int
    ratio: float
    interval: Interval | None
    p: float | None


@dataclass(frozen=True)
class Contest:
    """`places[k]` are the duels of the options with values there, `average` those over all places.

    The average is of the options that have values in every place: the geometric mean of their ratios.
    """

    places: tuple[tuple[Duel, ...], ...]
    average: tuple[Duel, ...]


@dataclass(frozen=True)
class _Scatter:
    """Squared relative deviation of one repetition, and its degrees of freedom."""

    variance: float
    df: int


def contest(values: Sequence[Sequence[Floats]], confidence: float) -> Contest:
    """`values[place][option]` are repetitions, an empty array where there are none. Means must be above 0.

    Pairs by Games and Howell (`posthoc`) on the scale of logarithms (`ratio.ratio_of_means`), with Satterthwaite's
    degrees of freedom; the risk is shared among the places by Bonferroni's inequality.
    """
    groups = [[as_floats(option) for option in place] for place in values]
    options = range(max((len(place) for place in groups), default=0))
    scatter = [_scatter([place[option] for place in groups]) for option in options]
    places = []
    for place in groups:
        present = [option for option in options if place[option].size]
        places.append(tuple(_duels([place], present, scatter, confidence, len(groups))))
    everywhere = [option for option in options if all(place[option].size for place in groups)]
    return Contest(tuple(places), tuple(_duels(groups, everywhere, scatter, confidence, 1)))


def _scatter(groups: Sequence[Floats]) -> _Scatter | None:
    known = [group for group in groups if group.size > 1]
    df = sum(group.size - 1 for group in known)
    squares = sum(sum_of_squares(group) / mean_of(group) ** 2 for group in known)
    return _Scatter(squares / df, df) if df else None


def _duels(
    places: Sequence[Sequence[Floats]],
    present: Sequence[int],
    scatter: Sequence[_Scatter | None],
    confidence: float,
    share: int,
) -> list[Duel]:
    """Each pair of `present`, on average over `places`; the risk is one of `share` equal parts."""
    logs = {option: np.log([mean_of(place[option]) for place in places]) for option in present}
    duels = []
    for first, second in combinations(present, 2):
        difference = float(np.mean(logs[first] - logs[second]))
        high, low = (first, second) if difference >= 0 else (second, first)
        duels.append(Duel(high, low, float(np.exp(abs(difference))), None, None))
    errors = {option: _error(places, option, found) for option in present if (found := scatter[option])}
    known = [index for index, duel in enumerate(duels) if duel.high in errors and duel.low in errors]
    judged = _judged([duels[index] for index in known], errors, len(present), confidence, share)
    for index, one in zip(known, judged, strict=True):
        duels[index] = one
    return duels


def _error(places: Sequence[Sequence[Floats]], option: int, scatter: _Scatter) -> _Scatter:
    """Squared error of the mean of an option's logarithms."""
    each = sum(scatter.variance / place[option].size for place in places)
    return _Scatter(each / len(places) ** 2, scatter.df)


def _judged(
    duels: Sequence[Duel], errors: Mapping[int, _Scatter], options: int, confidence: float, share: int
) -> list[Duel]:
    if not duels:
        return []
    parts = np.array([[errors[index].variance for index in (duel.high, duel.low)] for duel in duels])
    dfs = np.array([[errors[index].df for index in (duel.high, duel.low)] for duel in duels])
    whole = parts.sum(axis=1)
    spread = whole > 0  # identical repetitions differ exactly or not at all
    shares = np.where(spread[:, None], parts / np.where(spread, whole, 1.0)[:, None], 0.5)
    df = 1 / (shares**2 / dfs).sum(axis=1)
    logs, se = np.log([duel.ratio for duel in duels]), np.sqrt(whole)
    t = np.where(spread, logs / np.where(spread, se, 1.0), 0.0)
    p = np.where(spread, 1 - studentized_range.cdf(t * np.sqrt(2), options, df), logs == 0)
    half = studentized_range.quantile(1 - (1 - confidence) / share, options, df) / np.sqrt(2) * se
    low, high, shared = np.exp(logs - half), np.exp(logs + half), np.minimum(1.0, p * share)
    method = "log ratio, all pairs"
    return [
        replace(duel, interval=Interval(float(low[i]), float(high[i]), confidence, method), p=float(shared[i]))
        for i, duel in enumerate(duels)
    ]
