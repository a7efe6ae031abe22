"""What fio's processes have to be able to change beside the files that its jobs name, for `ioassay.runner.confinement`.

Which files fio lays out anew is decided as `paths` decides which ones it writes. What a job's programs and plugins
would change nobody can know (`external`): such a job only runs with the user's consent, and is not confined then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ioassay.drivers.fio import external_code, paths
from ioassay.drivers.fio.section import SPDK, Section
from ioassay.roles import WRITE, Confinement

_REPLACING = ("unlink", "unlink_each_loop", "fill_device")
_REPLACING_ENGINES = frozenset(("filecreate", "filedelete", "dircreate", "dirdelete"))
_GROUPS = "sys/fs/cgroup"
"""What fio's option `cgroup` writes below (cgroup.c)."""
_DEVICES = {"libcufile": "nvidia*"}
"""Engines that take device nodes of their own, by ioctl calls: their names below /dev."""


def confinement(jobs: Sequence[Section], folder: Path, root: Path = Path("/")) -> Confinement:
    """What the processes of all these jobs need; relative paths start at `folder`."""
    waivers = dict.fromkeys(filter(None, map(_waiver, jobs)))
    return Confinement(
        layouts=list(dict.fromkeys(path for job in jobs for path in _layouts(job, folder))),
        host=list(dict.fromkeys(path for job in jobs for path in _of_host(job, root))),
        waiver="; ".join(waivers),
    )


def _layouts(job: Section, folder: Path) -> Iterator[Path]:
    """Files that fio makes, or unlinks to make them anew: extend_file in filesetup.c does so where a job writes too."""
    buffers = {touch.path for touch in paths.overwritten_files(job, folder)}
    replaces = job.engine in _REPLACING_ENGINES or any(job.flag(name) for name in _REPLACING)
    for touch in paths.touches([job], folder):
        if touch.access != WRITE or touch.path in buffers:
            continue
        # A replayed log may have lines that unlink what it names (read_iolog2 in iolog.c).
        if replaces or "read_iolog" in job.options or paths.is_laid_out(job, touch.path):
            yield touch.path


def _of_host(job: Section, root: Path) -> Iterator[Path]:
    if "cgroup" in job.options:
        yield root / _GROUPS
    if job.engine in _DEVICES:
        yield from sorted((root / "dev").glob(_DEVICES[job.engine]))


def _waiver(job: Section) -> str:
    """Why a job's processes are not confined; '' where they are."""
    if job.engine in SPDK:
        return f"ioengine {job.engine} maps huge pages and devices by itself"
    consented = next(external_code.externals(job), None)
    return f"{consented.option} {consented.effect}, which was consented to" if consented is not None else ""
