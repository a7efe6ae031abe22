"""Do the factors matter, and how much? Contrasts of the condition means, and the analyses of variance of publications.

One factor at a time within each combination of the others (`one_factor.py`), all together with their interaction
(`factorial_anova.py`), and the three analyses that are usually done (`anova_variants.py`).
"""

from __future__ import annotations

from ioassay.analysis.effects import anova_variants, factorial_anova, one_factor
from ioassay.analysis.effects.anova_variants import AnovaVariants
from ioassay.analysis.effects.factorial_anova import JointEffects
from ioassay.analysis.effects.one_factor import FactorEffects
from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.measurements.log_samples import samples
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

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
            answers.append(anova_variants.variants(measured, samples(records, study, response), confidence))
    return [answer for answer in answers if answer is not None]
