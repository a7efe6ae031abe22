"""Do the factors matter, and how much? Analyses of variance between conditions, over repetitions.

One factor at a time within each combination of the others (`one_factor.py`), all together with their interaction
(`factors.py`), and the three analyses that are usually done, side by side (`threeways.py`).
"""

from __future__ import annotations

from ioassay.analysis import asked, factors, one_factor, threeways
from ioassay.analysis.cells import cells
from ioassay.analysis.finding import Finding
from ioassay.analysis.series import samples
from ioassay.record import RecordSet


def analyse(records: RecordSet, study: asked.Study) -> list[Finding]:
    """Findings for each response that has values in two conditions or more."""
    confidence = asked.confidence(study)
    findings: list[Finding] = []
    for response in asked.responses(records, study):
        found = cells(records, study, response)
        if len(found.cells) < 2:
            continue
        findings += one_factor.effects(found, confidence)
        findings += factors.effects(found, confidence)
        findings += threeways.side_by_side(found, samples(records, study, response), confidence)
    return findings
