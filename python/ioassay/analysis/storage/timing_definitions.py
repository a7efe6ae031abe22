"""Do claims of single passes agree with the kernel's first to last call, by which definition of time, and if not, why?

For tools that time passes over a file (the driver `filesuite`, IOzone), watched at level syscalls. A cell is one test
over one size at one point; it is judged by its middle repetition, so that a single one in which the process lost its
processor between a clock and a call decides nothing. What is beyond 1 % is explained only by what was recorded: how
short the interval was, what the tool says of its clock, what the witness lost. Differences are of a claim from what the
kernel saw of the same pass, and are not tested over repetitions.

Where folders vary, all others are compared with the first, test by test and mode by mode, by the one model of the
rates of trials that count; a factor over several sizes is the geometric mean of theirs. All comparisons share the risk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from ioassay.analysis.effects.average_change import AverageChange, average_change
from ioassay.analysis.effects.one_factor import Outcome as Difference
from ioassay.analysis.measurements import cells as measurements
from ioassay.analysis.measurements import passes
from ioassay.analysis.measurements.passes import RATE, SESSION, SPAN, SUM, WATCHED, Pass
from ioassay.factors import level_key
from ioassay.records.record import Scalar
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Undefined
from ioassay.stats.sample import median_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.verify import session_times
from ioassay.verify.verdict import HELD_UP, INCOMPLETE

WITHIN = 0.01
"""Of the claim: what 'agrees' means."""
WAYS = (SPAN, SUM, SESSION)
"""The definitions of time."""
PATH = "target.path"
_SIZE = "size"
_CLOCK_DOUBTS = frozenset({"clock-clamp", "poor-timer", "whole-microseconds"})


class Status(StrEnum):
    """Whether a cell agrees, and what explains it if not."""

    AGREES = "agrees"
    SHORT = "short"
    """The interval is so short that the clock's step and the time between clock and call exceed 1 %."""
    RECORD = "record"
    """One large record is filled before its first call, or checked after its last, within the interval."""
    HELD = "held"
    """The process lost its CPU between a clock and a call: in some repetitions only, or while others used it."""
    CLOCK = "clock"
    """The benchmark's output says that its clock is too coarse for the interval."""
    LOST = "lost"
    """The witness lost events."""
    UNSEEN = "unseen"
    """The witness could not identify the calls."""
    UNEXPLAINED = "unexplained"


EXPLAINED = (Status.SHORT, Status.RECORD, Status.HELD, Status.CLOCK, Status.LOST)


@dataclass(frozen=True)
class Cell:
    """One test over one size at one point: its watched passes, in the order in which they ran."""

    point: Mapping[str, Scalar]
    test: str
    size: tuple[int, int]
    passes: Sequence[Pass]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same test over the same size at the same point."""
        return (*(level_key(name, level) for name, level in self.point.items()), self.test, self.size)

    @property
    def difference(self) -> float | None:
        """First to last call against the claim, as a share of it: the middle repetition."""
        return self.difference_of(SPAN)

    @property
    def gap_s(self) -> float | None:
        """The claimed interval less first to last call: the middle repetition."""
        return median_of([one.gap_s for one in self.passes])

    def rate(self, definition: str) -> float | None:
        """Bytes/s by a timing definition: the middle repetition."""
        return median_of([one.rates().get(definition) for one in self.passes])

    def difference_of(self, definition: str) -> float | None:
        """Of a timing definition's rate from the claim, as a share of it: the middle repetition."""
        return median_of([one.differences().get(definition) for one in self.passes])

    @property
    def verdicts(self) -> Counter[str]:
        """The number of repetitions with each verdict."""
        return Counter(one.verdict.category for one in self.passes if one.verdict is not None)

    @property
    def status(self) -> Status:
        """Whether it agrees within 1 %, and why not."""
        difference = self.difference
        if difference is None:
            return Status.UNSEEN
        return Status.AGREES if abs(difference) <= WITHIN else self._why()

    def _why(self) -> Status:
        if any(_CLOCK_DOUBTS & set(one.claim.doubts) for one in self.passes):
            return Status.CLOCK
        gap_s, allowed_s = self.gap_s, median_of([_allowed_s(one) for one in self.passes])
        if gap_s is not None and allowed_s is not None:
            if abs(gap_s) <= allowed_s:
                return Status.SHORT
            if 0 < gap_s <= allowed_s + session_times.record_work_s(self.passes[0].claim):
                return Status.RECORD
        if self._is_held():
            return Status.HELD
        lost = any(
            one.verdict is not None and one.verdict.category == INCOMPLETE and one.verdict.reason != HELD_UP
            for one in self.passes
        )
        return Status.LOST if lost else Status.UNEXPLAINED

    def _is_held(self) -> bool:
        """A wrong clock or a lie would be wrong in every repetition, on a quiet machine too, and could be too short."""
        astray = [one for one in self.passes if _strays(one)]
        if any((one.gap_s or 0.0) <= 0 for one in astray):
            return False
        return len(astray) < len(self.passes) or all(one.contended for one in astray)

    def outliers(self) -> int:
        """Repetitions beyond 1 % and beyond what a short interval allows, in a cell that is not itself so."""
        if self.status in (Status.UNEXPLAINED, Status.UNSEEN):
            return 0
        return sum(_strays(one) for one in self.passes)


