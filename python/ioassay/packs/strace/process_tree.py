"""What the calls of a process tree mean: which file each reads, writes or syncs, and how much of it (`_MEANINGS`).

Descriptors are followed from their opens; one that was open before, or came by a way that is not traced (a pipe, a
socket, one sent by another process), becomes a session without an open when it is first used. A task whose lines come
before its parent's clone returned waits for that line.

A file is its device and inode where its path still leads to it when the lines are read; one that has gone by then is
its path. So a path under which one file was replaced by another counts as one file, but its sessions stay apart.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ioassay.packs.strace.call_lines import Call, Gone, Target, target
from ioassay.records.observation import OTHER, READ, SYNC, WRITE, Calls, File, Operation, Session

CLONES = ("clone", "clone3", "fork", "vfork")
MOST = 1 << 16
"""Files, and sessions, that are kept apart; further ones are counted as untracked."""
_MOST_WAITING = 10_000
"""Events of a task without a parent before it is taken as it is."""
_LAST_NUMBER = (1 << 32) - 1
_FIRST = "first"
_FLAGS = {
    "O_RDONLY": ("read",),
    "O_WRONLY": ("write",),
    "O_RDWR": ("read", "write"),
    "O_DIRECT": ("direct",),
    "O_SYNC": ("sync",),
    "O_DSYNC": ("dsync",),
    "O_APPEND": ("append",),
    "O_CREAT": ("create",),
    "O_TRUNC": ("truncate",),
}
_SETTABLE = ("direct", "append")
"""What fcntl(F_SETFL) can change of these (fcntl(2))."""
_NUMBERED = re.compile(r"syscall_(0x[0-9a-f]+)")
_RESTORES = "rt_sigreturn"
"""What it returns is the result of the call that a signal interrupted."""
_OFFSET = re.compile(r", (?:\[[^\]]*\](?: => \[[^\]]*\])?|NULL|0x[0-9a-f]+), ")

_BLOCK_BEGINS = "{aio_data="
_BLOCK_KINDS = {"PREAD": READ, "PREADV": READ, "PWRITE": WRITE, "PWRITEV": WRITE, "FSYNC": SYNC, "FDSYNC": SYNC}
_BLOCK_KIND = re.compile(r"aio_lio_opcode=IOCB_CMD_(\w+)")
_BLOCK_FILE = re.compile(r"aio_fildes=")
_BLOCK_SIZE = re.compile(r"aio_nbytes=(\d{1,19})")
_EVENT = re.compile(r"\{data=(\w+), obj=\w+, res=(-?\d{1,20})")

# How many bytes are asked for; nothing where a call that never returned was not written whole.
_VECTOR = re.compile(r"iov_len=(\d{1,19})")
_LAST = re.compile(r"(?:^|, )(\d{1,19})$")
_LAST_BUT_ONE = re.compile(r"(?:^|, )(\d{1,19}), [^,]*$")


class Tally:
    """Counts of one class of calls while they are seen, each issued first and completed later or never.

    Times are in nanoseconds of whatever clock the caller has.
    """

    __slots__ = (
        *("calls", "completed", "errors", "short", "requested_bytes", "bytes"),
        *("first_ns", "last_ns", "sum_ns", "min_ns", "max_ns"),
    )

    def __init__(self) -> None:
        self.calls = self.completed = self.errors = self.short = self.requested_bytes = self.bytes = 0
        self.first_ns = self.last_ns = self.sum_ns = self.min_ns = self.max_ns = 0

    def issue(self, entry_ns: int, requested_bytes: int) -> None:
        if not self.calls or entry_ns < self.first_ns:
            self.first_ns = entry_ns
        self.calls += 1
        self.requested_bytes += requested_bytes

    def complete(self, requested_bytes: int, result: int, entry_ns: int, exit_ns: int) -> None:
        """It returned: bytes moved, or a negative error number."""
        if result < 0:
            self.errors += 1
        else:
            self.bytes += result
            self.short += result < requested_bytes
        took_ns = max(exit_ns - entry_ns, 0)
        self.min_ns = min(self.min_ns, took_ns) if self.completed else took_ns
        self.max_ns = max(self.max_ns, took_ns)
        self.sum_ns += took_ns
        self.last_ns = max(self.last_ns, exit_ns)
        self.completed += 1

    def calls_seen(self) -> Calls:
        return Calls(**{name: getattr(self, name) for name in self.__slots__})


def _tallies() -> dict[str, Tally]:
    """Of one session, as it names them."""
    return {kind: Tally() for kind in (READ, WRITE, SYNC, _FIRST)}


@dataclass(slots=True, eq=False)
class Opened:
    """One open file, which descriptors of several processes may share."""

    file: int
    opened_ns: int
    flags: list[str]
    closed_ns: int = 0
    second_ns: int = 0
    ended_ns: int = 0
    holders: int = 0
    """Descriptors that lead here."""
    tallies: dict[str, Tally] = field(default_factory=_tallies)
    before: list[Session] = field(default_factory=list)
    """Done with other flags."""

    def tallies_of(self, kind: str, entry_ns: int) -> tuple[Tally, ...]:
        """Where a call of this kind is to be counted."""
        if kind != SYNC and not self.tallies[_FIRST].calls:
            return self.tallies[kind], self.tallies[_FIRST]
        self.second_ns = self.second_ns or (entry_ns if kind != SYNC else 0)
        return (self.tallies[kind],)

    def set_flags(self, flags: Iterable[str], at_ns: int) -> None:
        """fcntl(F_SETFL). One session has one set of flags: what was done with the old ones stays apart."""
        kept = [flag for flag in self.flags if flag not in _SETTABLE]
        wanted = kept + [flag for flag in flags if flag in _SETTABLE]
        if sorted(wanted) != sorted(self.flags) and self.tallies[_FIRST].calls:
            self.before.append(self._session())
            self.opened_ns, self.second_ns, self.ended_ns = at_ns, 0, 0
            self.tallies = _tallies()
        self.flags = wanted

    def sessions(self) -> list[Session]:
        """In the order of time; several where its flags were changed between calls."""
        return [*self.before, self._session()]

    def _session(self) -> Session:
        done: dict[str, Any] = {kind: tally.calls_seen() for kind, tally in self.tallies.items()}
        done |= {"second_ns": self.second_ns, "ended_ns": self.ended_ns}
        return Session(self.file, self.opened_ns, self.closed_ns, self.flags, **done)


class Descriptors:
    """Numbers to open files, of all tasks that share them."""

    def __init__(self) -> None:
        self.users = 1
        self.open: dict[int, Opened | None] = {}
        """None: one that is not tracked."""
        self.close_on_exec: set[int] = set()

    def put(self, number: int, opened: Opened | None, close_on_exec: bool, at_ns: int) -> None:
        """`number` leads to `opened` now, and to nothing else any more."""
        if opened is not None:
            opened.holders += 1
        self.close(number, at_ns)
        self.open[number] = opened
        self.mark(number, close_on_exec)

    def mark(self, number: int, close_on_exec: bool) -> None:
        """fcntl(F_SETFD)."""
        (self.close_on_exec.add if close_on_exec else self.close_on_exec.discard)(number)

    def close(self, number: int, at_ns: int) -> None:
        """Take a number away; `at_ns` is 0 when its process ended."""
        opened = self.open.pop(number, None)
        if opened is not None:
            opened.holders -= 1
            if not opened.holders:
                opened.closed_ns = at_ns

    def copy(self) -> Descriptors:
        """What a forked child has."""
        child = Descriptors()
        for number, opened in self.open.items():
            child.put(number, opened, number in self.close_on_exec, 0)
        return child

    def leave(self, at_ns: int = 0) -> None:
        """One task less uses them; after the last all are closed."""
        self.users -= 1
        for number in list(self.open) if not self.users else ():
            self.close(number, at_ns)


@dataclass(eq=False)
class Task:
    """A thread or a process. Tasks of one `space` share their memory, and so the meaning of an address."""

    descriptors: Descriptors = field(default_factory=Descriptors)
    space: object = field(default_factory=object)


class Files:
    """All files that were used, by id."""

    def __init__(self) -> None:
        self.seen: list[File] = []
        self.untracked = 0
        self._ids: dict[tuple[str, str], int] = {}
        self._same: dict[tuple[str, int], int] = {}

    def id_of(self, of: Target) -> int | None:
        """The id of what a descriptor is open to; None when there are too many."""
        key = of.kind, of.path
        if key in self._ids:
            return self._ids[key]
        if len(self._ids) >= MOST:
            self.untracked += 1
            return None
        dev, inode, kind = of.dev, 0, of.kind
        if kind == "regular" and of.path.startswith("/"):
            with suppress(OSError, ValueError):
                found = os.stat(of.path)  # noqa: PTH116 (any text)
                kind = "directory" if stat.S_ISDIR(found.st_mode) else "regular"
                dev, inode = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}", found.st_ino
        if not inode or (dev, inode) not in self._same:
            self._same[dev, inode] = len(self.seen)
            self.seen.append(File(id=len(self.seen), dev=dev, inode=inode, path=of.path, kind=kind))
        self._ids[key] = self._same[dev, inode]
        return self._ids[key]


@dataclass(frozen=True, slots=True)
class Issued:
    """A call that was entered, and where its end is to be counted."""

    kind: str
    opened: Opened | None
    tallies: tuple[Tally, ...]
    requested_bytes: int
    entry_ns: int

    def complete(self, result: int, exit_ns: int) -> None:
        for tally in self.tallies:
            tally.complete(self.requested_bytes, result, self.entry_ns, exit_ns)
        if self.opened is not None:
            self.opened.ended_ns = max(self.opened.ended_ns, exit_ns)


class Tree:
    """Sees event after event, in their order."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """By name."""
        self.errors: Counter[str] = Counter()
        self.files = Files()
        self.tasks_seen = 0
        self._tasks: dict[int, Task] = {}
        self._waiting: dict[int, list[Call | Gone]] = {}
        self._operations: dict[tuple[str, str], Tally] = {}
        self._sessions: list[Opened] = []
        self._untracked_sessions = self._unreturned = self._unmatched = 0
        self._submitted: dict[tuple[object, str, str], deque[Issued]] = {}
        """By the memory and the address that name their context (io_setup(2)), and by their data."""

    def see(self, event: Call | Gone) -> None:
        task = self._tasks.get(event.task)
        if task is None and self.tasks_seen:
            waiting = self._waiting.setdefault(event.task, [])
            waiting.append(event)
            if len(waiting) > _MOST_WAITING:
                self._adopt(event.task, Task())
            return
        if task is None:
            self._adopt(event.task, task := Task())
        if isinstance(event, Gone):
            del self._tasks[event.task]
            task.descriptors.leave()
            return
        name = event.name
        if numbered := _NUMBERED.fullmatch(name):
            name = f"syscall_{int(numbered[1], 16) & 0xFFFFFFFF}"
        self.calls[name] += 1
        if (event.returned or 0) < 0 and name != _RESTORES:
            self.errors[name] += 1
        if meaning := _MEANINGS.get(name):
            does, *fields = meaning
            does(self, task, event, *fields)

    def finish(self) -> None:
        """No more events."""
        while self._waiting:
            self._adopt(next(iter(self._waiting)), Task())
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
            "unmatched": self._unmatched,
            "in_flight": sum(map(len, self._submitted.values())) + self._unreturned,
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

    def clone(self, task: Task, call: Call) -> None:
        if (number := call.returned or 0) <= 0:
            return
        shares_files = "CLONE_FILES" in call.arguments
        descriptors = task.descriptors if shares_files else task.descriptors.copy()
        descriptors.users += shares_files
        shares_memory = call.name == "vfork" or "CLONE_VM" in call.arguments
        self._adopt(number, Task(descriptors, task.space if shares_memory else object()))

    def execute(self, task: Task, call: Call) -> None:
        """Another program begins in the task, with descriptors of its own but those marked for it."""
        if call.returned == 0:
            own = task.descriptors.copy()
            task.descriptors.leave(call.exit_ns)
            for number in own.close_on_exec:
                own.close(number, call.exit_ns)
            own.close_on_exec.clear()
            task.descriptors, task.space = own, object()

    # Calls that read, write or sync

    def transfer(self, task: Task, call: Call, kind: str, size: re.Pattern[str] | None = None) -> None:
        self._transfer(task, call, kind, target(call.arguments) if kind != OTHER else None, size)

    def copy(self, task: Task, call: Call, size: re.Pattern[str]) -> None:
        """From one descriptor to another: a read of the one and a write of the other."""
        one = target(call.arguments)
        rest = one.rest if one else ""
        source, sink = target(rest.removeprefix(", ")), one
        if call.name == "copy_file_range":
            offset = _OFFSET.match(rest)
            source, sink = one, target(rest[offset.end() :]) if offset else None
        self._transfer(task, call, READ, source, size)
        self._transfer(task, call, WRITE, sink, size)

    def _transfer(
        self, task: Task, call: Call, kind: str, of: Target | None, size: re.Pattern[str] | None = None
    ) -> None:
        """A call that a signal interrupted moved nothing and is left out: it is entered again, or given up."""
        result = call.returned
        if result is None and call.result.lstrip("? ").startswith("ERESTART"):
            return
        requested_bytes = sum(map(int, size.findall(call.arguments))) if size else 0
        issued = self._issue(call.name, kind, self._opened(task, of), requested_bytes, call.entry_ns)
        if result is not None:
            issued.complete(result if kind != OTHER else min(result, 0), call.exit_ns)
        elif kind != OTHER:
            self._unreturned += 1

    def submit(self, task: Task, call: Call) -> None:
        self._transfer(task, call, OTHER, None)
        context = task.space, call.arguments.partition(",")[0]
        for _, (data, kind, of, requested_bytes) in zip(
            range(call.returned or 0), _blocks(call.arguments), strict=False
        ):
            issued = self._issue("aio", kind, self._opened(task, of), requested_bytes, call.entry_ns)
            self._submitted.setdefault((*context, data), deque()).append(issued)

    def get_events(self, task: Task, call: Call) -> None:
        """Each event ends the oldest that asked for exactly this, else for more, else the oldest."""
        self._transfer(task, call, OTHER, None)
        context = task.space, call.arguments.partition(",")[0]
        for _, found in zip(range(call.returned or 0), _EVENT.finditer(call.arguments), strict=False):
            key, result = (*context, found[1]), int(found[2])
            result -= 1 << 64 if result >= 1 << 63 else 0
            if not (waiting := self._submitted.get(key)):
                self._unmatched += 1
                continue
            sizes = [issued.requested_bytes for issued in waiting]
            place = min(range(len(sizes)), key=lambda at: (sizes[at] != result, sizes[at] <= result, at))
            ended = waiting[place]
            is_alike = all(one.opened is ended.opened and one.kind == ended.kind for one in waiting)
            self._unmatched += result != ended.requested_bytes and not is_alike
            del waiting[place]
            if not waiting:
                del self._submitted[key]
            ended.complete(result, call.exit_ns)

    def _issue(self, entry: str, kind: str, opened: Opened | None, requested_bytes: int, entry_ns: int) -> Issued:
        tallies: tuple[Tally, ...] = (self._operations.setdefault((entry, kind), Tally()),)
        if opened is not None and kind != OTHER:
            tallies += opened.tallies_of(kind, entry_ns)
        for tally in tallies:
            tally.issue(entry_ns, requested_bytes)
        return Issued(kind, opened, tallies, requested_bytes, entry_ns)

    # Calls that change what a descriptor leads to

    def _opened(self, task: Task, of: Target | None) -> Opened | None:
        """What a descriptor leads to; a session without an open when that was not seen."""
        if of is None or of.number < 0:
            return None
        if of.number not in task.descriptors.open and of.path:
            task.descriptors.put(of.number, self._session(of, 0, []), False, 0)
        return task.descriptors.open.get(of.number)

    def _session(self, of: Target, opened_ns: int, flags: list[str]) -> Opened | None:
        file = self.files.id_of(of)
        if file is None or len(self._sessions) >= MOST:
            self._untracked_sessions += 1
            return None
        self._sessions.append(Opened(file, opened_ns, flags))
        return self._sessions[-1]

    def open(self, task: Task, call: Call) -> None:
        of = target(call.result)
        if of is not None and of.number >= 0:
            given = "O_WRONLY|O_CREAT|O_TRUNC" if call.name == "creat" else call.arguments.rpartition('"')[2]
            opened = self._session(of, call.exit_ns, _flags_of(given))
            task.descriptors.put(of.number, opened, "O_CLOEXEC" in given, call.exit_ns)

    def close(self, task: Task, call: Call) -> None:
        of = target(call.arguments)
        if of is not None and "EBADF" not in call.result:  # whatever else went wrong, it is closed (close(2))
            task.descriptors.close(of.number, call.exit_ns)

    def close_range(self, task: Task, call: Call) -> None:
        first = target(call.arguments)
        if first is None or call.returned != 0:
            return
        last = target(first.rest.removeprefix(", "))
        most = last.number if last and last.number >= 0 else _LAST_NUMBER
        for number in [number for number in task.descriptors.open if first.number <= number <= most]:
            if "CLOSE_RANGE_CLOEXEC" in call.arguments:
                task.descriptors.mark(number, True)
            else:
                task.descriptors.close(number, call.exit_ns)

    def duplicate(self, task: Task, call: Call) -> None:
        source, copy = target(call.arguments), target(call.result)
        if source is not None and copy is not None and copy.number >= 0 and source.number != copy.number:
            close_on_exec = source.rest.endswith("O_CLOEXEC") or source.rest.startswith(", F_DUPFD_CLOEXEC")
            task.descriptors.put(copy.number, self._opened(task, source), close_on_exec, call.exit_ns)

    def control(self, task: Task, call: Call) -> None:
        of = target(call.arguments)
        if of is None or (call.returned or 0) < 0:
            return
        if of.rest.startswith(", F_DUPFD"):
            self.duplicate(task, call)
        elif of.rest.startswith(", F_SETFD"):
            task.descriptors.mark(of.number, "FD_CLOEXEC" in of.rest)
        elif of.rest.startswith(", F_SETFL") and (opened := self._opened(task, of)) is not None:
            opened.set_flags(_flags_of(of.rest), call.exit_ns)


_MEANINGS: Mapping[str, tuple[Any, ...]] = {
    "read": (Tree.transfer, READ, _LAST),
    "pread64": (Tree.transfer, READ, _LAST_BUT_ONE),
    **dict.fromkeys(("readv", "preadv", "preadv2"), (Tree.transfer, READ, _VECTOR)),
    "write": (Tree.transfer, WRITE, _LAST),
    "pwrite64": (Tree.transfer, WRITE, _LAST_BUT_ONE),
    **dict.fromkeys(("writev", "pwritev", "pwritev2"), (Tree.transfer, WRITE, _VECTOR)),
    **dict.fromkeys(("fsync", "fdatasync", "syncfs", "sync", "msync"), (Tree.transfer, SYNC)),
    **dict.fromkeys(("sync_file_range", "sync_file_range2"), (Tree.transfer, SYNC)),
    **dict.fromkeys(("sendfile", "sendfile64"), (Tree.copy, _LAST)),
    "copy_file_range": (Tree.copy, _LAST_BUT_ONE),
    "io_submit": (Tree.submit,),
    **dict.fromkeys(("io_getevents", "io_pgetevents", "io_pgetevents_time64"), (Tree.get_events,)),
    **dict.fromkeys(("io_uring_setup", "io_uring_enter", "io_uring_register"), (Tree.transfer, OTHER)),
    **dict.fromkeys(CLONES, (Tree.clone,)),
    **dict.fromkeys(("execve", "execveat"), (Tree.execute,)),
    **dict.fromkeys(("open", "openat", "openat2", "creat"), (Tree.open,)),
    "close": (Tree.close,),
    "close_range": (Tree.close_range,),
    **dict.fromkeys(("dup", "dup2", "dup3"), (Tree.duplicate,)),
    **dict.fromkeys(("fcntl", "fcntl64"), (Tree.control,)),
}
"""A system call -> what follows from it, and of what its bytes are read."""


def _blocks(arguments: str) -> Iterator[tuple[str, str, Target | None, int]]:
    """The control blocks as they were submitted: data, kind, file and bytes."""
    for text in arguments.split(_BLOCK_BEGINS)[1:]:
        operation, file = _BLOCK_KIND.search(text), _BLOCK_FILE.search(text)
        name = operation[1] if operation else ""
        kind = _BLOCK_KINDS.get(name, OTHER)
        sizes = (_VECTOR if name.endswith("V") else _BLOCK_SIZE).findall(text) if kind != SYNC else ()
        yield text.partition(",")[0], kind, target(text[file.end() :]) if file else None, sum(map(int, sizes))


def _flags_of(text: str) -> list[str]:
    """`O_RDWR|O_CREAT` in the words of `Session.flags`."""
    return [word for name in re.findall(r"O_\w+", text) for word in _FLAGS.get(name, ())]
