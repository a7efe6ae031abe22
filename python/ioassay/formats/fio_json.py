"""fio's JSON and JSON+ of versions 2 and 3 as checked tables: found in its output, and of the types that fio writes.

What the numbers mean is said by `formats.fio_claims` and the driver's `fio_results`, which both read these tables. A
value that fio cannot have written (text for a number, a negative count, more requests than a drive's life has room for)
is refused by its key, and the whole document with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from ioassay import validation
from ioassay.errors import InputError
from ioassay.validation import Amount, Count, Whole

_BEGINNING = re.compile(r'\{\s*"fio version"\s*:')
"""Not only at the beginning of a line: of many messages fio loses some in the middle of one."""
_NAMELESS = re.compile(r"^\{", re.M)
"""Where no version is said."""
_MOST_BROKEN = 100
"""Beginnings of JSON without an end that are tried: each costs the time of counting all lines before it."""


class _Latency(TypedDict, total=False):
    min: Amount
    max: Amount
    mean: Amount
    stddev: Amount
    N: Count
    bins: dict[str, Count]
    percentile: dict[str, Amount]


class _Direction(TypedDict, total=False):
    io_bytes: Whole
    io_kbytes: Whole
    bw_bytes: Amount
    iops: Amount
    runtime: Amount
    total_ios: Count
    slat_ns: _Latency | None
    clat_ns: _Latency | None
    lat_ns: _Latency | None
    slat: _Latency | None
    clat: _Latency | None
    lat: _Latency | None


class _Sync(TypedDict, total=False):
    total_ios: Count


class _Steady(TypedDict, total=False):
    ss: str
    attained: int


_Options = TypedDict("_Options", {"job options": dict[str, str] | None}, total=False)


class _Job(_Options, total=False):
    jobname: str
    groupid: int
    error: int
    total_err: Count
    job_runtime: Amount
    usr_cpu: Amount
    sys_cpu: Amount
    ctx: Count
    majf: Count
    minf: Count
    read: _Direction
    write: _Direction
    trim: _Direction
    mixed: _Direction
    sync: _Sync | None
    steadystate: _Steady


_Document = TypedDict(
    "_Document",
    {
        "fio version": str,
        "timestamp": Amount,
        "global options": dict[str, str] | None,
        "jobs": list[_Job],
        "client_stats": list[_Job],
        "disk_util": list[dict[str, Any]],
    },
    total=False,
)


@dataclass(frozen=True)
class Document:
    """A document of fio's, as it stands in a text from `start` to `end`."""

    table: Mapping[str, Any]
    start: int
    end: int


def documents(text: str, source: str) -> list[Document]:
    """The documents of fio's in a text, what stands around them left out; none where none is whole.

    InputError names `source` and the key whose value is not as fio writes it.
    """
    return [
        Document(validation.read(_Document, text[start:end], source, "this is not as fio writes it"), start, end)
        for start, end in _objects(text)
    ]


def _objects(text: str) -> Iterator[tuple[int, int]]:
    """Where each JSON object with fio's keys begins and ends."""
    decoder, position, broken, beginnings = json.JSONDecoder(), 0, 0, _beginnings(text)
    while (beginning := beginnings.search(text, position)) and broken < _MOST_BROKEN:
        try:
            found, position = decoder.raw_decode(text, beginning.start())
        except (ValueError, RecursionError):  # no JSON, or a number or a nesting that Python will not take
            position, broken = beginning.end(), broken + 1
            continue
        if isinstance(found, dict) and found.keys() & {"jobs", "client_stats"}:
            yield beginning.start(), position


def _beginnings(text: str) -> re.Pattern[str]:
    return _BEGINNING if _BEGINNING.search(text) else _NAMELESS


def fault(text: str) -> str:
    """What ends the last thing in a text that looks like fio's JSON too early; '' where nothing looks like it."""
    beginnings = [found.start() for found in _beginnings(text).finditer(text)]
    if not beginnings:
        return ""
    lines = text.count("\n") + 1
    try:
        validation.table(text[beginnings[-1] :].rstrip(), "it")
    except InputError as error:
        found = re.search(r"\((.*) at line (\d+) column (\d+)\)$", str(error))
        if found and not found[1].startswith("EOF"):
            line = text.count("\n", 0, beginnings[-1]) + int(found[2])
            return f"JSON is broken in line {line} of {lines}, column {found[3]}: {found[1]}; wanted it as fio wrote it"
    return f"JSON is cut off after {lines} lines: fio was ended while it wrote"
