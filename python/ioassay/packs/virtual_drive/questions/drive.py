"""What did the drive itself count? Claim, kernel and drive compared, where the storage counts for itself.

The claim is the tool's, at one end of the path; the drive's counts are at the other; the kernel's lie between, where it
sees the path at all. The difference of their mean latencies is the latency of the path. The verdicts are those of
`verify/drive_counters.py`. Counts of one trial are compared with each other, so no chance is in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ioassay.analysis import claim_verdicts
from ioassay.analysis.claim_verdicts import Judged
from ioassay.narrative.finding import Column, Finding, Table
from ioassay.narrative.say import Quantity, Say, holding, say, templates
from ioassay.stats.result import plain
from ioassay.stats.sample import median_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.verify.judge import overall
from ioassay.verify.verdict import BY_DRIVE

HEADING = templates("drive")["heading"]
CONCLUDES = False
OWN = ("drive.depth", "drive.late.p50", "drive.late.p99", "drive.late.p99.9")
DIFFERENCE = "drive_difference_percent"
SAME_PERCENT = 0.1
"""The largest difference that counts as none."""

_SIZE, _TIME = "drive.read.bytes", "drive.read.lat.mean"


@dataclass(frozen=True)
class DriveClaim:
    """One claim of a condition: the middle of its `trials` repetitions, and the category of their worst verdict.

    Bytes, operations and mean latencies as the tool claims them, the kernel saw them and the drive counted them.
    """

    condition: str
    claim: str
    trials: int
    category: str
    by_drive: bool
    """Whether that verdict rests on the drive's counts alone."""
    claimed_bytes: float | None
    kernel_bytes: float | None
    drive_bytes: float | None
    claimed_operations: float | None
    drive_operations: float | None
    drive_difference_percent: float | None
    """The drive's bytes over the claim's, where they are furthest apart."""
    claimed_latency_ns: float | None
    """From submission to completion."""
    drive_latency_ns: float | None
    path_latency_ns: float | None
    """The part of that outside the drive; None where the drive did other requests than were claimed."""


@dataclass(frozen=True)
class OwnMeasures:
    """What the drive reports of itself in one condition, the median over `trials`, by the names of `OWN`."""

    condition: str
    trials: int
    medians: Mapping[str, float | None]


@dataclass(frozen=True)
class DriveAgreement:
    """A study's claims next to the counts of its drive. `by_drive`: claims that rest on these counts alone."""

    study: str
    claims: int
    differing: Sequence[Judged]
    by_drive: int
    rows: Sequence[DriveClaim]
    own: Sequence[OwnMeasures]

    @property
    def worst(self) -> Judged:
        return max(self.differing, key=lambda one: abs(one.verdict.numbers[DIFFERENCE]))


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding where trials loaded a drive that counts; none elsewhere."""
    return [finding(one) for one in agreement(records, study)]


def agreement(records: Dataset, study: Study) -> list[DriveAgreement]:
    judged = [one for answer in claim_verdicts.analyse(records, study) for one in answer.judged]
    compared = [one for one in judged if "drive_bytes" in one.verdict.numbers]
    if not compared:
        return []
    grouped: dict[tuple[str, str], list[Judged]] = {}
    for one in compared:
        grouped.setdefault((one.condition, one.claim), []).append(one)
    return [
        DriveAgreement(
            study=study.name,
            claims=len(compared),
            differing=[one for one in compared if abs(one.verdict.numbers.get(DIFFERENCE, 0.0)) > SAME_PERCENT],
            by_drive=sum(one.verdict.reason == BY_DRIVE for one in compared),
            rows=[_row(*key, grouped[key]) for key in sorted(grouped, key=_natural)],
            own=_own(compared, records, study),
        )
    ]


def _row(condition: str, claim: str, own: Sequence[Judged]) -> DriveClaim:
    verdicts = [one.verdict for one in own]
    numbers, worst = [verdict.numbers for verdict in verdicts], overall(verdicts)

    def middle(name: str) -> float | None:
        return median_of([known.get(name) for known in numbers])

    apart = max((known[DIFFERENCE] for known in numbers if DIFFERENCE in known), key=abs, default=None)
    claimed = median_of([one.claim.latency_ns.get("mean") for one in verdicts if one.claim])
    inside, same = middle("drive_latency_mean_ns"), apart is not None and abs(apart) <= SAME_PERCENT
    return DriveClaim(
        condition=condition,
        claim=claim,
        trials=len(own),
        category=worst.category,
        by_drive=worst.reason == BY_DRIVE,
        claimed_bytes=middle("claimed_bytes"),
        kernel_bytes=middle("seen_bytes") or middle("device_bytes"),
        drive_bytes=middle("drive_bytes"),
        claimed_operations=middle("claimed_operations"),
        drive_operations=middle("drive_operations"),
        drive_difference_percent=apart,
        claimed_latency_ns=claimed,
        drive_latency_ns=inside,
        path_latency_ns=claimed - inside if same and claimed is not None and inside is not None else None,
    )


def _own(compared: Sequence[Judged], records: Dataset, study: Study) -> list[OwnMeasures]:
    trials = records.trials_of(study)
    known = [name for name in OWN if name in trials.columns]
    conditions: dict[str, set[str]] = {}
    for one in compared:
        conditions.setdefault(one.condition, set()).add(one.trial)
    measured = {row["trial"]: row for row in trials.select("trial", *known).iter_rows(named=True)}
    found = []
    for condition in sorted(conditions, key=lambda name: _natural((name, ""))) if known else ():
        own = [measured[trial] for trial in sorted(conditions[condition]) if trial in measured]
        found.append(
            OwnMeasures(condition, len(own), {name: median_of([row.get(name) for row in own]) for name in OWN})
        )
    return found


def _natural(key: tuple[str, str]) -> list[tuple[int, str]]:
    """Trials ran in a shuffled order; numbers sort as numbers."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", " ".join(key))]


def finding(one: DriveAgreement) -> Finding:
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
        *map(_median, OWN),
    )
    timed = any(row.claimed_latency_ns is not None for row in one.rows)
    numbers = {"claims": one.claims, "apart": len(one.differing), "by_drive": one.by_drive}
    return Finding(
        title=str(say("drive.title")),
        statements=[*_statements(one)],
        statistics={**numbers, "rows": plain(one.rows)},
        tables=[counts, *([times] if timed else []), *([own] if one.own else [])],
        caveats=holding("drive", every=True, late=one.own),
    )


def _median(name: str) -> Column:
    return Column(templates("drive")[name.replace("drive.", "own_")], lambda row: row.medians[name], name)


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
