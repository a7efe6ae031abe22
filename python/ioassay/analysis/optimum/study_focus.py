"""What a study of peaks or of a choice is about: what its summary opens with. The sweeps of a suite of such studies.

`[analysis] lead = "peak"`: the best value of each swept factor, of the first response with a best. `"choice"`: which
case is best, of all responses, and where the first stops gaining from a number. `optimum.py` and `alternatives.py`
compute it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay.analysis.measurements.cells import MissingConditions, missing
from ioassay.analysis.optimum import alternatives, optimum
from ioassay.analysis.optimum.alternatives import Choice
from ioassay.analysis.optimum.optimum import Peak
from ioassay.factors import CASE
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class Focus:
    """The peaks by swept factor, and of a study of a choice its choices, the first of `response`."""

    response: str
    peaks: Mapping[str, Sequence[Peak]]
    choices: Sequence[Choice] = ()

    def covers(self, response: str, factor: str) -> bool:
        """True if it answers for this response over this factor."""
        return response == self.response and (factor in self.peaks or (factor == CASE and bool(self.choices)))


def focus(records: Dataset, study: Study) -> Focus | None:
    """None where the study is about neither, or nothing with a best was measured at two levels."""
    if study.analysis.lead == "choice":
        choices = alternatives.choices(records, study)
        if not choices:
            return None
        found = optimum.measured(records, study, choices[0].response)
        numeric = {factor: peaks for factor, peaks in found.items() if peaks[0].numbers and len(peaks[0].cells) > 2}
        return Focus(choices[0].response, numeric, choices)
    if study.analysis.lead != "peak":
        return None
    known = [(response, optimum.measured(records, study, response)) for response in optimum.judged(records, study)]
    if not any(found for _, found in known):
        return None
    response, found = max(known, key=lambda pair: len(pair[1]))  # the first of those that compare most factors
    return Focus(response, {factor: found[factor] for factor in optimum.swept(study, found)})


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
    found, absent = focus(records, study), missing(records, study)
    peaks = [one for factor in found.peaks.values() for one in factor] if found else []
    return [Sweep(study, peak, len(peaks), absent) for peak in peaks] or [Sweep(study, None, 0, absent)]
