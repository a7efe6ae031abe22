"""IOzone's table by the width of its columns: which test printed which number.

Widths are least widths and nothing has to stand between two numbers: `8525047 1090631021388672 16468073` are four. So
a row is read as IOzone prints it, test by test: a test that was not asked for prints its width in blanks, a number
that is too long moves what follows. The first number of a test that ends in -E's columns and of fread is 8 wide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ioassay.errors import InputError
from ioassay.formats.number_parsing import line_end, whole_number
from ioassay.packs.iozone.claims.iozone_command import Invocation
from ioassay.records.record import BACKWARD, RANDOM, SEQUENTIAL


@dataclass(frozen=True)
class Pass:
    """One pass of a test: a column."""

    name: str
    kind: str
    test: int
    engine: str = "sync"


@dataclass(frozen=True)
class _Test:
    number: int
    passes: Sequence[Pass]
    widths: Sequence[int]


def _test(number: int, widths: Sequence[int], names: str, engine: str = "sync") -> _Test:
    kinds = [("read" if "read" in name else "write") for name in names.split()]
    passes = [Pass(name, kind, number, engine) for name, kind in zip(names.split(), kinds, strict=True)]
    return _Test(number, passes, widths)


_TESTS = [
    _test(0, (9, 9), "write rewrite"),
    _test(1, (9, 9), "read reread"),
    _test(2, (9, 9), "random-read random-write"),
    _test(3, (9,), "backward-read"),
    _test(4, (10,), "record-rewrite"),
    _test(5, (10,), "stride-read"),
    _test(6, (9, 9), "fwrite frewrite", "stdio"),
    _test(7, (8, 9), "fread freread", "stdio"),
    _test(9, (9, 9), "pwrite repwrite", "psync"),
    _test(10, (8, 9), "pread repread", "psync"),
    _test(11, (9, 9), "pwritev repwritev", "pvsync"),
    _test(12, (8, 9), "preadv repreadv", "pvsync"),
]
"""In the order in which IOzone runs them, which is that of the columns. Test 8 prints nothing in the table."""
PATTERNS = {0: SEQUENTIAL, 1: SEQUENTIAL, 2: RANDOM, 3: BACKWARD, 9: SEQUENTIAL, 10: SEQUENTIAL}
"""Where each test's calls go, by its number. Test 4 stays on one record, 5 is sequential where its stride is longer
than the file, and those of stdio leave it to the library."""
PASSES = {one.name: one for test in _TESTS for one in test.passes}
_LONGEST_NUMBER = 19
_LONGEST_ROW = 400

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
    tests = _columns(header)
    while start < len(text):
        end = line_end(text, start + 1)
        line, cut = text[start + 1 : min(end, start + 1 + _LONGEST_ROW)], end >= len(text)
        start = end
        if "test complete" in line or "Excel" in line or "reclen" in line:
            return
        if _is_row(line):
            yield _row(line.rstrip(), tests, asked, cut)


def _columns(header: str) -> list[_Test]:
    """Tests 9 to 12 have columns with -E only."""
    names = set(header.split())
    return [test for test in _TESTS if test.number < 8 or test.passes[0].name in names]


def _is_row(line: str) -> bool:
    return re.fullmatch(r" *\d+", line[:16]) is not None and re.fullmatch(r" +\d+", line[16:24]) is not None


def _row(line: str, tests: Sequence[_Test], asked: Invocation, cut: bool) -> Row:
    file_kib, record_kib = whole_number(line[:16].strip(), "kB"), whole_number(line[16:24].strip(), "reclen")
    if not record_kib:
        raise InputError(f"IOzone's row '{line[:60]}' has records of 0 kB; wanted 1 or more")
    chosen = [asked.runs(test.number) for test in tests]
    values = _fit(line, tests, chosen, cut)
    if values is None:  # what was asked for is not what was printed: any test may be there
        values = _fit(line, tests, [None] * len(tests), cut)
    if values is None:
        raise InputError(f"IOzone's row does not fit its columns of 8 to 10 characters: '{line[:160]}'")
    return Row(file_kib, record_kib, dict(values))


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
