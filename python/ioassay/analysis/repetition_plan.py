"""How many repetitions a study needs so that it shows differences of a given size, before it runs.

The noise is that of an earlier run of the same study (a pilot of two repetitions will do), or assumed. The number is
that of the factor that needs most: the more levels and places share the risk, the more repetitions each takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ioassay.analysis.measurements.cells import cells
from ioassay.factors import level_axis_numbers
from ioassay.stats.condition_means import ConditionMeans, Scale, fit
from ioassay.stats.contrasts import repetitions_for
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

ASSUMED = (0.01, 0.03, 0.1)
"""Noises to plan for where none is known: a quiet machine, a usual one, a busy one."""


@dataclass(frozen=True)
class RepetitionPlan:
    """Repetitions of each point that show a difference of `margin`, at `noise` (deviation as a share of the mean).

    `response` is empty where the noise is assumed.
    """

    study: str
    response: str
    noise: float
    margin: float
    repetitions: int


def assumed(study: Study, margin: float, noises: Sequence[float] = ASSUMED) -> list[RepetitionPlan]:
    return [RepetitionPlan(study.name, "", noise, margin, _needed(study, margin, noise)) for noise in noises]


def measured(study: Study, margin: float, earlier: Dataset) -> list[RepetitionPlan]:
    """One for each response of the study of that name in an earlier run that repeats a condition; else none."""
    known = {one.name: one for one in earlier.studies}.get(study.name)
    if known is None:
        return []
    plans = []
    for response in earlier.responses(known):
        found = cells(earlier, known, response)
        model = fit(found.groups, [cell.repetition for cell in found.cells]) if found.cells else None
        if isinstance(model, ConditionMeans) and model.scale == Scale.LOG:
            noise = math.sqrt(float((model.squared_errors * model.sizes).mean()))
            plans.append(RepetitionPlan(study.name, response, noise, margin, _needed(study, margin, noise)))
    return plans


def _needed(study: Study, margin: float, noise: float) -> int:
    """The most that any factor needs; of a study without factors the number for two conditions."""
    sizes = {factor: len(levels) for factor, levels in study.levels.items() if len(levels) > 1}
    points = math.prod(sizes.values())
    confidence = study.analysis.confidence
    numbers = [
        repetitions_for(
            noise,
            size,
            confidence,
            margin=margin,
            lines=size > 2 and level_axis_numbers(factor, study.levels[factor]) is not None,
            share=points // size,
        )
        for factor, size in sizes.items()
    ]
    return max(numbers, default=repetitions_for(noise, 2, confidence, margin=margin))
