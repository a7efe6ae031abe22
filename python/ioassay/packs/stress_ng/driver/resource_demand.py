"""What a stressor takes of its host: memory, processes, open files, pseudoterminals, disk space, inodes.

Options, defaults and limits are those of stress-ng 0.15.06 (its manual page and its source, stress-<name>.c). Upper
bounds, not measurements: a stressor that is not in the table takes little by itself, and whatever its `-bytes` or
`-size` says. What the host has, and whether that is enough, is asked in `preflight`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ioassay.packs.stress_ng.driver.stressor_parameters import Settings
from ioassay.roles import (
    DISK,
    FILES,
    INODES,
    MEMORY,
    OF_FREE,
    OF_MAPPINGS,
    OF_STACK,
    OF_TOTAL,
    PROCESSES,
    TERMINALS,
    Demand,
    Need,
)

CONSENT = "pathological = true"
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
_MAXIMIZED_BYTES = 2**32
"""MAX_32 and MAXIMIZED_FILE_SIZE (stress-ng.h): what most sizes become under --maximize."""
_WORKER_BYTES = 4 * _MIB
_PROCESS_BYTES = 256 * _KIB
"""Of a process or thread that a worker starts: 170 KiB were measured for pipeherd's, 60 KiB for pthread's."""
_SCALES = {letter: 1024**power for power, letter in enumerate("bkmgtpe")}
_VALUE = re.compile(r"(?P<whole>\d+)(?P<fraction>\.\d+)?[A-Za-z]*?(?P<unit>[A-Za-z%]?)")
_LARGEST_CACHE_BYTES = float(_GIB)
"""More than any processor's cache has."""


@dataclass(frozen=True)
class _Take:
    """How much of a resource: `unit` for each of what `option` counts, and of what `times` counts beside it."""

    resource: str
    option: str = ""
    default: float = 1
    unit: float = 1
    power: int = 1
    most: float = 0
    """What the option becomes under --maximize; 0: stays as it is."""
    times: tuple[str, float] | None = None
    """An option and its default."""
    divided: bool = False
    """Whether the workers share it (`/= args->num_instances`); else each takes it."""
    of: str = ""
    when: str = ""
    """A flag without which nothing is taken."""


def _shared(option: str, default: float, unit: float = 1, **more: object) -> _Take:
    """Memory of this many bytes, divided among the workers."""
    return _Take(MEMORY, option, default, unit, most=_MAXIMIZED_BYTES, divided=True, **more)  # type: ignore[arg-type]


def _own(option: str, default: float, unit: float = 1, **more: object) -> _Take:
    """Memory of each worker."""
    return _Take(MEMORY, option, default, unit, **more)  # type: ignore[arg-type]


def _file(option: str, default: float, unit: float = 1, *, divided: bool = True) -> _Take:
    return _Take(DISK, option, default, unit, most=_MAXIMIZED_BYTES, divided=divided)


def _children(option: str, default: float, most: float = 0, bytes_each: float = _PROCESS_BYTES) -> tuple[_Take, ...]:
    """Processes or threads of each worker, and the memory that they are made of."""
    of_memory = () if math.isinf(default) else (_Take(MEMORY, option, default, bytes_each, most=most),)
    return _Take(PROCESSES, option, default, most=most), *of_memory


def _open(option: str, default: float, most: float = 0) -> _Take:
    return _Take(FILES, option, default, most=most)


def _names(option: str, default: float, most: float = 0) -> _Take:
    return _Take(INODES, option, default, most=most)


