"""A database's loads in sentences and tables; they are the summary of such a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ioassay.analysis import published_results
from ioassay.narrative import effect_text, phrases
from ioassay.narrative.finding import Column, Finding, Table
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Quantity, Range
from ioassay.packs.rocksdb.questions import database
from ioassay.packs.rocksdb.questions.database import (
    AMPLIFICATION,
    BYTES,
    DRAWN,
    DRIVE,
    FLASH,
    USER,
    Database,
    FoundKeys,
    Outcome,
)
from ioassay.stats.result import Interval, plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_LAYERS = {layer: f"database.layer_{layer.lower()}" for layer in ("RocksDB", "drive", "flash")}
_LEAST_LEFT = 0.01
"""Of what users wrote: fewer bytes of earlier compactions are not mentioned."""


HEADING = "What do the loads come to, and what of them reached the drive?"
CONCLUDES = False


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """The loads, what changes them, what reached the drive, and keys that were not found."""
    return [finding for one in database.analyse(records, study) for finding in _findings(one)]


def _findings(one: Database) -> Iterator[Finding]:
    yield _loads(one)
    if one.changes:
        yield _changed(one)
    if one.over_user(DRIVE) or one.by_load:
        yield _reached(one)
    yield from (_keys(one, found) for found in one.found)


def _finding(one: Database, title: str, said: Sequence[Say], response: str = "", **more: Any) -> Finding:
    return Finding(study=one.study, question="database", response=response, title=title, statements=said, **more)


def _loads(one: Database) -> Finding:
    known = published_results.loads_of(one.study)
    rows: dict[str, Mapping[str, float]] = dict(one.points)
    if known is not None:
        rows["published"] = {f"{load}.ops_rate": rate for load, rate in known.rates.items()}
    confidence = {found.confidence for found in one.intervals.values() if isinstance(found, Interval)}
    code = "rates" if len(one.points) > 1 else "rates_interval" if confidence else "rates_once"
    done = [say("database.load", load=load, rate=_rate(one, load)) for load in one.loads]

    def rate_of(load: str) -> Column:
        return Column(load, lambda row: row[1].get(f"{load}.ops_rate"), f"{load}.ops_rate")

    return _finding(
        one,
        "The loads (operations a second)",
        [say(f"database.{code}", conditions=len(one.points), loads=done, confidence=max(confidence, default=None))],
        statistics={"points": plain(one.points)},
        tables=[Table.of(rows.items(), ("condition", lambda row: row[0]), *map(rate_of, one.loads))],
        caveats=[] if known is None else [str(say("database.published", source=known.source)), *known.reading],
    )


def _rate(one: Database, load: str) -> Quantity | Range:
    """With the interval of the only condition, or over all."""
    metric = f"{load}.ops_rate"
    rates = [means[metric] for means in one.points.values() if metric in means]
    return Quantity(metric, rates[0], one.intervals.get(load)) if len(rates) == 1 else Range.over(metric, rates)


# What changes them


def _changed(one: Database) -> Finding:
    return _finding(
        one,
        "What changes them",
        [*effect_text.average_changes(one.changes)],
        statistics={"changes": [{**effect_text.average_numbers(own), "load": load} for load, own in one.changes]},
        tables=[effect_text.average_table(one.changes, "load")],
        caveats=[str(say("database.together"))],
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
    ends = {f"{name}_over_user": {"min": min(own), "max": max(own)} for name, own in shares.items() if own}
    return _finding(
        one,
        "What of it reached the drive",
        [*_way_down(one), *_most_costly(one), *_left_behind(one)] or [say("database.no_writes")],
        response=DRIVE,
        statistics={**ends, "by_load": plain(by_load)},
        tables=[Table.of(one.parts, ("condition", lambda row: row.where), ("load", lambda row: row.load), *kept)],
        caveats=[str(say(f"database.{name}")) for name in caveats],
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


def _left_behind(one: Database) -> Iterator[Say]:
    """Which loads did the work of earlier ones."""
    most = max((own.get(USER, 0.0) for own in one.points.values()), default=0.0)
    for load, volume in one.left_behind.items():
        if volume > _LEAST_LEFT * most:
            yield say("database.left_behind", volume=Quantity(DRIVE, volume), load=load)


# Keys


def _keys(one: Database, found: FoundKeys) -> Finding:
    mean, redrawn = sum(found.shares) / len(found.shares), found.outcome == Outcome.REDRAWN
    said = [say("database.found", load=found.load, share=100 * mean)]
    return _finding(
        one,
        f"Keys that {found.load} found",
        [*said, say("database.redrawn", share=100 * DRAWN)] if redrawn else said,
        response=f"{found.load}.found",
        statistics={**plain(found), "mean": mean, "expected": DRAWN if redrawn else None},
        severity="info" if redrawn else "warning",
    )
