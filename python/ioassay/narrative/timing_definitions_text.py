"""The sentences and tables of three timing definitions next to the claims, and of folders compared.

The table is that of a Portuguese report of 2016, which compared DTrace with IOzone, with every cell filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.claims.timing_agreement import EXPLAINED, Cell, Status, middle
from ioassay.analysis.effects.average_change import AverageChange
from ioassay.analysis.effects.one_factor import Outcome as EffectOutcome
from ioassay.analysis.measurements.passes import CLAIM, SESSION, SPAN, SUM, WATCHED, Pass
from ioassay.analysis.storage.folder_comparison import Factor, Folders
from ioassay.analysis.storage.timing_definitions import Outcome, TimingDefinitions, cell_key
from ioassay.factors import level_phrase
from ioassay.hints import document
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import Scalar
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import Undefined
from ioassay.units import format_size

_MARGIN = phrases.percent(MARGIN)
_NAMED = 3
"""The number of cells that are named."""
_KIB = 1024
_WAYS = {
    SPAN: "first to last call (KiB/s)",
    SUM: "sum of call times (KiB/s)",
    SESSION: "open to close (KiB/s)",
}
_UNWATCHED = (
    "No trial was watched at level syscalls by the kernel's own probes, so the claims cannot be compared. "
    f"Use ioassay run --set watch.witness=syscalls; {document('witness.md')} lists its requirements."
)
_STATUS = {
    Status.SHORT: "because the interval is short: clock step and the time between clock and call exceed 1 %",
    Status.RECORD: "because the benchmark fills or checks one large record within the interval",
    Status.HELD: "because the process lost its CPU between clock and call",
    Status.CLOCK: "because the benchmark's clock is too coarse for the interval, as its output says",
    Status.LOST: "because the witness lost events",
    Status.UNEXPLAINED: "and no recorded fact explains it",
}
_DEFINITIONS = {
    SPAN: "The benchmark reads its clock right before the first call and right after the last one.",
    SUM: "It omits the program's work between calls, its seeks, and kernel entry and exit.",
    SESSION: "It includes untimed work, mostly the fsync and the close after the last call.",
}


def findings(answers: Sequence[TimingDefinitions]) -> list[Finding]:
    """All in one, a table for each point or the differences by size, folders, and published numbers."""
    return [finding for one in answers for finding in _findings(one)]


def _findings(one: TimingDefinitions) -> list[Finding]:
    folders = [_folders(one, one.folders)] if one.folders else []
    if one.outcome == Outcome.UNWATCHED:
        return [_finding(one, "Claims compared with the kernel", [_UNWATCHED], severity="warning"), *folders]
    if one.sized:
        return [_whole(one), _differences(one), *folders]
    return [_whole(one), *_points(one), *folders, *_published(one)]


def _finding(one: TimingDefinitions, title: str, text: Sequence[str], **more: Any) -> Finding:
    return Finding(study=one.study, question="accountings", response="", title=title, statements=text, **more)


def _whole(one: TimingDefinitions) -> Finding:
    counts = one.counts
    summary = [*_agreement(one.cells, sized=one.sized), *_nearest(one), *_unclaimed(one.seen)]
    numbers = {
        "cells": len(one.cells),
        "within_1_percent": counts[Status.AGREES],
        "explained": {status.value: counts[status] for status in EXPLAINED if counts[status]},
        "unexplained": counts[Status.UNEXPLAINED] + counts[Status.UNSEEN],
        "stray_passes": sum(cell.outliers() for cell in one.cells),
    }
    return _finding(
        one,
        "Claims compared with the kernel by three timing definitions",
        [*summary, *_slowdown(one.slowdown), *_by_size(one)],
        statistics=numbers,
        severity="warning" if one.outcome == Outcome.UNEXPLAINED else "info",
    )


def _place(point: Mapping[str, Scalar], direct: bool | None) -> str:
    """A point in words: `/dev/shm, direct`."""
    mode = {True: "direct", False: "buffered", None: ""}[direct]
    parts = [
        _folder(level) if name == "target.path" else level_phrase(name, level)
        for name, level in point.items()
        if not (mode and name in ("direct", "I"))
    ]
    return ", ".join(part for part in (*parts, mode) if part) or "all trials"


def _folder(path: Scalar) -> str:
    """A folder in words: `current folder` for `.`."""
    return "current folder" if str(path) == "." else str(path)


def _cell_name(cell: Cell, *, sized: bool) -> str:
    """A cell in words: `write of 64 KiB by 4 KiB, /dev/shm, buffered`."""
    size = f" of {format_size(cell.size[0])} by {format_size(cell.size[1])}" if sized else ""
    return f"{cell.test}{size}, {_place(cell.point, cell.passes[0].claim.direct)}"


def _agreement(cells: Sequence[Cell], *, sized: bool) -> list[str]:
    """How many cells agree within 1 %, how many are explained and by what, how many are not."""
    agreeing = [cell for cell in cells if cell.status == Status.AGREES]
    of = phrases.count(len(cells), "cell")
    text = [f"{len(agreeing)} of {of} agree within 1 % with the kernel's time from first to last call."]
    if known := [(abs(cell.difference), cell) for cell in agreeing if cell.difference is not None]:
        largest, cell = max(known, key=lambda pair: pair[0])
        among = "The" if len(agreeing) == len(cells) else "Among the cells that agree, the"
        text.append(f"{among} largest difference is {100 * largest:.2g} % ({_cell_name(cell, sized=sized)}).")
    for status, why in _STATUS.items():
        own = [_cell_name(cell, sized=sized) for cell in cells if cell.status == status]
        named = "" if status in EXPLAINED else f": {phrases.listed(own, _NAMED)}"
        if own:
            text.append(f"{phrases.count(len(own), 'cell')} differ{'s' if len(own) == 1 else ''} more, {why}{named}.")
    if unseen := [_cell_name(cell, sized=sized) for cell in cells if cell.status == Status.UNSEEN]:
        number = phrases.count(len(unseen), "cell")
        text.append(f"The witness could not identify the calls of {number}: {phrases.listed(unseen, _NAMED)}.")
    if strays := sum(cell.outliers() for cell in cells):
        total = sum(len(cell.passes) for cell in cells)
        text.append(f"{strays} of {total} single passes differ more, in cells whose median does not.")
    return text


def _nearest(one: TimingDefinitions) -> list[str]:
    """Which definition lies nearest to the claims, and what each counts."""
    text = []
    largest = one.of_largest[0].size[0]
    of = f"For files of {format_size(largest)}, " if one.sized else ""
    for way, why in _DEFINITIONS.items():
        shares = one.differences(way)
        if not shares:
            continue
        known = f"{_range(shares)}, median {100 * (middle(shares) or 0.0):+.2g} %" if one.sized else _range(shares)
        if way == SPAN and one.span_is_nearest:
            text += [phrases.capital(f"{of}the time from first to last call is nearest to the claim ({known})."), why]
        elif way == SPAN:
            text.append(phrases.capital(f"{of}the time from first to last call is not nearest to the claim ({known})."))
        else:
            text += [f"The definition '{way}' differs from the claim by {_range(shares)}.", why]
    return text


def _range(shares: Sequence[float]) -> str:
    low, high = (phrases.points(share, sign=True) for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _unclaimed(passes: Sequence[Pass]) -> list[str]:
    """What is read in addition to what is claimed: priming reads and silent passes, by an example of each."""
    text = []
    primed = next((one for one in passes if one.claim.primed and one.session and one.session.first.bytes), None)
    if primed is not None and primed.session is not None:
        read, size = _kib(primed.session.read.bytes), _kib(primed.claim.bytes or 0)
        text += [
            f"The test {primed.test} reads {read} KiB of a file of {size} KiB.",
            f"It reads one record of {_kib(primed.session.first.bytes)} KiB before its clock starts.",
        ]
    silent = next((one for one in passes if one.silent), None)
    if silent is not None:
        times = "a second time" if len(silent.silent) == 1 else f"{len(silent.silent)} more times"
        text += [
            f"The {silent.test} traverses the file {times} without reporting it.",
            f"It moves {_kib(_moved_bytes(silent))} KiB for {_kib(silent.claim.bytes or 0)} KiB claimed.",
        ]
    return text


def _moved_bytes(one: Pass) -> int:
    """All that was read and written through the file for a pass, what is primed and silent included."""
    sessions = [*([one.session] if one.session else []), *one.silent]
    side = "write" if one.claim.kind == "write" else "read"
    return sum(getattr(session, side).bytes for session in sessions)


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f}" if size_bytes % 1024 == 0 else f"{size_bytes / 1024:.1f}"


def _slowdown(ratios: Mapping[str, float]) -> list[str]:
    if not ratios:
        return []
    least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    return [
        f"With the witness, tests run at {ratios[least]:.2f} ({least}) to {ratios[most]:.2f} ({most}) of their speed.",
        "Definitions are compared with the claim of the same run.",
        f"Speeds ('{CLAIM}' in figures) are those without the witness.",
    ]


def _by_size(one: TimingDefinitions) -> list[str]:
    """The difference in percent falls with the size of the file, that in time does not; nothing for one size."""
    sizes = sorted({cell.size[0] for cell in one.cells})
    if len(sizes) < 2:
        return []
    ends = [[cell for cell in one.cells if cell.size[0] == size] for size in (sizes[0], sizes[-1])]
    shares = [middle([abs(cell.difference) for cell in part if cell.difference is not None]) for part in ends]
    gaps = [abs(cell.gap_s) for cell in one.cells if cell.gap_s is not None]
    if None in shares or not gaps:
        return []
    return [
        f"The median difference is {100 * (shares[0] or 0):.2g} % at {format_size(sizes[0])} and "
        f"{100 * (shares[1] or 0):.2g} % at {format_size(sizes[-1])}.",
        f"In time, it is {1e6 * (middle(gaps) or 0):.2g} µs over all sizes.",
        "The time between clock and call does not depend on the interval, so its share grows as the interval shrinks.",
        "A tolerance needs an absolute part.",
    ]


# A table for each point


def _points(answer: TimingDefinitions) -> list[Finding]:
    return [_point(answer, where, own) for where, own in _by_point(answer.cells).items()]


def _point(answer: TimingDefinitions, where: str, own: Sequence[Cell]) -> Finding:
    repetitions = phrases.count(max(len(cell.passes) for cell in own), "repetition")
    size = own[0].size
    about = f"a file of {format_size(size[0])} by records of {format_size(size[1])}" if all(size) else "one file"
    return _finding(
        answer,
        f"Claim and kernel: {where}",
        [
            f"{phrases.capital(where)}: {phrases.count(len(own), 'test')}, the median of {repetitions} of each.",
            *_agreement(own, sized=False)[:2],
        ],
        where=dict(own[0].point),
        statistics={"cells": [_numbers(cell) for cell in own]},
        tables=[_table(own, answer.without)],
        caveats=[f"All tests are over {about}; KiB are 1024 bytes. Differences are from the claim."],
    )


def _by_point(found: Sequence[Cell]) -> dict[str, list[Cell]]:
    grouped: dict[str, list[Cell]] = {}
    for cell in found:
        grouped.setdefault(_place(cell.point, cell.passes[0].claim.direct), []).append(cell)
    return grouped


def _table(own: Sequence[Cell], without: Mapping[tuple[Any, ...], float | None]) -> Table:
    """The table of the original: tests across, the claim and each definition down, the verdict below."""
    rows: list[list[Any]] = [["claim (KiB/s)", *(_in_kib(cell.rate(WATCHED)) for cell in own)]]
    for way, name in _WAYS.items():
        rows.append([name, *(_in_kib(cell.rate(way)) for cell in own)])
        rows.append(["difference (%)", *(_percent(cell.difference_of(way)) for cell in own)])
    rows.append(["verdict", *(_verdict(cell) for cell in own)])
    rows.append(["claimed (KiB)", *(_size_in_kib(cell.passes[0].claim.bytes) for cell in own)])
    rows.append(["moved through the file (KiB)", *(_size_in_kib(_moved_bytes(cell.passes[0])) for cell in own)])
    alone = [without.get(cell_key(cell)) for cell in own]
    if any(rate != cell.rate(WATCHED) for rate, cell in zip(alone, own, strict=True)):
        rows.append(["claim without the witness (KiB/s)", *map(_in_kib, alone)])
    return Table(["", *(cell.test for cell in own)], rows)


def _verdict(cell: Cell) -> str | None:
    """The verdict, with its counts where repetitions differ."""
    counts = cell.verdicts
    if len(counts) < 2:
        return next(iter(counts), None)
    return ", ".join(f"{category} ({count})" for category, count in counts.most_common())


def _in_kib(rate: float | None) -> int | None:
    return None if rate is None else round(rate / _KIB)


def _size_in_kib(size_bytes: int | None) -> float | int | None:
    if size_bytes is None:
        return None
    return size_bytes // _KIB if size_bytes % _KIB == 0 else size_bytes / _KIB


def _percent(share: float | None) -> float | None:
    """Whole percent from 10 % on, two decimals from 0.1 %, two significant digits below."""
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
        "status": cell.status.value,
        "claim_bytes_per_s": cell.rate(WATCHED),
        **{f"{way.replace(' ', '_')}_bytes_per_s": cell.rate(way) for way in _WAYS},
        **{f"{way.replace(' ', '_')}_difference": cell.difference_of(way) for way in _WAYS},
        "gap_s": cell.gap_s,
        "verdicts": dict(cell.verdicts),
    }


# Over a matrix of sizes


def _differences(answer: TimingDefinitions) -> Finding:
    sizes = sorted({cell.size[0] for cell in answer.cells})
    columns = ["file size", "cells", "within 1 %", "explained", "first to last call: middle (%)", "largest (%)"]
    columns += ["middle (µs)", "largest (µs)", "sum of call times: middle (%)", "open to close: middle (%)"]
    rows = [_size_row([cell for cell in answer.cells if cell.size[0] == size]) for size in sizes]
    return _finding(
        answer,
        "The difference by file size",
        _by_size(answer) or ["All claims are over one size of file."],
        statistics={"cells": [_numbers(cell) for cell in answer.cells]},
        tables=[Table(columns, rows)],
        caveats=["Differences are absolute; that of a cell is of its median repetition."],
    )


def _size_row(own: Sequence[Cell]) -> list[Any]:
    shares = [abs(one.difference) for one in own if one.difference is not None]
    gaps = [abs(one.gap_s) for one in own if one.gap_s is not None]
    others = [middle([abs(d) for c in own if (d := c.difference_of(way)) is not None]) for way in (SUM, SESSION)]
    return [
        format_size(own[0].size[0]),
        len(own),
        sum(cell.status == Status.AGREES for cell in own),
        sum(cell.status in EXPLAINED for cell in own),
        *map(_percent, (middle(shares), max(shares, default=None))),
        *(None if gap is None else round(1e6 * gap, 2) for gap in (middle(gaps), max(gaps, default=None))),
        *map(_percent, others),
    ]


# Published numbers


def _published(answer: TimingDefinitions) -> list[Finding]:
    known = published_results.rates_of(answer.study)
    if known is None:
        return []
    rows: list[list[Any]] = []
    for disk in known.disks:
        rows.append([disk.name, "IOzone", *(disk.claimed.get(test) for test in known.tests)])
        rows.append([disk.name, "DTrace", *(disk.traced.get(test) for test in known.tests)])
    for where, own in _by_point(answer.cells).items():
        by_test = {cell.test: cell for cell in own}
        for name, way in (("claim", WATCHED), (SPAN, SPAN)):
            shown = [by_test.get(test) for test in known.tests]
            rows.append([where, name, *(None if cell is None else _in_kib(cell.rate(way)) for cell in shown)])
    return [
        _finding(
            answer,
            "Comparison with the published table (KiB/s)",
            known.reading,
            statistics={"rows": rows, "source": known.source},
            tables=[Table(["disk or folder", "source", *known.tests], rows)],
            caveats=[f"Published: {known.source}. Other machines: compare the shapes, not the numbers."],
        )
    ]


# Folders


def _folders(answer: TimingDefinitions, folders: Folders) -> Finding:
    first = _folder(folders.first)
    rows = [[_where(one), one.test, one.folder, *_bounds(one), _winner(one, first)] for one in folders.factors]
    names = ("where", "test", "folder", "times", "low", "high")
    numbers = [
        {**dict(zip(names, row, strict=False)), "outcome": _outcome(one).value}
        for one, row in zip(folders.factors, rows, strict=True)
    ]
    level = phrases.level(folders.confidence)
    return Finding(
        study=answer.study,
        question="accountings",
        response="pass.bw",
        title=f"{phrases.capital(phrases.listed([first, *map(_folder, folders.others)]))} compared",
        statements=[part for other in folders.others for part in _faster(folders, other)],
        statistics={"factors": numbers},
        tables=[Table(["mode", "test", "folder", f"speed against {first}", "from", "to", "faster"], rows)],
        caveats=[f"'from' and 'to' are the {level} interval of the factor, which holds for all rows together."],
        concludes=True,
    )


def _bounds(one: Factor) -> tuple[float | None, float | None, float | None]:
    """The factor and its interval; None where there is none."""
    if isinstance(one.change, Undefined):
        return None, None, None
    ratio = one.change.ratio
    return ratio.ratio, ratio.interval.low, ratio.interval.high


def _outcome(one: Factor) -> EffectOutcome:
    return EffectOutcome.NOT_TESTED if isinstance(one.change, Undefined) else one.change.outcome


def _winner(one: Factor, first: str) -> str:
    if _outcome(one) != EffectOutcome.DIFFERENCE:
        return f"within {_MARGIN}" if _outcome(one) == EffectOutcome.EQUIVALENT else "not known"
    return _folder(one.folder) if _is_faster(one) else first


def _is_faster(one: Factor) -> bool:
    return not isinstance(one.change, Undefined) and one.change.ratio.ratio > 1


def _where(one: Factor) -> str:
    return _place(one.point, one.direct)


def _faster(folders: Folders, other: str) -> list[str]:
    first = f"the {_folder('.')}" if folders.first == "." else folders.first
    own = [one for one in folders.factors if one.folder == other and isinstance(one.change, AverageChange)]
    if not own:
        return [f"{other} cannot be compared with {first}: too few repetitions."]
    own.sort(key=lambda one: _bounds(one)[0] or 0.0)
    different = [one for one in own if _outcome(one) == EffectOutcome.DIFFERENCE]
    faster = sum(map(_is_faster, different))
    alike = sum(_outcome(one) == EffectOutcome.EQUIVALENT for one in own)
    undecided = [one.change for one in own if _outcome(one) == EffectOutcome.UNDECIDED]
    text = [
        f"{phrases.capital(other)} is certainly faster than {first} at {faster} of {phrases.count(len(own), 'test')} "
        f"and slower at {len(different) - faster}."
    ]
    text += [f"Both differ by at most {_MARGIN} at {alike}."] if alike else []
    if undecided:
        needed = max(one.needed or 0 for one in undecided if isinstance(one, AverageChange))
        text.append(f"The data do not show which is faster at {len(undecided)}.")
        text.append(f"A difference of {_MARGIN} needs {phrases.repetitions_needed(needed)} of each pass.")
    ends = _ratio(own[0]), _ratio(own[-1])
    return [*text, f"The factor is {ends[0]}." if len(own) == 1 else f"The factor ranges from {ends[0]} to {ends[1]}."]


def _ratio(one: Factor) -> str:
    """`3.1 (3 to 3.2) at write (direct)`."""
    where, (ratio, low, high) = _where(one), _bounds(one)
    if ratio is None or low is None or high is None:
        return ""
    test = f"{one.test} ({where})" if where != "all trials" else one.test
    return f"{phrases.plain_number(ratio)} ({phrases.plain_number(low)} to {phrases.plain_number(high)}) at {test}"
