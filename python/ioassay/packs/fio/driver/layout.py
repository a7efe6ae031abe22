"""How large the files of a job file's jobs may become, as fio lays them out (`setup_files` in filesetup.c).

Upper bounds: a sparse or compressed file takes less. Sizes that only fio can compute are None. Which paths there are is
`paths`' business, whether they fit that of the targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ioassay.errors import StudyError
from ioassay.packs.fio.driver import paths
from ioassay.packs.fio.driver.fio_options import words
from ioassay.packs.fio.driver.section import ELSEWHERE, Section
from ioassay.roles import WRITE, Touch

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


def check(jobs: Sequence[Section], folder: Path) -> None:
    """StudyError for a job whose files grow with every trial, or until their file system is full."""
    for job in jobs:
        asked = [name for name in _WITHOUT_END if job.flag(name)]
        if not asked or job.engine in ELSEWHERE:
            continue
        files = [touch.path for touch in paths.touches([job], folder) if not touch.path.is_block_device()]
        if files:
            grows = "until its file system is full" if asked[0] == "fill_device" else "with every trial"
            raise StudyError(
                f"[{job.name}] {asked[0]} lets {files[0]} grow {grows}; remove it and give the file its size, or load "
                "a device"
            )


def _grown(job: Section, folder: Path) -> Iterator[tuple[Path, int | None]]:
    """Each path that the job writes, with the size it may grow to; None where only fio can tell."""
    beside = {touch.path for touch in paths.overwritten_files(job, folder)}
    replayed = dict(_replayed(job, folder))
    for touch in paths.touches([job], folder):
        if touch.access != WRITE or touch.path.is_block_device():
            continue
        if touch.path in beside:
            yield touch.path, _of_buffers(job) if "mem" in job.options else _of_file(job, touch.path)
        elif "read_iolog" in job.options:
            yield touch.path, replayed.get(touch.path)
        elif job.engine in ELSEWHERE or job.engine in _EMPTY_FILES:
            yield touch.path, 0
        else:
            yield touch.path, _of_file(job, touch.path)


def _of_file(job: Section, path: Path) -> int | None:
    there_bytes = path.stat().st_size if path.is_file() else 0
    reach = paths.reach_bytes(job, there_bytes)
    return None if reach is None else max(reach, there_bytes)


def _of_buffers(job: Section) -> int:
    """mem=mmap:/path: all buffers of one job (`init_io_u_buffers` in backend.c)."""
    return max(job.block_sizes_bytes(), default=0) * job.number("iodepth", 1) + _DEPTH_SLACK_BYTES


def _replayed(job: Section, folder: Path) -> Iterator[tuple[Path, int]]:
    """The files of fio's own text logs, with the end of the last write to each."""
    if "read_iolog" not in job.options or "replay_redirect" in job.options:
        return
    ends: dict[str, int] = {}
    for name in paths.split(job.options["read_iolog"]):
        with (folder / name).open(encoding="utf-8") as lines:
            heading = re.match(r"fio version (\d) iolog", next(lines, ""))
            skipped = 1 if heading is not None and int(heading[1]) >= 3 else 0
            for line in lines:
                fields = line.split()[skipped:]
                if len(fields) == 4 and fields[1] == "write" and fields[2].isdecimal() and fields[3].isdecimal():
                    ends[fields[0]] = max(ends.get(fields[0], 0), int(fields[2]) + int(fields[3]))
                elif fields:
                    ends.setdefault(fields[0], 0)
    for place in paths.places(job):
        yield from ((folder / f"{place}{name}", end_bytes) for name, end_bytes in ends.items())
