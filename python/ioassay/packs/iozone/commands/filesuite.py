"""ioassay filesuite: the file tests that IOzone made known, with the same calls over the same intervals.

Its options are those of IOzone 3.489, and some of its own; those of refused.toml end with a usage error that says what
to use instead. `Command` reads IOzone's command lines: -+d, and
-F with several names. Which options go together is mostly the engine's business. What comes out is one object for
programs, a table that loses nothing to width, or IOzone's own table.
"""

from __future__ import annotations

import os
import re
import shlex
import struct
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ioassay import __version__, _core
from ioassay.cli import console, options, syntax
from ioassay.errors import IoassayError, SafetyRefusal, UsageError
from ioassay.hints import nearest
from ioassay.units import format_count, format_ns, format_rate, format_size


class _Option(NamedTuple):
    names: str
    """The last one, without its dashes, is that of the parameter."""
    kind: Any
    help: str = ""
    metavar: str | None = None
    default: Any = None
    least: int | None = None

    @property
    def known(self) -> Sequence[str]:
        """All values that there are, where these are listed."""
        return (self.metavar or "").split("|") if "|" in (self.metavar or "") else ()

    @property
    def parameter(self) -> str:
        return self.names.split()[-1].strip("-").replace("-", "_")

    @property
    def title(self) -> str:
        """`--threads (-t)`."""
        short, *long = self.names.split()
        return f"{long[0]} ({short})" if long else short


_HIDDEN = ""
_KINDS = {"flag": bool, "number": int, "text": str, "texts": list[str], "path": Path, "paths": list[Path]}


def _options() -> Mapping[str, Sequence[_Option]]:
    """Heading of the help -> its options, in order."""
    table = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))
    return {
        each["title"]: [_Option(**{**row, "kind": _KINDS[row.get("kind", "flag")]}) for row in each["options"]]
        for each in table["heading"]
    }


_OPTIONS = _options()
_ROWS = {each.parameter: each for rows in _OPTIONS.values() for each in rows}
_DIAGNOSIS = "-+d"


@cache
def refused() -> Mapping[str, str]:
    """IOzone's options that are refused, and what to use instead; `nothing: ` why none is needed."""
    remedies = tomllib.loads(Path(__file__).with_name("refused.toml").read_text(encoding="utf-8"))
    return {name: instead for names, instead in remedies.items() for name in names.split()}


class Command(syntax.Command):
    """`ioassay filesuite`, which also reads what IOzone spells unlike others, and names what it refuses."""

    def values(self, words: Sequence[str]) -> dict[str, Any] | None:
        """See syntax.Command."""
        return super().values(_usual_words(words))

    def _option(self, name: str) -> syntax.Parameter:
        if name not in self._by_name:
            _refuse(name)
        return super()._option(name)


def _refuse(name: str) -> None:
    if instead := refused().get(name):
        prefix, _, reason = instead.partition("nothing: ")
        advice = f"leave it out: {reason}" if not prefix and reason else f"use {instead}"
        raise UsageError(f"{name} of IOzone is not supported; {advice}")


def _usual_words(words: Sequence[str]) -> list[str]:
    """-+d as --diagnose, and each name after -F as its own."""
    usual: list[str] = []
    naming = False
    for place, word in enumerate(words):
        if word == "--":
            return [*usual, *words[place:]]
        if word.startswith("-") and len(word) > 1:
            naming = word in ("-F", "--files")
            if word.startswith("-+") and word != _DIAGNOSIS:
                _refuse(word[:3])
                raise UsageError(f"No such option: {word}")
            usual += [] if naming else ["--diagnose" if word == _DIAGNOSIS else word]
            if naming and (place + 1 == len(words) or words[place + 1].startswith("-")):
                raise UsageError(f"{word} is given without a name, expected a file for each thread")
        else:
            usual += ["--files", word] if naming else [word]
    return usual


_T = TypeVar("_T")
_FACTORS = {"b": 1, "": 1024, "k": 1024, "m": 1024**2, "g": 1024**3}
_SAME = (
    *("auto", "direct", "sync", "fsync", "close", "overwrite", "plain", "no_crossover", "seed", "repetitions"),
    *("jitter", "keep", "latencies", "processor", "remount", "stride", "shuffle", "cache", "check"),
)
"""Options that the engine takes as they are."""
_BOUNDS = {"files_from": "min_size", "files_to": "max_size", "records_from": "min_record", "records_to": "max_record"}
_EITHER = (
    ("threads", "max_threads"),
    ("files", "file"),
    ("msync_async", "msync_sync"),
    ("ops", "us_per_op"),
    ("remount", "threads"),
    ("workbook", "threads"),
    ("workbook", "max_threads"),
)
"""Options that contradict each other. What of the engine's own it refuses itself."""
_OF_THREADS = ("files", "per_thread", "posix_threads", "no_stonewall")


