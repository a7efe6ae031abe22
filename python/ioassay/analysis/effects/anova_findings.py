"""Do the factors matter, and how much? Analyses of variance between conditions, over repetitions.

One factor at a time within each combination of the others (`one_factor.py`), all together with their interaction
(`factorial_anova.py`), and the three analyses that are usually done, side by side (`anova_variants.py`).
"""

from __future__ import annotations

from ioassay.analysis.effects import anova_variants, factorial_anova, one_factor
from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.measurements.log_samples import samples
from ioassay.narrative.finding import Finding
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """Findings for each response that has values in two conditions or more."""
    confidence = study.analysis.confidence
    findings: list[Finding] = []
    for response in records.responses(study):
        found = cells(records, study, response)
        if len(found.cells) < 2:
            continue
        findings += one_factor.effects(found, confidence)
        findings += factorial_anova.effects(found, confidence)
        findings += anova_variants.side_by_side(found, samples(records, study, response), confidence)
    return findings
