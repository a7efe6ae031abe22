"""The options of `ioassay filesuite`: IOzone's letters with their meanings, and names for what it has not.

Only what they mean is here: the engine says which of them go together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ioassay.cli import syntax
from ioassay.errors import UsageError
from ioassay.hints import nearest

CONTENTS = ("random", "iozone", "zeros")
CHECKS = ("inside", "whole", "after", "off")
CACHES = ("leave", "drop", "drop-all", "warm")
SHUFFLES = ("3.471", "3.489")
FORMATS = ("text", "iozone")
USUAL_STRIDE = 17

_WHAT, _SIZES, _INTERVAL = "What is done", "Sizes: a plain number is kB; b, k, m, g", "What the clock includes"
_FILE, _SHOWN, _MORE = "The file", "What comes out", "What IOzone cannot do"
_FACTORS = {"b": 1, "": 1024, "k": 1024, "m": 1024**2, "g": 1024**3}


def _option(*names: str, help_: str, panel: str, metavar: str | None = None) -> Any:
    return syntax.Option(*names, help=help_, panel=panel, metavar=metavar)


Auto = Annotated[
    bool, _option("-a", "--auto", help_="Double sizes: files 64k to 512m, records 4k to 16m.", panel=_WHAT)
]
Tests = Annotated[
    list[str] | None,
    _option("-i", "--test", help_="Test to run, 0 to 12; may be repeated. [0-7]", panel=_WHAT, metavar="N"),
]
Threads = Annotated[
    int, _option("-t", "--threads", help_="Number of threads; each uses its own file.", panel=_WHAT, metavar="N")
]
MinThreads = Annotated[
    int | None, _option("-l", "--min-threads", help_="Smallest number of threads; with -u.", panel=_WHAT, metavar="N")
]
MaxThreads = Annotated[
    int | None,
    _option("-u", "--max-threads", help_="Largest number of threads; each from -l on.", panel=_WHAT, metavar="N"),
]
Processor = Annotated[
    int | None,
    _option("-P", "--processor", help_="Processor of the first thread; the next follow.", panel=_WHAT, metavar="N"),
]
Stride = Annotated[
    int, _option("-j", "--stride", help_="Records from one to the next in test 5.", panel=_WHAT, metavar="N")
]
Jitter = Annotated[bool, _option("-K", "--jitter", help_="Read single bytes elsewhere in test 1.", panel=_WHAT)]
Mmap = Annotated[bool, _option("-B", "--mmap", help_="Map the file into memory, except in tests 6 and 7.", panel=_WHAT)]
MsyncAsync = Annotated[bool, _option("-D", "--msync-async", help_="With -B: msync each record, no wait.", panel=_WHAT)]
MsyncSync = Annotated[bool, _option("-G", "--msync-sync", help_="With -B: msync each record to the disk.", panel=_WHAT)]
Direct = Annotated[bool, _option("-I", "--direct", help_="Use O_DIRECT, except in tests 6 and 7.", panel=_WHAT)]
Sync = Annotated[bool, _option("-o", "--sync", help_="Write with O_SYNC, except in test 6.", panel=_WHAT)]
Fill = Annotated[
    int | None, _option("-V", "--fill", help_="Fill with this byte, and check what is read.", panel=_WHAT, metavar="N")
]
Diagnose = Annotated[bool, _option("--diagnose", help_="As -+d of IOzone: --data random --check whole.", panel=_WHAT)]
Sizes = Annotated[
    list[str] | None, _option("-s", "--size", help_="File size; may be repeated. [512k]", panel=_SIZES, metavar="SIZE")
]
Records = Annotated[
    list[str] | None,
    _option("-r", "--record", help_="Record size; may be repeated. [4k]", panel=_SIZES, metavar="SIZE"),
]
MinSize = Annotated[str | None, _option("-n", "--min-size", help_="Smallest file of -a.", panel=_SIZES, metavar="SIZE")]
MaxSize = Annotated[str | None, _option("-g", "--max-size", help_="Largest file of -a.", panel=_SIZES, metavar="SIZE")]
MinRecord = Annotated[
    str | None, _option("-y", "--min-record", help_="Smallest record of -a.", panel=_SIZES, metavar="SIZE")
]
MaxRecord = Annotated[
    str | None, _option("-q", "--max-record", help_="Largest record of -a.", panel=_SIZES, metavar="SIZE")
]
NoCrossover = Annotated[
    bool, _option("-z", "--no-crossover", help_="With -a: records below 64k for large files, too.", panel=_SIZES)
]
Fsync = Annotated[bool, _option("-e", "--fsync", help_="Include fsync and fflush.", panel=_INTERVAL)]
Close = Annotated[bool, _option("-c", "--close", help_="Include close. Without -e there is no fsync.", panel=_INTERVAL)]
File = Annotated[
    Path | None, _option("-f", "--file", help_="The test file; it is created and deleted.", panel=_FILE, metavar="FILE")
]
Files = Annotated[
    list[Path] | None,
    _option("-F", "--files", help_="Files of the threads; as many names as threads.", panel=_FILE, metavar="FILE"),
]
Keep = Annotated[bool, _option("-w", "--keep", help_="Keep the file; read one that is there.", panel=_FILE)]
Overwrite = Annotated[bool, _option("--overwrite", help_="Replace an existing file.", panel=_FILE)]
Remount = Annotated[
    Path | None,
    _option(
        "-U", "--remount", help_="Unmount and mount this before each pass (root).", panel=_FILE, metavar="MOUNTPOINT"
    ),
]
Repetitions = Annotated[int, _option("--repetitions", help_="Number of repetitions.", panel=_MORE, metavar="N")]
CacheState = Annotated[
    str, _option("--cache", help_="State of the page cache before each read.", panel=_MORE, metavar="|".join(CACHES))
]
Data = Annotated[str, _option("--data", help_="Content of the file.", panel=_MORE, metavar="|".join(CONTENTS))]
CheckWhen = Annotated[
    str | None,
    _option("--check", help_="When to check what was read. [inside]", panel=_MORE, metavar="|".join(CHECKS)),
]
Seed = Annotated[int, _option("--seed", help_="Seed of --data random, and of iozone's byte.", panel=_MORE, metavar="N")]
OrderSeed = Annotated[
    int | None, _option("--order-seed", help_="Seed of the random order. [IOzone's]", panel=_MORE, metavar="N")
]
Shuffle = Annotated[
    str,
    _option("--shuffle", help_="IOzone's version whose random order it is.", panel=_MORE, metavar="|".join(SHUFFLES)),
]
Plain = Annotated[
    bool, _option("--plain", help_="No priming reads, no unreported passes; check afterwards.", panel=_MORE)
]
Format = Annotated[str, _option("--format", help_="The result.", panel=_SHOWN, metavar="|".join(FORMATS))]
Matrices = Annotated[bool, _option("-R", "--matrices", help_="Print a matrix per pass at the end.", panel=_SHOWN)]
OpsPerS = Annotated[bool, _option("-O", "--ops", help_="Report operations per second, not bytes.", panel=_SHOWN)]
UsPerOp = Annotated[bool, _option("-N", "--us-per-op", help_="Report microseconds per operation.", panel=_SHOWN)]
PerThread = Annotated[bool, _option("-C", "--per-thread", help_="Show each thread's bytes and rate.", panel=_SHOWN)]
Workbook = Annotated[
    Path | None,
    _option("-b", "--workbook", help_="Write the matrices as a workbook.", panel=_SHOWN, metavar="FILE.xls"),
]
Latencies = Annotated[
    bool, _option("-Q", "--latencies", help_="Write the latency of each call, a file per pass.", panel=_SHOWN)
]
PosixThreads = Annotated[bool, syntax.Option("-T", "--posix-threads", hidden=True)]
NoStonewall = Annotated[bool, syntax.Option("-x", "--no-stonewall", hidden=True)]
Extensions = Annotated[bool, syntax.Option("-E", "--extensions", hidden=True)]
ListTests = Annotated[bool, _option("--list-tests", help_="List the tests and exit.", panel=_SHOWN)]


def setup(given: Mapping[str, Any], default: Path) -> dict[str, Any]:
    """What the engine is told, `_core.filesuite_run`, from the options by their names; UsageError names a wrong one.

    `default` is the file if none is named.
    """
    same = (
        *("auto", "direct", "sync", "fsync", "close", "overwrite", "plain", "no_crossover", "seed", "repetitions"),
        *("jitter", "keep", "latencies", "processor"),
    )
    told: dict[str, Any] = {name: given[name] for name in same}
    told["path"] = given["file"] or default
    told["remount"] = given["remount"]
    told["stride"] = _at_least("stride", given["stride"], 1)
    _at_least("processor", given["processor"] or 0, 0)
    _at_least("repetitions", given["repetitions"], 1)
    _at_least("seed", given["seed"], 0)
    told |= _threads(given) | _mapping(given)
    told["content"] = _one_of("data", given["data"], CONTENTS)
    told["shuffle"] = _one_of("shuffle", given["shuffle"], SHUFFLES)
    told["cache"] = _one_of("cache", given["cache"], CACHES)
    usual_check = "whole" if given["diagnose"] else "after" if given["plain"] else "inside"
    told["check"] = _one_of("check", given["check"] or usual_check, CHECKS)
    if given["diagnose"] and (told["check"], told["content"], given["fill"]) != ("whole", "random", None):
        raise UsageError("--diagnose (-+d) is given with another --check, --data or -V, wanted one of them")
    if given["tests"]:
        told["tests"] = [number for text in given["tests"] for number in _numbers(text)]
    if given["order_seed"] is not None:
        told["order_key"] = [_at_least("order-seed", given["order_seed"], 0)]
    if given["fill"] is not None:
        if not 0 <= given["fill"] <= 255:
            raise UsageError(f"--fill (-V) is {given['fill']}, wanted a byte: 0 to 255")
        told["fill"] = given["fill"]
    if given["ops"] and given["us_per_op"]:
        raise UsageError("--ops (-O) and --us-per-op (-N) are both given, wanted one of them")
    told["unit"] = "ops_per_s" if given["ops"] else "us_per_op" if given["us_per_op"] else "kib_per_s"
    return told | _matrix(given)


def _threads(given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of threads, and their files."""
    least, most = given["min_threads"], given["max_threads"]
    if (least is None) != (most is None):
        missing = "--max-threads (-u)" if most is None else "--min-threads (-l)"
        raise UsageError(f"{missing} is not given, wanted both of -l and -u, or -t alone")
    if most is not None and given["threads"]:
        raise UsageError("--threads (-t) and --max-threads (-u) are both given, wanted one of them")
    workers = _at_least("threads", given["threads"], 0) if most is None else _at_least("max-threads", most, 1)
    needing = {"files": "-F", "per_thread": "-C", "posix_threads": "-T", "no_stonewall": "-x"}
    for name, letter in needing.items():
        if given[name] and not workers:
            raise UsageError(f"{letter} is given without threads, wanted -t, or -l and -u")
    if given["workbook"] and workers:
        raise UsageError("--workbook (-b) and threads are both given, wanted --json: a cell holds one pass")
    if given["files"] and given["file"]:
        raise UsageError("--files (-F) and --file (-f) are both given, wanted one of them")
    return {"workers": workers, "workers_from": least, "paths": given["files"] or []}


