"""Three timing definitions next to the claims, and folders compared, in sentences and tables.

The table of all tests is that of a Portuguese report of 2016 (DTrace next to IOzone), with every cell filled.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ioassay.analysis.measurements.passes import SESSION, SPAN, SUM, WATCHED
from ioassay.factors import level_phrase
from ioassay.hints import document
from ioassay.narrative import effect_text, phrases
from ioassay.narrative.finding import Column, Finding, Table
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Shares
from ioassay.packs.iozone.questions import timing_definitions
from ioassay.packs.iozone.questions.timing_definitions import (
    PATH,
    WAYS,
    Cell,
    FolderChange,
    Status,
    TimingDefinitions,
)
from ioassay.records.record import Scalar
from ioassay.stats.sample import median_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_size

HEADING = "Which timing definition matches the claims?"
CONCLUDES = False


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """The answer, and folders compared."""
    return [finding for one in timing_definitions.analyse(records, study) for finding in findings(one)]


def findings(one: TimingDefinitions) -> Iterator[Finding]:
    if one.seen:
        yield _compared(one)
    else:
        said = [say("timing.unwatched", document=document("witness.md"))]
        yield Finding(one.study, "accountings", "", "Claims compared with the kernel", said, severity="warning")
    if len(one.folders) > 1:
        yield _folders(one)


# The answer


def _compared(one: TimingDefinitions) -> Finding:
    passes, strays = [each for cell in one.cells for each in cell.passes], sum(cell.outliers() for cell in one.cells)
    known = None if one.sized else _published(one.study)
    caveats = [
        (say("timing.sizes"), one.sized),
        (
            say("timing.repetitions", n=max(len(cell.passes) for cell in one.cells), record=one.cells[0].size[1]),
            not one.sized,
        ),
        (say("timing.strays", n=strays, passes=len(passes)), strays),
        (say("timing.published", source=known["source"] if known else ""), known),
        (say("timing.twins"), one.twins),
    ]
    return Finding(
        study=one.study,
        question="accountings",
        response="",
        title="Claims compared with the kernel by three timing definitions",
        statements=[*_agreement(one), *_nearest(one)],
        statistics={
            "cells": len(one.cells),
            "within_1_percent": one.counts[Status.AGREES],
            "explained": {status.value: number for status, number in one.explained.items()},
            "unexplained": len(one.unexplained),
            "stray_passes": strays,
            "each": [_numbers(cell) for cell in one.cells],
        },
        tables=[_sizes(one) if one.sized else _tests(one, known)],
        caveats=[str(caveat) for caveat, holds in caveats if holds],
        details=[*_moved(one), *(known["reading"] if known else ())],
        severity="warning" if one.unexplained else "info",
    )


def _published(study: str) -> dict[str, Any] | None:
    """What was published of the study called so."""
    known = tomllib.loads(Path(__file__).with_name("published_rates.toml").read_text(encoding="utf-8"))
    return known if study in known["studies"] else None


def _agreement(one: TimingDefinitions) -> Iterator[Say]:
    """How many claims agree within 1 %, what is known of the others, and of which nothing is."""
    counts = {"agreeing": one.counts[Status.AGREES], "claims": len(one.cells)}
    others = []
    if explained := one.explained:
        code = "timing.others" if len(explained) == 1 else "timing.others_mixed"
        others.append(say(code, n=explained.total(), reason=say(f"timing.{explained.most_common(1)[0][0]}")))
    if one.unexplained:
        others.append(say("timing.others", n=len(one.unexplained), reason=say("timing.unexplained")))
    if others:
        yield say("timing.differ", others=others, **counts)
    else:
        yield say("timing.agree", largest=max(abs(cell.difference() or 0.0) for cell in one.cells), **counts)
    if one.unexplained:
        sizes = [(cell, {"size": cell.size[0], "record": cell.size[1]}) for cell in one.unexplained]
        cells = [say("timing.cell", test=cell.test, at=_where(cell), **size) for cell, size in sizes]
        yield say("timing.unexplained_at", cells=cells)


def _nearest(one: TimingDefinitions) -> Iterator[Say]:
    """Which definition lies nearest to the claims, and how far off the others are."""
    names = {"spans": SPAN, "sums": SUM, "sessions": SESSION}
    shares = {name: own for name, way in names.items() if (own := one.differences(way))}
    if len(shares) == len(names):
        code = "timing.nearest" if one.span_is_nearest else "timing.not_nearest"
        known = {name: Shares(min(own), median_of(own) or 0.0, max(own)) for name, own in shares.items()}
        yield say(code, size=one.sizes[-1], **known)


def _moved(one: TimingDefinitions) -> Iterator[Say]:
    """What is moved in addition to what is claimed: priming reads and silent passes, by an example of each."""
    for name in ("primed", "silent_passes"):
        own = [each for each in one.seen if getattr(each.claim, name)]
        for each in [each for each in own if (each.moved_bytes or 0) > (each.claim.bytes or 0)][:1]:
            sizes = {"moved": each.moved_bytes, "claimed": each.claim.bytes, "record": each.claim.record_bytes}
            kib = {size: _kib(size_bytes) for size, size_bytes in sizes.items()}
            yield say(f"timing.{name}", test=each.test, times=each.claim.silent_passes, **kib)


def _kib(size_bytes: int | None) -> float | None:
    """A whole number where it is one."""
    return size_bytes and (size_bytes / 1024 if size_bytes % 1024 else size_bytes // 1024)


# Differences by size; all tests over one size, with every cell filled; what was published


def _sizes(one: TimingDefinitions) -> Table:
    """A row for each size of file: how many claims are of each status, and the differences."""

    def number(status: Status) -> Column:
        return Column(_status(status), lambda row: sum(cell.status == status for cell in row[1]))

    def share(title: str, way: str) -> Column:
        return Column(title, lambda row: phrases.in_percent(_middle(cell.difference(way) for cell in row[1])))

    return Table.of(
        [(size, [cell for cell in one.cells if cell.size[0] == size]) for size in one.sizes],
        ("file size", lambda row: format_size(row[0])),
        ("claims", lambda row: len(row[1])),
        *(number(status) for status in Status if one.counts[status]),
        share("first to last call: median (%)", SPAN),
        ("median (µs)", lambda row: _middle(cell.gap_s and 1e6 * cell.gap_s for cell in row[1])),
        share("sum of call times: median (%)", SUM),
        share("open to close: median (%)", SESSION),
    )


def _middle(values: Iterable[float | None]) -> float | None:
    return median_of([value and abs(value) for value in values])


def _tests(one: TimingDefinitions, known: Mapping[str, Any] | None) -> Table:
    """Tests across; for each place the claim, each definition, the verdict and the bytes down. Published rates last."""
    tests, shown = list(dict.fromkeys(cell.test for cell in one.cells)), dict(_ROWS)
    if one.twins:
        shown["claim without the witness (KiB/s)"] = lambda cell: _rate(cell.counted_rate)
    places: dict[str, dict[str, Cell]] = {}
    for cell in one.cells:
        places.setdefault(_where(cell), {})[cell.test] = cell
    rows = [
        [where, name, *(value(own[test]) if test in own else None for test in tests)]
        for where, own in places.items()
        for name, value in shown.items()
    ]
    for disk in known["disk"] if known else ():
        for source, rates in (("IOzone (KiB/s)", disk["claimed"]), ("DTrace (KiB/s)", disk["traced"])):
            rows.append([disk["name"], source, *map(rates.get, tests)])
    return Table(["where", "", *tests], rows)


def _status(status: Status) -> str:
    """As docs/active-iozone.md explains it."""
    return str(say(f"timing.is_{status}"))


def _rate(rate: float | None) -> int | None:
    """In KiB/s."""
    return None if rate is None else round(rate / 1024)


def _of_definition(way: str) -> Iterator[tuple[str, Callable[[Cell], Any]]]:
    yield f"{way} (KiB/s)", lambda cell: _rate(cell.rate(way))
    yield f"{way}: difference (%)", lambda cell: phrases.in_percent(cell.difference(way))


_ROWS: Mapping[str, Callable[[Cell], Any]] = {
    "claim (KiB/s)": lambda cell: _rate(cell.rate(WATCHED)),
    **dict(row for way in WAYS for row in _of_definition(way)),
    "difference": lambda cell: _status(cell.status),
    "verdict": lambda cell: ", ".join(  # with their counts where repetitions differ
        name if len(cell.verdicts) == 1 else f"{name} ({count})" for name, count in cell.verdicts.most_common()
    ),
    "claimed (KiB)": lambda cell: _kib(cell.passes[0].claim.bytes),
    "moved through the file (KiB)": lambda cell: _kib(cell.passes[0].moved_bytes),
}
"""Row -> what it has of a cell."""


def _numbers(cell: Cell) -> dict[str, Any]:
    """One cell under stable names; rates in bytes/s, differences as shares of the claim."""
    facts = {"test": cell.test, "where": dict(cell.point), "file_bytes": cell.size[0], "record_bytes": cell.size[1]}
    seen = {"repetitions": len(cell.passes), "status": cell.status.value, "verdicts": dict(cell.verdicts)}
    rates = {"claim": cell.rate(WATCHED), **{way: cell.rate(way) for way in WAYS}}
    differences = {way: cell.difference(way) for way in WAYS}
    return {**facts, **seen, "bytes_per_s": rates, "differences": differences, "gap_s": cell.gap_s}


def _where(cell: Cell) -> str:
    return _place(cell.point, cell.passes[0].claim.direct)


def _place(point: Mapping[str, Scalar], direct: bool | None) -> str:
    """A point in words: `/dev/shm, direct`."""
    mode = [] if direct is None else [level_phrase("direct", direct)]
    levels = [level_phrase(name, level) for name, level in point.items() if not (mode and name in ("direct", "I"))]
    return ", ".join([*levels, *mode]) or "all trials"


# Folders


def _folders(one: TimingDefinitions) -> Finding:
    """All others against the first."""
    first, *others = (level_phrase(PATH, folder) for folder in one.folders)
    changes = [(f"{row.test} ({_place(row.point, row.direct)})", row.change) for row in one.changes]
    compared = {row.change.levels[1] for row in one.changes}
    missing = [level_phrase(PATH, other) for other in one.folders[1:] if other not in compared]
    confidence = {row.change.ratio.interval.confidence for row in one.changes}

    def numbers(row: FolderChange) -> dict[str, Any]:
        place = {"where": dict(row.point), "test": row.test, "folder": row.change.levels[1]}
        return {**place, **effect_text.average_numbers(row.change)}

    return Finding(
        study=one.study,
        question="accountings",
        response="pass.bw",
        title=f"Folders compared: {phrases.listed([first, *others])}",
        statements=[
            *effect_text.average_changes(changes),
            *(say("timing.incomparable", first=first, other=other) for other in missing),
        ],
        statistics={"factors": [numbers(row) for row in one.changes]},
        tables=[effect_text.average_table(changes, "test")] if changes else [],
        caveats=[str(say("timing.folders", confidence=level)) for level in confidence],
        concludes=True,
    )
