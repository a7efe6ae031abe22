"""What a study comes to: for each response its shape, best level, average change or mean; what is missing.

Everything here is measured elsewhere. What is decided here is which of it concludes a study, and in what order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ioassay.analysis.effects import block_size_mix, one_factor
from ioassay.analysis.effects.average_change import AverageChange, average_change
from ioassay.analysis.effects.block_size_mix import Mix
from ioassay.analysis.effects.one_factor import Effect, Outcome
from ioassay.analysis.measurements.cells import Cell, Cells, MissingConditions, cells, interval, missing
from ioassay.analysis.optimum import study_focus
from ioassay.analysis.optimum.study_focus import Focus
from ioassay.factors import CASE
from ioassay.stats.contrasts import MARGIN, Ratio, equivalence
from ioassay.stats.result import Interval, Undefined, mean_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class Mean:
    """The only condition of a response."""

    response: str
    cell: Cell
    mean: float
    interval: Interval | Undefined


def ratio_outcome(ratio: Ratio) -> Outcome:
    """What a single ratio shows: that it is not 1, that it is within the margin of 1, or neither."""
    if equivalence(ratio, MARGIN, 1 - ratio.interval.confidence).equivalent:
        return Outcome.EQUIVALENT
    return Outcome.UNDECIDED if ratio.interval.low <= 1 <= ratio.interval.high else Outcome.DIFFERENCE


Part = Mean | Effect | AverageChange | Mix


@dataclass(frozen=True)
class Conclusion:
    """What one study comes to. `parts` in the order of its responses and factors, without what the focus answers."""

    study: Study
    focus: Focus | None
    parts: tuple[Part, ...]
    missing: tuple[MissingConditions, ...]


def analyse(records: Dataset, study: Study) -> list[Conclusion]:
    """One conclusion; none where no trial was planned, or nothing says anything."""
    focus, absent = study_focus.focus(records, study), missing(records, study)
    # Of a choice its first response alone, since the choice itself is about all.
    responses = [focus.response] if focus is not None and focus.choices else records.responses(study)
    measured = [found for response in responses if (found := cells(records, study, response)).cells]
    parts = tuple(part for response in measured for part in _parts(records, study, response, focus))
    return [Conclusion(study, focus, parts, tuple(absent))] if parts or absent or focus else []


def _parts(records: Dataset, study: Study, measured: Cells, focus: Focus | None) -> Iterator[Part]:
    confidence, response = study.analysis.confidence, measured.response
    if len(measured.cells) == 1:
        cell = measured.cells[0]
        yield Mean(response, cell, mean_of(cell.values), interval(response, cell, confidence))
        return
    for group in one_factor.effects(records, study, response):
        factor, effects = group.factor, group.effects
        own = () if focus is not None and focus.covers(response, factor) else effects
        if effects[0].ordered:
            yield from own
        elif len(measured.factors[factor]) == 2 and len(effects) > 1:
            first, second = measured.factors[factor]
            exact = not records.is_measured(study)
            change = average_change(measured, factor, (first, second), confidence, exact=exact)
            if isinstance(change, AverageChange):
                yield change
        elif study.analysis.lead != "choice":  # which case is best is the choice's; what a case does would hide it
            families = [effect.family for effect in effects]
            yield from (block_size_mix.mixes(measured, families, study) if factor == CASE else []) or own