def _mapping(given: Mapping[str, Any]) -> dict[str, Any]:
    """Whether files are mapped, and what follows each write."""
    if given["msync_async"] and given["msync_sync"]:
        raise UsageError("--msync-async (-D) and --msync-sync (-G) are both given, wanted one of them")
    synced = "async" if given["msync_async"] else "sync" if given["msync_sync"] else "never"
    if synced != "never" and not given["mmap"]:
        raise UsageError(f"--msync-{synced} is given without --mmap (-B), whose records it syncs")
    return {"mapped": synced} if given["mmap"] else {}


def _matrix(given: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"files": _sizes("size", given["sizes"]), "records": _sizes("record", given["records"])}
    bounds = {
        "files_from": "min_size",
        "files_to": "max_size",
        "records_from": "min_record",
        "records_to": "max_record",
    }
    for key, name in bounds.items():
        if given[name] is not None:
            told[key] = size_bytes(name.replace("_", "-"), given[name])
    if given["remount"] and given["threads"]:
        raise UsageError("--remount (-U) and --threads (-t) are both given, wanted one of them")
    return told


def need_kib(told: Mapping[str, Any]) -> None:
    """UsageError for sizes that IOzone's table, which has whole kB, would show as something else."""
    for size in (*told["files"], *told["records"]):
        if size % 1024:
            raise UsageError(f"--format iozone has sizes in kB, and {size} bytes are asked for; use --json")


