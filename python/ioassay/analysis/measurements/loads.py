"""Each load of a database's benchmark as if it were a trial of its own, so that one chart shows them all.

db_bench runs several loads in a trial; their rates and counts are metrics of one trial, named `<load>.ops_rate` or
`<load>.drive.write.bytes`. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ioassay.analysis.measurements import memoized, monitor_rates
from ioassay.store.dataset import IDENTITY, Dataset
from ioassay.study.model import Study

LOAD, RATE = "load", "load.ops_rate"
LAYER, LAYER_BYTES = "layer", "layer.bytes"
USER, DRIVE, FLASH = "rocksdb.user_bytes", "drive.write.bytes", "drive.flash.bytes"
OF_DATABASE = ("rocksdb.wal_bytes", "rocksdb.flush_bytes", "rocksdb.compaction_write_bytes")
"""What RocksDB writes to files, by its own count."""
COUNTED = (
    *(USER, *OF_DATABASE, "rocksdb.compaction_read_bytes", "rocksdb.write_amplification", "rocksdb.stall_time"),
    *("rocksdb.cache_hit_ratio", DRIVE, FLASH, "drive.write_amplification", "drive.read.bytes", "drive.read.ios"),
)
"""What may be counted for each load, after its name."""
LAYERS: Mapping[str, tuple[str, ...]] = {"users": (USER,), "RocksDB": OF_DATABASE, "drive": (DRIVE,), "flash": (FLASH,)}
"""The way of written bytes down. What RocksDB does not count, it did not write."""


def names(records: Dataset, study: Study) -> list[str]:
    """The loads that were measured, in the order in which they ran."""
    params = study.params.get("benchmarks", "")
    words = params.split(",") if isinstance(params, str) else params
    order = [str(word).strip().partition("[")[0] for word in words]
    trials = records.trials_of(study)
    measured = [name.removesuffix(".ops_rate") for name in trials.columns if name.endswith(".ops_rate")]
    known = [name for name in measured if not trials[f"{name}.ops_rate"].is_null().all()]
    return sorted(known, key=lambda name: order.index(name) if name in order else len(order))


@memoized
def expanded(records: Dataset, study: Study) -> Dataset | None:
    """The loads as trials of a study that has the factor `load` as well.

    One row a trial and load, with `load.ops_rate` and what was counted for it (`load.drive.write.bytes`, …); None
    where nothing measured any load.
    """
    if not (found := names(records, study)):
        return None
    trials = records.trials_of(study)
    counted = ["ops_rate", *(key for key in COUNTED if any(f"{name}.{key}" in trials.columns for name in found))]
    rows = [
        _rows(trials, study, name, {f"{LOAD}.{key}": _metric(trials, f"{name}.{key}") for key in counted})
        for name in found
    ]
    return records.with_factors(study, pl.concat(rows), {LOAD: found})


@memoized
def layers(records: Dataset, study: Study) -> Dataset | None:
    """One row a trial, load and layer, with `layer.bytes`; None where nothing was counted by load."""
    trials = records.trials_of(study)
    found = [name for name in names(records, study) if f"{name}.{DRIVE}" in trials.columns]
    if not found:
        return None
    rows = []
    for name in found:
        for layer, keys in LAYERS.items():
            volume = pl.sum_horizontal(_metric(trials, f"{name}.{key}") for key in keys)
            rows.append(_rows(trials, study, name, {LAYER: pl.lit(layer), LAYER_BYTES: volume}))
    return records.with_factors(study, pl.concat(rows), {LOAD: found, LAYER: list(LAYERS)})


def _rows(trials: pl.DataFrame, study: Study, load: str, columns: Mapping[str, pl.Expr]) -> pl.DataFrame:
    kept = [name for name in dict.fromkeys((*IDENTITY, *study.levels)) if name in trials.columns]
    return trials.select(*kept, pl.lit(load).alias(LOAD), **columns)


def _metric(trials: pl.DataFrame, name: str) -> pl.Expr:
    return monitor_rates.column(trials, name).cast(pl.Float64)
