"""The sentences and tables on system calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis.storage.system_calls import Outcome, Point, SystemCalls
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.records.observation import STRACE
from ioassay.stats.result import plain

RATE = "syscalls.rate"
_FEW = 20_000
"""Below this number, the calls of the tool's own start and end are visible (stress-ng's are about a thousand)."""
_MOST_NAMES, _MOST_POINTS = 8, 10
"""Rows and columns of the table of names."""
_SLOWED = 0.9


def findings(answers: Sequence[SystemCalls]) -> list[Finding]:
    """One finding for a study that counts system calls."""
    return [_finding(one) for one in answers]


def _finding(one: SystemCalls) -> Finding:
    numbers: dict[str, Any] = {"points": [_numbers(point) for point in one.points]}
    return Finding(
        study=one.study,
        question="calls",
        response="",
        title="System calls",
        statements=_statement(one),
        statistics=plain({"dominant": list(one.dominant), **numbers} if one.points else numbers),
        tables=_tables(one.points) if one.points else [],
        caveats=_caveats(one) if one.points else [],
        severity="info" if one.points else "warning",
    )


def _numbers(point: Point) -> dict[str, Any]:
    return {
        "point": dict(point.levels),
        "trial": point.trial,
        "by": point.by,
        "calls": point.total,
        "errors": point.errors,
        "syscalls.rate": point.rate,
        "calls_per_bogo_op": point.per_work,
        "speed": point.speed,
        "rate_at_full_speed": point.rate / point.speed if point.speed and point.work else None,
        "shares": {name: number / point.total for name, number in list(point.count.items())[:10]},
    }


def _statement(one: SystemCalls) -> str:
    """What dominates, how it changes, and the calls of a bogo operation."""
    if one.outcome == Outcome.UNCOUNTED:
        why = f": {phrases.listed(one.reasons, 2)}" if one.reasons else ""
        return f"None of {phrases.count(one.uncounted, 'trial')} has counts of system calls{why}."
    if one.outcome == Outcome.HARDLY_ANY:
        few = f"{_totals(one.points)} in a trial, most of them at the tool's start and end"
        return f"The load makes hardly any system calls: {few}."
    return " ".join([_frequent(one), _rates(one), *_per_work(one.points)])


def _totals(points: Sequence[Point]) -> str:
    low, high = min(point.total for point in points), max(point.total for point in points)
    return f"{low}" if low == high else f"{low} to {high}"


def _frequent(one: SystemCalls) -> str:
    if one.dominant:
        share = _percents([point.share(one.dominant) for point in one.points])
        verb = "accounts" if len(one.dominant) == 1 else "account"
        return f"{phrases.listed(list(one.dominant))} {verb} for {share} of all system calls."
    first = one.points[0]
    shares = [f"{name} ({phrases.percent(first.share([name]))})" for name in list(first.count)[:3]]
    place = f" {_at(first)}" if first.levels else ""
    return f"No system calls dominate. The most frequent{place} are {phrases.listed(shares)}."


def _percents(shares: Sequence[float]) -> str:
    low, high = phrases.percent(min(shares)), phrases.percent(max(shares))
    if low == high:
        return low
    return f"{phrases.points(min(shares))} to {high}" if max(shares) < 0.995 else f"{low} or more"


def _rates(one: SystemCalls) -> str:
    """From the first level to the last where there is one factor of numbers, else from the fewest to the most."""
    points = one.points
    by_rate = sorted(points, key=lambda point: point.rate)
    if one.outcome == Outcome.SINGLE:
        return f"The rate is {_number(points[0])} calls per second."
    if one.outcome == Outcome.CONSTANT:
        return f"In single trials, the rate is {_number(by_rate[0])} to {_number(by_rate[-1])} calls per second."
    first, last = (points[0], points[-1]) if one.ordered else (by_rate[0], by_rate[-1])
    text = f"The rate is {_number(first)} calls per second {_at(first)} and {_number(last)} {_at(last)}"
    most = by_rate[-1]
    return f"{text}." if most in (first, last) else f"{text}. It is highest {_at(most)}: {_number(most)}."


def _per_work(points: Sequence[Point]) -> list[str]:
    counts = [point.per_work for point in points if point.per_work is not None]
    if not counts:
        return []
    low, high = phrases.plain_number(min(counts)), phrases.plain_number(max(counts))
    return [f"One bogo operation makes {low if low == high else f'{low} to {high}'} calls."]


def _at(point: Point) -> str:
    if len(point.levels) == 1:
        ((name, level),) = point.levels.items()
        return phrases.at(name, level)
    return phrases.circumstances(point.levels)


def _number(point: Point) -> str:
    return metrics.format_metric(RATE, point.rate)


def _tables(points: Sequence[Point]) -> list[Table]:
    """A row for each point; then the most frequent calls by name and point."""
    return [_by_point(points), _by_name(points)]


def _by_point(points: Sequence[Point]) -> Table:
    rows = [
        [
            _label(point),
            point.rate,
            point.rate / point.speed if point.speed and point.work else None,
            point.per_work,
            next(iter(point.count)),
            phrases.in_percent(point.share([next(iter(point.count))])),
            phrases.in_percent(point.errors / point.total),
        ]
        for point in points
    ]
    columns = ["level", "system calls a second", "at full speed", "a bogo operation", "most frequent", "its share (%)",
               "errors (%)"]  # fmt: skip
    used = [column for column in range(len(columns)) if any(row[column] is not None for row in rows)]
    formats = ["", RATE, RATE, "value", "", "", ""]
    return Table(
        [columns[column] for column in used],
        [[row[column] for column in used] for row in rows],
        [formats[column] for column in used],
    )


def _by_name(points: Sequence[Point]) -> Table:
    """Calls a second of each of the names that are most of them anywhere, and of all others together."""
    shown = points[:_MOST_POINTS]
    names = {name for point in shown for name in point.count}
    most = sorted(names, key=lambda name: (-max(point.share([name]) for point in shown), name))[:_MOST_NAMES]
    rows = [[name, *(point.rate * point.share([name]) for point in shown)] for name in most]
    if len(names) > len(most):
        rows.append(["all others", *(point.rate * (1 - point.share(most)) for point in shown)])
    return Table(["system call", *(_label(point) for point in shown)], rows, ["", *([RATE] * len(shown))])


def _label(point: Point) -> str:
    return phrases.levels(point.levels) if point.levels else "all"


def _caveats(one: SystemCalls) -> list[str]:
    """Who counted and when, its effect on the load, and what was not counted."""
    points, any_calls = one.points, one.outcome != Outcome.HARDLY_ANY
    by_strace = any(point.by == STRACE for point in points)
    tool = "strace" if by_strace else "BPF programs in the kernel"
    notes = [f"Counts are by {tool}, in {phrases.count(len(points), 'trial')} used for nothing else."]
    speeds = [point.speed for point in points if point.speed is not None]
    if speeds and min(speeds) < _SLOWED and any_calls:
        share = _percents([min(speed, 1.0) for speed in speeds])
        notes.append(f"Counting slowed the load to {share} of its speed, so its usual rate of calls is higher.")
    if by_strace:
        notes.append("strace does not count calls that never return, nor numbers without a name.")
    if min(point.total for point in points) < _FEW and any_calls:
        notes.append("Where the number of calls is small, many belong to the tool's start and end.")
    if len(points) > _MOST_POINTS:
        notes.append(f"The table of names has the first {_MOST_POINTS} of {len(points)} points.")
    if one.uncounted:
        notes.append(f"{phrases.count(one.uncounted, 'trial')} gave no counts.")
    return notes
