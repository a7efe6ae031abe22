"""Several options in several places: by how much is one ahead of another, and does that go beyond noise?

An option's scatter, as a share of its mean, is estimated over all places together, because three repetitions of one
place hardly tell it; options need not scatter alike. One that visibly does not scatter alike in all places has in each
place the scatter of its repetitions there. Ratios, as in `ratio`, for the same reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ioassay.stats import distributions, studentized_range
from ioassay.stats.result import Floats, Interval, as_floats, mean_of, sum_of_squares


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
    """A squared relative deviation, and its degrees of freedom."""

    variance: float
    df: float
    shared: bool = True
    """Whether the places have one estimate together."""


_ALIKE = 0.05
"""Risk of the test whether an option scatters alike everywhere."""


def contest(values: Sequence[Sequence[Floats]], confidence: float) -> Contest:
    """`values[place][option]` are repetitions, an empty array where there are none. Means must be above 0.

    Pairs by Games and Howell (`posthoc`) on the scale of logarithms (`ratio.ratio_of_means`), with Satterthwaite's
    degrees of freedom; the risk is shared among the places by Bonferroni's inequality.
    """
    groups = [[as_floats(option) for option in place] for place in values]
    options = range(max((len(place) for place in groups), default=0))
    scatter = [_scatter([place[option] for place in groups]) for option in options]
    places = []
    for number, place in enumerate(groups):
        present = [option for option in options if place[option].size]
        places.append(tuple(_duels([place], present, [own[number] for own in scatter], confidence, len(groups))))
    everywhere = [option for option in options if all(place[option].size for place in groups)]
    errors = [_together(own) for own in scatter]
    return Contest(tuple(places), tuple(_duels(groups, everywhere, errors, confidence, 1)))


def _scatter(groups: Sequence[Floats]) -> list[_Scatter | None]:
    """The squared error of the logarithm of an option's mean in each place; None where nothing tells it."""
    relative = [group / mean_of(group) for group in groups if group.size > 1]
    if not relative:
        return [None] * len(groups)
    if not _alike(relative):
        return [_own(group) for group in groups]
    df = sum(group.size - 1 for group in relative)
    variance = sum(sum_of_squares(group) for group in relative) / df
    return [_Scatter(variance / group.size, df) if group.size else None for group in groups]


def _alike(relative: Sequence[Floats]) -> bool:
    """Bartlett's test, "Properties of sufficiency and statistical tests", Proceedings of the Royal Society 160 (1937).

    Of three values that about the median (Brown and Forsythe) sees next to nothing. Tails that are longer than normal
    ones make this one reject too often, which costs power and no truth: each place is then judged by itself.
    """
    spread = [group for group in relative if sum_of_squares(group) > 0]
    return len(spread) < 2 or _bartlett(spread) >= _ALIKE


def _bartlett(groups: Sequence[Floats]) -> float:
    """The p of the groups having one variance."""
    freedom = np.array([group.size - 1 for group in groups], dtype=np.float64)
    variances = np.array([sum_of_squares(group) for group in groups]) / freedom
    whole = float(freedom.sum())
    pooled = float(np.sum(freedom * variances)) / whole
    statistic = whole * np.log(pooled) - float(np.sum(freedom * np.log(variances)))
    correction = 1 + (float(np.sum(1 / freedom)) - 1 / whole) / (3 * (len(groups) - 1))
    return distributions.chi2_sf(float(statistic / correction), len(groups) - 1)


def _own(group: Floats) -> _Scatter | None:
    if group.size < 2:
        return None
    variance = sum_of_squares(group / mean_of(group)) / (group.size - 1)
    return _Scatter(variance / group.size, group.size - 1, shared=False)


def _together(each: Sequence[_Scatter | None]) -> _Scatter | None:
    """The squared error of the mean of the logarithms over all places (Satterthwaite where they are of their own)."""
    known = [one for one in each if one is not None]
    if len(known) < len(each) or not known:
        return None
    variances = np.array([one.variance for one in known])
    whole = float(variances.sum())
    if known[0].shared or whole == 0:
        return _Scatter(whole / len(known) ** 2, known[0].df)
    df = float(1 / np.sum((variances / whole) ** 2 / np.array([one.df for one in known])))
    return _Scatter(whole / len(known) ** 2, df)


def _duels(
    places: Sequence[Sequence[Floats]],
    present: Sequence[int],
    errors: Sequence[_Scatter | None],
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
    told = {option: found for option in present if (found := errors[option]) is not None}
    known = [index for index, duel in enumerate(duels) if duel.high in told and duel.low in told]
    judged = _judged([duels[index] for index in known], told, len(present), confidence, share)
    for index, one in zip(known, judged, strict=True):
        duels[index] = one
    return duels


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
