"""What Bonnie++ claims of its files of data: writes, rewrites, reads and seeks, from its CSV line or its table.

The line has the size and rates in KiB/s; `+++++` is a test that was too short for a rate, and an empty field one that
did not run. The size of the chunks is in the table or the arguments only: Bonnie++ 2.00a leaves its field empty. A
rewrite reads and writes every chunk, and so is two claims. A seek reads one chunk; a tenth of them writes it back,
whose number is not printed, just as the volume of the tests by character and of the files that are created is not: the
claims leave those out (`other-tests`). No claim names files: Bonnie++ changes into the folder of -d, and the names in
it are its own. Latencies are maxima. The rates of creating, looking at and deleting files are no I/O of data and not
claimed, and of several copies (-c) the volume is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ioassay.errors import InputError
from ioassay.formats import command_line
from ioassay.formats.number_parsing import lines_with, next_lines, real, step_of, whole_number
from ioassay.formats.printed_quantity import NUMBER, Quantity, duration, last_line, short_options, size
from ioassay.records.record import Claim

NAME = "bonnie"
STREAM = "stdout"

_CSV = re.compile(r"^1\.9[0-9],[12]\.[0-9]{1,2}\w{0,4},", re.M)
_FEWEST_FIELDS = 44
_COLUMNS = {"put_block": 11, "rewrite": 13, "get_block": 17, "seeks": 19}
_LATENCY_COLUMNS = {"put_block": 39, "rewrite": 40, "get_block": 42, "seeks": 43}
_HEAD = re.compile(r"^(?:Name:Size etc|Machine {8} +Size|Machine +Size) +/sec %CP.*\n(.*)", re.M)
"""The head of the table, and its row."""
_TABLE = {"put_block": 30, "rewrite": 40, "get_block": 60, "seeks": 70}
"""Where each column of the table begins: five characters, and three of the processor's share."""
_ROW_SIZE = re.compile(r"(?:^|\s)([0-9]{1,12})([kKMGT])(?::([0-9]{1,9})([kKMG]?))?$")
_SHORT = "+++++"
_DEFAULT_CHUNK_BYTES = 8192
_VALUED = "dcsnmrxugpyzZ"
_WORK = {
    "put_block": ("write",),
    "rewrite": ("read", "write"),
    "get_block": ("read",),
    "seeks": ("read",),
}


def matches(program: str) -> bool:
    """Whether this is Bonnie++."""
    return program in {"bonnie++", "bonnie"}


def looks_like(text: str) -> bool:
    """Whether it has the line of CSV or the head of the table."""
    return "------Sequential Output------" in text or _CSV.search(text) is not None


