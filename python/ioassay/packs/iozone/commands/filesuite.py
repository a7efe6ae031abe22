"""ioassay filesuite: the file tests that IOzone made known, with the same calls over the same intervals."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ioassay.cli import console, options, syntax
from ioassay.errors import IoassayError, SafetyRefusal, UsageError
from ioassay.hints import nearest
from ioassay.packs.iozone.commands import filesuite_iozone
from ioassay.packs.iozone.commands import filesuite_options as wanted

_T = TypeVar("_T")


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.members["filesuite"] = filesuite_iozone.Command(filesuite)


def filesuite(
    auto: wanted.Auto = False,
    tests: wanted.Tests = None,
    threads: wanted.Threads = 0,
    min_threads: wanted.MinThreads = None,
    max_threads: wanted.MaxThreads = None,
    processor: wanted.Processor = None,
    stride: wanted.Stride = wanted.USUAL_STRIDE,
    jitter: wanted.Jitter = False,
    mmap: wanted.Mmap = False,
    msync_async: wanted.MsyncAsync = False,
    msync_sync: wanted.MsyncSync = False,
    direct: wanted.Direct = False,
    sync: wanted.Sync = False,
    fill: wanted.Fill = None,
    diagnose: wanted.Diagnose = False,
    sizes: wanted.Sizes = None,
    records: wanted.Records = None,
    min_size: wanted.MinSize = None,
    max_size: wanted.MaxSize = None,
    min_record: wanted.MinRecord = None,
    max_record: wanted.MaxRecord = None,
    no_crossover: wanted.NoCrossover = False,
    fsync: wanted.Fsync = False,
    close: wanted.Close = False,
    file: wanted.File = None,
    files: wanted.Files = None,
    keep: wanted.Keep = False,
    overwrite: wanted.Overwrite = False,
    remount: wanted.Remount = None,
    repetitions: wanted.Repetitions = 1,
    cache: wanted.CacheState = "leave",
    data: wanted.Data = "random",
    check: wanted.CheckWhen = None,
    plain: wanted.Plain = False,
    shuffle: wanted.Shuffle = "3.471",
    seed: wanted.Seed = 1,
    order_seed: wanted.OrderSeed = None,
    format: wanted.Format = "text",
    matrices: wanted.Matrices = False,
    ops: wanted.OpsPerS = False,
    us_per_op: wanted.UsPerOp = False,
    per_thread: wanted.PerThread = False,
    workbook: wanted.Workbook = None,
    latencies: wanted.Latencies = False,
    list_tests: wanted.ListTests = False,
    posix_threads: wanted.PosixThreads = False,
    no_stonewall: wanted.NoStonewall = False,
    extensions: wanted.Extensions = False,
    json: options.Json = False,
) -> None:
    """Write and read a file in records, in thirteen ways, and report the speed of each pass.

    The letters are those of IOzone. The file is made for it, and deleted at the end unless -w keeps it.

    Examples: ioassay filesuite -s 64m -r 4k -i 0 -i 1; ioassay filesuite -a -g 64m
    """
    given = dict(locals())
    from ioassay import _core
    from ioassay.packs.iozone.commands import filesuite_files, filesuite_text

    if list_tests:
        known = _core.filesuite_tests()
        console.emit({"tests": known}) if json else filesuite_text.tests(known)
        return
    if format not in wanted.FORMATS:
        raise UsageError(f"--format is '{format}', wanted {', '.join(wanted.FORMATS)}{nearest(format, wanted.FORMATS)}")
    told = wanted.setup(given, Path(f"ioassay-filesuite.{os.getpid()}.tmp"))
    if format == "iozone":
        wanted.need_kib(told)
    files = _latency_files(told) if latencies else []
    filesuite_files.refuse_existing([*files, *([workbook] if workbook else [])], overwrite=overwrite)
    found = _run(told, filesuite_text.progress(told, quiet=json))
    filesuite_files.write_latencies(found["passes"])
    result = filesuite_text.result(told, found)
    if workbook:
        title, unit = filesuite_text.command_line(told), filesuite_text.UNITS[told["unit"]]
        filesuite_files.write_workbook(workbook, title, unit, result["passes"])
    if json:
        console.emit(result)
    elif format == "iozone":
        filesuite_text.as_iozone(told, found, matrices=matrices, per_thread=per_thread)
    else:
        filesuite_text.describe(result, told["unit"], matrices=matrices, per_thread=per_thread)
    _end(result)


def _latency_files(told: dict[str, Any]) -> list[Path]:
    from ioassay import _core
    from ioassay.packs.iozone.commands import filesuite_files

    tests = [test for test in _core.filesuite_tests() if test["number"] in told.get("tests", range(8))]
    names = [name for test in tests for name in test["passes"]]
    return filesuite_files.latency_files(told, names, len(_engine(_core.filesuite_cells, told)))


def _run(told: dict[str, Any], on_pass: Any) -> dict[str, Any]:
    """The engine's results, with a line of progress meanwhile."""
    from ioassay import _core

    try:
        return _engine(_core.filesuite_run, told, on_pass)
    finally:
        if on_pass is not None:
            on_pass(None)


def _engine(function: Callable[..., _T], *arguments: Any) -> _T:
    """What the engine answers; its errors as those of ours."""
    from ioassay import _core

    try:
        return function(*arguments)
    except _core.RefusalError as error:
        raise SafetyRefusal(str(error)) from None
    except _core.CoreError as error:
        raise UsageError(str(error).removeprefix("filesuite.")) from None


def _end(result: dict[str, Any]) -> None:
    """Passes that failed are in the result; that they did is the exit code."""
    bad = [one for one in result["passes"] if one["status"] != "ok"]
    wrong = sum(one["differing_records"] for one in result["checked"]) or any(
        one["reason"] for one in result["checked"]
    )
    if wrong:
        console.note("ioassay: the file does not hold what was written: see `checked` in --json")
    if bad:
        first = bad[0]
        cell = f"{first['asked_file_bytes']} bytes in records of {first['record_bytes']}"
        more = f" and {console.count(len(bad) - 1, 'other pass')}" if len(bad) > 1 else ""
        console.note(f"ioassay: {first['name']} of {cell}{more} failed: {first['reason']}".replace("passs", "passes"))
    if bad or wrong:
        raise console.Exit(IoassayError.exit_code)
