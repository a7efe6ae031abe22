"""What did the drive itself count? Claim, kernel and drive side by side, where the storage counts for itself.

The claim is the tool's, at one end of the path; the drive's counts are at the other; the kernel's lie between, where it
sees the path at all. The difference of their mean latencies is what the path takes. Which verdict follows is
`witnessed.drive`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis.claims.claim_verdicts import Judged, judged_claims
from ioassay.analysis.claims.timing_agreement import middle
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_ns, format_size
from ioassay.verify.judge import overall
from ioassay.verify.verdict import BY_DRIVE

QUESTION = "drive"
_MOST_ROWS = 120
_COUNTS = ("Condition", "Claim", "Trials", "Claimed", "Kernel", "Drive", "Drive to claim in %", "Verdict")
_TIMES = ("Condition", "Claim", "Mean latency claimed", "The drive's own", "The path's", "Share of the path in %")
_OWN = ("Condition", "Trials", "Requests in it (mean)", "Delivered after its deadline, median", "99 %", "99.9 %")
_OWN_METRICS = ("drive.depth", "drive.late.p50", "drive.late.p99", "drive.late.p99.9")
_SAME_PERCENT = 0.1
"""What counts as the same, and the step in which differences are told."""


@dataclass(frozen=True)
class _Row:
    """One claim of a condition: the middle of its repetitions."""

    condition: str
    claim: str
    members: Sequence[Judged]

    def number(self, name: str) -> float | None:
        """The middle of one of the verdicts' numbers."""
        return middle([one.verdict.numbers.get(name) for one in self.members])

    @property
    def off_percent(self) -> float | None:
        """The drive's bytes over the claim's, where they are furthest apart."""
        known = [one.verdict.numbers.get("drive_difference_percent") for one in self.members]
        return max((number for number in known if number is not None), key=abs, default=None)

    @property
    def claimed_ns(self) -> float | None:
        """Mean latency of a request as the tool claims it, submission to completion."""
        claims = [one.verdict.claim for one in self.members]
        return middle([claim.latency_ns.get("mean") for claim in claims if claim is not None])

    @property
    def path_ns(self) -> float | None:
        """What of that is not the drive's own; None where the drive did other requests than were claimed."""
        claimed, own, off = self.claimed_ns, self.number("drive_latency_mean_ns"), self.off_percent
        same = off is not None and abs(off) <= _SAME_PERCENT
        return claimed - own if same and claimed is not None and own is not None else None

    def counted(self) -> list[Any]:
        """A row of `_COUNTS`."""
        worst = overall([one.verdict for one in self.members])
        kernel = self.number("seen_bytes") or self.number("device_bytes")
        shown = "" if worst.reason != BY_DRIVE else " (by the drive)"
        return [
            *(self.condition, self.claim, len(self.members)),
            *(_size(self.number("claimed_bytes")), _size(kernel), _size(self.number("drive_bytes"))),
            _percent(self.off_percent),
            f"{worst.category}{shown}",
        ]

    def timed(self) -> list[Any]:
        """A row of `_TIMES`."""
        claimed, own, path = self.claimed_ns, self.number("drive_latency_mean_ns"), self.path_ns
        share = 100 * path / claimed if path is not None and claimed else None
        return [self.condition, self.claim, _time(claimed), _time(own), _time(path), share and round(share, 1)]

    def as_dict(self) -> dict[str, Any]:
        """The numbers under stable names."""
        return {
            "condition": self.condition,
            "claim": self.claim,
            "claimed_bytes": self.number("claimed_bytes"),
            "kernel_bytes": self.number("seen_bytes"),
            "drive_bytes": self.number("drive_bytes"),
            "claimed_operations": self.number("claimed_operations"),
            "drive_operations": self.number("drive_operations"),
            "drive_difference_percent": self.off_percent,
            "claimed_latency_ns": self.claimed_ns,
            "drive_latency_ns": self.number("drive_latency_mean_ns"),
            "path_latency_ns": self.path_ns,
        }


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding where trials loaded a drive that counts; none elsewhere."""
    if not records.is_measured(study):
        return []
    compared = [one for one in judged_claims(records, study) if "drive_bytes" in one.verdict.numbers]
    if not compared:
        return []
    rows = list(_rows(compared))
    off = [one for one in compared if abs(one.verdict.numbers.get("drive_difference_percent", 0.0)) > _SAME_PERCENT]
    alone = sum(one.verdict.reason == BY_DRIVE for one in compared)
    said = [_agreement(len(compared), off), _only_witness(alone, len(compared)), _paths(rows)]
    numbers = {"claims": len(compared), "apart": len(off), "by_drive": alone, "rows": [row.as_dict() for row in rows]}
    tables = [Table(_COUNTS, [row.counted() for row in rows[:_MOST_ROWS]])]
    if any(row.claimed_ns is not None for row in rows):
        tables.append(Table(_TIMES, [row.timed() for row in rows[:_MOST_ROWS]]))
    tables += _of_the_drive(compared, records, study)
    left = f" The tables have the first {_MOST_ROWS} of {len(rows)} rows." if len(rows) > _MOST_ROWS else ""
    return [
        Finding(
            study=study.name,
            question=QUESTION,
            response="",
            title="Claim, kernel and drive side by side",
            statement=" ".join(filter(None, said)) + left,
            statistics=plain(numbers),
            tables=tables,
            caveats=[
                "The drive counts every request that reaches it, and cannot tell whose it was.",
                "Delivered after its deadline: how much later than its model says an answer was given to the system.",
            ],
        )
    ]


def _of_the_drive(compared: Sequence[Judged], records: Dataset, study: Study) -> list[Table]:
    """What the drive says of itself: how many requests it had at once, and how late it gave its answers."""
    trials = records.trials_of(study)
    known = [name for name in _OWN_METRICS if name in trials.columns]
    if not known:
        return []
    conditions: dict[str, set[str]] = {}
    for one in compared:
        conditions.setdefault(one.condition, set()).add(one.trial)
    measured = {row["trial"]: row for row in trials.select("trial", *known).iter_rows(named=True)}
    rows = []
    for condition in sorted(conditions, key=lambda name: _natural((name, ""))):
        own = [measured[trial] for trial in sorted(conditions[condition]) if trial in measured]
        middles = [middle([row.get(name) for row in own]) for name in _OWN_METRICS]
        depth = None if middles[0] is None else round(middles[0], 2)
        rows.append([condition, len(own), depth, *map(_time, middles[1:])])
    return [Table(_OWN, rows[:_MOST_ROWS])]


def _rows(compared: Iterable[Judged]) -> Iterable[_Row]:
    grouped: dict[tuple[str, str], list[Judged]] = {}
    for one in compared:
        grouped.setdefault((one.condition, one.claim), []).append(one)
    return [_Row(*key, grouped[key]) for key in sorted(grouped, key=_natural)]


def _natural(key: tuple[str, str]) -> list[tuple[int, str]]:
    """Trials ran in a shuffled order; numbers sort as numbers."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", " ".join(key))]


