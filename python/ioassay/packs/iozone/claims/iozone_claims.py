"""What IOzone claims: one claim a pass and cell, in the order in which IOzone ran them (docs/claims.md).

Its clock runs from before the first call of a pass to after the last; open, the fsync of the fresh file, and (without
-e and -c) fsync and close at the end are outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from ioassay.errors import InputError
from ioassay.formats import Conventions, tool_runs
from ioassay.formats.number_parsing import line_end, lines_with, next_lines, real, whole_number
from ioassay.formats.result_entry import Entry, ResultFile, size_level
from ioassay.records.record import BACKWARD, RANDOM, SEQUENTIAL, Claim, Warning_

# What a command line asks for. IOzone reads its options with getopt: flags may be joined (`-Rab x.xls` is -R -a -b),
# and values may follow without a space (`-i0`). Only what a claim needs is kept.

_VALUED = set("bdfgHijJklLmnPqrsStuUVXyY")
"""Options with a value; -F takes words up to the next option, -+ has its second letter as value."""
_VALUED_EXTRA = set("mstuxiwyCTBhV")
"""Those of -+ that take the following word: -+m file, -+h host, …"""


@dataclass(frozen=True)
class Invocation:
    """What a command line of IOzone asks for. Without -i, all tests run: `tests` is None."""

    tests: frozenset[int] | None = None
    flags: frozenset[str] = frozenset()
    """Letters without a value, and -+n as '+n'."""
    values: dict[str, list[str]] = field(default_factory=dict)
    files: Sequence[str] = ()

    @property
    def includes(self) -> tuple[str, ...]:
        """-e and -c bring fsync and close into the interval."""
        return tuple(name for flag, name in (("e", "fsync"), ("c", "close")) if flag in self.flags)


def parse_invocation(words: Sequence[str]) -> Invocation:
    """Read the words after the program's name; unknown options are taken as flags."""
    flags: set[str] = set()
    values: dict[str, list[str]] = {}
    files: list[str] = []
    for letter, value in _options(list(words)):
        if value is None:
            flags.add(letter)
        elif letter == "F":
            files.append(value)
        else:
            values.setdefault(letter, []).append(value)
    tests = [int(value) for value in values.get("i", ()) if re.fullmatch(r"[0-9]{1,3}", value)]
    return Invocation(frozenset(tests) if tests else None, frozenset(flags), values, files or values.get("f", []))


