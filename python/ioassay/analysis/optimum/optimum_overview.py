"""The sweeps of a suite, in studies that are about peaks (`study_focus.py`), where there are several of these."""

from __future__ import annotations

from dataclasses import dataclass

from ioassay.analysis.measurements.cells import MissingConditions, missing
from ioassay.analysis.optimum import study_focus
from ioassay.analysis.optimum.optimum import Peak
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class Sweep:
    """One of the `places` where a study varies its factor; `peak` is None where nothing was measured."""

    study: Study
    peak: Peak | None
    places: int
    missing: list[MissingConditions]


def together(records: Dataset) -> list[Sweep]:
    """All sweeps of a run of two studies of peaks or more."""
    studies = [study for study in records.studies if study.analysis.lead == "peak"]
    return [sweep for study in studies for sweep in _sweeps(records, study)] if len(studies) > 1 else []


def _sweeps(records: Dataset, study: Study) -> list[Sweep]:
    found, absent = study_focus.focus(records, study), missing(records, study)
    peaks = [one for factor in found.peaks.values() for one in factor] if found else []
    if not peaks:
        return [Sweep(study, None, 0, absent)]
    return [Sweep(study, peak, len(peaks), absent) for peak in peaks]
