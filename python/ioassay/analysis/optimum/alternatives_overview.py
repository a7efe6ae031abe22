"""The choices of a run: the first response of each study with `[analysis] lead = "choice"`."""

from __future__ import annotations

from dataclasses import dataclass

from ioassay.analysis.optimum import alternatives
from ioassay.analysis.optimum.alternatives import Choice
from ioassay.store.dataset import Dataset


@dataclass(frozen=True)
class StudyChoice:
    """The choice of one study."""

    study: str
    choice: Choice


def together(records: Dataset) -> list[StudyChoice]:
    """One for each study of a choice that measured two cases."""
    found = [(study, alternatives.analyse(records, study)) for study in records.studies]
    return [StudyChoice(study.name, choices[0]) for study, choices in found if choices]
