"""The page's account of every trial: how it ended, what was run, where its raw output is.

Command lines and raw files are read from `trials/<id>/record.json`, because the frames of a Dataset hold numbers only.
A record that cannot be read here is shown as such; loading the records has decided whether that is an error.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ioassay import units
from ioassay.narrative import phrases
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.report.host_facts import utc
from ioassay.store.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl

RAW_NAME = "RAW"
"""Stands for a trial's raw folder in command lines that are alike but for it."""


@dataclass(frozen=True)
class Evidence:
    """One trial's command line ('' for none) and its raw files (name -> link from the page)."""

    command: str = ""
    template: str = ""
    """The command with `RAW` for the trial's raw folder: equal for trials that differ only in their files."""
    files: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


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
        ends = Counter(row.status for row in self.rows)
        return f"{trials}: {', '.join(f'{ends[status]} {status}' for status in (OK, FAILED, SKIPPED) if ends[status])}"


def recorded(records: Dataset) -> pl.DataFrame:
    """Every recorded trial, those too that speeds are not taken from; `apart` says why they are not, else ''."""
    import polars as pl

    parts = {"": records.trials, ", under the witness": records.traced, ", counting system calls": records.counting}
    frames = [part.with_columns(apart=pl.lit(why)) for why, part in parts.items() if part is not None]
    return pl.concat(frames, how="diagonal_relaxed")


def trials(records: Dataset, out: Path) -> Trials:
    """Every recorded trial; links are relative to `out`."""
    factors = {study.name: list(study.levels) for study in records.studies}
    every = recorded(records).sort("order").iter_rows(named=True)
    rows = [_row(records, factors.get(row["study"], []), row, out) for row in every]
    commands = Counter(row.evidence.template for row in rows if row.evidence.template)
    counts = []
    for study in factors:
        ended = [row.status for row in rows if row.study == study]
        planned = max(records.planned.get(study, 0), len(ended))
        ok, failed, skipped = map(ended.count, (OK, FAILED, SKIPPED))
        counts.append(Count(study, planned, ok, failed, skipped, planned - len(ended)))
    return Trials(rows, counts, commands)


def _row(records: Dataset, factors: Sequence[str], row: Mapping[str, Any], out: Path) -> Row:
    from ioassay.analysis.measurements.cells import label

    point = {name: row[name] for name in factors if row.get(name) is not None}
    purpose = f", {row['search']}" if row.get("search") else ""
    return Row(
        study=row["study"],
        trial=row["trial"],
        point=label(point) + row["apart"] + purpose,
        repetition=row["repetition"] + 1,
        order=row["order"],
        status=row["status"],
        reason=row["reason"] or "",
        started=utc(row["started_unix_s"]) if row["started_unix_s"] else "",
        duration=units.format_duration(row["duration_s"] or 0.0),
        evidence=evidence(records.root, row["trial"], out),
    )


def evidence(root: Path, trial: str, out: Path) -> Evidence:
    """The evidence of one trial; links are relative to `out`, where the page will be."""
    folder = root / "trials" / trial
    try:
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Evidence()
    except (OSError, ValueError) as error:
        return Evidence(problem=f"record.json cannot be read: {error}")
    if not isinstance(record, dict):
        return Evidence(problem="record.json holds no object")
    lists = (record.get(key) for key in ("command", "raw"))
    argv, names = ([str(one) for one in value] if isinstance(value, list) else [] for value in lists)
    # Whatever leads to the trial's raw folder: the run's folder may have been moved since.
    raw = re.compile(rf"[^=]*/trials/{re.escape(trial)}/raw(?=/|$)")
    files = {name: link(folder / "raw" / name, out) for name in names}
    return Evidence(_line(argv), _line([raw.sub(RAW_NAME, word) for word in argv]), files)


def _line(argv: Sequence[str]) -> str:
    """As a shell takes it; `&&` stands between the steps of a trial (`roles.Command.of_steps`)."""
    return shlex.join(argv).replace(" '&&' ", " && ")


def link(path: Path, out: Path) -> str:
    """A relative link from a page in `out` to `path`, fit for an attribute."""
    return quote(os.path.relpath(path, out))


def run_folder(root: Path) -> str:
    """The run's folder as a word of a shell: as it was given, but of an absolute path, which tells where people keep
    things, the name alone."""
    return shlex.quote(root.resolve().name if root.is_absolute() else str(root))
