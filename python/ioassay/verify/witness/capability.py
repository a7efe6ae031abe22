"""Which backend can watch here what was asked for, and why it is not a better one.

Nothing is attached or started here but a look at what the kernel allows. Which layers a backend has is said here as
it is meant; an observation says what was really watched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ioassay import _core, debug_log
from ioassay.errors import ToolError, UsageError
from ioassay.hints import document, nearest
from ioassay.host import process_capabilities
from ioassay.records.observation import BACKENDS, BLOCK, BPF, COUNTERS, EXPLAIN, LEVELS, RECORD, STRACE, SYSCALLS
from ioassay.verify.witness import strace

AUTO = "auto"
BPF_LAYERS = {
    BLOCK: (BLOCK, "uring"),
    SYSCALLS: (BLOCK, "uring", SYSCALLS, "aio"),
    EXPLAIN: (BLOCK, "uring", SYSCALLS, "aio", EXPLAIN),
    RECORD: (BLOCK, "uring", RECORD),
}
STRACE_LAYERS = (SYSCALLS, "aio")

_GRANT = f"{document('backends')} shows how"


@dataclass(frozen=True)
class Choice:
    backend: str
    """BPF, COUNTERS or STRACE."""
    layers: Sequence[str]
    """What it will watch, as `Observation.layers`; the counters are read whoever watches, but for strace."""
    why: str = ""
    """Why that is less than was asked for, with the remedy; '' when it is all of it."""


def best(asked: str, wanted: str = AUTO) -> Choice:
    """The backend for level `asked` (one of LEVELS but OFF): `wanted`, or with AUTO the best that works here.

    AUTO never means strace, which slows what it watches down by a factor. ToolError: the backend that was asked for
    by name cannot run here. UsageError: there is no such level or backend.
    """
    choice = _best(asked, wanted)
    debug_log.info("witness", f"backend {choice.backend} for level {asked}" + (f": {choice.why}" if choice.why else ""))
    return choice


def _best(asked: str, wanted: str) -> Choice:
    if asked not in (levels := LEVELS[1:]):
        raise UsageError(
            f"nothing can be watched at level '{asked}'; expected {', '.join(levels)}{nearest(asked, levels)}"
        )
    if wanted not in (known := (AUTO, *BACKENDS)):
        raise UsageError(f"there is no backend '{wanted}'; expected {', '.join(known)}{nearest(wanted, known)}")
    if wanted == STRACE:
        if reason := strace.available():
            raise ToolError(f"backend strace cannot run: {reason}")
        unseen = asked in (BLOCK, EXPLAIN, RECORD)
        missing = f"strace cannot see the block layer, which level {asked} asks for" if unseen else ""
        return Choice(STRACE, STRACE_LAYERS, missing)
    if COUNTERS in (wanted, asked):
        why = f"backend counters was asked for: nothing of level {asked} was watched" if asked != COUNTERS else ""
        return Choice(COUNTERS, (COUNTERS,), why)
    reason = bpf_unusable()
    if not reason:
        return Choice(BPF, (*BPF_LAYERS[asked], COUNTERS))
    if wanted == BPF:
        raise ToolError(f"backend bpf cannot run: {reason}")
    return Choice(COUNTERS, (COUNTERS,), f"only counters were read, nothing of level {asked}: {reason}")


def counter() -> tuple[str, str]:
    """Who counts system calls by name here: BPF, or where that cannot run STRACE, and then why not BPF.

    ToolError, with both reasons, when neither can.
    """
    reason = bpf_unusable()
    if not reason:
        return BPF, ""
    if other := strace.available():
        raise ToolError(f"system calls cannot be counted by BPF ({reason}), nor by strace ({other})")
    return STRACE, reason


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

SAMPLE = ""
"""The name of no file: the first and the last calls of each file are kept in memory."""


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


def destination(calls: str | None, level: str, backend: str, twins: int) -> str | None:
    """The absolute path of the file to list to; SAMPLE for a sample, None for no listing.

    UsageError for what cannot be combined with a listing, and for a path that is no file of an existing folder.
    """
    if calls is None:
        return None
    if level not in (SYSCALLS, EXPLAIN):
        raise UsageError(f"--calls and --level {level}: calls are seen at level {SYSCALLS}")
    if backend not in (AUTO, BPF):
        raise UsageError(f"--calls and --backend {backend}: calls are listed by {BPF}; strace has a listing of its own")
    if twins:
        raise UsageError("--calls and --twins: a listing is of one run; give one of them")
    path = Path(calls).absolute()
    if calls and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--calls={calls}: not a file in a folder that exists; make the folder first")
    return str(path) if calls else SAMPLE


def taken_from(seen: MutableMapping[str, Any], listing: str | None) -> CallListing | None:
    """The listing to `listing` that the programs added to an observation, which has it no more; None of none."""
    table: Mapping[str, Any] | None = seen.pop("listing", None)
    if table is None:
        return None
    files = [FileCalls(**file) for file in table["files"]]
    return CallListing(table["calls"], files, Path(listing) if listing else None, seen["health"].get("unlisted", 0))
