"""Files and open files as strace's lines name them: which file a path is, and what was done through each open of it.

A file is its device and inode where its path still leads to it when the lines are read; one that has gone by then is
its path. So a path under which one file was replaced by another counts as one file, but its sessions stay apart.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from ioassay.records.observation import OTHER, READ, SYNC, WRITE, Calls, File, Session
from ioassay.verify.witness.strace_line import Target, target

MOST = 1 << 16
"""Files, and sessions, that are kept apart; further ones are counted as untracked."""

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


def flags_of(text: str) -> list[str]:
    """`O_RDWR|O_CREAT` in the words of `Session.flags`."""
    return [word for name in text.split("|") for word in _FLAGS.get(name, ())]


class Files:
    """Every file that was named, each once."""

    def __init__(self, look: Callable[[str], os.stat_result] = os.stat) -> None:
        self.untracked = 0
        self._look = look
        self._ids: dict[tuple[str, str], int] = {}
        self._same: dict[tuple[str, int], int] = {}
        self._files: list[File] = []

    def id_of(self, target: Target) -> int | None:
        """The id of what a descriptor is open to; None when there are too many."""
        key = target.kind, target.path
        if key not in self._ids:
            if len(self._ids) >= MOST:
                self.untracked += 1
                return None
            self._ids[key] = self._enter(target)
        return self._ids[key]

    def seen(self) -> list[File]:
        """All of them, by id."""
        return self._files

    def _enter(self, target: Target) -> int:
        dev, inode, kind = target.dev, 0, target.kind
        if kind == "regular" and target.path.startswith("/"):
            with suppress(OSError, ValueError):
                found = self._look(target.path)
                kind = "directory" if stat.S_ISDIR(found.st_mode) else "regular"
                dev, inode = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}", found.st_ino
        known = self._same.get((dev, inode)) if inode else None
        if known is not None:
            return known
        number = len(self._files)
        self._files.append(File(id=number, dev=dev, inode=inode, path=target.path, kind=kind))
        self._same[dev, inode] = number
        return number


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
        """A call was entered."""
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
        """As it is now."""
        return Calls(**{name: getattr(self, name) for name in self.__slots__})


class Opened:
    """One open file, which descriptors of several processes may share."""

    __slots__ = (
        "before", "closed_ns", "ended_ns", "file", "first", "flags", "holders", "opened_ns", "second_ns", "tallies"
    )  # fmt: skip

    def __init__(self, file: int, opened_ns: int, flags: Iterable[str]) -> None:
        self.file = file
        self.opened_ns = opened_ns
        self.closed_ns = self.second_ns = self.ended_ns = 0
        self.flags = list(flags)
        self.tallies = {kind: Tally() for kind in (READ, WRITE, SYNC)}
        self.first = Tally()
        self.holders = 0
        """Descriptors that lead here."""
        self.before: list[Session] = []
        """Done with other flags."""

    def tallies_of(self, kind: str, entry_ns: int) -> tuple[Tally, ...]:
        """Where a call of this kind is to be counted."""
        if kind != SYNC and not self.first.calls:
            return self.tallies[kind], self.first
        self.second_ns = self.second_ns or (entry_ns if kind != SYNC else 0)
        return (self.tallies[kind],)

    def set_flags(self, flags: Iterable[str], at_ns: int) -> None:
        """fcntl(F_SETFL). One session has one set of flags: what was done with the old ones stays apart."""
        kept = [flag for flag in self.flags if flag not in _SETTABLE]
        wanted = kept + [flag for flag in flags if flag in _SETTABLE]
        if sorted(wanted) != sorted(self.flags) and self.first.calls:
            self.before.append(self._session())
            self.opened_ns, self.second_ns, self.ended_ns = at_ns, 0, 0
            self.tallies = {kind: Tally() for kind in self.tallies}
            self.first = Tally()
        self.flags = wanted

    def sessions(self) -> list[Session]:
        """In the order of time; several where its flags were changed between calls."""
        return [*self.before, self._session()]

    def _session(self) -> Session:
        return Session(
            file=self.file,
            opened_ns=self.opened_ns,
            closed_ns=self.closed_ns,
            flags=self.flags,
            read=self.tallies[READ].calls_seen(),
            write=self.tallies[WRITE].calls_seen(),
            sync=self.tallies[SYNC].calls_seen(),
            first=self.first.calls_seen(),
            second_ns=self.second_ns,
            ended_ns=self.ended_ns,
        )


_KINDS = {
    "IOCB_CMD_PREAD": READ,
    "IOCB_CMD_PREADV": READ,
    "IOCB_CMD_PWRITE": WRITE,
    "IOCB_CMD_PWRITEV": WRITE,
    "IOCB_CMD_FSYNC": SYNC,
    "IOCB_CMD_FDSYNC": SYNC,
}
_BLOCK_BEGINS = "{aio_data="
_OPERATION = re.compile(r"aio_lio_opcode=(\w+)")
_FILE = re.compile(r"aio_fildes=")
_SIZE = re.compile(r"aio_nbytes=(\d+)")
_VECTOR = re.compile(r"iov_len=(\d+)")
_EVENT = re.compile(r"\{data=(\w+), obj=\w+, res=(-?\d+)")


@dataclass(frozen=True, slots=True)
class Block:
    """One control block as it was submitted."""

    data: str
    kind: str
    file: Target | None
    requested_bytes: int


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


def blocks(arguments: str) -> Iterator[Block]:
    """The control blocks of an io_submit, in their order."""
    for text in arguments.split(_BLOCK_BEGINS)[1:]:
        operation, file = _OPERATION.search(text), _FILE.search(text)
        name = operation[1] if operation else ""
        sizes = (_VECTOR if name.endswith("V") else _SIZE).findall(text)
        yield Block(
            data=text.partition(",")[0],
            kind=_KINDS.get(name, OTHER),
            file=target(text[file.end() :]) if file else None,
            requested_bytes=sum(map(int, sizes)) if _KINDS.get(name) != SYNC else 0,
        )


def events(arguments: str) -> Iterator[tuple[str, int]]:
    """`data` and result of what an io_getevents returned."""
    for found in _EVENT.finditer(arguments):
        result = int(found[2])
        yield found[1], result - (1 << 64) if result >= 1 << 63 else result


class Contexts:
    """What is in flight in every context (io_setup(2)), by the memory and the address that name it."""

    def __init__(self) -> None:
        self.unmatched = 0
        self._waiting: dict[tuple[object, str, str], deque[Issued]] = {}

    @property
    def in_flight(self) -> int:
        return sum(map(len, self._waiting.values()))

    def submit(self, context: tuple[object, str], data: str, issued: Issued) -> None:
        self._waiting.setdefault((*context, data), deque()).append(issued)

    def complete(self, context: tuple[object, str], data: str, result: int, at_ns: int) -> None:
        """One event arrived."""
        waiting = self._waiting.get((*context, data))
        if not waiting:
            self.unmatched += 1
            return
        place = _place(waiting, result)
        found = waiting[place]
        if result != found.requested_bytes and any(_differs(found, other) for other in waiting):
            self.unmatched += 1
        del waiting[place]
        if not waiting:
            del self._waiting[*context, data]
        found.complete(result, at_ns)


def _place(waiting: deque[Issued], result: int) -> int:
    """The oldest that asked for exactly this, else the oldest that asked for more, else the oldest."""
    for fits in (result.__eq__, result.__lt__):
        for place, issued in enumerate(waiting):
            if fits(issued.requested_bytes):
                return place
    return 0


def _differs(one: Issued, other: Issued) -> bool:
    return one.opened is not other.opened or one.kind != other.kind
