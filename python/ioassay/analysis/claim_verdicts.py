"""Is what the tools claim true? Every claim of every witnessed trial, compared with what the kernel saw.

Verdicts follow from the raw counts each time (`verify/judge.py`), so that a better tolerance improves old runs. Where
trials have twins without the witness, the observer effect is judged for each condition. The rules are in `verify`,
because `ioassay witness` uses them as well.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.analysis.machine_conditions import contended
from ioassay.analysis.measurements import memoized
from ioassay.formats import conventions
from ioassay.records.observation import Observation
from ioassay.records.record import OK
from ioassay.units import format_size
from ioassay.verify import drive_counters
from ioassay.verify.judge import Twins, judge, overall
from ioassay.verify.verdict import BY_DRIVE, CATEGORIES, CONTRADICTED, NOT_IO, TRUE_CLAIMS, Verdict

if TYPE_CHECKING:
    import polars as pl

    from ioassay.store.dataset import Dataset
    from ioassay.study.model import Study


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
        if not self.witnessed:
            return Outcome.UNWITNESSED
        return Outcome.JUDGED if self.judged else Outcome.UNCLAIMED

    @property
    def of_io(self) -> Sequence[Judged]:
        """The claims about I/O; all, where there is none."""
        return [one for one in self.judged if one.verdict.reason != NOT_IO] or self.judged

    @property
    def by_drive(self) -> int:
        return sum(one.verdict.reason == BY_DRIVE for one in self.of_io)

    @property
    def true(self) -> int:
        """The number of claims about I/O that are confirmed, by the kernel or the drive."""
        return sum(one.verdict.category in TRUE_CLAIMS for one in self.of_io)

    @property
    def contradicted(self) -> int:
        return sum(one.verdict.category == CONTRADICTED for one in self.of_io)

    def by_condition(self) -> list[ConditionVerdicts]:
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
    import polars as pl

    trials, watched = records.trials_of(study), pl.DataFrame()
    if records.traced is not None:
        watched = records.traced.filter(pl.col("study") == study.name).sort("order")
    if not records.is_measured(study) or not (trials.height or watched.height):
        return []
    rows = itertools.chain(trials.iter_rows(named=True), watched.iter_rows(named=True))
    witnessed = [row for row in rows if row["trial"] in records.observations]
    twins, design = _twins(records, study, trials, watched), study.design
    judged = [one for row in witnessed for one in _judged(records, study, row, twins.get(design.key(row)))]
    silent = [row["trial"] for row in witnessed if not records.claims.get(row["trial"])]
    unclaimed = records.observations[silent[-1]] if silent else None
    return [ClaimVerdicts(study.name, study.driver, len(witnessed), judged, unclaimed)]


def together(records: Dataset) -> list[Unclaimed]:
    """One answer where there are studies that were witnessed and whose tool claims no I/O."""
    found = [one for study in records.studies for one in analyse(records, study) if one.outcome == Outcome.UNCLAIMED]
    tools = list(dict.fromkeys(one.driver.replace("_", "-") for one in found))
    witnessed = sum(one.witnessed for one in found)
    return [Unclaimed([one.study for one in found], tools, witnessed)] if found else []


def _judged(records: Dataset, study: Study, row: Mapping[str, Any], twins: Twins | None) -> list[Judged]:
    """All claims of a trial, by the kernel's counts and the drive's own."""
    from ioassay.analysis.measurements.cells import label

    trial, point = row["trial"], {name: row[name] for name in study.levels if row.get(name) is not None}
    claims = records.claims.get(trial, ())
    verdicts = judge(
        claims,
        records.observations[trial],
        twins=twins,
        exit_ok=row["status"] == OK,
        contended=contended(records.environments.get(trial)),
    )
    verdicts = drive_counters.set_against(verdicts, drive_counters.counts(row))
    judged = []
    for claim, verdict in zip(claims, verdicts, strict=True):
        # 'read', 'reread, 1 MiB by 4 KiB': by the tool's own name where its claims have a shape of their own.
        shared = conventions(claim.source)
        name = claim.test if shared.tests_are_work and claim.test else claim.kind
        if shared.passes and claim.file_bytes and claim.record_bytes:
            name = f"{name}, {format_size(claim.file_bytes)} by {format_size(claim.record_bytes)}"
        judged.append(Judged(trial, label(point), name, verdict))
    return judged


def _twins(records: Dataset, study: Study, trials: pl.DataFrame, watched: pl.DataFrame) -> dict[tuple[str, ...], Twins]:
    """By condition, the study's first response with the witness and without it."""
    metric = next((name for name in records.responses(study) if name in watched.columns), None)
    if metric is None or not watched.height:
        return {}
    design, sides = study.design, [dict[tuple[str, ...], list[float]](), {}]
    for side, frame in zip(sides, (trials, watched), strict=True):
        for row in frame.iter_rows(named=True):
            if row[metric] is not None:
                side.setdefault(design.key(row), []).append(row[metric])
    untraced, traced = sides
    return {key: Twins(metrics.metric(metric).label, values, untraced.get(key, [])) for key, values in traced.items()}
