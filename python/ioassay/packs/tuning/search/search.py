"""Which point to measure next, and which is the best so far: asks and is told. Runs nothing, stores nothing.

A search begins with the default and a design that covers the grid (about a third of its trials). Each further trial
goes where it is worth most (`acquisition`): to an unknown point, or again to a point whose noise hides whether it is
the best. Every fourth goes where something better may hide, and the last fifth only to points that may win. A grid of
no more points than trials is measured whole, then repeated where that is worth most.

Where a search has more results than a model is made of (`MODELLED`), every second point is drawn from where
good points are dense.

The same seed and the same asks and tells in the same order give the same asks, so a search is resumed by doing it
again with what the records say. Several asks may be out at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

import numpy as np

from ioassay import debug_log
from ioassay.errors import RunError, UsageError
from ioassay.packs.tuning.search.acquisition import Model, Observed, proposed
from ioassay.packs.tuning.search.candidate_grid import Grid, Key
from ioassay.packs.tuning.search.space import Axis
from ioassay.records.record import Scalar
from ioassay.validation import shown

MODELLED = 200
"""Points that a model is made of; its cost grows with their third power."""
_PRUNED_COUNT = 0.25
"""Of a measurement: what a value that was foretold from a short run is worth."""
_WORST = 1e6
"""Violations beyond this are alike; infinity is what a value that is missing violates by."""
_DEPTH = 20.0
"""Values farther below the best than this many times the median's distance are all equally bad."""


@dataclass
class Measurement:
    """Of one point: values and violations of its whole trials; what a pruned one foretold; whether one failed."""

    values: list[float] = field(default_factory=list)
    violations: list[tuple[float, ...]] = field(default_factory=list)
    foretold: float | None = None
    failed: int = 0

    @property
    def mean(self) -> float:
        return fmean(self.values) if self.values else math.nan

    def excess(self) -> float:
        """Sum over the constraints of how far they are broken on average; 0 where all hold."""
        return sum(max(0.0, fmean(column)) for column in zip(*self.violations, strict=True))


