"""One command under the witness: everything is attached while it is held, and read when it has ended.

Which backend watches is chosen by `best`; what could not be watched is said in the observation, never silently.
The free account of the kernel (`counters`) is taken besides, whatever else watches.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from io import FileIO
from pathlib import Path
from resource import struct_rusage
from typing import Any, NamedTuple, Self

from ioassay import _core, debug_log
from ioassay.errors import ToolError, UsageError
from ioassay.hints import document, nearest
from ioassay.host import block_devices, process_capabilities
from ioassay.pack import listed
from ioassay.process import process_table
from ioassay.records.observation import (
    BLOCK,
    BPF,
    COUNTERS,
    EXPLAIN,
    LEVELS,
    OFF,
    RECORD,
    SYSCALLS,
    File,
    Observation,
    of_witness,
)
from ioassay.roles import Outcome

AUTO = "auto"
REQUESTS = "requests.bin"
OBSERVERS: dict[str, str] = listed("observers", {})
"""A backend of a pack -> its module: `unusable()`, `missing(level)`, `watching(level, folder, why)`, and
`counting(folder, why)`, which counts the calls by name. The last two return a `Watching`."""
BACKENDS = (AUTO, BPF, COUNTERS, *OBSERVERS)
_MOUNTS = Path("/proc/self/mountinfo")
_BLOCK_DEVICES = Path("/sys/dev/block")


class Watching:
    """What watches one command; a context manager, at whose end nothing is attached any more. This one sees nothing."""

    listed: CallListing | None = None
    """The listing of calls, after the observation; None without one."""
    _held_ns = _ended_ns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def command(self, argv: Sequence[str]) -> Sequence[str]:
        """What is to be started to have `argv` watched."""
        return argv

    def held(self, pid: int) -> None:
        """The command waits before its first instruction."""
        self._held_ns = time.monotonic_ns()

    def ended(self, pid: int) -> None:
        """It has ended and is not reaped yet."""
        self._ended_ns = time.monotonic_ns()

    def observation(self, outcome: Outcome) -> Observation | None:
        """What was seen, once; None when nothing was to be watched."""
        return None

    def finished(self, found: Observation, files: Sequence[File] | None = None) -> Observation:
        """With what is known here: the time, and where its files lie (`files`: with better paths)."""
        files = with_filesystems(found.files if files is None else files)
        return replace(found, files=files, held_ns=self._held_ns, ended_ns=self._ended_ns)


def watching(
    level: str,
    devices: Sequence[str],
    folder: Path,
    *,
    backend: str = AUTO,
    layers: Sequence[str] = (),
    listing: str | None = None,
) -> Watching:
    """What watches one command at `level` (one of LEVELS).

    `devices` are the kernel's names of the block devices under what is loaded. In `folder` go REQUESTS, what level
    RECORD writes down, and what an observer of a pack writes; `layers` are more than the level asks for (SYSCALLS
    beside RECORD). With `listing` the calls on files are listed, to that file or for '' as a sample. ToolError when a
    backend that was asked for by name cannot run.
    """
    if level == OFF:
        return Watching()
    choice = best(level, backend)
    if choice.backend in OBSERVERS:
        watched: Watching = _observer(choice.backend).watching(level, folder, choice.why)
        return watched
    return _Witness(choice, level, devices, folder / REQUESTS if level == RECORD else None, layers, listing)


def prepare(level: str, backend: str = AUTO) -> None:
    """Begin to load the BPF programs that `watching` will want, which is most of its time, and return at once."""
    if backend in (AUTO, BPF) and level in (BLOCK, SYSCALLS, EXPLAIN):
        _core.witness_prepare(level)


def counting(devices: Sequence[str], folder: Path) -> Watching:
    """What counts the system calls of one command by name: BPF programs, or where these cannot run an observer of a
    pack, which may write into `folder`. ToolError when none can."""
    choice = counter()
    if choice.backend in OBSERVERS:
        counted: Watching = _observer(choice.backend).counting(folder, choice.why)
        return counted
    return _Witness(choice, SYSCALLS, devices, None, ())


def _observer(backend: str) -> Any:
    return import_module(OBSERVERS[backend])


class _Witness(Watching):
    """BPF programs, where they can run, and the counters."""

    def __init__(
        self,
        choice: Choice,
        asked: str,
        devices: Sequence[str],
        record: Path | None,
        layers: Sequence[str],
        listing: str | None = None,
    ) -> None:
        self._choice, self._asked, self._record, self._layers, self._listing = choice, asked, record, layers, listing
        self._inherited: Mapping[process_table.Identity, str] = {}
        self._counters = Counters(devices)
        self._programs: _core.Witness | None = None
        self._why = choice.why

    def __exit__(self, *error: object) -> None:
        self._programs = None
        self._counters.close()

    def held(self, pid: int) -> None:
        record = str(self._record) if self._record else None
        try:
            if self._choice.backend == BPF:
                self._programs = _core.Witness(self._asked, record, list(self._layers), listing=self._listing)
                self._programs.follow(pid)
                if self._listing is not None:
                    self._inherited = process_table.read([pid]).paths
        except OSError as error:
            self._programs = None
            self._why = f"the BPF programs could not be attached: {error}; only counters were read"
        self._counters.begin(pid)
        super().held(pid)

    def ended(self, pid: int) -> None:
        super().ended(pid)
        self._counters.end(pid)

    def observation(self, outcome: Outcome) -> Observation:
        seen: dict[str, Any] = {}
        if self._programs is not None:
            programs, self._programs = self._programs, None
            seen = json.loads(programs.finish(self._inherited))
            self.listed = taken_from(seen, self._listing)
        counted = self._counters.result(outcome.usage, outcome.leftovers)
        why = "; ".join(filter(None, (self._why, seen.get("why"), counted.pop("why", ""))))
        known = {"kernel": os.uname().release, **seen, **counted, "layers": [*seen.get("layers", ()), COUNTERS]}
        backend = BPF if seen else COUNTERS
        return self.finished(of_witness({**known, "why": why, "backend": backend, "asked": self._asked}))


def with_filesystems(files: Sequence[File]) -> list[File]:
    """The files, each with the type of its filesystem where it is still mounted, and its device."""
    mounts: dict[str, list[str]] = {}
    with suppress(OSError):
        for line in _MOUNTS.read_text(errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            mounts.setdefault(before.split()[2], after.split()[:2])
    found = []
    for file in files:
        kind, source = mounts.get(file.dev, (file.filesystem, ""))
        block = (_BLOCK_DEVICES / file.dev).resolve()  # btrfs has a number that is no device's, and names one
        device = block.name if block.name != file.dev else Path(source).name if source.startswith("/dev/") else ""
        found.append(replace(file, filesystem=kind, device=device))
    return found


# Which backend can watch here what was asked for, and why it is not a better one. Nothing is attached or started but a
# look at what the kernel allows.

_GRANT = f"{document('backends')} shows how"


class Choice(NamedTuple):
    backend: str
    """BPF, COUNTERS or one of OBSERVERS."""
    why: str = ""
    """Why that is less than was asked for, with the remedy; '' when it is all of it."""


def best(asked: str, wanted: str = AUTO) -> Choice:
    """The backend for level `asked` (one of LEVELS but OFF): `wanted`, or with AUTO the best that works here.

    AUTO never means an observer of a pack, which may slow down what it watches by a factor. ToolError: the backend that
    was asked for by name cannot run here. UsageError: there is no such level or backend.
    """
    choice = _best(asked, wanted)
    debug_log.info("witness", f"backend {choice.backend} for level {asked}" + (f": {choice.why}" if choice.why else ""))
    return choice


def _best(asked: str, wanted: str) -> Choice:
    if asked not in (levels := LEVELS[1:]):
        raise UsageError(
            f"nothing can be watched at level '{asked}'; expected {', '.join(levels)}{nearest(asked, levels)}"
        )
    if wanted not in BACKENDS:
        raise UsageError(f"there is no backend '{wanted}'; expected {', '.join(BACKENDS)}{nearest(wanted, BACKENDS)}")
    if wanted in OBSERVERS:
        if reason := _observer(wanted).unusable():
            raise ToolError(f"backend {wanted} cannot run: {reason}")
        return Choice(wanted, _observer(wanted).missing(asked))
    if COUNTERS in (wanted, asked):
        why = f"backend counters was asked for: nothing of level {asked} was watched" if asked != COUNTERS else ""
        return Choice(COUNTERS, why)
    reason = bpf_unusable()
    if not reason:
        return Choice(BPF)
    if wanted == BPF:
        raise ToolError(f"backend bpf cannot run: {reason}")
    return Choice(COUNTERS, f"only counters were read, nothing of level {asked}: {reason}")


def counter() -> Choice:
    """Who counts system calls by name here: BPF, or where that cannot run an observer of a pack, and why not BPF.

    ToolError, with all reasons, when none can.
    """
    reason = bpf_unusable()
    if not reason:
        return Choice(BPF)
    others = {name: _observer(name).unusable() for name in OBSERVERS}
    for name, other in others.items():
        if not other:
            return Choice(name, reason)
    refused = "".join(f", nor by {name} ({other})" for name, other in others.items())
    raise ToolError(f"system calls cannot be counted by BPF ({reason}){refused}")


def bpf_unusable() -> str:
    """Why BPF programs cannot be attached, with the remedy; '' when they can."""
    check = getattr(_core, "witness_capability", None)
    if check is None:
        return (
            "the compiled module of this ioassay has no witness: it is of another version, so install or build it again"
        )
    reason: str = check()
    if not (names := re.findall(r"CAP_(\w+)", reason)):
        return reason
    if os.geteuid() and not any(map(process_capabilities.is_withheld, names)):
        return f"{reason} ({_GRANT})"
    what, _, _ = reason.partition(": ")  # what follows is the remedy of a user
    return f"{what}: {process_capabilities.of_container(*names)} ({_GRANT})"


# The calls on files that the witness lists one by one, as `strace -f -y -T` writes them: all in a file, or a sample.
# The programs list them as they end (crates/witness); what may be asked for, and what came of it.


@dataclass(frozen=True)
class FileCalls:
    """The calls on one file: how many, and of a sample the first and the last of them, a line each."""

    path: str
    """'' for calls on no open file."""
    calls: int
    first: Sequence[str]
    last: Sequence[str]


@dataclass(frozen=True)
class CallListing:
    """The calls on files that were listed, in the order in which they ended."""

    calls: int
    files: Sequence[FileCalls]
    """Of a sample, in the order of their first use; of a listing in a file none."""
    file: Path | None
    """Where all of them are; None of a sample."""
    unlisted: int
    """Calls that found no room and are missing."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able form."""
        return {**asdict(self), "file": None if self.file is None else str(self.file)}


