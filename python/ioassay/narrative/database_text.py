"""The sentences and tables of a database's loads; they are the summary of such a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.effects.average_change import AverageChange
from ioassay.analysis.effects.one_factor import Outcome as EffectOutcome
from ioassay.analysis.measurements.loads import OF_DATABASE
from ioassay.analysis.storage.database import (
    AMPLIFICATION,
    COMPACTED,
    DRAWN,
    DRIVE,
    FLASH,
    USER,
    Database,
    FoundKeys,
    Outcome,
)
from ioassay.factors import factor_label, level_phrase, level_text
from ioassay.metrics import format_metric
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import plain

_DOWN = {
    "written by users": USER,
    "to its log": "rocksdb.wal_bytes",
    "by flushes": "rocksdb.flush_bytes",
    "by compactions": "rocksdb.compaction_write_bytes",
    "to the drive": DRIVE,
    "to its flash": FLASH,
    "RocksDB's amplification": AMPLIFICATION,
    "the drive's amplification": "drive.write_amplification",
    "read from the drive": "drive.read.bytes",
    "writes delayed (s)": "rocksdb.stall_time",
}
_TOGETHER = (
    "Averaged over the other factors; the question effect has each place. All changes share the risk, so a difference "
    "may be certain there and undecided here."
)
_PROCESS = "RocksDB and the drive count over the whole process, so these are all loads of a trial together."
_TRIAL = "These are all loads of a trial together. The finding before has each load."
_APART = (
    "Each load is a process of its own and ends with a flush. Its files are synchronized before the drive is asked for "
    "its counts.",
    "RocksDB writes its log, flushes and compactions. A log that is not synchronized mostly stays in the page cache.",
    "Compactions that a load leaves behind run during the next load and are counted there.",
    "A drive with a write buffer counts a page for the load in which it reaches flash.",
)
_LEAST_LEFT = 0.01
"""Of what users wrote: fewer bytes of earlier compactions are not mentioned."""
_LAYERS = {"RocksDB": "{} written by RocksDB", "drive": "{} received by the drive", "flash": "{} in flash"}
_NEEDED = "A difference of {margin} needs {needed} per condition."
_CHANGES = ("factor", "levels", "load", "ratio of the rates", "95 % low", "high", "p, adjusted")


def findings(answers: Sequence[Database]) -> list[Finding]:
    """The loads, what changes them, what reached the drive, and keys that were not found."""
    return [
        finding
        for one in answers
        for finding in [
            _loads(one),
            *_changed(one),
            *_by_load(one),
            *_reached(one),
            *(_keys(one, found) for found in one.found),
        ]
    ]


def _finding(one: Database, title: str, text: Sequence[str], statistics: Mapping[str, Any], **more: Any) -> Finding:
    return Finding(
        study=one.study,
        question="database",
        title=title,
        statements=text,
        statistics=statistics,
        **{"response": "", **more},
    )


def _loads(one: Database) -> Finding:
    known = published_results.loads_of(one.study)
    rates = [f"{name}.ops_rate" for name in one.loads]
    rows: list[list[Any]] = [[where, *map(own.get, rates)] for where, own in one.points.items()]
    if known is not None:
        rows.append(["published", *map(known.rates.get, one.loads)])
    parts = [f"{name} {_span(values)}" for name in one.loads if (values := one.rates(name))]
    return _finding(
        one,
        "The loads (operations a second)",
        [f"Mean rates in thousands of operations per second: {', '.join(parts)}."],
        {"points": {where: dict(own) for where, own in one.points.items()}},
        tables=[Table(["condition", *one.loads], rows, ["", *rates])],
        caveats=[] if known is None else [f"Published: {known.source}.", *known.reading],
    )


def _span(values: Sequence[float]) -> str:
    low, high = (_thousands(value) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _thousands(value: float) -> str:
    """With two digits at least."""
    return f"{value / 1e3:,.0f}" if value >= 9.5e3 else f"{value / 1e3:.2g}"


def _changed(one: Database) -> list[Finding]:
    if not one.changes:
        return []
    factors = dict.fromkeys(change.factor for _, change in one.changes)
    text = [
        part
        for factor in factors
        for part in _change({load: change for load, change in one.changes if change.factor == factor})
    ]
    return [
        _finding(
            one,
            "What changes them",
            text,
            {"changes": [_numbers(load, change) for load, change in one.changes]},
            tables=[Table(_CHANGES, [_row(load, change) for load, change in one.changes])],
            caveats=[_TOGETHER],
            concludes=True,
        )
    ]


def _numbers(load: str, one: AverageChange) -> dict[str, Any]:
    ratio = one.ratio
    numbers = {"factor": one.factor, "levels": list(one.levels), "load": load, "ratio": plain(ratio), "p": ratio.p}
    return {**numbers, "outcome": one.outcome.value, "repetitions_needed": one.needed}


def _row(load: str, one: AverageChange) -> list[Any]:
    first, second = (level_text(one.factor, level) for level in one.levels)
    ratio = one.ratio
    shown = [float(f"{number:.3g}") for number in (ratio.ratio, ratio.interval.low, ratio.interval.high)]
    return [factor_label(one.factor), f"{second} over {first}", load, *shown, float(f"{ratio.p:.2g}")]


def _change(own: Mapping[str, AverageChange]) -> list[str]:
    """What one factor does to all loads."""
    some = next(iter(own.values()))
    first, second = (level_phrase(some.factor, level) for level in some.levels)
    different, alike, undecided = (
        {load: one for load, one in own.items() if one.outcome == outcome}
        for outcome in (EffectOutcome.DIFFERENCE, EffectOutcome.EQUIVALENT, EffectOutcome.UNDECIDED)
    )
    text = []
    if different:
        ratios = [f"{load} {phrases.ratio(one.ratio.ratio, one.ratio.interval)}" for load, one in different.items()]
        shown = phrases.listed(ratios, most=len(ratios))
        text.append(f"With {second} instead of {first}, rates change by these factors: {shown}.")
    if alike:
        names, margin = phrases.listed(list(alike), most=len(alike)), phrases.percent(MARGIN)
        text.append(f"The rates of {names} differ by at most {margin} between {first} and {second}.")
    if undecided:
        names = phrases.listed(list(undecided), most=len(undecided))
        needed = max(one.needed or 0 for one in undecided.values())
        text.append(f"The data do not show whether the rates of {names} differ between {first} and {second}.")
        text.append(_NEEDED.format(margin=phrases.percent(MARGIN), needed=phrases.repetitions_needed(needed)))
    return text


def _reached(one: Database) -> list[Finding]:
    """From the user down to the flash; nothing where the storage does not count for itself."""
    if not one.over_user(DRIVE):
        return []
    names = [name for name, metric in _DOWN.items() if any(metric in own for own in one.points.values())]
    rows: list[list[Any]] = [[where, *(own.get(_DOWN[name]) for name in names)] for where, own in one.points.items()]
    return [
        _finding(
            one,
            "What of it reached the drive",
            _way_down(one),
            _shares(one),
            response=DRIVE,
            tables=[Table(["condition", *names], rows, ["", *(_DOWN[name] for name in names)])],
            caveats=[
                _TRIAL if one.counts else _PROCESS,
                "A log that is not synced is in the page cache. Most of it is deleted before the kernel writes it.",
            ],
        )
    ]


def _shares(one: Database) -> dict[str, dict[str, float]]:
    known = {"drive": list(one.over_user(DRIVE).values()), "flash": list(one.over_user(FLASH).values())}
    return {f"{name}_over_user": {"min": min(own), "max": max(own)} for name, own in known.items() if own}


def _by_load(one: Database) -> list[Finding]:
    """What each load wrote, layer by layer; nothing where one process ran them all."""
    if not one.counts:
        return []
    counts = [(where, load, own) for where, by_load in one.counts.items() for load, own in by_load.items()]
    tables = [_load_table(counts, columns) for columns in (_BYTES, _AMPLIFICATIONS)]
    statistics = {
        "by_load": {where: {load: dict(own) for load, own in found.items()} for where, found in one.counts.items()}
    }
    text = [*_layers(one), *_left_behind(one)] or ["No load writes data of users."]
    return [_finding(one, "What each load wrote", text, statistics, tables=tables, caveats=list(_APART))]


def _load_table(counts: Sequence[tuple[str, str, Mapping[str, float]]], columns: _Columns) -> Table:
    """A row for each condition and load; columns without a value are left out."""
    found = {name: [column(own) for *_, own in counts] for name, (_, column) in columns.items()}
    kept = [name for name, values in found.items() if any(value is not None for value in values)]
    rows = [[where, load, *(found[name][place] for name in kept)] for place, (where, load, _) in enumerate(counts)]
    return Table(["condition", "load", *kept], rows, ["", "", *(columns[name][0] for name in kept)])


def _of_database(own: Mapping[str, float]) -> float | None:
    known = [own[key] for key in OF_DATABASE if key in own]
    return sum(known) if known else None


def _over_user(metric: str) -> Callable[[Mapping[str, float]], float | None]:
    return lambda own: own[metric] / own[USER] if own.get(USER, 0.0) > 0 and metric in own else None


_Columns = Mapping[str, tuple[str, Callable[[Mapping[str, float]], float | None]]]
"""Column -> the metric whose unit it has, and its value of one load's counts."""
_BYTES: _Columns = {
    "written by users": (USER, lambda own: own.get(USER)),
    "by RocksDB": (USER, _of_database),
    "of it by compactions": (COMPACTED, lambda own: own.get(COMPACTED)),
    "to the drive": (DRIVE, lambda own: own.get(DRIVE)),
    "to its flash": (FLASH, lambda own: own.get(FLASH)),
    "read from the drive": (DRIVE, lambda own: own.get("drive.read.bytes")),
}
_AMPLIFICATIONS: _Columns = {
    "RocksDB's amplification": (AMPLIFICATION, lambda own: own.get(AMPLIFICATION)),
    "drive over users": (AMPLIFICATION, _over_user(DRIVE)),
    "the drive's amplification": (AMPLIFICATION, lambda own: own.get("drive.write_amplification")),
    "flash over users": (AMPLIFICATION, _over_user(FLASH)),
    "writes delayed (s)": ("rocksdb.stall_time", lambda own: own.get("rocksdb.stall_time")),
}


