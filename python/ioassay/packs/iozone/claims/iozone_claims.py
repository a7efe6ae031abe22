"""What IOzone claims: one claim a pass and cell, in the order in which IOzone ran them.

Its clock runs from before the first call of a pass to after the last; open, the fsync of the fresh file, and (without
-e and -c) fsync and close at the end are outside. Reads of test 1 are primed by one record; of the backward read two
passes run and the first is reported. `iozone_table` reads what is printed, `Results` takes it in for `ioassay import`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ioassay.errors import InputError
from ioassay.formats import Conventions, tool_runs
from ioassay.formats.number_parsing import lines_with, real, whole_number
from ioassay.formats.result_entry import Entry, size_level
from ioassay.packs.iozone.claims.iozone_table import (
    PASSES,
    PATTERNS,
    Invocation,
    Row,
    Throughput,
    matrices,
    parse_invocation,
    pass_of,
    rows,
    throughputs,
)
from ioassay.records.record import Claim, Warning_

NAME = "iozone"
STREAM = "stdout"
CONVENTIONS = Conventions(passes=True, tests_are_work=True)
_PREAMBLE_CHARS = 20_000
"""What stands before a table: contributors, options, the command line."""
_KB, _OPS, _MICROSECONDS = "kB", "ops", "us"
_DOUBTS = {
    "clock-clamp": "took no longer than a step of its clock: the number is the clock's, not the disk's",
    "poor-timer": "is so short that IOzone itself calls the numbers inaccurate",
}
_POOR = re.compile(r"Timer resolution is poor.{0,200}?Sizes (\d{1,15}) kBytes", re.S)
_PRIMED_TEST, _BACKWARD_TEST = 1, 3
_DIRECTIONS = ("read", "write")
_JITTER_RECORDS = 100
"""With -K, two single bytes are read before every record of test 1 whose number this divides."""


def matches(program: str) -> bool:
    """Whether this is IOzone; Debian's package calls it iozone, other builds iozone3 or iozone_*."""
    return re.fullmatch(r"iozone[\w.-]*", program, re.I) is not None


def looks_like(text: str) -> bool:
    """Whether it has IOzone's banner, table or matrices."""
    return any(mark in text for mark in ("Performance Test of File I/O", "  reclen ", '"Writer report"'))


