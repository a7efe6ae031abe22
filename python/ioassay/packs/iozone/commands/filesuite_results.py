"""What `ioassay filesuite` shows and leaves: one object for programs, a table that loses nothing to width, IOzone's own
table, and where asked the workbook (-b) and the latencies of each call (-Q).
"""

from __future__ import annotations

import os
import shlex
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay import __version__
from ioassay.cli import console
from ioassay.errors import SafetyRefusal, UsageError
from ioassay.units import format_count, format_ns, format_rate, format_size

SCHEMA = 1
USUAL_STRIDE = 17
UNITS = {"kib_per_s": "kBytes/sec", "ops_per_s": "ops/s", "us_per_op": "us/op"}
_MODES = {"ops_per_s": "OPS Mode.", "us_per_op": "Microseconds/op Mode."}
_IOZONE_NAMES = {"write": "wol", "rewrite": "rwol", "read": "rol", "reread": "rrol"}
_BEGIN, _NUMBER, _LABEL, _END = 0x0009, 0x0003, 0x0004, 0x000A
"""Records of BIFF2 (OpenOffice.org's documentation of the Excel file format, chapter 5)."""
_BIFF2, _SHEET = 2, 0x0010
_LARGEST_LABEL = 255


def progress(*, quiet: bool) -> Callable[[Mapping[str, Any] | None], None] | None:
    """What to call with each pass, and with None at the end: one line, written over; None without a terminal."""
    if quiet or not sys.stderr.isatty():
        return None
    blank = "\r" + " " * 79 + "\r"

    def show(one: Mapping[str, Any] | None) -> None:
        text = blank
        if one is not None:
            cell = f"{format_size(one['asked_file_bytes'])} in records of {format_size(one['record_bytes'])}"
            text += f"{cell}: {one['name']} {one['status']}"[:78]
        sys.stderr.write(text)
        sys.stderr.flush()

    return show


