"""The points of a search as rows of coordinates, and which of them are worth a thought. Knows no values.

A point is a key: the index of its level on each axis. Coordinates run from 0 to 1 where levels have an order (along
their logarithms where the axis is `log`); of words they are the index, and only whether two are equal counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ioassay.packs.tuning.search.space import Axis

Array = np.ndarray[Any, np.dtype[np.float64]]
Random = np.random.Generator
Key = tuple[int, ...]
WHOLE = 1500
"""Points up to which all are candidates; of larger grids a sample of about as many is, and what is near the best."""
_DESIGNS = 60
_NEAR = 0.15
"""Of an axis' width: what is nearer to the leader on every axis is its neighbourhood."""


class Grid:
    """All points of some axes."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self.ordered = tuple(axis.numbers is not None for axis in axes)
        self.places = [np.array(_coordinates(axis)) for axis in axes]
        self.size = math.prod(len(axis.levels) for axis in axes)

    def rows(self, keys: Sequence[Key]) -> Array:
        """Coordinates, a row for each key."""
        chosen = np.array(keys, dtype=int).reshape(len(keys), len(self.axes))
        return np.stack([places[chosen[:, axis]] for axis, places in enumerate(self.places)], axis=1)

    def all_keys(self) -> list[Key]:
        """Every point, in the order of the levels."""
        return list(itertools.product(*(range(len(axis.levels)) for axis in self.axes)))

    def nearest(self, row: Sequence[float]) -> Key:
        """The point nearest to coordinates."""
        return tuple(int(abs(places - at).argmin()) for places, at in zip(self.places, row, strict=True))

    def near(self, one: Key, other: Key) -> bool:
        """Whether two points are neighbours in a wide sense: the same words, and little apart on every other axis."""
        for axis, places in enumerate(self.places):
            apart = abs(places[one[axis]] - places[other[axis]])
            steps = abs(one[axis] - other[axis])
            if (apart > 0 and not self.ordered[axis]) or (apart > _NEAR and steps > 1):
                return False
        return True

    def candidates(self, leaders: Iterable[Key], known: Iterable[Key], random: Random) -> list[Key]:
        """Points to choose from: all, or a sample with those that are known and the neighbours of the leaders."""
        if self.size <= WHOLE:
            return self.all_keys()
        sampled = [self.nearest(row) for row in self.uniform(WHOLE // 2, random)]
        leaders = list(leaders)
        close = [key for leader in leaders for key in self._around(leader)]
        for leader in leaders[:3]:
            close += [self.nearest(row) for row in self._perturbed(leader, WHOLE // 12, random)]
        return list(dict.fromkeys([*known, *close, *sampled]))

    def design(self, count: int, random: Random) -> list[Key]:
        """Points that cover the grid: of several Latin hypercubes the one whose closest pair is farthest apart.

        Source: M. D. Morris, T. J. Mitchell, "Exploratory Designs for Computational Experiments", Journal of
        Statistical Planning and Inference 43, 1995. May give fewer where levels are few.
        """
        best, widest = self._hypercube(count, random), -1.0
        for _ in range(_DESIGNS):
            rows = self._hypercube(count, random)
            apart = sum(
                (
                    (rows[:, None, axis] - rows[None, :, axis]) ** 2
                    if ordered
                    else rows[:, None, axis] != rows[None, :, axis]
                )
                for axis, ordered in enumerate(self.ordered)
            ) + np.eye(count) * 9.0 * len(self.axes)
            if apart.min() > widest:
                best, widest = rows, float(apart.min())
        return list(dict.fromkeys(self.nearest(row) for row in best))

    def _hypercube(self, count: int, random: Random) -> Array:
        """A level of each of `count` strata on every axis, first and last level included."""
        columns = []
        for places, ordered in zip(self.places, self.ordered, strict=True):
            strata = random.permutation(count)
            columns.append(strata / max(count - 1, 1) if ordered else places[strata * len(places) // count])
        return np.stack(columns, axis=1)

    def uniform(self, count: int, random: Random) -> Array:
        """Rows of coordinates anywhere."""
        columns = [
            random.random(count) if ordered else random.choice(places, count)
            for places, ordered in zip(self.places, self.ordered, strict=True)
        ]
        return np.stack(columns, axis=1)

    def _perturbed(self, leader: Key, count: int, random: Random) -> Array:
        """About the leader, mostly nearer than a tenth of each axis; its words mostly kept."""
        columns = []
        for axis, (places, ordered) in enumerate(zip(self.places, self.ordered, strict=True)):
            here = places[leader[axis]]
            if ordered:
                columns.append(np.clip(here + 0.1 * random.standard_normal(count), 0, 1))
            else:
                columns.append(np.where(random.random(count) < 0.8, here, random.choice(places, count)))
        return np.stack(columns, axis=1)

    def _around(self, key: Key) -> list[Key]:
        """1, 2, 4, … levels away along each axis, and every other word."""
        found = []
        for axis, places in enumerate(self.places):
            if self.ordered[axis]:
                steps = [sign * 2**power for power in range(len(places).bit_length()) for sign in (-1, 1)]
                others = [key[axis] + step for step in steps if 0 <= key[axis] + step < len(places)]
            else:
                others = [other for other in range(min(len(places), 64)) if other != key[axis]]
            found += [(*key[:axis], other, *key[axis + 1 :]) for other in others]
        return found


def _coordinates(axis: Axis) -> list[float]:
    if axis.numbers is None:
        return [float(index) for index in range(len(axis.levels))]
    scaled = [math.log(number) for number in axis.numbers] if axis.log and axis.numbers[0] > 0 else [*axis.numbers]
    width = (scaled[-1] - scaled[0]) or 1.0
    return [(number - scaled[0]) / width for number in scaled]