def _sizes(name: str, texts: list[str] | None) -> list[int]:
    return [size_bytes(name, text) for text in texts or ()]


def size_bytes(name: str, text: str) -> int:
    """Bytes of a size as IOzone reads it: a plain number is kB (1024 bytes), k, m and g say it; b is ours."""
    match = re.fullmatch(r"(\d{1,15})([bkmg]?)", text.strip().lower())
    if match is None:
        wanted = "a whole number of kB, or one with k, m or g (powers of 1024), or with b for bytes"
        raise UsageError(f"--{name} is '{text}', wanted {wanted}")
    return int(match[1]) * _FACTORS[match[2]]


def _numbers(text: str) -> list[int]:
    """`3`, `0,1,2` or `0-7`."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part.strip())
        if match is None:
            raise UsageError(f"--test (-i) is '{text}', wanted numbers of tests, such as 0, 0,1 or 0-7")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    if any(number > 12 for number in found):
        raise UsageError(f"--test (-i) is '{text}', wanted 0 to 12 (see: ioassay filesuite --list-tests)")
    return found


def _at_least(name: str, value: int, least: int) -> int:
    if value < least:
        raise UsageError(f"--{name} is {value}, wanted at least {least}")
    return value


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise UsageError(f"--{name} is '{value}', wanted {', '.join(known)}{nearest(value, known)}")
    return value
