"""The outcome of a simulation as files in a folder: `summary.json`, and a table each of what there is more than one of.

Nothing is computed here. Tables are Parquet, or CSV where it was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import atomic_file
from ioassay.errors import UsageError
from ioassay.packs.ssd.simulator.results import Simulation
from ioassay.packs.ssd.traces.trace_file import replaced

if TYPE_CHECKING:
    import polars as pl

TABLES = ("series", "elements", "utilisation")
SUMMARY = "summary.json"


def names(csv: bool) -> list[str]:
    """The files of one simulation."""
    return [SUMMARY, *(f"{table}.{'csv' if csv else 'parquet'}" for table in TABLES)]


def check(folder: Path, files: Sequence[str], *, force: bool = False) -> None:
    """Refuse a folder that cannot take the files; raises UsageError. Ask before the work is done."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, wanted a folder")
    for name in files:
        if (folder / name).exists() and not force:
            raise UsageError(f"{folder / name} exists; --force replaces it")


def save(
    simulation: Simulation, folder: Path, summary: Mapping[str, Any], *, csv: bool = False, force: bool = False
) -> list[Path]:
    """Write `summary` and the tables of a simulation to `folder`, which is made; each file whole or not at all.

    Raises UsageError as `check`, OSError.
    """
    check(folder, names(csv), force=force)
    folder.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        _write(getattr(simulation, table), folder / f"{table}.{'csv' if csv else 'parquet'}")
    save_summary(folder, summary)
    return [folder / name for name in names(csv)]


def save_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write `summary` to `folder`, which is made, in place of what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    atomic_file.write(folder / SUMMARY, json.dumps(summary, indent=2, default=str) + "\n")


def _write(frame: pl.DataFrame, path: Path) -> None:
    with replaced(path, force=True) as unfinished:
        if path.suffix == ".csv":
            frame.write_csv(unfinished)
        else:
            frame.write_parquet(unfinished)