def _allowed_s(one: Pass) -> float | None:
    return None if one.claimed_s is None else session_times.allowed_s(one.claim, one.claimed_s)


def _strays(one: Pass) -> bool:
    difference, gap_s, allowed_s = one.differences().get(SPAN), one.gap_s, _allowed_s(one)
    if difference is None or gap_s is None or allowed_s is None:
        return False
    return abs(difference) > WITHIN and not -allowed_s <= gap_s <= allowed_s + session_times.record_work_s(one.claim)


@dataclass(frozen=True)
class FolderChange:
    """How many times faster than the first folder another one is, at one test in one mode."""

    folder: str
    point: Mapping[str, Scalar]
    direct: bool | None
    test: str
    change: AverageChange | Undefined

    @property
    def ratio(self) -> Ratio | None:
        """Of the rates."""
        return self.change.ratio if isinstance(self.change, AverageChange) else None

    @property
    def difference(self) -> Difference:
        """Equivalence, a difference, or neither."""
        return self.change.outcome if isinstance(self.change, AverageChange) else Difference.NOT_TESTED

    @property
    def faster(self) -> bool:
        """Whether its mean is."""
        return self.ratio is not None and self.ratio.ratio > 1


@dataclass(frozen=True)
class Folders:
    """All other folders against the `first`."""

    first: str
    changes: Sequence[FolderChange]
    confidence: float


@dataclass(frozen=True)
class TimingDefinitions:
    """The cells of a study with their watched passes; `seen` are those whose calls the witness timed.

    `without`: cell key -> claimed rate in the trials that count: with twins, those without the witness.
    `folders`: None where fewer than two have passes.
    """

    study: str
    cells: Sequence[Cell]
    seen: Sequence[Pass]
    without: Mapping[tuple[Any, ...], float | None]
    folders: Folders | None

    @property
    def sizes(self) -> list[int]:
        """Bytes of the files that the passes are over."""
        return sorted({cell.size[0] for cell in self.cells})

    @property
    def sized(self) -> bool:
        """True if the passes are over several sizes of file or record."""
        return len({cell.size for cell in self.cells}) > 1

    @property
    def twins(self) -> bool:
        """True if trials without the witness have other claims."""
        return any(self.without.get(cell.key) != cell.rate(WATCHED) for cell in self.cells)

    @property
    def counts(self) -> Counter[Status]:
        """The number of cells of each status."""
        return Counter(cell.status for cell in self.cells)

    @property
    def explained(self) -> Counter[Status]:
        """The number of cells that differ more, by what explains it."""
        return Counter(cell.status for cell in self.cells if cell.status in EXPLAINED)

    @property
    def unexplained(self) -> list[Cell]:
        """The cells that differ more, or were not seen."""
        return [cell for cell in self.cells if cell.status in (Status.UNEXPLAINED, Status.UNSEEN)]

    def differences(self, definition: str) -> list[float]:
        """From the claim, as shares of it, of the passes over the largest file: of small ones no definition is near."""
        largest = max(one.size[0] for one in self.seen)
        found = [one.differences().get(definition) for one in self.seen if one.size[0] == largest]
        return [one for one in found if one is not None]

    @property
    def span_is_nearest(self) -> bool:
        """True if first to last call lies nearest to the claims."""
        medians = {way: abs(found) for way in WAYS if (found := median_of(self.differences(way))) is not None}
        return SPAN in medians and all(medians[SPAN] < medians[way] for way in medians if way != SPAN)


