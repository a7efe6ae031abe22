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


def recorded(records: Dataset) -> pl.DataFrame:
    """Every recorded trial, those too that speeds are not taken from; `apart` says why they are not, else ''."""
    import polars as pl

    parts = {"": records.trials, ", under the witness": records.traced, ", counting system calls": records.counting}
    frames = [part.with_columns(apart=pl.lit(why)) for why, part in parts.items() if part is not None]
    return pl.concat(frames, how="diagonal_relaxed")


def trials(records: Dataset, out: Path) -> dict[str, Any]:
    """Every recorded trial in the order they ran, and those of `rows` that were `lost`; links are relative to `out`.

    `counts`: how the trials of each study ended, `absent` those that were planned and have no record. `commands`:
    command line with `RAW` for the raw folder -> number of trials.
    """
    factors = {study.name: list(study.levels) for study in records.studies}
    every = recorded(records).sort("order").iter_rows(named=True)
    rows = [_row(records, factors.get(row["study"], []), row, out) for row in every]
    counts = []
    for study in factors:
        ended = Counter(row["status"] for row in rows if row["study"] == study)
        planned = max(records.planned.get(study, 0), ended.total())
        known = {status: ended[status] for status in (OK, FAILED, SKIPPED)}
        counts.append({"study": study, "planned": planned, **known, "absent": planned - ended.total()})
    number, ends = phrases.count(len(rows), "trial"), Counter(row["status"] for row in rows)
    account = f"{number}: {', '.join(f'{ends[one]} {one}' for one in (OK, FAILED, SKIPPED) if ends[one])}"
    if ends[OK] == len(rows):
        account = f"{number}, all ok" if rows else "no trial recorded"
    return {
        "rows": rows,
        "lost": [row for row in rows if row["status"] != OK],
        "account": account,
        "counts": counts,
        "commands": Counter(row["template"] for row in rows if row["template"]),
    }


def _row(records: Dataset, factors: Sequence[str], row: Mapping[str, Any], out: Path) -> dict[str, Any]:
    from ioassay.analysis.measurements.cells import label

    point = {name: row[name] for name in factors if row.get(name) is not None}
    purpose = f", {row['search']}" if row.get("search") else ""
    return {
        **{name: row[name] for name in ("study", "trial", "order", "status")},
        "point": label(point) + row["apart"] + purpose,
        "repetition": row["repetition"] + 1,
        "reason": row["reason"] or "",
        "started": utc(row["started_unix_s"]) if row["started_unix_s"] else "",
        "duration": units.format_duration(row["duration_s"] or 0.0),
        **evidence(records.root, row["trial"], out),
    }


def evidence(root: Path, trial: str, out: Path) -> dict[str, Any]:
    """One trial's `command` line ('' for none) and its raw `files`, name -> link from a page in `out`.

    `template` is the command with `RAW` for the trial's raw folder: equal for trials that differ only in their files.
    """
    folder, none = root / "trials" / trial, {"command": "", "template": "", "files": {}, "problem": ""}
    try:
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return none
    except (OSError, ValueError) as error:
        return {**none, "problem": f"record.json cannot be read: {error}"}
    if not isinstance(record, dict):
        return {**none, "problem": "record.json holds no object"}
    lists = (record.get(key) for key in ("command", "raw"))
    argv, names = ([str(one) for one in value] if isinstance(value, list) else [] for value in lists)
    # Whatever leads to the trial's raw folder: the run's folder may have been moved since.
    raw = re.compile(rf"[^=]*/trials/{re.escape(trial)}/raw(?=/|$)")
    files = {name: link(folder / "raw" / name, out) for name in names}
    commands = {"command": _line(argv), "template": _line([raw.sub(RAW_NAME, word) for word in argv])}
    return {**none, **commands, "files": files}


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
