"""The lines that `strace -f -ttt -T -yy -s 0 -o FILE` writes, as calls that ended and tasks that ended.

A call that another task interrupts on the page is written in two halves, which are joined here. What a call means is
not known here (`strace.Tree`), but for `close`: the kernel gives the number away when close is entered, so that is
when it is passed on, or a file opened meanwhile under the same number would be closed in its place.
Source: strace(1); what is not documented there was read off strace 6.1's output.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from ioassay.records.observation import OTHER, READ, SYNC, WRITE, Calls, File, Session

_LINE = re.compile(r"(\d{1,10}) +(\d{1,11})\.(\d{1,9}) (.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_RESULT = re.compile(r"\)\s+= ")
_TOOK = re.compile(r" <(\d{1,11})\.(\d{1,9})>$")
_GONE = re.compile(r"\+\+\+ (exited|killed|superseded) ")
_NEVER_BEGUN = re.compile(r"(?:<\.\.\. )?\?{3,4}(?:\(| resumed>)(?: <unfinished \.\.\.>|\)\s+= \?)")
"""Of a task that was killed at the entry of a call, before strace could read which: the kernel never began it."""
_ENCLOSED = re.compile(r'<(?:[^<>]|<[^<>]*>)*>|"(?:[^"\\]|\\.)*"')
_UNFINISHED = " <unfinished ...>"
_CLOSES = "close"

_DESCRIPTOR = re.compile(r"(-?\d{1,10})(?:<(/(?:[^<>]|<[^<>]*>)*|(?:->|[^<>]|<[^<>]*>)*)>(?:\(deleted\))?)?")
"""A number and what it is open to. In a path strace writes < and > as octal, elsewhere `->` joins two addresses."""
_DEVICE = re.compile(r"<(char|block) (\d+:\d+)>$")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", re.DOTALL)
_BEYOND = 2**64
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}


@dataclass(frozen=True, slots=True)
class Call:
    """One system call. `result` is '?' when it did not return; `took_ns` then is 0."""

    task: int
    name: str
    arguments: str
    result: str
    entry_ns: int
    took_ns: int

    @property
    def returned(self) -> int | None:
        """What it returned; the negative of 1 for an error; None where it never did, or is entered again."""
        word = next(iter(self.result.split(maxsplit=1)), "?").partition("<")[0]
        try:
            number = int(word, 0)
        except ValueError:
            return None
        return number if abs(number) < _BEYOND else None


@dataclass(frozen=True, slots=True)
class Gone:
    """A task ended; `during` is the call that it was in, and that never returned."""

    task: int
    during: Call | None


@dataclass(frozen=True, slots=True)
class Target:
    """What a descriptor is open to, as strace shows it."""

    number: int
    path: str
    """'' where strace could not tell."""
    kind: str
    """'block', 'char', 'pipe', 'socket', 'other' or 'regular' (directories are not told apart)."""
    dev: str
    """Of a device, its own number 'major:minor'."""


class Lines:
    """Fed line by line; keeps the first halves of calls and counts what makes no sense."""

    def __init__(self) -> None:
        self.senseless = 0
        self._open: dict[int, tuple[int, str]] = {}

    def feed(self, line: str) -> Call | Gone | None:
        """What this line ends, if it ends anything."""
        found = _LINE.match(line.rstrip("\n"))
        if found is None:
            self.senseless += bool(line.strip())
            return None
        task, at_ns, text = int(found[1]), nanoseconds(found[2], found[3]), found[4]
        if text.startswith("+++"):
            return self._gone(task, text)
        if text.startswith("---") or _NEVER_BEGUN.match(text):  # a signal
            return None
        if resumed := _RESUMED.match(text):
            entry_ns, half = self._open.pop(task, (at_ns, f"{resumed[1]}("))
            # Written of a call that a signal ended for ever: `<... read resumed> <unfinished ...>) = ?`
            rest = resumed[2].replace(_UNFINISHED, "", 1)
            return self._whole(task, entry_ns, half + rest) if resumed[1] != _CLOSES else None
        if text.endswith(_UNFINISHED):
            text = text.removesuffix(_UNFINISHED)
            self._open[task] = at_ns, text
            return self._whole(task, at_ns, f"{text}) = 0") if text.startswith(f"{_CLOSES}(") else None
        return self._whole(task, at_ns, text)

    def unfinished(self) -> list[Call]:
        """Calls whose end was never written."""
        halves = (self._never(task, *half) for task, half in self._open.items())
        return [call for call in halves if call is not None]

    def _gone(self, task: int, text: str) -> Gone | None:
        if not _GONE.match(text):
            self.senseless += 1
            return None
        half = self._open.pop(task, None)
        return Gone(task, self._never(task, *half) if half else None)

    def _never(self, task: int, entry_ns: int, half: str) -> Call | None:
        found = _CALL.match(half)
        return Call(task, found[1], found[2], "?", entry_ns, 0) if found and found[1] != _CLOSES else None

    def _whole(self, task: int, entry_ns: int, text: str) -> Call | None:
        found = _CALL.match(text)
        end = _result_of(found[2]) if found else None
        if found is None or end is None:
            self.senseless += 1
            return None
        result = found[2][end.end() :]
        took_ns = 0
        if took := _TOOK.search(result):
            took_ns, result = nanoseconds(took[1], took[2]), result[: took.start()]
        return Call(task, found[1], found[2][: end.start()], result, entry_ns, took_ns)


def nanoseconds(seconds: str, fraction: str) -> int:
    """Of decimal text, without a detour over a float, which has no room for today's date in nanoseconds."""
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])


