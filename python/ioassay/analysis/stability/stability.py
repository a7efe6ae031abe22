"""Is it stable? Variation between repetitions, drift over the run, steady state, and what log samples seem to say.

Four findings a response, each from a file of its own. The repetition is the unit of the first three; the naive
analysis of variance over log samples stands beside them, labelled, because it is what is usually done.
"""

from __future__ import annotations

from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.measurements.log_samples import samples
from ioassay.analysis.stability import drift, naive_anova, repetition_variance, steady_state_findings
from ioassay.narrative.finding import Finding
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

QUESTION = "stability"


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """Variation, naive analysis, drift and steady state of each response; what does not apply is left out."""
    confidence = study.analysis.confidence
    findings: list[Finding | None] = []
    for response in records.responses(study):
        found = cells(records, study, response)
        if not found.cells:
            continue
        logged = samples(records, study, response)
        findings += [
            repetition_variance.between_repetitions(found, confidence),
            naive_anova.among_repetitions(found, logged, confidence),
            drift.over_run(found, confidence),
            steady_state_findings.steady(found, logged),
        ]
    return [finding for finding in findings if finding is not None]
