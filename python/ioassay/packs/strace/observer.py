"""The backend that needs no privileges and sees every call, at a price: each call costs tens of microseconds.

So its counts and bytes are exact and its times are worth nothing, which is said in every observation. It cannot see
what is submitted through io_uring's shared memory, nor mapped files, nor the block layer. The command is started by
strace itself, which therefore sees its first call. `call_lines` reads its lines, `process_tree` makes sense of them.

Its own summary (-c) is cheaper and no larger for more calls, and counts only, by name: no files, no bytes, no times.
Not in it are calls that never return (exit, exit_group, what a signal ended) and numbers that strace has no name for;
how many processes there were follows from the calls that made them, threads among them, so these are not told apart.
Source: strace(1); the shape of the summary was read off strace 6.1's output.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ioassay.errors import StartError, ToolError
from ioassay.packs.strace.call_lines import Lines
from ioassay.packs.strace.process_tree import CLONES, Tree
from ioassay.process import supervisor
from ioassay.records.observation import BLOCK, COMPAT, EXPLAIN, RECORD, STRACE, SYSCALLS, Observation
from ioassay.roles import Outcome
from ioassay.verify.witness.observed_command import Watching

PROGRAM = "strace"
CALLS, SUMMARY = "calls.strace", "summary.strace"
TIMES = "strace slows every call down, so its times and rates are not to be judged"
RINGS = "io_uring was used, and what is submitted through it strace cannot see: use the backend bpf"

_WHY = "strace counted the calls, as BPF could not: all was slowed down, and calls that do not return are not counted"
_ROW = re.compile(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d{1,18})\s+(?:(\d{1,18})\s+)?(\w+)$")
_OTHER_MODE = re.compile(r"System call usage summary for (32 bit|x32) mode")
_TOTAL = "total"
_OF_THE_BLOCK_LAYER = (BLOCK, EXPLAIN, RECORD)
_OPTIONS = ("-f", "-q", "-v", "-yy", "-s", "0", "-ttt", "-T", "-e", "signal=none")
"""Children too; no arrays cut short (-v); what descriptors are open to (-yy); no data; stamps and durations."""


class _Strace(Watching):
    """strace starts the command and writes down its calls, or their summary."""

    def __init__(self, wrap: Callable[[Sequence[str]], Sequence[str]], read: Callable[[], Observation]) -> None:
        self._wrap, self._read = wrap, read

    def command(self, argv: Sequence[str]) -> Sequence[str]:
        return self._wrap(argv)

    def observation(self, outcome: Outcome) -> Observation:
        return self.finished(self._read())


def watching(level: str, folder: Path, why: str) -> Watching:
    """What strace sees of a command; its lines stay in CALLS."""
    calls = folder / CALLS
    return _Strace(partial(wrap, output=calls), partial(read, calls, level, why))


def counting(folder: Path, why: str) -> Watching:
    """What strace's summary counts, which stays in SUMMARY."""
    summary = folder / SUMMARY
    return _Strace(partial(wrap_summary, output=summary), partial(read_summary, summary, why))


def missing(level: str) -> str:
    """What of a level strace does not see; '' when it sees all."""
    return f"strace cannot see the block layer, which level {level} asks for" if level in _OF_THE_BLOCK_LAYER else ""


def unusable() -> str:
    """'' when commands can be watched by strace here, else why not and what helps."""
    try:
        done = supervisor.capture([PROGRAM, "-f", "-o", "/dev/null", "-e", "trace=none", "--", "true"])
    except ToolError:
        return "there is no strace on PATH; apt-get install strace"
    if done.exit_code == 0:
        return ""
    said = done.stderr.strip().splitlines()
    reason = said[0].removeprefix("strace: ") if said else f"it ended with {done.exit_code}"
    return f"strace cannot trace ({reason}); containers need --cap-add=SYS_PTRACE, Yama kernel.yama.ptrace_scope <= 2"


def wrap(argv: Sequence[str], output: Path) -> list[str]:
    """The command line that runs `argv` under strace, which writes all calls to `output` and ends as `argv` ends.

    The path is absolute, since `argv` may run in another folder. StartError where the program of `argv` cannot be
    started: strace would start, and say so by itself.
    """
    if shutil.which(program := argv[0]) is None:
        raise StartError(program, errno.EACCES if "/" in program and os.path.exists(program) else errno.ENOENT)  # noqa: PTH110 (any text)
    return [PROGRAM, *_OPTIONS, "-o", str(output.absolute()), "--", *argv]


def wrap_summary(argv: Sequence[str], output: Path) -> list[str]:
    """As `wrap`, with a summary alone in `output`."""
    return [PROGRAM, "-f", "-q", "-c", "-o", str(output.absolute()), "--", *argv]


def read(output: Path, asked: str = SYSCALLS, why: str = "") -> Observation:
    """What strace wrote to `output`, its times moved from the wall clock to CLOCK_MONOTONIC."""
    epoch_ns = time.time_ns() - time.monotonic_ns()
    with output.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        return replace(parse(lines, asked=asked, why=why, epoch_ns=epoch_ns), kernel=os.uname().release)


def parse(lines: Iterable[str], *, asked: str = SYSCALLS, why: str = "", epoch_ns: int = 0) -> Observation:
    """What the lines of strace say, read once and in order; lines that make no sense are counted as lost.

    `epoch_ns` is subtracted from the stamps. A call that a signal interrupted moved nothing and is left out: the
    program enters it again, or gives it up.
    """
    joined, tree = Lines(epoch_ns), Tree()
    for event in joined.events(lines):
        tree.see(event)
    tree.finish()
    has_rings = tree.calls["io_uring_setup"] > tree.errors["io_uring_setup"]
    reasons = (why, TIMES, RINGS if has_rings else "")
    return Observation(
        flags_followed=True,
        backend=STRACE,
        asked=asked,
        layers=(SYSCALLS, "aio"),
        why="; ".join(filter(None, reasons)),
        processes=tree.tasks_seen,
        calls=dict(tree.calls),
        call_errors=dict(tree.errors),
        operations=tree.operations(),
        files=tree.files.seen,
        sessions=tree.sessions(),
        health={**tree.health(), "lost": joined.senseless},
    )


def read_summary(output: Path, why: str = "") -> Observation:
    """What the summary says, calls of 32-bit programs together; nothing where strace was ended before it wrote one."""
    try:
        text = output.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    calls: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    is_compat = False
    for line in text.splitlines():
        if _OTHER_MODE.match(line):
            is_compat = True
        elif (row := _ROW.match(line)) and row[3] != _TOTAL:
            name = COMPAT if is_compat else row[3]
            calls[name] += int(row[1])
            errors[name] += int(row[2] or 0)
    errors = +errors
    made = sum(calls[name] - errors[name] for name in CLONES)
    return Observation(
        backend=STRACE,
        asked=SYSCALLS,
        layers=(),
        why="; ".join(filter(None, (why, _WHY if calls else "strace wrote no summary"))),
        kernel=os.uname().release,
        processes=1 + made if calls else 0,
        calls=dict(calls),
        call_errors=dict(errors),
    )
