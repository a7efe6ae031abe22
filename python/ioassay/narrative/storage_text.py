"""What the storage did: how much load until requests wait, where the time of operations went, and system calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioassay.analysis.latency_shares import LatencyShares
from ioassay.analysis.load_saturation import MARGIN, Saturation
from ioassay.analysis.system_calls import Outcome, Point, SystemCalls
from ioassay.narrative import phrases
from ioassay.narrative.explanation_text import part_name, parts_sentence, sum_sentence
from ioassay.narrative.finding import Column, Finding, Table, bounds
from ioassay.narrative.say import Place, Quantity, Say, say
from ioassay.records.observation import STRACE
from ioassay.stats.result import plain

# The highest load without waiting, and what the storage serves at most


def saturation(one: Saturation) -> Finding:
    said = [_calm(one)]
    if one.waits is not None:
        level = one.levels[one.waits]
        p99 = Quantity(one.percentile, level.latency)
        said.append(say("load.waits", load=Quantity(one.rate, level.offered), p99=p99))
    lowest = 0.0 if one.lowest is None else one.levels[one.lowest].latency
    table = Table.of(
        one.levels,
        ("offered", lambda level: level.offered, one.rate),
        ("served", lambda level: level.served, one.rate),
        *bounds(lambda level: level.served_interval, one.rate),
        ("served / offered (%)", lambda level: phrases.in_percent(level.served / level.offered)),
        ("p99", lambda level: level.latency, one.percentile),
        *bounds(lambda level: level.latency_interval, one.percentile),
        ("p99 / lowest", lambda level: level.latency / lowest if lowest else None),
    )
    return Finding(
        response=one.percentile,
        title=str(say("headings.load")),
        statements=said,
        where=one.where,
        statistics={**plain(one), "saturates": one.saturates},
        tables=[table],
    )


def _calm(one: Saturation) -> Say:
    """Up to which load requests do not wait, as far as that was judged."""
    most = one.levels[one.most]
    served = Quantity(one.rate, most.served, most.served_interval)
    limit = say("load.no_limit" if one.saturates is None else "load.limit", most=served)
    if one.lowest is None or one.calm_mean is None:
        return Say("load.saturated", {"limit": limit}, one.where)
    code, place = "load.scatters" if one.tested else "load.unrepeated", one.calm_mean
    if one.calm is not None and one.calm > one.lowest:  # a level against itself proves nothing
        code, place = "load.calm", one.calm
    elif place == one.lowest:
        code = "load.lowest" if place else "load.saturates" if one.levels[1].saturated else "load.always"
    load, lowest = Quantity(one.rate, one.levels[place].offered), one.levels[one.lowest].latency
    known = {"load": load, "times": 1 + MARGIN, "lowest": Quantity(one.percentile, lowest), "limit": limit}
    return Say(code, known, one.where)


# Where the time of each operation went

_TIME = "read.lat.mean"
_MOST_ROWS = 120


def latency_shares(one: LatencyShares | Finding) -> Finding:
    """The finding of a study; that of a pack, of the way to its target, is in its own words."""
    if isinstance(one, Finding):
        return one
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
    said = [
        say("latency.explained", condition=each.label, parts=parts_sentence(each.kinds[0])) for each in one.conditions
    ]
    sums = [(each.label, sum_sentence(each.kinds[0])) for each in one.conditions]
    apart = [say("latency.explained", condition=label, parts=text) for label, text in sums if text]
    return Finding(
        title=str(say("latency.title")),
        statements=said,
        statistics={"conditions": plain(one.conditions)},
        tables=[table],
        caveats=[*apart, *([say("latency.dear", conditions=one.dear)] if one.dear else ())],
    )


# System calls

_RATE = "syscalls.rate"
_FEW = 20_000
"""Below this number, the calls of the tool's own start and end are visible (stress-ng's are about a thousand)."""
_MOST_NAMES, _MOST_POINTS = 8, 10
"""Rows and columns of the table of names."""
_SLOWED = 0.9


def system_calls(one: SystemCalls) -> Finding:
    points = [
        {
            "point": point.levels,
            "trial": point.trial,
            "by": point.by,
            "calls": point.total,
            "errors": point.errors,
            "syscalls.rate": point.rate,
            "calls_per_bogo_op": point.per_work,
            "speed": point.speed,
            "rate_at_full_speed": point.rate_at_full_speed,
            "shares": {name: point.share([name]) for name in list(point.count)[:10]},
        }
        for point in one.points
    ]
    return Finding(
        title=str(say("calls.title")),
        statements=list(_call_statements(one)),
        statistics=plain({"points": points, **({"dominant": one.dominant} if points else {})}),
        tables=[_by_point(one.points), _by_name(one.points[:_MOST_POINTS])] if one.points else [],
        caveats=_caveats(one) if one.points else (),
        severity="info" if one.points else "warning",
    )


def _call_statements(one: SystemCalls) -> Iterator[Say]:
    """What dominates, how it changes, and the calls of a bogo operation."""
    if one.outcome == Outcome.UNCOUNTED:
        yield say("calls.uncounted", trials=one.uncounted, reasons=one.reasons or [say("omissions.no_reason")])
    elif one.outcome == Outcome.HARDLY_ANY:
        yield say("calls.hardly_any", most=max(point.total for point in one.points))
    else:
        first = one.points[0]
        if one.dominant:
            shares = [point.share(one.dominant) for point in one.points]
            some_more = min(shares) < min(max(shares), 0.995)  # from there on a share is more than 99 %
            yield say(f"calls.dominant{'_range' if some_more else ''}", calls=one.dominant, share=min(shares))
        else:
            calls = [say("calls.of_all", name=name, share=first.share([name])) for name in list(first.count)[:3]]
            yield say(f"calls.most_frequent{'_at' if first.levels else ''}", place=Place(first.levels), calls=calls)
        yield from _rates(one)
        if counts := [point.per_work for point in one.points if point.per_work is not None]:
            alike = phrases.plain_number(min(counts)) == phrases.plain_number(max(counts))
            yield say(f"calls.per_operation{'' if alike else '_range'}", least=min(counts), most=max(counts))


def _rates(one: SystemCalls) -> Iterator[Say]:
    """From the first level to the last where there is one factor of numbers, else from the fewest to the most."""
    by_rate = sorted(one.points, key=lambda point: point.rate)
    least, most = by_rate[0], by_rate[-1]
    first, last = (one.points[0], one.points[-1]) if one.ordered else (least, most)
    rates = {name: Quantity(_RATE, point.rate) for name, point in (("least", least), ("most", most))}
    if one.outcome == Outcome.SINGLE:
        yield say("calls.rate", rate=rates["most"])
    elif one.outcome == Outcome.CONSTANT:
        yield say("calls.rate_constant", **rates)
    else:
        ends = {"first": Quantity(_RATE, first.rate), "last": Quantity(_RATE, last.rate)}
        yield say("calls.rate_varies", **ends, first_place=Place(first.levels), last_place=Place(last.levels))
        if most not in (first, last):
            yield say("calls.rate_highest", place=Place(most.levels), rate=rates["most"])


def _by_point(points: Sequence[Point]) -> Table:
    columns = [
        Column("level", lambda point: phrases.levels(point.levels) or "all"),
        Column("system calls a second", lambda point: point.rate, _RATE),
        Column("at full speed", lambda point: point.rate_at_full_speed, _RATE),
        Column("a bogo operation", lambda point: point.per_work, "value"),
        Column("most frequent", lambda point: next(iter(point.count))),
        Column("its share (%)", lambda point: phrases.in_percent(point.share([next(iter(point.count))]))),
        Column("errors (%)", lambda point: phrases.in_percent(point.errors / point.total)),
    ]
    return Table.of(points, *(one for one in columns if any(one.value(point) is not None for point in points)))


def _by_name(points: Sequence[Point]) -> Table:
    """Calls a second of each of the names that are most of them anywhere, and of all others together."""
    names = sorted({name for point in points for name in point.count})
    names.sort(key=lambda name: -max(point.share([name]) for point in points))
    rows = [(name, [name]) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        rows.append(("all others", names[_MOST_NAMES:]))

    def rate(point: Point) -> Column:
        return Column(phrases.levels(point.levels) or "all", lambda row: point.rate * point.share(row[1]), _RATE)

    return Table.of(rows, ("system call", lambda row: row[0]), *map(rate, points))


def _caveats(one: SystemCalls) -> Iterator[Say]:
    """Who counted and when, its effect on the load, and what was not counted."""
    points, any_calls = one.points, one.outcome != Outcome.HARDLY_ANY
    by_strace = any(point.by == STRACE for point in points)
    yield say("calls.by_strace" if by_strace else "calls.by_bpf", trials=len(points))
    slowest = min((point.speed for point in points if point.speed is not None), default=1.0)
    if slowest < _SLOWED and any_calls:
        yield say("calls.slowed", speed=slowest)
    if by_strace:
        yield say("calls.not_by_strace")
    if min(point.total for point in points) < _FEW and any_calls:
        yield say("calls.few")
    if len(points) > _MOST_POINTS:
        yield say("calls.first_points", shown=_MOST_POINTS, points=len(points))
    if one.uncounted:
        yield say("calls.gave_none", trials=one.uncounted)
