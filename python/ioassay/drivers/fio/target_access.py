"""Whether a job's engine gets to the study's target, said before anything runs.

The engines of the kernel load a file or a device; nbd and SPDK's bring a transport of their own, which only a virtual
drive speaks. A job file's sections name their own storage and are left alone. What the target itself needs to be there
is its own business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ioassay.drivers.fio import spdk
from ioassay.drivers.fio.section import ELSEWHERE, Section
from ioassay.errors import StudyError
from ioassay.records.record import Warning_

Target = Mapping[str, Any]
_SERVES = "target.kind = 'virtual'"


def check(job: Section, target: Target) -> Iterator[Warning_]:
    """StudyError where it does not get there; a warning where the trial will be skipped."""
    if job.engine in spdk.ENGINES and (why := spdk.missing(job.engine, job.plugin)):
        yield Warning_("will-be-skipped", why)
    if job.files:
        return
    way = _way(job)
    if target.get("kind", "null") == "virtual":
        _require_way(job, way, target)
    elif way == "nvme-tcp":
        raise StudyError(f"{job.engine} needs a target that speaks NVMe over TCP: {_SERVES}", key="params.ioengine")
    elif way == "nbd":
        raise StudyError(f"nbd needs a target that is reached by NBD: {_SERVES}, or its uri", key="params.ioengine")
    if _is_file(job, target) and job.pattern.endswith("trim"):
        text = f"'{job.pattern}' needs a block device: a file cannot be trimmed; use {_trimmable(target)}"
        raise StudyError(text, key="params.rw")
    if target.get("kind") == "folder" and job.engine not in ELSEWHERE:
        _require_size(job, target)


def _require_size(job: Section, target: Target) -> None:
    """All that is free is no size to fill a file to."""
    if target.get("size") is None and job.bytes("size") is None:
        raise StudyError("is missing; wanted the size of the file to make in the folder", key="target.size")


def _way(job: Section) -> str:
    """How the engine reaches a virtual drive; '' where it loads nothing of the study's target."""
    if job.engine in spdk.ENGINES:
        return "nvme-tcp"
    if job.engine == "nbd":
        return "" if "uri" in job.options else "nbd"
    return "" if job.engine in ELSEWHERE else "fuse"


def _require_way(job: Section, way: str, target: Target) -> None:
    ways = target.get("ways")
    if way and isinstance(ways, list | tuple) and way not in ways:
        text = f"has {', '.join(map(str, ways)) or 'none'}; ioengine {job.engine} reaches a virtual drive by '{way}'"
        raise StudyError(f"{text}: add it", key="target.ways")
    if way in ("nbd", "nvme-tcp") and target.get("form") == "folder":
        text = f"is 'folder', and ioengine {job.engine} would write beneath its file system"
        raise StudyError(f"{text}; wanted 'file' or 'device'", key="target.form")


def _is_file(job: Section, target: Target) -> bool:
    """Whether what the job opens is a file of a file system."""
    if job.engine in ELSEWHERE:
        return False
    if target.get("kind") == "virtual":
        return str(target.get("form", "file")) != "device"
    return target.get("kind") in ("file", "folder")


def _trimmable(target: Target) -> str:
    if target.get("kind") == "virtual":
        return "target.form = 'device', or ioengine = 'nbd'"
    return "target.kind = 'device'"
