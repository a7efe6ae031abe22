"""Traces in every format, those included that ioassay only reads, and the same requests read without ioassay.

What is written here knows the layouts from their sources alone (docs/traces.md names them)."""

from __future__ import annotations

import csv
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ioassay.simulation import traces

from .corpora import rows

LAWS: dict[str, Any] = {"requests": 60, "reads": 0.4, "trims": 0.0, "seed": 3, "sizes": "4KiB:3,64KiB:1"}
REGEX = r"^at (?P<time_ns>\d+) ns: (?P<kind>\w+) (?P<offset_bytes>\d+) \+ (?P<length_bytes>\d+)$"
READ_WITH: dict[str, dict[str, Any]] = {
    "oraclegeneral": {"offset_unit_bytes": 512, "kinds": "reads"},
    "regex": {"pattern": REGEX},
}
"""What must be said of a trace in such a format."""


class Seen(NamedTuple):
    """A request: its time in nanoseconds, whether it reads, its offset and length in bytes."""

    at_ns: int
    reads: bool
    offset: int
    length: int


def requests(laws: dict[str, Any], folder: Path) -> list[Seen]:
    """The requests of a made trace, from its table."""
    path = folder / "requests.csv"
    traces.make(path, force=True, **laws)
    table = csv.DictReader(path.read_text().splitlines())
    return [
        Seen(*(int(row["time_ns"]), row["kind"] == "read", int(row["offset_bytes"]), int(row["length_bytes"])))
        for row in table
    ]


def write(name: str, path: Path, laws: dict[str, Any] = LAWS) -> None:
    """A made trace in the format of that name."""
    if name in ONLY_READ:
        path.write_bytes(ONLY_READ[name](requests(laws, path.parent)))
    else:
        traces.make(path, to=name, lose=["alignment", "devices", "kinds"], **laws)


def _fiolat(seen: Sequence[Seen]) -> bytes:
    lines = (
        f"{at_ns // 10**6}, {7000 + reads}, {1 - reads}, {length}, {offset}, 0\n"
        for at_ns, reads, offset, length in seen
    )
    return "".join(lines).encode()


def _oracle(seen: Sequence[Seen]) -> bytes:
    return b"".join(
        struct.pack("<IQIq", at_ns // 10**9, offset // 512, length, -1) for at_ns, _, offset, length in seen
    )


def _sentences(seen: Sequence[Seen]) -> bytes:
    lines = (
        f"at {at_ns} ns: {'read' if reads else 'write'} {offset} + {length}\n" for at_ns, reads, offset, length in seen
    )
    return "".join(lines).encode()


ONLY_READ = {"fiolat": _fiolat, "oraclegeneral": _oracle, "regex": _sentences}


def sums(name: str, data: bytes) -> tuple[int, int, int, int]:
    """Reads, writes, their bytes and the sum of their offsets in bytes, by the layout that the corpus has."""
    (layout,) = [row for row in rows("traces", "layouts") if row["id"] == name]
    found = list(_records(layout, data) if "record" in layout else _fields(layout, data.decode()))
    reads = sum(str(kind) in layout["reads"] for kind, _, _ in found)
    offsets = sum(int(offset) * layout.get("offset_unit", 512) for _, offset, _ in found)
    lengths = sum(int(length) * layout.get("length_unit", 512) for _, _, length in found)
    return reads, len(found) - reads, lengths, offsets


def _records(layout: dict[str, Any], data: bytes) -> Iterator[tuple[Any, Any, Any]]:
    for record in struct.iter_unpack(layout["record"], data):
        kind, offset, length = (record[place] for place in layout["places"])
        yield kind & layout.get("mask", -1), offset, length


def _fields(layout: dict[str, Any], text: str) -> Iterator[tuple[Any, Any, Any]]:
    kind, offset, length = layout["places"]
    for line in text.splitlines()[layout.get("header", 0) :]:
        fields = [field.strip() for field in line.split(layout.get("separator"))]
        if fields[kind] != layout.get("passed"):
            yield fields[kind], fields[offset], fields[length]
