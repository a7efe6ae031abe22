"""Which point to measure next, and which is the best so far: asks and is told. Runs nothing, stores nothing.

A search begins with the default and a design that covers the grid (about a third of its trials). Each further trial
goes where it is worth most (`acquisition`): to an unknown point, or again to a point whose noise hides whether it is
the best. Every fourth goes where something better may hide, and the last fifth only to points that may win. A grid of
no more points than trials is measured whole, then repeated where that is worth most. Where a search has more results
than a model is made of (`MODELLED`), every second point is drawn from where good points are dense and others are not.

A point is a key: the index of its level on each axis. Coordinates run from 0 to 1 where levels have an order (along
their logarithms where the axis is `log`); of words they are the index, and only whether two are equal counts.

The same seed and the same asks and tells in the same order give the same asks, so a search is resumed by doing it
again with what the records say. Several asks may be out at once.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

import numpy as np

from ioassay import debug_log
from ioassay.errors import RunError, UsageError
from ioassay.hints import shown
from ioassay.packs.tuning.search.acquisition import Array, Model, Observed
from ioassay.packs.tuning.search.space import Axis
from ioassay.records.record import Scalar

Random = np.random.Generator
Key = tuple[int, ...]
WHOLE = 1500
"""Points up to which all are candidates; of larger grids a sample of about as many is, and what is near the best."""
_DESIGNS = 60
_NEAR = 0.15
"""Of an axis' width: what is nearer to the leader on every axis is its neighbourhood."""


class Grid:
    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self.ordered = tuple(axis.numbers is not None for axis in axes)
        self.places = [np.array(_coordinates(axis)) for axis in axes]
        self.size = math.prod(len(axis.levels) for axis in axes)

    def rows(self, keys: Sequence[Key]) -> Array:
        chosen = np.array(keys, dtype=int).reshape(len(keys), len(self.axes))
        return np.stack([places[chosen[:, axis]] for axis, places in enumerate(self.places)], axis=1)

    def all_keys(self) -> list[Key]:
        return list(itertools.product(*(range(len(axis.levels)) for axis in self.axes)))

    def nearest(self, row: Sequence[float]) -> Key:
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


_GOOD, _MOST_GOOD = 0.1, 25
_DRAWN = 24
_NARROWEST = 100
"""No kernel is narrower than this part of an axis."""


def proposed(grid: Grid, ranked: Sequence[Key], random: np.random.Generator) -> Key:
    """A point where the best of `ranked`, which is best first, lie denser than the others; at least one is needed."""
    count = min(math.ceil(_GOOD * len(ranked)), _MOST_GOOD)
    good, others = ranked[:count], ranked[count:]
    found = []
    for axis, (places, ordered) in enumerate(zip(grid.places, grid.ordered, strict=True)):
        dense = _density(places, ordered, [key[axis] for key in good])
        drawn = random.choice(len(dense), _DRAWN, p=dense)
        found.append(int(drawn[(dense / _density(places, ordered, [key[axis] for key in others]))[drawn].argmax()]))
    return tuple(found)


