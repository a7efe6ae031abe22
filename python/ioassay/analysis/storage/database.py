"""The rates of a database's loads, what changes them, and what of their bytes reached the drive.

For trials that measured loads of a database (`loads.names`): means of each point, what each factor of two levels
changes on average, the bytes from the user down to the flash, and the share of keys that reads found. The changes are
read from the one model of each load's rate; all of them share the risk, since they are read together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ioassay.analysis.effects.average_change import AverageChange, average_change
from ioassay.analysis.measurements import loads
from ioassay.analysis.measurements.cells import Cells, cells, interval
from ioassay.records.record import OK
from ioassay.stats.result import Interval, Undefined, mean_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

USER, DRIVE, FLASH = loads.USER, loads.DRIVE, loads.FLASH
AMPLIFICATION, COMPACTED = "rocksdb.write_amplification", "rocksdb.compaction_write_bytes"
BYTES = (
    *(USER, *loads.OF_DATABASE, DRIVE, FLASH, AMPLIFICATION, "drive.write_amplification"),
    *("drive.read.bytes", "rocksdb.stall_time"),
)
"""From the user down to the flash, and what explains the difference."""
DRAWN = 1 - math.exp(-1)
"""Share of n keys that n draws with replacement leave drawn at least once, for large n."""
_NEAR = 0.02
ALL = "all"
"""In place of a load: all loads of a trial."""


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
class Rate:
    """Operations/s of a load: means of the conditions with the least and the most; `interval` of the only one."""

    load: str
    least: float
    most: float
    interval: Interval | Undefined | None


@dataclass(frozen=True)
class Counted:
    """What was counted in one condition for a load, or for all loads of a trial together: means over repetitions."""

    where: str
    load: str
    counts: Mapping[str, float]

    def over_user(self, *metrics: str) -> float | None:
        """Bytes of these metrics together for each byte that users wrote; None where neither was counted."""
        known = [self.counts[metric] for metric in metrics if metric in self.counts]
        return sum(known) / self.counts[USER] if known and self.counts.get(USER, 0.0) > 0 else None


@dataclass(frozen=True)
class Database:
    """The loads of a study. `points`: condition -> means of its metrics over the repetitions.

    `changes`: what a factor does to a load on average, factor by factor; none without repetitions.
    """

    study: str
    rates: Sequence[Rate]
    points: Mapping[str, Mapping[str, float]]
    changes: Sequence[tuple[str, AverageChange]]
    found: Sequence[FoundKeys]
    by_load: Sequence[Counted]
    """Empty where one process ran them all."""

    @property
    def loads(self) -> list[str]:
        """In the order in which they ran."""
        return [rate.load for rate in self.rates]

    @property
    def all_loads(self) -> list[Counted]:
        """All loads of a trial, condition by condition."""
        return [Counted(where, ALL, own) for where, own in self.points.items()]

    def over_user(self, metric: str) -> dict[str, float]:
        """By point, bytes for each byte that users wrote."""
        return {one.where: share for one in self.all_loads if (share := one.over_user(metric)) is not None}

    def over_user_of(self, load: str, layer: str) -> list[float]:
        """Of one load in each point, bytes at a layer (`loads.LAYERS`) for each byte that its users wrote."""
        shares = [one.over_user(*loads.LAYERS[layer]) for one in self.by_load if one.load == load]
        return [share for share in shares if share is not None]

    @property
    def left_behind(self) -> dict[str, float]:
        """Load without writes of users -> the most bytes that compactions wrote meanwhile: work of earlier loads."""
        idle = [one for one in self.by_load if not one.counts.get(USER, 0.0)]
        return {
            load: max(one.counts.get(COMPACTED, 0.0) for one in idle if one.load == load)
            for load in dict.fromkeys(one.load for one in idle)
        }


def analyse(records: Dataset, study: Study) -> list[Database]:
    """One answer; none where no load was measured."""
    if not (names := loads.names(records, study)):
        return []
    means = _points(records, study, names)
    by_load = [
        Counted(where, name, {key: own[f"{name}.{key}"] for key in loads.COUNTED if f"{name}.{key}" in own})
        for where, own in means.items()
        for name in names
        if f"{name}.{DRIVE}" in own
    ]
    apart = {f"{name}.{key}" for name in names for key in loads.COUNTED}
    points = {where: {key: own[key] for key in own if key not in apart} for where, own in means.items()}
    found = [one for name in names if (one := _found(name, names, points))]
    measured = {name: cells(records, study, f"{name}.ops_rate") for name in names}
    confidence = study.analysis.confidence
    rates = [_rate(name, part, confidence) for name, part in measured.items() if part.cells]
    return [Database(study.name, rates, points, _changes(study, measured), found, by_load)]


def _rate(load: str, found: Cells, confidence: float) -> Rate:
    means = [mean_of(cell.values) for cell in found.cells]
    alone = interval(found.response, found.cells[0], confidence) if len(means) == 1 else None
    return Rate(load, min(means), max(means), alone)


def _changes(study: Study, rates: Mapping[str, Cells]) -> list[tuple[str, AverageChange]]:
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
