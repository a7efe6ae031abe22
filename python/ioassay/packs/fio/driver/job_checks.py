"""What makes no sense in a job, said before anything runs: StudyError where it is impossible, warnings where it is odd.

Each check takes one job and the study's target table. Names and spelling are `options`' business; what the kernel will
refuse on this very disk is only known when fio tries, and then `verdict` explains it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ioassay import units
from ioassay.errors import StudyError
from ioassay.hints import nearest
from ioassay.packs.fio.driver import spdk
from ioassay.packs.fio.driver.section import ELSEWHERE, PATTERNS, SYNCHRONOUS, Section
from ioassay.records.record import Warning_

Target = Mapping[str, Any]
_LEAST_SECTOR_BYTES = 512
_COUNTS = ("numjobs", "iodepth", "loops")
_PERCENTAGES = ("rwmixread", "rwmixwrite", "percentage_random", "buffer_compress_percentage", "dedupe_percentage")


def check(job: Section, target: Target, engines: Sequence[str] = ()) -> list[Warning_]:
    """All checks of one job. `engines` are those of the installed fio (empty: not known). Raises StudyError."""
    if engines and job.engine not in engines and "/" not in job.engine and job.engine not in spdk.ENGINES:
        close = difflib.get_close_matches(job.engine, engines, 1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise _refuse("ioengine", f"this fio has no ioengine '{job.engine}'; {hint}it has: {', '.join(engines)}")
    if job.pattern not in PATTERNS:
        wanted = f"expected one of {', '.join(PATTERNS)}{nearest(job.pattern, PATTERNS)}"
        raise _refuse("rw", f"'{job.pattern}' is no pattern of fio; {wanted}")
    way = list(_check_way(job, target))
    _check_numbers(job)
    return [*way, *(warning for one in _CHECKS for warning in one(job, target))]


def _refuse(name: str, message: str) -> StudyError:
    return StudyError(message, key=f"params.{name}")


def _check_numbers(job: Section) -> None:
    for name in (*_COUNTS, *_PERCENTAGES):
        for text in job.options.get(name, "").split(","):
            if text and "$" not in text and not text.isdecimal():
                raise _refuse(name, f"is '{text}'; expected a whole number")
    for name in _COUNTS:
        if job.options.get(name) == "0":
            raise _refuse(name, "is 0, so nothing would run; expected 1 or more")
    for name in _PERCENTAGES:
        for text in job.options.get(name, "").split(","):
            if text.isdecimal() and int(text) > 100:
                raise _refuse(name, f"is {text} %; expected 0 to 100")
    if "runtime" in job.options and not job.seconds("runtime") and job.flag("time_based"):
        raise _refuse("runtime", f"is '{job.options['runtime']}', so nothing would be measured; expected more than 0")
    if job.flag("time_based") and "runtime" not in job.options:
        raise _refuse("time_based", "needs a run time; add runtime")


def _area(job: Section, target: Target) -> Iterator[Warning_]:
    whole = target_bytes(target)
    size, offset = job.bytes("size"), job.bytes("offset") or 0
    block = max(job.block_sizes_bytes(), default=0)
    if 0 in job.block_sizes_bytes():
        raise _refuse("bs", "is 0; expected a size")
    if whole is not None and job.engine not in ELSEWHERE and (size or 0) + offset > whole:
        asked = units.format_size((size or 0) + offset)
        raise _refuse("size", f"reaches to {asked}, past the target's size of {units.format_size(whole)}")
    room = size if size is not None else None if whole is None else whole - offset
    if room is not None and block > room:
        asked, there = units.format_size(block), units.format_size(room)
        raise _refuse("bs", f"is {asked}, more than the {there} to be loaded; lower bs or raise target.size")
    if job.flag("norandommap") or not job.pattern.startswith("rand"):
        return
    if room is not None and block and not job.time_based and room % block:
        text = f"{units.format_size(room)} is not a whole number of blocks of {units.format_size(block)}"
        yield Warning_("last-block", f"{text}, so the rest is left out", "make size a multiple of bs")


def target_bytes(target: Target) -> int | None:
    """The size that the study gives its target, None where it gives none."""
    size = target.get("size")
    try:
        return units.parse_size(size) if isinstance(size, int | str) else None
    except ValueError:
        return None  # the target says what is wrong with it


def _alignment(job: Section, target: Target) -> Iterator[Warning_]:
    """Direct I/O goes in whole sectors (open(2), O_DIRECT)."""
    if not job.direct or job.engine in ELSEWHERE:
        return
    known = target.get("logical_block_bytes")
    sector = known or _LEAST_SECTOR_BYTES
    for block in job.block_sizes_bytes():
        if block % sector == 0:
            continue
        text = f"direct I/O in blocks of {block} bytes, which is not a multiple of the sector of {sector} bytes"
        remedy = f"use a multiple of {sector}, or direct = 0"
        if known:
            raise _refuse("bs", f"{text}; {remedy}")
        yield Warning_("bs-unaligned", f"{text}: it fails, or quietly goes through the page cache", remedy)


def _depth(job: Section, target: Target) -> Iterator[Warning_]:
    depth = job.number("iodepth", 1)
    if depth <= 1 or job.options.get("io_submit_mode") == "offload":
        return
    if job.engine in SYNCHRONOUS:
        text = f"iodepth = {depth} does nothing: ioengine {job.engine} waits for each request"
        yield Warning_(
            "iodepth-ignored", text, "use ioengine = 'libaio' or 'io_uring', or numjobs for parallel requests"
        )
    elif job.engine == "libaio" and not job.direct:
        text = f"libaio without direct = 1 waits inside io_submit, so iodepth = {depth} is not reached"
        yield Warning_("buffered-async", text, "set direct = 1, or use ioengine = 'io_uring'")


def _caches(job: Section, target: Target) -> Iterator[Warning_]:
    if job.engine == "mmap" and job.direct:
        text = "direct = 1 does nothing with ioengine mmap, which always goes through the page cache"
        yield Warning_("direct-ignored", text, "use another ioengine for direct I/O")
    if job.pattern.endswith("trimwrite") and job.direct and job.engine not in ELSEWHERE:
        # generic_open_file() in fio's filesetup.c leaves out the flags of jobs that trim.
        text = f"direct = 1 does nothing with rw = {job.pattern}: fio opens what it trims through the page cache"
        yield Warning_("direct-ignored", text, "trim and write in jobs of their own, or use ioengine = 'nbd'")


def _options(job: Section, target: Target) -> Iterator[Warning_]:
    named = [name for name in ("bssplit", "bsrange", "bs") if name in job.options]
    if len(named) > 1:
        text = f"{named[0]} is used, and {' and '.join(named[1:])} is not"
        yield Warning_("bs-ignored", text, f"remove {' and '.join(named[1:])}")
    if "rwmixread" in job.options and "rwmixwrite" in job.options:
        text = "rwmixread and rwmixwrite are both given; fio takes the last one"
        yield Warning_("mix-given-twice", text, "remove one of them")
    if "randseed" in job.options or job.flag("allrandrepeat"):
        text = "the random seed is fixed, so every repetition asks for the same blocks in the same order"
        yield Warning_("fixed-seed", text, "remove randseed and allrandrepeat: each repetition then has its own seed")
    if job.flag("gtod_reduce"):
        yield Warning_("no-latency", "gtod_reduce leaves out all latencies", "remove gtod_reduce to have latencies")
    # fio 3.33 takes the time of reading back only after the last write: 8 MiB were seen in 2 ms.
    if "verify" in job.options and job.number("verify_backlog", 0) > 0 and "read" not in job.directions:
        text = "with verify_backlog fio counts what it reads back but hardly its time, so that read.bw and read.iops "
        yield Warning_("verify-rates", f"{text}mean nothing", "leave verify_backlog out where reading is of interest")
    commands = [name for name in ("exec_prerun", "exec_postrun") if name in job.options]
    if job.engine == "exec":
        commands.append("ioengine=exec")
    if commands:
        text = f"{', '.join(commands)}: fio runs commands that the job names, through a shell"
        yield Warning_("runs-commands", text, "read them before you run a job that is not yours")
    for name in ("ioscheduler", "cgroup_nodelete"):
        if name in job.options:
            raise _refuse(name, "changes this machine and leaves it so after the run; remove it, and set it yourself")
    if "unique_filename" in job.options:
        text = "unique_filename has an effect only where a server of fio makes the load (fio --client)"
        yield Warning_("only-of-clients", text, "leave it out")


# The way to the target: the engines of the kernel load a file or a device; nbd and SPDK's bring their own transport,
# which only a virtual drive speaks. A job file's sections name their own storage and are left alone. What the target
# itself needs is its own business.

_SERVES = "target.kind = 'virtual'"
NBD_ELSEWHERE = "ioengine nbd reaches no drive of NVMeVirt: it has no NBD server"


def _check_way(job: Section, target: Target) -> Iterator[Warning_]:
    """StudyError where it does not get there; a warning where the trial will be skipped."""
    if job.engine in spdk.ENGINES and (why := spdk.missing(job.engine, job.plugin)):
        yield Warning_("will-be-skipped", why)
    if job.files:
        return
    way = _way(job)
    if target.get("kind", "null") == "virtual":
        _require_way(job, way, target)
    elif target.get("kind") == "nvmevirt" and way in ("nvme-tcp", "nbd"):
        yield Warning_("will-be-skipped", spdk.KERNEL_HAS_IT if way == "nvme-tcp" else NBD_ELSEWHERE)
    elif way == "nvme-tcp":
        raise StudyError(f"{job.engine} needs a target that speaks NVMe over TCP: {_SERVES}", key="params.ioengine")
    elif way == "nbd":
        raise StudyError(f"nbd needs a target that is reached by NBD: {_SERVES}, or its uri", key="params.ioengine")
    if _is_file(job, target) and job.pattern.endswith("trim"):
        virtual = target.get("kind") == "virtual"
        use = "target.form = 'device', or ioengine = 'nbd'" if virtual else "target.kind = 'device'"
        text = f"'{job.pattern}' needs a block device: a file cannot be trimmed; use {use}"
        raise StudyError(text, key="params.rw")
    sized = target.get("size") is not None or job.bytes("size") is not None
    if target.get("kind") == "folder" and job.engine not in ELSEWHERE and not sized:  # all that is free is no size
        raise StudyError("is missing; expected the size of the file to make in the folder", key="target.size")


def _way(job: Section) -> str:
    """How the engine reaches a virtual drive; '' where it loads nothing of the study's target."""
    if job.engine in spdk.ENGINES:
        return "nvme-tcp"
    if job.engine == "nbd":
        return "" if "uri" in job.options else "nbd"
    return "" if job.engine in ELSEWHERE else "fuse"


def _require_way(job: Section, way: str, target: Target) -> None:
    ways = target.get("ways")
    if way == "fuse" and str(target.get("form", "")).startswith(("nvme", "kernel")):
        return  # what the kernel has of the drive it reaches by itself
    if way and isinstance(ways, list | tuple) and way not in ways:
        text = f"has {', '.join(map(str, ways)) or 'none'}; ioengine {job.engine} reaches a virtual drive by '{way}'"
        raise StudyError(f"{text}: add it", key="target.ways")
    if way in ("nbd", "nvme-tcp") and target.get("form") == "folder":
        text = f"is 'folder', and ioengine {job.engine} would write beneath its file system"
        raise StudyError(f"{text}; expected 'file' or 'device'", key="target.form")


def _is_file(job: Section, target: Target) -> bool:
    """Whether what the job opens is a file of a file system."""
    if job.engine in ELSEWHERE:
        return False
    if target.get("kind") == "virtual":
        return str(target.get("form", "file")) in ("file", "folder", "kernel")
    return target.get("kind") in ("file", "folder")


_CHECKS: tuple[Callable[[Section, Target], Iterable[Warning_]], ...] = (_area, _alignment, _depth, _caches, _options)