def _density(places: Array, ordered: bool, levels: Sequence[int]) -> Array:
    """The probability of each level of an axis: of the levels seen and, once, of any."""
    anywhere = np.full(len(places), 1 / len(places))
    if not levels:
        return anywhere
    if not ordered:
        return np.asarray((np.bincount(levels, minlength=len(places)) + anywhere) / (len(levels) + 1))
    seen = np.sort(places[np.array(levels)])
    # As wide as the wider gap to a neighbour; the ends of the axis are neighbours too.
    gaps = np.diff(np.concatenate(([0.0], seen, [1.0])))
    widths = np.clip(np.maximum(gaps[:-1], gaps[1:]), 1 / min(_NARROWEST, 1 + len(seen)), 1.0)
    kernels = np.exp(-0.5 * ((places[None, :] - seen[:, None]) / widths[:, None]) ** 2) + 1e-12
    kernels /= kernels.sum(axis=1, keepdims=True)
    return np.asarray((kernels.sum(axis=0) + anywhere) / (len(levels) + 1))


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

    def scale(self) -> Callable[[float], float]:
        """From values to what is modelled: large is good.

        Logarithms of positive values, since the noise of rates and times is a share of them.
        """
        known = (value for seen in self.points.values() for value in (*seen.values, seen.foretold))
        logarithmic = all(value > 0 for value in known if value is not None)
        return lambda value: self.sign * (math.log(value) if logarithmic else value)

    def observed(self, grid: Grid, pending: Sequence[Key], believed: Mapping[Key, float]) -> Observed:
        """The values as a model takes them. Points that are being measured count as what is believed of them
        (`believed`), so that several asks at once differ."""
        scale = self.scale()
        groups = self._modelled({key: [scale(value) for value in seen.values] for key, seen in self.points.items()})
        # How bad the bad ones are does not help to tell the good ones apart.
        means = [fmean(group) for group in groups.values() if group]
        floor = 0.0
        if means:
            best, middle = max(means), median(means)
            floor = max(min(means), best - _DEPTH * (best - middle)) if best > middle else min(means)
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
            # Linear near 0 and logarithmic beyond, so that the slope towards the feasible region shows at any distance.
            key: [
                math.copysign(math.log1p(min(abs(broken[place]), _WORST)), broken[place]) for broken in seen.violations
            ]
            for key, seen in self.points.items()
            if seen.violations
        }
        return _summed(grid, self._modelled(groups))

    def failures(self, grid: Grid) -> Observed | None:
        """1 for each point that failed, -1 for each that did not; None where none did."""
        if not any(seen.failed for seen in self.points.values()):
            return None
        went_well = {key: bool(seen.values) or seen.foretold is not None for key, seen in self.points.items()}
        return _summed(grid, self._modelled({key: [-1.0 if well else 1.0] for key, well in went_well.items()}))

    def _modelled(self, groups: dict[Key, list[float]]) -> dict[Key, list[float]]:
        if len(groups) <= MODELLED:
            return groups
        best = sorted(self.measured(), key=lambda key: -self.sign * self.points[key].mean)[: MODELLED // 2]
        kept = {*best, *list(groups)[-(MODELLED // 2) :]}
        return {key: group for key, group in groups.items() if key in kept}


def _summed(grid: Grid, groups: dict[Key, list[float]], counts: Mapping[Key, float] | None = None) -> Observed:
    """`counts`: how many measurements each point is worth, by default as many as it has values."""
    keys = list(groups)
    worth = [float(len(groups[key])) if counts is None else counts[key] for key in keys]
    means = [fmean(groups[key]) for key in keys]
    within = sum((value - mean) ** 2 for key, mean in zip(keys, means, strict=True) for value in groups[key])
    degrees = sum(len(group) - 1 for group in groups.values())
    return Observed(grid.rows(keys), np.array(means), np.array(worth), within, degrees)


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
    """A measured point: the plain mean of its values, and whether it keeps every constraint on average."""

    point: Point
    mean: float
    feasible: bool


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
        random = self._random()
        if self._grid.size <= budget:  # all points, default left out
            keys = self._grid.all_keys()
            design = [keys[place] for place in random.permutation(len(keys))]
        else:
            count = min(max(round(budget * _DESIGN), 2), _LARGEST_DESIGN) - (self._first is not None)
            design = self._grid.design(max(count, 1), random)
        self._plan = deque(design)
        self._models: dict[tuple[int, tuple[Key, ...]], Model] = {}
        self._tells = 0

    def ask(self) -> Ask:
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
        return next(iter(self.ranking()), None)

    def ranking(self) -> list[Best]:
        """All points that were measured, best first: by the posterior mean, not by the best value.

        Those come first that are feasible on average and very likely truly; then those that are on average and more
        likely than not; then those that are on average; then the others, the nearest first.
        """
        keys = self._told.measured()
        if not keys:
            return []
        (means, feasible), ranked = self._model(()).belief(self._grid.rows(keys)), []
        for key, score, likely in zip(keys, means.tolist(), feasible.tolist(), strict=True):
            seen = self._told.points[key]
            excess = seen.excess()
            doubt = len(_SURE) if excess > 0 else sum(likely < share for share in _SURE)
            ranked.append(((doubt, excess, -score), Best(self._point(key), seen.mean, excess <= 0)))
        return [one for _, one in sorted(ranked, key=lambda pair: pair[0])]

    def _random(self) -> np.random.Generator:
        """Chance that depends on nothing but the seed and how many were asked."""
        return np.random.default_rng([self._seed, self._asks])

    def _worthiest(self) -> Key:
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
        """In long searches every second point is drawn by densities, unless it is known or the end is near."""
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
        if (model := self._models.get((self._tells, pending))) is None:
            believed: dict[Key, float] = {}
            if pending:
                means, _ = self._model(()).belief(self._grid.rows(pending))
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
