"""The Parquet files of a trial: their columns, and how they are written. Reading them back is `ioassay.store.dataset`.

Each row carries its study and trial, so that the files of a whole run can be read as one table by any tool.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ioassay import atomic_file
from ioassay.records.record import Buckets, Samples, Series

KEY = {"study": pl.String(), "trial": pl.String()}
SCHEMAS: dict[str, dict[str, pl.DataType]] = {
    "hist": {
        **KEY,
        "direction": pl.String(),
        "kind": pl.String(),
        "job": pl.Int64(),
        "value_ns": pl.Int64(),
        "count": pl.Int64(),
    },
    "series": {**KEY, "metric": pl.String(), "job": pl.Int64(), "time_s": pl.Float64(), "value": pl.Float64()},
    "samples": {**KEY, "monitor": pl.String(), "name": pl.String(), "time_s": pl.Float64(), "value": pl.Float64()},
}


def write(
    folder: Path,
    key: Mapping[str, str],
    buckets: Sequence[Buckets],
    series: Sequence[Series],
    samples: Sequence[Samples],
) -> None:
    """Make a trial's distributions, series and samples durable in its folder; `key` is its study and its id."""
    _write(folder / "hist.parquet", key, [_bucket_columns(item) for item in buckets])
    _write(folder / "series.parquet", key, [_series_columns(item) for item in series])
    _write(folder / "samples.parquet", key, [_sample_columns(item) for item in samples])


def _bucket_columns(item: Buckets) -> dict[str, Any]:
    head = {"direction": item.direction, "kind": item.kind, "job": item.job}
    return {**head, "value_ns": list(item.values_ns), "count": list(item.counts)}


def _series_columns(item: Series) -> dict[str, Any]:
    return {"metric": item.metric, "job": item.job, "time_s": list(item.time_s), "value": list(item.value)}


def _sample_columns(item: Samples) -> dict[str, Any]:
    columns = {"time_s": list(item.time_s), "name": list(item.name), "value": list(item.value)}
    return {"monitor": item.monitor, **columns}


def _write(path: Path, key: Mapping[str, str], pieces: Sequence[Mapping[str, Any]]) -> None:
    """Pieces one below the other; scalars of a piece are repeated over its rows. No rows: no file."""
    if not pieces:
        return
    schema = SCHEMAS[path.stem]
    frames = []
    for piece in pieces:
        lists = {name: pl.Series(name, value, schema[name]) for name, value in piece.items() if isinstance(value, list)}
        scalars = {**key, **{name: value for name, value in piece.items() if not isinstance(value, list)}}
        literals = [pl.lit(value, schema[name]).alias(name) for name, value in scalars.items()]
        frames.append(pl.DataFrame(lists).with_columns(literals).select(list(schema)))
    content = io.BytesIO()  # polars itself would tell a full disk by an error that is no OSError
    pl.concat(frames).write_parquet(content, compression="zstd")
    path.write_bytes(content.getbuffer())
    atomic_file.sync(path)
