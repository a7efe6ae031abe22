"""The three accountings in sentences. Computes nothing but counts, medians and extremes of what it is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ioassay.analysis.claims.timing_agreement import AGREES, EXPLAINED, UNEXPLAINED, UNSEEN, Cell, middle
from ioassay.analysis.measurements.passes import CLAIM, SESSION, SPAN, SUM, Pass
from ioassay.factors import level_phrase
from ioassay.narrative import phrases
from ioassay.records.record import Scalar
from ioassay.units import format_size

_NAMED = 3
"""So many cells are named one by one."""


def place(point: Mapping[str, Scalar], direct: bool | None) -> str:
    """A point in words: `/dev/shm, direct`."""
    mode = {True: "direct", False: "buffered", None: ""}[direct]
    parts = [
        folder(level) if name == "target.path" else level_phrase(name, level)
        for name, level in point.items()
        if not (mode and name in ("direct", "I"))
    ]
    return ", ".join(part for part in (*parts, mode) if part) or "all trials"


def folder(path: Scalar) -> str:
    """A folder in words: `current folder` for `.`, which nobody sees in a sentence."""
    return "current folder" if str(path) == "." else str(path)


def cell_name(cell: Cell, *, sized: bool) -> str:
    """A cell in words: `write of 64 KiB by 4 KiB, /dev/shm, buffered`."""
    size = f" of {format_size(cell.size[0])} by {format_size(cell.size[1])}" if sized else ""
    return f"{cell.test}{size}, {place(cell.point, cell.passes[0].claim.direct)}"


def agreement(cells: Sequence[Cell], *, sized: bool) -> list[str]:
    """How many cells agree within 1 %, how many are explained and by what, how many are not."""
    counts = Counter(cell.status for cell in cells)
    said = [_agreeing(cells, counts[AGREES], sized=sized)]
    for status, why in EXPLAINED.items():
        if counts[status]:
            said.append(f"{_cells(counts[status])} {_are(counts[status])} further off and explained {why}.")
    for status, what in ((UNEXPLAINED, "further off, and nothing that was recorded explains it"),
                         (UNSEEN, "without calls that the witness could tell apart")):  # fmt: skip
        if counts[status]:
            named = [cell_name(cell, sized=sized) for cell in cells if cell.status == status]
            said.append(f"{_cells(counts[status])} {_are(counts[status])} {what}: {_named(named)}.")
    if counts[AGREES] < len(cells) and not counts[UNEXPLAINED] + counts[UNSEEN]:
        said.insert(0, f"Every one of {_cells(len(cells))} is within 1 % or explained.")
    if strays := sum(cell.outliers() for cell in cells):
        total = sum(len(cell.passes) for cell in cells)
        said.append(
            f"{strays} of {total} single passes lie further off, in cells whose middle pass does not: between a clock "
            "and a call the process can lose its processor."
        )
    return said


def _named(cells: Sequence[str]) -> str:
    more = f"; and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
    return "; ".join(cells[:_NAMED]) + more


def _agreeing(cells: Sequence[Cell], agreeing: int, *, sized: bool) -> str:
    known = [(abs(one.difference), one) for one in cells if one.status == AGREES and one.difference is not None]
    told = f"{agreeing} of {_cells(len(cells)).lower()} agree with the kernel's first to last call within 1 %"
    if not known:
        return f"{told}."
    largest, cell = max(known, key=lambda pair: pair[0])
    return f"{told}, at most {100 * largest:.2g} % apart ({cell_name(cell, sized=sized)})."


def _cells(count: int) -> str:
    return phrases.count(count, "cell")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def which_is_right(passes: Sequence[Pass]) -> list[str]:
    """Why first to last call is what the clock brackets, and what the two others count instead.

    Over several sizes of file by the largest: of small ones no accounting comes near.
    """
    largest = max(one.size[0] for one in passes)
    sized = any(one.size[0] != largest for one in passes)
    passes = [one for one in passes if one.size[0] == largest]
    said = []
    spans = _percents(passes, SPAN)
    rivals = [abs(middle(found) or 0.0) for way in (SUM, SESSION) if (found := _percents(passes, way))]
    if spans and abs(middle(spans) or 0.0) < min(rivals, default=float("inf")):
        said.append(
            f"{f'By files of {format_size(largest)}, first' if sized else 'First'} to last call is the right "
            f"accounting ({_range(spans)} from the claim{_middle(spans) if sized else ''}): the benchmark reads its "
            "clock right before the first call and right after the last one."
        )
    elif spans:
        said.append(
            f"First to last call gives {_range(spans)} from the claim, and is not the accounting nearest to it."
        )
    if sums := _percents(passes, SUM):
        said.append(
            f"The sum of call times gives rates {_range(sums)} from the claim: it leaves out what the program does "
            "between two calls, its seeks, and the way into the kernel and back."
        )
    if sessions := _percents(passes, SESSION):
        said.append(
            f"Open to close gives {_range(sessions)}: it takes in what is not timed, mostly the fsync and the close "
            "after the last call."
        )
    return said


def _percents(passes: Sequence[Pass], way: str) -> list[float]:
    return [100 * found for one in passes if (found := one.differences().get(way)) is not None]


def _range(percents: Sequence[float]) -> str:
    low, high = min(percents), max(percents)
    texts = [f"{value:+.2g}" if abs(value) < 99.5 else f"{value:+.0f}" for value in (low, high)]
    return f"{texts[0]} %" if texts[0] == texts[1] else f"{texts[0]} to {texts[1]} %"


def _middle(percents: Sequence[float]) -> str:
    return f", {middle(percents):+.2g} % in the middle"


def beside_the_claim(passes: Sequence[Pass]) -> list[str]:
    """What is read beside what is claimed: priming reads and silent passes, by an example of each."""
    said = []
    primed = next((one for one in passes if one.claim.primed and one.session and one.session.first.bytes), None)
    if primed is not None and primed.session is not None:
        said.append(
            f"Whoever counts all bytes of the file sees {_kib(primed.session.read.bytes)} KiB read of a file of "
            f"{_kib(primed.claim.bytes or 0)} KiB ({primed.test}): the test primes with one record of "
            f"{_kib(primed.session.first.bytes)} KiB before its clock starts."
        )
    silent = next((one for one in passes if one.silent), None)
    if silent is not None:
        told = "a second time" if len(silent.silent) == 1 else f"{len(silent.silent)} more times"
        said.append(
            f"The {silent.test} goes over the file {told} without reporting it: "
            f"{_kib(moved_bytes(silent))} KiB are moved for {_kib(silent.claim.bytes or 0)} KiB that are claimed."
        )
    return said


def moved_bytes(one: Pass) -> int:
    """All that was read and written through the file for a pass, what is primed and silent included."""
    sessions = [*([one.session] if one.session else []), *one.silent]
    side = "write" if one.claim.kind == "write" else "read"
    return sum(getattr(session, side).bytes for session in sessions)


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f}" if size_bytes % 1024 == 0 else f"{size_bytes / 1024:.1f}"


def effect(ratios: Mapping[str, float]) -> list[str]:
    """How fast the tests are under the witness, against the same without it; `ratios` by test."""
    if not ratios:
        return []
    least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    return [
        f"Under the witness the tests run at {ratios[least]:.2f} ({least}) to {ratios[most]:.2f} ({most}) of their "
        "speed without it; accountings are set against the claim of the same run, and speeds "
        f"('{CLAIM}' in figures) are those without it."
    ]


def by_size(cells: Sequence[Cell]) -> str:
    """The difference in percent falls with the size of the file, that in time does not; '' for one size."""
    sizes = sorted({cell.size[0] for cell in cells})
    if len(sizes) < 2:
        return ""
    ends = [[cell for cell in cells if cell.size[0] == size] for size in (sizes[0], sizes[-1])]
    shares = [middle([abs(one.difference) for one in part if one.difference is not None]) for part in ends]
    gaps = [abs(one.gap_s) for one in cells if one.gap_s is not None]
    if None in shares or not gaps:
        return ""
    return (
        f"In the middle the claim is {100 * (shares[0] or 0):.2g} % from first to last call at "
        f"{format_size(sizes[0])} and {100 * (shares[1] or 0):.2g} % at {format_size(sizes[-1])}; in time "
        f"{1e6 * (middle(gaps) or 0):.2g} µs over all sizes. Between clock and call there is about the same time "
        "whatever the length of the interval, so that the shorter it is, the larger its share: a tolerance needs an "
        "absolute part."
    )
