"""What do a database's loads come to, and what of them reached the drive?

For trials that measured loads of a database (`loads.names`). A table of the loads with published numbers beside, what
the factors change in them, the bytes from the user down to the flash, and why reads did not find all keys. Its
sentences are the summary of such a study.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.measurements import loads
from ioassay.analysis.storage import load_effects
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import OK
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

QUESTION = "database"
_USER, _DRIVE, _FLASH = "rocksdb.user_bytes", "drive.write.bytes", "drive.flash.bytes"
_AMPLIFIED = "rocksdb.write_amplification"
_DOWN = {
    "written by users": _USER,
    "to its log": "rocksdb.wal_bytes",
    "by flushes": "rocksdb.flush_bytes",
    "by compactions": "rocksdb.compaction_write_bytes",
    "to the drive": _DRIVE,
    "to its flash": _FLASH,
    "RocksDB's amplification": _AMPLIFIED,
    "the drive's amplification": "drive.write_amplification",
    "read from the drive": "drive.read.bytes",
    "writes held up (s)": "rocksdb.stall_time",
}
_DRAWN = 1 - math.exp(-1)
"""Share of n keys that n draws with replacement leave drawn at least once, for large n."""
_NEAR = 0.02


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """The loads, what changes them, what reached the drive, found keys; nothing where no load was measured."""
    if not (names := loads.names(records, study)):
        return []
    points = _points(records, study)
    told = [_loads(study, names, points), *_changes(records, study, names)]
    return [*told, *_reached(study, points), *_found(study, names, points)]


def _points(records: Dataset, study: Study) -> dict[str, dict[str, float]]:
    """Each point, by what varies, with the means of its metrics over the repetitions."""
    import polars as pl

    trials = records.trials_of(study).filter(pl.col("status") == OK)
    factors = [name for name, levels in study.levels.items() if len(levels) > 1 and name in trials.columns]
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


def _loads(study: Study, names: Sequence[str], points: Mapping[str, Mapping[str, float]]) -> Finding:
    known = published_results.loads_of(study.name)
    rows: list[list[Any]] = [[where, *(own.get(f"{name}.ops_rate") for name in names)] for where, own in points.items()]
    if known is not None:
        rows.append(["published", *(known.rates.get(name) for name in names)])
    means = {name: [own[f"{name}.ops_rate"] for own in points.values() if f"{name}.ops_rate" in own] for name in names}
    said = (f"{name} {_span(values)}" for name, values in means.items() if values)
    statement = f"Means of the repetitions, thousands of operations a second: {', '.join(said)}."
    return Finding(
        study=study.name,
        question=QUESTION,
        response="",
        title="The loads (operations a second)",
        statement=statement,
        statistics={"points": {where: dict(own) for where, own in points.items()}, "summary": [statement]},
        tables=[Table(["condition", *names], rows, ["", *(f"{name}.ops_rate" for name in names)])],
        caveats=[] if known is None else [f"Published: {known.source}.", *known.reading],
    )


def _span(values: Sequence[float]) -> str:
    low, high = min(values) / 1e3, max(values) / 1e3
    return f"{low:,.0f}" if f"{low:,.0f}" == f"{high:,.0f}" else f"{low:,.0f} to {high:,.0f}"


def _changes(records: Dataset, study: Study, names: Sequence[str]) -> Iterator[Finding]:
    if not (found := load_effects.changes(records, study, names)):
        return
    sentences = load_effects.sentences(found)
    yield Finding(
        study=study.name,
        question=QUESTION,
        response="",
        title="What changes them",
        statement=" ".join(sentences),
        statistics={"changes": [plain(one) for one in found], "summary": sentences},
        tables=[Table(load_effects.COLUMNS, [one.row() for one in found])],
        caveats=["Averaged over the other factors; whether one factor's effect depends on another is asked by effect."],
    )


def _reached(study: Study, points: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
    """From the user down to the flash; where storage does not count for itself there is nothing to set beside."""
    if not _over_user(points, _DRIVE):
        return
    names = [name for name, metric in _DOWN.items() if any(metric in own for own in points.values())]
    rows: list[list[Any]] = [[where, *(own.get(_DOWN[name]) for name in names)] for where, own in points.items()]
    statement = _way_down(points)
    yield Finding(
        study=study.name,
        question=QUESTION,
        response=_DRIVE,
        title="What of it reached the drive",
        statement=statement,
        statistics={
            **{
                f"{name}_over_user": {"min": min(known), "max": max(known)}
                for name, metric in (("drive", _DRIVE), ("flash", _FLASH))
                if (known := list(_over_user(points, metric).values()))
            },
            "summary": [statement],
        },
        tables=[Table(["condition", *names], rows, ["", *(_DOWN[name] for name in names)])],
        caveats=[
            "All loads of a trial together: RocksDB and the drive count over the whole process. A log that is not "
            "synced is in the page cache, and most of it is deleted before the kernel writes it."
        ],
    )


def _over_user(points: Mapping[str, Mapping[str, float]], metric: str) -> dict[str, float]:
    """By point, bytes for each byte that users wrote."""
    return {
        where: own[metric] / own[_USER] for where, own in points.items() if own.get(_USER, 0.0) > 0 and metric in own
    }


def _way_down(points: Mapping[str, Mapping[str, float]]) -> str:
    """What a byte of users becomes on its way, over all conditions, and where its flash takes least and most."""
    own = {where: one[_AMPLIFIED] for where, one in points.items() if _AMPLIFIED in one}
    parts = [f"RocksDB wrote {_times(own)}"] if own else []
    parts.append(f"the drive was asked to write {_times(_over_user(points, _DRIVE))}")
    flash = _over_user(points, _FLASH)
    parts += [f"it wrote {_times(flash)} to its flash"] if flash else []
    told = f"For each byte that users wrote, {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}"
    if not flash or min(flash.values()) == max(flash.values()):
        return f"{told}."
    least, most = (pick(flash, key=lambda where: flash[where]) for pick in (min, max))
    return f"{told}: least with {least}, most with {most}."


def _times(shares: Mapping[str, float]) -> str:
    low, high = f"{min(shares.values()):.2f}", f"{max(shares.values()):.2f}"
    return low if low == high else f"{low} to {high}"


def _found(study: Study, names: Sequence[str], points: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
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
        statement = f"{name} found {mean:.2%} of the keys that it asked for{why}"
        spread = {"mean": mean, "min": min(shares), "max": max(shares)}
        yield Finding(
            study=study.name,
            question=QUESTION,
            response=f"{name}.found",
            title=f"Keys that {name} found",
            statement=statement,
            statistics={**spread, "expected": _DRAWN if drawn else None, "summary": [statement]},
            severity="info" if drawn else "warning",
        )
