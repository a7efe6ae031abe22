"""What a search came to, in sentences and tables. Every number is `tuned`'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.analysis.measurements.cells import label
from ioassay.analysis.optimum.tuning import BROKEN, IMPROVED, KEPT, SAME, WHOLE, WORSE, Bound, Side, Tuned
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Interval, plain
from ioassay.study.model import Study

SHOWN = 10
"""Points of the search that its table shows, best first."""
_ENDED = {"budget": "its time was over", "failed": "every trial failed"}


def finding(study: Study, found: Tuned) -> Finding:
    """The finding of a search."""
    told = statement(found)
    return Finding(
        study=study.name,
        question="tuned",
        response=found.metric,
        title=f"Search for {'high' if found.maximize else 'low'} {phrases.inside(found.metric)}",
        statement=told,
        statistics={**statistics(found), "summary": [told]},
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
    if found.winner is None:
        return f"{_effort(found)} None of them went well, so there is nothing to recommend."
    if found.ended is None:
        value = phrases.value(found.metric, found.winner.mean)
        return f"{_effort(found)} The search has not ended; the best so far is {_named(found.winner)} with {value}."
    if not found.feasible:
        return f"{_effort(found)} {_nearest(found)}"
    if found.stayed and found.tried == 1 < found.points:
        return f"{_effort(found)} It is the default, {_named(found.winner)}, which nothing was compared with."
    if found.stayed:
        value = phrases.value(found.metric, found.winner.mean)
        return f"{_effort(found)} None was better than the default itself, {_named(found.winner)} ({value}): keep it."
    if found.row is None or found.default is None:
        return f"{_effort(found)} The best is {_named(found.winner)}; it has not been confirmed yet."
    return " ".join([_effort(found), _sides(found), _proved(found)])


def _effort(found: Tuned) -> str:
    were = "was" if found.tried == 1 else "were"
    tried = "The only point was tried" if found.points == 1 else f"{found.tried} of {found.points} points {were} tried"
    pruned = found.counts["pruned"]
    parts = [f"{phrases.count(pruned, 'candidate')} given up after a part of the time"] if pruned else []
    parts += [f"{phrases.count(found.counts['failed'], 'trial')} without a result"] if found.counts["failed"] else []
    parts += [_ENDED[found.ended]] if found.ended in _ENDED else []
    return f"{tried}{f' ({phrases.listed(parts)})' if parts else ''}."


def _named(side: Side) -> str:
    return label(side.point)


def _nearest(found: Tuned) -> str:
    assert found.winner is not None
    beyond = [
        f"{bound.text} ({phrases.value(bound.metric, bound.mean)} there)"
        for bound in found.bounds
        if bound.verdict == BROKEN
    ]
    missed = phrases.listed(beyond) if beyond else "the constraints"
    return f"No point fulfils the constraints. Nearest is {_named(found.winner)}, which misses {missed}."


def _sides(found: Tuned) -> str:
    assert found.winner is not None and found.default is not None
    return (
        f"The winner is {_named(found.winner)}: measured anew, {phrases.inside(found.metric)} is "
        f"{_mean(found, found.winner)}, against {_mean(found, found.default)} at the default, {_named(found.default)}."
    )


def _mean(found: Tuned, side: Side) -> str:
    value = phrases.value(found.metric, side.mean)
    known = side.interval is not None and not found.exact
    return f"{value} ({phrases.interval(found.metric, side.interval)})" if known and side.interval else value


def _proved(found: Tuned) -> str:
    row = found.row
    assert row is not None
    if not isinstance(row.ratio, Ratio):
        return f"The gain is not confirmed: {row.ratio.reason}."
    times = f"That is {phrases.plain_number(row.ratio.ratio)} times the default"
    times += "" if found.exact else f" ({phrases.bounds_of(row.ratio.interval)})"
    if found.verdict == IMPROVED:
        return f"{times}: the gain is confirmed{_under(found)}{_at_default(found)}"
    if found.default_out:
        return f"{times}.{_at_default(found)} {_instead(found)}"
    judged = {
        WORSE: ", and worse: what the search saw was luck. Keep the default.",
        SAME: f": no difference beyond {phrases.percent(found.margin)}, so there is no gain to claim.",
    }
    unproved = ", which does not prove a gain: it is not confirmed; more repetitions (--confirm) may tell."
    lost = _lost(found.bounds)
    return f"{times}{judged.get(str(found.verdict), unproved)}{_at_default(found)}" + (
        f" At the winner {lost}." if lost else ""
    )


def _under(found: Tuned) -> str:
    """What becomes of a gain under the constraints."""
    if not found.bounds:
        return "."
    if lost := _lost(found.bounds):
        return f", but not the constraints: {lost}. So the winner is not confirmed."
    return f", and {_texts(found.bounds)} held."


def _at_default(found: Tuned) -> str:
    """A sentence where the default itself breaks constraints: a winner that costs something may be worth it."""
    broken = [bound for bound in found.default_bounds if bound.verdict == BROKEN]
    told = [f"{bound.text} ({phrases.value(bound.metric, bound.mean)} there)" for bound in broken]
    average = "" if found.default_out else "On average "
    return f" {average}{'the' if average else 'The'} default itself breaks {phrases.listed(told)}." if told else ""


def _instead(found: Tuned) -> str:
    """Of a winner that is not better than a default that is no choice."""
    if lost := _lost(found.bounds):
        return f"Nor is the winner confirmed: {lost}."
    return f"The winner is confirmed as what keeps {_texts(found.bounds)}."


def _lost(bounds: Sequence[Bound]) -> str:
    """The constraints that are not proved to be kept; '' where all are."""
    lost = [bound for bound in bounds if bound.verdict != KEPT]
    told = [f"{bound.text} {'is broken' if bound.verdict == BROKEN else 'is not sure to hold'}" for bound in lost]
    return phrases.listed(told) if told else ""


def _texts(bounds: Sequence[Bound]) -> str:
    return phrases.listed([bound.text for bound in bounds])


def _confirmed(found: Tuned) -> Table | None:
    if found.row is None or found.winner is None or found.default is None:
        return None
    rows = [[name, label(side.point), side.n, side.mean, *(_ends(side.interval) or (None, None))]
            for name, side in (("default", found.default), ("winner", found.winner))]  # fmt: skip
    return Table(["", "point", "n", "mean", "from", "to"], rows, ["", "", "", *[found.metric] * 3])


def _constraints(found: Tuned) -> Table | None:
    if not found.bounds:
        return None
    rows = []
    for name, bounds in (("default", found.default_bounds), ("winner", found.bounds)):
        for bound in bounds if name == "winner" or not found.stayed else ():
            ends = _ends(bound.interval) or (None, None)
            shown = [None if value is None else phrases.value(bound.metric, value) for value in (bound.mean, *ends)]
            rows.append([bound.text, name, *shown, bound.verdict])
    return Table(["constraint", "at", "mean", "from", "to", "verdict"], rows)


def _tried(found: Tuned) -> Table | None:
    """The best points as the search saw them."""
    means: dict[str, list[float]] = {}
    for one in found.history:
        if one["search"] in WHOLE and one["value"] is not None:
            means.setdefault(label(_point(one)), []).append(float(one["value"]))
    ranked = sorted(means.items(), key=lambda item: sum(item[1]) / len(item[1]), reverse=found.maximize)
    rows = [[name, len(values), sum(values) / len(values)] for name, values in ranked[:SHOWN]]
    return Table(["point in the search", "n", "mean"], rows, ["", "", found.metric]) if rows else None


def _point(one: Mapping[str, Any]) -> Mapping[str, Any]:
    point: Mapping[str, Any] = one["point"]
    return point


def _caveats(found: Tuned) -> list[str]:
    said = []
    if found.history and not found.exact:
        said.append(
            "Means of the search itself are of few repetitions and the best of them is lucky; only the confirmation "
            "counts."
        )
    if found.tried < found.points:
        said.append("A search proves no optimum: a point that was not tried may be better still.")
    return said