_ENDLESS_MEMORY = _Take(MEMORY, default=math.inf)
_TAKES: Mapping[str, tuple[_Take, ...]] = {
    # Memory, until there is none: for these the kernel's out-of-memory killer is a part of the test.
    **dict.fromkeys(("bigheap", "brk", "dev-shm", "env", "mmaphuge", "oom-pipe"), (_ENDLESS_MEMORY,)),
    "mmapfork": (_Take(MEMORY, default=0.5, of=OF_FREE, divided=True), *_children("", 32)),
    "mmapmany": (_Take(MEMORY, default=6 * _KIB, of=OF_MAPPINGS),),
    "mlock": (_Take(MEMORY, default=8 * _KIB, of=OF_MAPPINGS),),
    "secretmem": (_Take(MEMORY, default=8 * _KIB, of=OF_MAPPINGS),),
    "stack": (_Take(MEMORY, of=OF_STACK),),
    "tmpfs": (_Take(MEMORY, default=512 * _MIB, most=math.inf, divided=True),),
    "ramfs": (_own("ramfs-size", 2 * _MIB, most=_GIB),),
    "pageswap": (_own("", 65536, 4 * _KIB),),
    "memthrash": (_own("", 256 * _MIB),),
    # Memory by an option.
    "vm": (_shared("vm-bytes", 256 * _MIB),),
    "vm-rw": (_shared("vm-rw-bytes", 16 * _MIB, 2),),
    "vm-splice": (_shared("vm-splice-bytes", 64 * _KIB),),
    "vm-addr": (_own("", 64 * _MIB),),
    "mmap": (
        _shared("mmap-bytes", 256 * _MIB),
        *(_Take(DISK, "mmap-bytes", 256 * _MIB, divided=True, when=flag) for flag in ("mmap-file", "mmap-async")),
    ),
    "mremap": (_shared("mremap-bytes", 256 * _MIB, 2),),
    "memfd": (_shared("memfd-bytes", 256 * _MIB), _open("memfd-fds", 256, 4096)),
    "memrate": (_own("memrate-bytes", 256 * _MIB, most=_MAXIMIZED_BYTES),),
    "userfaultfd": (_shared("userfaultfd-bytes", 256 * _MIB),),
    "pagemove": (_shared("pagemove-bytes", 4 * _MIB, 2),),
    "msync": (_shared("msync-bytes", 256 * _MIB), _file("msync-bytes", 256 * _MIB)),
    "splice": (_shared("splice-bytes", 64 * _KIB),),
    "stream": (_shared("stream-l3-size", 64 * _MIB, 4 * 4),),
    "prefetch": (_own("prefetch-l3-size", 64 * _MIB, 4),),
    "malloc": (
        # Sizes are drawn up to the greatest, and half of the places are free at any time.
        _shared("malloc-bytes", 64 * _KIB, 0.25, times=("malloc-max", 65536)),
        *_children("malloc-pthreads", 0, 32),
    ),
    "shm": (_shared("shm-bytes", 8 * _MIB, times=("shm-objs", 32)),),
    "shm-sysv": (_shared("shm-sysv-bytes", 8 * _MIB, times=("shm-sysv-segs", 8)),),
    "matrix": (_own("matrix-size", 128, 4 * 4, power=2, most=8192),),
    "matrix-3d": (_own("matrix-3d-size", 128, 4 * 4, power=3, most=1024),),
    "sparsematrix": (_own("sparsematrix-items", 10_000, 192, most=10_000_000),),
    "randlist": (_own("randlist-items", 100_000, times=("randlist-size", 64)),),
    "tree": (_own("tree-size", 250_000, 128, most=25_000_000),),
    **{
        name: (_own(f"{name}-size", 256 * _KIB, bytes_each, most=4 * _MIB),)
        for bytes_each, names in {
            16: ("bsearch", "heapsort", "lsearch", "mergesort", "qsort", "shellsort"),
            64: ("hsearch", "judy", "list", "radixsort", "skiplist", "tsearch"),
        }.items()
        for name in names
    },
    # Processes and threads.
    "vforkmany": _children("", math.inf),
    "daemon": _children("", math.inf),
    "fork": _children("fork-max", 1, 16_000),
    "vfork": _children("vfork-max", 1, 16_000),
    "exec": _children("exec-max", 4096, 16_000),
    "clone": _children("clone-max", 8192, 1_000_000),
    "zombie": _children("zombie-max", 8192, 1_000_000, 16 * _KIB),
    "forkheavy": _children("forkheavy-procs", 4096, 65_536, 2 * _MIB),
    "loadavg": _children("loadavg-max", 65_536, 1_000_000),
    "pthread": _children("pthread-max", 1024, 30_000),
    "sleep": _children("sleep-max", 1024, 30_000),
    "nanosleep": _children("nanosleep-threads", 8, 1024),
    "mlockmany": (_Take(PROCESSES, "mlockmany-procs", 1024), _own("mlockmany-procs", 1024, 8 * _MIB)),
    "mutex": _children("mutex-procs", 2, 64),
    "sem": _children("sem-procs", 2, 64),
    "sem-sysv": _children("sem-sysv-procs", 2, 64),
    "pipeherd": _children("", 100),
    "session": _children("", 256),
    # Open files; a socket takes about 4 KiB of the kernel's memory.
    "open": (_open("open-max", 65_536),),
    "dup": (_open("", 65_536),),
    "sockfd": (_open("", 65_536),),
    "sockpair": (_open("", 2 * 32_768), _own("", 2 * 32_768, 4 * _KIB)),
    "sockmany": (_open("", 2 * 100_000), _own("", 2 * 100_000, 4 * _KIB)),
    "epoll": (_open("epoll-sockets", 4096, 100_000),),
    "poll": (_open("poll-fds", 5, 8192),),
    "timerfd": (_open("timerfd-fds", 1024),),
    "ring-pipe": (_Take(FILES, "ring-pipe-num", 256, 2), _own("ring-pipe-num", 256, 64 * _KIB)),
    "pty": (_Take(TERMINALS, "pty-max", 65_536), _Take(FILES, "pty-max", 65_536, 2)),
    # Disk space and inodes.
    "hdd": (_file("hdd-bytes", _GIB),),
    "iomix": (_file("iomix-bytes", _GIB),),
    "fallocate": (_file("fallocate-bytes", _GIB),),
    "fiemap": (_file("fiemap-bytes", 16 * _MIB),),
    "readahead": (_file("readahead-bytes", 64 * _MIB),),
    "revio": (_file("revio-bytes", _GIB),),
    "sync-file": (_file("sync-file-bytes", _GIB),),
    "copy-file": (_file("copy-file-bytes", 256 * _MIB, 2),),
    "seek": (_file("seek-size", 16 * _MIB, divided=False),),
    "sendfile": (_file("sendfile-size", 4 * _MIB, divided=False),),
    "dentry": (_names("dentries", 2048, 1_000_000),),
    "dir": (_names("dir-dirs", 8192, 65_536),),
    "chdir": (_names("chdir-dirs", 8192, 65_536),),
    "symlink": (_names("", 8192),),
    # Both make files until there are no inodes, or no space for what is in them.
    "dirmany": (_names("", math.inf), _Take(DISK, "dirmany-bytes", 0, math.inf)),
    "dirdeep": (
        _names("dirdeep-inodes", math.inf),
        _Take(DISK, "dirdeep-bytes", 0, times=("dirdeep-inodes", math.inf)),
    ),
}  # fmt: skip


