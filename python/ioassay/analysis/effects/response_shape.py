"""The shape of a response over an ordered factor: rising, falling, a peak, level, and from where it changes no more.

Read from the factor's family of contrasts (`level_contrasts.py`). Deliberately coarse: where exactly a peak or a knee
lies is not said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ioassay.analysis.effects.level_contrasts import LevelFamily
from ioassay.analysis.measurements.cells import Cell
from ioassay.stats.best_level import Plateau, best_place, levels_off, plateau
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import Contrasts, Pair
from ioassay.stats.result import Floats, Undefined


class ShapeKind(StrEnum):
    """What the level means certainly do."""

    UP = "up"
    """The last level is above the first, no level is above a later one, and the means gain more than they ever fall."""
    DOWN = "down"
    PEAK = "peak"
    """A level inside is above the first and the last; none is above a later one before it, or below one after it."""
    DIP = "dip"
    LEVEL = "level"
    """All levels agree to within the margin."""
    UNCLEAR = "unclear"
    """Levels differ, or not, but not in a way that has a direction."""
    MIXED = "mixed"
    """Levels are above later ones and below later ones, and there is not a single peak or dip."""


@dataclass(frozen=True)
class Shape:
    """What a response does over `factor`, whose levels ascend (or are in the study's order).

    UP and DOWN go from `start` to `end`: the first level and the last, unless others are lower or higher by more than
    the margin. `change`: the mean at the end against that at the start. `plateau`: the first of at least two levels at
    the end that certainly agree to within the margin, so that the response rises or falls no more; it begins not before
    `earliest`. None where the response still moves, or the data do not show it. `tendency`: where no pair gives the
    direction but a straight line does, the p of its slope; `kind` is UP or DOWN then.
    """

    factor: str
    kind: ShapeKind
    first: Cell
    last: Cell
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
    if kind == ShapeKind.UNCLEAR and (steepest := _steepest(family, contrasts)) is not None:
        kind, tendency = steepest
    flat = _flat(contrasts, family.numbers, kind) if tendency is None else None
    lowest, highest = best_place(means, lower=True), best_place(means, lower=False)
    start, end = _ends(means, kind, (lowest, highest), contrasts.margin)
    return Shape(
        factor=family.factor,
        kind=kind,
        first=ordered[0],
        last=ordered[-1],
        start=ordered[start],
        end=ordered[end],
        highest=ordered[highest],
        lowest=ordered[lowest],
        change=contrasts.pair(end, start),
        plateau=ordered[flat.first] if flat else None,
        earliest=ordered[flat.earliest] if flat else None,
        tendency=tendency,
    )


def _ends(means: Floats, kind: ShapeKind, extremes: tuple[int, int], margin: float) -> tuple[int, int]:
    """Where a response that rises or falls begins and ends; the first level and the last of any other."""
    last = means.size - 1
    if kind not in (ShapeKind.UP, ShapeKind.DOWN):
        return 0, last
    lowest, highest = extremes
    low, high = (0, last) if kind == ShapeKind.UP else (last, 0)
    low = low if means[low] <= (1 + margin) * means[lowest] else lowest
    high = high if means[highest] <= (1 + margin) * means[high] else highest
    return (low, high) if kind == ShapeKind.UP else (high, low)


def direction(contrasts: Contrasts) -> ShapeKind:
    """What the pairs show of levels in order, and what the means do not contradict."""
    if contrasts.equivalent:
        return ShapeKind.LEVEL
    rises, falls = contrasts.rises, contrasts.falls
    last = len(rises) - 1
    if rises.any() and falls.any():
        for kind, before, after in ((ShapeKind.PEAK, rises, falls), (ShapeKind.DIP, falls, rises)):
            for inner in range(1, last):
                turns = before[inner:, inner:].any() or after[: inner + 1, : inner + 1].any()
                if before[0, inner] and after[inner, last] and not turns:
                    return kind
        return ShapeKind.MIXED
    if rises[0, last] and _goes(contrasts.means.estimates):
        return ShapeKind.UP
    return ShapeKind.DOWN if falls[0, last] and _goes(-contrasts.means.estimates) else ShapeKind.UNCLEAR


def _goes(estimates: Floats) -> bool:
    """Whether they come out higher by more than they fall anywhere on the way."""
    back = float((np.maximum.accumulate(estimates) - estimates).max())
    return float(estimates[-1] - estimates[0]) > back


def _steepest(family: LevelFamily, contrasts: Contrasts) -> tuple[ShapeKind, float] | None:
    """The direction of the clearest line, where all that have one agree, and no pair and no mean contradicts it."""
    clear = [line for line in family.lines.values() if line.direction]
    if not clear or len({line.direction for line in clear}) > 1:
        return None
    line, estimates = min(clear, key=lambda one: one.p), contrasts.means.estimates
    if line.direction > 0:
        return (ShapeKind.UP, line.p) if _goes(estimates) and not contrasts.falls.any() else None
    return (ShapeKind.DOWN, line.p) if _goes(-estimates) and not contrasts.rises.any() else None


def _flat(contrasts: Contrasts, numbers: tuple[float, ...] | None, kind: ShapeKind) -> Plateau | None:
    """The plateau at the end of a response that rises or falls, where it has levelled off."""
    if kind not in (ShapeKind.UP, ShapeKind.DOWN):
        return None
    lower = kind == ShapeKind.DOWN
    found, last = plateau(contrasts, lower=lower), contrasts.means.sizes.size - 1
    if found is None or found.last != last or not 0 < found.first < last:
        return None
    return found if levels_off(contrasts, numbers, found) else None
