"""Every path that a job reads or writes, found as fio finds them, so that each can be examined before anything runs.

A job that only reads also writes where fio has to lay its file out first: when the file is missing or shorter than the
job's size, fio writes it anew (`extend_file` in filesetup.c). A job whose *name* is a device loads that device
(`exists_and_not_regfile` in filesetup.c). Paths that only fio can compute are refused.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ioassay.drivers.fio.jobfile import computed
from ioassay.drivers.fio.section import ELSEWHERE, Section, fio_bytes
from ioassay.errors import StudyError
from ioassay.roles import READ, WRITE, Touch

_DEFAULT_FORMAT = "$jobname.$jobnum.$filenum"
_WRITING_ACTIONS = ("write", "trim")


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
        if computed(job.options.get(name, "")):
            raise StudyError(
                f"[{job.name}] {name}={job.options[name]} is computed by fio, so what it touches cannot be checked; "
                "write the path itself"
            )
    if job.engine not in ELSEWHERE:
        if "read_iolog" in job.options:
            yield from _replayed(job, folder)
        for path in _files(job, folder):
            yield Touch(path, WRITE if job.writes or _is_laid_out(job, path) else READ)
    elif job.flag("unlink") or job.flag("unlink_each_loop"):  # fio does so whatever the engine, also for `null`
        yield from (Touch(path, WRITE) for path in _files(job, folder))
    yield from beside(job, folder)


def beside(job: Section, folder: Path) -> Iterator[Touch]:
    """Files that a job overwrites and that are not what it loads: mem=mmap:/path keeps the buffers in a file."""
    for name in ("mem", "donorname"):
        backing = job.options.get(name, "").partition(":")[2] if name == "mem" else job.options.get(name, "")
        if backing:
            yield Touch(folder / backing, WRITE)


def _files(job: Section, folder: Path) -> Iterator[Path]:
    named = [name for text in job.filenames for name in split(text)]
    opened = list(_opened(job, folder))
    if not named and not opened and "read_iolog" not in job.options:
        named = list(_default_names(job, folder))
    for directory, name in itertools.product(split(job.options.get("directory", "")) or [""], named):
        if name != "-":  # standard input or output
            yield folder / (f"{directory}/{name}" if directory else name)
    yield from opened


def split(text: str) -> list[str]:
    """The names of a list separated by ':', where a backslash before ':' keeps it (`get_next_str` in options.c)."""
    names = re.split(r"(?<!\\):", text.lstrip(":"))
    return [name.replace("\\:", ":") for name in names if name]


def _default_names(job: Section, folder: Path) -> Iterator[str]:
    files = job.number("nrfiles", 1)
    if files == 1 and _exists_and_is_no_file(folder / job.name):
        yield job.name
        return
    pattern = job.options.get("filename_format") or _DEFAULT_FORMAT
    for job_number, file_number in itertools.product(range(job.numjobs), range(files)):
        name = re.sub(r"(?i)\$jobname", lambda _: job.name, pattern)
        name = re.sub(r"(?i)\$jobnum", str(job_number), name)
        yield re.sub(r"(?i)\$clientuid", "", re.sub(r"(?i)\$filenum", str(file_number), name))


def _exists_and_is_no_file(path: Path) -> bool:
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _opened(job: Section, folder: Path) -> Iterator[Path]:
    """`opendir`: every regular file below a folder, links to folders not followed."""
    for name in split(job.options.get("opendir", "")):
        for place, _, files in os.walk(folder / name):
            yield from (Path(place, file) for file in files)


def _is_laid_out(job: Section, path: Path) -> bool:
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
    each = _size_bytes(job)
    if not each:
        return each
    offsets = [_offset_bytes(job, name, there_bytes) for name in ("offset", "offset_increment", "offset_align")]
    if None in offsets:
        return None
    offset, increment, alignment = (found or 0 for found in offsets)
    return each + offset + increment * (job.numjobs - 1) + alignment


def _size_bytes(job: Section) -> int | None:
    """The most that one file of the job is to have; 0 where nothing, or a share of what is there, is asked for."""
    found = []
    if "filesize" in job.options:  # a size, or a range of two
        found.append([fio_bytes(text, job.kb_base) for text in re.split("[-:]", job.options["filesize"])])
    if share := re.fullmatch(r"(\d+)%", job.options.get("size", "")):
        found.append([0 if int(share[1]) <= 100 else None])
    elif "size" in job.options:
        files = sum(len(split(text)) for text in job.filenames) or max(job.number("nrfiles", 1), 1)
        whole = job.bytes("size")
        found.append([None if whole is None else -(-whole // files)])
    sizes = found[0] if found else [0]  # with filesize, size is no more than a limit
    known = [size for size in sizes if size is not None]
    return max(known) if len(known) == len(sizes) else None


def _offset_bytes(job: Section, name: str, there_bytes: int) -> int | None:
    """An offset, 0 where it is absent, None where it cannot be told (a number of zones)."""
    text = job.options.get(name, "0")
    if share := re.fullmatch(r"(\d+)%", text):
        return -(-there_bytes * int(share[1]) // 100)
    return fio_bytes(text, job.kb_base)


def _replayed(job: Section, folder: Path) -> Iterator[Touch]:
    """The log that is replayed, and what it touches: the names it has, or the path it is redirected to."""
    for name in split(job.options["read_iolog"]):
        log = folder / name
        yield Touch(log, READ)
        if "replay_redirect" in job.options:
            yield Touch(folder / job.options["replay_redirect"].replace("\\:", ":"), WRITE)
            continue
        yield from _named_in(log, job.name, folder)


def _named_in(log: Path, job_name: str, folder: Path) -> Iterator[Touch]:
    """Files that a text log of fio names; version 2 is `file action …`, version 3 has a time stamp before."""
    try:
        with log.open(encoding="utf-8") as lines:
            heading = re.match(r"fio version (\d) iolog", next(lines, ""))
            if heading is None:
                raise UnicodeError
            yield from _actions(lines, int(heading[1]), folder)
    except OSError as error:
        raise StudyError(f"[{job_name}] read_iolog {log} cannot be read: {error.strerror}") from None
    except UnicodeError:
        raise StudyError(
            f"[{job_name}] read_iolog {log} is a binary trace, whose devices cannot be checked; add replay_redirect"
        ) from None


def _actions(lines: Iterable[str], version: int, folder: Path) -> Iterator[Touch]:
    strongest: dict[str, str] = {}
    for line in lines:
        words = line.split()[1 if version >= 3 else 0 :]
        if len(words) >= 2:
            access = WRITE if words[1] in _WRITING_ACTIONS else READ
            strongest[words[0]] = WRITE if WRITE in (access, strongest.get(words[0])) else READ
    for name, access in strongest.items():
        yield Touch(folder / name, access)
