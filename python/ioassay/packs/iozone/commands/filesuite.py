"""ioassay filesuite: the file tests that IOzone made known, with the same calls over the same intervals."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ioassay import _core
from ioassay.cli import console, syntax
from ioassay.errors import IoassayError, SafetyRefusal, UsageError
from ioassay.hints import nearest
from ioassay.packs.iozone.commands import filesuite_options as options
from ioassay.packs.iozone.commands import filesuite_results as results

_T = TypeVar("_T")
_FACTORS = {"b": 1, "": 1024, "k": 1024, "m": 1024**2, "g": 1024**3}
_SAME = (
    *("auto", "direct", "sync", "fsync", "close", "overwrite", "plain", "no_crossover", "seed", "repetitions"),
    *("jitter", "keep", "latencies", "processor", "remount", "stride"),
)
"""Options that the engine takes as they are."""
_CHOICES = {"data": options.CONTENTS, "shuffle": options.SHUFFLES, "cache": options.CACHES, "check": options.CHECKS}
_LEAST = {"stride": 1, "processor": 0, "repetitions": 1, "seed": 0, "order_seed": 0}
_LISTS = {"files": "size", "records": "record"}
_BOUNDS = {
    "files_from": "min_size",
    "files_to": "max_size",
    "records_from": "min_record",
    "records_to": "max_record",
}


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.members["filesuite"] = options.Command(filesuite)


def filesuite(**given: Any) -> None:
    """Write and read a file in records, in thirteen ways, and report the speed of each pass.

    The letters are those of IOzone. The file is made for it, and deleted at the end unless -w keeps it.

    Examples: ioassay filesuite -s 64m -r 4k -i 0 -i 1; ioassay filesuite -a -g 64m
    """

    json, workbook = given["json"], given["workbook"]
    if given["list_tests"]:
        known = _core.filesuite_tests()
        console.emit({"tests": known}) if json else results.tests(known)
        return
    _one_of("format", given["format"], options.FORMATS)
    setup = _setup(given)
    for size in (*setup["files"], *setup["records"]) if given["format"] == "iozone" else ():
        if size % 1024:  # IOzone's table has whole kB and would show something else
            raise UsageError(f"--format iozone has sizes in kB, and {size} bytes are asked for; use --json")
    files = []
    if given["latencies"]:
        tests = [test for test in _core.filesuite_tests() if test["number"] in setup.get("tests", range(8))]
        names = [name for test in tests for name in test["passes"]]
        files = results.latency_files(setup, names, len(_engine(_core.filesuite_cells, setup)))
    results.refuse_existing([*files, *([workbook] if workbook else [])], overwrite=given["overwrite"])
    on_pass = results.progress(quiet=json)
    try:
        found = _engine(_core.filesuite_run, setup, on_pass)
    finally:
        if on_pass is not None:
            on_pass(None)
    results.write_latencies(found["passes"])
    result = results.result(setup, found)
    if workbook:
        title, unit = results.command_line(setup), results.UNITS[setup["unit"]]
        workbook.write_bytes(results.workbook(title, unit, result["passes"]))
    if json:
        console.emit(result)
    elif given["format"] == "iozone":
        results.as_iozone(setup, found, matrices=given["matrices"], per_thread=given["per_thread"])
    else:
        results.describe(result, setup["unit"], matrices=given["matrices"], per_thread=given["per_thread"])
    _end(result)


filesuite.__signature__ = options.signature()  # type: ignore[attr-defined]


def _engine(function: Callable[..., _T], *arguments: Any) -> _T:
    """What the engine answers; its errors as those of ours."""
    try:
        return function(*arguments)
    except _core.RefusalError as error:
        raise SafetyRefusal(str(error)) from None
    except _core.CoreError as error:
        raise UsageError(str(error).removeprefix("filesuite.")) from None


def _end(result: Mapping[str, Any]) -> None:
    """Passes that failed are in the result; that they did is the exit code."""
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


# What the engine gets, `_core.filesuite_run`, from the options. UsageError names a wrong one.


def _setup(given: Mapping[str, Any]) -> dict[str, Any]:
    usual_check = "whole" if given["diagnose"] else "after" if given["plain"] else "inside"
    given = {**given, "check": given["check"] or usual_check}
    for name, least in _LEAST.items():
        if given[name] is not None and given[name] < least:
            raise UsageError(f"--{name.replace('_', '-')} is {given[name]}, expected at least {least}")
    for name, known in _CHOICES.items():
        _one_of(name, given[name], known)
    setup: dict[str, Any] = {name: given[name] for name in _SAME}
    setup |= {"path": given["file"] or Path(f"ioassay-filesuite.{os.getpid()}.tmp"), "content": given["data"]}
    setup |= {name: given[name] for name in ("shuffle", "cache", "check")}
    setup |= _threads(given) | _mapping(given)
    if given["diagnose"] and (given["check"], given["data"], given["fill"]) != ("whole", "random", None):
        raise UsageError("--diagnose (-+d) is given with another --check, --data or -V, expected one of them")
    if given["test"]:
        setup["tests"] = [number for text in given["test"] for number in _numbers(text)]
    if given["order_seed"] is not None:
        setup["order_key"] = [given["order_seed"]]
    if given["fill"] is not None:
        if not 0 <= given["fill"] <= 255:
            raise UsageError(f"--fill (-V) is {given['fill']}, expected a byte: 0 to 255")
        setup["fill"] = given["fill"]
    if given["ops"] and given["us_per_op"]:
        raise UsageError("--ops (-O) and --us-per-op (-N) are both given, expected one of them")
    setup["unit"] = "ops_per_s" if given["ops"] else "us_per_op" if given["us_per_op"] else "kib_per_s"
    setup |= {key: [size_bytes(name, text) for text in given[name] or ()] for key, name in _LISTS.items()}
    setup |= {
        key: size_bytes(name.replace("_", "-"), given[name]) for key, name in _BOUNDS.items() if given[name] is not None
    }
    if given["remount"] and given["threads"]:
        raise UsageError("--remount (-U) and --threads (-t) are both given, expected one of them")
    return setup


def _threads(given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of threads, and their files."""
    least, most = given["min_threads"], given["max_threads"]
    if (least is None) != (most is None):
        missing = "--max-threads (-u)" if most is None else "--min-threads (-l)"
        raise UsageError(f"{missing} is not given, expected both of -l and -u, or -t alone")
    if most is not None and given["threads"]:
        raise UsageError("--threads (-t) and --max-threads (-u) are both given, expected one of them")
    workers, name = (given["threads"], "threads") if most is None else (most, "max-threads")
    if workers < (most is not None):
        raise UsageError(f"--{name} is {workers}, expected at least {int(most is not None)}")
    needing = {"files": "-F", "per_thread": "-C", "posix_threads": "-T", "no_stonewall": "-x"}
    for option, letter in needing.items():
        if given[option] and not workers:
            raise UsageError(f"{letter} is given without threads, expected -t, or -l and -u")
    if given["workbook"] and workers:
        raise UsageError("--workbook (-b) and threads are both given, expected --json: a cell holds one pass")
    if given["files"] and given["file"]:
        raise UsageError("--files (-F) and --file (-f) are both given, expected one of them")
    return {"workers": workers, "workers_from": least, "paths": given["files"] or []}


def _mapping(given: Mapping[str, Any]) -> dict[str, Any]:
    """Whether files are mapped, and what follows each write."""
    if given["msync_async"] and given["msync_sync"]:
        raise UsageError("--msync-async (-D) and --msync-sync (-G) are both given, expected one of them")
    synced = "async" if given["msync_async"] else "sync" if given["msync_sync"] else "never"
    if synced != "never" and not given["mmap"]:
        raise UsageError(f"--msync-{synced} is given without --mmap (-B), whose records it syncs")
    return {"mapped": synced} if given["mmap"] else {}


def size_bytes(name: str, text: str) -> int:
    """Bytes of a size as IOzone reads it: a plain number is kB (1024 bytes), k, m and g say it; b is ours."""
    match = re.fullmatch(r"(\d{1,15})([bkmg]?)", text.strip().lower())
    if match is None:
        wanted = "a whole number of kB, or one with k, m or g (powers of 1024), or with b for bytes"
        raise UsageError(f"--{name} is '{text}', expected {wanted}")
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


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"--{name} is '{value}', expected {', '.join(known)}{nearest(value, known)}")