def _options(words: list[str]) -> Iterator[tuple[str, str | None]]:
    """Each option with its value, as getopt finds them."""
    place = 0
    while place < len(words):
        word, place = words[place], place + 1
        if not word.startswith("-") or len(word) < 2:
            continue
        if word.startswith("-+"):
            yield f"+{word[2:3]}", None
            place += word[2:3] in _VALUED_EXTRA and len(word) == 3 and _is_value(words, place)
            continue
        rest = word[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            if letter == "F":
                names = [rest] if rest else []
                while _is_value(words, place):
                    names.append(words[place])
                    place += 1
                yield from (("F", name) for name in names)
                rest = ""
            elif letter in _VALUED:
                value = rest or (words[place] if place < len(words) else "")
                place += not rest
                yield letter, value
                rest = ""
            else:
                yield letter, None


def _is_value(words: Sequence[str], place: int) -> bool:
    return place < len(words) and not words[place].startswith("-")


# The table, by the width of the columns. Widths are least widths and nothing has to stand between two numbers:
# `8525047 1090631021388672 16468073` are four. So a row is read as IOzone prints it, test by test: a test that was not
# asked for prints its width in blanks, a number that is too long moves what follows. The first number of a test that
# ends in -E's columns and of fread is 8 wide.


@dataclass(frozen=True)
class Pass:
    """One pass of a test: a column."""

    name: str
    kind: str
    test: int
    engine: str = "sync"


class _Test:
    def __init__(self, number: int, widths: Sequence[int], names: str, engine: str = "sync") -> None:
        self.number, self.widths = number, widths
        self.passes = [Pass(name, "read" if "read" in name else "write", number, engine) for name in names.split()]


_TESTS = [
    _Test(0, (9, 9), "write rewrite"),
    _Test(1, (9, 9), "read reread"),
    _Test(2, (9, 9), "random-read random-write"),
    _Test(3, (9,), "backward-read"),
    _Test(4, (10,), "record-rewrite"),
    _Test(5, (10,), "stride-read"),
    _Test(6, (9, 9), "fwrite frewrite", "stdio"),
    _Test(7, (8, 9), "fread freread", "stdio"),
    _Test(9, (9, 9), "pwrite repwrite", "psync"),
    _Test(10, (8, 9), "pread repread", "psync"),
    _Test(11, (9, 9), "pwritev repwritev", "pvsync"),
    _Test(12, (8, 9), "preadv repreadv", "pvsync"),
]
"""In the order in which IOzone runs them, which is that of the columns. Test 8 prints nothing in the table."""
PATTERNS = {0: SEQUENTIAL, 1: SEQUENTIAL, 2: RANDOM, 3: BACKWARD, 9: SEQUENTIAL, 10: SEQUENTIAL}
"""Where each test's calls go, by its number. Test 4 stays on one record, 5 is sequential where its stride is longer
than the file, and those of stdio leave it to the library."""
PASSES = {one.name: one for test in _TESTS for one in test.passes}
_LONGEST_NUMBER = 19
_LONGEST_ROW = 400
_ASIDE = 2
"""Characters that a number may end before or after the word above it."""

Values = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Row:
    """One cell of the matrix: the printed numbers by the name of their pass, in the order of the passes."""

    file_kib: int
    record_kib: int
    values: dict[str, int]


def rows(text: str, start: int, header: str, asked: Invocation) -> Iterator[Row]:
    """The rows after a header that ends at `start`, up to the end of the table.

    A last row without its line feed was cut off: what is whole of it counts. InputError names a row that does not fit.
    """
    names = set(header.split())  # tests 9 to 12 have columns with -E only
    tests = [test for test in _TESTS if test.number < 8 or test.passes[0].name in names]
    while start < len(text):
        end = line_end(text, start + 1)
        line, cut = text[start + 1 : min(end, start + 1 + _LONGEST_ROW)], end >= len(text)
        start = end
        if "test complete" in line or "Excel" in line or "reclen" in line:
            return
        if not (re.fullmatch(r" *\d+", line[:16]) and re.fullmatch(r" +\d+", line[16:24])):
            continue
        file_kib, record_kib = whole_number(line[:16].strip(), "kB"), whole_number(line[16:24].strip(), "reclen")
        if not record_kib:
            raise InputError(f"IOzone's row '{line.rstrip()[:60]}' has records of 0 kB; expected 1 or more")
        # Any test may be there where what was asked for is not what was printed.
        chosen = [asked.tests is None or test.number in asked.tests for test in tests]
        fits = (_fit(line.rstrip(), tests, which, cut) for which in (chosen, [None] * len(tests)))
        values = next((found for found in fits if found is not None), None)
        if (values := values if values is not None else _below(header, line.rstrip())) is None:
            raise InputError(f"IOzone's row does not fit its columns of 8 to 10 characters: '{line.rstrip()[:160]}'")
        yield Row(file_kib, record_kib, dict(values))


def _fit(line: str, tests: Sequence[_Test], chosen: Sequence[bool | None], cut: bool) -> Values | None:
    """The numbers of a row when each test takes its width or more; None when they do not fit.

    `chosen` says of each test whether it printed numbers; None: either.
    """

    @cache
    def test_at(place: int, position: int) -> Values | None:
        if position >= len(line):
            return ()
        if place == len(tests):
            return None
        test = tests[place]
        if chosen[place] is not False and (found := pass_at(place, 0, position)) is not None:
            return found
        blank = position + sum(test.widths)
        if chosen[place] is not True and not line[position:blank].strip():
            return test_at(place + 1, blank)
        return None

    @cache
    def pass_at(place: int, number: int, position: int) -> Values | None:
        test = tests[place]
        if number == len(test.widths):
            return test_at(place + 1, position)
        if position >= len(line):
            return () if cut or number == 0 else None
        for length in range(test.widths[number], _LONGEST_NUMBER + 1):
            field = line[position : position + length]
            if len(field) < length:
                return () if cut else None  # a number that lost its last digits
            if not re.fullmatch(r" *\d+" if length == test.widths[number] else r"\d+", field):
                return None
            rest = pass_at(place, number + 1, position + length)
            if rest is not None:
                return ((test.passes[number].name, int(field)), *rest)
        return None

    return test_at(0, 24)


def _below(header: str, line: str) -> Values | None:
    """The numbers of a row by the words of the header that they end below, as in versions of other widths."""
    passes = [one.name for test in _TESTS for one in test.passes]
    ends = [word.end() for word in re.finditer(r"\S+", header)][2:]
    found: dict[str, int] = {}
    for number in re.finditer(r"\d+", line[24:]):
        place = min(range(len(ends)), key=lambda at: abs(ends[at] - 24 - number.end()), default=0)
        is_below = place < min(len(ends), len(passes)) and abs(ends[place] - 24 - number.end()) <= _ASIDE
        if not is_below or passes[place] in found:
            return None
        found[passes[place]] = int(number[0])
    return tuple(found.items())


# The matrices that -R prints after the table, and the summaries of throughput mode (-t)

_TITLES = {
    "writer": "write",
    "re-writer": "rewrite",
    "reader": "read",
    "re-reader": "reread",
    "re-fwrite": "frewrite",
    "re-fread": "freread",
    "re-pwrite": "repwrite",
    "re-pread": "repread",
}
"""Titles of matrices that are not the names of their passes."""
_PROCESSES = {
    "initial writers": "write",
    "rewriters": "rewrite",
    "readers": "read",
    "re-readers": "reread",
    "random readers": "random_read",
    "random writers": "random_write",
    "reverse readers": "backward_read",
    "stride readers": "stride_read",
    "mixed workload": "random_mix",
    "pwrite writers": "pwrite",
    "pread readers": "pread",
    "fwriters": "fwrite",
    "freaders": "fread",
}
"""What IOzone calls the processes of a test, and the pass that they do."""
_THROUGHPUT = re.compile(r"Children see throughput for +(\d+) +(.+?)\s*=\s*(\S+) ([kK]B/sec|ops/sec)")
_WORKERS = re.compile(r"Throughput test with (\d+) (?:process|thread)")
_EACH = re.compile(r"Each (?:process|thread) writes an? (\d+) kbyte file in (\d+) kbyte records", re.I)

Cell = tuple[int, int]
"""File and record in KiB."""


def matrices(text: str) -> dict[str, dict[Cell, int]]:
    """Pass -> cell -> number, in IOzone's unit. Cells that were not measured (0) and processor use are left out.

    A row has no cells beyond its own file size; a record that the crossover leaves out has a 0.
    """
    found: dict[str, dict[Cell, int]] = {}
    for end, title in lines_with(text, ' report"'):
        match = re.fullmatch(r'\s*"(.+?) report"\s*', title)
        name = match[1].lower().replace(" ", "-") if match else ""
        if (name := _TITLES.get(name, name)) not in PASSES:
            continue
        lines = next_lines(text, end, 200)
        columns = [whole_number(size, "record size") for size in re.findall(r'"(\d+)"', lines[0])] if lines else []
        if 0 in columns:
            raise InputError(f"IOzone's {name} report has records of 0 kB; expected 1 or more")
        for line in lines[1:]:
            row = re.fullmatch(r'"(\d+)"((?:\s+\d+)+)\s*', line)
            if row is None:
                break
            file_kib = whole_number(row[1], "file size")
            for record_kib, value in zip(columns, row[2].split(), strict=False):
                if value.strip("0"):
                    found.setdefault(name, {})[file_kib, record_kib] = whole_number(value, f"{name} report")
    return found


@dataclass(frozen=True)
class Throughput:
    """What all processes of one test claim together."""

    test: str
    """'initial writers', 're-readers', …"""
    rate: float
    unit: str
    """'kB/sec' or 'ops/sec'."""
    processes: int
    file_kib: int | None
    record_kib: int | None


def throughputs(text: str) -> Iterator[Throughput]:
    """The summaries in their order. The sizes are those said before the first."""
    start = text.find("Throughput test with")
    if start < 0:
        return
    each = _EACH.search(text, start, line_end(text, line_end(text, start) + 1))
    workers = _WORKERS.match(text, start)
    for _, line in lines_with(text, "Children see throughput", start):
        if match := _THROUGHPUT.search(line):  # `KB` until version 3.489
            yield Throughput(
                test=re.sub(r"\s+", " ", match[2]),
                rate=real(match[3], f"throughput of {match[2]}"),
                unit=match[4].replace("K", "k"),
                processes=whole_number(workers[1] if workers else match[1], "number of processes"),
                file_kib=whole_number(each[1], "file size") if each else None,
                record_kib=whole_number(each[2], "record size") if each else None,
            )


def pass_of(test: str) -> str:
    """The pass behind a name of IOzone's, as metrics call it: 'random_read' of 'random-read' and 'random readers'."""
    return _PROCESSES.get(test, test.replace("-", "_"))


# The claims

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


matches = partial(tool_runs.is_program_of, NAME)


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
        if not claims:  # the cells of the matrices as rows
            found = matrices(text)
            cells = sorted({cell for values in found.values() for cell in values})
            printed = [Row(*cell, {name: own[cell] for name, own in found.items() if cell in own}) for cell in cells]
            claims = [claim for row in printed for claim in _of_row(row, run)]
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
        if names := dict.fromkeys(claim.test for claim in claims if doubt in claim.doubts):
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
        silent_passes=int(one.test == _BACKWARD_TEST and "+n" not in run.asked.flags),  # -+n: no second pass
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
        kind="mixed" if "mixed" in one.test else "read" if "read" in one.test else "write",
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


# Results for `ioassay import`: of the table, of the report that -R adds for Excel, and of throughput mode (-t). A cell
# of the matrix is an entry with the rate of each pass; so is what the processes of one run have in throughput mode.


def _entries(text: str) -> list[Entry]:
    """The cells in the order in which IOzone ran them."""
    claims = read(text)
    of_passes = all(claim.test in PASSES for claim in claims)
    workers = {} if of_passes else {one.test: str(one.processes) for one in throughputs(text)}
    return [_entry(cell, workers.get(cell[0].test, "")) for cell in _cells(claims)]


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


def _entry(cell: Sequence[Claim], workers: str) -> Entry:
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


RESULTS = ResultFile("IOzone's output or its -R report", looks_like, _entries)
