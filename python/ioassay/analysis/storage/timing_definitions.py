"""Which timing definition matches the claims of single passes? Three, compared with what the kernel saw of them.

For tools that time passes over a file (the driver `filesuite`, IOzone), watched at level syscalls: first to last call,
the sum of call times, and open to close. These differences are of a claim from what the kernel saw of the same pass,
and are not tested over repetitions. Where folders vary, also which of them is faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ioassay.analysis.claims.timing_agreement import EXPLAINED, Cell, Status, cells, middle
from ioassay.analysis.measurements import passes
from ioassay.analysis.measurements.passes import SESSION, SPAN, SUM, Pass
from ioassay.analysis.storage import folder_comparison
from ioassay.analysis.storage.folder_comparison import Folders
from ioassay.factors import level_key
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


class Outcome(StrEnum):
    """Whether the claims agree with first to last call."""

    UNWATCHED = "unwatched"
    """No trial has timed calls."""
    AGREES = "agrees"
    """Every cell is within 1 %."""
    EXPLAINED = "explained"
    """Every cell is within 1 % or explained."""
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class TimingDefinitions:
    """The cells of a study with their watched passes; `seen` are those whose calls the witness timed.

    `without`: cell key -> claimed rate in trials without the witness. `folders`: None where fewer than two have passes.
    """

    study: str
    cells: Sequence[Cell]
    seen: Sequence[Pass]
    without: Mapping[tuple[Any, ...], float | None]
    slowdown: Mapping[str, float]
    """Test -> the claim under the witness over that without it, where both were measured."""
    folders: Folders | None

    @property
    def sized(self) -> bool:
        """True if the passes are over several sizes."""
        return len({cell.size for cell in self.cells}) > 1

    @property
    def counts(self) -> Counter[Status]:
        """The number of cells of each status."""
        return Counter(cell.status for cell in self.cells)

    @property
    def outcome(self) -> Outcome:
        """Whether the claims agree with first to last call."""
        counts = self.counts
        if not self.seen:
            return Outcome.UNWATCHED
        if counts[Status.UNEXPLAINED] + counts[Status.UNSEEN]:
            return Outcome.UNEXPLAINED
        return Outcome.EXPLAINED if any(counts[status] for status in EXPLAINED) else Outcome.AGREES

    @property
    def of_largest(self) -> list[Pass]:
        """The passes over the largest file: of small ones no definition comes near."""
        largest = max(one.size[0] for one in self.seen)
        return [one for one in self.seen if one.size[0] == largest]

    def differences(self, definition: str) -> list[float]:
        """From the claim, as shares of it, of the passes over the largest file."""
        return [found for one in self.of_largest if (found := one.differences().get(definition)) is not None]

    @property
    def span_is_nearest(self) -> bool:
        """True if first to last call lies nearest to the claims."""
        medians = {way: abs(middle(found) or 0.0) for way in (SPAN, SUM, SESSION) if (found := self.differences(way))}
        return SPAN in medians and all(medians[SPAN] < medians[way] for way in medians if way != SPAN)


def analyse(records: Dataset, study: Study) -> list[TimingDefinitions]:
    """One answer for a study about passes, none for others."""
    if not passes.is_about(records, study):
        return []
    watched = passes.witnessed_passes(records, study)
    counted = passes.counted(records, study)
    found = cells(watched, study)
    return [
        TimingDefinitions(
            study=study.name,
            cells=found,
            seen=[one for one in watched if one.seen is not None],
            without={cell_key(cell): _claimed(cell.passes) for cell in cells(counted, study)},
            slowdown=_slowdown(study, found, counted),
            folders=folder_comparison.compare(study, counted),
        )
    ]


def _slowdown(study: Study, found: Sequence[Cell], counted: Sequence[Pass]) -> dict[str, float]:
    """By test, the watched claims over those without the witness: the middle of each, over all cells."""
    without = {cell_key(cell): _claimed(cell.passes) for cell in cells(counted, study)}
    trials = {own.trial for own in counted}
    ratios: dict[str, list[float]] = {}
    for cell in found:
        watched, other = _claimed(cell.passes), without.get(cell_key(cell))
        if watched and other and not {own.trial for own in cell.passes} & trials:
            ratios.setdefault(cell.test, []).append(watched / other)
    return {test: middle(values) or 0.0 for test, values in ratios.items()}


def cell_key(cell: Cell) -> tuple[Any, ...]:
    """Equal for the same test over the same size at the same point."""
    return (*(level_key(name, level) for name, level in cell.point.items()), cell.test, cell.size)


def _claimed(own: Sequence[Pass]) -> float | None:
    return middle([one.claim.rate_bytes_per_s for one in own])