@dataclass
class History:
    """Everything that was told."""

    sign: float
    """1 where large values are good, -1 where small ones are."""
    constraints: int
    points: dict[Key, Measurement] = field(default_factory=dict)

    def at(self, key: Key) -> Measurement:
        return self.points.setdefault(key, Measurement())

    def measured(self) -> list[Key]:
        """The points that have a value of their own, in the order in which they were first told."""
        return [key for key, seen in self.points.items() if seen.values]

    def closed(self) -> set[Key]:
        """The points that nobody should ask for again: those that failed or were pruned, and never went well."""
        return {key for key, seen in self.points.items() if not seen.values}

    def by_merit(self) -> list[Key]:
        """All points, best first: the feasible by their means, what was foretold of pruned ones, those that break a
        constraint by how far, and those that failed."""

        def merit(key: Key) -> tuple[int, float, float]:
            seen = self.points[key]
            value = seen.mean if seen.values else seen.foretold
            if value is None:
                return 2, 0.0, 0.0
            excess = seen.excess()
            return int(excess > 0), excess, -self.sign * value

        return sorted(self.points, key=merit)

    def is_logarithmic(self) -> bool:
        """Whether logarithms are modelled, as of positive values: the noise of rates and times is a share of them."""
        known = (value for seen in self.points.values() for value in (*seen.values, seen.foretold))
        return all(value > 0 for value in known if value is not None)

    def scale(self) -> Callable[[float], float]:
        """From values to what is modelled: large is good."""
        logarithmic = self.is_logarithmic()
        return lambda value: self.sign * (math.log(value) if logarithmic else value)

    def observed(self, grid: Grid, pending: Sequence[Key], believed: Mapping[Key, float]) -> Observed:
        """The values as a model takes them. Points that are being measured count as what is believed of them
        (`believed`), so that several asks at once differ."""
        scale = self.scale()
        groups = self._modelled({key: [scale(value) for value in seen.values] for key, seen in self.points.items()})
        floor = _floor([fmean(group) for group in groups.values() if group])
        counts = {key: float(len(group)) for key, group in groups.items()}
        for key, group in groups.items():
            foretold = self.points[key].foretold
            if not group and foretold is not None:
                group.append(scale(foretold))
                counts[key] = _PRUNED_COUNT
        groups = {key: group for key, group in groups.items() if group}
        for key in pending:
            groups.setdefault(key, []).append(believed[key])
            counts[key] = counts.get(key, 0.0) + 1
        return _summed(grid, {key: [max(value, floor) for value in group] for key, group in groups.items()}, counts)

    def violations(self, grid: Grid, place: int) -> Observed:
        """One constraint's violations as a model takes them: compressed."""
        groups = {
            key: [_compressed(violations[place]) for violations in seen.violations]
            for key, seen in self.points.items()
            if seen.violations
        }
        groups = self._modelled(groups)
        return _summed(grid, groups, {key: float(len(group)) for key, group in groups.items()})

    def failures(self, grid: Grid) -> Observed | None:
        """1 for each point that failed, -1 for each that did not; None where none did."""
        if not any(seen.failed for seen in self.points.values()):
            return None
        went_well = {key: bool(seen.values) or seen.foretold is not None for key, seen in self.points.items()}
        groups = self._modelled({key: [-1.0 if well else 1.0] for key, well in went_well.items()})
        return _summed(grid, groups, dict.fromkeys(groups, 1.0))

    def _modelled(self, groups: dict[Key, list[float]]) -> dict[Key, list[float]]:
        """Of many points the best half that fits, and the latest others."""
        if len(groups) <= MODELLED:
            return groups
        best = sorted(self.measured(), key=lambda key: -self.sign * self.points[key].mean)[: MODELLED // 2]
        kept = {*best, *list(groups)[-(MODELLED // 2) :]}
        return {key: group for key, group in groups.items() if key in kept}


def _floor(means: Sequence[float]) -> float:
    """What is as bad as anything: how bad the bad ones are does not help to tell the good ones apart."""
    if not means:
        return 0.0
    best, middle = max(means), median(means)
    return max(min(means), best - _DEPTH * (best - middle)) if best > middle else min(means)


def _compressed(violation: float) -> float:
    """Linear near 0 and logarithmic beyond, so that the slope towards the feasible region shows at any distance."""
    return math.copysign(math.log1p(min(abs(violation), _WORST)), violation)


def _summed(grid: Grid, groups: dict[Key, list[float]], counts: dict[Key, float]) -> Observed:
    keys = list(groups)
    means = [fmean(groups[key]) for key in keys]
    within = sum((value - mean) ** 2 for key, mean in zip(keys, means, strict=True) for value in groups[key])
    degrees = sum(len(group) - 1 for group in groups.values())
    return Observed(grid.rows(keys), np.array(means), np.array([counts[key] for key in keys]), within, degrees)


Point = dict[str, Scalar]
Why = Literal["default", "explore", "refine", "repeat"]
_DESIGN, _FINISH = 0.35, 0.2
_LARGEST_DESIGN = 60
_PROMISE_EVERY = 4
_DISTINCT, _NOISY = 0.7, 0.15
"""No point is repeated before so many distinct ones were, as a share of the budget, unless repetitions differ by so
much: one good point among many level ones is found by looking at more of them."""
_SURE = (0.5, 0.9)
"""How likely a point is feasible that is named before others: at the border, half of the winners would be beyond it."""


@dataclass(frozen=True)
class Ask:
    """A point to measure, and why: the study's own point, one nobody knows, one near the best, or one again."""

    point: Point
    why: Why


@dataclass(frozen=True)
class Best:
    """A measured point: its values, their plain `mean`, and what it is `expected` to give again, which is the mean
    pooled with its neighbours and drawn towards them. `violation` is the sum over the constraints of how far they are
    broken on average, and `feasible` that it is 0."""

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
        self._grid = Grid(axes)
        self._seed, self._budget = seed, budget
        self._told = History(1.0 if maximize else -1.0, constraints)
        self._first = None if first is None else self._key(first)
        self._asked: dict[Key, int] = {}
        self._pending: list[Key] = []
        """What was asked and not told, in the order of the asks."""
        self._asks = 0
        self._plan = deque(self._design())
        self._models: dict[tuple[int, tuple[Key, ...]], Model] = {}
        self._tells = 0

    def ask(self) -> Ask:
        """The next point. Raises RunError when every point failed."""
        if self._first is not None and not self._asks:
            return self._out(self._first, "default")
        while self._plan:
            if (key := self._plan.popleft()) not in self._asked:
                return self._out(key, self._why(key))
        if not self._told.measured():
            key = self._unknown()
            return self._out(key, "repeat" if key in self._asked else "explore")
        suggested = self._suggested()
        key = self._worthiest() if suggested is None else suggested
        return self._out(key, self._why(key))

    def tell(
        self, point: Point, value: float | None, violations: Sequence[float] = (), *, pruned: bool = False
    ) -> None:
        """What a point gave: None (or what is no number) for a failed trial; `pruned` for a value that was foretold.

        `violations`: one for each constraint, 0 or less where it holds. Raises UsageError for another number of them.
        """
        key = self._key(point)
        failed = value is None or not math.isfinite(value)
        if not failed and len(violations) != self._told.constraints:
            raise UsageError(
                f"told {len(violations)} violations, expected one for each of {self._told.constraints} constraints"
            )
        limits = tuple(math.inf if math.isnan(violation) else float(violation) for violation in violations)
        seen = self._told.at(key)
        if value is None or failed:
            seen.failed += 1
        elif pruned:
            seen.foretold = value
        else:
            seen.values.append(value)
            seen.violations.append(limits)
        if key in self._pending:
            self._pending.remove(key)
        self._tells += 1
        self._models.clear()

    def best(self) -> Best | None:
        """The best point so far; one that is not feasible only where none is, and then the nearest."""
        ranking = self.ranking()
        return ranking[0] if ranking else None

    def ranking(self) -> list[Best]:
        """All points that were measured, best first: by the posterior mean, not by the best value.

        Those come first that are feasible on average and very likely truly; then those that are on average and more
        likely than not; then those that are on average; then the others, the nearest first.
        """
        keys = self._told.measured()
        if not keys:
            return []
        belief, logarithmic = self._model(()).belief(self._grid.rows(keys)), self._told.is_logarithmic()
        ranked = []
        for key, score, likely in zip(keys, belief.mean.tolist(), belief.feasible.tolist(), strict=True):
            seen = self._told.points[key]
            excess = seen.excess()
            doubt = len(_SURE) if excess > 0 else sum(likely < share for share in _SURE)
            expected = math.exp(self._told.sign * score) if logarithmic else self._told.sign * score
            one = Best(self._point(key), seen.mean, tuple(seen.values), excess <= 0, expected, excess)
            ranked.append(((doubt, excess, -score), one))
        return [one for _, one in sorted(ranked, key=lambda pair: pair[0])]

    def _design(self) -> list[Key]:
        """The points to begin with, default left out; all of them where there are no more than trials."""
        random = self._random()
        if self._grid.size <= self._budget:
            keys = self._grid.all_keys()
            return [keys[place] for place in random.permutation(len(keys))]
        count = min(max(round(self._budget * _DESIGN), 2), _LARGEST_DESIGN) - (self._first is not None)
        return self._grid.design(max(count, 1), random)

    def _random(self) -> np.random.Generator:
        """Chance that depends on nothing but the seed and how many were asked."""
        return np.random.default_rng([self._seed, self._asks])

    def _worthiest(self) -> Key:
        """The point whose measurement is worth most."""
        closed = self._told.closed()
        known = [key for key in self._asked if key not in closed]
        leaders = [self._key(one.point) for one in self.ranking()[:5]]
        keys = [key for key in self._grid.candidates(leaders, known, self._random()) if key not in closed]
        rows = self._grid.rows(keys)
        measured = np.array([key in self._asked for key in keys])
        model = self._model(tuple(self._pending))
        finishing = self._asks >= self._budget * (1 - _FINISH)
        if not finishing and self._asks % _PROMISE_EVERY == 0 and not measured.all():
            promise = model.promise(rows, measured)
            if np.isfinite(promise.max()):
                return keys[int(promise.argmax())]
        worth = model.worth(rows, measured, finishing=finishing)
        if len(self._asked) < self._budget * _DISTINCT and model.noise < _NOISY and not measured.all():
            worth = np.where(measured, -np.inf, worth)
        return keys[int(worth.argmax())]

    def _suggested(self) -> Key | None:
        """In long searches every second point is one of `density`, unless it is known or the end is near."""
        long = len(self._told.points) > MODELLED and self._asks < self._budget * (1 - _FINISH)
        if not long or self._asks % 2:
            return None
        key = proposed(self._grid, self._told.by_merit(), self._random())
        return None if key in self._asked else key

    def _unknown(self) -> Key:
        """A point that nobody asked for, while nothing went well yet."""
        random = self._random()
        for _ in range(50):
            key = self._grid.nearest(self._grid.uniform(1, random)[0])
            if key not in self._asked:
                return key
        waiting = tuple(self._pending)
        open_keys = [key for key in self._grid.candidates((), (), random) if key not in self._asked]
        if open_keys or waiting:
            return (open_keys or list(waiting))[0]
        raise RunError(f"all of {len(self._asked)} points failed; nothing is left to try")

    def _model(self, pending: tuple[Key, ...]) -> Model:
        """Of what was told, and of what is believed of points that are out."""
        if (model := self._models.get((self._tells, pending))) is None:
            believed: dict[Key, float] = {}
            if pending:
                means = self._model(()).belief(self._grid.rows(pending)).mean
                believed = dict(zip(pending, means.tolist(), strict=True))
            values = self._told.observed(self._grid, pending, believed)
            limits = [self._told.violations(self._grid, place) for place in range(self._told.constraints)]
            model = self._models[self._tells, pending] = Model(
                values, limits, self._grid.ordered, self._told.failures(self._grid)
            )
        return model

    def _why(self, key: Key) -> Why:
        if key in self._asked:
            return "repeat"
        best = self.best() if not self._plan else None
        return "refine" if best is not None and self._grid.near(key, self._key(best.point)) else "explore"

    def _out(self, key: Key, why: Why) -> Ask:
        self._pending.append(key)
        self._asked[key] = self._asked.get(key, 0) + 1
        self._asks += 1
        debug_log.debug("tune", f"{self._point(key)}: asked for to {why}")
        return Ask(self._point(key), why)

    def _point(self, key: Key) -> Point:
        return {axis.name: axis.levels[place] for axis, place in zip(self._grid.axes, key, strict=True)}

    def _key(self, point: Point) -> Key:
        for axis in self._grid.axes:
            if point.get(axis.name) not in axis.levels:
                raise UsageError(f"{axis.name} is {shown(point.get(axis.name))}, which is no level of this search")
        return tuple(axis.levels.index(point[axis.name]) for axis in self._grid.axes)
