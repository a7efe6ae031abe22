"""Files that `ioassay filesuite` leaves behind where asked: the workbook (-b) and the latencies of each call (-Q)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.errors import SafetyRefusal, UsageError

_IOZONE_NAMES = {"write": "wol", "rewrite": "rwol", "read": "rol", "reread": "rrol"}
_BEGIN, _NUMBER, _LABEL, _END = 0x0009, 0x0003, 0x0004, 0x000A
"""Records of BIFF2 (OpenOffice.org's documentation of the Excel file format, chapter 5)."""
_BIFF2, _SHEET = 2, 0x0010
_LARGEST_LABEL = 255


def latency_files(setup: Mapping[str, Any], names: Sequence[str], cells: int) -> list[Path]:
    """A file for each pass and thread; UsageError where several passes would share one."""
    if cells > 1 or setup["repetitions"] > 1:
        seen = f"{cells} sizes and {setup['repetitions']} repetitions"
        raise UsageError(f"--latencies (-Q) is given with {seen}, wanted one of each: a file holds one pass")
    if setup["workers_from"] not in (None, setup["workers"]):
        raise UsageError("--latencies (-Q) is given with several numbers of threads (-l, -u), wanted one")
    children = range(setup["workers"]) if setup["workers"] else (None,)
    return [_latency_file(name, child) for name in names for child in children]


def refuse_existing(files: Sequence[Path], *, overwrite: bool) -> None:
    """SafetyRefusal for a file that is there; --overwrite replaces it."""
    for file in files:
        if os.path.lexists(file) and not (overwrite and file.is_file()):
            raise SafetyRefusal(f"{file}: exists; --overwrite replaces a regular file, or change the folder")


def _latency_file(name: str, child: int | None) -> Path:
    """Where the latencies of a pass go: IOzone's names for its four, the names of the passes for the others."""
    child_name = "" if child is None else f"Child_{child}_"
    return Path(f"{child_name}{_IOZONE_NAMES.get(name, name)}.dat")


def write_latencies(passes: Sequence[Mapping[str, Any]]) -> None:
    """A file for each pass that has latencies."""
    for each in passes:
        if "latencies" in each:
            child = each["worker"] if each["workers"] else None
            _latency_file(each["name"], child).write_text(each["latencies"], encoding="ascii")


def write_workbook(path: Path, title: str, unit: str, passes: Sequence[Mapping[str, Any]]) -> None:
    """The matrices as one sheet: a block for each pass, record sizes above, file sizes at the left, in kB.

    Of several repetitions it has the last.
    """
    path.write_bytes(b"".join(_records(title, unit, passes)))


def _records(title: str, unit: str, passes: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    yield struct.pack("<HHHH", _BEGIN, 4, _BIFF2, _SHEET)
    yield _label(0, 0, title)
    yield _label(1, 0, f"rows: file size in kB; columns: record size in kB; values: {unit}")
    row = 3
    for name in dict.fromkeys(each["name"] for each in passes):
        yield _label(row, 0, name)
        own = {(each["asked_file_bytes"], each["record_bytes"]): each for each in passes if each["name"] == name}
        files, records = sorted({cell[0] for cell in own}), sorted({cell[1] for cell in own})
        for column, record in enumerate(records, 1):
            yield _number(row + 1, column, record / 1024)
        for line, file in enumerate(files, row + 2):
            yield _number(line, 0, file / 1024)
        for (file, record), each in own.items():
            line, column = row + 2 + files.index(file), 1 + records.index(record)
            value = _value(each, unit)
            yield _number(line, column, value) if value is not None else _label(line, column, each["status"])
        row += len(files) + 3
    yield struct.pack("<HH", _END, 0)


def _value(each: Mapping[str, Any], unit: str) -> float | None:
    if each["nanoseconds"] is None:
        return None
    if unit == "kBytes/sec":
        return float(each["bytes_per_s"] / 1024)
    if unit == "ops/s":
        return float(each["operations_per_s"])
    return float(each["nanoseconds"] / 1000 / each["operations"])


def _label(row: int, column: int, text: str) -> bytes:
    letters = text.encode("latin-1", "replace")[:_LARGEST_LABEL]
    head = struct.pack("<HHHH3xB", _LABEL, 8 + len(letters), row, column, len(letters))
    return head + letters


def _number(row: int, column: int, value: float) -> bytes:
    return struct.pack("<HHHH3xd", _NUMBER, 15, row, column, value)