def result(setup: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """All cells as one object: raw counts and times, and the rates that follow from them."""
    shown = {key: str(value) if key in ("path", "remount") and value else value for key, value in setup.items()}
    shown["paths"] = [str(path) for path in setup["paths"]]
    passes = []
    for one in found["passes"]:
        shown_pass = {name: value for name, value in one.items() if name != "latencies"} | {"path": str(one["path"])}
        for name in ("bytes", "operations"):
            shown_pass[f"{name}_per_s"] = one[name] * 1e9 / one["nanoseconds"] if one["nanoseconds"] else None
        passes.append(shown_pass)
    return {
        "schema": SCHEMA,
        "tool": "ioassay filesuite",
        "version": __version__,
        "clock": "CLOCK_MONOTONIC",
        "clock_overhead_ns": found["clock_overhead_ns"],
        "setup": shown,
        "passes": passes,
        "groups": [_joined(group, passes) for group in found["groups"]],
        "checked": found["checked"],
    }


def _joined(group: Mapping[str, Any], passes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A pass of all workers: the sum of their rates, and what all moved from the first start to the last end.

    The sum counts rates of different intervals together. It is a rate that was reached only where they overlap:
    `common_ns` is how long all of them ran at once, `span_ns` from the first start to the last end.
    """
    own = _members(group, passes)
    good = [one for one in own if one["status"] == "ok"]
    parent_ns = max(int(group["end_ns"] - group["start_ns"]), 1)
    known = {**group, "ok": len(good), "bytes": sum(one["bytes"] for one in own), "parent_ns": parent_ns}
    if not good:
        return known
    rates = [one["bytes_per_s"] for one in good]
    moved = sum(one["bytes"] for one in good)
    starts, ends = [one["start_ns"] for one in good], [one["end_ns"] for one in good]
    span_ns = max(max(ends) - min(starts), 1)
    return {
        **known,
        "operations": sum(one["operations"] for one in good),
        "sum_bytes_per_s": sum(rates),
        "min_bytes_per_s": min(rates),
        "max_bytes_per_s": max(rates),
        "mean_bytes_per_s": sum(rates) / len(rates),
        "span_ns": span_ns,
        "common_ns": max(min(ends) - max(starts), 0),
        "span_bytes_per_s": moved * 1e9 / span_ns,
        "parent_bytes_per_s": moved * 1e9 / parent_ns,
    }


def _members(group: Mapping[str, Any], passes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The passes of the workers of a group."""
    keys = ("name", "asked_file_bytes", "record_bytes", "repetition", "workers")
    return [each for each in passes if all(each[key] == group[key] for key in keys)]


def describe(found: Mapping[str, Any], unit: str, *, matrices: bool, per_thread: bool = False) -> None:
    """A line for each pass; with workers, a line for all of them, and for each where that is asked for."""
    if found["groups"]:
        _describe_groups(found["groups"])
        if per_thread:
            threads = [
                [*_cell(each), f"{each['worker']} of {each['workers']}", format_size(each["bytes"]), _value(each, unit)]
                for each in found["passes"]
            ]
            console.line("")
            console.table(["file", "record", "pass", "thread", "moved", "result"], threads)
    else:
        several = max((one["repetition"] for one in found["passes"]), default=0) > 0
        rows = [_row(one, unit, several=several) for one in found["passes"]]
        columns = ["file", "record", "pass", *(["repetition"] if several else []), "result", "calls", "took", "cached"]
        console.table([*columns, "notes"], rows)
    for name, own, files, records in _matrices(found["passes"]) if matrices else ():
        console.line(f"\n{name}, file by record")
        shown = {cell: _value(one, unit) for cell, one in own.items()}
        rows = [[format_size(file), *(shown.get((file, record), "") for record in records)] for file in files]
        console.table(["", *map(format_size, records)], rows)


def _cell(one: Mapping[str, Any]) -> list[str]:
    return [format_size(one["asked_file_bytes"]), format_size(one["record_bytes"]), one["name"]]


def _row(one: Mapping[str, Any], unit: str, *, several: bool) -> list[str]:
    took = format_ns(one["nanoseconds"]) if one["nanoseconds"] else "-"
    cached = "-" if one["resident_share"] is None else f"{one['resident_share']:.1%}"
    repetition = [str(one["repetition"] + 1)] if several else []
    return [*_cell(one), *repetition, _value(one, unit), f"{one['operations']:,}", took, cached, _notes(one)]


def _value(one: Mapping[str, Any], unit: str) -> str:
    if one["nanoseconds"] is None:
        return str(one["status"])
    if unit == "kib_per_s":
        return format_rate(one["bytes_per_s"])
    if unit == "ops_per_s":
        return f"{format_count(one['operations_per_s'])}/s"
    return f"{one['nanoseconds'] / 1000 / one['operations']:.4g} µs"


def _notes(one: Mapping[str, Any]) -> str:
    said = [f"with {part}" for part in one["includes"]]
    said += ["direct"] if one["direct"] else []
    said += ["synchronous"] if one["sync"] else []
    said += ["mapped"] if one["mapped"] else []
    said += ["file written beforehand"] if one["prepared"] else []
    return ", ".join([*said, *([one["reason"]] if one["reason"] else [])])


def _describe_groups(groups: Sequence[Mapping[str, Any]]) -> None:
    columns = ["file", "record", "pass", "workers", "sum", "all", "parent", "least", "most", "at once"]
    rows = []
    for one in groups:
        shown = ["-"] * 6
        if "span_ns" in one:
            rates = [format_rate(one[f"{name}_bytes_per_s"]) for name in ("sum", "span", "parent", "min", "max")]
            shown = [*rates, f"{one['common_ns'] / one['span_ns']:.0%}"]
        rows.append([*_cell(one), f"{one['ok']} of {one['workers']}", *shown])
    console.table(columns, rows)


_Matrix = tuple[str, Mapping[tuple[int, int], Mapping[str, Any]], Sequence[int], Sequence[int]]
"""Name of a pass, its last results by sizes of file and record, and these sizes."""


def _matrices(passes: Sequence[Mapping[str, Any]]) -> Iterator[_Matrix]:
    for name in dict.fromkeys(one["name"] for one in passes):
        own = {(one["asked_file_bytes"], one["record_bytes"]): one for one in passes if one["name"] == name}
        files, records = ({cell[place] for cell in own} for place in (0, 1))
        yield name, own, sorted(files), sorted(records)


def tests(known: Sequence[Mapping[str, Any]]) -> None:
    """The tests, one a line."""
    console.table(
        ["-i", "what it does", "passes"], [[str(t["number"]), t["about"], ", ".join(t["passes"])] for t in known]
    )


def as_iozone(setup: Mapping[str, Any], found: Mapping[str, Any], *, matrices: bool, per_thread: bool = False) -> None:
    """IOzone's table and, when asked for, its matrices; with workers, its summary of each pass."""
    unit = setup["unit"]
    said = {
        "Include fsync in write timing": setup["fsync"],
        "Include close in write timing": setup["close"],
        "Using mmap files": "mapped" in setup,
        _MODES.get(unit, ""): unit in _MODES,
        f"Command line used: {command_line(setup)}": True,
        f"Output is in {UNITS[unit]}": True,
        "Time Resolution = 0.000000001 seconds.": True,
    }
    for line, applies in said.items():
        if applies:
            console.line(f"\t{line}")
    if found["groups"]:
        _throughput(setup, found, per_thread=per_thread)
        return
    console.line(found["iozone"]["header"].rstrip("\n"))
    for row in found["iozone"]["rows"]:
        console.line(row.rstrip("\n"))
    if matrices:
        console.line(f"\n{found['iozone']['matrices']}".rstrip("\n"))
    console.line("\nfilesuite test complete.")


def command_line(setup: Mapping[str, Any]) -> str:
    """The command that IOzone would have been given."""
    letters = {"auto": "-a", "direct": "-I", "sync": "-o", "fsync": "-e", "close": "-c", "no_crossover": "-z"}
    letters |= {"jitter": "-K", "keep": "-w", "latencies": "-Q"}
    words = ["filesuite", *(letter for key, letter in letters.items() if setup[key])]
    words += {"never": ["-B"], "async": ["-B", "-D"], "sync": ["-B", "-G"]}.get(setup.get("mapped", ""), [])
    words += [f"-j{setup['stride']}"] if setup["stride"] != USUAL_STRIDE else []
    words += [] if setup["processor"] is None else [f"-P{setup['processor']}"]
    words += [f"-i{number}" for number in setup.get("tests", range(8))]
    words += {"ops_per_s": ["-O"], "us_per_op": ["-N"]}.get(setup["unit"], [])
    bounds = {"files_from": "-n", "files_to": "-g", "records_from": "-y", "records_to": "-q"}
    words += [f"{letter}{setup[key] // 1024}k" for key, letter in bounds.items() if key in setup]
    words += [f"-s{size // 1024}k" for size in setup["files"]] + [f"-r{size // 1024}k" for size in setup["records"]]
    if setup["workers_from"] is not None:
        words += ["-l", str(setup["workers_from"]), "-u", str(setup["workers"])]
    elif setup["workers"]:
        words += ["-t", str(setup["workers"])]
    files = ["-F", *map(str, setup["paths"])] if setup["paths"] else ["-f", str(setup["path"])]
    return shlex.join([*words, *files])


def _throughput(setup: Mapping[str, Any], found: Mapping[str, Any], *, per_thread: bool) -> None:
    """The workers' own rates, their sum, and what the one who waits for them saw. All of them moved all their bytes."""
    shown = None
    whole = result(setup, found)
    for group in whole["groups"]:
        cell = (group["asked_file_bytes"] // 1024, group["record_bytes"] // 1024, group["workers"])
        if shown != cell:
            shown = cell
            console.line(f"\tThroughput test with {group['workers']} threads")
            console.line(f"\tEach thread writes a {cell[0]} kByte file in {cell[1]} kByte records")
        kib = {name: group.get(f"{name}_bytes_per_s", 0.0) / 1024 for name in ("sum", "parent", "min", "max", "mean")}
        whose = f"{group['workers']:2} {group['name']}"
        console.line(f"\n\tChildren see throughput for {whose} \t= {kib['sum']:10.2f} kB/sec")
        console.line(f"\tParent sees throughput for {whose} \t= {kib['parent']:10.2f} kB/sec")
        for word, name in (("Min", "min"), ("Max", "max"), ("Avg", "mean")):
            console.line(f"\t{word} throughput per process \t\t\t= {kib[name]:10.2f} kB/sec")
        console.line(f"\tMoved by all \t\t\t\t\t= {group['bytes'] / 1024:10.2f} kB")
        for each in _members(group, whole["passes"]) if per_thread else ():
            moved, rate = each["bytes"] / 1024, (each["bytes_per_s"] or 0.0) / 1024
            count = f"Child[{each['worker']}] xfer count = {moved:10.2f} kB"
            console.line(f"\t{count}, Throughput = {rate:10.2f} kB/sec")


# Files


def latency_files(setup: Mapping[str, Any], names: Sequence[str], cells: int) -> list[Path]:
    """A file for each pass and thread; UsageError where several passes would share one."""
    if cells > 1 or setup["repetitions"] > 1:
        seen = f"{cells} sizes and {setup['repetitions']} repetitions"
        raise UsageError(f"--latencies (-Q) is given with {seen}, expected one of each: a file holds one pass")
    if setup["workers_from"] not in (None, setup["workers"]):
        raise UsageError("--latencies (-Q) is given with several numbers of threads (-l, -u), expected one")
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


def workbook(title: str, unit: str, passes: Sequence[Mapping[str, Any]]) -> bytes:
    """The matrices as one sheet: a block for each pass, record sizes above, file sizes at the left, in kB.

    Of several repetitions it has the last.
    """
    return b"".join(_records(title, unit, passes))


def _records(title: str, unit: str, passes: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    yield struct.pack("<HHHH", _BEGIN, 4, _BIFF2, _SHEET)
    yield _label(0, 0, title)
    yield _label(1, 0, f"rows: file size in kB; columns: record size in kB; values: {unit}")
    row = 3
    for name, own, files, records in _matrices(passes):
        yield _label(row, 0, name)
        for column, record in enumerate(records, 1):
            yield _number(row + 1, column, record / 1024)
        for line, file in enumerate(files, row + 2):
            yield _number(line, 0, file / 1024)
        for (file, record), each in own.items():
            line, column = row + 2 + files.index(file), 1 + records.index(record)
            value = _cell_value(each, unit)
            yield _number(line, column, value) if value is not None else _label(line, column, each["status"])
        row += len(files) + 3
    yield struct.pack("<HH", _END, 0)


def _cell_value(each: Mapping[str, Any], unit: str) -> float | None:
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
