"""The backend that needs no privileges and sees every call, at a price: each call costs tens of microseconds.

So its counts and bytes are exact and its times are worth nothing, which is said in every observation. It cannot see
what is submitted through io_uring's shared memory, nor mapped files, nor the block layer. The command is started by
strace itself, which therefore sees its first call. `strace_line` reads its lines.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ioassay.errors import StartError, ToolError
from ioassay.packs.strace.call_lines import (
    MOST,
    ByName,
    Call,
    Contexts,
    Files,
    Gone,
    Issued,
    Lines,
    Opened,
    Tally,
    Target,
    after_target,
    blocks,
    events,
    flags_of,
    target,
)
from ioassay.process import supervisor
from ioassay.records.observation import (
    BLOCK,
    COMPAT,
    EXPLAIN,
    OTHER,
    READ,
    RECORD,
    STRACE,
    SYNC,
    SYSCALLS,
    WRITE,
    Observation,
    Operation,
    Session,
)
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
    joined, tree, names = Lines(), Tree(epoch_ns), ByName()
    for line in lines:
        event = joined.feed(line)
        if event is not None:
            names.see(event)
            tree.see(event)
    unfinished = joined.unfinished()
    for call in unfinished:
        names.see(call)
    tree.finish(unfinished)
    reasons = (why, TIMES, RINGS if tree.rings else "")
    return Observation(
        flags_followed=True,
        backend=STRACE,
        asked=asked,
        layers=(SYSCALLS, "aio"),
        why="; ".join(filter(None, reasons)),
        processes=tree.tasks_seen,
        calls=dict(names.calls),
        call_errors=dict(names.errors),
        operations=tree.operations(),
        files=tree.files.seen(),
        sessions=tree.sessions(),
        health={**tree.health(), "lost": joined.senseless},
    )


def read_summary(output: Path, why: str = "") -> Observation:
    """What the summary says; nothing is counted where strace was ended before it wrote one."""
    try:
        text = output.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    calls, errors = parse_summary(text.splitlines())
    made = sum(calls.get(name, 0) - errors.get(name, 0) for name in _CLONES)
    return Observation(
        backend=STRACE,
        asked=SYSCALLS,
        layers=(),
        why="; ".join(filter(None, (why, _WHY if calls else "strace wrote no summary"))),
        kernel=os.uname().release,
        processes=1 + made if calls else 0,
        calls=calls,
        call_errors=errors,
    )


def parse_summary(lines: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
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


# What the calls of a process tree mean: which file each reads, writes or syncs, and how much of it. Descriptors are
# followed from their opens; one that was open before, or came by a way that is not traced (a pipe, a socket, one sent
# by another process), becomes a session without an open when it is first used. A task whose lines come before its
# parent's clone returned waits for that line.


class Descriptors:
    """Numbers to open files, of all tasks that share them."""

    def __init__(self) -> None:
        self.users = 1
        self._open: dict[int, Opened | None] = {}
        self._close_on_exec: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number in self._open

    def get(self, number: int) -> Opened | None:
        return self._open.get(number)

    def put(self, number: int, opened: Opened | None, close_on_exec: bool, at_ns: int) -> None:
        """`number` leads to `opened` now (None: one that is not tracked), and to nothing else any more."""
        if opened is not None:
            opened.holders += 1
        self.close(number, at_ns)
        self._open[number] = opened
        self.mark(number, close_on_exec)

    def mark(self, number: int, close_on_exec: bool) -> None:
        """fcntl(F_SETFD)."""
        (self._close_on_exec.add if close_on_exec else self._close_on_exec.discard)(number)

    def close(self, number: int, at_ns: int) -> None:
        """Take a number away; `at_ns` is 0 when its process ended."""
        opened = self._open.pop(number, None)
        if opened is not None:
            opened.holders -= 1
            if not opened.holders:
                opened.closed_ns = at_ns

    def between(self, first: int, last: int) -> Iterator[int]:
        """The open numbers from `first` to `last`."""
        return iter([number for number in self._open if first <= number <= last])

    def copy(self) -> Descriptors:
        """What a forked child has."""
        child = Descriptors()
        for number, opened in self._open.items():
            child.put(number, opened, number in self._close_on_exec, 0)
        return child

    def leave(self, at_ns: int = 0) -> None:
        """One task less uses them; after the last all are closed."""
        self.users -= 1
        for number in list(self._open) if not self.users else ():
            self.close(number, at_ns)

    def thinned(self, at_ns: int) -> Descriptors:
        """What the task has that executes another program: its own, without those marked for it."""
        own = self.copy()
        self.leave(at_ns)
        for number in list(own._close_on_exec):
            own.close(number, at_ns)
        own._close_on_exec.clear()
        return own


class Task:
    """A thread or a process. Tasks of one `space` share their memory, and so the meaning of an address."""

    def __init__(self, descriptors: Descriptors, space: object) -> None:
        self.descriptors = descriptors
        self.space = space

    def child(self, shares_files: bool, shares_memory: bool) -> Task:
        """What clone makes of it."""
        descriptors = self.descriptors if shares_files else self.descriptors.copy()
        descriptors.users += shares_files
        return Task(descriptors, self.space if shares_memory else object())

    def execute(self, at_ns: int) -> None:
        """Another program begins in it."""
        self.descriptors = self.descriptors.thinned(at_ns)
        self.space = object()


Requested = Callable[[str], str | list[str]]

_VECTOR = re.compile(r"iov_len=(\d+)")
_OFFSET = re.compile(r", (?:\[[^\]]*\](?: => \[[^\]]*\])?|NULL|0x[0-9a-f]+), ")
_MOST_WAITING = 10_000
"""Events of a task without a parent before it is taken as it is."""
_LAST_NUMBER = (1 << 32) - 1


def _from_end(place: int) -> Requested:
    """The argument there, '' where so many were not written."""
    return lambda arguments: ([""] * place + arguments.rsplit(", ", place))[-place]


_LAST, _LAST_BUT_ONE = _from_end(1), _from_end(2)
_TRANSFERS: dict[str, tuple[str, Requested]] = {
    "read": (READ, _LAST),
    "pread64": (READ, _LAST_BUT_ONE),
    "readv": (READ, _VECTOR.findall),
    "preadv": (READ, _VECTOR.findall),
    "preadv2": (READ, _VECTOR.findall),
    "write": (WRITE, _LAST),
    "pwrite64": (WRITE, _LAST_BUT_ONE),
    "writev": (WRITE, _VECTOR.findall),
    "pwritev": (WRITE, _VECTOR.findall),
    "pwritev2": (WRITE, _VECTOR.findall),
}
_COPIES = {"sendfile": _LAST, "sendfile64": _LAST, "copy_file_range": _LAST_BUT_ONE}
_SYNCS_OF_MORE = {"sync", "msync"}
_SYNCS = {"fsync", "fdatasync", "sync_file_range", "sync_file_range2", "syncfs"} | _SYNCS_OF_MORE
_OPENS = {"open", "openat", "openat2", "creat"}
_DUPLICATES = {"dup", "dup2", "dup3"}
_CLONES = {"clone", "clone3", "fork", "vfork"}
_GETS_EVENTS = {"io_getevents", "io_pgetevents", "io_pgetevents_time64"}


class Tree:
    """Sees event after event; `epoch_ns` is subtracted from their stamps."""

    def __init__(self, epoch_ns: int) -> None:
        self.files = Files()
        self.tasks_seen = 0
        self.rings = 0
        """io_uring instances that were set up: what was done through them is not seen."""
        self._epoch_ns = epoch_ns
        self._tasks: dict[int, Task] = {}
        self._waiting: dict[int, list[Call | Gone]] = {}
        self._operations: dict[tuple[str, str], Tally] = {}
        self._sessions: list[Opened] = []
        self._untracked_sessions = 0
        self._contexts = Contexts()
        self._never_returned = 0

    def see(self, event: Call | Gone) -> None:
        task = self._tasks.get(event.task)
        if task is None and self.tasks_seen:
            waiting = self._waiting.setdefault(event.task, [])
            waiting.append(event)
            if len(waiting) > _MOST_WAITING:
                self._adopt(event.task, Task(Descriptors(), object()))
        elif task is None:
            self._adopt(event.task, Task(Descriptors(), object()))
            self.see(event)
        elif isinstance(event, Call):
            self._see_call(task, event)
        else:
            if event.during is not None:
                self._see_call(task, event.during)
            del self._tasks[event.task]
            task.descriptors.leave()

    def finish(self, unfinished: Iterable[Call]) -> None:
        """No more lines: `unfinished` were still going on."""
        for number in list(self._waiting):
            self._adopt(number, Task(Descriptors(), object()))
        for call in unfinished:
            self.see(call)
        for task in self._tasks.values():
            task.descriptors.leave()

    def operations(self) -> list[Operation]:
        """By way into the kernel and kind, in the order of their first call."""
        return [Operation(entry, kind, tally.calls_seen()) for (entry, kind), tally in self._operations.items()]

    def sessions(self) -> list[Session]:
        return [session for opened in self._sessions for session in opened.sessions()]

    def health(self) -> dict[str, int]:
        """As `Observation.health`, but for `lost`."""
        return {
            "unmatched": self._contexts.unmatched,
            "in_flight": self._contexts.in_flight + self._never_returned,
            "untracked_files": self.files.untracked,
            "untracked_sessions": self._untracked_sessions,
        }

    # Tasks

    def _adopt(self, number: int, task: Task) -> None:
        """`task` has this number from now on; what it did before this was known follows."""
        self.tasks_seen += 1
        if (old := self._tasks.get(number)) is not None:
            old.descriptors.leave()
        self._tasks[number] = task
        for event in self._waiting.pop(number, ()):
            self.see(event)

    # Calls

    def _see_call(self, task: Task, call: Call) -> None:
        name = call.name
        if name in _TRANSFERS:
            kind, requested = _TRANSFERS[name]
            self._transfer(task, call, kind, target(call.arguments), _total(requested(call.arguments)))
        elif name in _SYNCS:
            self._transfer(task, call, SYNC, None if name in _SYNCS_OF_MORE else target(call.arguments), 0)
        elif name in _COPIES:
            self._copy(task, call, _total(_COPIES[name](call.arguments)))
        elif name == "io_submit":
            self._submit(task, call)
        elif name in _GETS_EVENTS:
            self._get_events(task, call)
        elif name.startswith("io_uring_"):
            self._count(call)
            self.rings += name == "io_uring_setup" and call.returned is not None and call.returned >= 0
        elif name in _CLONES:
            if (number := call.returned) is not None and number > 0:
                shares_memory = name == "vfork" or "CLONE_VM" in call.arguments
                self._adopt(number, task.child("CLONE_FILES" in call.arguments, shares_memory))
        elif name.startswith("execve") and call.returned == 0:
            task.execute(self._exit(call))
        else:
            self._describe(task, call)

    def _describe(self, task: Task, call: Call) -> None:
        """Calls that change what a descriptor leads to."""
        name = call.name
        if name == "close" and "EBADF" not in call.result:  # whatever else went wrong, it is closed (close(2))
            task.descriptors.close(_number(call.arguments), self._exit(call))
        elif name == "close_range" and call.returned == 0:
            first, last = (_first(text) for text in call.arguments.split(", ")[:2])
            upto = int(last) if last.isdecimal() else _LAST_NUMBER
            for number in task.descriptors.between(_number(first), upto):
                if "CLOSE_RANGE_CLOEXEC" in call.arguments:
                    task.descriptors.mark(number, True)
                else:
                    task.descriptors.close(number, self._exit(call))
        elif name in _OPENS:
            self._open(task, call)
        elif name in _DUPLICATES:
            self._duplicate(task, call, "O_CLOEXEC" in call.arguments.rpartition(", ")[2])
        elif name.startswith("fcntl"):
            self._control(task, call)

    def _transfer(self, task: Task, call: Call, kind: str, of: Target | None, requested_bytes: int) -> None:
        if call.returned is None and call.result.lstrip("? ").startswith("ERESTART"):
            return  # entered again, or given up: nothing was moved
        opened = self._opened(task, of)
        issued = self._issue(call.name, kind, opened, requested_bytes, call.entry_ns - self._epoch_ns)
        if (result := call.returned) is None:
            self._never_returned += 1
        else:
            issued.complete(result, self._exit(call))

    def _copy(self, task: Task, call: Call, requested_bytes: int) -> None:
        """From one descriptor to another: a read of the one and a write of the other."""
        one, rest = target(call.arguments), after_target(call.arguments)
        source, sink = target(rest.removeprefix(", ")), one
        if call.name == "copy_file_range":
            offset = _OFFSET.match(rest)
            source, sink = one, target(rest[offset.end() :]) if offset else None
        self._transfer(task, call, READ, source, requested_bytes)
        self._transfer(task, call, WRITE, sink, requested_bytes)

    def _submit(self, task: Task, call: Call) -> None:
        self._count(call)
        context = task.space, _first(call.arguments)
        for _, block in zip(range(call.returned or 0), blocks(call.arguments), strict=False):
            opened = self._opened(task, block.file)
            entry_ns = call.entry_ns - self._epoch_ns
            issued = self._issue("aio", block.kind, opened, block.requested_bytes, entry_ns)
            self._contexts.submit(context, block.data, issued)

    def _get_events(self, task: Task, call: Call) -> None:
        self._count(call)
        context = task.space, _first(call.arguments)
        for _, (data, result) in zip(range(call.returned or 0), events(call.arguments), strict=False):
            self._contexts.complete(context, data, result, self._exit(call))

    def _count(self, call: Call) -> None:
        """A call that moves nothing itself."""
        issued = self._issue(call.name, OTHER, None, 0, call.entry_ns - self._epoch_ns)
        if (result := call.returned) is not None:
            issued.complete(min(result, 0), self._exit(call))

    def _issue(self, entry: str, kind: str, opened: Opened | None, requested_bytes: int, entry_ns: int) -> Issued:
        tallies: tuple[Tally, ...] = (self._operations.setdefault((entry, kind), Tally()),)
        if opened is not None and kind != OTHER:
            tallies += opened.tallies_of(kind, entry_ns)
        for tally in tallies:
            tally.issue(entry_ns, requested_bytes)
        return Issued(kind, opened, tallies, requested_bytes, entry_ns)

    # Descriptors

    def _opened(self, task: Task, of: Target | None) -> Opened | None:
        """What a descriptor leads to; a session without an open when that was not seen."""
        if of is None or of.number < 0:
            return None
        if of.number not in task.descriptors and of.path:
            task.descriptors.put(of.number, self._session(of, 0, ()), False, 0)
        return task.descriptors.get(of.number)

    def _session(self, of: Target, opened_ns: int, flags: Iterable[str]) -> Opened | None:
        file = self.files.id_of(of)
        if file is None or len(self._sessions) >= MOST:
            self._untracked_sessions += 1
            return None
        self._sessions.append(Opened(file, opened_ns, flags))
        return self._sessions[-1]

    def _open(self, task: Task, call: Call) -> None:
        of = target(call.result)
        if of is None or of.number < 0:
            return
        given = call.arguments.rpartition('"')[2]
        words = "O_WRONLY|O_CREAT|O_TRUNC" if call.name == "creat" else "|".join(re.findall(r"O_\w+", given))
        opened = self._session(of, self._exit(call), flags_of(words))
        task.descriptors.put(of.number, opened, "O_CLOEXEC" in words, self._exit(call))

    def _duplicate(self, task: Task, call: Call, close_on_exec: bool) -> None:
        source, copy = target(call.arguments), target(call.result)
        if source is not None and copy is not None and copy.number >= 0 and source.number != copy.number:
            task.descriptors.put(copy.number, self._opened(task, source), close_on_exec, self._exit(call))

    def _control(self, task: Task, call: Call) -> None:
        of, given = target(call.arguments), after_target(call.arguments)
        if of is None or (call.returned or 0) < 0:
            return
        if given.startswith(", F_DUPFD"):
            self._duplicate(task, call, given.startswith(", F_DUPFD_CLOEXEC"))
        elif given.startswith(", F_SETFD"):
            task.descriptors.mark(of.number, "FD_CLOEXEC" in given)
        elif given.startswith(", F_SETFL") and (opened := self._opened(task, of)) is not None:
            opened.set_flags(flags_of(given.rpartition(", ")[2]), self._exit(call))

    def _exit(self, call: Call) -> int:
        return call.entry_ns + call.took_ns - self._epoch_ns


def _first(arguments: str) -> str:
    return arguments.partition(",")[0].partition("<")[0]


def _number(text: str) -> int:
    word = _first(text)
    return int(word) if word.removeprefix("-").isdecimal() else -1


def _total(sizes: str | list[str]) -> int:
    """Bytes asked for; 0 where a call that never returned was not written whole."""
    words = [sizes] if isinstance(sizes, str) else sizes
    return sum(int(word) for word in words if word.isdecimal())
