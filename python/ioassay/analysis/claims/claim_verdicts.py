"""Is what the tools claim true? Every claim of every witnessed trial, compared with what the kernel saw.

Verdicts follow from the raw counts each time (`verify/judge.py`), so that a better tolerance improves old runs. Where
trials have twins without the witness, the observer effect is judged for each condition. The rules are in `verify`,
because `ioassay witness` uses them as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.analysis.machine_conditions import contended
from ioassay.analysis.measurements.cells import label
from ioassay.analysis.measurements.memo import memoized
from ioassay.formats import conventions
from ioassay.records.record import OK, Claim
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_size
from ioassay.verify import drive_counters
from ioassay.verify.judge import judge, overall
from ioassay.verify.observer_effect import Twins
from ioassay.verify.verdict import (
    BY_DRIVE,
    CATEGORIES,
    CONTRADICTED,
    NOT_IO,
    TRUE_CLAIMS,
    Verdict,
)

if TYPE_CHECKING:
    import polars as pl

from ioassay.records.observation import Observation


@dataclass(frozen=True)
class Judged:
    """One claim of one trial."""

    trial: str
    condition: str
    claim: str
    verdict: Verdict


class Outcome(StrEnum):
    """Whether there is anything to judge."""

    UNWITNESSED = "unwitnessed"
    """The claims are taken on trust."""
    UNCLAIMED = "unclaimed"
    """The tool claims no I/O."""
    JUDGED = "judged"


@dataclass(frozen=True)
class ConditionVerdicts:
    """One claim of a condition over its repetitions."""

    condition: str
    claim: str
    members: Sequence[Verdict]

    @property
    def worst(self) -> Verdict:
        """The verdict that decides."""
        return overall(self.members)


@dataclass(frozen=True)
class ClaimVerdicts:
    """The claims of a study's `witnessed` trials, judged; `unclaimed` is an observation of a trial without claims."""

    study: str
    driver: str
    witnessed: int
    judged: Sequence[Judged]
    unclaimed: Observation | None

    @property
    def outcome(self) -> Outcome:
        """Whether there is anything to judge."""
        if not self.witnessed:
            return Outcome.UNWITNESSED
        return Outcome.JUDGED if self.judged else Outcome.UNCLAIMED

    @property
    def of_io(self) -> Sequence[Judged]:
        """The claims about I/O; all, where there is none."""
        return [one for one in self.judged if one.verdict.reason != NOT_IO] or self.judged

    @property
    def by_drive(self) -> int:
        """The number of claims that rest on the drive's counts."""
        return sum(one.verdict.reason == BY_DRIVE for one in self.of_io)

    @property
    def true(self) -> int:
        """The number of claims about I/O that are confirmed, by the kernel or the drive."""
        return sum(one.verdict.category in TRUE_CLAIMS for one in self.of_io)

    @property
    def contradicted(self) -> int:
        """The number of claims about I/O that the kernel contradicts."""
        return sum(one.verdict.category == CONTRADICTED for one in self.of_io)

    def by_condition(self) -> list[ConditionVerdicts]:
        """One for each claim of each condition."""
        rows: dict[tuple[str, str], list[Verdict]] = {}
        for one in self.judged:
            rows.setdefault((one.condition, one.claim), []).append(one.verdict)
        return [ConditionVerdicts(*key, members) for key, members in rows.items()]


@dataclass(frozen=True)
class Unclaimed:
    """The studies of a run whose tools claim no I/O, and their witnessed trials."""

    studies: Sequence[str]
    tools: Sequence[str]
    witnessed: int


def counted(judged: Sequence[Judged]) -> dict[str, int]:
    """The number of verdicts of each category that occurs, best first."""
    counts = Counter(one.verdict.category for one in judged)
    return {category: counts[category] for category in CATEGORIES if counts[category]}