def _option_row(panel: str, each: _Option) -> syntax.Row:
    names, hidden = each.names.split(), panel == _HIDDEN
    info = syntax.Option(*names, help=each.help, panel=panel or None, metavar=each.metavar, hidden=hidden)
    return syntax.Row(each.kind, False if each.kind is bool else each.default, info)


@syntax.takes({each.parameter: _option_row(panel, each) for panel, rows in _OPTIONS.items() for each in rows})
def filesuite(*, json: options.Json = False, **given: Any) -> None:
    """Write and read a file in records, in thirteen ways, and report the speed of each pass.

    The letters are those of IOzone. The file is made for it, and deleted at the end unless -w keeps it.

    Examples: ioassay filesuite -s 64m -r 4k -i 0 -i 1; ioassay filesuite -a -g 64m
    """
    as_iozone = given["format"] == "iozone"
    if given["list_tests"]:
        known = _core.filesuite_tests()
        rows = [[str(test["number"]), test["about"], ", ".join(test["passes"])] for test in known]
        console.emit({"tests": known}) if json else console.table(["-i", "what it does", "passes"], rows)
        return
    if given["list_refused"]:
        rows = [[name, instead] for name, instead in refused().items()]
        console.emit({"refused": dict(refused())}) if json else console.table(["refused", "use instead"], rows)
        return
    setup = _setup(given)
    for size in (*setup["files"], *setup["records"]) if as_iozone else ():
        if size % 1024:  # IOzone's table has whole kB and would show something else
            raise UsageError(f"--format iozone has sizes in kB, and {size} bytes are asked for; use --json")
    workbook = given["workbook"]
    for file in [*(_latency_files(setup) if given["latencies"] else ()), *([workbook] if workbook else ())]:
        if os.path.lexists(file) and not (given["overwrite"] and file.is_file()):
            raise SafetyRefusal(f"{file}: exists; --overwrite replaces a regular file, or change the folder")
    on_pass = _progress(quiet=json)
    try:
        found = _engine(_core.filesuite_run, setup, on_pass)
    finally:
        if on_pass is not None:
            on_pass(None)
    for each in found["passes"]:
        if "latencies" in each:
            child = each["worker"] if each["workers"] else None
            _latency_file(each["name"], child).write_text(each["latencies"], encoding="ascii")
    result, line = _result(setup, found), _command_line(given, setup["path"])
    if workbook:
        workbook.write_bytes(b"".join(_records(line, _UNITS[setup["unit"]], result["passes"])))
    if json:
        console.emit(result)
    elif as_iozone:
        _print_as_iozone(line, setup, found, result, given)
    else:
        _print(result, setup["unit"], given)
    # Passes that failed are in the result; that they did is the exit code.
    bad = [one for one in result["passes"] if one["status"] != "ok"]
    wrong = any(one["differing_records"] or one["reason"] for one in result["checked"])
    if wrong:
        console.note("ioassay: the file does not hold what was written: see `checked` in --json")
    if bad:
        first, others = bad[0], len(bad) - 1
        cell = f"{first['asked_file_bytes']} bytes in records of {first['record_bytes']}"
        more = f" and {others} other pass{'es' if others > 1 else ''}" if others else ""
        console.note(f"ioassay: {first['name']} of {cell}{more} failed: {first['reason']}")
    if bad or wrong:
        raise console.Exit(IoassayError.exit_code)


COMMAND = Command(filesuite)


def _engine(function: Callable[..., _T], *arguments: Any) -> _T:
    """What the engine answers; its errors as those of ours."""
    try:
        return function(*arguments)
    except _core.RefusalError as error:
        raise SafetyRefusal(str(error)) from None
    except _core.CoreError as error:
        raise UsageError(str(error).removeprefix("filesuite.")) from None


# What the engine gets, `_core.filesuite_run`, from the options. UsageError names a wrong one.


