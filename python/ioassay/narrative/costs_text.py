"""The sentences and the table of what each access path costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioassay.analysis.storage.latency_shares import LatencyShares
from ioassay.analysis.storage.path_costs import PARTS, PathCosts, Setting
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.latency_text import part_name, sentence
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Quantity
from ioassay.stats.result import plain

_TIME = "read.lat.mean"
_MOST_ROWS = 120


def findings(answers: Sequence[PathCosts | LatencyShares]) -> list[Finding]:
    """One finding for each study."""
    return [_finding(one) if isinstance(one, PathCosts) else _explained(one) for one in answers]


def setting_sentence(setting: Setting) -> Say:
    """What the engines have in common: the first line of the page of a study of access paths."""
    return say(f"costs.{setting.name.lower()}")


def _finding(one: PathCosts) -> Finding:
    table = Table.of(
        one.costs[:_MOST_ROWS],
        ("Condition", lambda cost: cost.label),
        ("Trials", lambda cost: cost.trials),
        ("Mean latency", lambda cost: cost.total_ns, _TIME),
        ("Submission", lambda cost: cost.submission_ns, _TIME),
        ("Drive", lambda cost: cost.device_ns, _TIME),
        ("Transport", lambda cost: cost.transport_ns, _TIME),
        ("Completion and waiting", lambda cost: cost.completion_ns, _TIME),
        ("CPU time, tool", lambda cost: cost.client_ns, _TIME),
        ("CPU time, drive", lambda cost: cost.server_ns, _TIME),
        ("Context switches", lambda cost: None if cost.switches is None else float(f"{cost.switches:.2g}")),
    )
    return Finding(
        study=one.study,
        question="costs",
        response="",
        title="A request's time by part, and its CPU time",
        statements=list(_statements(one)),
        premises=[setting_sentence(one.setting)],
        statistics={name: plain(getattr(one, name)) for name in ("setting", "costs", "uncounted")},
        tables=[table] if one.costs else [],
        caveats=[str(say(f"costs.of_{part}")) for part in (*PARTS, "server")],
    )


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
    said = [say("costs.explained", condition=each.label, parts=sentence(each.kinds[0])) for each in one.conditions]
    return Finding(
        study=one.study,
        question="costs",
        response="",
        title="Where the time of each operation went",
        statements=said,
        statistics={"conditions": plain(one.conditions)},
        tables=[table],
        caveats=[str(say("costs.dear", conditions=one.dear))] if one.dear else [],
    )


def _statements(one: PathCosts) -> Iterator[Say]:
    """The cases that a part costs least and most, first the part in which they differ most."""
    means = {part: sorted(one.means(part).items(), key=lambda item: item[1]) for part in PARTS}
    compared = {part: (own[0], own[-1]) for part, own in means.items() if len(own) > 1}
    for part, ends in sorted(compared.items(), key=lambda item: item[1][0][1] - item[1][1][1]):
        least, most = (say("costs.of_case", time=Quantity(_TIME, time), case=case) for case, time in ends)
        if f"{least.values['time']}" == f"{most.values['time']}":
            yield say("costs.part_alike", part=say(f"costs.{part}"), time=most.values["time"])
        else:
            yield say("costs.part", part=say(f"costs.{part}"), least=least, most=most)
    if one.uncounted:
        yield say("costs.uncounted", conditions=one.uncounted)
