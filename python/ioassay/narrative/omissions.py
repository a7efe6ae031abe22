"""What an analysis leaves out, and which conditions a study did not measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ioassay.analysis.measurements.cells import Cells, MissingConditions
from ioassay.factors import level_phrase
from ioassay.narrative import phrases
from ioassay.records.record import SKIPPED, Scalar

IMPLAUSIBLE = "{number} values are not finite numbers of a plausible size and are left out."
LOST = "No trial succeeded at {conditions}."
ABSENT = "{name} does not occur at {conditions}."
NOTHING_MEASURED = "Nothing was measured: {trials} {ended} ({reason})."
NOT_MEASURED = "Not measured: {conditions}. {trials} {ended} ({reason})."
_LONGEST = 240
"""Characters of a reason; the page has all of it among the warnings."""


def left_out(cells: Cells) -> list[str]:
    """What the cells do not hold, a sentence each."""
    text = [
        f"{number} {word} {'trial is' if number == 1 else 'trials are'} left out."
        for number, word in ((cells.failed, "failed"), (cells.skipped, "skipped"))
        if number
    ]
    if cells.implausible:
        text.append(IMPLAUSIBLE.format(number=cells.implausible))
    if cells.lost:
        text.append(LOST.format(conditions=phrases.listed(cells.lost, 9)))
    if cells.absent:
        text.append(ABSENT.format(name=phrases.subject(cells.response), conditions=phrases.listed(cells.absent, 9)))
    return text


def missing_conditions(groups: Sequence[MissingConditions]) -> list[str]:
    """A sentence for each: `Not measured: fifo (priority 99). 3 trials were skipped (no permission)`."""
    return [_missing(group) for group in groups]


def _missing(group: MissingConditions) -> str:
    were = "was" if group.trials == 1 else "were"
    ended = f"{were} skipped" if group.status == SKIPPED else "failed"
    reason = " ".join(group.reason.split()) or "no reason was recorded"
    reason = (reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST].rstrip()} …").rstrip(".")
    count = phrases.count(group.trials, "trial")
    if group.all_conditions:
        every = {1: f"the only {count[2:]}", 2: "both trials"}.get(group.trials, f"all {count}")
        return NOTHING_MEASURED.format(trials=every, ended=ended, reason=reason)
    conditions = phrases.listed(_places(group.factor, group.points), 6)
    return NOT_MEASURED.format(conditions=conditions, trials=count, ended=ended, reason=reason)


def _places(factor: str | None, points: Sequence[Mapping[str, Scalar]]) -> list[str]:
    """The levels of the factor that says all; the conditions else."""
    if factor is None:
        return [phrases.levels(point) for point in points]
    return [level_phrase(factor, level) for level in dict.fromkeys(point[factor] for point in points)]
