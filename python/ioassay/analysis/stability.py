"""Is it stable? Variation between repetitions, drift over the run, steady state, and what log samples seem to say.

Four findings a response, each from a file of its own. The repetition is the unit of the first three; the naive
analysis of variance over log samples stands beside them, labelled, because it is what is usually done.
"""

from __future__ import annotations

from ioassay.analysis import asked, drift, naive, steadiness, variation
from ioassay.analysis.cells import cells
from ioassay.analysis.finding import Finding
from ioassay.analysis.series import samples
from ioassay.record import RecordSet

QUESTION = "stability"


def analyse(records: RecordSet, study: asked.Study) -> list[Finding]:
    """Variation, naive analysis, drift and steady state of each response; what does not apply is left out."""
    confidence = asked.confidence(study)
    findings: list[Finding | None] = []
    for response in asked.responses(records, study):
        found = cells(records, study, response)
        if not found.cells:
            continue
        logged = samples(records, study, response)
        findings += [
            variation.between_repetitions(found, confidence),
            naive.among_repetitions(found, logged, confidence),
            drift.over_run(found, confidence),
            steadiness.steady(found, logged),
        ]
    return [finding for finding in findings if finding is not None]
