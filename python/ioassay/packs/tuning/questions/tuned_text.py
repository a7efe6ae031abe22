"""The result of a search in sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ioassay.analysis.measurements.cells import label
from ioassay.narrative import phrases, values
from ioassay.narrative.finding import Finding, Table, bounds
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Quantity, Response
from ioassay.packs.tuning.questions import tuned
from ioassay.packs.tuning.questions.tuned import BROKEN, KEPT, WHOLE, Bound, Outcome, Side, Tuned
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Undefined, plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

HEADING = "What did the search find? Winner, default and confirmation"


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for a search, none for other runs."""
    return [] if records.tuning is None else [finding(tuned.measure(records, study))]


def finding(found: Tuned) -> Finding:
    """The result of a search in words."""
    caveats = {"chance": found.history and not found.exact, "untried": found.tried < found.points}
    return Finding(
        study=found.study,
        question="tuned",
        response=found.metric,
        title=f"Search for {'high' if found.maximize else 'low'} {phrases.inside(found.metric)}",
        statements=list(_statements(found)),
        statistics=statistics(found),
        tables=[table for table in (_confirmed(found), _constraints(found), _tried(found)) if table.rows],
        caveats=[str(say(f"tuned.{name}")) for name, holds in caveats.items() if holds],
        severity="info" if found.confirmed or found.stayed else "warning",
    )


def statistics(found: Tuned) -> dict[str, Any]:
    """The numbers of a search under stable names."""
    ratio = found.row.ratio if found.row is not None and isinstance(found.row.ratio, Ratio) else None
    compared = {
        "ratio": ratio.ratio if ratio else None,
        "interval": phrases.ends(ratio.interval if ratio else None),
        "p": ratio.p if ratio else None,
        "constraints": _bounds(found.bounds),
        "default_constraints": _bounds(found.default_bounds),
        **{name: getattr(found, name) for name in ("verdict", "confirmed", "margin", "confidence")},
    }
    return {
        **{name: getattr(found, name) for name in ("metric", "maximize", "ended", "feasible", "stayed", "confirmed")},
        "space": {"points": found.points, "tried": found.tried},
        "trials": dict(found.counts),
        "best": _side(found.winner),
        "default": _side(found.default),
        "dropped": [{"point": dict(one.point), "constraints": _bounds(one.bounds)} for one in found.dropped],
        "confirmation": compared if found.row is not None else None,
        "history": [dict(one) for one in found.history],
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    numbers = {"point": dict(side.point), "mean": side.mean, "interval": phrases.ends(side.interval), "n": side.n}
    return {**numbers, "from": "confirmation" if side.fresh else "search"}


def _bounds(bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    return [{**plain(bound), "interval": phrases.ends(bound.interval)} for bound in bounds]


def _statements(found: Tuned) -> Iterator[Say]:
    """The outcome, the comparison with the default, what was dropped on the way to it, and the effort."""
    outcome, row, violated = found.outcome, found.row, _violated(found.default_bounds)
    code = outcome.name.lower()
    if outcome == Outcome.VIOLATION and violated:
        code = "violation_by_default"
    if found.default_out and outcome in (Outcome.WORSE, Outcome.NO_DIFFERENCE, Outcome.UNDECIDED):
        code = "no_alternative"
    yield Say(f"tuned.{code}", _values(found))
    if found.ended is None:
        yield say("tuned.unfinished")
    if row is not None and outcome != Outcome.VIOLATION:
        if isinstance(row.ratio, Ratio):
            ratio = values.Ratio(row.ratio.ratio, None if found.exact else row.interval)
            yield say("tuned.ratio", metric=Response(found.metric), ratio=ratio)
        if code == "undecided":
            yield say("tuned.repetitions", needed=found.repetitions_needed)
        if violated and code not in ("replaces_default", "no_alternative"):
            yield say("tuned.default_violates", violated=violated)
        if unproved := [bound.text for bound in found.bounds if bound.verdict != KEPT]:
            yield say("tuned.unproved", constraints=unproved)
        elif found.bounds:
            yield say("tuned.kept", constraints=[bound.text for bound in found.bounds])
    for one in found.dropped:
        yield say("tuned.dropped", point=label(one.point), violated=_violated(one.bounds))
    lost = {"stopped": found.counts["pruned"], "without_result": found.counts["failed"]}
    losses = [say(f"tuned.{name}", number=number) for name, number in lost.items() if number]
    losses += [say("tuned.budget")] if found.ended == "budget" else []
    code = "tuned.effort_with_losses" if losses else "tuned.effort"
    yield say(code, tried=found.tried, points=found.points, losses=losses)


def _values(found: Tuned) -> dict[str, object]:
    """What the sentences of outcomes name, as far as it is known."""
    shown: dict[str, object] = {"metric": Response(found.metric), "margin": found.margin}
    if found.winner is not None:
        shown |= {"winner": label(found.winner.point), "mean": Quantity(found.metric, found.winner.mean)}
        shown["violated"] = _violated(found.bounds) or ["them"]
    if found.default is not None:
        shown |= {"default": label(found.default.point), "default_mean": Quantity(found.metric, found.default.mean)}
        shown["default_violated"] = _violated(found.default_bounds)
    if found.row is not None and isinstance(found.row.ratio, Undefined):
        shown["reason"] = found.row.ratio.reason
    return shown


def _violated(bounds: Sequence[Bound]) -> list[Say]:
    broken = [bound for bound in bounds if bound.verdict == BROKEN]
    return [say("tuned.there", constraint=one.text, mean=Quantity(one.metric, one.mean)) for one in broken]


def _confirmed(found: Tuned) -> Table:
    sides = {"default": found.default, _role(found): found.winner} if found.row is not None else {}
    return Table.of(
        [(name, side) for name, side in sides.items() if side is not None],
        ("", lambda row: row[0]),
        ("point", lambda row: label(row[1].point)),
        ("n", lambda row: row[1].n),
        ("mean", lambda row: row[1].mean, found.metric),
        *bounds(lambda row: row[1].interval, found.metric),
    )


def _constraints(found: Tuned) -> Table:
    places = [] if found.stayed else [("default", found.default_bounds)]
    places += [(label(one.point), one.bounds) for one in found.dropped if found.feasible]
    places += [(_role(found), found.bounds)]

    def shown(bound: Bound, value: float | None) -> str | None:
        return None if value is None else phrases.value(bound.metric, value)

    return Table.of(
        [(name, bound) for name, bounds in places for bound in bounds] if found.bounds else [],
        ("constraint", lambda row: row[1].text),
        ("at", lambda row: row[0]),
        ("mean", lambda row: shown(row[1], row[1].mean)),
        ("from", lambda row: shown(row[1], getattr(row[1].interval, "low", None))),
        ("to", lambda row: shown(row[1], getattr(row[1].interval, "high", None))),
        ("verdict", lambda row: row[1].verdict),
    )


def _role(found: Tuned) -> str:
    """What the search's point is called: no point wins that violates a constraint."""
    return "winner" if found.feasible else "candidate"


def _tried(found: Tuned) -> Table:
    """The ten best points by the search's own trials."""
    own: dict[str, list[float]] = {}
    for one in found.history:
        if one["search"] in WHOLE and one["value"] is not None:
            own.setdefault(label(one["point"]), []).append(float(one["value"]))
    rows = [(name, len(values), sum(values) / len(values)) for name, values in own.items()]
    return Table.of(
        sorted(rows, key=lambda row: row[2], reverse=found.maximize)[:10],
        ("point in the search", lambda row: row[0]),
        ("n", lambda row: row[1]),
        ("mean", lambda row: row[2], found.metric),
    )