def taken_from(seen: MutableMapping[str, Any], listing: str | None) -> CallListing | None:
    """The listing to `listing` that the programs added to an observation, which has it no more; None of none."""
    table: Mapping[str, Any] | None = seen.pop("listing", None)
    if table is None:
        return None
    files = [FileCalls(**file) for file in table["files"]]
    return CallListing(table["calls"], files, Path(listing) if listing else None, seen["health"].get("unlisted", 0))


# The backend that is always there: what the kernel counts anyway, read before and after. Unprivileged and free. What a
# process tree did is read off its main process while that is a zombie: its own totals, those of its threads, and those
# of every child that was waited for, however deep (proc(5), /proc/pid/io; kernel/exit.c adds them when a child is
# reaped). What it left behind for others to reap is in no total, and said. Disks are counted whole, whoever used them.
# Of single calls, times and files nothing can be known this way.

IO_FIELDS = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes")
"""Of /proc/pid/io, as `Observation.counters` has them."""

_RUSAGE_FIELDS = {
    "ru_majflt": "major_faults",
    "ru_minflt": "minor_faults",
    "ru_utime": "user_s",
    "ru_stime": "system_s",
    "ru_inblock": "in_blocks",
    "ru_oublock": "out_blocks",
    "ru_nvcsw": "voluntary_switches",
    "ru_nivcsw": "involuntary_switches",
}


