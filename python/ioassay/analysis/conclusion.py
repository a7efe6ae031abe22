"""What a study comes to: for each response its shape, best level, average change or mean; what is missing.

Nearly all is measured elsewhere. What is decided here is which of it concludes a study, and in what order.
`[analysis] lead = "peak"`: the best value of each swept factor, of the first response with a best. `"choice"`: which
case is best, of all responses, and where the first stops gaining from a number. Also the sweeps of a suite of such
studies, and the level that a later study takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypedDict

from ioassay.analysis import CASES, alternatives, one_factor, optimum
from ioassay.analysis.alternatives import Choice
from ioassay.analysis.measurements.cells import Cell, Cells, MissingConditions, cells, interval, missing
from ioassay.analysis.one_factor import AverageChange, Effect, average_change
from ioassay.analysis.optimum import Peak
from ioassay.factors import CASE, same_level
from ioassay.records.record import Scalar
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Interval, Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class Mean:
    """The only condition of a response."""

    response: str
    cell: Cell
    mean: float
    interval: Interval | Undefined


class RatioRow(TypedDict):
    """What was compared: a mean at `level`, or on average there, divided by that at another."""

    response: str
    factor: str
    where: Mapping[str, Scalar]
    level: Scalar
    against: Scalar
    ratio: Ratio


@dataclass(frozen=True)
class CasePart:
    """What a pack makes of cases of a response (`CASES`): its own statements, and rows of the table of ratios."""

    cells: Cells

    def statements(self) -> Iterator[Any]:
        raise NotImplementedError

    def ratios(self) -> Iterator[RatioRow]:
        raise NotImplementedError


Part = Mean | Effect | AverageChange | CasePart


@dataclass(frozen=True)
class Conclusion:
    """What one study comes to. `parts` in the order of its responses and factors, without what the focus answers."""

    study: Study
    focus: Focus | None
    parts: tuple[Part, ...]
    missing: tuple[MissingConditions, ...]


def analyse(records: Dataset, study: Study) -> list[Conclusion]:
    """One conclusion; none where no trial was planned, or nothing says anything."""
    lead, absent = focus(records, study), missing(records, study)
    # Of a choice its first response alone, since the choice itself is about all.
    responses = [lead.response] if lead is not None and lead.choices else records.responses(study)
    measured = [found for response in responses if (found := cells(records, study, response)).cells]
    parts = tuple(part for response in measured for part in _parts(records, study, response, lead))
    return [Conclusion(study, lead, parts, tuple(absent))] if parts or absent or lead else []


def _parts(records: Dataset, study: Study, measured: Cells, lead: Focus | None) -> Iterator[Part]:
    confidence, response = study.analysis.confidence, measured.response
    if len(measured.cells) == 1:
        cell = measured.cells[0]
        yield Mean(response, cell, cell.mean, interval(response, cell, confidence))
        return
    for group in one_factor.effects(records, study, response):
        factor, effects = group.factor, group.effects
        leads = lead is not None and lead.response == response
        own = () if lead and leads and (factor in lead.peaks or (factor == CASE and lead.choices)) else effects
        if effects[0].ordered:
            yield from own
        elif len(measured.factors[factor]) == 2 and len(effects) > 1:
            first, second = measured.factors[factor]
            change = average_change(measured, factor, (first, second), confidence)
            if isinstance(change, AverageChange):
                yield change
        elif study.analysis.lead != "choice":  # which case is best is the choice's; what a case does would hide it
            families, packs = [effect.family for effect in effects], CASES.values() if factor == CASE else ()
            yield from [part for pack in packs for part in import_module(pack).parts(measured, families, study)] or own


@dataclass(frozen=True)
class Focus:
    """The peaks by swept factor, and of a study of a choice its choices, the first of `response`."""

    response: str
    peaks: Mapping[str, Sequence[Peak]]
    choices: Sequence[Choice] = ()


def focus(records: Dataset, study: Study) -> Focus | None:
    """None where the study is about neither, or nothing with a best was measured at two levels."""
    if study.analysis.lead == "choice":
        if not (choices := alternatives.analyse(records, study)):
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
    indices = one.candidates if one.outcome == optimum.Outcome.UNDECIDED else sorted({*known, one.best})
    return [one.cells[index].point[one.factor] for index in indices]
