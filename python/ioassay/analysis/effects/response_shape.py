"""The shape of a response over an ordered factor: rising, falling, a peak, level, and from where it gains no more.

Judged by the level means and the intervals of their ratios. Deliberately coarse: where exactly a peak or a knee lies,
with an interval of its own, is not said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ioassay.analysis.effects.level_contrasts import simultaneous
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.factors import level_numbers
from ioassay.stats.ratio_of_means import Ratio, average_ratio, ratio_of_means
from ioassay.stats.result import Floats, Interval, Undefined, mean_of
from ioassay.stats.trend_tests import Correlation, kendall_tau

MARGIN = 0.05
"""Differences below this share count as none."""

FEWEST_LATER = 2
"""Levels that must follow for a plateau: one step that gains nothing is not yet one."""


class ShapeKind(StrEnum):
    """What the level means do, as far as the intervals of their ratios show."""

    UP = "up"
    DOWN = "down"
    PEAK = "peak"
    DIP = "dip"
    LEVEL = "level"
    """All levels agree to within MARGIN."""
    UNCLEAR = "unclear"
    """No two levels differ visibly, and their agreement is not proved."""
    MIXED = "mixed"


@dataclass(frozen=True)
class Shape:
    """What a response does over `factor`, whose levels ascend (or are in the study's order).

    `change`: the last level's mean divided by the first's, `interval` that of the ratio (None where repetitions are
    too few). `plateau`: the first level from which none of at least FEWEST_LATER later ones gains (loses, when falling)
    more than MARGIN; None where the response still moves. `tendency`: where no two levels are distinguishable, but all
    together rise or fall, the p of Kendall's rank correlation; `kind` is UP or DOWN then.
    """

    factor: str
    kind: ShapeKind
    first: Cell
    last: Cell
    highest: Cell
    lowest: Cell
    change: float
    interval: Interval | None
    plateau: Cell | None
    tendency: float | None = None


def shape(found: Cells, factor: str, confidence: float) -> Shape | None:
    """The shape over one factor; `found` varies in nothing else. None for fewer than two levels or means below 0."""
    cells = ascending(found.cells, factor)
    means = np.array([mean_of(cell.values) for cell in cells])
    if len(cells) < 2 or means.min() <= 0:
        return None
    top, bottom = int(means.argmax()), int(means.argmin())
    kind, tendency = _kind(cells, means, confidence), None
    if kind == ShapeKind.UNCLEAR and (tendency := _tendency(cells, (1 - confidence) / 2)) is not None:
        kind = ShapeKind.UP if tendency.r > 0 else ShapeKind.DOWN
    bounds = _interval(cells[-1], cells[0], len(cells), confidence)
    return Shape(
        factor=factor,
        kind=kind,
        first=cells[0],
        last=cells[-1],
        highest=cells[top],
        lowest=cells[bottom],
        change=float(means[-1] / means[0]),
        interval=bounds,
        plateau=None if tendency else _plateau(cells, means, kind),
        tendency=tendency.p if tendency else None,
    )


def ascending(cells: tuple[Cell, ...], factor: str) -> tuple[Cell, ...]:
    """By the numbers behind the levels, whatever the order in which the study lists them; words as listed."""
    known = level_numbers(factor, [cell.point[factor] for cell in cells])
    if known is None:
        return cells
    return tuple(cell for _, cell in sorted(zip(known, cells, strict=True), key=lambda pair: pair[0]))


def _kind(cells: tuple[Cell, ...], means: Floats, confidence: float) -> ShapeKind:
    top, bottom, last = int(means.argmax()), int(means.argmin()), means.size - 1

    def apart(high: int, low: int) -> bool:
        """Whether one level is above another by more than the margin, and visibly so."""
        if means[high] / means[low] <= 1 + MARGIN:
            return False
        bounds = _interval(cells[high], cells[low], len(cells), confidence)
        return bounds is None or bounds.low > 1

    if not apart(top, bottom):
        bounds = _interval(cells[top], cells[bottom], len(cells), confidence)
        return ShapeKind.LEVEL if bounds is not None and bounds.high <= 1 + MARGIN else ShapeKind.UNCLEAR
    if apart(top, 0) and apart(top, last):
        return ShapeKind.PEAK
    if apart(0, bottom) and apart(last, bottom):
        return ShapeKind.DIP
    rises = not apart(top, last) and not apart(0, bottom)
    falls = not apart(top, 0) and not apart(last, bottom)
    return ShapeKind.MIXED if rises == falls else ShapeKind.UP if rises else ShapeKind.DOWN


def _tendency(cells: tuple[Cell, ...], risk: float) -> Correlation | None:
    """Many levels together may show what no pair of them does; a second look, so at half the risk (Bonferroni)."""
    places = np.repeat(np.arange(float(len(cells))), [cell.values.size for cell in cells])
    found = kendall_tau(places, np.concatenate([cell.values for cell in cells]))
    return found if isinstance(found, Correlation) and found.p < risk else None


def _interval(high: Cell, low: Cell, conditions: int, confidence: float) -> Interval | None:
    ratio = ratio_of_means(high.values, low.values, confidence)
    return simultaneous(ratio, conditions, confidence) if isinstance(ratio, Ratio) else None


def _plateau(cells: tuple[Cell, ...], means: Floats, kind: ShapeKind) -> Cell | None:
    if kind not in (ShapeKind.UP, ShapeKind.DOWN):
        return None
    for index in range(means.size - FEWEST_LATER):
        later = means[index + 1 :]
        gain = later.max() / means[index] if kind == ShapeKind.UP else means[index] / later.min()
        if gain <= 1 + MARGIN:
            return cells[index]
    return None


def average_change(found: Cells, factor: str, confidence: float) -> Ratio | Undefined:
    """Second level divided by the first of a two-level factor, averaged over the places where both have values."""
    pairs = [(part.cells[1].values, part.cells[0].values) for part in found.slices(factor) if len(part.cells) == 2]
    return average_ratio(pairs, confidence)
