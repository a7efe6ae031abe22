"""The shape of a response over an ordered factor: rising, falling, a peak, level, and from where it changes no more.

Read from the factor's family of contrasts (`level_contrasts.py`). Deliberately coarse: where exactly a peak or a knee
lies is not said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ioassay.analysis.effects.level_contrasts import LevelFamily
from ioassay.analysis.measurements.cells import Cell
from ioassay.stats.best_level import Plateau, levels_off, plateau
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import Contrasts, Pair
from ioassay.stats.result import Undefined


class ShapeKind(StrEnum):
    """What the level means certainly do."""

    UP = "up"
    """The last level is above the first."""
    DOWN = "down"
    PEAK = "peak"
    """A level inside is above the first and the last."""
    DIP = "dip"
    LEVEL = "level"
    """All levels agree to within the margin."""
    UNCLEAR = "unclear"
    """Levels differ, or not, but not in a way that has a direction."""
    MIXED = "mixed"
    """There is a peak inside, and a dip."""


@dataclass(frozen=True)
class Shape:
    """What a response does over `factor`, whose levels ascend (or are in the study's order).

    `change`: the last level's mean against the first's. `plateau`: the first of at least two levels at the end that
    certainly agree with it to within the margin, so that the response rises or falls no more; it begins not before
    `earliest`. None where the response still moves, or the data do not show it. `tendency`: where no pair gives the
    direction but a straight line does, the p of its slope; `kind` is UP or DOWN then.
    """

    factor: str
    kind: ShapeKind
    first: Cell
    last: Cell
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
    if kind == ShapeKind.UNCLEAR and (steepest := _steepest(family)) is not None:
        kind, tendency = steepest
    flat = _flat(contrasts, family.numbers, kind) if tendency is None else None
    return Shape(
        factor=family.factor,
        kind=kind,
        first=ordered[0],
        last=ordered[-1],
        highest=ordered[int(means.argmax())],
        lowest=ordered[int(means.argmin())],
        change=contrasts.pair(len(ordered) - 1, 0),
        plateau=ordered[flat.first] if flat else None,
        earliest=ordered[flat.earliest] if flat else None,
        tendency=tendency,
    )


def direction(contrasts: Contrasts) -> ShapeKind:
    """What the pairs show of levels in order."""
    above, last = contrasts.above, contrasts.means.sizes.size - 1
    if contrasts.equivalent:
        return ShapeKind.LEVEL
    peak = any(above[inner, 0] and above[inner, last] for inner in range(1, last))
    dip = any(above[0, inner] and above[last, inner] for inner in range(1, last))
    if peak or dip:
        return ShapeKind.MIXED if peak and dip else ShapeKind.PEAK if peak else ShapeKind.DIP
    if above[last, 0]:
        return ShapeKind.UP
    return ShapeKind.DOWN if above[0, last] else ShapeKind.UNCLEAR


def _steepest(family: LevelFamily) -> tuple[ShapeKind, float] | None:
    """The direction of the clearest line, where all that have one agree."""
    clear = [line for line in family.lines.values() if line.direction]
    if not clear or len({line.direction for line in clear}) > 1:
        return None
    line = min(clear, key=lambda one: one.p)
    return ShapeKind.UP if line.direction > 0 else ShapeKind.DOWN, line.p


def _flat(contrasts: Contrasts, numbers: tuple[float, ...] | None, kind: ShapeKind) -> Plateau | None:
    """The plateau at the end of a response that rises or falls, where it has levelled off."""
    if kind not in (ShapeKind.UP, ShapeKind.DOWN):
        return None
    lower = kind == ShapeKind.DOWN
    found, last = plateau(contrasts, lower=lower), contrasts.means.sizes.size - 1
    if found is None or found.last != last or not 0 < found.first < last:
        return None
    return found if levels_off(contrasts, numbers, found) else None
