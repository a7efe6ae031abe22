"""What fio's jobs say about themselves in their options: engine, files, sizes, and what they leave out of the numbers.

Only what the results repeat of the job file and the command line is read, with fio's own defaults where they are fixed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from ioassay.formats import tool_runs
from ioassay.packs.fio.claims.fio_results import Job, client_name
from ioassay.records.record import RANDOM, SEQUENTIAL

T = TypeVar("T")

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmgtpe]?)(i?b?)", re.I)
_DEFAULT_BLOCK_BYTES = 4096
_MOST_PATHS = 1000
_OPENS_FILES = {"sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap", "splice"}
_WAITS = {"sync", "psync", "pvsync", "pvsync2"}
_ELSEWHERE = {
    *("zonemode", "zonesize", "zonerange", "zoneskip", "read_iolog", "rw_sequencer", "percentage_random", "perc_rand"),
    *("experimental_verify", "trim_percentage", "trim_backlog"),
}
"""Options with which requests go elsewhere than `rw` says alone."""
_VERIFYING = ("verify", "do_verify", "verify_only", "verify_backlog")
_PLACING = {
    *("offset", "start_offset", "offset_increment", "offset_align", "filesize", "fill_device", "fill_fs"),
    *("file_append", "file_service_type", "random_distribution", "opendir", "blockalign", "ba"),
    *("bs_unaligned", "blocksize_unaligned", "loops", "openfiles"),
}
"""Options with which `size` alone does not say what is reached, or not each part as often. Loops repeat their order."""
_WITHOUT_FILES = {"null", "cpuio", "net", "netsplice", "rdma"}


@dataclass(frozen=True)
class JobFacts:
    """Options of all jobs taken together; None or empty where they differ or are not said."""

    engine: str = ""
    direct: bool | None = None
    paths: Sequence[str] = ()
    file_bytes: int | None = None
    record_bytes: Mapping[str, int] = field(default_factory=dict)
    """By direction, where all requests are of one size."""
    paths_stated: bool = False
    """They are the files of `filename`, which the engine opens by these names."""
    fsyncs: bool = False
    writes_per_sync: int | None = None
    synchronous: bool = False
    """Every write is synchronous (`sync`)."""
    unreported: Sequence[str] = ()
    only_kind: str = ""
    """Where all jobs only read, only write or only trim; one that verifies reads as well."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """By direction, where all requests follow one."""
    working_set_bytes: int | None = None
    """What requests reach in the long run, where `size` says it."""
    runs_others: bool = False
    """Commands are run before or after a job, and may use the same files."""


def job_facts(jobs: Sequence[Job]) -> JobFacts:
    """From the options of all jobs; nothing where there are none."""
    tables = [job.options for job in jobs]
    if not any(tables):
        return JobFacts()
    kinds = {kind for table in tables for kind in (*_kinds(table), *(["read"] if _verifies(table) else []))}
    known = [_paths(job) for job in jobs]
    return JobFacts(
        engine=_one(tables, lambda table: table.get("ioengine", "")) or "",
        direct=_one(tables, _direct),
        paths=list(dict.fromkeys(path for paths in known for path in paths)) if all(known) else (),
        file_bytes=_one(tables, _file_bytes),
        record_bytes={
            kind: size
            for place, kind in enumerate(("read", "write", "trim"))
            if (size := _one(tables, partial(_block_bytes, place)))
        },
        paths_stated=all(map(_states_paths, tables)),
        synchronous=all(table.get("sync", "0") in ("1", "sync", "dsync") for table in tables),
        fsyncs=any(map(_synchronises, jobs)),
        writes_per_sync=_one(tables, _writes_per_sync),
        unreported=_unreported(tables),
        only_kind=kinds.pop() if len(kinds) == 1 else "",
        patterns={kind: _one(tables, partial(_pattern, kind)) or "" for kind in ("read", "write")},
        working_set_bytes=_working_set_bytes(jobs),
        runs_others=any(table.keys() & {"exec_prerun", "exec_postrun"} for table in tables),
    )


def by_files(jobs: Sequence[Job]) -> list[Sequence[Job]]:
    """Jobs of one engine and the same files together, since nothing tells their calls apart.

    Where files of some are not known, those of all may be the same. Calls of engines are seen in different ways.
    """
    files, found = [tuple(_paths(job)) for job in jobs], defaultdict[tuple[object, str], list[Job]](list)
    engines = [job.options.get("ioengine", "") for job in jobs]
    known = all(names or engine in _WITHOUT_FILES for names, engine in zip(files, engines, strict=True))
    for job, names, engine in zip(jobs, files, engines, strict=True):
        found[names if known else (), engine].append(job)
    return list(found.values())


def _one(tables: Sequence[Mapping[str, str]], what: Callable[[Mapping[str, str]], T | None]) -> T | None:
    """What all jobs agree on."""
    found = [what(table) for table in tables]
    return found[0] if found and all(value == found[0] for value in found) else None


def _number(table: Mapping[str, str], name: str) -> float:
    """The number that an option begins with: `2s` is 2. A flag without value is 1."""
    if name not in table:
        return 0.0
    match = re.match(r"\d{1,15}(\.\d{1,9})?", table[name] or "1")
    return float(match[0]) if match else 0.0


def _synchronises(job: Job) -> bool:
    """Whether a synchronisation was due: at the end, or once a process had made more writes than the option names."""
    table, writes = job.options, job.directions.get("write")
    each = (writes.ios if writes else 0) / max(_number(table, "numjobs"), 1)
    return bool(_number(table, "end_fsync")) or any(0 < _number(table, name) < each for name in ("fsync", "fdatasync"))


def _writes_per_sync(table: Mapping[str, str]) -> int | None:
    """At most; None without one. Of several files the next one is synchronised (get_next_file in fio's io_u.c).

    Engines that keep writes in flight synchronise in an order of their own among as many of them.
    """
    if _number(table, "nrfiles") > 1 or ":" in table.get("filename", "") or "opendir" in table:
        return None
    depth = 1 if table.get("ioengine", "psync") in _WAITS else max(int(_number(table, "iodepth")), 1)
    numbers = [int(_number(table, name)) for name in ("fsync", "fdatasync")]
    return depth * min(filter(None, numbers), default=0) or None


def _direct(table: Mapping[str, str]) -> bool:
    """Buffered is fio's default; `buffered` is `direct` the other way round."""
    if "direct" in table:
        return bool(_number(table, "direct"))
    return "buffered" in table and not _number(table, "buffered")


def _kinds(table: Mapping[str, str]) -> set[str]:
    rw = table.get("rw", table.get("readwrite", "read"))
    if rw.startswith(("rw", "readwrite", "randrw", "trimwrite", "randtrimwrite")):
        return {"read", "write", "trim"}
    return {next((kind for kind in ("read", "write", "trim") if kind in rw), "read")}


def _pattern(kind: str, table: Mapping[str, str]) -> str:
    """Where requests of one direction go; '' where other options or a number behind `rw` say more than it.

    Verification reads what was written in an order of its own.
    """
    rw = table.get("rw", table.get("readwrite", "read"))
    if ":" in rw or "trim" in rw or table.keys() & _ELSEWHERE:
        return ""
    if kind == "read" and any(name in table for name in _VERIFYING):
        return ""
    return RANDOM if rw.startswith("rand") else SEQUENTIAL


def _working_set_bytes(jobs: Sequence[Job]) -> int | None:
    """`size` of each job, once where all of them use the same files.

    Reads and writes of one job share it: each pass begins again once both together moved so much.
    """
    tables = [job.options for job in jobs]
    placed = any(table.keys() & _PLACING or ("time_based" in table and len(_kinds(table)) > 1) for table in tables)
    size = None if placed else _one(tables, lambda table: _size_option(table, "size"))
    if size is None:
        return None
    if any("filename" in table for table in tables):
        return size if _one(tables, lambda table: table.get("filename")) else None
    entries = Counter(job.name for job in jobs)  # one for each process, or one for all of them with group_reporting
    clones = {name: max(int(_number(job.options, "numjobs")) for job in jobs if job.name == name) for name in entries}
    return size * sum(max(number, clones[name]) for name, number in entries.items())


def _paths(job: Job) -> list[str]:
    """`filename`, or the names that fio makes of a job's name and number, as they stand relative to fio's folder."""
    table = job.options
    folder = table.get("directory", "")
    if table.get("ioengine") in _WITHOUT_FILES:
        return []
    if table.get("filename"):
        names = [name.replace("\\:", ":") for name in re.split(r"(?<!\\):", table["filename"]) if name]
    elif table.keys() & {"filename_format", "opendir"}:
        return []
    else:
        jobs, files = (max(1, int(_number(table, name))) for name in ("numjobs", "nrfiles"))
        places = [(job_number, file) for job_number in range(jobs) for file in range(min(files, _MOST_PATHS + 1))]
        if files > 1 and len(places) > _MOST_PATHS:
            return []
        names = [f"{job.name}.{job_number}.{file}" for job_number, file in places[:_MOST_PATHS]]
    return [f"{folder.rstrip('/')}/{name}" if folder and not name.startswith("/") else name for name in names]


def _states_paths(table: Mapping[str, str]) -> bool:
    """Whether `filename` alone says which files are used: no list of folders, no recorded trace, a file engine."""
    others = table.keys() & {"read_iolog", "filename_format", "opendir"} or ":" in table.get("directory", "")
    return bool(table.get("filename")) and not others and table.get("ioengine", "psync") in _OPENS_FILES


def size_bytes(text: str, kb_base: float = 0) -> int | None:
    """A size as fio reads it; None for a share of something. `4k` and `4kb` are 4096, `4KiB` is 4000.

    The SI and the IEC prefixes are the other way round with kb_base=1000 (fio's HOWTO, "kb_base").
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(match[1]) > 15:
        return None
    iec = match[3].lower().startswith("i")
    base = 1000 if iec == (kb_base != 1000) else 1024
    return int(float(match[1]) * base ** " kmgtpe".index(match[2].lower() or " "))


def _size_option(table: Mapping[str, str], name: str) -> int | None:
    return size_bytes(table[name], _number(table, "kb_base")) if name in table else None


def _file_bytes(table: Mapping[str, str]) -> int | None:
    """Of one file; `size` is that of all files of a job together."""
    several = _number(table, "nrfiles") > 1 or ":" in table.get("filename", "")
    return _size_option(table, "filesize") or (None if several else _size_option(table, "size"))


def _block_bytes(place: int, table: Mapping[str, str]) -> int | None:
    """`bs` is one size, or those of reads, writes and trims; a missing one is that before it."""
    if table.keys() & {"bsrange", "blocksize_range", "bssplit"}:
        return None
    sizes = table.get("bs", table.get("blocksize", str(_DEFAULT_BLOCK_BYTES))).split(",")
    given = [size for size in sizes[: place + 1] if size]
    return size_bytes(given[-1], _number(table, "kb_base")) if given else _DEFAULT_BLOCK_BYTES


def _unreported(tables: Sequence[Mapping[str, str]]) -> list[str]:
    """What fio does and does not count: a ramp, a search for a depth, the fsync after the last write, a pre-read.

    Its clock stops while it verifies between its loops.
    """
    reasons = {"ramp": ("ramp_time", "latency_target"), "pre-read": ("pre_read",)}
    found = [why for why, names in reasons.items() if any(_number(table, name) for table in tables for name in names)]
    ends = all(_number(table, "end_fsync") or _number(table, "fsync_on_close") for table in tables)
    return [*found, *(["end-fsync"] if ends else []), *(["pauses"] if any(map(_verifies, tables)) else [])]


def _verifies(table: Mapping[str, str]) -> bool:
    return table.get("verify", "0") not in ("0", "none", "null")


# The jobs of a command line with their options, for the formats that do not repeat these. Nothing where the command has
# a word whose meaning is not sure. The texts of files of jobs are brought (`expanded`).

_OPTION = re.compile(r"--?([a-zA-Z][\w-]*)(?:=(.*))?", re.S)
_KIND = re.compile(r"^(?:ip[46]?|sock):")
_VALUED = {
    *("name", "filename", "directory", "rw", "readwrite", "bs", "blocksize", "size", "ioengine", "iodepth", "numjobs"),
    *("runtime", "direct", "output", "output-format", "fsync", "fdatasync", "end_fsync", "offset", "io_size", "rate"),
}
"""Options whose value may be the next word."""


is_fio = partial(tool_runs.is_program_of, "fio")


def expanded(words: Sequence[str], files: Mapping[str, str]) -> Sequence[str]:
    """With the options of files of jobs in their places, where that is all that stands in them."""
    found: list[str] = []
    for word in words:
        text = files.get(word)
        found += [word] if text is None or "${" in text else _options(text)
    return found


def _options(text: str) -> list[str]:
    shared: list[str] = []
    found: list[str] = []
    is_shared = False
    for line in map(str.strip, text.splitlines()):
        if section := re.fullmatch(r"\[(.+)\]", line):
            is_shared = section[1] == "global"
            found += [] if is_shared else [f"--name={section[1]}", *shared]
        elif line and not line.startswith(("#", ";")):
            name, sign, value = line.partition("=")
            (shared if is_shared else found).append(f"--{name.strip()}{sign}{value.strip()}")
    return found


def jobs_of(words: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """By the names of the jobs; options before the first name are those of all."""
    shared: dict[str, str] = {}
    jobs: dict[str, dict[str, str]] = {}
    table, rest = shared, iter(words[1:])
    for word in rest:
        match = _OPTION.fullmatch(word)
        if match is None:
            return {}
        name, value = match[1], match[2]
        if value is None and name in _VALUED:
            value = next(rest, "")
        if name == "section":
            return {}
        if name == "name":
            table = jobs.setdefault(value or "", dict(shared))
        elif name == "filename" and name in table:
            table[name] += f":{value}"
        else:
            table[name] = value or ""
    return jobs


def values(words: Sequence[str], name: str) -> list[str]:
    """Those of an option, of whichever job, also where the value is the next word; '' of a flag."""
    found = [(match, after) for word, after in zip(words, [*words, ""][1:], strict=True)
             if (match := _OPTION.fullmatch(word)) and match[1] == name]  # fmt: skip
    return [match[2] if match[2] is not None else after * (not after.startswith("-")) for match, after in found]


def option(words: Sequence[str], name: str) -> str | None:
    """The last of them; None where it is not there."""
    return next(reversed(values(words, name)), None)


def named_servers(argv: Sequence[str]) -> tuple[str, ...]:
    """What a command line gives to `--client`: servers, and files that list some."""
    found = values(tool_runs.words_of(argv, is_fio), "client")
    parts = [_KIND.sub("", text).partition(",") for text in found if text]
    ports = [int(port) if re.fullmatch(r"\d{1,5}", port) else 0 for _, _, port in parts]
    return tuple(
        dict.fromkeys(client_name(part[0] or "localhost", port) for part, port in zip(parts, ports, strict=True))
    )