@dataclass(frozen=True)
class _Results:
    """Of one run; the printed numbers of each test, '' where it did not run."""

    rates: Mapping[str, str]
    latencies: Mapping[str, str]
    size_bytes: int | None
    chunk_bytes: int | None
    seeks: int | None
    reads_more: bool
    """It also reads by character, or the files that it creates."""


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of each run in their order; InputError when none ended."""
    options = short_options(command_line.words_of(argv, matches)[1:], _VALUED)
    chunk_bytes = _chunk(text, options)
    runs = list(_lines(text, chunk_bytes)) or list(_tables(text, chunk_bytes))
    if not runs:
        raise InputError(f"Bonnie++ printed no results; its output ends with {last_line(text)}")
    return [claim for run in runs for test in _WORK for claim in _claims(test, run, "D" in options)]


def _chunk(text: str, options: Mapping[str, str]) -> int | None:
    """Of one size in the table, of the arguments, or the default of arguments without one."""
    if row := re.search(r"\s[0-9]{1,12}[kKMGT]:([0-9]{1,9})([kKMG]?)\s", text[-20_000:]):
        return size(row[1], row[2], "Bonnie++'s chunk").rounded
    if not options:
        return None
    asked = re.fullmatch(r"[0-9]+[a-zA-Z]?:([0-9]{1,9})([kKMG]?)(?::.*)?", options.get("s", ""))
    return size(asked[1], asked[2], "Bonnie++'s chunk").rounded if asked else _DEFAULT_CHUNK_BYTES


def _lines(text: str, chunk_bytes: int | None) -> Iterator[_Results]:
    for _, line in lines_with(text, _CSV):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < _FEWEST_FIELDS:
            raise InputError(f"Bonnie++'s line of CSV has {len(fields)} fields; wanted at least {_FEWEST_FIELDS}")
        alone = fields[3] in ("", "1")
        volume = re.fullmatch(r"([0-9]{1,12})([kKMGT])", fields[5]) if alone else None
        yield _Results(
            {test: fields[place] for test, place in _COLUMNS.items()},
            {test: fields[place] for test, place in _LATENCY_COLUMNS.items()},
            size(volume[1], volume[2], "Bonnie++'s size").rounded if volume else None,
            chunk_bytes,
            whole_number(fields[7], "Bonnie++'s seeks") if fields[7] and alone else None,
            bool(fields[15] or fields[21]),
        )


def _tables(text: str, chunk_bytes: int | None) -> Iterator[_Results]:
    """Rows of columns of one width; numbers with k, m or g are rounded to it."""
    for head in _HEAD.finditer(text):
        row = head[1]
        volume = _ROW_SIZE.search(row[:20].rstrip())
        if volume is None:
            continue
        rates = {test: row[start : start + 5].strip() for test, start in _TABLE.items()}
        maxima = next_lines(text, head.end(), 1)
        latencies = _below(maxima[0], rates) if maxima and maxima[0].startswith("Latency") else {}
        yield _Results(rates, latencies, size(volume[1], volume[2], "Bonnie++'s size").rounded, chunk_bytes, None, True)


def _below(line: str, rates: Mapping[str, str]) -> dict[str, str]:
    """Latencies stand below the tests that ran, without those by character where these did not."""
    words, ran = line.split()[1:], [test for test, value in rates.items() if value]
    return dict(zip(ran, words, strict=True)) if len(words) == len(ran) else {}


def _claims(test: str, run: _Results, direct: bool) -> Iterator[Claim]:
    printed = run.rates[test]
    if not printed:
        return
    step_bytes = run.chunk_bytes if test == "seeks" else 1024
    volume, operations = run.size_bytes, None
    if test == "seeks":
        operations = run.seeks
        known = run.seeks is not None and run.chunk_bytes is not None
        volume = whole_number((run.seeks or 0) * (run.chunk_bytes or 0), "Bonnie++'s seeks") if known else None
    elif volume and run.chunk_bytes and volume % run.chunk_bytes == 0:
        operations = volume // run.chunk_bytes
    stated = printed != _SHORT and not (test == "seeks" and printed[-1:].isalpha())  # thousands, or KiB 1024?
    rate = _rate(printed, step_bytes) if stated and step_bytes else None
    longest = _latency(run.latencies.get(test, ""))
    for kind in _WORK[test]:
        yield Claim(
            source=NAME,
            kind=kind,
            test=test,
            operations=operations,
            bytes=volume,
            rate_bytes_per_s=rate.value if rate else None,
            rate_unit_bytes=rate.step if rate else 1.0,
            operations_per_s=rate.value / step_bytes if rate and step_bytes and test == "seeks" else None,
            operations_per_s_step=rate.step / step_bytes if rate and step_bytes and test == "seeks" else 0.0,
            latency_ns={"max": longest} if longest else {},
            direct=None if direct and test == "seeks" else direct,  # -D is for the bulk tests
            file_bytes=run.size_bytes,
            record_bytes=run.chunk_bytes,
            unreported=("other-tests",) if kind == "write" or run.reads_more else (),
        )


def _rate(printed: str, each_bytes: int) -> Quantity:
    """KiB a second, or seeks a second, with the table's m (of KiB 1024) and g."""
    match = re.fullmatch(rf"({NUMBER})([kmg]?)", printed)
    if match is None:
        raise InputError(f"Bonnie++'s rate is {printed[:40]!r}; wanted a number or {_SHORT}")
    factor = each_bytes * {"": 1, "k": 1, "m": 1024, "g": 1024**2}[match[2]]
    return Quantity(real(match[1], "Bonnie++'s rate") * factor, step_of(match[1]) * factor, False)


def _latency(printed: str) -> float:
    match = re.fullmatch(rf"({NUMBER})(us|ms|s)", printed)
    return duration(match[1], match[2], "Bonnie++'s latency").value * 1e9 if match else 0.0
