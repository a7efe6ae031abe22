"""Do the factors matter, and how much? Contrasts of the condition means, and the analyses of variance of publications.

One factor at a time within each combination of the others (`one_factor.py`), all together with their interaction
(`factorial_anova.py`), and the three analyses between conditions that are usually done. Over all log samples and over
each repetition's log samples the count of observations is false (naive); over the repetitions it is right. The
difference is shown, not hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.effects import factorial_anova, one_factor
from ioassay.analysis.effects.factorial_anova import JointEffects
from ioassay.analysis.effects.one_factor import FactorEffects
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.analysis.measurements.log_samples import Samples, of_cell, samples
from ioassay.stats.anova import OneWay, Welch, one_way, welch
from ioassay.stats.result import Floats, Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class AnovaVariants:
    """Over all log samples, over those of each repetition (number -> analysis), and over repetitions, twice."""

    cells: Cells
    all_samples: OneWay
    per_repetition: Mapping[int, OneWay]
    repetitions: OneWay | Undefined
    repetitions_welch: Welch | Undefined
    confidence: float

    def differs(self, analysis: OneWay) -> bool:
        """Return True if conditions differ by one of the analyses."""
        return analysis.p < 1 - self.confidence


Answer = FactorEffects | JointEffects | AnovaVariants


def analyse(records: Dataset, study: Study) -> list[Answer]:
    """Answers for each response that has values in two conditions or more."""
    confidence, exact = study.analysis.confidence, not records.is_measured(study)
    answers: list[Answer | None] = []
    for response in records.responses(study):
        measured = cells(records, study, response)
        if len(measured.cells) > 1:
            answers += one_factor.effects(records, study, response)
            answers.append(factorial_anova.joint_effects(measured, confidence, exact=exact))
            answers.append(_variants(measured, samples(records, study, response), confidence))
    return [answer for answer in answers if answer is not None]


def _variants(found: Cells, logged: Mapping[str, Samples], confidence: float) -> AnovaVariants | None:
    """All three where logs exist, None otherwise: the analysis over repetitions alone is `one_factor`'s."""
    runs = [of_cell(cell, logged) for cell in found.cells]
    present = [np.concatenate(group) for group in runs if group]
    everything = one_way(present) if len(present) > 1 else Undefined("fewer than two conditions have log samples")
    if isinstance(everything, Undefined):
        return None
    each = _each_repetition(found, logged)
    return AnovaVariants(found, everything, each, one_way(found.groups), welch(found.groups), confidence)


def _each_repetition(found: Cells, logged: Mapping[str, Samples]) -> dict[int, OneWay]:
    groups: dict[int, list[Floats]] = {}
    for cell in found.cells:
        for repetition, trial in zip(cell.repetition, cell.trials, strict=True):
            if trial in logged:
                groups.setdefault(int(repetition), []).append(logged[trial].value)
    done = {number: one_way(parts) for number, parts in sorted(groups.items())}
    return {number: one for number, one in done.items() if isinstance(one, OneWay)}
