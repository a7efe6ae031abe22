"""Every path that a job reads or writes, found as fio finds them, so that each can be examined before anything runs.

A job that only reads also writes where fio has to lay its file out first: when the file is missing or shorter than the
job's size, fio writes it anew (`extend_file` in filesetup.c). A job whose *name* is a device loads that device
(`exists_and_not_regfile` in filesetup.c). Paths that only fio can compute are refused.
What else fio's processes must be able to change is at the end (`ioassay.runner.confinement` asks for it).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

from ioassay.errors import StudyError
from ioassay.packs.fio.fio_options import (
    COMPUTED,
    ELSEWHERE,
    SPDK,
    FileOption,
    Section,
    control_character,
    engines,
    fio_bytes,
)
from ioassay.roles import READ, WRITE, Confinement, External, Touch

_DEFAULT_FORMAT = "$jobname.$jobnum.$filenum"
MOST_FILES = 100_000
"""Of one job: each is looked at before anything runs."""
_WRITING_ACTIONS = ("write", "trim")
_ACTIONS = ("add", "open", "close", "read", "write", "sync", "datasync", "trim")
_LOG_LINE_BYTES = 4094
_LOG_NAME_BYTES = 255
_NAME_BYTES = 255
"""NAME_MAX of Linux (limits.h): of a file or folder."""
_DEPTH_SLACK_BYTES = 1 << 20


def touches(jobs: Sequence[Section], folder: Path) -> list[Touch]:
    """All paths of the jobs, each once with its strongest access; relative ones start at `folder`.

    What is written has the size that it may grow to, at most: a sparse or compressed file takes less.
    """
    strongest: dict[Path, Touch] = {}
    for touch in (touch for job in jobs for touch in _touches(job, folder)):
        known = strongest.get(touch.path, touch)
        if touch.access == known.access == WRITE:
            sizes = (known.size_bytes, touch.size_bytes)
            touch = replace(touch, size_bytes=None if None in sizes else max(size or 0 for size in sizes))
        strongest[touch.path] = known if known.access == WRITE != touch.access else touch
    return list(strongest.values())


def _touches(job: Section, folder: Path) -> Iterator[Touch]:
    for name in ("filename", "directory", "opendir", "filename_format", "read_iolog", "replay_redirect", "mem"):
        if COMPUTED.search(job.options.get(name, "")):
            why = "is computed by fio, so what it touches cannot be checked; write the path itself"
            raise StudyError(f"[{job.name}] {name}={job.options[name]} {why}")
    if job.engine not in ELSEWHERE:
        replayed = list(_replayed(job, folder)) if "read_iolog" in job.options else []
        ends = {touch.path: touch.size_bytes for touch in replayed}
        yield from replayed
        reach = cache(partial(reach_bytes, job))  # the same of the many files that are not there yet
        for path in _files(job, folder):
            missing, size_bytes = layout(job, path, reach)
            if "read_iolog" in job.options:
                size_bytes = ends.get(path)
            elif job.engine in engines("empty"):
                size_bytes = 0
            yield Touch(path, WRITE, size_bytes) if job.writes or missing else Touch(path, READ)
    elif job.flag("unlink") or job.flag("unlink_each_loop"):  # fio does so whatever the engine, also for `null`
        yield from (Touch(path, WRITE) for path in _files(job, folder))
    yield from overwritten_files(job, folder)


def overwritten_files(job: Section, folder: Path) -> Iterator[Touch]:
    """Files that a job overwrites and that are not what it loads.

    mem=mmap:/path keeps all buffers of one job in a file (`init_io_u_buffers` in backend.c). The donor of e4defrag lies
    below `directory` as it stands (engines/e4defrag.c).
    """
    if backing := job.options.get("mem", "").partition(":")[2]:
        buffers_bytes = max(job.block_sizes_bytes(), default=0) * job.number("iodepth", 1)
        yield Touch(folder / backing, WRITE, buffers_bytes + _DEPTH_SLACK_BYTES)
    if donor := job.options.get("donorname", ""):
        place = job.options.get("directory", "")
        path = folder / (f"{place}/{donor}" if place else donor)
        yield Touch(path, WRITE, layout(job, path)[1])


def _files(job: Section, folder: Path) -> Iterator[Path]:
    for name in file_names(job, folder):
        if name == "-":  # standard input or output
            continue
        longest = max(name.split("/"), key=lambda part: len(part.encode(errors="replace")))
        if (size_bytes := len(longest.encode(errors="replace"))) > _NAME_BYTES:
            why = f"has {size_bytes} bytes; expected at most {_NAME_BYTES}"
            raise StudyError(f"[{job.name}] the file name {longest[:40]!r}… {why}")
        yield folder / name


def file_names(job: Section, folder: Path) -> list[str]:
    """The names of all files of a job and its clones, spelled as fio spells them (`add_file` in filesetup.c)."""
    named = list(islice(_named(job.files, folder), MOST_FILES + 1))
    if len(named) > MOST_FILES:
        raise StudyError(f"[{job.name}] opens more than {MOST_FILES} files, which cannot all be looked at")
    if named or "read_iolog" in job.options or any(option.name == "filename" for option in job.files):
        return named
    return list(_default_names(job, folder))


def _named(options: Sequence[FileOption], folder: Path) -> Iterator[str]:
    """The files of options. All clones share them, so that only the first folder of a list counts."""
    for option in options:
        first = next(iter(split(option.directory)), "")
        names = split(option.value) if option.name == "filename" else _tree(option.value, folder)
        yield from (f"{first}/{name}" if first else name for name in names)


def split(text: str) -> list[str]:
    """The names of a list separated by ':', where a backslash before ':' keeps it (`get_next_str` in options.c)."""
    names = re.split(r"(?<!\\):", text.lstrip(":"))
    return [name.replace("\\:", ":") for name in names if name]


def _default_names(job: Section, folder: Path) -> Iterator[str]:
    """Names that fio makes itself: each clone takes its own folder of the list, in turn (`set_name_idx`)."""
    order = list(job.options)
    # An `opendir` that finds nothing sets `nrfiles` to 0 (`str_opendir_cb`), unless it is set after it.
    emptied = "opendir" in order and ("nrfiles" not in order or order.index("nrfiles") < order.index("opendir"))
    files = 0 if emptied else job.number("nrfiles", 1)
    if (wanted := max(files, 1) * job.numjobs) > MOST_FILES:
        raise StudyError(f"[{job.name}] makes {wanted} files; expected at most {MOST_FILES}")
    folders = split(job.options.get("directory", ""))
    try:
        loads_its_name = files == 1 and not stat.S_ISREG((folder / job.name).lstat().st_mode)
    except OSError:
        loads_its_name = False
    pattern = job.options.get("filename_format") or _DEFAULT_FORMAT
    for clone in range(job.numjobs):
        pieces = _around_number(pattern, job.name, clone)
        for number in range(files):
            name = job.name if loads_its_name else str(number).join(pieces)
            yield f"{folders[clone % len(folders)]}/{name}" if folders else name


def _around_number(pattern: str, job_name: str, clone: int) -> list[str]:
    name = re.sub(r"(?i)\$jobnum", str(clone), re.sub(r"(?i)\$jobname", lambda _: job_name, pattern))
    return [re.sub(r"(?i)\$clientuid", "", piece) for piece in re.split(r"(?i)\$filenum", name)]


def _tree(text: str, folder: Path) -> Iterator[str]:
    """Every regular file below a folder, no link followed (`recurse_dir` in filesetup.c). fio takes one folder only."""
    for place, _, names in os.walk(folder / text):
        inside = os.path.relpath(place, folder / text)
        start = text if inside == "." else f"{text}/{inside}"
        for name in names:
            with suppress(OSError):
                if stat.S_ISREG(os.lstat(Path(place, name)).st_mode):
                    yield f"{start}/{name}"


def layout(job: Section, path: Path, reach: Callable[[int], int | None] | None = None) -> tuple[bool, int | None]:
    """Whether fio would write the file before reading it, and how large the file may become (`setup_files`).

    It writes what is missing, or shorter than the job wants. What only fio can tell counts as too large, and has no
    size: fio cuts a file to nothing before it lays it out.
    """
    try:
        status = path.stat()
    except OSError:
        return True, reach(0) if reach else reach_bytes(job, 0)
    if not stat.S_ISREG(status.st_mode):
        return False, 0
    end = reach_bytes(job, status.st_size)
    return (True, None) if end is None else (end > status.st_size, max(end, status.st_size))


def reach_bytes(job: Section, there_bytes: int) -> int | None:
    """Up to where the job wants a file of `there_bytes`, at most; None when it cannot be told.

    Without `size` and `filesize` fio takes the file as it is, and a percentage as `size` never reaches past its end.
    """
    sizes: list[int | None] = [0]  # nothing, or a share of what is there, is asked for
    if "filesize" in job.options:  # a size, or a range of two; size is no more than a limit then
        sizes = [fio_bytes(text, job.kb_base) for text in re.split("[-:]", job.options["filesize"])]
    elif share := re.fullmatch(r"(\d+)%", job.options.get("size", "")):
        sizes = [0 if int(share[1]) <= 100 else None]
    elif "size" in job.options:
        named = sum(len(split(option.value)) for option in job.files if option.name == "filename")
        whole = job.bytes("size")
        sizes = [None if whole is None else -(-whole // (named or max(job.number("nrfiles", 1), 1)))]
    if None in sizes:
        return None
    if not (each := max(size or 0 for size in sizes)):
        return 0
    offsets = []
    for name in ("offset", "offset_increment", "offset_align"):
        text = job.options.get(name, "0")
        share = re.fullmatch(r"(\d+)%", text)
        offsets.append(-(-there_bytes * int(share[1]) // 100) if share else fio_bytes(text, job.kb_base))
    if None in offsets:  # a number of zones
        return None
    offset, increment, alignment = (found or 0 for found in offsets)
    return each + offset + increment * (job.numjobs - 1) + alignment


def _replayed(job: Section, folder: Path) -> Iterator[Touch]:
    """The log that is replayed, and what it touches: the names it has, or the path it is redirected to.

    fio adds the names of a text log below the clone's folder, devices bare.
    """
    places = ["", *(f"{directory}/" for directory in split(job.options.get("directory", "")))]
    for text in split(job.options["read_iolog"]):
        log = folder / text
        yield Touch(log, READ)
        if "replay_redirect" in job.options:
            named = [Touch(Path(job.options["replay_redirect"].replace("\\:", ":")), WRITE, None)]
        else:
            named = _named_in(log, job.name)
        for touch, path in ((touch, folder / f"{place}{touch.path}") for touch in named for place in places):
            yield replace(touch, path=path, size_bytes=0 if path.is_block_device() else touch.size_bytes)


def _named_in(log: Path, job_name: str) -> list[Touch]:
    """Names in a text log of fio, each with its strongest access and the end of the last write to it.

    Lines are `file action …`, in version 3 with a time stamp before. What fio could read otherwise is refused: it takes
    at most 4095 bytes as one line and 256 as one name, and no name that was not added (`read_iolog` in iolog.c).
    """
    this = f"[{job_name}] read_iolog {log}"
    try:
        if not log.is_file():
            raise StudyError(f"{this} is no regular file; expected a log that can be read before")
        lines = log.read_bytes().decode("utf-8").split("\n")
    except OSError as error:
        raise StudyError(f"{this} cannot be read: {error.strerror}") from None
    except UnicodeError:
        lines = [""]
    heading = re.fullmatch(r"fio version ([23]) iolog\r?", lines[0])
    if heading is None:
        raise StudyError(f"{this} is a binary trace, whose devices cannot be checked; add replay_redirect")
    writes: dict[str, bool] = {}
    ends: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        line = line.removesuffix("\r")
        words = line.split()[int(heading[1]) - 2 :]
        if not line.strip() or (len(words) >= 2 and words[1] == "wait"):
            continue
        if (
            len(line.encode()) > _LOG_LINE_BYTES
            or control_character(line) is not None
            or words != [word for word in re.split(r"[ \t]+", line) if word][int(heading[1]) - 2 :]
        ):
            why = "is too long or has control characters, so fio may read it otherwise"
            raise StudyError(f"{log}, line {number}: {why}")
        if len(words) < 2 or len(words[0].encode()) > _LOG_NAME_BYTES or words[1] not in _ACTIONS:
            wanted = f"expected a name of at most {_LOG_NAME_BYTES} bytes and one of {', '.join(_ACTIONS)}"
            raise StudyError(f"{log}, line {number}: '{line[:60]}' is no action of an iolog; {wanted}")
        name, action, *place = words
        if action != "add" and name not in writes:
            raise StudyError(f"{log}, line {number}: {name} was not added before; expected a line '{name} add'")
        writes[name] = writes.get(name, False) or action in _WRITING_ACTIONS
        if action == "write" and len(place) == 2 and all(map(str.isdecimal, place)):
            ends[name] = max(ends.get(name, 0), sum(map(int, place)))
    return [Touch(Path(name), WRITE if own else READ, ends.get(name, 0)) for name, own in writes.items()]


_WITHOUT_END = ("fill_device", "file_append")
_REPLACING = ("unlink", "unlink_each_loop", "fill_device")
_GROUPS = Path("/sys/fs/cgroup")
"""What fio's option `cgroup` writes below (cgroup.c)."""
_DEVICES = {"libcufile": "nvidia*"}
"""Engines that take device nodes of their own, by ioctl calls: their names below /dev."""
_SPDK_SOCKETS = Path("/var/tmp")
"""Where SPDK's block layer makes the socket that it reads its configuration through (json_config.c)."""
_OF_SPDK = {"spdk_json_conf", "spdk_conf", "env_context"}


