"""What elbencho claims: one claim a phase that reads or writes, by the column of the last thread to end.

Written after elbencho's sources (Statistics.cpp, UnitTk.cpp) and published results, without an output of our own. The
first column, up to the first thread to end, is a part of the second and left out. Whole numbers are rounded down: bytes
to MiB, rates to MiB/s (with --base10 to MB/s), latencies to microseconds. The number of blocks is printed only with
--verbose. Phases that create, delete or look at files and folders claim nothing. Each thread has a clock of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ioassay.errors import InputError
from ioassay.formats import command_line
from ioassay.formats.number_parsing import lines_with, real, whole_number
from ioassay.formats.printed_quantity import NUMBER, duration, last_line, size
from ioassay.records.record import Claim

NAME = "elbencho"
STREAM = "stdout"

_ROW = re.compile(r"(?P<phase>[A-Z][A-Z0-9]{1,20})? +(?P<name>[A-Z][A-Za-z0-9 /%]{1,24}?) +: +(?P<values>\S.{0,200})")
_KINDS = {"WRITE": "write", "READ": "read", "RWMIX": "write"}
_ELAPSED = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,3})?)(s|ms))?")
_LATENCY = re.compile(rf"\[ (?:min=\S{{1,20}} )?avg=({NUMBER})(us|ms|s)?[ ].*")
_RATE_UNITS = {"MiB/s": 2**20, "MB/s": 10**6}
_MIB = 2**20
_FILE_OPTIONS = re.compile(
    r"--(csvfile|jsonfile|resfile|configfile|treefile|livecsv|livejson|hostsfile|opslog)|-c", re.I
)
_BLOCK = re.compile(r"([0-9]{1,12})([kKmMgG]?)")


def matches(program: str) -> bool:
    """Whether this is elbencho."""
    return program == "elbencho"


def looks_like(text: str) -> bool:
    """Whether it has the head of its table."""
    return re.search(r"^OPERATION +RESULT TYPE +FIRST DONE +LAST DONE", text, re.M) is not None


@dataclass
class _Phase:
    """The rows of one phase: name -> the value of the last thread to end."""

    name: str
    rows: dict[str, str] = field(default_factory=dict)


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of each phase in their order; InputError when no phase ended."""
    phases = list(_phases(text))
    if not phases:
        raise InputError(f"elbencho printed no phase; its output ends with {last_line(text)}")
    words = command_line.words_of(argv, matches)[1:]
    return [claim for phase in phases if phase.name in _KINDS for claim in _claims(phase, words)]


def _phases(text: str) -> Iterator[_Phase]:
    phase: _Phase | None = None
    for _, line in lines_with(text, " : "):
        row = _ROW.fullmatch(line.rstrip())
        if row is None:
            continue
        if row["phase"] and row["name"].startswith("Elapsed"):  # rows of latencies may repeat the name
            if phase:
                yield phase
            phase = _Phase(row["phase"])
        if phase:
            values = row["values"]
            phase.rows.setdefault(row["name"], values if values.startswith("[") else values.split()[-1])
    if phase:
        yield phase


def _claims(phase: _Phase, words: Sequence[str]) -> Iterator[Claim]:
    """Of a mix the writes and the reads."""
    if any(name.startswith(("MiB read", "IOs read")) for name in phase.rows):
        yield _claim("write", " write", phase, words)
        yield _claim("read", " read", phase, words)
    else:
        yield _claim(_KINDS[phase.name], "", phase, words)


def _claim(kind: str, side: str, phase: _Phase, words: Sequence[str]) -> Claim:
    rows = phase.rows
    blocks = rows.get(f"IOs{side or ' total'}")
    mib = rows.get(f"MiB{side}" if side else "Total MiB")
    rate, step = _rate(rows, side)
    operations = whole_number(blocks, "elbencho's IOs") if blocks else None
    record_bytes = _block_bytes(words)
    volume = whole_number(whole_number(mib, "elbencho's MiB") * _MIB, "elbencho's bytes") if mib else None
    if operations is not None and volume is not None:  # MiB are rounded down, blocks are not
        exact = whole_number(operations * (record_bytes or 0), "elbencho's bytes")
        volume = exact if volume <= exact < volume + _MIB else None
    latency = _LATENCY.fullmatch(rows.get("IO latency", rows.get("IO lat us", "")))
    return Claim(
        source=NAME,
        kind=kind,
        test=phase.name,
        operations=operations,
        bytes=volume,
        seconds=_elapsed_s(rows),
        rate_bytes_per_s=rate,
        rate_unit_bytes=float(step if operations is not None else max(step, _MIB)),
        clock_step_s=1e-3,
        latency_ns=_mean(latency) if latency and not side else {},
        direct="--direct" in words if words else None,
        paths=_paths(words),
        record_bytes=record_bytes,
        doubts=("several-clocks", *(("whole-microseconds",) if latency and not side else ())),
    )


def _mean(latency: re.Match[str]) -> dict[str, float]:
    return {"mean": duration(latency[1], latency[2] or "us", "elbencho's latency").value * 1e9}


def _rate(rows: Mapping[str, str], side: str) -> tuple[float | None, int]:
    for unit, step in _RATE_UNITS.items():
        if printed := rows.get(f"{unit}{side}" if side else f"Throughput {unit}"):
            return real(printed, "elbencho's rate") * step, step
    return None, 1


def _elapsed_s(rows: Mapping[str, str]) -> float | None:
    """`85ms`, `12.345s`, `2m3.456s`, `3h25m45s`; milliseconds alone in versions before 2."""
    if printed := rows.get("Elapsed ms"):
        return real(printed, "elbencho's time") / 1e3
    match = _ELAPSED.fullmatch(rows.get("Elapsed time", ""))
    if match is None or not match[0]:
        return None
    hours, minutes, rest, unit = match.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest) * (1e-3 if unit == "ms" else 1.0)


def _block_bytes(words: Sequence[str]) -> int | None:
    for place, word in enumerate(words):
        match = re.fullmatch(r"(?:--block(?:=|$)|-b)(.*)", word)
        printed = (match[1] or "".join(words[place + 1 : place + 2])) if match else ""
        if block := _BLOCK.fullmatch(printed):
            return size(block[1], block[2], "elbencho's block size").rounded
    return None


def _paths(words: Sequence[str]) -> tuple[str, ...]:
    """Words with a slash, other than the files of options."""
    before = ["", *words]
    return tuple(
        word
        for last, word in zip(before, words, strict=False)
        if "/" in word and not word.startswith("-") and not _FILE_OPTIONS.fullmatch(last)
    )