class Counters:
    """The counters of one command, and of `devices`: kernel names of what lies under the target, in any order.

    Everything that these are built on is counted as well, and of a partition its disk.
    """

    def __init__(self, devices: Sequence[str] = (), root: Path = block_devices.ROOT) -> None:
        self._root = root
        self._devices = block_devices.below(devices, root)
        self._io: tuple[Mapping[str, int], Mapping[str, int]] = {}, {}
        self._disks: tuple[Mapping[str, Mapping[str, int]], Mapping[str, Mapping[str, int]]] = {}, {}
        self._why = ""
        self._account: FileIO | None = None
        """The process's /proc/<pid>/io, open from its beginning: when it has ended, the file belongs to root."""

    def begin(self, pid: int) -> None:
        """Read everything while the command is held before its first instruction."""
        self._io = self._process(pid), {}
        self._disks = block_devices.disk_counters(self._devices, self._root), {}

    def end(self, pid: int) -> None:
        """Read everything again: the main process `pid` has ended and is not reaped yet."""
        self._io = self._io[0], self._process(pid)
        self.close()
        self._disks = self._disks[0], block_devices.disk_counters(self._devices, self._root)

    def close(self) -> None:
        if self._account is not None:
            self._account.close()
            self._account = None

    def result(self, rusage: struct_rusage | None, adopted: Collection[int] = ()) -> dict[str, Any]:
        """`counters` and `disks` of an Observation, and `why` something is missing of them.

        `rusage` is what wait4(2) said of the main process. `adopted` are the processes that outlived it: what they
        did is in nobody's total.
        """
        why = [self._why] if self._why else []
        if adopted:
            one = len(adopted) == 1
            who, they = ("1 process", "it") if one else (f"{len(adopted)} processes", "they")
            why.append(f"{who} outlived the command: what {they} did is not in its counters")
        process = growth(*self._io) if all(self._io) else {}
        disks = {}
        for name, was in self._disks[0].items():
            now = self._disks[1].get(name, {})
            # Only of the same device as before: the counters of another one start again.
            if was.keys() == now.keys() and all(now[field] >= was[field] for field in was):
                disks[name] = growth(was, now)
        return {"counters": {**process, **usage(rusage)}, "disks": disks, "why": "; ".join(why)}

    def _process(self, pid: int) -> Mapping[str, int]:
        path = self._root / "proc" / str(pid) / "io"
        try:
            self._account = self._account or path.open("rb", buffering=0)
            self._account.seek(0)
            return process_counters(self._account.read().decode())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            self._why = f"/proc/{pid}/io cannot be read ({reason}): only rusage was counted; run as the command's user"
            return {}


def process_counters(text: str) -> dict[str, int]:
    """/proc/pid/io as numbers; ValueError when it is something else."""
    lines = (line.partition(":") for line in text.splitlines())
    found = {name: int(value) for name, _, value in lines if name in IO_FIELDS}
    if missing := [name for name in IO_FIELDS if name not in found]:
        raise ValueError(f"it has no {missing[0]}")
    return found


def usage(rusage: struct_rusage | None) -> dict[str, float]:
    """What wait4(2) says of a process and the children that it waited for; blocks are of 512 bytes (getrusage(2))."""
    return {name: getattr(rusage, field) for field, name in _RUSAGE_FIELDS.items()} if rusage is not None else {}


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What was added between two readings of the same fields."""
    return {name: after[name] - before[name] for name in before}
