"""Which point to measure next, and which is the best so far: asks and is told. Runs nothing, stores nothing.

The same seed and the same tells in the same order give the same asks, so a search is resumed by telling it again what
the records say (ask, tell, ask, tell, …). Several asks may be out at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ioassay.errors import RunError, UsageError
from ioassay.record import Scalar
from ioassay.tune.space import Axis, points

Point = dict[str, Scalar]
Why = Literal["default", "explore", "refine", "repeat"]


@dataclass(frozen=True)
class Ask:
    """A point to measure, and why: the study's own point, one nobody knows, one near the best, or one again."""

    point: Point
    why: Why


@dataclass(frozen=True)
class Best:
    """A measured point: its values, their plain `mean`, and what it is expected to give again (`expected`).

    `feasible`: it fulfils the constraints on average.
    """

    point: Point
    mean: float
    values: tuple[float, ...]
    feasible: bool
    expected: float
    violation: float


class Search:
    """A search over axes: `ask` for points, `tell` what they gave, `best` at any time."""

    def __init__(
        self,
        axes: Sequence[Axis],
        *,
        maximize: bool,
        constraints: int = 0,
        seed: int = 1,
        budget: int,
        first: Point | None = None,
    ) -> None:
        """`budget`: trials of the whole search, repeats included. `first`: the default, asked first."""
        import numpy as np

        self._axes = tuple(axes)
        self._sign = 1.0 if maximize else -1.0
        self._constraints = constraints
        self._budget = budget
        self._size = points(self._axes)
        self._random = np.random.default_rng(seed)
        self._first = None if first is None else self._key(first)
        self._asked: list[tuple[int, ...]] = []
        self._told: dict[tuple[int, ...], list[float]] = {}
        self._violations: dict[tuple[int, ...], list[float]] = {}

    def ask(self) -> Ask:
        """The next point. Raises RunError when every point failed."""
        if self._first is not None and not self._asked:
            return self._out(self._first, "default")
        if len(self._asked) < min(self._size, self._budget * 3 // 4):
            while (key := tuple(int(self._random.integers(len(axis.levels))) for axis in self._axes)) in self._asked:
                pass
            return self._out(key, "explore")
        best = self.best()
        if best is None:
            raise RunError(f"all of {len(set(self._asked))} points failed; nothing is left to try")
        return self._out(self._key(best.point), "repeat")

    def tell(
        self, point: Point, value: float | None, violations: Sequence[float] = (), *, pruned: bool = False
    ) -> None:
        """What a point gave: None for a failed trial; `pruned` for a value that is a poor estimate.

        `violations`: one for each constraint, 0 or less where it holds.
        """
        key = self._key(point)
        if value is None or math.isnan(value):
            return
        self._told.setdefault(key, []).append(value)
        self._violations.setdefault(key, []).append(max([0.0, *violations]))

    def best(self) -> Best | None:
        """The best point so far; one that is not feasible only where none is, and then the nearest."""
        ranking = self.ranking()
        return ranking[0] if ranking else None

    def ranking(self) -> list[Best]:
        """All measured points, best first."""
        found = []
        for key, values in self._told.items():
            mean, violation = sum(values) / len(values), sum(self._violations[key]) / len(values)
            found.append(Best(self._point(key), mean, tuple(values), violation <= 0, mean, violation))
        return sorted(found, key=lambda one: (one.violation, -self._sign * one.expected))

    def _out(self, key: tuple[int, ...], why: Why) -> Ask:
        self._asked.append(key)
        return Ask(self._point(key), why)

    def _point(self, key: tuple[int, ...]) -> Point:
        return {axis.name: axis.levels[place] for axis, place in zip(self._axes, key, strict=True)}

    def _key(self, point: Point) -> tuple[int, ...]:
        for axis in self._axes:
            if point.get(axis.name) not in axis.levels:
                raise UsageError(f"{axis.name} is {point.get(axis.name)!r}, which is no level of this search")
        return tuple(axis.levels.index(point[axis.name]) for axis in self._axes)
