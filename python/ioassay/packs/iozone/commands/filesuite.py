"""ioassay filesuite: the file tests that IOzone made known, with the same calls over the same intervals.

Its options are those of IOzone 3.489, and some of its own; the table of docs/filesuite.md is made of `REFUSED`. A
refused option ends with a usage error that says what to use instead. `Command` reads IOzone's command lines: -+d, and
-F with several names. Which options go together is the engine's business.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from ioassay import _core
from ioassay.cli import console, options, syntax
from ioassay.errors import IoassayError, SafetyRefusal, UsageError
from ioassay.hints import nearest
from ioassay.packs.iozone.commands import filesuite_results as results
from ioassay.packs.iozone.commands.filesuite_results import USUAL_STRIDE

CONTENTS = ("random", "iozone", "zeros")
CHECKS = ("inside", "whole", "after", "off")
CACHES = ("leave", "drop", "drop-all", "warm")
SHUFFLES = ("3.471", "3.489")
FORMATS = ("text", "iozone")


class _Option(NamedTuple):
    kind: Any
    names: str
    """The last one, without its dashes, is that of the parameter."""
    help: str
    metavar: str | None = None
    default: Any = None


_HIDDEN = ""
_OPTIONS: Mapping[str, Sequence[_Option]] = {
    "What is done": (
        _Option(bool, "-a --auto", "Double sizes: files 64k to 512m, records 4k to 16m."),
        _Option(list[str], "-i --test", "Test to run, 0 to 12; may be repeated. [0-7]", "N"),
        _Option(int, "-t --threads", "Number of threads; each uses its own file.", "N", 0),
        _Option(int, "-l --min-threads", "Smallest number of threads; with -u.", "N"),
        _Option(int, "-u --max-threads", "Largest number of threads; each from -l on.", "N"),
        _Option(int, "-P --processor", "Processor of the first thread; the next follow.", "N"),
        _Option(int, "-j --stride", "Records from one to the next in test 5.", "N", USUAL_STRIDE),
        _Option(bool, "-K --jitter", "Read single bytes elsewhere in test 1."),
        _Option(bool, "-B --mmap", "Map the file into memory, except in tests 6 and 7."),
        _Option(bool, "-D --msync-async", "With -B: msync each record, no wait."),
        _Option(bool, "-G --msync-sync", "With -B: msync each record to the disk."),
        _Option(bool, "-I --direct", "Use O_DIRECT, except in tests 6 and 7."),
        _Option(bool, "-o --sync", "Write with O_SYNC, except in test 6."),
        _Option(int, "-V --fill", "Fill with this byte, and check what is read.", "N"),
        _Option(bool, "--diagnose", "As -+d of IOzone: --data random --check whole."),
    ),
    "Sizes: a plain number is kB; b, k, m, g": (
        _Option(list[str], "-s --size", "File size; may be repeated. [512k]", "SIZE"),
        _Option(list[str], "-r --record", "Record size; may be repeated. [4k]", "SIZE"),
        _Option(str, "-n --min-size", "Smallest file of -a.", "SIZE"),
        _Option(str, "-g --max-size", "Largest file of -a.", "SIZE"),
        _Option(str, "-y --min-record", "Smallest record of -a.", "SIZE"),
        _Option(str, "-q --max-record", "Largest record of -a.", "SIZE"),
        _Option(bool, "-z --no-crossover", "With -a: records below 64k for large files, too."),
    ),
    "What the clock includes": (
        _Option(bool, "-e --fsync", "Include fsync and fflush."),
        _Option(bool, "-c --close", "Include close. Without -e there is no fsync."),
    ),
    "The file": (
        _Option(Path, "-f --file", "The test file; it is created and deleted.", "FILE"),
        _Option(list[Path], "-F --files", "Files of the threads; as many names as threads.", "FILE"),
        _Option(bool, "-w --keep", "Keep the file; read one that is there."),
        _Option(bool, "--overwrite", "Replace an existing file."),
        _Option(Path, "-U --remount", "Unmount and mount this before each pass (root).", "MOUNTPOINT"),
    ),
    "What IOzone cannot do": (
        _Option(int, "--repetitions", "Number of repetitions.", "N", 1),
        _Option(str, "--cache", "State of the page cache before each read.", "|".join(CACHES), CACHES[0]),
        _Option(str, "--data", "Content of the file.", "|".join(CONTENTS), CONTENTS[0]),
        _Option(str, "--check", "When to check what was read. [inside]", "|".join(CHECKS)),
        _Option(bool, "--plain", "No priming reads, no unreported passes; check afterwards."),
        _Option(str, "--shuffle", "IOzone's version whose random order it is.", "|".join(SHUFFLES), SHUFFLES[0]),
        _Option(int, "--seed", "Seed of --data random, and of iozone's byte.", "N", 1),
        _Option(int, "--order-seed", "Seed of the random order. [IOzone's]", "N"),
    ),
    "What comes out": (
        _Option(str, "--format", "The result.", "|".join(FORMATS), FORMATS[0]),
        _Option(bool, "-R --matrices", "Print a matrix per pass at the end."),
        _Option(bool, "-O --ops", "Report operations per second, not bytes."),
        _Option(bool, "-N --us-per-op", "Report microseconds per operation."),
        _Option(bool, "-C --per-thread", "Show each thread's bytes and rate."),
        _Option(Path, "-b --workbook", "Write the matrices as a workbook.", "FILE.xls"),
        _Option(bool, "-Q --latencies", "Write the latency of each call, a file per pass."),
        _Option(bool, "--list-tests", "List the tests and exit."),
    ),
    _HIDDEN: (
        _Option(bool, "-T --posix-threads", ""),
        _Option(bool, "-x --no-stonewall", ""),
        _Option(bool, "-E --extensions", ""),
    ),
}
"""Heading of the help -> its options, in order."""


def signature() -> inspect.Signature:
    """All options as parameters of the command."""
    parameters = [_parameter(panel, each) for panel, rows in _OPTIONS.items() for each in rows]
    json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=options.Json)
    return inspect.Signature([*parameters, json])


def _parameter(panel: str, each: _Option) -> inspect.Parameter:
    names = each.names.split()
    info = syntax.Option(*names, help=each.help, panel=panel or None, metavar=each.metavar, hidden=panel == _HIDDEN)
    return inspect.Parameter(
        names[-1].strip("-").replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=False if each.kind is bool else each.default,
        annotation=Annotated[each.kind, info],
    )


_REMEDIES = {
    "-A": "-a -z",
    "-d": "the driver fio with startdelay",
    "-H -k": (
        "the driver fio with ioengine=io_uring or libaio and an iodepth: the C library's POSIX AIO serves the requests "
        "of a file one by one, so that a depth never reaches the disk"
    ),
    "-J -+J": "the driver fio with thinktime",
    "-L": "nothing: buffers begin at pages",
    "-m": "--data random, which writes from 256 KiB of buffers",
    "-M": "ioassay doctor, or the host facts of a run",
    "-p": "nothing: the purge would be in the interval",
    "-S": "nothing: no cache is purged",
    "-v": "ioassay --version",
    "-W -+l -+L": "the driver stress_ng with the stressor lockf, which measures locks",
    "-X -Y": "the driver fio with read_iolog",
    "-Z": "two runs, with -B and without",
    "-+a -+C -+M -+Q -+S -+w -+W -+y": "the driver fio with dedupe_percentage and buffer_compress_percentage",
    "-+A": "the driver fio with ioengine=mmap",
    "-+b": "the driver fio with thinktime and thinktime_blocks",
    "-+B": "the driver fio with rw=rw",
    "-+D": "-o, or the driver fio with sync=dsync",
    "-+E": "-w, which reads an existing file where no test writes",
    "-+F": "-i 0 -i 8: the file is written first",
    "-+h -+H -+m -+P -+t": "a run on each host, and ioassay compare",
    "-+k": "-s with the size of each thread's file",
    "-+K -+p": "the driver fio with rwmixread",
    "-+n": "nothing: each pass is a result of its own",
    "-+N": "-i 9, which never truncates",
    "-+q": "the key run.cooldown of a study",
    "-+r": "-o: Linux treats O_RSYNC as O_SYNC, which only writes feel",
    "-+R": "-F",
    "-+T": "--json, where each pass has start_ns and end_ns",
    "-+u": "a study with the monitor cpu",
    "-+V": "the driver fio with one filename and numjobs",
    "-+x": "-s and -r, each size named",
    "-+X": "the driver null, which measures the overhead",
    "-+z": '-Q, or the driver fio with logs = ["hist"]',
    "-+Z": "--data iozone",
}
"""IOzone's options that are refused, and what to use instead; `nothing: ` why none is needed."""
REFUSED = {name: instead for names, instead in _REMEDIES.items() for name in names.split()}
_DIAGNOSIS = "-+d"


