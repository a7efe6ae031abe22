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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ioassay.errors import StudyError
from ioassay.pack import words
from ioassay.packs.fio.driver.fio_options import (
    COMPUTED,
    ELSEWHERE,
    SPDK,
    FileOption,
    Section,
    control_character,
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


def touches(jobs: Sequence[Section], folder: Path) -> list[Touch]:
    """All paths of the jobs, each once with its strongest access; relative ones start at `folder`."""
    strongest: dict[Path, str] = {}
    for job in jobs:
        for touch in _touches(job, folder):
            if strongest.get(touch.path) != WRITE:
                strongest[touch.path] = touch.access
    return [Touch(path, access) for path, access in strongest.items()]


def _touches(job: Section, folder: Path) -> Iterator[Touch]:
    for name in ("filename", "directory", "opendir", "filename_format", "read_iolog", "replay_redirect", "mem"):
        if COMPUTED.search(job.options.get(name, "")):
            why = "is computed by fio, so what it touches cannot be checked; write the path itself"
            raise StudyError(f"[{job.name}] {name}={job.options[name]} {why}")
    if job.engine not in ELSEWHERE:
        if "read_iolog" in job.options:
            yield from _replayed(job, folder)
        for path in _files(job, folder):
            yield Touch(path, WRITE if job.writes or is_laid_out(job, path) else READ)
    elif job.flag("unlink") or job.flag("unlink_each_loop"):  # fio does so whatever the engine, also for `null`
        yield from (Touch(path, WRITE) for path in _files(job, folder))
    yield from overwritten_files(job, folder)


def overwritten_files(job: Section, folder: Path) -> Iterator[Touch]:
    """Files that a job overwrites and that are not what it loads.

    mem=mmap:/path keeps the buffers in a file. The donor of e4defrag lies below `directory` as it stands
    (engines/e4defrag.c).
    """
    if backing := job.options.get("mem", "").partition(":")[2]:
        yield Touch(folder / backing, WRITE)
    if donor := job.options.get("donorname", ""):
        place = job.options.get("directory", "")
        yield Touch(folder / (f"{place}/{donor}" if place else donor), WRITE)


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
        for number in range(files):
            name = job.name if loads_its_name else _name_of(pattern, job.name, clone, number)
            yield f"{folders[clone % len(folders)]}/{name}" if folders else name


def _name_of(pattern: str, job_name: str, clone: int, number: int) -> str:
    name = re.sub(r"(?i)\$jobname", lambda _: job_name, pattern)
    name = re.sub(r"(?i)\$jobnum", str(clone), name)
    return re.sub(r"(?i)\$clientuid", "", re.sub(r"(?i)\$filenum", str(number), name))


def _tree(text: str, folder: Path) -> Iterator[str]:
    """Every regular file below a folder, no link followed (`recurse_dir` in filesetup.c). fio takes one folder only."""
    for place, _, names in os.walk(folder / text):
        inside = os.path.relpath(place, folder / text)
        start = text if inside == "." else f"{text}/{inside}"
        for name in names:
            with suppress(OSError):
                if stat.S_ISREG(os.lstat(Path(place, name)).st_mode):
                    yield f"{start}/{name}"


def is_laid_out(job: Section, path: Path) -> bool:
    """Whether fio would write the file before reading it: it is missing, or shorter than the job wants.

    What only fio can tell counts as too large: fio cuts a file to nothing before it lays it out.
    """
    try:
        status = path.stat()
    except OSError:
        return True
    if not stat.S_ISREG(status.st_mode):
        return False
    reach = reach_bytes(job, status.st_size)
    return reach is None or reach > status.st_size


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
    """The log that is replayed, and what it touches: the names it has, or the path it is redirected to."""
    for text in split(job.options["read_iolog"]):
        log = folder / text
        yield Touch(log, READ)
        if "replay_redirect" in job.options:
            names = {job.options["replay_redirect"].replace("\\:", ":"): WRITE}
        else:
            names = _named_in(log, job.name)
        yield from (Touch(folder / f"{place}{name}", access) for name, access in names.items() for place in places(job))


def places(job: Section) -> list[str]:
    """What may stand before a replayed name: fio adds those of a text log below the clone's folder, devices bare."""
    return ["", *(f"{directory}/" for directory in split(job.options.get("directory", "")))]


def _named_in(log: Path, job_name: str) -> dict[str, str]:
    """Names in a text log of fio, each with its strongest access.

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
    strongest: dict[str, str] = {}
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
        if words[1] != "add" and words[0] not in strongest:
            raise StudyError(f"{log}, line {number}: {words[0]} was not added before; expected a line '{words[0]} add'")
        access = WRITE if words[1] in _WRITING_ACTIONS else READ
        strongest[words[0]] = WRITE if WRITE in (access, strongest.get(words[0])) else READ
    return strongest


_REPLACING = ("unlink", "unlink_each_loop", "fill_device")
_REPLACING_ENGINES = frozenset(("filecreate", "filedelete", "dircreate", "dirdelete"))
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
        replaces = job.engine in _REPLACING_ENGINES or any(job.flag(name) for name in _REPLACING)
        replaces = replaces or "read_iolog" in job.options
        written = (touch.path for touch in touches([job], folder) if touch.access == WRITE)
        layouts |= dict.fromkeys(
            path for path in written if path not in buffers and (replaces or is_laid_out(job, path))
        )
    return Confinement(layouts=list(layouts), host=list(dict.fromkeys(host)), waiver="; ".join(waivers))


# How large the files may become, as fio lays them out (`setup_files` in filesetup.c): upper bounds, since a sparse or
# compressed file takes less. Sizes that only fio can compute are None.

_EMPTY_FILES = frozenset(words("filecreate filestat filedelete dircreate dirstat dirdelete"))
"""Engines that make files without content (engines/fileoperations.c)."""
_WITHOUT_END = ("fill_device", "file_append")
_DEPTH_SLACK_BYTES = 1 << 20


def sized(touches: Sequence[Touch], jobs: Sequence[Section], folder: Path) -> list[Touch]:
    """The touches of the jobs, each path that is written with the size it may grow to."""
    ends: dict[Path, int | None] = {}
    for job in jobs:
        for path, size_bytes in _grown(job, folder):
            known = ends.get(path, 0)
            ends[path] = None if known is None or size_bytes is None else max(known, size_bytes)
    return [replace(touch, size_bytes=ends.get(touch.path, 0)) if touch.access == WRITE else touch for touch in touches]


def refuse_endless(jobs: Sequence[Section], folder: Path) -> None:
    """StudyError for a job whose files grow with every trial, or until their file system is full."""
    for job in jobs:
        asked = [name for name in _WITHOUT_END if job.flag(name)]
        if not asked or job.engine in ELSEWHERE:
            continue
        files = [touch.path for touch in touches([job], folder) if not touch.path.is_block_device()]
        if files:
            grows = "until its file system is full" if asked[0] == "fill_device" else "with every trial"
            instead = "remove it and give the file its size, or load a device"
            raise StudyError(f"[{job.name}] {asked[0]} lets {files[0]} grow {grows}; {instead}")


def _grown(job: Section, folder: Path) -> Iterator[tuple[Path, int | None]]:
    """Each path that the job writes, with the size it may grow to; None where only fio can tell."""
    beside = {touch.path for touch in overwritten_files(job, folder)}
    replayed = dict(_replayed_ends(job, folder))
    for touch in touches([job], folder):
        if touch.access != WRITE or touch.path.is_block_device():
            continue
        if touch.path in beside:
            # mem=mmap:/path: all buffers of one job (`init_io_u_buffers` in backend.c).
            buffers = max(job.block_sizes_bytes(), default=0) * job.number("iodepth", 1) + _DEPTH_SLACK_BYTES
            yield touch.path, buffers if "mem" in job.options else _of_file(job, touch.path)
        elif "read_iolog" in job.options:
            yield touch.path, replayed.get(touch.path)
        elif job.engine in ELSEWHERE or job.engine in _EMPTY_FILES:
            yield touch.path, 0
        else:
            yield touch.path, _of_file(job, touch.path)


def _of_file(job: Section, path: Path) -> int | None:
    there_bytes = path.stat().st_size if path.is_file() else 0
    reach = reach_bytes(job, there_bytes)
    return None if reach is None else max(reach, there_bytes)


def _replayed_ends(job: Section, folder: Path) -> Iterator[tuple[Path, int]]:
    """The files of fio's own text logs, with the end of the last write to each."""
    if "read_iolog" not in job.options or "replay_redirect" in job.options:
        return
    ends: dict[str, int] = {}
    for name in split(job.options["read_iolog"]):
        with (folder / name).open(encoding="utf-8") as lines:
            heading = re.match(r"fio version (\d) iolog", next(lines, ""))
            skipped = 1 if heading is not None and int(heading[1]) >= 3 else 0
            for line in lines:
                fields = line.split()[skipped:]
                if len(fields) == 4 and fields[1] == "write" and fields[2].isdecimal() and fields[3].isdecimal():
                    ends[fields[0]] = max(ends.get(fields[0], 0), int(fields[2]) + int(fields[3]))
                elif fields:
                    ends.setdefault(fields[0], 0)
    for place in places(job):
        yield from ((folder / f"{place}{name}", end_bytes) for name, end_bytes in ends.items())


# What a job does that no check of paths can see; each needs the user's consent (`--allow-exec`). Engines are known by a
# list of those whose effects are files and devices of this machine: one that is not on it counts as one that writes
# elsewhere.

_LOCAL = frozenset(
    words(
        "sync psync vsync pvsync pvsync2 libaio posixaio solarisaio io_uring io_uring_cmd mmap splice sg null cpuio "
        "falloc ftruncate filecreate filestat filedelete dircreate dirstat dirdelete fsync e4defrag mtd pmemblk "
        "libpmem dev-dax"
    )
)
_NETWORK = {
    "net": "sends to another host, or listens on every network interface",
    "netsplice": "sends to another host, or listens on every network interface",
    "rdma": "sends to another host, or listens there",
}


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
    elif job.engine in _NETWORK:
        effect = _NETWORK[job.engine]
    elif job.engine == "exec":
        effect = f"runs the program {job.options.get('program', 'that it names')}"
    elif job.engine == "nbd" and job.writes and "uri" in job.options:
        effect = f"writes to the server {job.options['uri']}, which cannot be examined"
    elif job.engine not in _LOCAL | SPDK | {"nbd"} and job.writes:
        effect = "writes to storage that cannot be examined"
    if effect:
        yield External(f"[{job.name}] ioengine={text}", effect)