def target(text: str) -> Target | None:
    """The descriptor that `text` begins with; None when it begins with something else."""
    found = _DESCRIPTOR.match(text)
    if found is None:
        return None
    number, shown = int(found[1]), found[2] or ""
    if device := _DEVICE.search(shown):
        return Target(number, unescaped(shown[: device.start()]), device[1], device[2])
    if shown.startswith("/"):
        return Target(number, unescaped(shown), "regular", "")
    word = shown.partition(":")[0]
    socket = word.startswith(("socket", "TCP", "UDP", "UNIX", "NETLINK", "RAW", "PING"))
    return Target(number, shown, "pipe" if word == "pipe" else "socket" if socket else "other", "")


def after_target(text: str) -> str:
    """What comes behind the descriptor that `text` begins with."""
    found = _DESCRIPTOR.match(text)
    return text[found.end() :] if found else text


def unescaped(text: str) -> str:
    """A path as the file system has it."""
    if "\\" not in text:
        return text
    return os.fsdecode(_ESCAPE.sub(_byte, os.fsencode(text)))


def _byte(found: re.Match[bytes]) -> bytes:
    code = found[1]
    if code[:1].isdigit():
        return bytes([int(code, 8) & 0xFF])
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    return _LETTERS.get(code, code)


def _result_of(text: str) -> re.Match[str] | None:
    """Where the arguments end: the first `) = ` outside of quotes and of what a descriptor is open to."""
    ends = list(_RESULT.finditer(text))
    for end in ends:
        plain = _ENCLOSED.sub("", re.sub(r"<<|->|=>", "", text[: end.start()])) if len(ends) > 1 else ""
        if not any(sign in plain for sign in '"<>'):
            return end
    return None


_NUMBERED = re.compile(r"syscall_(0x[0-9a-f]+)")
_RESTORES = "rt_sigreturn"
"""What it returns is the result of the call that a signal interrupted."""


class ByName:
    """Fed with what `Lines` gives."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def see(self, event: Call | Gone) -> None:
        """One call that ended, or that its task never came back from."""
        call = event.during if isinstance(event, Gone) else event
        if call is None:
            return
        name = _NUMBERED.sub(lambda found: f"syscall_{int(found[1], 16) & 0xFFFFFFFF}", call.name)
        self.calls[name] += 1
        if (call.returned or 0) < 0 and name != _RESTORES:
            self.errors[name] += 1


# Files and open files: which file a path is, and what was done through each open of it. A file is its device and inode
# where its path still leads to it when the lines are read; one that has gone by then is its path. So a path under which
# one file was replaced by another counts as one file, but its sessions stay apart.

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
