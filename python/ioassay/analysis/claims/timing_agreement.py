"""Does the kernel's first to last call agree with what a benchmark claims, cell by cell, and if not, why?

A cell is one test over one size at one point, with its repetitions; it is judged by the middle repetition, so that a
single one in which the process lost its processor between a clock and a call decides nothing. What is beyond 1 % is
explained only by what was recorded: how short the interval was, what the tool says of its clock, what the witness lost.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ioassay.analysis.measurements.passes import SPAN, Pass
from ioassay.records.record import Scalar
from ioassay.study.model import Study
from ioassay.verify import session_times
from ioassay.verify.verdict import HELD_UP, INCOMPLETE

WITHIN = 0.01
"""Of the claim: what 'agrees' means."""


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
_CLOCK_DOUBTS = frozenset({"clock-clamp", "poor-timer", "whole-microseconds"})


@dataclass(frozen=True)
class Cell:
    """One test over one size at one point: its watched passes, in the order in which they ran."""

    point: Mapping[str, Scalar]
    test: str
    size: tuple[int, int]
    passes: Sequence[Pass]

    @property
    def difference(self) -> float | None:
        """First to last call against the claim, as a share of it: the middle repetition."""
        return self.difference_of(SPAN)

    @property
    def gap_s(self) -> float | None:
        """The claimed interval less first to last call: the middle repetition."""
        return middle([one.gap_s for one in self.passes])

    def rate(self, definition: str) -> float | None:
        """Bytes/s by a timing definition: the middle repetition."""
        return middle([one.rates().get(definition) for one in self.passes])

    def difference_of(self, definition: str) -> float | None:
        """Of a timing definition's rate from the claim, as a share of it: the middle repetition."""
        return middle([one.differences().get(definition) for one in self.passes])

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
        gap_s, allowed_s = self.gap_s, middle([_allowed_s(one) for one in self.passes])
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


def middle(values: Sequence[float | None]) -> float | None:
    """The median of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def cells(passes: Sequence[Pass], study: Study) -> list[Cell]:
    """The passes by point, test and size: points in the study's order, tests in that of the tool."""
    design = study.design
    found: dict[tuple[tuple[str, ...], tuple[int, int], str], list[Pass]] = {}
    for each in passes:
        found.setdefault((design.key(each.point), each.size, each.test), []).append(each)
    parts = sorted(found.items(), key=lambda item: design.place(item[1][0].point))
    return [Cell(part[0].point, test, size, part) for (_, size, test), part in parts]
