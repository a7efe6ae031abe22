"""How much repetitions of one condition differ, and whether whole passes over the conditions do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.stats.factorial import BLOCK, Effect, Factorial, factorial
from ioassay.stats.result import Undefined
from ioassay.stats.sample import Moments, moments

UNSTABLE_CV = 0.05
"""Above this coefficient of variation a condition counts as unstable: a difference of 5 % is what people act upon."""


class Stability(Enum):
    """Whether the repetitions of every condition agree."""

    STABLE = "stable"
    UNSTABLE = "unstable"


@dataclass(frozen=True)
class ConditionVariation:
    """One condition that was repeated; `cv` is its coefficient of variation, 0 where it has none."""

    cell: Cell
    moments: Moments

    @property
    def cv(self) -> float:
        """Deviation as a share of the mean."""
        return self.moments.cv or 0.0


@dataclass(frozen=True)
class Variation:
    """The repeated conditions of one response. `blocks` compares whole passes over the conditions."""

    cells: Cells
    conditions: tuple[ConditionVariation, ...]
    blocks: Effect | Undefined
    confidence: float

    @property
    def unstable(self) -> list[str]:
        """Labels of the conditions that vary by more than UNSTABLE_CV."""
        return [condition.cell.label for condition in self.conditions if condition.cv > UNSTABLE_CV]

    @property
    def outcome(self) -> Stability:
        """STABLE where no condition is unstable."""
        return Stability.UNSTABLE if self.unstable else Stability.STABLE

    @property
    def worst(self) -> ConditionVariation:
        """The condition that varies most."""
        return max(self.conditions, key=lambda condition: condition.cv)

    @property
    def median_cv(self) -> float:
        """The median of the conditions' coefficients of variation."""
        return float(np.median([condition.cv for condition in self.conditions]))

    @property
    def pooled_stddev(self) -> float:
        """Deviation of one repetition from its condition's mean, pooled by degrees of freedom."""
        described = [condition.moments for condition in self.conditions]
        squares = sum((part.stddev or 0.0) ** 2 * (part.n - 1) for part in described)
        return float(np.sqrt(squares / sum(part.n - 1 for part in described)))

    @property
    def passes_differ(self) -> bool:
        """Return True if whole passes over the conditions differ significantly."""
        return isinstance(self.blocks, Effect) and self.blocks.p < 1 - self.confidence


def between_repetitions(found: Cells, confidence: float) -> Variation | None:
    """Coefficient of variation of each condition and the block effect; None when nothing was repeated."""
    described = [ConditionVariation(cell, moments(cell.measured)) for cell in found.cells if cell.measured.size > 1]
    return Variation(found, tuple(described), block_effect(found), confidence) if described else None


def block_effect(found: Cells) -> Effect | Undefined:
    """Do whole passes over the conditions differ? The block's line of an analysis of ln(value)."""
    everything = np.concatenate([cell.measured for cell in found.cells])
    if everything.min() <= 0:
        return Undefined("values at or below 0 have no logarithm")
    labels = [cell.label for cell in found.cells for _ in cell.measured]
    passes = [int(number) for cell in found.cells for number in cell.repetition]
    done = factorial(np.log(everything), {"condition": labels}, block=passes, interactions=False)
    if not isinstance(done, Factorial):
        return done
    return done.effect(BLOCK) or Undefined("each condition ran in passes of its own")