def _setup(given: Mapping[str, Any]) -> dict[str, Any]:
    usual_check = "whole" if given["diagnose"] else "after" if given["plain"] else "inside"
    given = {**given, "check": given["check"] or usual_check}
    for name, row in _ROWS.items():
        long, value = row.names.split()[-1], given[name]
        if row.least is not None and value is not None and value < row.least:
            raise UsageError(f"{long} is {value}, expected at least {row.least}")
        if row.known and value not in row.known:
            raise UsageError(f"{long} is '{value}', expected {', '.join(row.known)}{nearest(value, row.known)}")
    for one, other in _EITHER:
        if given[one] and given[other]:
            raise UsageError(f"{_ROWS[one].title} and {_ROWS[other].title} are both given, expected one of them")
    if given["diagnose"] and (given["check"], given["data"], given["fill"]) != ("whole", "random", None):
        raise UsageError("--diagnose (-+d) is given with another --check, --data or -V, expected one of them")
    least, most = given["min_threads"], given["max_threads"]
    if (least is None) != (most is None):
        missing = _ROWS["max_threads" if most is None else "min_threads"].title
        raise UsageError(f"{missing} is not given, expected both of -l and -u, or -t alone")
    workers = most or given["threads"]
    for name in _OF_THREADS if not workers else ():
        if given[name]:
            raise UsageError(f"{_ROWS[name].names.split()[0]} is given without threads, expected -t, or -l and -u")
    setup: dict[str, Any] = {name: given[name] for name in _SAME}
    setup |= {"workers": workers, "workers_from": least, "paths": given["files"] or []}
    setup |= {"path": given["file"] or Path(f"ioassay-filesuite.{os.getpid()}.tmp"), "content": given["data"]}
    synced = "async" if given["msync_async"] else "sync" if given["msync_sync"] else "never"
    if given["mmap"]:
        setup["mapped"] = synced
    elif synced != "never":
        raise UsageError(f"--msync-{synced} is given without --mmap (-B), whose records it syncs")
    if given["test"]:
        setup["tests"] = [number for text in given["test"] for number in _numbers(text)]
    if given["order_seed"] is not None:
        setup["order_key"] = [given["order_seed"]]
    if given["fill"] is not None:
        if not 0 <= given["fill"] <= 255:
            raise UsageError(f"--fill (-V) is {given['fill']}, expected a byte: 0 to 255")
        setup["fill"] = given["fill"]
    setup["unit"] = "ops_per_s" if given["ops"] else "us_per_op" if given["us_per_op"] else "kib_per_s"
    for key, name in (("files", "size"), ("records", "record")):
        setup[key] = [_size_bytes(name, text) for text in given[name] or ()]
    return setup | {key: _size_bytes(name, given[name]) for key, name in _BOUNDS.items() if given[name] is not None}


def _size_bytes(name: str, text: str) -> int:
    """Bytes of a size as IOzone reads it: a plain number is kB (1024 bytes), k, m and g say it; b is ours."""
    match = re.fullmatch(r"(\d{1,15})([bkmg]?)", text.strip().lower())
    if match is None:
        wanted = "a whole number of kB, or one with k, m or g (powers of 1024), or with b for bytes"
        raise UsageError(f"--{name.replace('_', '-')} is '{text}', expected {wanted}")
    return int(match[1]) * _FACTORS[match[2]]