def analyse(records: Dataset, study: Study) -> list[TimingDefinitions]:
    """One answer for a study about passes, none for others."""
    if not passes.is_about(records, study):
        return []
    watched, counted = passes.witnessed_passes(records, study), passes.counted(records, study)
    found = cells(watched, study)
    without = {cell.key: cell.rate(WATCHED) for cell in cells(counted, study)}
    seen = [one for one in watched if one.seen is not None]
    return [TimingDefinitions(study.name, found, seen, without, _folders(study, counted))]


def cells(found: Sequence[Pass], study: Study) -> list[Cell]:
    """The passes by point, test and size: points in the study's order, tests in that of the tool."""
    design = study.design
    grouped: dict[tuple[tuple[str, ...], tuple[int, int], str], list[Pass]] = {}
    for each in found:
        grouped.setdefault((design.key(each.point), each.size, each.test), []).append(each)
    parts = sorted(grouped.items(), key=lambda item: design.place(item[1][0].point))
    return [Cell(part[0].point, test, size, part) for (_, size, test), part in parts]


def _folders(study: Study, counted: Sequence[Pass]) -> Folders | None:
    """None where fewer than two folders have passes."""
    present = [level for level in study.levels.get(PATH, ()) if any(one.point[PATH] == level for one in counted)]
    if len(present) < 2:
        return None
    first, *others = present
    groups: dict[tuple[object, ...], list[Pass]] = {}
    for one in counted:
        mode = (level_key(name, level) for name, level in one.point.items() if name != PATH)
        groups.setdefault((*mode, one.claim.direct, one.test), []).append(one)
    measured = [(own[0], _rates(study, present, own)) for own in groups.values()]
    pairs = [
        (other, some, rates) for other in others for some, rates in measured if {first, other} <= {*rates.factors[PATH]}
    ]
    confidence = study.analysis.confidence
    changes = [
        FolderChange(
            folder=str(other),
            point={name: level for name, level in some.point.items() if name != PATH},
            direct=some.claim.direct,
            test=some.test,
            change=average_change(rates, PATH, (first, other), confidence, share=len(pairs)),
        )
        for other, some, rates in pairs
    ]
    return Folders(str(first), changes, confidence)


def _rates(study: Study, folders: Sequence[Scalar], own: Sequence[Pass]) -> measurements.Cells:
    """The claimed rates of one test in one mode, by folder and size."""
    sizes = list(dict.fromkeys(one.size for one in own))
    rated = [one for one in own if one.claim.rate_bytes_per_s]
    found = []
    for folder in folders:
        for size in sizes:
            part = [one for one in rated if one.point[PATH] == folder and one.size == size]
            rates = np.array([one.claim.rate_bytes_per_s for one in part], dtype=np.float64)
            repetition, order = (
                np.array([getattr(one, name) for one in part], int) for name in ("repetition", "order")
            )
            point = {PATH: folder, _SIZE: str(size)}
            found.append(measurements.Cell(point, rates, rates, repetition, order, tuple(one.trial for one in part)))
    known = tuple(cell for cell in found if cell.values.size)
    present = {cell.point[PATH] for cell in known}
    factors = {PATH: tuple(one for one in folders if one in present), _SIZE: tuple(map(str, sizes))}
    return measurements.Cells(study.name, RATE, factors, known)
