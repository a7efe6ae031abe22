"""The sentences and tables of claims next to the counts of the drive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioassay.analysis.storage.drive_agreement import DIFFERENCE, OWN, SAME_PERCENT, DriveAgreement, DriveClaim
from ioassay.narrative.finding import Column, Finding, Table
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Quantity
from ioassay.stats.result import plain

_SIZE, _TIME = "drive.read.bytes", "drive.read.lat.mean"
_OWN = ("Requests in it (mean)", "Delivered after its deadline, median", "99 %", "99.9 %")


def findings(answers: Sequence[DriveAgreement]) -> list[Finding]:
    """One finding for a study whose drive counts."""
    return [_finding(one) for one in answers]


def _finding(one: DriveAgreement) -> Finding:
    place = (("Condition", lambda row: row.condition), ("Claim", lambda row: row.claim))
    counts = Table.of(
        one.rows,
        *place,
        ("Trials", lambda row: row.trials),
        ("Claimed", lambda row: row.claimed_bytes, _SIZE),
        ("Kernel", lambda row: row.kernel_bytes, _SIZE),
        ("Drive", lambda row: row.drive_bytes, _SIZE),
        ("Drive to claim in %", lambda row: row.drive_difference_percent),
        ("Verdict", lambda row: f"{row.category}{' (by the drive)' if row.by_drive else ''}"),
    )
    times = Table.of(
        one.rows,
        *place,
        ("Mean latency claimed", lambda row: row.claimed_latency_ns, _TIME),
        ("The drive's own", lambda row: row.drive_latency_ns, _TIME),
        ("The path's", lambda row: row.path_latency_ns, _TIME),
        ("Share of the path in %", _share),
    )
    own = Table.of(
        one.own,
        ("Condition", lambda row: row.condition),
        ("Trials", lambda row: row.trials),
        *(_median(title, name) for title, name in zip(_OWN, OWN, strict=True)),
    )
    timed = any(row.claimed_latency_ns is not None for row in one.rows)
    numbers = {"claims": one.claims, "apart": len(one.differing), "by_drive": one.by_drive}
    return Finding(
        study=one.study,
        question="drive",
        response="",
        title="Claim, kernel and drive compared",
        statements=list(_statements(one)),
        statistics={**numbers, "rows": plain(one.rows)},
        tables=[counts, *([times] if timed else []), *([own] if one.own else [])],
        caveats=[str(say(code)) for code in ("drive.every", *(["drive.late"] if one.own else []))],
    )


def _median(title: str, name: str) -> Column:
    return Column(title, lambda row: row.medians[name], name)


def _share(row: DriveClaim) -> float | None:
    path, claimed = row.path_latency_ns, row.claimed_latency_ns
    return 100 * path / claimed if path is not None and claimed else None


def _statements(one: DriveAgreement) -> Iterator[Say]:
    """How many claims the drive agrees with, how many rest on it alone, and what the paths add."""
    if one.differing:
        worst, matching = one.worst, one.claims - len(one.differing)
        far = {"far": worst.verdict.numbers[DIFFERENCE], "condition": worst.condition, "claim": worst.claim}
        yield say("drive.differ", matching=matching, claims=one.claims, same=SAME_PERCENT, **far)
    else:
        yield say("drive.agree" if one.claims > 1 else "drive.agree_one", claims=one.claims, same=SAME_PERCENT)
    if one.by_drive:
        yield say("drive.by_drive", n=one.by_drive, claims=one.claims)
    paths = [(path, row) for row in one.rows if (path := row.path_latency_ns) is not None and path > 0]
    if len(paths) > 1:
        paths.sort(key=lambda pair: pair[0])
        ends = [
            say("drive.at", time=Quantity(_TIME, path), condition=row.condition, claim=row.claim)
            for path, row in (paths[0], paths[-1])
        ]
        yield say("drive.path", least=ends[0], most=ends[1])
