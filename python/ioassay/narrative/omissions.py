"""What an analysis leaves out, and which conditions a study did not measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ioassay.analysis.measurements.cells import Cells, MissingConditions
from ioassay.factors import level_phrase
from ioassay.narrative import phrases
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Response
from ioassay.records.record import SKIPPED, Scalar

_LONGEST = 240
"""Characters of a reason; the page has all of it among the warnings."""


def left_out(cells: Cells) -> list[str]:
    """What the cells do not hold, a sentence each."""
    return list(map(str, _left_out(cells)))


def _left_out(cells: Cells) -> Iterator[Say]:
    counts = {"failed": cells.failed, "skipped": cells.skipped, "implausible": cells.implausible}
    yield from (say(f"omissions.{code}", number=number) for code, number in counts.items() if number)
    if cells.lost:
        yield say("omissions.lost", conditions=cells.lost)
    if cells.absent:
        yield say("omissions.absent", name=Response(cells.response), conditions=cells.absent)


def missing_conditions(groups: Sequence[MissingConditions]) -> list[Say]:
    """A sentence for each: `Not measured: fifo (priority 99). 3 trials were skipped (no permission).`"""
    return [_missing(group) for group in groups]


def _missing(group: MissingConditions) -> Say:
    were = "was" if group.trials == 1 else "were"
    reason = " ".join(group.reason.split()) or "no reason was recorded"
    reason = (reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST].rstrip()} …").rstrip(".")
    known = {"ended": f"{were} skipped" if group.status == SKIPPED else "failed", "reason": reason}
    count = phrases.count(group.trials, "trial")
    if group.all_conditions:
        every = {1: f"the only {count[2:]}", 2: "both trials"}.get(group.trials, f"all {count}")
        return say("omissions.nothing_measured", trials=every, **known)
    conditions = phrases.listed(_places(group.factor, group.points), 6)
    return say("omissions.not_measured", conditions=conditions, trials=count, **known)


def _places(factor: str | None, points: Sequence[Mapping[str, Scalar]]) -> list[str]:
    """The levels of the factor that says all; the conditions else."""
    if factor is None:
        return [phrases.levels(point) for point in points]
    return [level_phrase(factor, level) for level in dict.fromkeys(point[factor] for point in points)]