def demand(wanted: Settings, makes_files: bool) -> Demand:
    """What one trial takes of the host; `makes_files`: sizes of unknown options are those of files.

    0 workers are one on each configured processor, as stress-ng counts them.
    """
    workers = wanted.workers or os.sysconf("SC_NPROCESSORS_CONF")
    said, remedy = f"'{wanted.stressor}'" + (f" ({workers} workers)" if workers > 1 else ""), "lower workers"
    needs = [
        Need(MEMORY, float(workers * _WORKER_BYTES), said, "params.workers", remedy),
        Need(PROCESSES, float(workers + 1), said, "params.workers", remedy),
    ]
    takes = (*_TAKES.get(wanted.stressor, ()), *_unknown(wanted, makes_files))
    needs += [need for take in takes if (need := _need(take, wanted, workers)) is not None]
    return Demand(tuple(needs), CONSENT, wanted.forced)


def _unknown(wanted: Settings, makes_files: bool) -> Iterator[_Take]:
    """Sizes of the stressor's own that the table has not: of a stressor or version that it does not know."""
    known = {name for take in _TAKES.get(wanted.stressor, ()) for name in (take.option, *(take.times or ())[:1])}
    for name in wanted.options:
        if name not in known and re.fullmatch(rf"{re.escape(wanted.stressor)}-(bytes|size)", name):
            yield _Take(DISK if makes_files else MEMORY, name)


def _need(take: _Take, wanted: Settings, workers: int) -> Need | None:
    if take.when and wanted.options.get(take.when) is not True:
        return None
    number, of = _number(take, wanted.options)
    other, default = take.times or ("", 1.0)
    others = _value(wanted.options[other])[0] if other in wanted.options else default
    if not number or not others:
        return None
    amount = number**take.power * take.unit * others * (1 if take.divided else workers)
    named = [name for name in (take.option, other) if name in wanted.options]
    said = [f"{name} = {wanted.options[name]}" for name in named] + ([f"{workers} workers"] if workers > 1 else [])
    cause = f"'{wanted.stressor}'" + (f" ({', '.join(said)})" if said else "")
    lowered = [name for name in (take.option, other) if name] + (
        ["workers"] if workers > 1 and not take.divided else []
    )
    remedy = f"lower {' or '.join(lowered)}" if lowered and (take.option or not math.isinf(amount)) else ""
    return Need(take.resource, amount, cause, f"params.{named[0] if named else 'stressor'}", remedy, of or take.of)


def _number(take: _Take, options: Mapping[str, str | bool]) -> tuple[float, str]:
    """What the option says, or what holds without it; and what it is a share of."""
    if take.option in options:
        number, is_share = _value(options[take.option])
        if not is_share:
            return number, ""
        # Of open files, a share is one of what a process may have, which the default stands for.
        of = {MEMORY: OF_TOTAL, DISK: OF_FREE, INODES: OF_FREE}.get(take.resource, "")
        return (number, of) if of else (number * take.default, "")
    return (take.most if take.most and options.get("maximize") is True else take.default), ""


def _value(said: str | bool) -> tuple[float, bool]:
    """A number as stress-ng reads it, and whether it is a share (core-parse-opts.c).

    Sizes are whole numbers with the scale of their last letter, whatever stands between; a fraction counts only in
    a percentage. What is no number is the name of a cache, such as `LLC`.
    """
    number = _VALUE.fullmatch(str(said).strip().lstrip("+"))
    if number is None:
        return _LARGEST_CACHE_BYTES, False
    if number["unit"] == "%":
        return float(number["whole"] + (number["fraction"] or "")) / 100, True
    return float(number["whole"]) * _SCALES.get(number["unit"].lower(), 1), False
