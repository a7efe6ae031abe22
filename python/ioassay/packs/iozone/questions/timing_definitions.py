"""Do claims of single passes agree with the kernel's first to last call, by which definition of time, and if not, why?

For tools that time passes over a file (the driver `filesuite`, IOzone), watched at level syscalls. A cell is one test
over one size at one point; it is judged by its middle repetition, so that a single one in which the process lost its
processor between a clock and a call decides nothing. What is beyond 1 % is explained only by what was recorded: how
short the interval was, what the tool says of its clock, what the witness lost. Differences are of a claim from what the
kernel saw of the same pass, and are not tested over repetitions.

Where folders vary, all others are compared with the first, test by test and mode by mode, by the one model of the
rates of trials that count; a factor over several sizes is the geometric mean of theirs. All comparisons share the risk.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ioassay.analysis.measurements import cells as measurements
from ioassay.analysis.measurements import passes
from ioassay.analysis.measurements.passes import CLAIM, RATE, SESSION, SPAN, SUM, WATCHED, Pass
from ioassay.analysis.one_factor import AverageChange, average_change
from ioassay.factors import level_key, level_phrase
from ioassay.hints import document
from ioassay.narrative import effect_text, phrases
from ioassay.narrative.finding import Column, Finding, Table
from ioassay.narrative.say import Say, Shares, say, templates
from ioassay.records.record import Scalar
from ioassay.stats.sample import median_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_size
from ioassay.verify import session_times
from ioassay.verify.verdict import HELD_UP, INCOMPLETE

WITHIN = 0.01
"""Of the claim: what 'agrees' means."""
WAYS = (SPAN, SUM, SESSION)
"""The definitions of time."""
PATH = "target.path"
_CLOCK_DOUBTS = frozenset({"clock-clamp", "poor-timer", "whole-microseconds"})


class Status(StrEnum):
    """Whether a cell agrees, and what explains it if not."""

    AGREES = "agrees"
    SHORT = "short"
    """The interval is so short that the clock's step and the time between clock and call exceed 1 %."""
    RECORD = "record"
    """One large record is filled before its first call, or checked after its last, within the interval."""
    HELD = "held"
    """The process lost its CPU between a clock and a call: in some repetitions only, or while others used it."""
    CLOCK = "clock"
    """The benchmark's output says that its clock is too coarse for the interval."""
    LOST = "lost"
    """The witness lost events."""
    UNSEEN = "unseen"
    """The witness could not identify the calls."""
    UNEXPLAINED = "unexplained"


UNEXPLAINED = (Status.UNEXPLAINED, Status.UNSEEN)


@dataclass(frozen=True)
class Cell:
    """One test over one size at one point: its watched passes, in the order in which they ran.

    What it has of a timing definition is that of the middle repetition.
    """

    point: Mapping[str, Scalar]
    test: str
    size: tuple[int, int]
    passes: Sequence[Pass]
    counted_rate: float | None
    """Bytes/s claimed in the trials that count: with twins, those without the witness."""

    @property
    def gap_s(self) -> float | None:
        """The claimed interval less first to last call."""
        return median_of([one.gap_s for one in self.passes])

    def rate(self, definition: str) -> float | None:
        """Bytes/s by a timing definition."""
        return _rate(self.passes, definition)

    def difference(self, definition: str = SPAN) -> float | None:
        """Of a timing definition's rate from the claim, as a share of it."""
        return median_of([one.differences().get(definition) for one in self.passes])

    @property
    def verdicts(self) -> Counter[str]:
        return Counter(one.verdict.category for one in self.passes if one.verdict is not None)

    @property
    def status(self) -> Status:
        """Whether it agrees within 1 %, and why not."""
        difference, gap_s = self.difference(), self.gap_s
        if difference is None:
            return Status.UNSEEN
        if abs(difference) <= WITHIN:
            return Status.AGREES
        if any(_CLOCK_DOUBTS & set(one.claim.doubts) for one in self.passes):
            return Status.CLOCK
        allowed_s = median_of([_allowed_s(one) for one in self.passes])
        if gap_s is not None and allowed_s is not None:
            if abs(gap_s) <= allowed_s:
                return Status.SHORT
            if 0 < gap_s <= allowed_s + session_times.record_work_s(self.passes[0].claim):
                return Status.RECORD
        # A wrong clock or a lie would be wrong in every repetition, on a quiet machine too, and could be too short.
        astray = [one for one in self.passes if _strays(one)]
        excused = len(astray) < len(self.passes) or all(one.contended for one in astray)
        if excused and all((one.gap_s or 0.0) > 0 for one in astray):
            return Status.HELD
        verdicts = [one.verdict for one in self.passes if one.verdict is not None]
        lost = any(one.category == INCOMPLETE and one.reason != HELD_UP for one in verdicts)
        return Status.LOST if lost else Status.UNEXPLAINED

    def outliers(self) -> int:
        """Repetitions beyond 1 % and beyond what a short interval allows, in a cell that is not itself so."""
        return 0 if self.status in UNEXPLAINED else sum(map(_strays, self.passes))


