"""One command under the witness: everything is attached while it is held, and read when it has ended.

Which backend watches is chosen by `capability`; what could not be watched is said in the observation, never silently.
The free account of the kernel (`counters`) is taken besides, whatever else watches.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from ioassay import _core
from ioassay.process import process_table
from ioassay.records.observation import BPF, COUNTERS, OFF, RECORD, STRACE, SYSCALLS, File, Observation, from_dict
from ioassay.roles import Outcome
from ioassay.verify.witness import strace
from ioassay.verify.witness.capability import AUTO, BPF_LAYERS, CallListing, Choice, best, counter, taken_from
from ioassay.verify.witness.counters import Counters

REQUESTS = "requests.bin"
CALLS = "calls.strace"
SUMMARY = "summary.strace"
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

    def _finished(self, found: Observation, files: Sequence[File] | None = None) -> Observation:
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
    RECORD writes down, and CALLS, what strace writes; `layers` are more than the level asks for (SYSCALLS beside
    RECORD). With `listing` the calls on files are listed, to that file or for '' as a sample. ToolError when a backend
    that was asked for by name cannot run.
    """
    if level == OFF:
        return Watching()
    choice, calls = best(level, backend), folder / CALLS
    if choice.backend == STRACE:
        return _Strace(partial(strace.wrap, output=calls), partial(strace.read, calls, level, choice.why))
    return _Witness(choice, level, devices, folder / REQUESTS if level == RECORD else None, layers, listing)


def counting(devices: Sequence[str], folder: Path) -> Watching:
    """What counts the system calls of one command by name: BPF programs, or where these cannot run strace's summary,
    SUMMARY in `folder`. ToolError when neither can."""
    who, why = counter()
    if who == STRACE:
        summary = folder / SUMMARY
        return _Strace(partial(strace.wrap_summary, output=summary), partial(strace.read_summary, summary, why))
    return _Witness(Choice(BPF, (*BPF_LAYERS[SYSCALLS], COUNTERS)), SYSCALLS, devices, None, ())


class _Strace(Watching):
    """strace starts the command and writes down its calls, or their summary."""

    def __init__(self, wrap: Callable[[Sequence[str]], Sequence[str]], read: Callable[[], Observation]) -> None:
        self._wrap, self._read = wrap, read

    def command(self, argv: Sequence[str]) -> Sequence[str]:
        return self._wrap(argv)

    def observation(self, outcome: Outcome) -> Observation:
        return self._finished(self._read())


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
        return self._finished(from_dict({**known, "why": why, "backend": backend, "asked": self._asked}))


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
