"""Three timing definitions next to the claims, and folders compared, in sentences and tables.

The table of all tests is that of a Portuguese report of 2016 (DTrace next to IOzone), with every cell filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.effects.average_change import AverageChange
from ioassay.analysis.effects.one_factor import Outcome as Difference
from ioassay.analysis.measurements.passes import SESSION, SPAN, SUM, WATCHED, Pass
from ioassay.analysis.storage.timing_definitions import (
    PATH,
    WAYS,
    Cell,
    FolderChange,
    Folders,
    Status,
    TimingDefinitions,
)
from ioassay.factors import level_phrase
from ioassay.hints import document
from ioassay.narrative import phrases
from ioassay.narrative.finding import Column, Finding, Table, bounds
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Ratio
from ioassay.records.record import Scalar
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import plain
from ioassay.stats.sample import median_of
from ioassay.units import format_ns, format_size

_STATUS = {
    Status.AGREES: "within 1 %",
    Status.SHORT: "short interval",
    Status.RECORD: "large record",
    Status.HELD: "delayed process",
    Status.CLOCK: "coarse clock",
    Status.LOST: "lost events",
    Status.UNSEEN: "unidentified calls",
    Status.UNEXPLAINED: "unexplained",
}
"""As docs/active-iozone.md explains them."""
_MODES = {True: "direct", False: "buffered", None: ""}


def findings(answers: Sequence[TimingDefinitions]) -> list[Finding]:
    """The answer, and folders compared."""
    return [finding for one in answers for finding in _findings(one)]


def _findings(one: TimingDefinitions) -> Iterator[Finding]:
    if one.seen:
        yield _whole(one)
    else:
        said = say("timing.unwatched", document=document("witness.md"))
        yield _finding(one, "Claims compared with the kernel", [said], severity="warning")
    if one.folders:
        yield _folders(one.study, one.folders)


def _finding(one: TimingDefinitions, title: str, said: Sequence[Say | str], **more: Any) -> Finding:
    return Finding(study=one.study, question="accountings", response="", title=title, statements=said, **more)


# The answer


def _whole(one: TimingDefinitions) -> Finding:
    strays, said = sum(cell.outliers() for cell in one.cells), [_agreement(one)]
    if one.unexplained:
        said.append(say("timing.unexplained_at", cells=[_name(cell, sized=one.sized) for cell in one.unexplained]))
    caveats = [say("timing.sizes")] if one.sized else [_caption(one)]
    if strays:
        caveats.append(say("timing.strays", n=strays, passes=sum(len(cell.passes) for cell in one.cells)))
    if known := None if one.sized else published_results.rates_of(one.study):
        caveats.append(say("timing.published", source=known.source))
    if one.twins:
        caveats.append(say("timing.twins"))
    return _finding(
        one,
        "Claims compared with the kernel by three timing definitions",
        [*said, *_nearest(one), *_by_size(one)],
        statistics={
            "cells": len(one.cells),
            "within_1_percent": one.counts[Status.AGREES],
            "explained": {status.value: number for status, number in one.explained.items()},
            "unexplained": len(one.unexplained),
            "stray_passes": strays,
            "each": [_numbers(cell) for cell in one.cells],
        },
        tables=[_sizes(one)] if one.sized else [_tests(one), *([_published(one, known)] if known else [])],
        caveats=[*map(str, caveats)],
        details=[*_moved(one.seen), *(known.reading if known else ())],
        severity="warning" if one.unexplained else "info",
    )


def _agreement(one: TimingDefinitions) -> Say:
    """How many claims agree within 1 %, and what is known of the others."""
    agreeing, total = one.counts[Status.AGREES], len(one.cells)
    if agreeing == total:
        largest = max(abs(cell.difference or 0.0) for cell in one.cells)
        return say("timing.agree", agreeing=agreeing, claims=total, largest=largest)
    parts = [(sum(one.explained.values()), [why for why, _ in one.explained.most_common()])]
    parts += [(len(one.unexplained), [Status.UNEXPLAINED])]
    others = [
        say(
            "timing.others" if len(reasons) == 1 else "timing.others_mixed",
            n=n,
            have="has" if n == 1 else "have",
            reason=say(f"timing.{reasons[0]}"),
        )
        for n, reasons in parts
        if n
    ]
    return say("timing.differ", agreeing=agreeing, claims=total, others=others)


def _nearest(one: TimingDefinitions) -> list[Say]:
    """Which definition lies nearest to the claims, and how far off the others are."""
    shares = {way: one.differences(way) for way in WAYS}
    if not all(shares.values()):
        return []
    known = {name: _range(shares[way]) for name, way in (("spans", SPAN), ("sums", SUM), ("sessions", SESSION))}
    if not one.span_is_nearest:
        return [say("timing.not_nearest", **known)]
    code = "timing.nearest_of" if len(one.sizes) > 1 else "timing.nearest"
    return [say(code, size=format_size(one.sizes[-1]), **known)]


def _range(shares: Sequence[float]) -> str:
    low, high = (phrases.points(share, sign=True) for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _by_size(one: TimingDefinitions) -> list[Say]:
    """The difference in percent at the least and the greatest size of file, and in time; nothing for one size."""
    least, most = one.sizes[0], one.sizes[-1]
    small, large = (median_of(_shares([cell for cell in one.cells if cell.size[0] == size])) for size in (least, most))
    gap_us = median_of(_gaps_us(one.cells))
    if least == most or small is None or large is None or gap_us is None:
        return []
    ends = {"least": format_size(least), "most": format_size(most)}
    return [say("timing.by_size", small=small, large=large, gap=format_ns(1e3 * gap_us), **ends)]


def _shares(own: Sequence[Cell], way: str = SPAN) -> list[float]:
    """Absolute differences from the claims."""
    return [abs(found) for cell in own if (found := cell.difference_of(way)) is not None]


def _gaps_us(own: Sequence[Cell]) -> list[float]:
    return [1e6 * abs(cell.gap_s) for cell in own if cell.gap_s is not None]


def _moved(passes: Sequence[Pass]) -> Iterator[Say]:
    """What is read in addition to what is claimed: priming reads and silent passes, by an example of each."""
    primed = next((one for one in passes if one.claim.primed and one.session and one.session.first.bytes), None)
    silent = next((one for one in passes if one.silent), None)
    if primed is not None and primed.session is not None:
        yield say("timing.primed", record=_kib(primed.session.first.bytes), **_bytes(primed))
    if silent is not None:
        yield say("timing.silent", times=len(silent.silent), **_bytes(silent))


def _bytes(one: Pass) -> dict[str, object]:
    return {"test": one.test, "moved": _kib(_moved_bytes(one)), "claimed": _kib(one.claim.bytes)}


def _moved_bytes(one: Pass) -> int:
    """All that was read and written through the file for a pass, what is primed and silent included."""
    sessions = [*([one.session] if one.session else []), *one.silent]
    side = "write" if one.claim.kind == "write" else "read"
    return sum(getattr(session, side).bytes for session in sessions)


def _kib(size_bytes: float | None) -> float | None:
    """A whole number where it is one."""
    found = None if size_bytes is None else size_bytes / 1024
    return int(found) if found is not None and found.is_integer() else found


# Differences by size; all tests over one size, with every cell filled; what was published


def _sizes(one: TimingDefinitions) -> Table:
    """A row for each size of file: how many claims are of each status, and the differences."""
    rows = [(size, [cell for cell in one.cells if cell.size[0] == size]) for size in one.sizes]

    def number(status: Status) -> Column:
        return Column(_STATUS[status], lambda row: sum(cell.status == status for cell in row[1]))

    return Table.of(
        rows,
        ("file size", lambda row: format_size(row[0])),
        ("claims", lambda row: len(row[1])),
        *(number(status) for status in _STATUS if one.counts[status]),
        ("first to last call: median (%)", lambda row: phrases.in_percent(median_of(_shares(row[1])))),
        ("largest (%)", lambda row: phrases.in_percent(max(_shares(row[1]), default=None))),
        ("median (µs)", lambda row: median_of(_gaps_us(row[1]))),
        ("largest (µs)", lambda row: max(_gaps_us(row[1]), default=None)),
        ("sum of call times: median (%)", lambda row: phrases.in_percent(median_of(_shares(row[1], SUM)))),
        ("open to close: median (%)", lambda row: phrases.in_percent(median_of(_shares(row[1], SESSION)))),
    )


def _tests(one: TimingDefinitions) -> Table:
    """Tests across; for each place the claim, each definition, the verdict and the bytes down."""
    tests, shown = list(dict.fromkeys(cell.test for cell in one.cells)), dict(_ROWS)
    if one.twins:
        shown["claim without the witness (KiB/s)"] = lambda cell: _rate(one.without.get(cell.key))
    rows = [
        [where, name, *(value(own[test]) if test in own else None for test in tests)]
        for where, own in _by_place(one).items()
        for name, value in shown.items()
    ]
    return Table(["where", "", *tests], rows)


def _caption(one: TimingDefinitions) -> Say:
    size = one.cells[0].size
    about = f"a file of {format_size(size[0])} by records of {format_size(size[1])}" if all(size) else "one file"
    return say("timing.repetitions", n=max(len(cell.passes) for cell in one.cells), about=about)


def _by_place(one: TimingDefinitions) -> dict[str, dict[str, Cell]]:
    """Place -> test -> its cell."""
    grouped: dict[str, dict[str, Cell]] = {}
    for cell in one.cells:
        grouped.setdefault(_where(cell), {})[cell.test] = cell
    return grouped


def _rate(rate: float | None) -> int | None:
    """In KiB/s."""
    return None if rate is None else round(rate / 1024)


def _verdict(cell: Cell) -> str | None:
    """The verdict, with its counts where repetitions differ."""
    counts = cell.verdicts
    if len(counts) < 2:
        return next(iter(counts), None)
    return ", ".join(f"{category} ({count})" for category, count in counts.most_common())


def _of_definition(way: str) -> dict[str, Callable[[Cell], Any]]:
    return {
        f"{way} (KiB/s)": lambda cell: _rate(cell.rate(way)),
        f"{way}: difference (%)": lambda cell: phrases.in_percent(cell.difference_of(way)),
    }


_ROWS: Mapping[str, Callable[[Cell], Any]] = {
    "claim (KiB/s)": lambda cell: _rate(cell.rate(WATCHED)),
    **{name: value for way in WAYS for name, value in _of_definition(way).items()},
    "difference": lambda cell: _STATUS[cell.status],
    "verdict": _verdict,
    "claimed (KiB)": lambda cell: _kib(cell.passes[0].claim.bytes),
    "moved through the file (KiB)": lambda cell: _kib(_moved_bytes(cell.passes[0])),
}
"""Row -> what it has of a cell."""


def _published(one: TimingDefinitions, known: published_results.Rates) -> Table:
    """What was published of other disks, and the same tests here."""
    rows: list[list[Any]] = []
    for disk in known.disks:
        for source, rates in (("IOzone", disk.claimed), ("DTrace", disk.traced)):
            rows.append([disk.name, source, *map(rates.get, known.tests)])
    for where, own in _by_place(one).items():
        for source, way in (("claim", WATCHED), (SPAN, SPAN)):
            rows.append([where, source, *(_rate(own[test].rate(way)) if test in own else None for test in known.tests)])
    return Table(["disk or folder", "source (KiB/s)", *known.tests], rows)


def _numbers(cell: Cell) -> dict[str, Any]:
    """One cell under stable names; rates in bytes/s, differences as shares of the claim."""
    facts = {"test": cell.test, "where": dict(cell.point), "file_bytes": cell.size[0], "record_bytes": cell.size[1]}
    seen = {"repetitions": len(cell.passes), "status": cell.status.value, "verdicts": dict(cell.verdicts)}
    rates = {"claim": cell.rate(WATCHED), **{way: cell.rate(way) for way in WAYS}}
    differences = {way: cell.difference_of(way) for way in WAYS}
    return {**facts, **seen, "bytes_per_s": rates, "differences": differences, "gap_s": cell.gap_s}


def _where(cell: Cell) -> str:
    return _place(cell.point, cell.passes[0].claim.direct)


def _place(point: Mapping[str, Scalar], direct: bool | None) -> str:
    """A point in words: `/dev/shm, direct`."""
    mode = _MODES[direct]
    parts = [
        _folder(level) if name == PATH else level_phrase(name, level)
        for name, level in point.items()
        if not (mode and name in ("direct", "I"))
    ]
    return ", ".join(part for part in (*parts, mode) if part) or "all trials"


def _folder(path: Scalar) -> str:
    """A folder in words: `current folder` for `.`."""
    return "current folder" if str(path) == "." else str(path)


def _name(cell: Cell, *, sized: bool) -> str:
    """A cell in words: `write of 64 KiB by 4 KiB (/dev/shm, buffered)`."""
    size = f" of {format_size(cell.size[0])} by {format_size(cell.size[1])}" if sized else ""
    return f"{cell.test}{size} ({_where(cell)})"


# Folders


def _folders(study: str, folders: Folders) -> Finding:
    first, others = _folder(folders.first), list(dict.fromkeys(one.folder for one in folders.changes))
    table = Table.of(
        folders.changes,
        ("mode", lambda one: _place(one.point, one.direct)),
        ("test", lambda one: one.test),
        ("folder", lambda one: one.folder),
        (f"speed against {first}", lambda one: one.ratio and one.ratio.ratio),
        *bounds(lambda one: one.ratio and one.ratio.interval),
        ("faster", lambda one: _winner(one, first)),
    )

    def numbers(one: FolderChange) -> dict[str, Any]:
        place = {"where": dict(one.point), "test": one.test, "folder": one.folder}
        return {**place, "ratio": plain(one.ratio), "outcome": one.difference.value}

    return Finding(
        study=study,
        question="accountings",
        response="pass.bw",
        title=f"Folders compared: {phrases.listed([first, *map(_folder, others)])}",
        statements=[said for other in others for said in _faster(folders, other)],
        statistics={"factors": [numbers(one) for one in folders.changes]},
        tables=[table],
        caveats=[str(say("timing.folders", confidence=folders.confidence))],
        concludes=True,
    )


def _winner(one: FolderChange, first: str) -> str:
    if one.difference == Difference.DIFFERENCE:
        return _folder(one.folder) if one.faster else first
    return f"within {phrases.percent(MARGIN)}" if one.difference == Difference.EQUIVALENT else "not known"


def _faster(folders: Folders, other: str) -> Iterator[Say]:
    """At how many tests another folder is faster, by which factor, and what is not known."""
    names = {
        name: "the current folder" if path == "." else path
        for name, path in (("first", folders.first), ("other", other))
    }
    own = [(one, one.ratio) for one in folders.changes if one.folder == other and one.ratio]
    if not own:
        yield say("timing.incomparable", **names)
        return
    own.sort(key=lambda pair: pair[1].ratio)
    ends = [
        say("timing.ratio", ratio=Ratio(ratio.ratio, ratio.interval), test=f"{one.test} ({where})")
        for one, ratio in (own[0], own[-1])
        if (where := _place(one.point, one.direct))
    ]
    different, alike, undecided = (
        [one for one, _ in own if one.difference == outcome]
        for outcome in (Difference.DIFFERENCE, Difference.EQUIVALENT, Difference.UNDECIDED)
    )
    if different:
        faster = sum(one.faster for one in different)
        counts = {"tests": len(own), "faster": faster, "slower": len(different) - faster}
        yield say("timing.faster", **names, **counts)
    if alike:
        yield say("timing.alike", n=len(alike), **names, margin=MARGIN)
    if undecided:
        needed = max(one.change.needed or 0 for one in undecided if isinstance(one.change, AverageChange))
        yield say("timing.undecided", n=len(undecided), **names, margin=MARGIN, needed=needed)
    yield say("timing.factors" if len(own) > 1 else "timing.factor", least=ends[0], most=ends[-1])
