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
from ioassay.packs.fio.fio_options import Section, canonical, engines, fio_bytes, option_list
from ioassay.records.record import RANDOM, SEQUENTIAL

T = TypeVar("T")

_MOST_PATHS = 1000
_WITHOUT_FILES = engines("fileless")


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
    if not any(job.options for job in jobs):
        return JobFacts()
    sections = [_section(job) for job in jobs]
    kinds = set().union(*(one.directions | ({"read"} if _verifies(one) else set()) for one in sections))
    known = [_paths(one) for one in sections]
    # What fio does and does not count: a ramp, a search for a depth, the fsync after the last write, a pre-read.
    reasons = {"ramp": ("ramp_time", "latency_target"), "pre-read": ("pre_read",)}
    unreported = [why for why, names in reasons.items() if any(one.flag(name) for one in sections for name in names)]
    unreported += ["end-fsync"] if all(one.flag("end_fsync") or one.flag("fsync_on_close") for one in sections) else []
    unreported += ["pauses"] if any(map(_verifies, sections)) else []  # its clock stops while it verifies between loops
    # `filename` alone says which files are used: no list of folders, no recorded trace, a file engine.
    paths_stated = all(
        one.options.get("filename")
        and not one.options.keys() & {"read_iolog", "filename_format", "opendir"}
        and ":" not in one.options.get("directory", "")
        and one.engine in engines("opening")
        for one in sections
    )

    def file_bytes(one: Section) -> int | None:
        """Of one file; `size` is that of all files of a job together."""
        return one.bytes("filesize") or (None if _has_several_files(one) else one.bytes("size"))

    return JobFacts(
        engine=_one(sections, _engine) or "",
        direct=_one(sections, lambda one: one.direct),
        paths=list(dict.fromkeys(path for paths in known for path in paths)) if all(known) else (),
        file_bytes=_one(sections, file_bytes),
        record_bytes={
            kind: size
            for place, kind in enumerate(("read", "write", "trim"))
            if (size := _one(sections, partial(_block_bytes, place)))
        },
        paths_stated=paths_stated,
        synchronous=all(one.options.get("sync", "0") in ("1", "sync", "dsync") for one in sections),
        fsyncs=any(map(_synchronises, sections, jobs)),
        writes_per_sync=_one(sections, _writes_per_sync),
        unreported=unreported,
        only_kind=kinds.pop() if len(kinds) == 1 else "",
        patterns={kind: _one(sections, partial(_pattern, kind)) or "" for kind in ("read", "write")},
        working_set_bytes=_working_set_bytes(sections),
        runs_others=any(one.options.keys() & {"exec_prerun", "exec_postrun"} for one in sections),
    )


def by_files(jobs: Sequence[Job]) -> list[Sequence[Job]]:
    """Jobs of one engine and the same files together, since nothing tells their calls apart.

    Where files of some are not known, those of all may be the same. Calls of engines are seen in different ways.
    """
    sections, found = [_section(job) for job in jobs], defaultdict[tuple[object, str], list[Job]](list)
    files = [tuple(_paths(one)) for one in sections]
    known = all(names or _engine(one) in _WITHOUT_FILES for names, one in zip(files, sections, strict=True))
    for job, names, one in zip(jobs, files, sections, strict=True):
        found[names if known else (), _engine(one)].append(job)
    return list(found.values())


def _section(job: Job) -> Section:
    return Section(job.name, {canonical(name): value for name, value in job.options.items()})


def _engine(one: Section) -> str:
    """Empty where it is not said."""
    return one.options.get("ioengine", "")


def _one(sections: Sequence[Section], what: Callable[[Section], T | None]) -> T | None:
    """What all jobs agree on."""
    found = [what(one) for one in sections]
    return found[0] if found and all(value == found[0] for value in found) else None


def _synchronises(one: Section, job: Job) -> bool:
    """Whether a synchronisation was due: at the end, or once a process had made more writes than the option names."""
    writes = job.directions.get("write")
    each = (writes.ios if writes else 0) / one.numjobs
    return one.flag("end_fsync") or any(0 < one.number(name, 0) < each for name in ("fsync", "fdatasync"))


