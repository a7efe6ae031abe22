"""What dd, hdparm -t and -T and Bonnie++ claim; docs/claims.md has what is left out, and why.

Of hdparm's reads from the cache (-T) the time of as many copies within memory is taken off the interval (time_cache):
neither its seconds nor its rate are those of calls.

Bonnie++ 2.00a leaves its field of the chunks' size empty, so that it is in the table or the arguments only. A tenth of
its seeks write their chunk back; their number is not printed, nor is the volume of the tests by character and of the
files that are created: the claims leave those out (`other-tests`). It changes into the folder of -d, and the names in
it are its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from operator import ge
from pathlib import Path
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import Conventions
from ioassay.formats.number_parsing import (
    decimal,
    duration,
    lines_with,
    mark,
    next_lines,
    parts_from,
    quotient,
    real,
    scaled,
    short_options,
    size,
    step_of,
    whole_number,
)
from ioassay.formats.text_rules import Tool, pattern, rules
from ioassay.records.record import Claim, Misfit

_MIB = 2**20
_PIECE_MIB = 2
_RULES = rules(Path(__file__).with_name("rules.toml"))


def _timings(text: str, words: Sequence[str]) -> Iterator[Claim]:
    device = ""
    for found in _RULES["hdparm"].lines(text, re.compile(r"^/[^\s:]+:|Timing ", re.M)):
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


HDPARM = Tool(
    "hdparm",
    sign=r"^ ?Timing (O_DIRECT|buffered|cached) [a-z ]*reads",
    claims=_timings,
    missing="hdparm printed no timing that ended",
    silent=lambda text, words: (
        bool(words) and not any(re.fullmatch(r"-[A-Za-z]*[tT][A-Za-z]*", word) for word in words)
    ),
)

_CSV = re.compile(r"^1\.9[0-9],[12]\.[0-9]{1,2}\w{0,4},", re.M)
_FEWEST_FIELDS = 44
_HEAD = re.compile(r"^(?:Name:Size etc|Machine {8} +Size|Machine +Size) +/sec %CP.*\n(.*)", re.M)
"""The head of the table, and its row."""
_SHORT = "+++++"
_DEFAULT_CHUNK_BYTES = 8192
_VALUED = "dcsnmrxugpyzZ"


_TESTS = {
    "put_block": (("write",), 11, 39, 30),
    "rewrite": (("read", "write"), 13, 40, 40),
    "get_block": (("read",), 17, 42, 60),
    "seeks": (("read",), 19, 43, 70),
}
"""Test -> its kinds, its columns of rate and latency in a line of CSV, and where its column of the table begins.

