"""What an analysis leaves out, and which conditions a study did not measure."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.measurements.cells import Cells, MissingConditions
from ioassay.narrative import phrases
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Response
from ioassay.records.record import SKIPPED

_LONGEST = 240
"""Characters of a reason; the page has all of it among the warnings."""


def left_out(cells: Cells) -> list[str]:
    """What the cells do not hold, a sentence each."""
    counts = {"failed": cells.failed, "skipped": cells.skipped, "implausible": cells.implausible}
    said = [say(f"omissions.{code}", number=number) for code, number in counts.items() if number]
    groups = {"lost": cells.lost, "absent": cells.absent}
    name = Response(cells.response)
    said += [say(f"omissions.{code}", name=name, conditions=group) for code, group in groups.items() if group]
    return list(map(str, said))


def missing_conditions(groups: Sequence[MissingConditions]) -> list[Say]:
    """A sentence for each: `Not measured: fifo (priority 99). 3 trials were skipped (no permission).`"""
    return [_missing(group) for group in groups]


def _missing(group: MissingConditions) -> Say:
    were, count = "was" if group.trials == 1 else "were", phrases.count(group.trials, "trial")
    reason = " ".join(group.reason.split()) or "no reason was recorded"
    reason = (reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST].rstrip()} …").rstrip(".")
    known = {"ended": f"{were} skipped" if group.status == SKIPPED else "failed", "reason": reason}
    if group.all_conditions:
        every = {1: f"the only {count[2:]}", 2: "both trials"}.get(group.trials, f"all {count}")
        return say("omissions.nothing_measured", trials=every, **known)
    points = [{group.factor: point[group.factor]} if group.factor else point for point in group.points]
    conditions = list(dict.fromkeys(map(phrases.levels, points)))  # the levels of the factor that says all
    return say("omissions.not_measured", conditions=phrases.listed(conditions, 6), trials=count, **known)
