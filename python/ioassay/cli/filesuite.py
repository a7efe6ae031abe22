"""ioassay filesuite: the file tests that IOzone made known, with the same calls over the same intervals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ioassay.cli import console, options, syntax
from ioassay.cli import filesuite_options as wanted
from ioassay.errors import IoassayError, SafetyRefusal, UsageError


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("filesuite")(filesuite)


def filesuite(
    auto: wanted.Auto = False,
    tests: wanted.Tests = None,
    threads: wanted.Threads = 0,
    direct: wanted.Direct = False,
    sync: wanted.Sync = False,
    fill: wanted.Fill = None,
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
    overwrite: wanted.Overwrite = False,
    remount: wanted.Remount = None,
    repetitions: wanted.Repetitions = 1,
    cache: wanted.CacheState = "leave",
    data: wanted.Data = "random",
    check: wanted.CheckWhen = None,
    plain: wanted.Plain = False,
    seed: wanted.Seed = 1,
    order_seed: wanted.OrderSeed = None,
    format: wanted.Format = "text",
    matrices: wanted.Matrices = False,
    ops: wanted.OpsPerS = False,
    us_per_op: wanted.UsPerOp = False,
    list_tests: wanted.ListTests = False,
    json: options.Json = False,
) -> None:
    """Write and read a file in records, in thirteen ways, and report the speed of each pass.

    The letters are those of IOzone. The file is made for it, and deleted at the end.
    """
    given = dict(locals())
    from ioassay import _core
    from ioassay.cli import filesuite_text

    if list_tests:
        known = _core.filesuite_tests()
        console.emit({"tests": known}) if json else filesuite_text.tests(known)
        return
    if format not in wanted.FORMATS:
        raise UsageError(f"--format is '{format}', wanted {', '.join(wanted.FORMATS)}")
    told = wanted.setup(given, Path(f"ioassay-filesuite.{os.getpid()}.tmp"))
    if format == "iozone":
        wanted.need_kib(told)
    found = _run(told, filesuite_text.progress(told, quiet=json))
    result = filesuite_text.result(told, found)
    if json:
        console.emit(result)
    elif format == "iozone":
        filesuite_text.as_iozone(told, found, matrices=matrices)
    else:
        filesuite_text.describe(result, told["unit"], matrices=matrices)
    _end(result)


def _run(told: dict[str, Any], on_pass: Any) -> dict[str, Any]:
    """The engine's results; its errors as those of ours."""
    from ioassay import _core

    try:
        return _core.filesuite_run(told, on_pass)
    except _core.RefusalError as error:
        raise SafetyRefusal(str(error)) from None
    except _core.CoreError as error:
        raise UsageError(str(error).removeprefix("filesuite.")) from None
    finally:
        if on_pass is not None:
            on_pass(None)


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
