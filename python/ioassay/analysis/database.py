"""What do a database's loads come to, and what of them reached the drive? For studies of the driver db_bench.

A table of the loads with published numbers beside, the bytes from the user down to the flash, and why reads did not
find all keys. Whether differences are real is answered by `effect`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay.analysis import asked, claims, loads
from ioassay.analysis.finding import Finding, Table
from ioassay.record import OK, RecordSet

if TYPE_CHECKING:
    import polars as pl

QUESTION = "database"
_USER, _DRIVE = "rocksdb.user_bytes", "drive.write.bytes"
_DOWN = {
    "written by users": _USER,
    "to the log": "rocksdb.wal_bytes",
    "by flushes": "rocksdb.flush_bytes",
    "by compactions": "rocksdb.compaction_write_bytes",
    "RocksDB's amplification": "rocksdb.write_amplification",
    "written to the drive": _DRIVE,
    "the drive's amplification": "drive.write_amplification",
    "read from the drive": "drive.read.bytes",
}
_DRAWN = 1 - math.exp(-1)
"""Share of n keys that n draws with replacement leave drawn at least once, for large n."""
_NEAR = 0.02


def analyse(records: RecordSet, study: asked.Study) -> list[Finding]:
    """The loads, what reached the drive, and found keys; nothing for other drivers or where nothing went well."""
    if study.get("driver") != "db_bench" or not (names := loads.names(records, study)):
        return []
    points = _points(records, study)
    return [_loads(study, names, points), *_reached(study, points), *_found(study, names, points)]


def _points(records: RecordSet, study: asked.Study) -> dict[str, dict[str, float]]:
    """Each point in words with the means of its metrics over the repetitions."""
    import polars as pl

    trials = asked.trials_of(records, study).filter(pl.col("status") == OK)
    factors = [name for name in asked.factors(study) if name in trials.columns]
    groups: Mapping[tuple[Any, ...], pl.DataFrame] = (
        trials.partition_by(factors, as_dict=True, maintain_order=True) if factors else {(): trials}
    )
    found = {_named(factors, key): _means(rows) for key, rows in groups.items()}
    return dict(sorted(found.items()))


def _named(factors: Sequence[str], levels: Sequence[Any]) -> str:
    return " ".join(f"{name}={level}" for name, level in zip(factors, levels, strict=True)) or "all trials"


def _means(rows: pl.DataFrame) -> dict[str, float]:
    wanted = [name for name in rows.columns if name in _DOWN.values() or name.endswith((".ops_rate", ".found"))]
    return {name: float(mean) for name in wanted if isinstance(mean := rows[name].mean(), int | float)}


def _loads(study: asked.Study, names: Sequence[str], points: Mapping[str, Mapping[str, float]]) -> Finding:
    known = claims.loads_of(str(study["name"]))
    rows: list[list[Any]] = [[where, *(own.get(f"{name}.ops_rate") for name in names)] for where, own in points.items()]
    if known is not None:
        rows.append(["published", *(known.rates.get(name) for name in names)])
    means = {name: [own[f"{name}.ops_rate"] for own in points.values() if f"{name}.ops_rate" in own] for name in names}
    said = (f"{name} {_span(values)}" for name, values in means.items() if values)
    return Finding(
        study=str(study["name"]),
        question=QUESTION,
        response="",
        title="The loads (operations a second)",
        statement=f"Means of the repetitions, thousands of operations a second: {', '.join(said)}.",
        statistics={"points": {where: dict(own) for where, own in points.items()}},
        tables=[Table(["condition", *names], rows, ["", *(f"{name}.ops_rate" for name in names)])],
        caveats=[] if known is None else [f"Published: {known.source}.", *known.reading],
    )


def _span(values: Sequence[float]) -> str:
    low, high = min(values) / 1e3, max(values) / 1e3
    return f"{low:,.0f}" if f"{low:,.0f}" == f"{high:,.0f}" else f"{low:,.0f} to {high:,.0f}"


def _reached(study: asked.Study, points: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
    """From the user down to the flash; where storage does not count for itself there is nothing to set beside."""
    shares = [own[_DRIVE] / own[_USER] for own in points.values() if own.get(_USER, 0.0) > 0 and _DRIVE in own]
    if not shares:
        return
    names = [name for name, metric in _DOWN.items() if any(metric in own for own in points.values())]
    rows: list[list[Any]] = [[where, *(own.get(_DOWN[name]) for name in names)] for where, own in points.items()]
    low, high = f"{min(shares):.2f}", f"{max(shares):.2f}"
    times = low if low == high else f"{low} to {high}"
    yield Finding(
        study=str(study["name"]),
        question=QUESTION,
        response=_DRIVE,
        title="What of it reached the drive",
        statement=f"The drive was asked to write {times} times what users wrote.",
        statistics={"drive_over_user": {"min": min(shares), "max": max(shares)}},
        tables=[Table(["condition", *names], rows, ["", *(_DOWN[name] for name in names)])],
        caveats=[
            "All loads of a trial together: RocksDB and the drive count over the whole process. A log that is not "
            "synced is in the page cache, and most of it is deleted before the kernel writes it."
        ],
    )


def _found(study: asked.Study, names: Sequence[str], points: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
    for name in names:
        shares = [own[f"{name}.found"] for own in points.values() if f"{name}.found" in own]
        if not shares or min(shares) >= 1.0:
            continue
        mean = sum(shares) / len(shares)
        drawn = "fillrandom" in names and all(abs(share - _DRAWN) < _NEAR for share in shares)
        why = (
            f": fillrandom draws as many keys as there are, some of them again, and {_DRAWN:.2%} of them are expected "
            "to be there. Nothing was lost."
            if drawn
            else "."
        )
        yield Finding(
            study=str(study["name"]),
            question=QUESTION,
            response=f"{name}.found",
            title=f"Keys that {name} found",
            statement=f"{name} found {mean:.2%} of the keys that it asked for{why}",
            statistics={"mean": mean, "min": min(shares), "max": max(shares), "expected": _DRAWN if drawn else None},
            severity="info" if drawn else "warning",
        )
