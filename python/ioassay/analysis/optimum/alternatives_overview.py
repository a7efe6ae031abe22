"""The choices of a run: the first response of each study with `[analysis] lead = "choice"`."""

from __future__ import annotations

from dataclasses import dataclass

from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.analysis.optimum import alternatives
from ioassay.analysis.optimum.alternatives import Choice
from ioassay.analysis.storage import path_costs
from ioassay.analysis.storage.path_costs import Setting
from ioassay.store.dataset import Dataset

LATENCY = "read.clat.mean"
"""What is published of access paths, beside requests a second."""


@dataclass(frozen=True)
class StudyChoice:
    """The choice of one study. `latency`: mean completion latency of reads, of the same conditions.

    `setting`: what the cases have in common, where they are paths to a drive.
    """

    study: str
    choice: Choice
    setting: Setting | None = None
    latency: Cells | None = None


def together(records: Dataset) -> list[StudyChoice]:
    """One for each study of a choice that measured two cases."""
    found = [(study, alternatives.analyse(records, study)) for study in records.studies]
    return [
        StudyChoice(study.name, each[0], path_costs.setting(records, study), cells(records, study, LATENCY))
        for study, each in found
        if each
    ]
