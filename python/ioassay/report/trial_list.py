"""The page's account of every trial: how it ended, what was run, where its raw output is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.narrative import phrases
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.report import raw_files
from ioassay.report.host_facts import utc
from ioassay.report.raw_files import Evidence
from ioassay.store.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Row:
    """One trial as shown."""

    study: str
    trial: str
    point: str
    repetition: int
    order: int
    status: str
    reason: str
    started: str
    duration: str
    evidence: Evidence


@dataclass(frozen=True)
class Count:
    """How the trials of one study ended. `absent`: planned, but without a record."""

    study: str
    planned: int
    ok: int
    failed: int
    skipped: int
    absent: int


@dataclass(frozen=True)
class Trials:
    """All trials in the order they ran. `commands`: command line with `RAW` for the raw folder -> number of trials."""

    rows: Sequence[Row]
    counts: Sequence[Count]
    commands: Mapping[str, int]

    @property
    def lost(self) -> list[Row]:
        """Trials that did not go well."""
        return [row for row in self.rows if row.status != OK]

    @property
    def account(self) -> str:
        """`18 trials, all ok`, or how many ended how."""
        trials = phrases.count(len(self.rows), "trial")
        if not self.lost:
            return f"{trials}, all ok" if self.rows else "no trial recorded"
        ends = [f"{self.total(status)} {status}" for status in (OK, FAILED, SKIPPED) if self.total(status)]
        return f"{trials}: {', '.join(ends)}"

    def total(self, status: str) -> int:
        """Number of trials that ended so."""
        return sum(row.status == status for row in self.rows)


def recorded(records: Dataset) -> pl.DataFrame:
    """Every recorded trial, those too that speeds are not taken from; `apart` says why they are not, else ''."""
    import polars as pl

    parts = {"": records.trials, ", under the witness": records.traced, ", counting system calls": records.counting}
    frames = [part.with_columns(apart=pl.lit(why)) for why, part in parts.items() if part is not None]
    return pl.concat(frames, how="diagonal_relaxed")


def trials(records: Dataset, out: Path) -> Trials:
    """Every recorded trial; links are relative to `out`."""
    factors = {study.name: list(study.levels) for study in records.studies}
    rows = [
        _row(records, factors.get(row["study"], []), row, out)
        for row in recorded(records).sort("order").iter_rows(named=True)
    ]
    commands: dict[str, int] = {}
    for row in rows:
        if row.evidence.template:
            commands[row.evidence.template] = commands.get(row.evidence.template, 0) + 1
    return Trials(rows, [_count(records, name, rows) for name in factors], commands)


def _row(records: Dataset, factors: Sequence[str], row: Mapping[str, Any], out: Path) -> Row:
    from ioassay.analysis.measurements.cells import label

    point = {name: row[name] for name in factors if row.get(name) is not None}
    return Row(
        study=row["study"],
        trial=row["trial"],
        point=label(point) + row["apart"] + _purpose(row),
        repetition=row["repetition"] + 1,
        order=row["order"],
        status=row["status"],
        reason=row["reason"] or "",
        started=utc(row["started_unix_s"]) if row["started_unix_s"] else "",
        duration=units.format_duration(row["duration_s"] or 0.0),
        evidence=raw_files.read(records.root, row["trial"], out),
    )


def _purpose(row: Mapping[str, Any]) -> str:
    """What a trial of a search was for."""
    return f", {row['search']}" if row.get("search") else ""


def _count(records: Dataset, study: str, rows: Sequence[Row]) -> Count:
    own = [row.status for row in rows if row.study == study]
    planned = max(records.planned.get(study, 0), len(own))
    ok, failed, skipped = (own.count(status) for status in (OK, FAILED, SKIPPED))
    return Count(study, planned, ok, failed, skipped, absent=planned - len(own))