This has five characters, and three of the processor's share.
"""


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
    # Of one size in the table, of the arguments, or the default of arguments without one.
    found = re.search(r"\s[0-9]{1,12}[kKMGT]:([0-9]{1,9})([kKMG]?)\s", text[-20_000:])
    found = found or re.fullmatch(r"[0-9]+[a-zA-Z]?:([0-9]{1,9})([kKMG]?)(?::.*)?", options.get("s", ""))
    chunk_bytes = _DEFAULT_CHUNK_BYTES if options else None
    if found:
        chunk_bytes = size(found[1], found[2], "Bonnie++'s chunk").rounded
    for run in list(_lines(text)) or _tables(text):
        for test in _TESTS:
            yield from _tested(test, run, chunk_bytes, direct="D" in options if words else None)


def _lines(text: str) -> Iterator[_Results]:
    for _, line in lines_with(text, _CSV):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < _FEWEST_FIELDS:
            raise InputError(f"Bonnie++'s line of CSV has {len(fields)} fields; expected at least {_FEWEST_FIELDS}")
        alone = fields[3] in ("", "1")
        yield _Results(
            {name: fields[rate] for name, (_, rate, _, _) in _TESTS.items()},
            {name: fields[latency] for name, (_, _, latency, _) in _TESTS.items()},
            _size(fields[5]) if alone else None,
            whole_number(fields[7], "Bonnie++'s seeks") if fields[7] and alone else None,
            bool(fields[15] or fields[21]),
        )


def _tables(text: str) -> Iterator[_Results]:
    """Rows of columns of one width; latencies stand below the tests that ran, if those by character did as well."""
    for head in _HEAD.finditer(text):
        row = head[1]
        mark(row)
        if volume := re.search(r"(?:^|\s)([0-9]{1,12}[kKMGT])(?::[0-9]{1,9}[kKMG]?)?$", row[:20].rstrip()):
            rates = {name: row[place : place + 5].strip() for name, (*_, place) in _TESTS.items()}
            below, ran = next_lines(text, head.end(), 1), [name for name, rate in rates.items() if rate]
            title, *maxima = below[0].split() if below else [""]
            known = title.startswith("Latency") and len(maxima) == len(ran)
            yield _Results(rates, dict(zip(ran, maxima, strict=True)) if known else {}, _size(volume[1]))


def _size(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,12})([kKMGT])", text)
    return size(found[1], found[2], "Bonnie++'s size").rounded if found else None


def _tested(test: str, run: _Results, chunk_bytes: int | None, *, direct: bool | None) -> Iterator[Claim]:
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
    for kind in _TESTS[test][0]:
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
    sign=rf"------Sequential Output------|{_CSV.pattern}",
    claims=_bonnie,
    missing="Bonnie++ printed no results",
)


# dd. Its interval ends after both files are closed, so conv=fsync and conv=fdatasync are inside (coreutils dd.c, main
# and finish_up). Without its arguments the sides are not known, nor where a shell has redirected both.

_RECORDS = re.compile(r"[^\d+]{0,60}(\d{1,19})\+(\d{1,19})(?![\d+])[^\d+]{0,60}")
_PAIR = re.compile(r"[0-9]\+[0-9]")
_COMMA = r"[,，、]\s*"
_SUMMARY = re.compile(
    rf"(\d{{1,19}})\D.*?{_COMMA}([\d.,]+(?:e[-+]?\d+)?)\s*[^\d\s,，、]{{1,12}}{_COMMA}"
    r"(?:([\d.,]+)( ?)([kKMGTPEZYRQ]?)i?B|\D+)/\S{1,4}"
)
_BSD_SUMMARY = re.compile(r"(\d{1,19}) bytes transferred in ([\d.,]+) secs? \((\d{1,19}) bytes/sec\)")
_LONGEST_SUMMARY = 300

_UNITS = "kmgtpe"
_NO_FILES = re.compile(r"/dev/(zero|null|full|u?random|tty|std(in|out|err)|fd/.*)|/proc/self/fd/.*|-")
_CHANGES_LENGTH = {"sync", "block", "unblock"}
_DEFAULT_BLOCK_BYTES = 512


@dataclass(frozen=True)
class _Block:
    """One summary: full and partial blocks of each side, and what the line below says."""

    read: tuple[int, int]
    written: tuple[int, int]
    total_bytes: int | None = None
    seconds: float | None = None
    rate: float | None = None
    rate_step: float = 1.0
    clock_step_s: float = 0.0
    misfits: Sequence[Misfit] = ()


def _places(text: str) -> Iterator[tuple[int, list[str]]]:
    """Two lines of blocks in a row and up to three after them, before the next such lines, with their place."""
    last = -1
    for end, line in lines_with(text, _PAIR):
        if end > last and _RECORDS.fullmatch(line.strip()):
            following = next_lines(text, end, 4)
            if following and _RECORDS.fullmatch(following[0]):
                last = text.find(following[0], end) + len(following[0])
                rest = takewhile(lambda each: not _RECORDS.fullmatch(each), following[1:])
                yield end - len(line), [line.strip(), following[0], *rest]


def _blocks(text: str) -> Iterator[_Block]:
    """The summaries: the line of bytes is one of the two lines after the blocks, if it is there."""
    for _, (first, second, *lines) in _places(text):
        matches = (_RECORDS.fullmatch(line) for line in (first, second))
        read, written = [
            (whole_number(match[1], "records"), whole_number(match[2], "records")) for match in matches if match
        ]
        amounts = (_amounts(line[:_LONGEST_SUMMARY]) for line in lines)
        yield _Block(read, written, **next(filter(None, amounts), {}))


def _amounts(line: str) -> dict[str, Any]:
    """What a line of bytes says; nothing of another line.

    Busybox sets no space before its units, which are powers of 1024; GNU's are powers of 1000.
    """
    if match := _BSD_SUMMARY.fullmatch(line):
        rate = float(whole_number(match[3], "rate"))
        return {"total_bytes": whole_number(match[1], "bytes"), "seconds": decimal(match[2], "seconds"), "rate": rate}
    if (match := _SUMMARY.fullmatch(line)) is None:
        return {}
    seconds, total = real(match[2].replace(",", "."), "dd's time"), whole_number(match[1], "dd's bytes")
    base, clock_step_s = (1000, 1e-9) if match[4] else (1024, 1e-6)
    found: dict[str, Any] = {"total_bytes": total, "seconds": seconds, "clock_step_s": clock_step_s}
    if match[3]:  # else 'Infinity B/s'
        prefix = match[5].lower()
        factor = float(base ** (1 + _UNITS.index(prefix))) if prefix and prefix in _UNITS else 1.0
        rate, step = decimal(match[3], "dd's rate") * factor, step_of(match[3]) * factor
        digits, _, power = match[2].partition("e")
        digit_s = step_of(digits) * 10.0 ** int(power or 0)
        misfits = tuple(quotient("rate", total, seconds, rate, 0.0, digit_s, step)) if rate else ()
        found |= {"rate": rate, "rate_step": step, "misfits": misfits}
    return found


def _is_summary(text: str) -> bool:
    """Whether it has blocks in and out, and the line of bytes or English words."""
    return any(
        "records in" in text or any(_SUMMARY.fullmatch(line) or _BSD_SUMMARY.fullmatch(line) for line in lines[2:])
        for _, lines in _places(text)
    )


def _prints(words: Sequence[str]) -> bool:
    """Whether a dd with these arguments prints a summary."""
    return "status=none" not in words and not {"--help", "--version"} & set(words)


def _without_interim(parts: Sequence[str]) -> list[str]:
    """Of parts for more summaries than runs those that the next one does not include."""
    blocks = [next(_blocks(part)) for part in parts]
    amounts = [(*block.read, *block.written, block.total_bytes or 0, block.seconds or 0) for block in blocks]
    followed = [all(map(ge, later, one)) for one, later in pairwise(amounts)]
    return [part for part, included in zip(parts, [*followed, False], strict=False) if not included]


def _dd_claims(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """Those of the last summary of a run; of each where its arguments are not known."""
    blocks = list(_blocks(text))
    call = {name: value for name, sign, value in (word.partition("=") for word in words[1:]) if sign}
    sparse = ("sparse",) if "sparse" in call.get("conv", "").split(",") else ()
    for block in blocks[-1:] if words else blocks:
        if not {"if", "of"} & call.keys():
            yield from (_dd_claim(kind, block, call, ("sides-unknown",)) for kind in ("read", "write"))
            continue
        for kind, side, doubts in (("read", "if", ()), ("write", "of", sparse)):
            is_counted = kind == "read" and sparse and call.get("if") == "/dev/zero"  # the only calls that there are
            if side in call and (is_counted or not _NO_FILES.fullmatch(call[side])):
                yield _dd_claim(kind, block, call, doubts)


def _dd_claim(kind: str, block: _Block, call: Mapping[str, str], doubts: Sequence[str]) -> Claim:
    reads = kind == "read"
    side, size, flags = ("if", "ibs", "iflag") if reads else ("of", "obs", "oflag")
    converts = set(call.get("conv", "").split(","))
    synced = not reads and bool(converts & {"fsync", "fdatasync"})
    full, partial = block.read if reads else block.written
    record_bytes = _dd_size(call.get("bs", call.get(size, ""))) if call else None
    moved = block.total_bytes if not reads or not converts & _CHANGES_LENGTH else None
    if record_bytes and not partial and (reads or moved is None):
        moved = full * record_bytes
    return Claim(
        source="dd",
        kind=kind,
        operations=full + partial,
        bytes=moved,
        seconds=block.seconds,
        rate_bytes_per_s=block.rate if moved in (None, block.total_bytes) else None,  # it is that of the bytes printed
        rate_unit_bytes=block.rate_step,
        clock_step_s=block.clock_step_s,
        syncs=int(synced) if call and not reads else None,
        engine="sync",
        direct="direct" in call.get(flags, "").split(",") if call else None,
        paths=(call[side],) if side in call else (),
        paths_stated=side in call,
        counted_paths=(call["if"],) if "sparse" in doubts and "if" in call else (),
        record_bytes=record_bytes,
        includes=(
            *(("fsync",) if converts & {"fsync", "fdatasync"} else ()),
            *(("osync",) if not reads and {"sync", "dsync"} & set(call.get(flags, "").split(",")) else ()),
            "close",
        ),
        unreported=("end-of-file",) if reads and "count" not in call else (),
        doubts=tuple(doubts),
        misfits=block.misfits,
    )


def _dd_size(text: str) -> int | None:
    """A size in dd's own units: c, w, b (512), kB (1000), K and KiB (1024), factors with x; None for another."""
    if not text:
        return _DEFAULT_BLOCK_BYTES
    product = 1
    for factor in text.split("x"):
        match = re.fullmatch(r"(\d{1,15})(c|w|b|([kKMGTPE])(i?B)?)?", factor)
        if match is None:
            return None
        unit = {"c": 1, "w": 2, "b": 512, None: 1}.get(match[2])
        if unit is None:
            unit = (1000 if match[4] == "B" else 1024) ** (1 + _UNITS.index(match[3].lower()))
        product *= int(match[1]) * unit
    return product


DD = Tool(
    "dd",
    sign=_is_summary,
    claims=_dd_claims,
    missing="dd printed no summary ('1+0 records in'): it failed, was killed, or its standard error went elsewhere",
    silent=lambda text, words: (bool(words) and not _prints(words)) or any(_places(text)),
    stream="stderr",
    prints=_prints,
    split=lambda text: parts_from(text, [start for start, _ in _places(text)]),
    without_interim=_without_interim,
    CONVENTIONS=Conventions(one_process=True),
)
