"""Which accounting is right? Claims of single passes beside three ways to count what the kernel saw of them.

For tools that time passes over a file (the driver `filesuite`, IOzone), watched at level syscalls. The table is that
of a Portuguese report of 2016, which set DTrace beside IOzone, with every cell filled: first to last call, the sum of
call times, open to close, and the verdict. Where the claims are over a matrix of sizes, the difference by file size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.claims.timing_agreement import AGREES, EXPLAINED, UNEXPLAINED, UNSEEN, Cell, cells, middle
from ioassay.analysis.measurements import passes
from ioassay.analysis.measurements.passes import SESSION, SPAN, SUM, WATCHED, Pass
from ioassay.analysis.storage import folder_comparison
from ioassay.analysis.storage import timing_definitions_text as told
from ioassay.factors import level_key
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_size

QUESTION = "accountings"
_KIB = 1024
_WAYS = {
    SPAN: "first to last call (KiB/s)",
    SUM: "sum of call times (KiB/s)",
    SESSION: "open to close (KiB/s)",
}
_NOTHING_SEEN = (
    "The claims have nothing beside them: no trial was watched at level syscalls by the kernel's own probes "
    "(ioassay run --set watch.witness=syscalls; docs/witness.md says what these need)."
)


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """The whole in words, a table for each point, differences by size, folders compared, published numbers beside."""
    if not passes.is_about(records, study):
        return []
    seen = [one for one in passes.witnessed_passes(records, study) if one.seen is not None]
    counted = passes.counted(records, study)
    compared = folder_comparison.compare(study, counted)
    if not seen:
        return [_finding(study, "Claims against the kernel", [_NOTHING_SEEN], severity="warning"), *compared]
    found = cells(passes.witnessed_passes(records, study), study)
    sized = len({cell.size for cell in found}) > 1
    return [
        _whole(study, found, seen, counted, sized=sized),
        *(_differences(study, found) if sized else _points(study, found, counted)),
        *compared,
        *([] if sized else _published(study, found)),
    ]


def _finding(study: Study, title: str, said: Sequence[str], **more: Any) -> Finding:
    return Finding(study=study.name, question=QUESTION, response="", title=title, statement=" ".join(said), **more)


def _whole(
    study: Study, found: Sequence[Cell], seen: Sequence[Pass], counted: Sequence[Pass], *, sized: bool
) -> Finding:
    counts = Counter(cell.status for cell in found)
    agreeing, right = told.agreement(found, sized=sized), told.which_is_right(seen)
    beside, effect = told.beside_the_claim(seen), told.effect(_effects(study, found, counted))
    numbers = {
        "cells": len(found),
        "within_1_percent": counts[AGREES],
        "explained": {status: counts[status] for status in EXPLAINED if counts[status]},
        "unexplained": counts[UNEXPLAINED] + counts[UNSEEN],
        "stray_passes": sum(cell.outliers() for cell in found),
        "summary": [*agreeing, *right, *beside],
    }
    severity = "warning" if numbers["unexplained"] else "info"
    said = [*agreeing, *right, *beside, *effect, told.by_size(found)]
    title = "Claims against the kernel, by three accountings"
    return _finding(study, title, [one for one in said if one], statistics=numbers, severity=severity)


def _effects(study: Study, found: Sequence[Cell], counted: Sequence[Pass]) -> dict[str, float]:
    """By test, the watched claims over those without the witness: the middle of each, over all cells."""
    without = {_key(cell): _claimed(cell.passes) for cell in cells(counted, study)}
    ratios: dict[str, list[float]] = {}
    for cell in found:
        one, other = _claimed(cell.passes), without.get(_key(cell))
        if one and other and not {own.trial for own in cell.passes} & {own.trial for own in counted}:
            ratios.setdefault(cell.test, []).append(one / other)
    return {test: middle(values) or 0.0 for test, values in ratios.items()}


def _key(cell: Cell) -> tuple[Any, ...]:
    return (*(level_key(name, level) for name, level in cell.point.items()), cell.test, cell.size)


def _claimed(own: Sequence[Pass]) -> float | None:
    return middle([one.claim.rate_bytes_per_s for one in own])


# One table a point


def _points(study: Study, found: Sequence[Cell], counted: Sequence[Pass]) -> Iterator[Finding]:
    without = {_key(cell): _claimed(cell.passes) for cell in cells(counted, study)}
    for where, own in _by_point(found).items():
        repetitions = max(len(cell.passes) for cell in own)
        said = [
            f"{phrases.capital(where)}: {phrases.count(len(own), 'test')}, the middle of "
            f"{phrases.count(repetitions, 'repetition')} of each; differences are from the claim.",
            *told.agreement(own, sized=False)[:1],
        ]
        size = own[0].size
        about = f"a file of {format_size(size[0])} by records of {format_size(size[1])}" if all(size) else "one file"
        yield _finding(
            study,
            f"Claim and kernel: {where}",
            said,
            where=dict(own[0].point),
            statistics={"cells": [_numbers(cell) for cell in own]},
            tables=[_table(own, without)],
            caveats=[f"All tests are over {about}; KiB are 1024 bytes."],
        )


def _by_point(found: Sequence[Cell]) -> dict[str, list[Cell]]:
    grouped: dict[str, list[Cell]] = {}
    for cell in found:
        grouped.setdefault(told.place(cell.point, cell.passes[0].claim.direct), []).append(cell)
    return grouped


def _table(own: Sequence[Cell], without: Mapping[tuple[Any, ...], float | None]) -> Table:
    """The table of the original: tests across, the claim and each accounting down, the verdict below."""
    rows: list[list[Any]] = [["claim (KiB/s)", *(_in_kib(_rate(cell, WATCHED)) for cell in own)]]
    for way, name in _WAYS.items():
        rows.append([name, *(_in_kib(_rate(cell, way)) for cell in own)])
        rows.append(["difference (%)", *(_percent(_difference(cell, way)) for cell in own)])
    rows.append(["verdict", *(_verdict(cell) for cell in own)])
    rows.append(["claimed (KiB)", *(_size_in_kib(cell.passes[0].claim.bytes) for cell in own)])
    rows.append(["moved through the file (KiB)", *(_size_in_kib(told.moved_bytes(cell.passes[0])) for cell in own)])
    alone = [without.get(_key(cell)) for cell in own]
    if any(rate != _rate(cell, WATCHED) for rate, cell in zip(alone, own, strict=True)):
        rows.append(["claim without the witness (KiB/s)", *map(_in_kib, alone)])
    return Table(["", *(cell.test for cell in own)], rows)


def _verdict(cell: Cell) -> str | None:
    """The verdict, with its counts where repetitions differ."""
    counts = Counter(one.verdict.category for one in cell.passes if one.verdict is not None)
    if len(counts) < 2:
        return next(iter(counts), None)
    return ", ".join(f"{category} ({count})" for category, count in counts.most_common())


def _rate(cell: Cell, way: str) -> float | None:
    return middle([one.rates().get(way) for one in cell.passes])


def _difference(cell: Cell, way: str) -> float | None:
    return middle([one.differences().get(way) for one in cell.passes])


def _in_kib(rate: float | None) -> int | None:
    return None if rate is None else round(rate / _KIB)


def _size_in_kib(size_bytes: int | None) -> float | int | None:
    if size_bytes is None:
        return None
    return size_bytes // _KIB if size_bytes % _KIB == 0 else size_bytes / _KIB


def _percent(share: float | None) -> float | None:
    """Whole percents from 10 % on, two digits behind the point from 0.1 %, below two that count."""
    if share is None:
        return None
    number = 100 * share
    if abs(number) < 0.1:
        return float(f"{number:.2g}") + 0.0
    return round(number, 2 if abs(number) < 10 else 0) + 0.0


def _numbers(cell: Cell) -> dict[str, Any]:
    """One cell under stable names; rates in bytes/s, differences as shares of the claim."""
    return {
        "test": cell.test,
        "where": dict(cell.point),
        "file_bytes": cell.size[0],
        "record_bytes": cell.size[1],
        "repetitions": len(cell.passes),
        "status": cell.status,
        "claim_bytes_per_s": _rate(cell, WATCHED),
        **{f"{way.replace(' ', '_')}_bytes_per_s": _rate(cell, way) for way in _WAYS},
        **{f"{way.replace(' ', '_')}_difference": _difference(cell, way) for way in _WAYS},
        "gap_s": cell.gap_s,
        "verdicts": dict(Counter(one.verdict.category for one in cell.passes if one.verdict is not None)),
    }


# Over a matrix of sizes


def _differences(study: Study, found: Sequence[Cell]) -> Iterator[Finding]:
    sizes = sorted({cell.size[0] for cell in found})
    columns = ["file size", "cells", "within 1 %", "explained", "first to last call: middle (%)", "largest (%)"]
    columns += ["middle (µs)", "largest (µs)", "sum of call times: middle (%)", "open to close: middle (%)"]
    rows = [_size_row([cell for cell in found if cell.size[0] == size]) for size in sizes]
    yield _finding(
        study,
        "The difference by file size",
        [told.by_size(found) or "All claims are over one size of file."],
        statistics={"cells": [_numbers(cell) for cell in found]},
        tables=[Table(columns, rows)],
        caveats=["Differences are sizes without their sign; that of a cell is of its middle repetition."],
    )


def _size_row(own: Sequence[Cell]) -> list[Any]:
    shares = [abs(one.difference) for one in own if one.difference is not None]
    gaps = [abs(one.gap_s) for one in own if one.gap_s is not None]
    others = [middle([abs(d) for c in own if (d := _difference(c, way)) is not None]) for way in (SUM, SESSION)]
    return [
        format_size(own[0].size[0]),
        len(own),
        sum(cell.status == AGREES for cell in own),
        sum(cell.status in EXPLAINED for cell in own),
        *map(_percent, (middle(shares), max(shares, default=None))),
        *(None if gap is None else round(1e6 * gap, 2) for gap in (middle(gaps), max(gaps, default=None))),
        *map(_percent, others),
    ]


# Beside what was published


def _published(study: Study, found: Sequence[Cell]) -> Iterator[Finding]:
    known = published_results.rates_of(study.name)
    if known is None:
        return
    rows: list[list[Any]] = []
    for disk in known.disks:
        rows.append([disk.name, "IOzone", *(disk.claimed.get(test) for test in known.tests)])
        rows.append([disk.name, "DTrace", *(disk.traced.get(test) for test in known.tests)])
    for where, own in _by_point(found).items():
        by_test = {cell.test: cell for cell in own}
        for name, way in (("claim", WATCHED), (SPAN, SPAN)):
            shown = [by_test.get(test) for test in known.tests]
            rows.append([where, name, *(None if one is None else _in_kib(_rate(one, way)) for one in shown)])
    yield _finding(
        study,
        "Beside the published table (KiB/s)",
        known.reading,
        statistics={"rows": rows, "source": known.source},
        tables=[Table(["disk or folder", "source", *known.tests], rows)],
        caveats=[f"Published: {known.source}. Other machines: the shapes compare, the numbers do not."],
    )
