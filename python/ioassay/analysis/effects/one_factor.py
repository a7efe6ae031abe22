"""The effect of one factor, within each combination of the others.

What is concluded is read from the family of contrasts (`level_contrasts.py`). The analyses of variance
are given because publications have them; they decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ioassay.analysis.effects import level_contrasts, regression, response_shape
from ioassay.analysis.effects.level_contrasts import Extremes, LevelFamily
from ioassay.analysis.effects.regression import Regression
from ioassay.analysis.effects.response_shape import Shape, ShapeKind
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.stats.anova import one_way
from ioassay.stats.contrasts import Contrasts, repetitions_needed
from ioassay.stats.result import Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


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
    between trials that the factor explains (omega²), None where no analysis of variance is possible. `shape` is None
    where fewer than three levels are numbers, or where it has none; `line` is the regression over three levels or more.
    """

    family: LevelFamily
    explained: float | None
    extremes: Extremes
    shape: Shape | None
    p: float | None
    needed: int | None
    line: Regression | None

    @property
    def factor(self) -> str:
        """What varies."""
        return self.family.factor

    @property
    def cells(self) -> Cells:
        """The conditions, in the study's order."""
        return self.family.part

    @property
    def ordered(self) -> bool:
        """True if three levels or more are numbers."""
        return self.family.numbers is not None and len(self.family.numbers) > 2

    @property
    def outcome(self) -> Outcome:
        """Read from the contrasts alone."""
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
    """Effects of every factor with two levels or more."""
    groups, confidence = level_contrasts.families(records, study, response), study.analysis.confidence
    return [
        FactorEffects(cells(records, study, response), factor, tuple(effect(family, confidence) for family in group))
        for factor, group in groups.items()
    ]


def effect(family: LevelFamily, confidence: float) -> Effect:
    """Measure one factor at two levels or more."""
    classic, contrasts = one_way(family.part.groups), family.contrasts
    known = contrasts if isinstance(contrasts, Contrasts) else None
    return Effect(
        family=family,
        explained=None if isinstance(classic, Undefined) else max(classic.omega2, 0.0),
        extremes=level_contrasts.extremes(family),
        shape=response_shape.shape(family) if family.numbers and len(family.numbers) > 2 else None,
        p=known.p(*known.largest) if known else None,
        needed=repetitions_needed(known) if known and not known.means.exact else None,
        line=regression.fit(family, confidence),
    )


def pair_outcome(contrasts: Contrasts, one: int, other: int) -> Outcome:
    """What two levels show: equivalence, a difference, or neither."""
    if contrasts.equal(one, other):
        return Outcome.EQUIVALENT
    return Outcome.DIFFERENCE if contrasts.above[one, other] or contrasts.above[other, one] else Outcome.UNDECIDED
