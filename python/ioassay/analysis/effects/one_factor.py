"""The effect of one factor, within each combination of the others: tests, effect sizes, pairs.

Welch's analysis decides, because conditions of a storage experiment rarely scatter alike; the classic one, the rank
test and the tests of assumptions are given with it. Where the levels are numbers, the shape over them counts, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ioassay.analysis.effects import level_contrasts, response_shape
from ioassay.analysis.effects.level_contrasts import Extremes
from ioassay.analysis.effects.response_shape import Shape, ShapeKind
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.analysis.measurements.memo import memoized
from ioassay.factors import level_axis_numbers
from ioassay.records.record import Scalar
from ioassay.stats.anova import (
    Assumption,
    OneWay,
    Ranks,
    Welch,
    brown_forsythe,
    kruskal_wallis,
    normal_residuals,
    one_way,
    welch,
)
from ioassay.stats.posthoc import PairDifference, games_howell, holm
from ioassay.stats.result import Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


class Outcome(Enum):
    """What the deciding test and, over numbers, the shape of the response say together."""

    NOT_TESTED = "not tested"
    DIFFERENCE = "difference"
    NO_DIRECTION = "no direction"
    """The test finds a difference, but over the levels in order the response has no clear shape."""
    EQUIVALENT = "equivalent"
    """All levels agree to within `response_shape.MARGIN`."""
    TREND = "trend"
    """The test finds no difference, but the levels in order show a shape."""
    NO_DIFFERENCE = "no difference"


@dataclass(frozen=True)
class Effect:
    """One factor where all others are fixed.

    `decisive_p` is Welch's, else that of the classic analysis, else None; `adjusted_p` (Holm) accounts for all tests of
    the response. `ordered`: three levels or more that are numbers; `shape` is None where they are not, or where it has
    none.
    """

    factor: str
    cells: Cells
    ordered: bool
    confidence: float
    classic: OneWay | Undefined
    welch: Welch | Undefined
    ranks: Ranks | Undefined
    equal_variances: Assumption | Undefined
    normal: Assumption | Undefined
    pairs: list[PairDifference] | Undefined
    extremes: Extremes
    shape: Shape | None
    decisive_p: float | None
    adjusted_p: float | None = None

    @property
    def outcome(self) -> Outcome:
        """By the adjusted p."""
        kind = self.shape.kind if self.shape else None
        if self.adjusted_p is None:
            return Outcome.NOT_TESTED
        if kind == ShapeKind.LEVEL:
            return Outcome.EQUIVALENT
        if self.adjusted_p < self._risk:
            return Outcome.NO_DIRECTION if kind == ShapeKind.UNCLEAR else Outcome.DIFFERENCE
        return Outcome.NO_DIFFERENCE if kind in (None, ShapeKind.UNCLEAR) else Outcome.TREND

    @property
    def explained(self) -> float | None:
        """Share of the variation between trials that the factor explains (omega²)."""
        return None if isinstance(self.classic, Undefined) else max(self.classic.omega2, 0.0)

    @property
    def unequal_variances(self) -> bool:
        """Return True if conditions scatter differently."""
        return isinstance(self.equal_variances, Assumption) and self.equal_variances.p < self._risk

    @property
    def not_normal(self) -> bool:
        """Return True if the deviations are not normal."""
        return isinstance(self.normal, Assumption) and self.normal.p < self._risk

    @property
    def ranks_disagree(self) -> bool:
        """Return True if the rank test decides otherwise."""
        if not isinstance(self.ranks, Ranks) or self.decisive_p is None:
            return False
        return (self.ranks.p < self._risk) != (self.decisive_p < self._risk)

    @property
    def _risk(self) -> float:
        return 1 - self.confidence


@dataclass(frozen=True)
class FactorEffects:
    """One factor in each combination of the others; `tests` counts those of the whole response."""

    cells: Cells
    factor: str
    effects: tuple[Effect, ...]
    tests: int

    @property
    def different(self) -> list[Effect]:
        """Those with a difference, whatever its direction."""
        return [one for one in self.effects if one.adjusted_p is not None and one.adjusted_p < 1 - one.confidence]


@memoized
def effects(records: Dataset, study: Study, response: str) -> list[FactorEffects]:
    """Effects of every factor with two levels or more; p values adjusted (Holm) for all tests of this response."""
    found, confidence = cells(records, study, response), study.analysis.confidence
    measured = {
        factor: [
            effect(part, factor, confidence, ordered=_ordered(factor, found.factors[factor]))
            for part in found.slices(factor)
            if len(part.cells) > 1
        ]
        for factor in found.varying()
    }
    tested = [part.decisive_p for group in measured.values() for part in group if part.decisive_p is not None]
    adjusted = iter(holm(tested))
    return [
        FactorEffects(
            found,
            factor,
            tuple(part if part.decisive_p is None else replace(part, adjusted_p=next(adjusted)) for part in group),
            len(tested),
        )
        for factor, group in measured.items()
        if group
    ]


def effect(found: Cells, factor: str, confidence: float, *, ordered: bool) -> Effect:
    """Measure one factor; `found` varies in nothing else and has two conditions or more."""
    groups = found.groups
    classic, unequal = one_way(groups), welch(groups)
    decisive = unequal if isinstance(unequal, Welch) else classic
    return Effect(
        factor=factor,
        cells=found,
        ordered=ordered,
        confidence=confidence,
        classic=classic,
        welch=unequal,
        ranks=kruskal_wallis(groups),
        equal_variances=brown_forsythe(groups),
        normal=normal_residuals(groups),
        pairs=games_howell(groups, confidence),
        extremes=level_contrasts.extremes(found, confidence),
        shape=response_shape.shape(found, factor, confidence) if ordered else None,
        decisive_p=None if isinstance(decisive, Undefined) else decisive.p,
    )


def _ordered(factor: str, levels: Sequence[Scalar]) -> bool:
    return len(levels) > 2 and level_axis_numbers(factor, levels) is not None
