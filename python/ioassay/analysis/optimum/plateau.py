"""From which level on is there no gain? The levels around the best that are as good as it, where that is a plateau.

Knows no factor and no response: means in the order of the levels. The last two levels of a curve that still rises may
be indistinguishable too, which makes no plateau: the curve must also have left the line of its rise.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from ioassay.analysis.effects.response_shape import MARGIN
from ioassay.stats.best_level import NotWorse
from ioassay.stats.result import Floats, Undefined, mean_of

_OFF = 0.5
"""A curve has levelled off where it gains less than this share of what it would gain straight on."""


class NoPlateau(StrEnum):
    """Why a factor has no plateau."""

    ALONE = "every other level is worse"
    NEIGHBOURS = "its neighbours are worse"
    IMPROVES = "the last level still improves"
    INDISTINCT = "the levels are not distinguishable"
    SINGLE = "one repetition per level"
    WORDS = "the levels have no order"


def plateau(
    groups: Sequence[Floats],
    numbers: Sequence[float],
    best: int,
    near: NotWorse | Undefined,
    *,
    exact: bool = False,
    lower: bool = False,
) -> tuple[int, int] | Undefined:
    """The first and the last index of the plateau around `best`; Undefined says why there is none.

    On it are neighbours of the best that are not worse for sure, or by less than MARGIN: noise can be smaller than
    what matters. Of `exact` results, without chance, those that are equal.
    """
    if isinstance(near, Undefined):
        return Undefined(NoPlateau.SINGLE)
    means = [(-1 if lower else 1) * mean_of(group) for group in groups]
    if len(near.members) == len(means) and not exact:
        return Undefined(NoPlateau.INDISTINCT)
    close = set() if exact else {i for i, mean in enumerate(means) if means[best] - mean <= MARGIN * abs(means[best])}
    first, last = around(best, close.union(near.members))
    if first == last:
        return Undefined(NoPlateau.ALONE if len(near.members) == 1 else NoPlateau.NEIGHBOURS)
    if first and last == len(means) - 1 and not _levelled_off(means, numbers, first):
        return Undefined(NoPlateau.IMPROVES)
    return first, last


def around(best: int, members: Collection[int]) -> tuple[int, int]:
    """The run of neighbours among `members` that holds `best`."""
    first = last = best
    while first - 1 in members:
        first -= 1
    while last + 1 in members:
        last += 1
    return first, last


def _levelled_off(means: Sequence[float], numbers: Sequence[float], first: int) -> bool:
    """Whether what follows `first` gains much less than the step before it, continued straight on, would."""
    slope = (means[first] - means[first - 1]) / (numbers[first] - numbers[first - 1])
    straight_on = slope * (numbers[-1] - numbers[first])
    return means[-1] - means[first] < _OFF * straight_on or straight_on <= 0
