"""The levels of one factor against each other: contrasts, shape, lines, effect and average change.

All is read from the one model of all conditions of a response (`stats/condition_means.py`). Each place, where only this
factor varies, has a family of contrasts, and the places of a factor share the risk: a difference is claimed by its
interval, no difference by equivalence alone.

The shape over an ordered factor (rising, falling, a peak, level, and from where it changes no more) is deliberately
coarse: where exactly a peak or a knee lies is not said here. Two lines are fitted where a factor is numeric: over x
and, where all levels are positive, over log2 x, whose slope is the change per doubling. The slope's interval is that of
the family of contrasts, whatever the conditions scatter; without repetitions it is that of HC3. Neither line is a law:
the lack-of-fit test says whether the level means leave it. The analyses of variance are given because publications have
them; they decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements import memoized
from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.factors import HOST, level_axis_numbers, level_key
from ioassay.metrics import lower_bounds
from ioassay.records.record import Scalar
from ioassay.stats.condition_means import Scale, average
from ioassay.stats.contrasts import (
    Contrasts,
    Pair,
    Ratio,
    Slope,
    best,
    levels_off,
    plateau,
    repetitions_needed,
    slopes,
)
from ioassay.stats.linear_models import LackOfFit, Line, fit_line, lack_of_fit, one_way
from ioassay.stats.result import Undefined
from ioassay.stats.shapes import ShapeKind, direction, goes
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

LINEAR, LOGARITHMIC = "linear", "log2"


@dataclass(frozen=True)
class LevelFamily:
    """One factor where all others are fixed; `cells` ascend where their levels are `numbers`.

    `lines`: the slopes over the numbers and, where all are positive, over their logarithm to base 2.
    """

    factor: str
    part: Cells
    cells: tuple[Cell, ...]
    numbers: tuple[float, ...] | None
    contrasts: Contrasts | Undefined
    lines: Mapping[str, Slope] = field(default_factory=dict)

    @property
    def lower(self) -> bool:
        return lower_is_better(self.part.response)


def lower_is_better(response: str) -> bool:
    return metrics.metric(response).better == "lower"


@memoized
def families(records: Dataset, study: Study, response: str) -> dict[str, list[LevelFamily]]:
    """Factor -> its family in each place where it varies; factors that vary nowhere are left out.

    The hosts that measure are places: how they differ is a question of its own (`hosts`).
    """
    found = cells(records, study, response)
    factors = [factor for factor in found.varying() if factor != HOST]
    each = {factor: level_families(found, factor, study.analysis.confidence) for factor in factors}
    return {factor: group for factor, group in each.items() if group}


def level_families(found: Cells, factor: str, confidence: float) -> list[LevelFamily]:
    """A family for each place of `found` where `factor` has two levels or more."""
    slices = [part for part in found.slices(factor) if len(part.cells) > 1]
    model, places = found.fit(), {id(cell): place for place, cell in enumerate(found.cells)}
    made = []
    for part in slices:
        # By the numbers behind the levels, whatever the order in which the study lists them; words as listed.
        known = level_axis_numbers(factor, [cell.point[factor] for cell in part.cells])
        numbers = None if known is None else tuple(sorted(known))
        ordered = part.cells if known is None else tuple(part.cells[at] for at in np.argsort(known, kind="stable"))
        if isinstance(model, Undefined):
            made.append(LevelFamily(factor, part, ordered, numbers, model))
            continue
        kinds, means = regressors(numbers), model.part([places[id(cell)] for cell in ordered])
        bounded = lower_bounds([cell.mean for cell in ordered])
        contrasts = Contrasts(means, confidence, share=len(slices), lines=len(kinds), bounded=bounded)
        made.append(LevelFamily(factor, part, ordered, numbers, contrasts, slopes(contrasts, kinds)))
    return made


def regressors(numbers: tuple[float, ...] | None) -> dict[str, tuple[float, ...]]:
    """What lines are fitted over; none for words and fewer than three numbers."""
    if numbers is None or len(numbers) < 3:
        return {}
    kinds = {LINEAR: numbers}
    if min(numbers) > 0:
        kinds[LOGARITHMIC] = tuple(float(number) for number in np.log2(numbers))
    return kinds


@dataclass(frozen=True)
class Shape:
    """What a response does over a factor, whose levels ascend (or are in the study's order).

    UP and DOWN go from `start` to `end`: the first level and the last, unless these do not certainly differ, or others
    are lower or higher by more than the margin. `change`: the mean at the end against that at the start. `plateau`: the
    first of at least two levels at the end that certainly agree to within the margin, so that the response moves no
    more; it begins not before `earliest`. None where it still moves, or the data do not show it. `tendency`: where only
    a straight line gives the direction, UP or DOWN, the p of its slope.
    """

    kind: ShapeKind
    start: Cell
    end: Cell
    highest: Cell
    lowest: Cell
    change: Pair
    plateau: Cell | None
    earliest: Cell | None
    tendency: float | None = None


def shape(family: LevelFamily) -> Shape | None:
    """The shape over one factor; None without repetitions, and where a mean is not above 0."""
    contrasts, ordered = family.contrasts, family.cells
    if isinstance(contrasts, Undefined) or contrasts.means.scale != Scale.LOG:
        return None
    kind, tendency, means = direction(contrasts), None, contrasts.means.means
    clear = [line for line in family.lines.values() if line.direction]
    if kind == ShapeKind.UNCLEAR and len({line.direction for line in clear}) == 1:
        # The clearest line, where all that have a direction agree, and no pair and no mean contradicts it.
        line = min(clear, key=lambda one: one.p)
        if goes(contrasts, line.direction):
            kind, tendency = ShapeKind.UP if line.direction > 0 else ShapeKind.DOWN, line.p
    start, end, flat = 0, len(ordered) - 1, None
    if tendency is None and kind in (ShapeKind.UP, ShapeKind.DOWN):
        flat = plateau(contrasts, lower=kind == ShapeKind.DOWN)
        ends = flat and flat.last == end and 0 < flat.first < end
        flat = flat if flat and ends and levels_off(contrasts, family.numbers, flat) else None
    lowest, highest = best(means, lower=True, bounded=contrasts.bounded), best(means)
    if kind in (ShapeKind.UP, ShapeKind.DOWN):
        low, high = (start, end) if kind == ShapeKind.UP else (end, start)
        apart = tendency is not None or contrasts.above[high, low]
        low = low if apart and means[low] <= (1 + contrasts.margin) * means[lowest] else lowest
        high = high if apart and means[highest] <= (1 + contrasts.margin) * means[high] else highest
        start, end = (low, high) if kind == ShapeKind.UP else (high, low)
    return Shape(
        kind=kind,
        start=ordered[start],
        end=ordered[end],
        highest=ordered[highest],
        lowest=ordered[lowest],
        change=contrasts.pair(end, start),
        plateau=ordered[flat.first] if flat else None,
        earliest=ordered[flat.earliest] if flat else None,
        tendency=tendency,
    )


CLEARLY_BETTER = 2.0
"""Difference in AIC below which both models stay credible: Burnham and Anderson, "Model Selection" (2002), 2.6."""


class LineOutcome(Enum):
    """What the preferred model shows."""

    NO_SLOPE = "no slope"
    STRAIGHT = "straight"
    CURVED = "curved"
    """There is a slope, but the level means leave the line."""
    TURNS = "turns"
    """The response rises and falls, or does not go the way of the slope: no line says what it does."""


@dataclass(frozen=True)
class Regression:
    """The better line of one factor where all others are fixed, over `kind` of its numbers, with the test of its shape.

    `better` is the kind, or '' when AIC cannot tell: the line is the linear one then.
    """

    factor: str
    cells: Cells
    kind: str
    better: str
    line: Line
    lack: LackOfFit | Undefined
    outcome: LineOutcome


def regression(family: LevelFamily, confidence: float) -> Regression | None:
    """None where the factor has no three numbers, or no repetitions."""
    models = dict[str, tuple[Line, LackOfFit | Undefined]]()
    y, sizes = np.concatenate([cell.values for cell in family.cells]), [cell.values.size for cell in family.cells]
    for kind, known in family.lines.items():
        x = np.repeat(np.array(regressors(family.numbers)[kind]), sizes)
        line = fit_line(x, y, confidence)
        if isinstance(line, Line):
            own = replace(line, slope_se=known.error, slope_interval=known.interval, p=known.p)
            models[kind] = own, lack_of_fit(x, y, line.ss_residual)
    if not models:
        return None
    criteria = {kind: -math.inf if line.aic is None else line.aic for kind, (line, _) in models.items()}
    first, *others = sorted(criteria, key=lambda kind: criteria[kind])
    clear = not others or criteria[others[0]] - criteria[first] >= CLEARLY_BETTER
    kind = first if clear else next(iter(models))
    (line, lack), found = models[kind], family.contrasts
    bounds, outcome = line.slope_interval, LineOutcome.STRAIGHT
    if isinstance(found, Contrasts) and found.rises.any() and found.falls.any():
        outcome = LineOutcome.TURNS
    elif bounds.low <= 0 <= bounds.high:
        outcome = LineOutcome.NO_SLOPE
    elif isinstance(found, Contrasts) and not goes(found, 1 if bounds.low > 0 else -1):
        outcome = LineOutcome.TURNS
    elif isinstance(lack, LackOfFit) and lack.p < 1 - confidence:
        outcome = LineOutcome.CURVED
    return Regression(family.factor, family.part, kind, first if clear else "", line, lack, outcome)


class Outcome(Enum):
    """What the contrasts of the levels show."""

    NOT_TESTED = "not tested"
    DIFFERENCE = "difference"
    """Some level is certainly above another."""
    NO_DIRECTION = "no direction"
    """The same, but over the levels in order the response has no certain shape."""
    EQUIVALENT = "equivalent"
    """All levels agree to within the margin."""
    TREND = "trend"
    """No pair of levels certainly differs, but a line over all of them certainly rises or falls."""
    UNDECIDED = "undecided"
    """The data show neither a difference nor that there is none."""


@dataclass(frozen=True)
class Effect:
    """One factor where all others are fixed.

    `p` is that of the pair of levels that differs most clearly, adjusted for all pairs and all places of the factor.
    `needed`: the repetitions that would show a difference of the margin. `explained`: the share of the variation
    between trials that the factor explains (omega²), None where no analysis of variance is possible. `best` and `worst`
    are by mean, in the response's better direction (higher where it has none); `ratio`: the larger mean divided by the
    smaller, `pair` that with its interval and p, None where unknown. `shape` is None where fewer than three levels are
    numbers, or where it has none; `line` is the regression over three levels or more.
    """

    family: LevelFamily
    explained: float | None
    best: Cell
    worst: Cell
    ratio: float | None
    pair: Pair | None
    shape: Shape | None
    p: float | None
    needed: int | None
    line: Regression | None

    @property
    def factor(self) -> str:
        return self.family.factor

    @property
    def cells(self) -> Cells:
        return self.family.part

    @property
    def ordered(self) -> bool:
        return self.family.numbers is not None and len(self.family.numbers) > 2

    @property
    def outcome(self) -> Outcome:
        contrasts = self.family.contrasts
        if isinstance(contrasts, Undefined):
            return Outcome.NOT_TESTED
        if contrasts.equivalent:
            return Outcome.EQUIVALENT
        clear = self.shape is None or self.shape.kind not in (ShapeKind.UNCLEAR, ShapeKind.MIXED)
        if contrasts.different:
            return Outcome.DIFFERENCE if clear else Outcome.NO_DIRECTION
        return Outcome.TREND if self.shape is not None and clear else Outcome.UNDECIDED


@dataclass(frozen=True)
class FactorEffects:
    """One factor in each combination of the others."""

    cells: Cells
    factor: str
    effects: tuple[Effect, ...]


def effects(records: Dataset, study: Study, response: str) -> list[FactorEffects]:
    groups, confidence = families(records, study, response), study.analysis.confidence
    return [
        FactorEffects(cells(records, study, response), factor, tuple(effect(family, confidence) for family in group))
        for factor, group in groups.items()
    ]


def effect(family: LevelFamily, confidence: float) -> Effect:
    classic, contrasts = one_way(family.part.groups), family.contrasts
    known = contrasts if isinstance(contrasts, Contrasts) else None
    means = [cell.mean for cell in family.cells]
    low, high = best(means, lower=True, bounded=lower_bounds(means)), best(means)
    first, worst = (low, high) if family.lower else (high, low)
    return Effect(
        family=family,
        explained=None if isinstance(classic, Undefined) else max(classic.omega2, 0.0),
        best=family.cells[first],
        worst=family.cells[worst],
        ratio=means[high] / means[low] if means[low] > 0 else None,
        pair=known.pair(high, low) if known and known.means.scale == Scale.LOG else None,
        shape=shape(family) if family.numbers and len(family.numbers) > 2 else None,
        p=known.p(*known.largest) if known else None,
        needed=repetitions_needed(known) if known and not known.means.exact else None,
        line=regression(family, confidence),
    )


def pair_outcome(contrasts: Contrasts, one: int, other: int) -> Outcome:
    """What two levels show: equivalence, a difference, or neither."""
    if contrasts.equal(one, other):
        return Outcome.EQUIVALENT
    return Outcome.DIFFERENCE if contrasts.above[one, other] or contrasts.above[other, one] else Outcome.UNDECIDED


@dataclass(frozen=True)
class AverageChange:
    """`contrasts` are of the two averages, in the order of `levels`."""

    cells: Cells
    factor: str
    levels: tuple[Scalar, Scalar]
    contrasts: Contrasts

    @property
    def ratio(self) -> Ratio:
        """The second average divided by the first."""
        return self.contrasts.ratio(1, 0)

    @property
    def outcome(self) -> Outcome:
        return pair_outcome(self.contrasts, 1, 0)

    @property
    def needed(self) -> int | None:
        """Repetitions that would show a difference of the margin; None of exact results."""
        return None if self.contrasts.means.exact else repetitions_needed(self.contrasts)


def average_change(
    found: Cells, factor: str, levels: tuple[Scalar, Scalar], confidence: float, *, share: int = 1
) -> AverageChange | Undefined:
    """Two levels of a factor; `share` changes share the risk."""
    model = found.fit()
    if isinstance(model, Undefined):
        return model
    if model.scale != Scale.LOG:
        return Undefined("a mean is not above 0, so there is no ratio")
    keys = [(level_key(factor, one),) for one in levels]
    if not (rows := [row for row in found.grid(factor) if all(key in row for key in keys)]):
        return Undefined("no pair of conditions has values")
    means = average(model, [[row[key] for row in rows] for key in keys])
    return AverageChange(found, factor, levels, Contrasts(means, confidence, share=share))
