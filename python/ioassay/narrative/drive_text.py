"""The sentences and tables of claims next to the counts of the drive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.storage.drive_agreement import DIFFERENCE, OWN, SAME_PERCENT, DriveAgreement, DriveClaim
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import plain
from ioassay.units import format_ns, format_size
from ioassay.verify.judge import overall
from ioassay.verify.verdict import BY_DRIVE

_MOST_ROWS = 120
_COUNTS = ("Condition", "Claim", "Trials", "Claimed", "Kernel", "Drive", "Drive to claim in %", "Verdict")
_TIMES = ("Condition", "Claim", "Mean latency claimed", "The drive's own", "The path's", "Share of the path in %")
_OWN = ("Condition", "Trials", "Requests in it (mean)", "Delivered after its deadline, median", "99 %", "99.9 %")
_CAVEATS = (
    "The drive counts every request that reaches it, whatever its origin.",
    "Delivered after its deadline: the delay of an answer beyond the time of the drive's model.",
    "The percentiles are medians over trials: the drive keeps no histograms of them.",
)


def findings(answers: Sequence[DriveAgreement]) -> list[Finding]:
    """One finding for a study whose drive counts."""
    return [_finding(one) for one in answers]


def _finding(one: DriveAgreement) -> Finding:
    rows = one.rows
    tables = [Table(_COUNTS, [_counted(row) for row in rows[:_MOST_ROWS]])]
    if any(row.claimed_ns is not None for row in rows):
        tables.append(Table(_TIMES, [_timed(row) for row in rows[:_MOST_ROWS]]))
    if one.own:
        tables.append(Table(_OWN, _own(one)[:_MOST_ROWS]))
    text = [*_agreement(one), *_by_drive(one), *_paths(rows)]
    if len(rows) > _MOST_ROWS:
        text.append(f"The tables have the first {_MOST_ROWS} of {len(rows)} rows.")
    numbers = {"claims": one.claims, "apart": len(one.differing), "by_drive": one.by_drive}
    return Finding(
        study=one.study,
        question="drive",
        response="",
        title="Claim, kernel and drive compared",
        statements=text,
        statistics=plain({**numbers, "rows": [row.as_dict() for row in rows]}),
        tables=tables,
        caveats=_CAVEATS,
    )


def _counted(row: DriveClaim) -> list[Any]:
    """A row of `_COUNTS`."""
    worst = overall([one.verdict for one in row.members])
    kernel = row.number("seen_bytes") or row.number("device_bytes")
    percent = None if row.off_percent is None else float(f"{row.off_percent:.2g}") + 0.0
    sizes = [_size(size) for size in (row.number("claimed_bytes"), kernel, row.number("drive_bytes"))]
    verdict = f"{worst.category}{' (by the drive)' if worst.reason == BY_DRIVE else ''}"
    return [row.condition, row.claim, len(row.members), *sizes, percent, verdict]


def _timed(row: DriveClaim) -> list[Any]:
    """A row of `_TIMES`."""
    claimed, path = row.claimed_ns, row.path_ns
    share = round(100 * path / claimed, 1) if path is not None and claimed else None
    return [row.condition, row.claim, _time(claimed), _time(row.drive_ns), _time(path), share]


def _own(one: DriveAgreement) -> list[list[Any]]:
    rows = []
    for own in one.own:
        depth, *times = (own.medians[name] for name in OWN)
        rows.append([own.condition, own.trials, None if depth is None else round(depth, 2), *map(_time, times)])
    return rows


def _agreement(one: DriveAgreement) -> list[str]:
    within = f"within {SAME_PERCENT:g} %"
    if not one.differing:
        return [f"The drive's own counts match {_claims(one.claims)} {within}."]
    worst = max(one.differing, key=lambda judged: abs(judged.verdict.numbers[DIFFERENCE]))
    far = f"{worst.verdict.numbers[DIFFERENCE]:+.2g} %"
    return [
        f"The drive's own counts match {one.claims - len(one.differing)} of {_number(one.claims)} {within}.",
        f"The largest difference is {far}, at {worst.condition}, {worst.claim}.",
    ]


def _claims(number: int) -> str:
    return "the claim" if number == 1 else f"all {number} claims"


def _number(number: int) -> str:
    return phrases.count(number, "claim")


def _by_drive(one: DriveAgreement) -> list[str]:
    if not one.by_drive:
        return []
    which = phrases.capital(_claims(one.claims)) if one.by_drive == one.claims else _number(one.by_drive)
    verb = "rests" if one.by_drive == 1 else "rest"
    return [f"{which} {verb} on the drive's counts, since the kernel does not see the path."]


def _paths(rows: Sequence[DriveClaim]) -> list[str]:
    """The conditions whose path takes least and most of a request's mean time."""
    known = [(row.path_ns, row) for row in rows if row.path_ns is not None and row.path_ns > 0]
    if len(known) < 2:
        return []
    known.sort(key=lambda pair: pair[0])
    ends = [f"{format_ns(path_ns)} ({row.condition}, {row.claim})" for path_ns, row in (known[0], known[-1])]
    return [f"The path adds {ends[0]} to {ends[1]} to the drive's own mean latency, queueing included."]


def _size(size_bytes: float | None) -> str | None:
    return None if size_bytes is None else format_size(int(size_bytes))


def _time(time_ns: float | None) -> str | None:
    return None if time_ns is None else format_ns(time_ns)
