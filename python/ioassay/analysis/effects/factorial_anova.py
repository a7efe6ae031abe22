"""All factors together: does each matter, and does the effect of one depend on the other (interaction)?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ioassay.analysis.measurements.cells import Cells
from ioassay.stats.factorial import Effect, Factorial, factorial
from ioassay.stats.result import Undefined


class Interaction(Enum):
    """Whether the effect of one factor depends on another."""

    NOT_ESTIMATED = "not estimated"
    """Without repetitions an interaction cannot be separated from chance."""
    NOT_SIGNIFICANT = "not significant"
    SIGNIFICANT = "significant"


@dataclass(frozen=True)
class JointEffects:
    """The factors `names` together: sums of squares of type II, and of type III where they exist."""

    cells: Cells
    names: tuple[str, ...]
    second: Factorial
    third: Factorial | Undefined
    confidence: float

    @property
    def mains(self) -> list[Effect]:
        """The effects of single factors, largest first."""
        known = [effect for name in self.names if (effect := self.second.effect(name))]
        return sorted(known, key=lambda effect: -effect.eta2)

    @property
    def strongest(self) -> Effect | None:
        """The largest interaction."""
        crossed = [effect for effect in self.second.effects if "×" in effect.term]
        return max(crossed, key=lambda effect: effect.eta2, default=None)

    @property
    def outcome(self) -> Interaction:
        """That of the largest interaction."""
        if self.strongest is None:
            return Interaction.NOT_ESTIMATED
        significant = self.strongest.p < 1 - self.confidence
        return Interaction.SIGNIFICANT if significant else Interaction.NOT_SIGNIFICANT


def joint_effects(found: Cells, confidence: float) -> JointEffects | None:
    """All factors together; None where fewer than two vary, or no analysis is possible."""
    names = found.varying()
    if len(names) < 2:
        return None
    columns = {name: found.column(name) for name in names}
    values = np.concatenate(found.groups)
    passes = [int(number) for cell in found.cells for number in cell.repetition]
    second = factorial(values, columns, block=passes)
    if isinstance(second, Undefined):
        second = factorial(values, columns, block=passes, interactions=False)
    if isinstance(second, Undefined):
        return None
    third = factorial(values, columns, block=passes, kind=3, interactions=second.interactions)
    return JointEffects(found, tuple(names), second, third, confidence)
