"""What hdparm -t and -T claim, a read of a device in pieces of 2 MiB, and Bonnie++ of its files of data.

hdparm's MB are 2**20 bytes (hdparm.c: TIMING_BUF_MB). Of reads from the cache (-T) one read comes before the clock
starts, and the time of as many copies within memory is taken off the interval (time_cache): neither its seconds nor its
rate are those of calls, and they are not claimed.

Bonnie++ has writes, rewrites, reads and seeks in its line of CSV or its table, with the size and rates in KiB/s;
`+++++` is a test that was too short for a rate, and an empty field one that did not run. The size of the chunks is in
the table or the arguments only: Bonnie++ 2.00a leaves its field empty. A rewrite reads and writes every chunk, and so
is two claims. A seek reads one chunk; a tenth of them writes it back, whose number is not printed, as the volume of
the tests by character and of the files that are created is not: the claims leave those out (`other-tests`). No claim
names files: Bonnie++ changes into the folder of -d, and the names in it are its own. Latencies are maxima. The rates of
creating, looking at and deleting files are no I/O of data and not claimed, and of several copies (-c) the volume is not
known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ioassay.errors import InputError
from ioassay.formats.number_parsing import duration, lines_with, next_lines, short_options, size, whole_number
from ioassay.formats.text_rules import Rules, Tool, pattern, scaled
from ioassay.records.record import Claim

_MIB = 2**20
_PIECE_MIB = 2
_TIMING = Rules(
    "hdparm",
    r"(?P<device>/[^\s:]{1,4000}):",
    r".*Timing (?P<mode>O_DIRECT|buffered|cached) ?(?P<where>[a-z]*) ?reads(?: \(offset [^)]{1,40}\))?:"
    r" +(?P<MB>[0-9]{1,19}) MB in +# seconds = +(?:(?P<mib_rate>#) MB|(?P<kib_rate>#) kB)/sec.*",
    MB=1,
    mib_rate=float(_MIB),
    kib_rate=1024.0,
)


def _timings(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """One claim a timing."""
    device = ""
    for found in _TIMING.lines(text, re.compile(r"^/[^\s:]+:|Timing ", re.M)):
        device = found.text("device") or device
        if "MB" in found:
            cached = "cached" in (found.text("mode"), found.text("where"))
            volume_mib, rate = found["MB"].rounded, found.numbers.get("mib_rate") or found["kib_rate"]
            yield Claim(
                source="hdparm",
                kind="read",
                test="cached reads" if cached else "disk reads",
                operations=volume_mib // _PIECE_MIB if volume_mib % _PIECE_MIB == 0 else None,
                bytes=whole_number(volume_mib * _MIB, "hdparm's bytes"),
                rate_bytes_per_s=None if cached else rate.value,
                rate_unit_bytes=1.0 if cached else rate.step,
                direct=found.text("mode") == "O_DIRECT",
                paths=(device,) if device else (),
                record_bytes=_PIECE_MIB * _MIB,
                primed=cached,
            )


def _is_not_timed(text: str, words: Sequence[str]) -> bool:
    return bool(words) and not any(re.fullmatch(r"-[A-Za-z]*[tT][A-Za-z]*", word) for word in words)


HDPARM = Tool(
    "hdparm",
    sign=r"^ ?Timing (O_DIRECT|buffered|cached) [a-z ]*reads",
    claims=_timings,
    missing="hdparm printed no timing that ended",
    silent=_is_not_timed,
)

_CSV = re.compile(r"^1\.9[0-9],[12]\.[0-9]{1,2}\w{0,4},", re.M)
_FEWEST_FIELDS = 44
_HEAD = re.compile(r"^(?:Name:Size etc|Machine {8} +Size|Machine +Size) +/sec %CP.*\n(.*)", re.M)
"""The head of the table, and its row."""
_SHORT = "+++++"
_DEFAULT_CHUNK_BYTES = 8192
_VALUED = "dcsnmrxugpyzZ"


@dataclass(frozen=True)
class _Test:
    """A test of Bonnie++: its columns of rate and latency in a line of CSV, and where its column of the table begins.

    This has five characters, and three of the processor's share.
    """

    kinds: Sequence[str]
    rate: int
    latency: int
    place: int


_TESTS = {
    "put_block": _Test(("write",), 11, 39, 30),
    "rewrite": _Test(("read", "write"), 13, 40, 40),
    "get_block": _Test(("read",), 17, 42, 60),
    "seeks": _Test(("read",), 19, 43, 70),
}


@dataclass(frozen=True)
class _Results:
    """Of one run; the printed numbers of each test, '' where it did not run."""

    rates: Mapping[str, str]
    latencies: Mapping[str, str]
    size_bytes: int | None
    seeks: int | None = None
    reads_more: bool = True
    """It also reads by character, or the files that it creates."""


def _bonnie(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """The claims of each run in their order."""
    options = short_options(words[1:], _VALUED)
    chunk_bytes = _chunk(text, options)
    for run in list(_lines(text)) or _tables(text):
        for test in _TESTS:
            yield from _tested(test, run, chunk_bytes, direct="D" in options)


def _chunk(text: str, options: Mapping[str, str]) -> int | None:
    """Of one size in the table, of the arguments, or the default of arguments without one."""
    found = re.search(r"\s[0-9]{1,12}[kKMGT]:([0-9]{1,9})([kKMG]?)\s", text[-20_000:])
    found = found or re.fullmatch(r"[0-9]+[a-zA-Z]?:([0-9]{1,9})([kKMG]?)(?::.*)?", options.get("s", ""))
    return size(found[1], found[2], "Bonnie++'s chunk").rounded if found else _DEFAULT_CHUNK_BYTES if options else None


def _lines(text: str) -> Iterator[_Results]:
    for _, line in lines_with(text, _CSV):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < _FEWEST_FIELDS:
            raise InputError(f"Bonnie++'s line of CSV has {len(fields)} fields; expected at least {_FEWEST_FIELDS}")
        alone = fields[3] in ("", "1")
        yield _Results(
            {name: fields[test.rate] for name, test in _TESTS.items()},
            {name: fields[test.latency] for name, test in _TESTS.items()},
            _size(fields[5]) if alone else None,
            whole_number(fields[7], "Bonnie++'s seeks") if fields[7] and alone else None,
            bool(fields[15] or fields[21]),
        )


def _tables(text: str) -> Iterator[_Results]:
    """Rows of columns of one width; latencies stand below the tests that ran, if those by character did as well."""
    for head in _HEAD.finditer(text):
        row = head[1]
        if volume := re.search(r"(?:^|\s)([0-9]{1,12}[kKMGT])(?::[0-9]{1,9}[kKMG]?)?$", row[:20].rstrip()):
            rates = {name: row[test.place : test.place + 5].strip() for name, test in _TESTS.items()}
            below, ran = next_lines(text, head.end(), 1), [name for name, rate in rates.items() if rate]
            title, *maxima = below[0].split() if below else [""]
            known = title.startswith("Latency") and len(maxima) == len(ran)
            yield _Results(rates, dict(zip(ran, maxima, strict=True)) if known else {}, _size(volume[1]))


def _size(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,12})([kKMGT])", text)
    return size(found[1], found[2], "Bonnie++'s size").rounded if found else None


def _tested(test: str, run: _Results, chunk_bytes: int | None, *, direct: bool) -> Iterator[Claim]:
    printed = run.rates[test]
    if not printed:
        return
    seeks = test == "seeks"
    step_bytes = chunk_bytes if seeks else 1024
    volume, operations = run.size_bytes, None
    if seeks:
        operations = run.seeks
        known = operations is not None and chunk_bytes is not None
        volume = whole_number((operations or 0) * (chunk_bytes or 0), "Bonnie++'s seeks") if known else None
    elif volume and chunk_bytes and volume % chunk_bytes == 0:
        operations = volume // chunk_bytes
    stated = printed != _SHORT and not (seeks and printed[-1:].isalpha())  # thousands, or KiB 1024?
    per_s = None
    if stated and step_bytes:  # the table has m (of KiB 1024) and g
        number = pattern("(#)([kmg]?)").fullmatch(printed)
        if number is None:
            raise InputError(f"Bonnie++'s rate is {printed[:40]!r}; expected a number or {_SHORT}")
        per_s = scaled(number[1], {"": 1.0, "k": 1.0, "m": 1024.0, "g": 1024.0**2}[number[2]], "Bonnie++'s rate")
    longest = pattern("(#)(us|ms|s)").fullmatch(run.latencies.get(test, ""))
    longest_ns = duration(longest[1], longest[2], "Bonnie++'s latency").value * 1e9 if longest else 0.0
    for kind in _TESTS[test].kinds:
        yield Claim(
            source="bonnie",
            kind=kind,
            test=test,
            operations=operations,
            bytes=volume,
            rate_bytes_per_s=per_s.value * (step_bytes or 0) if per_s else None,
            rate_unit_bytes=per_s.step * (step_bytes or 0) if per_s else 1.0,
            operations_per_s=per_s.value if per_s and seeks else None,
            operations_per_s_step=per_s.step if per_s and seeks else 0.0,
            latency_ns={"max": longest_ns} if longest_ns else {},
            direct=None if direct and seeks else direct,  # -D is for the bulk tests
            file_bytes=run.size_bytes,
            record_bytes=chunk_bytes,
            unreported=("other-tests",) if kind == "write" or run.reads_more else (),
        )


BONNIE = Tool(
    "bonnie",
    *("bonnie++", "bonnie"),
    sign=rf"------Sequential Output------|{_CSV.pattern}",
    claims=_bonnie,
    missing="Bonnie++ printed no results",
)