def _numbers(text: str) -> list[int]:
    """`3`, `0,1,2` or `0-7`."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part.strip())
        if match is None:
            raise UsageError(f"--test (-i) is '{text}', expected numbers of tests, such as 0, 0,1 or 0-7")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    if any(number > 12 for number in found):
        raise UsageError(f"--test (-i) is '{text}', expected 0 to 12 (see: ioassay filesuite --list-tests)")
    return found


# What comes out.

_UNITS = {"kib_per_s": "kBytes/sec", "ops_per_s": "ops/s", "us_per_op": "us/op"}
_MODES = {"ops_per_s": "OPS Mode.", "us_per_op": "Microseconds/op Mode."}
_IOZONE_NAMES = {"write": "wol", "rewrite": "rwol", "read": "rol", "reread": "rrol"}


def _progress(*, quiet: bool) -> Callable[[Mapping[str, Any] | None], None] | None:
    """What to call with each pass, and with None at the end: one line, written over; None without a terminal."""

    def show(one: Mapping[str, Any] | None) -> None:
        text = "\r" + " " * 79 + "\r"
        if one is not None:
            file, record, name = _cell(one)
            text += f"{file} in records of {record}: {name} {one['status']}"[:78]
        sys.stderr.write(text)
        sys.stderr.flush()

    return None if quiet or not sys.stderr.isatty() else show


def _result(setup: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
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
        "schema": 1,
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
    rates, starts, ends = ([one[key] for one in good] for key in ("bytes_per_s", "start_ns", "end_ns"))
    moved, span_ns = sum(one["bytes"] for one in good), max(max(ends) - min(starts), 1)
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


def _print(found: Mapping[str, Any], unit: str, given: Mapping[str, Any]) -> None:
    """A line for each pass; with workers, a line for all of them, and for each where that is asked for."""
    if found["groups"]:
        rows = []
        for one in found["groups"]:
            shown = ["-"] * 6
            if "span_ns" in one:
                rates = [format_rate(one[f"{name}_bytes_per_s"]) for name in ("sum", "span", "parent", "min", "max")]
                shown = [*rates, f"{one['common_ns'] / one['span_ns']:.0%}"]
            rows.append([*_cell(one), f"{one['ok']} of {one['workers']}", *shown])
        rates_of_all = ["workers", "sum", "all", "parent", "least", "most", "at once"]
        console.table(["file", "record", "pass", *rates_of_all], rows)
        if given["per_thread"]:
            threads = [
                [*_cell(each), f"{each['worker']} of {each['workers']}", format_size(each["bytes"]), _value(each, unit)]
                for each in found["passes"]
            ]
            console.line("")
            console.table(["file", "record", "pass", "thread", "moved", "result"], threads)
    else:
        several = any(one["repetition"] for one in found["passes"])
        rows = [_row(one, unit, several=several) for one in found["passes"]]
        columns = ["file", "record", "pass", *(["repetition"] if several else []), "result", "calls", "took", "cached"]
        console.table([*columns, "notes"], rows)
    for name, own, files, records in _matrices(found["passes"]) if given["matrices"] else ():
        console.line(f"\n{name}, file by record")
        values = {cell: _value(one, unit) for cell, one in own.items()}
        rows = [[format_size(file), *(values.get((file, record), "") for record in records)] for file in files]
        console.table(["", *map(format_size, records)], rows)


_Matrix = tuple[str, Mapping[tuple[int, int], Mapping[str, Any]], list[int], list[int]]


def _matrices(passes: Sequence[Mapping[str, Any]]) -> Iterator[_Matrix]:
    """Name, cells, sizes of files and of records of each pass; of several repetitions the last."""
    for name in dict.fromkeys(one["name"] for one in passes):
        own = {(one["asked_file_bytes"], one["record_bytes"]): one for one in passes if one["name"] == name}
        files, records = (sorted({cell[place] for cell in own}) for place in (0, 1))
        yield name, own, files, records


_BEGIN, _NUMBER, _LABEL, _END = 0x0009, 0x0003, 0x0004, 0x000A
"""Records of BIFF2 (OpenOffice.org's documentation of the Excel file format, chapter 5)."""
_BIFF2, _SHEET = 2, 0x0010
_LARGEST_LABEL = 255


def _records(title: str, unit: str, passes: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """The matrices as one sheet: a block for each pass, record sizes above, file sizes at the left, in kB."""
    yield struct.pack("<HHHH", _BEGIN, 4, _BIFF2, _SHEET)
    yield _record(0, 0, title)
    yield _record(1, 0, f"rows: file size in kB; columns: record size in kB; values: {unit}")
    top = 3
    for name, own, files, records in _matrices(passes):
        yield _record(top, 0, name)
        yield from (_record(top + 1, column, size / 1024) for column, size in enumerate(records, 1))
        yield from (_record(line, 0, size / 1024) for line, size in enumerate(files, top + 2))
        for (file, size), one in own.items():
            values = {"kBytes/sec": (one["bytes_per_s"] or 0) / 1024, "ops/s": one["operations_per_s"]}
            value = values.get(unit, (one["nanoseconds"] or 0) / 1000 / max(one["operations"], 1))
            shown = one["status"] if one["nanoseconds"] is None else value
            yield _record(top + 2 + files.index(file), 1 + records.index(size), shown)
        top += len(files) + 3
    yield struct.pack("<HH", _END, 0)


def _record(row: int, column: int, value: str | float) -> bytes:
    if isinstance(value, str):
        letters = value.encode("latin-1", "replace")[:_LARGEST_LABEL]
        return struct.pack("<HHHH3xB", _LABEL, 8 + len(letters), row, column, len(letters)) + letters
    return struct.pack("<HHHH3xd", _NUMBER, 15, row, column, value)


def _cell(one: Mapping[str, Any]) -> list[str]:
    return [format_size(one["asked_file_bytes"]), format_size(one["record_bytes"]), one["name"]]


def _row(one: Mapping[str, Any], unit: str, *, several: bool) -> list[str]:
    took = format_ns(one["nanoseconds"]) if one["nanoseconds"] else "-"
    cached = "-" if one["resident_share"] is None else f"{one['resident_share']:.1%}"
    repetition = [str(one["repetition"] + 1)] if several else []
    flags = {"direct": "direct", "sync": "synchronous", "mapped": "mapped", "prepared": "file written beforehand"}
    notes = [f"with {part}" for part in one["includes"]] + [text for key, text in flags.items() if one[key]]
    notes += [one["reason"]] if one["reason"] else []
    return [*_cell(one), *repetition, _value(one, unit), f"{one['operations']:,}", took, cached, ", ".join(notes)]


def _value(one: Mapping[str, Any], unit: str) -> str:
    if one["nanoseconds"] is None:
        return str(one["status"])
    if unit == "kib_per_s":
        return format_rate(one["bytes_per_s"])
    if unit == "ops_per_s":
        return f"{format_count(one['operations_per_s'])}/s"
    return f"{one['nanoseconds'] / 1000 / one['operations']:.4g} µs"


def _print_as_iozone(
    command: str,
    setup: Mapping[str, Any],
    found: Mapping[str, Any],
    result: Mapping[str, Any],
    given: Mapping[str, Any],
) -> None:
    """IOzone's table and, when asked for, its matrices; with workers, its summary of each pass."""
    unit = setup["unit"]
    said = {
        "Include fsync in write timing": setup["fsync"],
        "Include close in write timing": setup["close"],
        "Using mmap files": "mapped" in setup,
        _MODES.get(unit, ""): unit in _MODES,
        f"Command line used: {command}": True,
        f"Output is in {_UNITS[unit]}": True,
        "Time Resolution = 0.000000001 seconds.": True,
    }
    for line, applies in said.items():
        if applies:
            console.line(f"\t{line}")
    if found["groups"]:
        _print_throughput(result, per_thread=given["per_thread"])
        return
    console.line(found["iozone"]["header"].rstrip("\n"))
    for row in found["iozone"]["rows"]:
        console.line(row.rstrip("\n"))
    if given["matrices"]:
        console.line(f"\n{found['iozone']['matrices']}".rstrip("\n"))
    console.line("\nfilesuite test complete.")


def _command_line(given: Mapping[str, Any], path: Path) -> str:
    """The command that IOzone would have been given: without options that it does not have."""
    words = ["filesuite"]
    for name, row in _ROWS.items():
        letter, value = row.names.split()[0], given[name]
        if len(letter) > 2 or value is None or value is False or value == row.default:
            continue
        if name == "files":
            words += [letter, *map(str, value)]
        else:
            words += [
                letter if one is True else f"{letter}{one}" for one in (value if type(value) is list else [value])
            ]
    return shlex.join(words if given["file"] or given["files"] else [*words, "-f", str(path)])


def _print_throughput(result: Mapping[str, Any], *, per_thread: bool) -> None:
    """The workers' own rates, their sum, and what the one who waits for them saw. All of them moved all their bytes."""
    shown = None
    for group in result["groups"]:
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
        for each in _members(group, result["passes"]) if per_thread else ():
            moved, rate = each["bytes"] / 1024, (each["bytes_per_s"] or 0.0) / 1024
            count = f"Child[{each['worker']}] xfer count = {moved:10.2f} kB"
            console.line(f"\t{count}, Throughput = {rate:10.2f} kB/sec")


def _latency_files(setup: Mapping[str, Any]) -> list[Path]:
    """A file for each pass and thread; UsageError where several passes would share one."""
    cells = len(_engine(_core.filesuite_cells, setup))
    if cells > 1 or setup["repetitions"] > 1:
        seen = f"{cells} sizes and {setup['repetitions']} repetitions"
        raise UsageError(f"--latencies (-Q) is given with {seen}, expected one of each: a file holds one pass")
    if setup["workers_from"] not in (None, setup["workers"]):
        raise UsageError("--latencies (-Q) is given with several numbers of threads (-l, -u), expected one")
    tests = [test for test in _core.filesuite_tests() if test["number"] in setup.get("tests", range(8))]
    children = range(setup["workers"]) if setup["workers"] else (None,)
    return [_latency_file(name, child) for test in tests for name in test["passes"] for child in children]


def _latency_file(name: str, child: int | None) -> Path:
    """Where the latencies of a pass go: IOzone's names for its four, the names of the passes for the others."""
    child_name = "" if child is None else f"Child_{child}_"
    return Path(f"{child_name}{_IOZONE_NAMES.get(name, name)}.dat")
