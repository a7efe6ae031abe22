"""A database's loads in sentences and tables; they are the summary of such a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.effects.average_change import AverageChange
from ioassay.analysis.effects.one_factor import Outcome as Difference
from ioassay.analysis.storage.database import (
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
from ioassay.factors import factor_label, level_phrase, level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Column, Finding, Table, bounds
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Quantity, Range, Ratio
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import Interval, plain

_OVER_USER = {"drive over users": DRIVE, "flash over users": FLASH}
_LAYERS = {"RocksDB": "rocksdb", "drive": "drive", "flash": "flash"}
_LEAST_LEFT = 0.01
"""Of what users wrote: fewer bytes of earlier compactions are not mentioned."""


def findings(answers: Sequence[Database]) -> list[Finding]:
    """The loads, what changes them, what reached the drive, and keys that were not found."""
    return [finding for one in answers for finding in _findings(one)]


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
    rows = dict(one.points)
    if known is not None:
        rows["published"] = {f"{load}.ops_rate": rate for load, rate in known.rates.items()}
    done = []
    for rate in one.rates:
        least, most = (Quantity(f"{rate.load}.ops_rate", value) for value in (rate.least, rate.most))
        if f"{least}" == f"{most}":
            alone = Quantity(least.metric, rate.least, rate.interval)
            done.append(say("database.load", load=rate.load, rate=alone))
        else:
            done.append(say("database.load_range", load=rate.load, rates=Range(least.metric, rate.least, rate.most)))
    known_to = next((rate.interval for rate in one.rates if isinstance(rate.interval, Interval)), None)
    if len(one.points) > 1:
        said = say("database.rates", conditions=len(one.points), loads=done)
    elif known_to is None:
        said = say("database.rates_once", loads=done)
    else:
        said = say("database.rates_interval", loads=done, confidence=known_to.confidence)

    def rate_of(load: str) -> Column:
        return Column(load, lambda row: row[1].get(f"{load}.ops_rate"), f"{load}.ops_rate")

    return _finding(
        one,
        "The loads (operations a second)",
        [said],
        statistics={"points": plain(one.points)},
        tables=[Table.of(rows.items(), ("condition", lambda row: row[0]), *map(rate_of, one.loads))],
        caveats=[] if known is None else [str(say("database.published", source=known.source)), *known.reading],
    )


# What changes them


def _changed(one: Database) -> Finding:
    factors = dict.fromkeys(change.factor for _, change in one.changes)

    def levels(change: AverageChange) -> str:
        first, second = (level_text(change.factor, level) for level in change.levels)
        return f"{second} over {first}"

    table = Table.of(
        one.changes,
        ("factor", lambda row: factor_label(row[1].factor)),
        ("levels", lambda row: levels(row[1])),
        ("load", lambda row: row[0]),
        ("ratio of the rates", lambda row: row[1].ratio.ratio),
        *bounds(lambda row: row[1].ratio.interval),
        ("p, adjusted", lambda row: row[1].ratio.p),
    )
    return _finding(
        one,
        "What changes them",
        [said for factor in factors for said in _change({k: c for k, c in one.changes if c.factor == factor})],
        statistics={"changes": [_numbers(load, change) for load, change in one.changes]},
        tables=[table],
        caveats=[str(say("database.together"))],
        concludes=True,
    )


def _numbers(load: str, one: AverageChange) -> dict[str, Any]:
    facts = {
        "factor": one.factor,
        "levels": list(one.levels),
        "load": load,
        "ratio": plain(one.ratio),
        "p": one.ratio.p,
    }
    return {**facts, "outcome": one.outcome.value, "repetitions_needed": one.needed}


def _change(own: Mapping[str, AverageChange]) -> Iterator[Say]:
    """What one factor does to all loads."""
    some = next(iter(own.values()))
    first, second = (level_phrase(some.factor, level) for level in some.levels)
    different, alike, undecided = (
        {load: one for load, one in own.items() if one.outcome == outcome}
        for outcome in (Difference.DIFFERENCE, Difference.EQUIVALENT, Difference.UNDECIDED)
    )
    facts = {"first": first, "second": second, "margin": MARGIN}
    if different:
        ratios = {load: Ratio(one.ratio.ratio, one.ratio.interval) for load, one in different.items()}
        shown = [say("database.ratio", load=load, ratio=ratio) for load, ratio in ratios.items()]
        yield say("database.changed", ratios=shown, **facts)
    if alike:
        yield say("database.alike", loads=list(alike), **facts)
    if undecided:
        needed = max(one.needed or 0 for one in undecided.values())
        yield say("database.undecided", loads=list(undecided), needed=needed, **facts)


# What of it reached the drive


def _reached(one: Database) -> Finding:
    """From the user down to the flash: for each load where each is a process, and for all of a trial together."""
    parts = [part for whole in one.all_loads for part in (*(p for p in one.by_load if p.where == whole.where), whole)]
    columns = [*map(_count, BYTES), *(_share(title, metric) for title, metric in _OVER_USER.items())]
    kept = [column for column in columns if any(column.value(part) is not None for part in parts)]
    caveats = ("apart", "later", "log") if one.by_load else ("process", "log")
    by_load: dict[str, dict[str, Mapping[str, float]]] = {}
    for part in one.by_load:
        by_load.setdefault(part.where, {})[part.load] = part.counts
    shares = {"drive": [*one.over_user(DRIVE).values()], "flash": [*one.over_user(FLASH).values()]}
    ends = {f"{name}_over_user": {"min": min(own), "max": max(own)} for name, own in shares.items() if own}
    return _finding(
        one,
        "What of it reached the drive",
        [*_way_down(one), *_most_costly(one), *_left_behind(one)] or [say("database.no_writes")],
        response=DRIVE,
        statistics={**ends, "by_load": plain(by_load)},
        tables=[Table.of(parts, ("condition", lambda row: row.where), ("load", lambda row: row.load), *kept)],
        caveats=[str(say(f"database.{name}")) for name in caveats],
    )


def _count(metric: str) -> Column:
    return Column(phrases.name(metric), lambda part: part.counts.get(metric), metric)


def _share(title: str, metric: str) -> Column:
    return Column(title, lambda part: part.over_user(metric), AMPLIFICATION)


def _way_down(one: Database) -> Iterator[Say]:
    """The bytes written for each byte of users, and the conditions with the least and the most at the flash."""
    own = [means[AMPLIFICATION] for means in one.points.values() if AMPLIFICATION in means]
    drive, flash = one.over_user(DRIVE), one.over_user(FLASH)
    if drive:
        known = {"own": _range(own)} if own else {}
        code = "database.way_down" if own else "database.way_to_drive"
        yield say(code, drive=_range([*drive.values()]), **known)
    if flash:
        least, most = (pick(flash, key=lambda where: flash[where]) for pick in (min, max))
        code = "database.to_flash_at" if flash[least] < flash[most] else "database.to_flash"
        yield say(code, flash=_range([*flash.values()]), least=least, most=most)


def _most_costly(one: Database) -> Iterator[Say]:
    """What a byte of users becomes, layer by layer, in the load where it becomes most."""
    found = {load: {layer: one.over_user_of(load, layer) for layer in _LAYERS} for load in one.loads}
    known = {load: {layer: own for layer, own in layers.items() if own} for load, layers in found.items()}
    costs = {load: max(map(max, layers.values())) for load, layers in known.items() if layers}
    if costs:
        load = max(costs, key=costs.__getitem__)
        layers = [say(f"database.layer_{_LAYERS[layer]}", share=_range(own)) for layer, own in known[load].items()]
        yield say("database.most_flash", load=load, layers=layers)


def _left_behind(one: Database) -> Iterator[Say]:
    """Which loads did the work of earlier ones."""
    most = max((own.get(USER, 0.0) for own in one.points.values()), default=0.0)
    for load, volume in one.left_behind.items():
        if volume > _LEAST_LEFT * most:
            yield say("database.left_behind", volume=Quantity(DRIVE, volume), load=load)


def _range(shares: Sequence[float]) -> str:
    low, high = f"{min(shares):.2f}", f"{max(shares):.2f}"
    return low if low == high else f"{low} to {high}"


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
