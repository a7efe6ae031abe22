"""What a study of peaks or of a choice is about; the sweeps of a suite of such; the level that a later study takes.

`[analysis] lead = "peak"`: the best value of each swept factor, of the first response with a best. `"choice"`: which
case is best, of all responses, and where the first stops gaining from a number. `optimum.py` and `alternatives.py`
compute it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay.analysis import alternatives, optimum
from ioassay.analysis.alternatives import Choice
from ioassay.analysis.measurements.cells import MissingConditions, missing
from ioassay.analysis.optimum import Outcome, Peak
from ioassay.factors import CASE, same_level
from ioassay.records.record import Scalar
from ioassay.stats.result import Undefined
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
        choices = alternatives.analyse(records, study)
        if not choices:
            return None
        found = optimum.measured(records, study, choices[0].response)
        numeric = {factor: peaks for factor, peaks in found.items() if peaks[0].numbers and len(peaks[0].cells) > 2}
        return Focus(choices[0].response, numeric, choices)
    if study.analysis.lead != "peak":
        return None
    known = [(response, optimum.measured(records, study, response)) for response in optimum.judged(records, study)]
    response, found = max(known, key=lambda pair: len(pair[1]), default=("", {}))  # the first with most factors
    return Focus(response, {factor: found[factor] for factor in optimum.swept(study, found)}) if found else None


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
    sweeps: list[Sweep] = []
    for study in studies if len(studies) > 1 else ():
        found, absent = focus(records, study), missing(records, study)
        peaks = [one for factor in found.peaks.values() for one in factor] if found else []
        sweeps += [Sweep(study, peak, len(peaks), absent) for peak in peaks] or [Sweep(study, None, 0, absent)]
    return sweeps


# The level that a later study takes: the best one, or the smallest of those that are as good


@dataclass(frozen=True)
class BestChoice:
    """The level to take, and all that are as good, itself included; more than one where the best is not certain."""

    level: Scalar
    as_good: tuple[Scalar, ...]
    response: str

    @property
    def certain(self) -> bool:
        return len(self.as_good) == 1


def choose(
    records: Dataset, study: Study, factor: str, response: str = "", settings: Mapping[str, object] | None = None
) -> BestChoice | None:
    """The best level of a study's factor for a response, by default its first; None where nothing was measured.

    `settings` are the parameters of the study that takes it: of several places where the factor varies, those count
    whose other levels are these.
    """
    for name in [response] if response else optimum.judged(records, study):
        if peaks := optimum.measured(records, study, name).get(factor):
            alike = []
            for one in peaks:
                place = ((key, level, (settings or {}).get(key)) for key, level in one.part.where().items())
                if all(own is None or _lists([own], key, level) for key, level, own in place):
                    alike.append(one)
            first, *others = [_as_good(one) for one in alike or peaks]
            # The smallest level that is as good in every place; without such a one that of the first place.
            shared = [level for level in first if all(_lists(levels, factor, level) for levels in others)]
            return BestChoice((shared or first)[0], tuple(shared or first), name)
    return None


def _lists(levels: Sequence[object], factor: str, level: Scalar) -> bool:
    return any(isinstance(one, str | int | float) and same_level(factor, level, one) for one in levels)


def _as_good(one: Peak) -> list[Scalar]:
    """The levels that may be taken, in their order: where none is certainly better, all that may be best."""
    known = () if isinstance(one.levels, Undefined) else one.levels.as_good
    indices = one.candidates if one.outcome == Outcome.UNDECIDED else sorted({*known, one.best})
    return [one.cells[index].point[one.factor] for index in indices]
