"""The sentences and tables on system calls. Computes shares and ratios of what `calls` gathered, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ioassay import metrics
from ioassay.factors import level_axis_numbers
from ioassay.narrative import phrases
from ioassay.narrative.finding import Table
from ioassay.records.observation import STRACE
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

    from ioassay.analysis.storage.system_calls import Point

RATE = "syscalls.rate"
_HARDLY = 1.15
"""Rates that differ by less are told as one."""
_FEW = 20_000
"""Of so few calls, the tool's own start and end are a part that shows (stress-ng's are about a thousand)."""
_NONE = 3000
"""So few are hardly more than these."""
_MOST_NAMES, _MOST_POINTS = 8, 10
"""Rows and columns of the table of names."""
_SLOWED = 0.9


def uncounted(trials: pl.DataFrame) -> str:
    """The statement where nothing was counted."""
    reasons = list(dict.fromkeys(reason for reason in trials["reason"].to_list() if reason))
    why = f": {phrases.listed(reasons, 2)}" if reasons else ""
    return f"System calls were to be counted in {phrases.count(trials.height, 'trial')}, and none was{why}."


def statement(study: Study, points: Sequence[Point], dominant: Sequence[str]) -> str:
    """What dominates, how it changes, and what a bogo operation takes."""
    if _hardly_any(points):
        few = f"{_totals(points)} in a trial, most of the tool's own start and end"
        return f"The load makes hardly any system calls: {few}."
    parts = [_what(points, dominant), _change(study, points), _per_work(points)]
    return " ".join(part for part in parts if part)


def _hardly_any(points: Sequence[Point]) -> bool:
    return max(point.total for point in points) < _NONE


def _totals(points: Sequence[Point]) -> str:
    low, high = min(point.total for point in points), max(point.total for point in points)
    return f"{low}" if low == high else f"{low} to {high}"


def _what(points: Sequence[Point], dominant: Sequence[str]) -> str:
    if not dominant:
        first = list(points[0].count)[:3]
        shares = [f"{name} ({phrases.percent(points[0].share([name]))})" for name in first]
        place = f" {_at(points[0])}" if points[0].levels else ""
        return f"No few system calls dominate; the most frequent{place} are {phrases.listed(shares)}."
    share = _percents([point.share(dominant) for point in points])
    return f"{phrases.listed(list(dominant))} make{'s' if len(dominant) == 1 else ''} {share} of all system calls."


def _percents(shares: Sequence[float]) -> str:
    low, high = phrases.percent(min(shares)), phrases.percent(max(shares))
    return (
        low if low == high else f"{phrases.points(min(shares))} to {high}" if max(shares) < 0.995 else f"{low} or more"
    )


def _change(study: Study, points: Sequence[Point]) -> str:
    """From the first level to the last where there is one factor of numbers, else from the fewest to the most."""
    if len(points) == 1:
        return f"{phrases.capital(_rate(points[0]))} are made."
    levels = study.levels
    ordered = len(levels) == 1 and all(level_axis_numbers(*only) is not None for only in levels.items())
    by_rate = sorted(points, key=lambda point: point.rate)
    if by_rate[-1].rate < _HARDLY * by_rate[0].rate:
        return f"Their number hardly changes: {_number(by_rate[0])} to {_rate(by_rate[-1])}."
    first, last = (points[0], points[-1]) if ordered else (by_rate[0], by_rate[-1])
    told = f"{phrases.capital(_at(first))} there are {_rate(first)}, {_at(last)} {_number(last)}"
    if ordered and by_rate[-1] not in (first, last):
        told += f", and most {_at(by_rate[-1])}: {_number(by_rate[-1])}"
    return f"{told}."


def _per_work(points: Sequence[Point]) -> str:
    found = [point.per_work for point in points if point.per_work is not None]
    if not found:
        return ""
    low, high = phrases.plain_number(min(found)), phrases.plain_number(max(found))
    return f"A bogo operation takes {low if low == high else f'{low} to {high}'} of them."


def _at(point: Point) -> str:
    if len(point.levels) == 1:
        ((name, level),) = point.levels.items()
        return phrases.at(name, level)
    return phrases.circumstances(point.levels)


def _rate(point: Point) -> str:
    return f"{_number(point)} a second"


def _number(point: Point) -> str:
    return metrics.format_metric(RATE, point.rate)


def tables(points: Sequence[Point]) -> list[Table]:
    """A row a point; then the most frequent calls by name and point."""
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


def caveats(points: Sequence[Point], uncounted: int) -> list[str]:
    """Who counted and when, what that did, and what was not counted."""
    by_strace = any(point.by == STRACE for point in points)
    who = "strace" if by_strace else "BPF programs in the kernel"
    told = [
        f"Counted by {who} in {phrases.count(len(points), 'trial')} of their own, once a point; no speed is theirs."
    ]
    speeds = [point.speed for point in points if point.speed is not None]
    if speeds and min(speeds) < _SLOWED and not _hardly_any(points):
        share = _percents([min(speed, 1.0) for speed in speeds])
        told.append(
            f"While it was counted the load ran at {share} of its speed, so it makes more calls a second otherwise."
        )
    if by_strace:
        told.append("strace does not count calls that never return, nor numbers that it has no name for.")
    if min(point.total for point in points) < _FEW and not _hardly_any(points):
        told.append("Where there are few calls, many are of the tool's own start and end.")
    if len(points) > _MOST_POINTS:
        told.append(f"The table of names has the first {_MOST_POINTS} of {len(points)} points.")
    if uncounted:
        told.append(f"In {phrases.count(uncounted, 'trial')} nothing was counted.")
    return told