def _rate(found: Sequence[Pass], definition: str) -> float | None:
    return median_of([one.rates().get(definition) for one in found])


def _allowed_s(one: Pass) -> float | None:
    return None if one.claimed_s is None else session_times.allowed_s(one.claim, one.claimed_s)


def _strays(one: Pass) -> bool:
    difference, gap_s, allowed_s = one.differences().get(SPAN), one.gap_s, _allowed_s(one)
    if difference is None or gap_s is None or allowed_s is None:
        return False
    return abs(difference) > WITHIN and not -allowed_s <= gap_s <= allowed_s + session_times.record_work_s(one.claim)


@dataclass(frozen=True)
class FolderChange:
    """How many times faster than the first folder another one is, at one test in one mode."""

    point: Mapping[str, Scalar]
    direct: bool | None
    test: str
    change: AverageChange


@dataclass(frozen=True)
class TimingDefinitions:
    """The cells of a study; its folders that have passes, and all others against the first of them."""

    study: str
    cells: Sequence[Cell]
    folders: Sequence[Scalar]
    changes: Sequence[FolderChange]

    @property
    def seen(self) -> list[Pass]:
        return [one for cell in self.cells for one in cell.passes if one.seen is not None]

    @property
    def sizes(self) -> list[int]:
        return sorted({cell.size[0] for cell in self.cells})

    @property
    def sized(self) -> bool:
        return len({cell.size for cell in self.cells}) > 1

    @property
    def twins(self) -> bool:
        """True if trials without the witness have other claims."""
        return any(cell.counted_rate != cell.rate(WATCHED) for cell in self.cells)

    @property
    def counts(self) -> Counter[Status]:
        return Counter(cell.status for cell in self.cells)

    @property
    def explained(self) -> Counter[Status]:
        """The number of cells that differ more, by what explains it."""
        return Counter({why: number for why, number in self.counts.items() if why not in (Status.AGREES, *UNEXPLAINED)})

    @property
    def unexplained(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.status in UNEXPLAINED]

    def differences(self, definition: str) -> list[float]:
        """From the claim, as shares of it, of the passes over the largest file: of small ones no definition is near."""
        found = [one.differences().get(definition) for one in self.seen if one.size[0] == self.sizes[-1]]
        return [one for one in found if one is not None]

    @property
    def span_is_nearest(self) -> bool:
        """Whether first to last call lies nearest to the claims."""
        medians = {way: abs(found) for way in WAYS if (found := median_of(self.differences(way))) is not None}
        return SPAN in medians and all(medians[SPAN] < medians[way] for way in medians if way != SPAN)


def compared(records: Dataset, study: Study) -> list[TimingDefinitions]:
    """One answer for a study about passes, none for others."""
    found = cells(records, study)
    return [TimingDefinitions(study.name, found, *_folders(records, study))] if found else []


def cells(records: Dataset, study: Study) -> list[Cell]:
    """The watched passes by point, test and size: points in the study's order, tests in that of the tool."""
    design = study.design
    groups: dict[tuple[tuple[str, ...], tuple[int, int], str], tuple[list[Pass], list[Pass]]] = {}
    for place, found in enumerate((passes.counted(records, study), passes.witnessed_passes(records, study))):
        for one in found:
            groups.setdefault((design.key(one.point), one.size, one.test), ([], []))[place].append(one)
    watched = {key: both for key, both in groups.items() if both[1]}
    return [
        Cell(seen[0].point, test, size, seen, _rate(counted, WATCHED))
        for (_, size, test), (counted, seen) in sorted(
            watched.items(), key=lambda one: design.place(one[1][1][0].point)
        )
    ]


