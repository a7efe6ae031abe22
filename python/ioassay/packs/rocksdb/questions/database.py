"""The rates of a database's loads, what changes them, and what of their bytes reached the drive.

For trials that measured loads of a database (`passes.loads`): means of each point, what each factor of two levels
changes on average, the bytes from the user down to the flash, and the share of keys that reads found. The changes are
read from the one model of each load's rate; all of them share the risk, since they are read together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ioassay.analysis import published
from ioassay.analysis.measurements import passes
from ioassay.analysis.measurements.cells import Cells, cells, interval, label
from ioassay.analysis.one_factor import AverageChange, average_change
from ioassay.narrative import effect_text, phrases
from ioassay.narrative.finding import Column, Finding, Table
from ioassay.narrative.say import Quantity, Range, Say, say, templates
from ioassay.stats.result import Interval, Undefined, plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

USER, DRIVE, FLASH = passes.USER, passes.DRIVE, passes.FLASH
AMPLIFICATION, COMPACTED = "rocksdb.write_amplification", "rocksdb.compaction_write_bytes"
BYTES = (
    *(USER, *passes.OF_DATABASE, DRIVE, FLASH, AMPLIFICATION, "drive.write_amplification"),
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
        """Of one load in each point, bytes at a layer (`passes.LAYERS`) for each byte that its users wrote."""
        shares = [one.over_user(*passes.LAYERS[layer]) for one in self.by_load if one.load == load]
        return [share for share in shares if share is not None]

    @property
    def left_behind(self) -> dict[str, float]:
        """Load without writes of users -> the most bytes that compactions wrote meanwhile: work of earlier loads."""
        most: dict[str, float] = {}
        for one in self.by_load:
            if not one.counts.get(USER):
                most[one.load] = max(most.get(one.load, 0.0), one.counts.get(COMPACTED, 0.0))
        return most


def measured(records: Dataset, study: Study) -> list[Database]:
    """One answer; none where no load was measured."""
    confidence = study.analysis.confidence
    measured = {name: cells(records, study, f"{name}.ops_rate") for name in passes.loads(records, study)}
    rates = {name: part for name, part in measured.items() if part.cells}
    if not (names := list(rates)):
        return []
    alone = {name: part.cells[0] for name, part in rates.items() if len(part.cells) == 1}
    rated = [f"{name}.{key}" for name in names for key in ("ops_rate", "found")]
    points = _means(records, study, [*BYTES, *rated])
    counts = {name: _means(records, study, [f"{name}.{key}" for key in passes.COUNTED]) for name in names}
    found = []
    for name in names:
        shares = [own[f"{name}.found"] for own in points.values() if f"{name}.found" in own]
        if shares and min(shares) < 1.0:
            redrawn = "fillrandom" in names and all(abs(share - DRAWN) < _NEAR for share in shares)
            found.append(FoundKeys(name, shares, Outcome.REDRAWN if redrawn else Outcome.MISSING))
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
            found=found,
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
            found.setdefault(label(varied), {})[metric] = cell.mean
    return found


# In sentences and tables, which are the summary of such a study

_LAYERS = {layer: f"database.layer_{layer.lower()}" for layer in ("RocksDB", "drive", "flash")}
_LEAST_LEFT = 0.01
"""Of what users wrote: fewer bytes of earlier compactions are not mentioned."""


HEADING = templates("database")["heading"]
CONCLUDES = False


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """The loads, what changes them, what reached the drive, and keys that were not found."""
    found = []
    for one in measured(records, study):
        found += [_loads(one)]
        found += [_changed(one)] if one.changes else []
        found += [_reached(one)] if one.over_user(DRIVE) or one.by_load else []
        found += map(_keys, one.found)
    return found


def _loads(one: Database) -> Finding:
    known = published("loads", one.study)
    rows: dict[str, Mapping[str, float]] = dict(one.points)
    if known is not None:
        rows["published"] = {f"{load}.ops_rate": rate for load, rate in known["loads"].items()}
    confidence = {found.confidence for found in one.intervals.values() if isinstance(found, Interval)}
    code = "rates" if len(one.points) > 1 else "rates_interval" if confidence else "rates_once"
    done = [say("database.load", load=load, rate=_rate(one, load)) for load in one.loads]
    about = {"conditions": len(one.points), "loads": done, "confidence": max(confidence, default=None)}

    def rate_of(load: str) -> Column:
        return Column(load, lambda row: row[1].get(f"{load}.ops_rate"), f"{load}.ops_rate")

    return Finding(
        title=str(say("database.title_loads")),
        statements=[say(f"database.{code}", **about)],
        statistics={"points": plain(one.points)},
        tables=[Table.of(rows.items(), ("condition", lambda row: row[0]), *map(rate_of, one.loads))],
        caveats=[] if known is None else [say("database.published", source=known["source"]), *known["reading"]],
    )


def _rate(one: Database, load: str) -> Quantity | Range:
    """With the interval of the only condition, or over all."""
    metric = f"{load}.ops_rate"
    rates = [means[metric] for means in one.points.values() if metric in means]
    return Quantity(metric, rates[0], one.intervals.get(load)) if len(rates) == 1 else Range.over(metric, rates)


# What changes them


def _changed(one: Database) -> Finding:
    return Finding(
        title=str(say("database.title_changes")),
        statements=[*effect_text.average_changes(one.changes)],
        statistics={"changes": [{**effect_text.average_numbers(own), "load": load} for load, own in one.changes]},
        tables=[effect_text.average_table(one.changes, "load")],
        caveats=[say("database.together")],
        concludes=True,
    )


# What of it reached the drive


def _reached(one: Database) -> Finding:
    """From the user down to the flash: for each load where each is a process, and for all of a trial together."""

    def count(metric: str) -> Column:
        return Column(phrases.name(metric), lambda part: part.counts.get(metric), metric)

    def share(title: str, metric: str) -> Column:
        return Column(title, lambda part: part.over_user(metric), AMPLIFICATION)

    columns = [*map(count, BYTES), share("drive over users", DRIVE), share("flash over users", FLASH)]
    kept = [column for column in columns if any(column.value(part) is not None for part in one.parts)]
    caveats = ("apart", "later", "log") if one.by_load else ("process", "log")
    places = dict.fromkeys(part.where for part in one.by_load)
    by_load = {where: {part.load: part.counts for part in one.by_load if part.where == where} for where in places}
    shares = {"drive": [*one.over_user(DRIVE).values()], "flash": [*one.over_user(FLASH).values()]}
    # Which loads did the work of earlier ones.
    least = _LEAST_LEFT * max((own.get(USER, 0.0) for own in one.points.values()), default=0.0)
    volumes = {load: Quantity(DRIVE, volume) for load, volume in one.left_behind.items() if volume > least}
    left_behind = [say("database.left_behind", volume=volume, load=load) for load, volume in volumes.items()]
    ends = {f"{name}_over_user": {"min": min(own), "max": max(own)} for name, own in shares.items() if own}
    return Finding(
        title=str(say("database.title_reached")),
        statements=[*_way_down(one), *_most_costly(one), *left_behind] or [say("database.no_writes")],
        response=DRIVE,
        statistics={**ends, "by_load": plain(by_load)},
        tables=[Table.of(one.parts, ("condition", lambda row: row.where), ("load", lambda row: row.load), *kept)],
        caveats=[say(f"database.{name}") for name in caveats],
    )


def _way_down(one: Database) -> Iterator[Say]:
    """The bytes written for each byte of users, and the conditions with the least and the most at the flash."""
    own = [means[AMPLIFICATION] for means in one.points.values() if AMPLIFICATION in means]
    drive, flash = one.over_user(DRIVE), one.over_user(FLASH)
    if drive:
        known = {"own": Range.over(AMPLIFICATION, own)} if own else {}
        code = "database.way_down" if own else "database.way_to_drive"
        yield say(code, drive=Range.over(AMPLIFICATION, drive.values()), **known)
    if flash:
        least, most = (pick(flash, key=lambda where: flash[where]) for pick in (min, max))
        code = "database.to_flash_at" if flash[least] < flash[most] else "database.to_flash"
        yield say(code, flash=Range.over(AMPLIFICATION, flash.values()), least=least, most=most)


def _most_costly(one: Database) -> Iterator[Say]:
    """What a byte of users becomes, layer by layer, in the load where it becomes most."""
    found = {load: {layer: one.over_user_of(load, layer) for layer in _LAYERS} for load in one.loads}
    costs = {
        load: max(shares) for load, own in found.items() if (shares := [one for part in own.values() for one in part])
    }
    if costs:
        load = max(costs, key=costs.__getitem__)
        known = {
            code: Range.over(AMPLIFICATION, found[load][layer]) for layer, code in _LAYERS.items() if found[load][layer]
        }
        yield say("database.most_flash", load=load, layers=[say(code, share=share) for code, share in known.items()])


# Keys


def _keys(found: FoundKeys) -> Finding:
    mean, redrawn = sum(found.shares) / len(found.shares), found.outcome == Outcome.REDRAWN
    said = [say("database.found", load=found.load, share=100 * mean)]
    return Finding(
        title=str(say("database.title_keys", load=found.load)),
        statements=[*said, say("database.redrawn", share=100 * DRAWN)] if redrawn else said,
        response=f"{found.load}.found",
        statistics={**plain(found), "mean": mean, "expected": DRAWN if redrawn else None},
        severity="info" if redrawn else "warning",
    )