def _layers(one: Database) -> list[str]:
    """What a byte of users becomes, load by load; first the load that it costs most in flash."""
    found = []
    for load in one.loads:
        shares = {layer: shares for layer in _LAYERS if (shares := one.over_user_of(load, layer))}
        parts = [_LAYERS[layer].format(_range(own)) for layer, own in shares.items()]
        if parts:
            most = max(max(own) for own in shares.values())
            found.append((most, f"In {load}, each byte of users becomes {phrases.listed(parts, most=len(parts))}."))
    return [text for _, text in sorted(found, key=lambda part: -part[0])]


def _left_behind(one: Database) -> list[str]:
    """Which loads did the work of earlier ones."""
    most = max((own.get(USER, 0.0) for own in one.points.values()), default=0.0)
    left = {load: max(values, default=0.0) for load in one.loads if (values := one.left_behind(load))}
    return [
        f"Compactions of earlier loads write up to {format_metric(DRIVE, volume)} during {load}."
        for load, volume in left.items()
        if volume > _LEAST_LEFT * most
    ]


def _way_down(one: Database) -> list[str]:
    """The bytes written for each byte of users, and the conditions with the least and the most at the flash."""
    own = {where: means[AMPLIFICATION] for where, means in one.points.items() if AMPLIFICATION in means}
    parts = [f"RocksDB writes {_times(own)}"] if own else []
    parts.append(f"{'' if parts else 'RocksDB '}sends {_times(one.over_user(DRIVE))} to the drive")
    flash = one.over_user(FLASH)
    text = [f"For each byte that users write, {' and '.join(parts)}."]
    text += [f"The drive writes {_times(flash)} to its flash."] if flash else []
    if flash and min(flash.values()) < max(flash.values()):
        least, most = (pick(flash, key=lambda where: flash[where]) for pick in (min, max))
        text.append(f"This is least with {least} and most with {most}.")
    return text


def _times(shares: Mapping[str, float]) -> str:
    return _range(list(shares.values()))


def _range(shares: Sequence[float]) -> str:
    low, high = f"{min(shares):.2f}", f"{max(shares):.2f}"
    return low if low == high else f"{low} to {high}"


def _keys(one: Database, found: FoundKeys) -> Finding:
    mean, redrawn = sum(found.shares) / len(found.shares), found.outcome == Outcome.REDRAWN
    text = [f"{found.load} found {100 * mean:.2f} % of the keys that it requested."]
    if redrawn:
        text.append(
            f"fillrandom draws some keys more than once, so {100 * DRAWN:.2f} % are expected. Nothing was lost."
        )
    return _finding(
        one,
        f"Keys that {found.load} found",
        text,
        {"mean": mean, "min": min(found.shares), "max": max(found.shares), "expected": DRAWN if redrawn else None},
        response=f"{found.load}.found",
        severity="info" if redrawn else "warning",
    )