def _folders(records: Dataset, study: Study) -> tuple[Sequence[Scalar], Sequence[FolderChange]]:
    """The folders that have passes, and what of them can be compared with the first: test by test, mode by mode."""
    made = passes.expanded(records, study)
    if made is None or PATH not in study.levels:
        return [], []
    claims = made.trials.filter((made.trials[passes.ACCOUNTING] == CLAIM) & (made.trials[RATE] > 0))
    found = measurements.cells(replace(made, trials=claims), made.studies[0], RATE)
    pooled = (PATH, passes.FILE_SIZE, passes.RECORD_SIZE)
    groups: dict[tuple[str, ...], list[measurements.Cell]] = {}
    for cell in found.cells:
        mode = tuple(level_key(name, level) for name, level in cell.point.items() if name not in pooled)
        groups.setdefault(mode, []).append(cell)
    first, *others = found.factors[PATH]
    pairs = [
        (other, part)
        for other in others
        for part in groups.values()
        if {first, other} <= {cell.point[PATH] for cell in part}
    ]
    direct = {one.trial: one.claim.direct for one in passes.counted(records, study)}
    changes = []
    for other, part in pairs:
        own = replace(found, cells=tuple(part))
        change = average_change(own, PATH, (first, other), study.analysis.confidence, share=len(pairs))
        if isinstance(change, AverageChange):
            point = {name: level for name, level in part[0].point.items() if name in study.levels and name != PATH}
            test = str(part[0].point["test"])
            changes.append(FolderChange(point, direct[part[0].trials[0]], test, change))
    return found.factors[PATH], changes


# In sentences and tables. The table of all tests is that of a Portuguese report of 2016 (DTrace next to IOzone), with
# every cell filled.

HEADING = templates("timing")["heading"]
CONCLUDES = False


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """The answer, and folders compared."""
    return [finding for one in compared(records, study) for finding in findings(one)]


def findings(one: TimingDefinitions) -> Iterator[Finding]:
    if one.seen:
        yield _compared(one)
    else:
        said = [say("timing.unwatched", document=document("witness.md"))]
        yield Finding(title=str(say("timing.title_unwatched")), statements=said, severity="warning")
    if len(one.folders) > 1:
        yield _compared_folders(one)


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
        title=str(say("timing.title")),
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
        caveats=[caveat for caveat, holds in caveats if holds],
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

    def share(way: str) -> Callable[[tuple[int, list[Cell]]], float | None]:
        return lambda row: phrases.in_percent(_middle(cell.difference(way) for cell in row[1]))

    return Table.of(
        [(size, [cell for cell in one.cells if cell.size[0] == size]) for size in one.sizes],
        ("file size", lambda row: format_size(row[0])),
        ("claims", lambda row: len(row[1])),
        *(number(status) for status in Status if one.counts[status]),
        ("first to last call: median (%)", share(SPAN)),
        ("median (µs)", lambda row: _middle(cell.gap_s and 1e6 * cell.gap_s for cell in row[1])),
        ("sum of call times: median (%)", share(SUM)),
        ("open to close: median (%)", share(SESSION)),
    )


def _middle(values: Iterable[float | None]) -> float | None:
    return median_of([value and abs(value) for value in values])


def _tests(one: TimingDefinitions, known: Mapping[str, Any] | None) -> Table:
    """Tests across; for each place the claim, each definition, the verdict and the bytes down. Published rates last."""
    tests, shown = list(dict.fromkeys(cell.test for cell in one.cells)), dict(_ROWS)
    if one.twins:
        shown[templates("timing")["row_without"]] = lambda cell: _kib_rate(cell.counted_rate)
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


def _kib_rate(rate: float | None) -> int | None:
    return None if rate is None else round(rate / 1024)


def _of_definition(way: str) -> Iterator[tuple[str, Callable[[Cell], Any]]]:
    yield f"{way} (KiB/s)", lambda cell: _kib_rate(cell.rate(way))
    yield f"{way}: difference (%)", lambda cell: phrases.in_percent(cell.difference(way))


_ROWS: Mapping[str, Callable[[Cell], Any]] = {
    "claim (KiB/s)": lambda cell: _kib_rate(cell.rate(WATCHED)),
    **dict(row for way in WAYS for row in _of_definition(way)),
    "difference": lambda cell: _status(cell.status),
    "verdict": lambda cell: ", ".join(  # with their counts where repetitions differ
        name if len(cell.verdicts) == 1 else f"{name} ({count})" for name, count in cell.verdicts.most_common()
    ),
    "claimed (KiB)": lambda cell: _kib(cell.passes[0].claim.bytes),
    templates("timing")["row_moved"]: lambda cell: _kib(cell.passes[0].moved_bytes),
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


def _compared_folders(one: TimingDefinitions) -> Finding:
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
        response="pass.bw",
        title=str(say("timing.title_folders", folders=[first, *others])),
        statements=[
            *effect_text.average_changes(changes),
            *(say("timing.incomparable", first=first, other=other) for other in missing),
        ],
        statistics={"factors": [numbers(row) for row in one.changes]},
        tables=[effect_text.average_table(changes, "test")] if changes else [],
        caveats=[say("timing.folders", confidence=level) for level in confidence],
        concludes=True,
    )