@dataclass(frozen=True)
class _Run:
    """What stands before a table, as far as it changes the meaning of the numbers."""

    asked: Invocation
    unit: str
    clock_step_s: float
    direct: bool
    includes: Sequence[str]
    poor_up_to_kib: int = 0


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims in an output; InputError when it has no numbers, or a row that does not fit its columns.

    The command line that IOzone echoes decides; `argv` stands in for it where it is missing.
    """
    claims, end = [], 0
    for start, header in lines_with(text, "  reclen "):
        run = _run(text[max(end, start - _PREAMBLE_CHARS) : start], text, start, argv)
        for row in rows(text, start, header, run.asked):
            claims += _of_row(row, run)
        end = start
    if not claims:
        place = max(0, text.find("Throughput test with"))
        run = _run(text[max(0, place - _PREAMBLE_CHARS) : place], text, 0, argv)
        claims = [_of_processes(one, run) for one in throughputs(text)]
        claims = claims or [claim for row in _matrix_rows(text) for claim in _of_row(row, run)]
    if not claims and not text.strip():
        why = "it ended before its first number; run it with a terminal or a file as output"
        raise InputError(f"IOzone's output is empty: {why}")
    if not claims:
        why = "it was ended before its first test did, or refused; its last line is "
        raise InputError(f"IOzone's output has no numbers: {why}{text.strip()[-100:].splitlines()[-1]!r}")
    return claims


def warnings(claims: Sequence[Claim]) -> list[Warning_]:
    """What is to be said of claims whose own output gives something against them."""
    found = []
    for doubt, text in _DOUBTS.items():
        names = dict.fromkeys(claim.test for claim in claims if doubt in claim.doubts)
        if names:
            found.append(Warning_(doubt, f"{', '.join(names)} {text}", "take a larger file"))
    return found


def _run(preamble: str, text: str, start: int, argv: Sequence[str]) -> _Run:
    echoed = re.search(r"Command line used: \S+ ?(.{0,10000})", preamble)
    words = echoed[1].split() if echoed else tool_runs.words_of(argv, matches)[1:]
    found = parse_invocation(words)
    said = [name for mark, name in (("Include fsync", "fsync"), ("Include close", "close")) if mark in preamble]
    unit = _OPS if "OPS Mode" in preamble else _MICROSECONDS if "Microseconds/op Mode" in preamble else _KB
    step = re.search(r"Time Resolution = +([\d.]{1,20}) seconds", preamble)
    poor = _POOR.search(text, text.find("Timer resolution is poor", start)) if "resolution is poor" in text else None
    return _Run(
        asked=found,
        unit=unit,
        clock_step_s=real(step[1], "Time Resolution") if step else 0.0,
        direct="I" in found.flags or "O_DIRECT feature" in preamble,
        includes=tuple(dict.fromkeys([*found.includes, *said])),
        poor_up_to_kib=whole_number(poor[1], "poor timer") if poor else 0,
    )


def _matrix_rows(text: str) -> list[Row]:
    """The cells of the matrices as rows, where the table itself is missing."""
    found = matrices(text)
    cells = sorted({cell for values in found.values() for cell in values})
    return [Row(*cell, {name: values[cell] for name, values in found.items() if cell in values}) for cell in cells]


def _of_row(row: Row, run: _Run) -> list[Claim]:
    """Zeros are passes that did not run (-+n, the crossover)."""
    return [_claim(name, row, value, run) for name, value in row.values.items() if value]


def _claim(name: str, row: Row, value: int, run: _Run) -> Claim:
    one = PASSES[name]
    record_bytes = row.record_kib * 1024
    operations = row.file_kib // row.record_kib
    engine = "mmap" if "B" in run.asked.flags and one.engine == "sync" else one.engine
    synchronous = one.kind == "write" and one.engine == "sync" == engine and bool({"o", "+D"} & run.asked.flags)
    jumps = "K" in run.asked.flags  # reads do so now and then
    claim = Claim(
        source=NAME,
        kind=one.kind,
        test=name,
        operations=operations,
        bytes=operations * record_bytes,
        clock_step_s=run.clock_step_s,
        engine=engine,
        direct=run.direct and one.engine != "stdio",  # tests 6 and 7 ignore -I
        paths=tuple(run.asked.files),
        paths_stated=bool(run.asked.files),
        file_bytes=row.file_kib * 1024,
        record_bytes=record_bytes,
        pattern="" if jumps else PATTERNS.get(one.test, ""),
        working_set_bytes=operations * record_bytes if one.test in PATTERNS and not jumps else None,
        includes=(*run.includes, *(("osync",) if synchronous else ())),
        primed=one.test == _PRIMED_TEST,
        silent_passes=int(one.test == _BACKWARD_TEST and not run.asked.no_retest),
    )
    jitter = -(-operations // _JITTER_RECORDS) * 2 if jumps and one.test == _PRIMED_TEST else 0
    timed = _timed(claim, value, run, record_bytes)  # IOzone's rate leaves the single bytes out
    return replace(timed, operations=operations + jitter, bytes=operations * record_bytes + jitter)


def _timed(claim: Claim, value: int, run: _Run, record_bytes: int) -> Claim:
    """The number in its unit. Rates are rounded down to whole ones, also those in operations a second."""
    doubts = ["poor-timer"] if (claim.file_bytes or 0) <= run.poor_up_to_kib * 1024 else []
    if run.unit == _MICROSECONDS:
        doubts.append("whole-microseconds")
        return replace(claim, latency_ns={"mean": value * 1e3}, doubts=tuple(doubts))
    step = float(record_bytes) if run.unit == _OPS else 1024.0
    rate = value * step
    seconds = (claim.bytes or 0) / rate
    if (claim.bytes or 0) / (rate + step) < run.clock_step_s:
        doubts.append("clock-clamp")
    return replace(
        claim,
        rate_bytes_per_s=rate,
        rate_unit_bytes=step,
        seconds=None if run.unit == _OPS else seconds,
        doubts=tuple(doubts),
    )


def _of_processes(one: Throughput, run: _Run) -> Claim:
    """All processes of one test. The first to end stops the others, unless -x: what they moved is not told then."""
    record_bytes = one.record_kib * 1024 if one.record_kib else None
    whole_files = "x" in run.asked.flags and one.file_kib and one.record_kib
    operations = one.file_kib // one.record_kib * one.processes if whole_files else None  # type: ignore[operator]
    unit_bytes = 1024 if one.unit == "kB/sec" else record_bytes
    return Claim(
        source=NAME,
        kind=one.kind,
        test=one.test,
        operations=operations,
        bytes=operations * record_bytes if operations and record_bytes else None,
        rate_bytes_per_s=one.rate * unit_bytes if unit_bytes else None,
        rate_unit_bytes=0.01 * unit_bytes if unit_bytes else 1.0,
        clock_step_s=run.clock_step_s,
        direct=run.direct,
        paths=tuple(run.asked.files),
        file_bytes=one.file_kib * 1024 if one.file_kib else None,
        record_bytes=record_bytes,
        includes=run.includes,
        unreported=() if "x" in run.asked.flags else ("stonewalled",),
    )


class Results:
    """Results for `ioassay import`: of the table, of the report that -R adds for Excel, and of throughput mode (-t).

    Each cell of the matrix, a file size with a record size, is an entry with the rate of each pass; so is what the
    processes of one run have in throughput mode. The binary workbook of -b is not read: the output has its numbers.
    """

    WANTED = "IOzone's output or its -R report"
    looks_like = staticmethod(looks_like)

    @staticmethod
    def read(text: str, source: str) -> list[Entry]:
        """The cells in the order in which IOzone ran them; InputError names `source` when there are none."""
        try:
            claims = read(text)
            if all(claim.test in PASSES for claim in claims):
                return [_entry(cell) for cell in _cells(claims)]
            counts = {one.test: str(one.processes) for one in throughputs(text)}
            return [_entry(run, counts.get(run[0].test, "")) for run in _cells(claims)]
        except InputError as error:
            raise InputError(f"{source}: {error}") from None


def _cells(claims: Sequence[Claim]) -> list[list[Claim]]:
    """The passes of each cell; a pass that the cell has already begins the same cell anew, a repetition."""
    cells: list[list[Claim]] = []
    for claim in claims:
        last = cells[-1] if cells else []
        same = last and (last[0].file_bytes, last[0].record_bytes) == (claim.file_bytes, claim.record_bytes)
        if same and all(one.test != claim.test for one in last):
            last.append(claim)
        else:
            cells.append([claim])
    return cells


def _entry(cell: Sequence[Claim], workers: str = "") -> Entry:
    first = cell[0]
    levels = {"file_size": first.file_bytes, "record_size": first.record_bytes}
    options = {name: size_level(value) for name, value in levels.items() if value is not None}
    metrics = {}
    for claim in cell:
        name = pass_of(claim.test)
        if claim.rate_bytes_per_s:
            metrics[f"{name}.bw"] = claim.rate_bytes_per_s
        if name in _DIRECTIONS:
            metrics |= {f"{name}.lat.{statistic}": value for statistic, value in claim.latency_ns.items()}
    return Entry(
        "iozone",
        options={**options, **({"workers": workers} if workers else {})},
        metrics=metrics,
        warnings=warnings(cell),
        problem="" if metrics else "IOzone's numbers are times of passes that ioassay has no metric for",
    )
