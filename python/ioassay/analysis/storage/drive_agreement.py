"""What did the drive itself count? Claim, kernel and drive compared, where the storage counts for itself.

The claim is the tool's, at one end of the path; the drive's counts are at the other; the kernel's lie between, where it
sees the path at all. The difference of their mean latencies is the latency of the path. The verdicts are those of
`verify/drive_counters.py`. Counts of one trial are compared with each other, so no chance is in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ioassay.analysis.claims.claim_verdicts import Judged, judged_claims
from ioassay.stats.sample import median_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.verify.verdict import BY_DRIVE

OWN = ("drive.depth", "drive.late.p50", "drive.late.p99", "drive.late.p99.9")
DIFFERENCE = "drive_difference_percent"
SAME_PERCENT = 0.1
"""The largest difference that counts as none."""


@dataclass(frozen=True)
class DriveClaim:
    """One claim of a condition: the middle of its repetitions."""

    condition: str
    claim: str
    members: Sequence[Judged]

    def number(self, name: str) -> float | None:
        """The middle of one of the verdicts' numbers."""
        return median_of([one.verdict.numbers.get(name) for one in self.members])

    @property
    def off_percent(self) -> float | None:
        """The drive's bytes over the claim's, where they are furthest apart."""
        known = [one.verdict.numbers.get(DIFFERENCE) for one in self.members]
        return max((number for number in known if number is not None), key=abs, default=None)

    @property
    def claimed_ns(self) -> float | None:
        """Mean latency of a request as the tool claims it, submission to completion."""
        claims = [one.verdict.claim for one in self.members]
        return median_of([claim.latency_ns.get("mean") for claim in claims if claim is not None])

    @property
    def drive_ns(self) -> float | None:
        """Mean latency of a request as the drive counts it."""
        return self.number("drive_latency_mean_ns")

    @property
    def path_ns(self) -> float | None:
        """The part of that outside the drive; None where the drive did other requests than were claimed."""
        claimed, own, off = self.claimed_ns, self.drive_ns, self.off_percent
        same = off is not None and abs(off) <= SAME_PERCENT
        return claimed - own if same and claimed is not None and own is not None else None

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
            "drive_latency_ns": self.drive_ns,
            "path_latency_ns": self.path_ns,
        }


@dataclass(frozen=True)
class OwnMeasures:
    """What the drive reports of itself in one condition, the median over `trials`, by the names of `OWN`."""

    condition: str
    trials: int
    medians: Mapping[str, float | None]


class Outcome(StrEnum):
    """Whether the drive counted what is claimed."""

    AGREES = "agrees"
    DIFFERS = "differs"


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
    def outcome(self) -> Outcome:
        """Whether the drive counted what is claimed."""
        return Outcome.DIFFERS if self.differing else Outcome.AGREES


def analyse(records: Dataset, study: Study) -> list[DriveAgreement]:
    """One answer where trials loaded a drive that counts; none elsewhere."""
    if not records.is_measured(study):
        return []
    compared = [one for one in judged_claims(records, study) if "drive_bytes" in one.verdict.numbers]
    if not compared:
        return []
    return [
        DriveAgreement(
            study=study.name,
            claims=len(compared),
            differing=[one for one in compared if abs(one.verdict.numbers.get(DIFFERENCE, 0.0)) > SAME_PERCENT],
            by_drive=sum(one.verdict.reason == BY_DRIVE for one in compared),
            rows=_rows(compared),
            own=_own(compared, records, study),
        )
    ]


def _own(compared: Sequence[Judged], records: Dataset, study: Study) -> list[OwnMeasures]:
    trials = records.trials_of(study)
    known = [name for name in OWN if name in trials.columns]
    if not known:
        return []
    conditions: dict[str, set[str]] = {}
    for one in compared:
        conditions.setdefault(one.condition, set()).add(one.trial)
    measured = {row["trial"]: row for row in trials.select("trial", *known).iter_rows(named=True)}
    found = []
    for condition in sorted(conditions, key=lambda name: _natural((name, ""))):
        own = [measured[trial] for trial in sorted(conditions[condition]) if trial in measured]
        medians = {name: median_of([row.get(name) for row in own]) for name in OWN}
        found.append(OwnMeasures(condition, len(own), medians))
    return found


def _rows(compared: Iterable[Judged]) -> list[DriveClaim]:
    grouped: dict[tuple[str, str], list[Judged]] = {}
    for one in compared:
        grouped.setdefault((one.condition, one.claim), []).append(one)
    return [DriveClaim(*key, grouped[key]) for key in sorted(grouped, key=_natural)]


def _natural(key: tuple[str, str]) -> list[tuple[int, str]]:
    """Trials ran in a shuffled order; numbers sort as numbers."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", " ".join(key))]