def _agreement(claims: int, off: Sequence[Judged]) -> str:
    if not off:
        whole = "the claim" if claims == 1 else f"each of {claims} claims"
        return f"The drive itself counted what is claimed, in {whole}, within {_SAME_PERCENT:g} %."
    worst = max(off, key=lambda one: abs(one.verdict.numbers["drive_difference_percent"]))
    far = worst.verdict.numbers["drive_difference_percent"]
    return (
        f"The drive itself counted what is claimed, within {_SAME_PERCENT:g} %, in {claims - len(off)} of "
        f"{phrases.count(claims, 'claim')}; furthest off is {worst.condition}, {worst.claim}: {far:+.2g} % to the "
        "claim."
    )


def _only_witness(alone: int, claims: int) -> str:
    if not alone:
        return ""
    which = "It" if claims == 1 else "All of them" if alone == claims else f"{alone} of them"
    verb = "rests" if alone == 1 else "rest"
    return f"{which} {verb} on the drive's counts, since the kernel does not see the path."


def _paths(rows: Sequence[_Row]) -> str:
    """Which condition's path takes least and which most, of a request's mean time."""
    known = [(row.path_ns, row) for row in rows if row.path_ns is not None and row.path_ns > 0]
    if len(known) < 2:
        return ""
    known.sort(key=lambda pair: pair[0])
    (least_ns, least), (most_ns, most) = known[0], known[-1]
    return (
        f"What a request takes beside the drive's own time is between {format_ns(least_ns)} ({least.condition}, "
        f"{least.claim}) and {format_ns(most_ns)} ({most.condition}, {most.claim}) in the mean, waiting for others "
        "included."
    )


def _size(size_bytes: float | None) -> str | None:
    return None if size_bytes is None else format_size(int(size_bytes))


def _time(time_ns: float | None) -> str | None:
    return None if time_ns is None else format_ns(time_ns)


def _percent(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.2g}") + 0.0
