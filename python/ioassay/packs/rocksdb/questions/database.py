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

from ioassay.analysis.measurements import loads
from ioassay.analysis.measurements.cells import Cells, cells, interval, label
from ioassay.analysis.one_factor import AverageChange, average_change
from ioassay.stats.result import Interval, Undefined, mean_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

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
    """The loads of a study, in the order in which they ran. `points`: condition -> means of its metrics.

    `intervals`: of each load's rate, where there is one condition only. `changes`: what a factor does to a load on
    average, factor by factor; none without repetitions.
    """

    study: str
    loads: Sequence[str]
    points: Mapping[str, Mapping[str, float]]
    intervals: Mapping[str, Interval | Undefined]
    changes: Sequence[tuple[str, AverageChange]]
    found: Sequence[FoundKeys]
    parts: Sequence[Counted]
    """By condition: each load where it is a process, then all loads of a trial."""

    @property
    def by_load(self) -> list[Counted]:
        """Empty where one process ran them all."""
        return [part for part in self.parts if part.load != ALL]

    def over_user(self, metric: str) -> dict[str, float]:
        """By point, bytes for each byte that users wrote."""
        return {
            one.where: share for one in self.parts if one.load == ALL and (share := one.over_user(metric)) is not None
        }

    def over_user_of(self, load: str, layer: str) -> list[float]:
        """Of one load in each point, bytes at a layer (`loads.LAYERS`) for each byte that its users wrote."""
        shares = [one.over_user(*loads.LAYERS[layer]) for one in self.by_load if one.load == load]
        return [share for share in shares if share is not None]

    @property
    def left_behind(self) -> dict[str, float]:
        """Load without writes of users -> the most bytes that compactions wrote meanwhile: work of earlier loads."""
        most: dict[str, float] = {}
        for one in self.by_load:
            if not one.counts.get(USER):
                most[one.load] = max(most.get(one.load, 0.0), one.counts.get(COMPACTED, 0.0))
        return most


def analyse(records: Dataset, study: Study) -> list[Database]:
    """One answer; none where no load was measured."""
    confidence = study.analysis.confidence
    measured = {name: cells(records, study, f"{name}.ops_rate") for name in loads.names(records, study)}
    rates = {name: part for name, part in measured.items() if part.cells}
    if not (names := list(rates)):
        return []
    alone = {name: part.cells[0] for name, part in rates.items() if len(part.cells) == 1}
    rated = [f"{name}.{key}" for name in names for key in ("ops_rate", "found")]
    points = _means(records, study, [*BYTES, *rated])
    counts = {name: _means(records, study, [f"{name}.{key}" for key in loads.COUNTED]) for name in names}
    parts = []
    for where, whole in points.items():
        for name, means in counts.items():
            if f"{name}.{DRIVE}" in (own := means.get(where, {})):
                known = {metric.removeprefix(f"{name}."): mean for metric, mean in own.items()}
                parts.append(Counted(where, name, known))
        parts.append(Counted(where, ALL, whole))
    return [
        Database(
            study=study.name,
            loads=names,
            points=points,
            intervals={name: interval(f"{name}.ops_rate", cell, confidence) for name, cell in alone.items()},
            changes=_changes(study, rates),
            found=[one for name in names if (one := _found(name, names, points))],
            parts=parts,
        )
    ]


def _changes(study: Study, rates: Mapping[str, Cells]) -> list[tuple[str, AverageChange]]:
    pairs = [
        (name, factor, levels)
        for factor in study.levels
        for name, part in rates.items()
        if len(levels := part.factors.get(factor, ())) == 2
    ]
    changes = []
    for name, factor, (first, second) in pairs:
        change = average_change(rates[name], factor, (first, second), study.analysis.confidence, share=len(pairs))
        if isinstance(change, AverageChange):
            changes.append((name, change))
    return changes


def _means(records: Dataset, study: Study, metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """Each point, by what varies, with the means of its metrics over the repetitions."""
    found: dict[str, dict[str, float]] = {}
    for metric in metrics:
        for cell in cells(records, study, metric).cells:
            varied = {name: level for name, level in cell.point.items() if len(study.levels[name]) > 1}
            found.setdefault(label(varied), {})[metric] = mean_of(cell.values)
    return found


def _found(name: str, names: Sequence[str], points: Mapping[str, Mapping[str, float]]) -> FoundKeys | None:
    shares = [own[f"{name}.found"] for own in points.values() if f"{name}.found" in own]
    if not shares or min(shares) >= 1.0:
        return None
    redrawn = "fillrandom" in names and all(abs(share - DRAWN) < _NEAR for share in shares)
    return FoundKeys(name, shares, Outcome.REDRAWN if redrawn else Outcome.MISSING)
