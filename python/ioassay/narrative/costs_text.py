"""The sentences and the table of where the time of each operation went."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.storage.latency_shares import LatencyShares
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.latency_text import part_name, sentence
from ioassay.narrative.say import say
from ioassay.stats.result import plain

_TIME = "read.lat.mean"
_MOST_ROWS = 120


def findings(answers: Sequence[LatencyShares | Finding]) -> list[Finding]:
    """One finding for each study; that of a pack, of the way to its target, is in its own words."""
    return [one if isinstance(one, Finding) else _explained(one) for one in answers]


def _explained(one: LatencyShares) -> Finding:
    rows = [(each, kind, part) for each in one.conditions for kind in each.kinds for part in kind.parts]
    table = Table.of(
        rows[:_MOST_ROWS],
        ("Condition", lambda row: row[0].label),
        ("Operation", lambda row: row[1].kind),
        ("Part", lambda row: part_name(row[2].name, row[1].engine)),
        ("Share, %", lambda row: float(f"{100 * row[2].share:.3g}")),
        ("Mean", lambda row: row[2].mean_ns, _TIME),
        ("p50", lambda row: row[2].p50_ns, _TIME),
        ("p99", lambda row: row[2].p99_ns, _TIME),
        observed=True,
    )
    said = [say("latency.explained", condition=each.label, parts=sentence(each.kinds[0])) for each in one.conditions]
    return Finding(
        study=one.study,
        question="costs",
        response="",
        title="Where the time of each operation went",
        statements=said,
        statistics={"conditions": plain(one.conditions)},
        tables=[table],
        caveats=[str(say("latency.dear", conditions=one.dear))] if one.dear else [],
    )
