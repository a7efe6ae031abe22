"""System calls by name from strace's own summary (-c), where BPF programs cannot count them.

Cheaper than its lines and no larger for more calls, and counts only: no files, no bytes, no times. Not in it are calls
that never return (exit, exit_group, what a signal ended) and numbers that strace has no name for; how many processes
there were follows from the calls that made them, threads among them, so these are not told apart.
Source: strace(1); the table's shape was read off strace 6.1's output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ioassay.records.observation import COMPAT, STRACE, SYSCALLS, Observation
from ioassay.verify.witness.strace import PROGRAM

WHY = "strace counted the calls, as BPF could not: all was slowed down, and calls that do not return are not counted"
_ROW = re.compile(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d{1,18})\s+(?:(\d{1,18})\s+)?(\w+)$")
_OTHER_MODE = re.compile(r"System call usage summary for (32 bit|x32) mode")
_MAKES_TASKS = ("clone", "clone3", "fork", "vfork")
_TOTAL = "total"


def wrap(argv: Sequence[str], output: Path) -> list[str]:
    """The command line that runs `argv` under strace, which writes its summary to `output` and ends as `argv` ends.

    The path is absolute, since `argv` may run in another folder.
    """
    return [PROGRAM, "-f", "-q", "-c", "-o", str(output.absolute()), "--", *argv]


def read(output: Path, why: str = "") -> Observation:
    """What the summary says; nothing is counted where strace was ended before it wrote one."""
    try:
        text = output.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    calls, errors = parse(text.splitlines())
    made = sum(calls.get(name, 0) - errors.get(name, 0) for name in _MAKES_TASKS)
    return Observation(
        backend=STRACE,
        asked=SYSCALLS,
        layers=(),
        why="; ".join(filter(None, (why, WHY if calls else "strace wrote no summary"))),
        kernel=os.uname().release,
        processes=1 + made if calls else 0,
        calls=calls,
        call_errors=errors,
    )


def parse(lines: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Calls by name, and how many of each failed; those of 32-bit programs together, as in `Observation.calls`."""
    calls: dict[str, int] = {}
    errors: dict[str, int] = {}
    is_compat = False
    for line in lines:
        if _OTHER_MODE.match(line):
            is_compat = True
        elif (row := _ROW.match(line)) and row[3] != _TOTAL:
            name = COMPAT if is_compat else row[3]
            calls[name] = calls.get(name, 0) + int(row[1])
            if row[2]:
                errors[name] = errors.get(name, 0) + int(row[2])
    return calls, errors