class Command(syntax.Command):
    """`ioassay filesuite`, which also reads what IOzone spells unlike others, and names what it refuses."""

    def values(self, words: Sequence[str]) -> dict[str, Any] | None:
        """See syntax.Command."""
        return super().values(_usual_words(words))

    def _option(self, name: str) -> syntax.Parameter:
        _refuse(name)
        return super()._option(name)


def _refuse(name: str) -> None:
    if instead := REFUSED.get(name):
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


def table() -> str:
    """The refused options as rows of a table in Markdown, those with the same remedy together."""
    remedies: dict[str, list[str]] = {}
    for name, instead in REFUSED.items():
        remedy = re.split(": |, which", instead.removeprefix("nothing: "))[0]
        remedies.setdefault(remedy, []).append(f"`{name}`")
    rows = [f"| {' '.join(names)} | {remedy} |" for remedy, names in remedies.items()]
    return "\n".join(["| refused | use instead, or why |", "|---|---|", *rows])


_T = TypeVar("_T")
_FACTORS = {"b": 1, "": 1024, "k": 1024, "m": 1024**2, "g": 1024**3}
_SAME = (
    *("auto", "direct", "sync", "fsync", "close", "overwrite", "plain", "no_crossover", "seed", "repetitions"),
    *("jitter", "keep", "latencies", "processor", "remount", "stride"),
)
"""Options that the engine takes as they are."""
_CHOICES = {"data": CONTENTS, "shuffle": SHUFFLES, "cache": CACHES, "check": CHECKS}
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
    app.members["filesuite"] = Command(filesuite)


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
    _one_of("format", given["format"], FORMATS)
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


filesuite.__signature__ = signature()  # type: ignore[attr-defined]


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
