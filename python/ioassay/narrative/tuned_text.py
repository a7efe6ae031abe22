"""The result of a search in sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.measurements.cells import label
from ioassay.analysis.optimum.tuning import BROKEN, KEPT, WHOLE, Bound, Outcome, Side, Tuned
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Interval, plain

SHOWN = 10
"""Points of the search that its table shows, best first."""
_ENDED = {"budget": "the time budget was spent", "failed": "every trial failed"}
_TEXTS = {
    Outcome.NO_RESULT: "No trial succeeded, so there is nothing to recommend.",
    Outcome.RUNNING: "The best point so far is {winner} with {value}.",
    Outcome.INFEASIBLE: "No tried point satisfies the constraints. The nearest is {winner}, which violates {violated}.",
    Outcome.DEFAULT_ALONE: "It is the default, {winner}, so there is nothing to compare it with.",
    Outcome.DEFAULT_BEST: "No point is better than the default, {winner} ({value}). Keep the default.",
    Outcome.UNCONFIRMED: "The best point is {winner}. It is not confirmed yet.",
    Outcome.NOT_COMPARABLE: "The gain is not confirmed: {reason}.",
    Outcome.VIOLATION: "No winner is confirmed.{default}",
    Outcome.IMPROVED: "The gain is confirmed{kept}.",
    Outcome.IMPROVED_OUTSIDE: "The winner is better, but it is not confirmed.",
    Outcome.REPLACES_DEFAULT: "The winner is confirmed, because it satisfies {constraints}.",
    Outcome.WORSE: "The winner is worse: its value in the search was chance. Keep the default.",
    Outcome.NO_DIFFERENCE: "The difference is smaller than {margin}, so there is no gain to claim.",
    Outcome.UNDECIDED: (
        "The gain is not confirmed. About {repetitions} repetitions (--confirm {repetitions}) may decide."
    ),
}
_NO_ALTERNATIVE = "The winner is not confirmed either."
"""In place of an outcome that recommends a default which violates a constraint."""


def findings(answers: Sequence[Tuned]) -> list[Finding]:
    """One finding for a search."""
    return [_finding(one) for one in answers]


def _finding(found: Tuned) -> Finding:
    text = statement(found)
    return Finding(
        study=found.study,
        question="tuned",
        response=found.metric,
        title=f"Search for {'high' if found.maximize else 'low'} {phrases.inside(found.metric)}",
        statements=text,
        statistics=statistics(found),
        tables=[table for table in (_confirmed(found), _constraints(found), _tried(found)) if table is not None],
        caveats=_caveats(found),
        severity="info" if found.confirmed or found.stayed else "warning",
    )


def statistics(found: Tuned) -> dict[str, Any]:
    """The numbers of a search under stable names."""
    row = found.row
    ratio = row.ratio if row is not None and isinstance(row.ratio, Ratio) else None
    compared = {
        "ratio": ratio.ratio if ratio else None,
        "interval": [ratio.interval.low, ratio.interval.high] if ratio else None,
        "p": ratio.p if ratio else None,
        "verdict": found.verdict,
        "confirmed": found.confirmed,
        "margin": found.margin,
        "confidence": found.confidence,
        "constraints": _bounds(found.bounds),
        "default_constraints": _bounds(found.default_bounds),
    }
    return {
        "metric": found.metric,
        "maximize": found.maximize,
        "ended": found.ended,
        "space": {"points": found.points, "tried": found.tried},
        "trials": dict(found.counts),
        "best": _plain(found.winner),
        "default": _plain(found.default),
        "feasible": found.feasible,
        "dropped": [{"point": dict(one.point), "constraints": _bounds(one.bounds)} for one in found.dropped],
        "stayed": found.stayed,
        "confirmed": found.confirmed,
        "confirmation": compared if row is not None else None,
        "history": [dict(one) for one in found.history],
    }


def _plain(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    whose = "confirmation" if side.fresh else "search"
    return {
        "point": dict(side.point),
        "mean": side.mean,
        "interval": _ends(side.interval),
        "n": side.n,
        "from": whose,
    }


def _bounds(bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    return [{**plain(bound), "interval": _ends(bound.interval)} for bound in bounds]


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def statement(found: Tuned) -> str:
    """What a reader without statistics has to know."""
    outcome, row = found.outcome, found.row
    text = _TEXTS[outcome]
    if found.default_out and outcome in (Outcome.WORSE, Outcome.NO_DIFFERENCE, Outcome.UNDECIDED):
        text = _NO_ALTERNATIVE
    judged = text.format(
        winner=label(found.winner.point) if found.winner else "",
        value=phrases.value(found.metric, found.winner.mean) if found.winner else "",
        violated=phrases.listed(_violated(found.bounds)) or "the constraints",
        reason=row.ratio.reason if row is not None and not isinstance(row.ratio, Ratio) else "",
        kept=f", and {_texts(found.bounds)} {_verb(len(found.bounds), 'hold')}" if found.bounds else "",
        constraints=_texts(found.bounds),
        margin=phrases.percent(found.margin),
        repetitions=found.repetitions_needed,
        default="" if _violated(found.default_bounds) else " Keep the default.",
    )
    alone = (Outcome.INFEASIBLE, Outcome.VIOLATION, Outcome.DEFAULT_BEST, Outcome.DEFAULT_ALONE)
    if row is None or outcome in alone:
        unfinished = ["The search has not ended."] if found.ended is None else []
        return " ".join([_effort(found), *unfinished, *_dropped(found), judged])
    return " ".join([_effort(found), *_dropped(found), *_sides(found), *_at_default(found), judged, *_at_winner(found)])


def _effort(found: Tuned) -> str:
    were = "was" if found.tried == 1 else "were"
    tried = "The only point was tried" if found.points == 1 else f"{found.tried} of {found.points} points {were} tried"
    pruned, failed = found.counts["pruned"], found.counts["failed"]
    parts = [f"{phrases.count(pruned, 'candidate')} stopped early"] if pruned else []
    parts += [f"{phrases.count(failed, 'trial')} without a result"] if failed else []
    parts += [_ENDED[found.ended]] if found.ended in _ENDED else []
    return f"{tried}{f' ({phrases.listed(parts)})' if parts else ''}."


def _dropped(found: Tuned) -> list[str]:
    """A sentence for each candidate that was confirmed in vain."""
    ranks = ("best", "second best", "third best")
    return [
        f"The {rank} candidate, {label(one.point)}, is dropped: in the confirmation it violates "
        f"{phrases.listed(_violated(one.bounds))}."
        for rank, one in zip(ranks, found.dropped, strict=False)
    ]


def _sides(found: Tuned) -> list[str]:
    """The means of winner and default in the confirmation, and their ratio."""
    assert found.winner is not None and found.default is not None and found.row is not None
    text = [
        f"In the confirmation, {phrases.inside(found.metric)} is {_mean(found, found.winner)} at the winner, "
        f"{label(found.winner.point)}.",
        f"The default, {label(found.default.point)}, gives {_mean(found, found.default)}.",
    ]
    if isinstance(found.row.ratio, Ratio):
        bounds = None if found.exact else found.row.interval
        text.append(f"The ratio is {phrases.ratio(found.row.ratio.ratio, bounds)}.")
    return text


def _mean(found: Tuned, side: Side) -> str:
    value = phrases.value(found.metric, side.mean)
    if side.interval is None or found.exact:
        return value
    return f"{value} ({phrases.interval(found.metric, side.interval)})"


def _at_default(found: Tuned) -> list[str]:
    """A sentence where the default itself violates constraints: a winner that costs something may be worth it."""
    violated = phrases.listed(_violated(found.default_bounds))
    average = "" if found.default_out else "On average, "
    return [phrases.capital(f"{average}the default violates {violated}.")] if _violated(found.default_bounds) else []


def _at_winner(found: Tuned) -> list[str]:
    """The constraints that the winner is not proved to satisfy."""
    unproved = [f"{bound.text} is not proved to hold" for bound in found.bounds if bound.verdict != KEPT]
    return [f"At the winner, {phrases.listed(unproved)}."] if unproved else []


def _violated(bounds: Sequence[Bound]) -> list[str]:
    return [
        f"{bound.text} ({phrases.value(bound.metric, bound.mean)} there)" for bound in bounds if bound.verdict == BROKEN
    ]


def _texts(bounds: Sequence[Bound]) -> str:
    return phrases.listed([bound.text for bound in bounds])


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _confirmed(found: Tuned) -> Table | None:
    if found.row is None or found.winner is None or found.default is None:
        return None
    rows = [[name, label(side.point), side.n, side.mean, *(_ends(side.interval) or (None, None))]
            for name, side in (("default", found.default), (_role(found), found.winner))]  # fmt: skip
    return Table(["", "point", "n", "mean", "from", "to"], rows, ["", "", "", *[found.metric] * 3])


def _constraints(found: Tuned) -> Table | None:
    if not found.bounds:
        return None
    rows = []
    dropped = [(label(one.point), one.bounds) for one in found.dropped if found.feasible]
    for name, bounds in (("default", found.default_bounds), *dropped, (_role(found), found.bounds)):
        for bound in bounds if name != "default" or not found.stayed else ():
            ends = _ends(bound.interval) or (None, None)
            shown = [None if value is None else phrases.value(bound.metric, value) for value in (bound.mean, *ends)]
            rows.append([bound.text, name, *shown, bound.verdict])
    return Table(["constraint", "at", "mean", "from", "to", "verdict"], rows)


def _role(found: Tuned) -> str:
    """What the search's point is called: no point wins that violates a constraint."""
    return "winner" if found.feasible else "candidate"


def _tried(found: Tuned) -> Table | None:
    """The best points by the search's own trials."""
    means: dict[str, list[float]] = {}
    for one in found.history:
        if one["search"] in WHOLE and one["value"] is not None:
            means.setdefault(label(one["point"]), []).append(float(one["value"]))
    ranked = sorted(means.items(), key=lambda item: sum(item[1]) / len(item[1]), reverse=found.maximize)
    rows = [[name, len(values), sum(values) / len(values)] for name, values in ranked[:SHOWN]]
    return Table(["point in the search", "n", "mean"], rows, ["", "", found.metric]) if rows else None


def _caveats(found: Tuned) -> list[str]:
    said = []
    if found.history and not found.exact:
        said.append("The search selects high means by chance. Only the confirmation counts.")
    if found.tried < found.points:
        said.append("A search proves no optimum: a point that was not tried may be better.")
    return said