@memoized
def analyse(records: Dataset, study: Study) -> list[ClaimVerdicts]:
    """One answer for a study that measured; none when it never ran or computes its trials."""
    frames = _frames(records, study)
    if not records.is_measured(study) or not any(frame.height for frame in frames):
        return []
    witnessed = _witnessed(records, frames)
    judged, unclaimed = _judged(records, study, witnessed, _twins(frames, records, study))
    return [ClaimVerdicts(study.name, study.driver, len(witnessed), judged, unclaimed)]


def together(records: Dataset) -> list[Unclaimed]:
    """One answer where there are studies that were witnessed and whose tool claims no I/O."""
    found = [one for study in records.studies for one in analyse(records, study) if one.outcome == Outcome.UNCLAIMED]
    tools = list(dict.fromkeys(one.driver.replace("_", "-") for one in found))
    witnessed = sum(one.witnessed for one in found)
    return [Unclaimed([one.study for one in found], tools, witnessed)] if found else []


def judged_claims(records: Dataset, study: Study) -> list[Judged]:
    """Every claim of the study's witnessed trials, judged by the kernel's counts and the drive's own."""
    frames = _frames(records, study)
    return _judged(records, study, _witnessed(records, frames), _twins(frames, records, study))[0]


def _witnessed(records: Dataset, frames: Sequence[pl.DataFrame]) -> list[dict[str, Any]]:
    return [row for row in _rows(frames) if row["trial"] in records.observations]


def _frames(records: Dataset, study: Study) -> list[pl.DataFrame]:
    """The trials that count, and their watched twins where there are any."""
    import polars as pl

    frames = [records.trials_of(study)]
    if records.traced is not None:
        frames.append(records.traced.filter(pl.col("study") == study.name).sort("order"))
    return frames


def _rows(frames: Sequence[pl.DataFrame]) -> Iterator[dict[str, Any]]:
    for frame in frames:
        yield from frame.iter_rows(named=True)


def _point(row: Mapping[str, Any], factors: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in factors if row.get(name) is not None}


def _judged(
    records: Dataset,
    study: Study,
    witnessed: Sequence[Mapping[str, Any]],
    twins: Mapping[tuple[str, ...], Twins],
) -> tuple[list[Judged], Observation | None]:
    """All claims, judged; and one observation without a claim, where there is one. Each file is read once."""
    design, factors = study.design, list(study.levels)
    found, unclaimed = [], None
    for row in witnessed:
        observation = records.observations[row["trial"]]
        claims = records.claims.get(row["trial"], ())
        if not claims:
            unclaimed = observation
        condition = label(_point(row, factors))
        verdicts = judge(
            claims,
            observation,
            twins=twins.get(design.key(row)),
            exit_ok=row["status"] == OK,
            contended=contended(records.environments.get(row["trial"])),
        )
        verdicts = drive_counters.set_against(verdicts, drive_counters.counts(row))
        found += [
            Judged(row["trial"], condition, _name(claim), verdict)
            for claim, verdict in zip(claims, verdicts, strict=True)
        ]
    return found, unclaimed


def _name(claim: Claim) -> str:
    """'read', 'reread of 1 MiB by 4 KiB': by the tool's own name where its claims have a shape of their own."""
    shared = conventions(claim.source)
    name = claim.test if shared.tests_are_work and claim.test else claim.kind
    if shared.passes and claim.file_bytes and claim.record_bytes:
        return f"{name}, {format_size(claim.file_bytes)} by {format_size(claim.record_bytes)}"
    return name


def _twins(frames: Sequence[pl.DataFrame], records: Dataset, study: Study) -> dict[tuple[str, ...], Twins]:
    """By condition, the study's first response with the witness and without it."""
    if len(frames) < 2 or not frames[1].height:
        return {}
    metric = next((name for name in records.responses(study) if name in frames[1].columns), None)
    if metric is None:
        return {}
    design = study.design
    sides: list[dict[tuple[str, ...], list[float]]] = [{}, {}]
    for side, frame in zip(sides, frames, strict=True):
        for row in frame.iter_rows(named=True):
            if row[metric] is not None:
                side.setdefault(design.key(row), []).append(row[metric])
    untraced, traced = sides
    return {key: Twins(metrics.metric(metric).label, values, untraced.get(key, [])) for key, values in traced.items()}
