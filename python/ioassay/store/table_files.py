"""The tables of a run as files for other programs: Parquet or CSV, one file a table, with their units in schema.json.

Tables are those of `Dataset`, in SI units. CSV has a head, empty cells for missing values, and no nested columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.factors import factor, factor_label
from ioassay.store.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl

TABLES = ("trials", "hist", "series", "samples", "warnings", "calls")
FORMATS = ("parquet", "csv")
SCHEMA_FILE = "schema.json"
_SCHEMA = 1
_UNITS = {
    "started_unix_s": "s",
    "duration_s": "s",
    "time_s": "s",
    "value_ns": "ns",
    "per_second": "1/s",
}
"""Of columns that are neither factors nor metrics; all others have none."""
_OF_METRIC = {"series"}
"""Tables whose column `value` has the unit of the metric in the same row."""


def write(records: Dataset, run: str, folder: Path, format: str) -> dict[str, int]:
    """Write each table and schema.json into `folder`, which is made; the number of rows of each table. OSError."""
    folder.mkdir(parents=True)
    tables = {name: getattr(records, name) for name in TABLES}
    for name, frame in tables.items():
        path = folder / f"{name}.{format}"
        if format == "parquet":
            frame.write_parquet(path, compression="zstd")
        else:
            frame.write_csv(path)
    schema = json.dumps(_schema(records, run, tables), indent=1, ensure_ascii=False) + "\n"
    (folder / SCHEMA_FILE).write_text(schema, encoding="utf-8")
    return {name: frame.height for name, frame in tables.items()}


def _schema(records: Dataset, run: str, tables: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """Every column with its type and unit, and what metrics and factors are."""
    factors = list(dict.fromkeys(name for study in records.studies for name in study.levels))
    measured = [name for name in tables["trials"].columns if metrics.known(name) and name not in factors]
    measured += sorted(set(tables["series"]["metric"].to_list()) - {*measured})
    return {
        "schema": _SCHEMA,
        "run": run,
        "tables": {
            name: {"rows": frame.height, "columns": _columns(name, frame, factors)} for name, frame in tables.items()
        },
        "metrics": {name: _metric(name) for name in measured},
        "factors": {name: {"label": factor_label(name), "unit": factor(name).unit} for name in factors},
    }


def _columns(table: str, frame: pl.DataFrame, factors: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"name": name, "type": str(kind), "unit": _unit(table, name, factors)} for name, kind in frame.schema.items()
    ]


def _unit(table: str, column: str, factors: Sequence[str]) -> str:
    if column in factors:
        return factor(column).unit
    if table in _OF_METRIC and column == "value":
        return "of the metric"
    if table == "samples" and column == "value":
        return "of the monitor's field"
    return _UNITS.get(column) or (metrics.metric(column).unit if table == "trials" else "")


def _metric(name: str) -> dict[str, str]:
    known = metrics.metric(name)
    return {"label": known.label, "unit": known.unit, "better": known.better}