def _writes_per_sync(one: Section) -> int | None:
    """At most; None without one. Of several files the next one is synchronised (get_next_file in fio's io_u.c).

    Engines that keep writes in flight synchronise in an order of their own among as many of them.
    """
    if _has_several_files(one) or "opendir" in one.options:
        return None
    depth = 1 if one.engine in engines("unqueued") else max(one.number("iodepth", 1), 1)
    numbers = [one.number(name, 0) for name in ("fsync", "fdatasync")]
    return depth * min(filter(None, numbers), default=0) or None


def _has_several_files(one: Section) -> bool:
    return one.number("nrfiles", 1) > 1 or ":" in one.options.get("filename", "")


def _pattern(kind: str, one: Section) -> str:
    """Where requests of one direction go; '' where other options or a number behind `rw` say more than it.

    Verification reads what was written in an order of its own.
    """
    rw = one.options.get("rw", "read")
    if ":" in rw or "trim" in rw or one.options.keys() & option_list("redirecting"):
        return ""
    if kind == "read" and one.options.keys() & option_list("verifying"):
        return ""
    return RANDOM if rw.startswith("rand") else SEQUENTIAL


def _working_set_bytes(sections: Sequence[Section]) -> int | None:
    """`size` of each job, once where all of them use the same files.

    Reads and writes of one job share it: each pass begins again once both together moved so much.
    """
    placed = any(
        one.options.keys() & option_list("placing")
        or ("time_based" in one.options and len(one.directions) > 1)
        # A synchronisation takes the turn of one of several files, which then serves fewer requests.
        or (_has_several_files(one) and one.options.keys() & {"fsync", "fdatasync"})
        for one in sections
    )
    size = None if placed else _one(sections, lambda one: one.bytes("size"))
    if size is None:
        return None
    if any("filename" in one.options for one in sections):
        return size if _one(sections, lambda one: one.options.get("filename")) else None
    entries = Counter(one.name for one in sections)  # one for each process, or one for all of them with group_reporting
    clones = {name: max(one.numjobs for one in sections if one.name == name) for name in entries}
    return size * sum(max(number, clones[name]) for name, number in entries.items())


def _paths(one: Section) -> list[str]:
    """`filename`, or the names that fio makes of a job's name and number, as they stand relative to fio's folder."""
    folder, named = one.options.get("directory", ""), one.options.get("filename")
    if one.engine in _WITHOUT_FILES:
        return []
    if named:
        names = [name.replace("\\:", ":") for name in re.split(r"(?<!\\):", named) if name]
    elif one.options.keys() & {"filename_format", "opendir"}:
        return []
    else:
        files = max(1, one.number("nrfiles", 1))
        places = [(number, file) for number in range(one.numjobs) for file in range(min(files, _MOST_PATHS + 1))]
        if files > 1 and len(places) > _MOST_PATHS:
            return []
        names = [f"{one.name}.{number}.{file}" for number, file in places[:_MOST_PATHS]]
    return [f"{folder.rstrip('/')}/{name}" if folder and not name.startswith("/") else name for name in names]


def _block_bytes(place: int, one: Section) -> int | None:
    """`bs` is one size, or those of reads, writes and trims; a missing one is that before it."""
    if one.options.keys() & {"bsrange", "bssplit"}:
        return None
    given = [size for size in one.options.get("bs", "").split(",")[: place + 1] if size]
    return fio_bytes(given[-1] if given else "4096", one.kb_base)


def _verifies(one: Section) -> bool:
    return one.options.get("verify", "0") not in ("0", "none", "null")


# The jobs of a command line with their options, for the formats that do not repeat these. Nothing where the command has
# a word whose meaning is not sure. The texts of files of jobs are brought (`expanded`).

_OPTION = re.compile(r"--?([a-zA-Z][\w-]*)(?:=(.*))?", re.S)
_KIND = re.compile(r"^(?:ip[46]?|sock):")
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
        if value is None and name in option_list("valued"):
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