def confinement(jobs: Sequence[Section], folder: Path) -> Confinement:
    """What the processes of all these jobs need; relative paths start at `folder`."""
    host: list[Path] = []
    layouts: dict[Path, None] = {}
    waivers: dict[str, None] = {}
    for job in jobs:
        # spdk_bdev as the lab configures it reaches a socket, from memory of its own (`job.emit`).
        own_memory = job.engine == "spdk_bdev" and not _OF_SPDK & job.options.keys()
        host += [_GROUPS] if "cgroup" in job.options else []
        host += [_SPDK_SOCKETS] if own_memory else []
        host += sorted(Path("/dev").glob(_DEVICES[job.engine])) if job.engine in _DEVICES else []
        if job.engine in SPDK:
            waivers |= {} if own_memory else {f"ioengine {job.engine} maps huge pages and devices by itself": None}
        elif consented := next(externals(job), None):
            waivers[f"{consented.option} {consented.effect}, which was consented to"] = None
        # Files that fio makes, or unlinks to make them anew: extend_file in filesetup.c does so where a job writes too.
        buffers = {touch.path for touch in overwritten_files(job, folder)}
        # A replayed log may have lines that unlink what it names (read_iolog2 in iolog.c).
        replaces = job.engine in engines("changing", "empty") or any(job.flag(name) for name in _REPLACING)
        replaces = replaces or "read_iolog" in job.options
        written = (touch.path for touch in touches([job], folder) if touch.access == WRITE)
        layouts |= dict.fromkeys(path for path in written if path not in buffers and (replaces or layout(job, path)[0]))
    return Confinement(layouts=list(layouts), host=list(dict.fromkeys(host)), waiver="; ".join(waivers))


