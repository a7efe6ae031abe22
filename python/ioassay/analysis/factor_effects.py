"""Do the factors matter, and how much? Contrasts of the condition means, and the analyses of variance of publications.

One factor at a time within each combination of the others (`one_factor.py`), all together with their interaction, and
the three analyses between conditions that are usually done. Over all log samples and over each repetition's log samples
the count of observations is false (naive); over the repetitions it is right. The difference is shown, not hidden.

Whether factors interact is read from the one model of the response (`stats/linear_models.py`); all pairs of factors
share the risk. The analysis of variance gives shares of the variation, as publications have them; it decides nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ioassay.analysis import one_factor
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.analysis.measurements.log_samples import Samples, samples
from ioassay.analysis.one_factor import FactorEffects
from ioassay.factors import level_key
from ioassay.records.record import Scalar
from ioassay.stats.condition_means import ConditionMeans, average
from ioassay.stats.linear_models import Factorial, Interaction, OneWay, factorial, interaction, one_way
from ioassay.stats.result import Floats, Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class AnovaVariants:
    """Over all log samples, over those of each repetition (number -> analysis), and over repetitions."""

    cells: Cells
    all_samples: OneWay
    per_repetition: Mapping[int, OneWay]
    repetitions: OneWay | Undefined
    confidence: float

    def differs(self, analysis: OneWay) -> bool:
        return analysis.p < 1 - self.confidence


class InteractionOutcome(Enum):
    """Whether the effect of one factor depends on another."""

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
    def outcome(self) -> InteractionOutcome:
        if self.interaction.absent:
            return InteractionOutcome.ABSENT
        return InteractionOutcome.PRESENT if self.interaction.present else InteractionOutcome.UNDECIDED


@dataclass(frozen=True)
class JointEffects:
    """The factors `names` together, and their sums of squares.

    `pairs`: the interaction of each two factors, the clearest first; none without repetitions.
    """

    cells: Cells
    names: tuple[str, ...]
    sums: Factorial
    pairs: tuple[FactorPair, ...]

    def of(self, outcome: InteractionOutcome) -> list[FactorPair]:
        return [pair for pair in self.pairs if pair.outcome == outcome]

    @property
    def outcome(self) -> InteractionOutcome:
        """PRESENT where some factors interact, ABSENT where certainly none do; undecided without repetitions."""
        ranked = (InteractionOutcome.PRESENT, InteractionOutcome.UNDECIDED, InteractionOutcome.ABSENT)
        return next((one for one in ranked if self.of(one)), InteractionOutcome.UNDECIDED)


def joint_effects(found: Cells, confidence: float) -> JointEffects | None:
    """All factors together; None where fewer than two vary, or no analysis is possible."""
    names = found.varying()
    if len(names) < 2:
        return None
    columns = {name: found.column(name) for name in names}
    values = np.concatenate(found.groups)
    passes = [int(number) for cell in found.cells for number in cell.repetition]
    sums = factorial(values, columns, block=passes)
    if isinstance(sums, Undefined):
        sums = factorial(values, columns, block=passes, interactions=False)
    if isinstance(sums, Undefined):
        return None
    model, pairs = found.fit(), []
    ranks = {name: [level_key(name, level) for level in found.factors[name]] for name in names}
    crossed = list(itertools.combinations(names, 2)) if isinstance(model, ConditionMeans) else []
    for factors in crossed:
        # Means over the places of all other factors, by levels of the two: where each of these places has them.
        rows = found.grid(*factors)
        corners = itertools.product(*(ranks[name] for name in factors))
        shared = [corner for corner in corners if all(corner in row for row in rows)]
        if not shared or isinstance(model, Undefined):
            continue
        one, other = (ranks[name] for name in factors)
        grid = {(one.index(first), other.index(second)): at for at, (first, second) in enumerate(shared)}
        means = average(model, [[row[corner] for row in rows] for corner in shared])
        if known := interaction(means, grid, confidence, share=len(crossed)):
            ends = [
                (found.factors[name][low], found.factors[name][high])
                for name, (low, high) in zip(factors, known.levels, strict=True)
            ]
            pairs.append(FactorPair(factors, (ends[0], ends[1]), known))
    return JointEffects(found, tuple(names), sums, tuple(sorted(pairs, key=lambda pair: pair.interaction.pair.p)))


Answer = FactorEffects | JointEffects | AnovaVariants


def analyse(records: Dataset, study: Study) -> list[Answer]:
    """Answers for each response that has values in two conditions or more."""
    confidence, answers = study.analysis.confidence, list[Answer | None]()
    for response in records.responses(study):
        measured = cells(records, study, response)
        if len(measured.cells) > 1:
            answers += one_factor.effects(records, study, response)
            answers.append(joint_effects(measured, confidence))
            answers.append(_variants(measured, samples(records, study, response), confidence))
    return [answer for answer in answers if answer is not None]


def _variants(found: Cells, logged: Mapping[str, Samples], confidence: float) -> AnovaVariants | None:
    """All three where logs exist, None otherwise: the analysis over repetitions alone is `one_factor`'s."""
    conditions: list[list[Floats]] = []
    repetitions: dict[int, list[Floats]] = {}
    for cell in found.cells:
        runs = [
            (int(one), logged[trial].value)
            for one, trial in zip(cell.repetition, cell.trials, strict=True)
            if trial in logged
        ]
        conditions.append([values for _, values in runs])
        for number, values in runs:
            repetitions.setdefault(number, []).append(values)
    everything = one_way([np.concatenate(runs) for runs in conditions if runs])
    if isinstance(everything, Undefined):
        return None
    done = {number: one_way(parts) for number, parts in sorted(repetitions.items())}
    each = {number: one for number, one in done.items() if isinstance(one, OneWay)}
    return AnovaVariants(found, everything, each, one_way(found.groups), confidence)
