"""Is it stable? Variation between repetitions, drift over the run, steady state, and what log samples seem to say.

Four answers for each response, each from a file of its own. The repetition is the unit of three; the analysis of
variance over log samples is naive, and given because it is what is usually done.
"""

from __future__ import annotations

from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.measurements.log_samples import samples
from ioassay.analysis.measurements.memo import memoized
from ioassay.analysis.stability import drift, naive_anova, repetition_variance, steadiness
from ioassay.analysis.stability.drift import RunDrift
from ioassay.analysis.stability.naive_anova import LogSampleComparison
from ioassay.analysis.stability.repetition_variance import Variation
from ioassay.analysis.stability.steadiness import Steadiness
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

Answer = Variation | LogSampleComparison | RunDrift | Steadiness


@memoized
def analyse(records: Dataset, study: Study) -> list[Answer]:
    """Variation, naive analysis, drift and steady state of each response; what does not apply is left out."""
    confidence = study.analysis.confidence
    answers: list[Answer | None] = []
    for response in records.responses(study):
        measured = cells(records, study, response)
        if not measured.cells:
            continue
        logged = samples(records, study, response)
        answers += [
            repetition_variance.between_repetitions(measured, confidence),
            naive_anova.among_repetitions(measured, logged, confidence),
            drift.over_run(measured, confidence),
            steadiness.steadiness(measured, logged),
        ]
    return [answer for answer in answers if answer is not None]
