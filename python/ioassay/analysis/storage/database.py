"""The rates of a database's loads, what changes them, and what of their bytes reached the drive.

For trials that measured loads of a database (`loads.names`): means of each point, what each factor of two levels
changes on average, the bytes from the user down to the flash, and the share of keys that reads found. The changes are
read from the one model of each load's rate; all of them share the risk, since they are read together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ioassay.analysis.effects.average_change import AverageChange, average_change
from ioassay.analysis.measurements import loads
from ioassay.analysis.measurements.cells import cells
from ioassay.records.record import OK
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

USER, DRIVE, FLASH = loads.USER, loads.DRIVE, loads.FLASH
AMPLIFICATION = "rocksdb.write_amplification"
COMPACTED = "rocksdb.compaction_write_bytes"
BYTES = (
    *(USER, "rocksdb.wal_bytes", "rocksdb.flush_bytes", "rocksdb.compaction_write_bytes", DRIVE, FLASH, AMPLIFICATION),
    *("drive.write_amplification", "drive.read.bytes", "rocksdb.stall_time"),
)
"""From the user down to the flash, and what explains the difference."""
DRAWN = 1 - math.exp(-1)
"""Share of n keys that n draws with replacement leave drawn at least once, for large n."""
_NEAR = 0.02


class Outcome(StrEnum):
    """What the share of keys that a load found shows."""

    REDRAWN = "redrawn"
    """The share that fillrandom leaves: it draws as many keys as there are, some of them again."""
    MISSING = "missing"


@dataclass(frozen=True)
class FoundKeys:
    """The shares of keys that a load found, one for each point; at least one is below 1."""

    load: str
    shares: Sequence[float]
    outcome: Outcome


@dataclass(frozen=True)
class Database:
    """The loads of a study. `points`: condition -> means of its metrics over the repetitions.

    `changes`: what a factor does to a load on average, factor by factor; none without repetitions.
    """

    study: str
    loads: Sequence[str]
    points: Mapping[str, Mapping[str, float]]
    changes: Sequence[tuple[str, AverageChange]]
    found: Sequence[FoundKeys]
    counts: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """Condition -> load -> means of what was counted for that load alone; empty where one process ran them all."""

    def rates(self, load: str) -> list[float]:
        """Operations/s of a load in each point that has it."""
        return [own[f"{load}.ops_rate"] for own in self.points.values() if f"{load}.ops_rate" in own]

    def over_user(self, metric: str) -> dict[str, float]:
        """By point, bytes for each byte that users wrote."""
        return {
            where: own[metric] / own[USER]
            for where, own in self.points.items()
            if own.get(USER, 0.0) > 0 and metric in own
        }

    def over_user_of(self, load: str, layer: str) -> list[float]:
        """Of one load in each point, bytes at a layer (`loads.LAYERS`) for each byte that its users wrote."""
        counted = [own[load] for own in self.counts.values() if load in own]
        keys = loads.LAYERS[layer]
        return [
            sum(one.get(key, 0.0) for key in keys) / one[USER]
            for one in counted
            if one.get(USER, 0.0) > 0 and any(key in one for key in keys)
        ]

    def left_behind(self, load: str) -> list[float]:
        """Bytes that compactions wrote during a load without writes of users, in each point: work of earlier loads."""
        counted = [own[load] for own in self.counts.values() if load in own]
        return [one.get(COMPACTED, 0.0) for one in counted if not one.get(USER, 0.0)]


def analyse(records: Dataset, study: Study) -> list[Database]:
    """One answer; none where no load was measured."""
    if not (names := loads.names(records, study)):
        return []
    means = _points(records, study, names)
    counts = {where: by_load for where, own in means.items() if (by_load := _by_load(own, names))}
    apart = {f"{name}.{key}" for name in names for key in loads.COUNTED}
    points = {where: {key: own[key] for key in own if key not in apart} for where, own in means.items()}
    found = [one for name in names if (one := _found(name, names, points))]
    return [Database(study.name, names, points, _changes(records, study, names), found, counts)]


def _by_load(own: Mapping[str, float], names: Sequence[str]) -> dict[str, dict[str, float]]:
    return {
        name: {key: own[f"{name}.{key}"] for key in loads.COUNTED if f"{name}.{key}" in own}
        for name in names
        if f"{name}.{DRIVE}" in own
    }


def _changes(records: Dataset, study: Study, names: Sequence[str]) -> list[tuple[str, AverageChange]]:
    rates = {name: cells(records, study, f"{name}.ops_rate") for name in names}
    pairs = [
        (name, factor, (levels[0], levels[1]))
        for factor in study.levels
        for name, part in rates.items()
        if len(levels := part.factors.get(factor, ())) == 2
    ]
    confidence = study.analysis.confidence
    found = [
        (name, average_change(rates[name], factor, levels, confidence, share=len(pairs)))
        for name, factor, levels in pairs
    ]
    return [(name, change) for name, change in found if isinstance(change, AverageChange)]


def _points(records: Dataset, study: Study, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Each point, by what varies, with the means of its metrics over the repetitions."""
    import polars as pl

    trials = records.trials_of(study).filter(pl.col("status") == OK)
    factors = [name for name, levels in study.levels.items() if len(levels) > 1 and name in trials.columns]
    groups: Mapping[tuple[Any, ...], pl.DataFrame] = (
        trials.partition_by(factors, as_dict=True, maintain_order=True) if factors else {(): trials}
    )
    found = {_named(factors, key): _means(rows, names) for key, rows in groups.items()}
    return dict(sorted(found.items()))


def _named(factors: Sequence[str], levels: Sequence[Any]) -> str:
    return " ".join(f"{name}={level}" for name, level in zip(factors, levels, strict=True)) or "all trials"


def _means(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, float]:
    counted = {*BYTES, *(f"{name}.{key}" for name in names for key in loads.COUNTED)}
    wanted = [name for name in rows.columns if name in counted or name.endswith((".ops_rate", ".found"))]
    return {name: float(mean) for name in wanted if isinstance(mean := rows[name].mean(), int | float)}


def _found(name: str, names: Sequence[str], points: Mapping[str, Mapping[str, float]]) -> FoundKeys | None:
    shares = [own[f"{name}.found"] for own in points.values() if f"{name}.found" in own]
    if not shares or min(shares) >= 1.0:
        return None
    redrawn = "fillrandom" in names and all(abs(share - DRAWN) < _NEAR for share in shares)
    return FoundKeys(name, shares, Outcome.REDRAWN if redrawn else Outcome.MISSING)
