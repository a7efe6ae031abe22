"""Is it stable? Variation between repetitions, drift over the run, steady state, and what log samples seem to say.

The repetition is the unit of the first three. The analysis of variance over log samples is naive, and given because it
is what is usually done, with what it is worth corrected. The same between conditions: `anova_variants.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.analysis.measurements.log_samples import Samples, of_cell, samples
from ioassay.analysis.measurements.memo import memoized
from ioassay.analysis.stability.drift import Drift, drift
from ioassay.analysis.stability.steadiness import Steadiness, steadiness
from ioassay.stats.anova import OneWay, one_way
from ioassay.stats.dependence import Components, Corrected, Dependence, components, corrected, dependence
from ioassay.stats.factorial import BLOCK, Effect, Factorial, factorial
from ioassay.stats.result import Undefined
from ioassay.stats.sample import Moments, moments
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

UNSTABLE_CV = 0.05
"""Above this coefficient of variation a condition counts as unstable: a difference of 5 % is what people act upon."""
LONG_ENOUGH = 50
"""Samples a run from which on its own mean, which is taken out, hides little of the dependence."""


@dataclass(frozen=True)
class ConditionVariation:
    """One condition that was repeated."""

    cell: Cell
    moments: Moments

    @property
    def cv(self) -> float:
        """Its coefficient of variation, 0 where it has none."""
        return self.moments.cv or 0.0


@dataclass(frozen=True)
class Variation:
    """The repeated conditions of one response. `blocks` compares whole passes over the conditions."""

    conditions: tuple[ConditionVariation, ...]
    blocks: Effect | Undefined
    confidence: float

    @property
    def unstable(self) -> list[str]:
        """Labels of the conditions that vary by more than UNSTABLE_CV."""
        return [condition.cell.label for condition in self.conditions if condition.cv > UNSTABLE_CV]

    @property
    def worst(self) -> ConditionVariation:
        """The condition that varies most."""
        return max(self.conditions, key=lambda condition: condition.cv)

    @property
    def median_cv(self) -> float:
        """The median of the conditions' coefficients of variation."""
        return float(np.median([condition.cv for condition in self.conditions]))

    @property
    def passes_differ(self) -> bool:
        """Return True if whole passes over the conditions differ significantly."""
        return isinstance(self.blocks, Effect) and self.blocks.p < 1 - self.confidence


@dataclass(frozen=True)
class Among:
    """One condition: do its repetitions differ? `naive` as usually done, `corrected` for the samples' dependence.

    `between_share`: share of the samples' variance that lies between repetitions (intraclass correlation), with
    what dependence alone would give taken out; 0 where nothing is left.
    """

    cell: Cell
    naive: OneWay
    dependence: Dependence | Undefined
    corrected: Corrected | Undefined
    components: Components | Undefined
    between_share: float | None


@dataclass(frozen=True)
class LogSampleComparison:
    """The repetitions of every condition that has logs of two or more."""

    conditions: tuple[Among, ...]
    confidence: float

    @property
    def naive_different(self) -> int:
        """Conditions whose repetitions seem to differ sample by sample."""
        return sum(among.naive.p < 1 - self.confidence for among in self.conditions)

    @property
    def corrected_different(self) -> int:
        """Conditions whose repetitions differ with the samples' dependence corrected."""
        tested = [among.corrected for among in self.conditions if isinstance(among.corrected, Corrected)]
        return sum(corrected.p < 1 - self.confidence for corrected in tested)

    @property
    def shortest(self) -> int:
        """Samples of the shortest run."""
        return min(among.naive.df_within // (among.naive.df_between + 1) + 1 for among in self.conditions)


@dataclass(frozen=True)
class Stability:
    """The answers for one response; None for what does not apply."""

    cells: Cells
    variation: Variation | None
    drift: Drift | None
    steadiness: Steadiness | None
    samples: LogSampleComparison | None

    @property
    def response(self) -> str:
        """What was measured."""
        return self.cells.response


@memoized
def analyse(records: Dataset, study: Study) -> list[Stability]:
    """Each response of which anything can be said."""
    confidence, answers = study.analysis.confidence, []
    for response in records.responses(study):
        found = cells(records, study, response)
        if found.cells:
            logged = samples(records, study, response)
            varied, compared = variation(found, confidence), log_sample_comparison(found, logged, confidence)
            answers.append(Stability(found, varied, drift(found, confidence), steadiness(found, logged), compared))
    return [one for one in answers if one.variation or one.drift or one.steadiness or one.samples]


def variation(found: Cells, confidence: float) -> Variation | None:
    """Coefficient of variation of each condition and the block effect; None where nothing was repeated."""
    described = [ConditionVariation(cell, moments(cell.measured)) for cell in found.cells if cell.measured.size > 1]
    return Variation(tuple(described), _block_effect(found), confidence) if described else None


def _block_effect(found: Cells) -> Effect | Undefined:
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


def log_sample_comparison(found: Cells, logged: Mapping[str, Samples], confidence: float) -> LogSampleComparison | None:
    """All conditions; None where no condition has logs of two repetitions."""
    judged = [among for cell in found.cells if (among := _among(cell, logged, confidence)) is not None]
    return LogSampleComparison(tuple(judged), confidence) if judged else None


def _among(cell: Cell, logged: Mapping[str, Samples], confidence: float) -> Among | None:
    runs = of_cell(cell, logged)
    naive = one_way(runs)
    if isinstance(naive, Undefined):
        return None
    found, parts, share = dependence(runs), components(runs, confidence), None
    if isinstance(parts, Components) and isinstance(found, Dependence):
        between = max(naive.ms_between - found.time * naive.ms_within, 0.0) / parts.mean_size
        share = between / (between + naive.ms_within)
    fixed = found if isinstance(found, Undefined) else corrected(naive, found)
    return Among(cell, naive, found, fixed, parts, share)
