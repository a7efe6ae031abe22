"""Which backend can watch here what was asked for, and why it is not a better one.

Nothing is attached or started here but a look at what the kernel allows. Which layers a backend has is said here as
it is meant; an observation says what was really watched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

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
    """Who watches."""

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