def refuse_endless(jobs: Sequence[Section], folder: Path) -> None:
    """StudyError for a job whose files grow with every trial, or until their file system is full."""
    for job in jobs:
        asked = [name for name in _WITHOUT_END if job.flag(name)]
        if not asked or job.engine in ELSEWHERE:
            continue
        if files := [touch.path for touch in touches([job], folder) if not touch.path.is_block_device()]:
            grows = "until its file system is full" if asked[0] == "fill_device" else "with every trial"
            instead = "remove it and give the file its size, or load a device"
            raise StudyError(f"[{job.name}] {asked[0]} lets {files[0]} grow {grows}; {instead}")


# What a job does that no check of paths can see; each needs the user's consent (`--allow-exec`). Engines are known by a
# list of those whose effects are files and devices of this machine: one that is not on it counts as one that writes
# elsewhere.


def externals(job: Section) -> Iterator[External]:
    """All of one job, each by the option that does it."""
    for name in ("exec_prerun", "exec_postrun"):
        if command := job.options.get(name):
            yield External(f"[{job.name}] {name}={command}", "runs a command through a shell")
    if "profile" in job.options:
        yield External(f"[{job.name}] profile={job.options['profile']}", "replaces the job by one of fio's own")
    for name, value in job.options.items():
        if "'" in value and any(word in value for word in ("$pagesize", "$mb_memory", "$ncpus")):
            yield External(f"[{job.name}] {name}={value}", "gives its text to a shell")
    text, effect = job.options.get("ioengine", ""), ""
    if text.startswith("external:") or "/" in text:
        effect = "loads a program's code into fio"
    elif job.engine in engines("network"):
        place = "there" if job.engine == "rdma" else "on every network interface"
        effect = f"sends to another host, or listens {place}"
    elif job.engine == "exec":
        effect = f"runs the program {job.options.get('program', 'that it names')}"
    elif job.engine == "nbd" and job.writes and "uri" in job.options:
        effect = f"writes to the server {job.options['uri']}, which cannot be examined"
    elif job.engine not in engines("local") | SPDK | {"nbd"} and job.writes:
        effect = "writes to storage that cannot be examined"
    if effect:
        yield External(f"[{job.name}] ioengine={text}", effect)
