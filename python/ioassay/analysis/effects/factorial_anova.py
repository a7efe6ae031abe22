"""All factors together: how much does each explain, and does the effect of one depend on another (interaction)?

Whether factors interact is read from the one model of the response (`stats/factorial.py`); all pairs of factors share
the risk. The analysis of variance gives shares of the variation, as publications have them; it decides nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ioassay.analysis.measurements.cells import Cells
from ioassay.factors import Design
from ioassay.records.record import Scalar
from ioassay.stats.condition_means import ConditionMeans, average, fit
from ioassay.stats.contrasts import Pair
from ioassay.stats.factorial import Effect, Factorial, Interaction, factorial, interaction
from ioassay.stats.result import Undefined


class Outcome(Enum):
    """Whether the effect of one factor depends on another."""

    NOT_ESTIMATED = "not estimated"
    """Without repetitions an interaction cannot be separated from chance."""
    PRESENT = "present"
    ABSENT = "absent"
    """The ratios between levels of one factor agree to within the margin over the other."""
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class FactorPair:
    """Two factors, averaged over all others; `levels` are those of the clearest contrast, two of each."""

    factors: tuple[str, str]
    levels: tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]
    interaction: Interaction

    @property
    def pair(self) -> Pair:
        """The clearest contrast."""
        return self.interaction.pair

    @property
    def outcome(self) -> Outcome:
        """What the contrasts of the two factors show."""
        if self.interaction.absent:
            return Outcome.ABSENT
        return Outcome.PRESENT if self.interaction.present else Outcome.UNDECIDED


@dataclass(frozen=True)
class JointEffects:
    """The factors `names` together: sums of squares of type II, and of type III where they exist.

    `pairs`: the interaction of each two factors, the clearest first; none without repetitions.
    """

    cells: Cells
    names: tuple[str, ...]
    second: Factorial
    third: Factorial | Undefined
    pairs: tuple[FactorPair, ...]

    @property
    def mains(self) -> list[Effect]:
        """The effects of single factors, largest first."""
        known = [effect for name in self.names if (effect := self.second.effect(name))]
        return sorted(known, key=lambda effect: -effect.eta2)

    def of(self, outcome: Outcome) -> list[FactorPair]:
        """The pairs of factors with this outcome."""
        return [pair for pair in self.pairs if pair.outcome == outcome]

    @property
    def outcome(self) -> Outcome:
        """PRESENT where some factors interact, ABSENT where certainly none do."""
        if not self.pairs:
            return Outcome.NOT_ESTIMATED
        return next(one for one in (Outcome.PRESENT, Outcome.UNDECIDED, Outcome.ABSENT) if self.of(one))


def joint_effects(found: Cells, confidence: float, *, exact: bool = False) -> JointEffects | None:
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
    model = fit(found.groups, [cell.repetition for cell in found.cells], exact=exact)
    pairs = [] if isinstance(model, Undefined) else _pairs(found, names, model, confidence)
    return JointEffects(found, tuple(names), second, third, tuple(sorted(pairs, key=lambda pair: pair.pair.p)))


def _pairs(found: Cells, names: list[str], model: ConditionMeans, confidence: float) -> list[FactorPair]:
    crossed, made = list(itertools.combinations(names, 2)), []
    for factors in crossed:
        means, grid = _averaged(found, factors, model)
        known = interaction(means, grid, confidence, share=len(crossed)) if grid else None
        if known is not None:
            first, second = (
                (found.factors[name][low], found.factors[name][high])
                for name, (low, high) in zip(factors, known.levels, strict=True)
            )
            made.append(FactorPair(factors, (first, second), known))
    return made


def _averaged(
    found: Cells, factors: tuple[str, str], model: ConditionMeans
) -> tuple[ConditionMeans, dict[tuple[int, int], int]]:
    """Means over the places of all other factors, by levels of the two: where each of these places has them."""
    others = [name for name in found.factors if name not in factors]
    design, places = Design(found.factors), dict[tuple[int, ...], dict[tuple[int, int], int]]()
    for index, cell in enumerate(found.cells):
        first, second = (design.rank(name, cell.point[name]) for name in factors)
        places.setdefault(tuple(design.rank(name, cell.point[name]) for name in others), {})[first, second] = index
    shared = sorted(set.intersection(*(set(place) for place in places.values())))
    if not shared:
        return model, {}
    table = [[place[corner] for place in places.values()] for corner in shared]
    return average(model, table), {corner: index for index, corner in enumerate(shared)}
