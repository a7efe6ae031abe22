"""What the witness saw of one trial: raw counts of the kernel's own account, and how sure they are.

Nothing is judged here, and nothing that can be computed from the counts is stored: verdicts are made from these by
`ioassay.verify`, so that better tolerances improve old records. Gathering is `ioassay.verify.witness`.
Times are CLOCK_MONOTONIC nanoseconds of one machine; bytes are bytes; a count of 0 calls has no times (0).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 1
COMPAT = "compat"
"""What calls by the numbers of 32-bit programs are called in `Observation.calls`, all together."""

OFF, COUNTERS, BLOCK, SYSCALLS, EXPLAIN, RECORD = "off", "counters", "block", "syscalls", "explain", "record"
LEVELS = (OFF, COUNTERS, BLOCK, SYSCALLS, EXPLAIN, RECORD)
"""What a study or a user asks for. `record` is `block` with every request of the block layer written down, `explain` is
`syscalls` with the parts of each operation's time."""

BPF, STRACE = "bpf", "strace"

PROCESSOR, SUBMISSION, FILE_SYSTEM, LOCK = "processor", "submission", "file-system", "lock"
JOURNAL, QUEUE, DEVICE, COMPLETION = "journal", "queue", "device", "completion"
PARTS = (PROCESSOR, SUBMISSION, FILE_SYSTEM, LOCK, JOURNAL, QUEUE, DEVICE, COMPLETION)
"""What the time of an operation is made of: waiting for a processor; work until a block request is made; other work and
waits of the filesystem; locks that another task holds; the commit of a journal; the queue of the block layer; the
device, or the server of a filesystem; from the device's completion to the return of the call, or to the reaping."""
WHOLE = "whole"
"""The sum of these."""
OBSERVER = "observer"
"""In no sum: what the witness's program at the exit of the call took after the end that it saw."""

READ, WRITE, SYNC, DISCARD, FLUSH, OTHER = "read", "write", "sync", "discard", "flush", "other"
SYNCHRONOUS = "synchronous"
"""Writes that are synchronised themselves, by O_DSYNC, O_SYNC or flags of their own: they are in WRITE as well."""


@dataclass(frozen=True)
class Calls:
    """One class of calls, or of block requests: how many, how much, when and how long."""

    calls: int = 0
    """Issued (entered)."""
    completed: int = 0
    """Whose end was seen; times are of these. Less than `calls` where the kernel skipped a probe."""
    errors: int = 0
    short: int = 0
    """Moved fewer bytes than asked for, without an error (end of file included)."""
    requested_bytes: int = 0
    bytes: int = 0
    """Moved: results of calls; of block requests, the size at the issue."""
    first_ns: int = 0
    """Entry of the first call."""
    last_ns: int = 0
    """Exit of the last call that ended."""
    sum_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0

    def plus(self, other: Calls) -> Calls:
        """Both classes as one."""
        if not self.calls:
            return other
        if not other.calls:
            return self
        added = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        ended = [part for part in (self, other) if part.completed]
        return Calls(
            **added,
            first_ns=min(self.first_ns, other.first_ns),
            last_ns=max(self.last_ns, other.last_ns),
            min_ns=min((part.min_ns for part in ended), default=0),
            max_ns=max(self.max_ns, other.max_ns),
        )


_SPARSE = ("read", "write", "sync", "first", "read_pattern", "write_pattern", "dirty_syncs", "synced_writes")
"""What a stored Session has only where it is not 0."""
_CLASSES = {"calls", *_SPARSE[:6]}
"""What is a class of calls in a session, an operation or the requests to a device."""
_TYPE = re.compile(r"(?:(Sequence|Mapping)\[(?:str, )?)?(\w+)")
_SMALL_SESSIONS = 1000
_SUMS = ("calls", "completed", "errors", "short", "requested_bytes", "bytes", "sum_ns")


@dataclass(frozen=True)
class Pattern:
    """Where the calls of one direction of a session went, in the order in which they returned.

    Requests of libaio and io_uring are in the order of their submission. Calls that moved nothing are left out.
    """

    calls: int = 0
    sequential: int = 0
    """Of these, calls that began where the one before ended."""
    rewinds: int = 0
    """Calls that began at the lowest offset so far and not where the one before ended."""
    reused: int = 0
    """Calls on nothing but what was touched already."""
    stride_bytes: int = 0
    """The most frequent distance from one beginning to the next, where more than half of them are equal."""
    stride_calls: int = 0
    """At least so many calls were at that distance."""
    unique_bytes: int = 0
    """Touched at all, at most: calls count as the granules of 512 or 4096 bytes that they are in. Granules are larger
    from 256 MiB or 2 GiB on."""
    error_bytes: int = 0
    """At most so much less was touched; 0 where it is exact, as with direct I/O."""
    lowest_bytes: int = 0
    highest_bytes: int = 0
    """Offsets: of the first byte touched, and behind the last."""
    switches: int = 0
    """Calls by another task than the one before: their order is then that of the tasks, not of a program."""
    unsure: int = 0
    """Calls whose offset is not known for sure, or that found no room."""
    fresh: int = 0
    """Calls on whole granules that nothing had touched; 0 in observations of before these were counted."""
    continued: int = 0
    """Of the fresh ones, calls that began right behind what had been touched: all but the first of each stream."""


@dataclass(frozen=True)
class Histogram:
    """Latencies: `counts[i]` of them were about `values_ns[i]` (middle of a log-linear bucket, at most 3.2 % off)."""

    values_ns: Sequence[int] = ()
    counts: Sequence[int] = ()

    @cached_property
    def up_to(self) -> Sequence[int]:
        """How many were at most the value at the same place."""
        return [*accumulate(self.counts)]

    def deviation_ns(self, mean_ns: float) -> float:
        """Their standard deviation about a mean that is known exactly."""
        squares = sum(one * (value - mean_ns) ** 2 for value, one in zip(self.values_ns, self.counts, strict=True))
        return math.sqrt(squares / sum(self.counts))


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Several as one, in ascending order."""
    counts: Counter[int] = Counter()
    for each in histograms:
        counts.update(dict(zip(each.values_ns, each.counts, strict=True)))
    values_ns = sorted(counts)
    return Histogram(values_ns, [counts[value] for value in values_ns])


@dataclass(frozen=True)
class Operation:
    """All calls of one kind by one way into the kernel, on all files of the process tree together."""

    entry: str
    """Name of the system call ('pread64'), or 'aio' and 'uring' for what was submitted through these; 'writes' of
    SYNCHRONOUS ones, by all ways together."""
    kind: str
    """READ, WRITE, SYNC, SYNCHRONOUS (succeeded, in older observations absent), or OTHER."""
    calls: Calls
    latency: Histogram = Histogram()


@dataclass(frozen=True)
class Part:
    """One part of the time of operations, or all of it."""

    name: str
    """Of PARTS, WHOLE or OBSERVER."""
    number: int
    """Operations in which it took any time."""
    sum_ns: int
    latency: Histogram = Histogram()
    """Of these operations; at most 6.3 % off."""


@dataclass(frozen=True)
class Explained:
    """Where the time of all operations of one kind by one way into the kernel went, on files and block devices."""

    entry: str
    """As in Operation."""
    kind: str
    parts: Sequence[Part]
    """Those that took any time, and WHOLE: from the entry into the kernel to the return of the program or, of 'aio' and
    'uring', to the reaping."""


@dataclass(frozen=True)
class EntryExit:
    """What entering and leaving the kernel took calls of the witness's own on a cached file, with its programs attached
    and the caller's clock included: medians, after the observation. OBSERVER is not in them.
    """

    calls: int
    """How many were measured."""
    entry_ns: int
    """From the caller's clock to the entry that the witness sees."""
    exit_ns: int
    """From the end of its program at the exit to the caller's clock."""
    p25_ns: int
    p75_ns: int
    """Quartiles of both together."""


@dataclass(frozen=True)
class File:
    """One file (device and inode) that the process tree used."""

    id: int
    dev: str
    """'major:minor' of the file's filesystem; of a block device, its own number."""
    inode: int
    path: str
    """As it was opened, '' when it was open before."""
    kind: str
    """'regular', 'block', 'directory', 'char', 'pipe', 'socket' or 'other'."""
    filesystem: str = ""
    """'ext4', 'tmpfs', …; '' where it is not known."""
    page_cache_bytes: int | None = None
    """Read into the page cache or written there for the first time; None when not observed."""
    other_path: str = ""
    """The last other one by which it was opened, as through a symbolic link; '' where there was none."""
    device: str = ""
    """The kernel's name of the block device that it is or lies on; '' where none is known."""


@dataclass(frozen=True)
class Session:
    """One open file from its open to its close: what was done through it."""

    file: int
    """`File.id`."""
    opened_ns: int
    """0 when it was open before."""
    closed_ns: int
    """0 when its close was not seen (the process ended)."""
    flags: Sequence[str] = ()
    """Of 'read', 'write', 'direct', 'sync', 'dsync', 'append', 'create', 'truncate'."""
    read: Calls = Calls()
    write: Calls = Calls()
    sync: Calls = Calls()
    dirty_syncs: int = 0
    """Dirty synchronisations: they succeeded after a write to it, or of their task, since the last one."""
    synced_writes: int = 0
    """Writes that asked to be synchronised by flags of their own (RWF_SYNC, RWF_DSYNC)."""
    first: Calls = Calls()
    """The very first read or write alone: a benchmark may prime with it outside of its interval."""
    second_ns: int = 0
    """Entry of the second read or write."""
    ended_ns: int = 0
    """Exit of the last call on it before its close, whichever it was."""
    cached_bytes: int | None = None
    """What of its file's `page_cache_bytes` was added before its first read or write; None when not observed."""
    read_pattern: Pattern | None = None
    """None where offsets were not watched, and of pipes and sockets."""
    write_pattern: Pattern | None = None

    @property
    def synchronous_writes(self) -> int:
        """Those that are synchronised themselves: by flags of the open file, or by their own."""
        return self.write.calls - self.write.errors if {"sync", "dsync"} & set(self.flags) else self.synced_writes


@dataclass(frozen=True)
class Program:
    """One program that a process of the tree ran; a process may run several, one after the other."""

    process: int
    words: Sequence[str]
    """Its arguments, the program's own name first."""
    is_whole: bool = True
    """These are all; else they were cut after 2048 bytes."""
    began_ns: int = 0
    ended_ns: int = 0
    """When its process ended or began another program; 0 when neither was seen."""
    outputs: Sequence[str] = ("", "")
    """What its standard output and its standard error were: 'major:minor:inode', '' for none."""


@dataclass(frozen=True)
class Requests:
    """Requests of one kind to one block device."""

    dev: str
    name: str
    """The kernel's name ('nvme0n1')."""
    own: bool
    """Issued in the context of the process tree; else by anyone else, the kernel's write-back included."""
    kind: str
    """READ, WRITE, DISCARD, FLUSH or OTHER."""
    calls: Calls
    merges: int = 0
    latency: Histogram = Histogram()
    """From dispatch to completion (D2C)."""


@dataclass(frozen=True)
class Observation:
    """Everything the witness saw of one trial."""

    backend: str
    """BPF, COUNTERS or STRACE."""
    asked: str
    """The level asked for, one of LEVELS."""
    layers: Sequence[str]
    """What was really watched: of 'counters', 'block', 'bios', 'uring', 'aio', 'syscalls', 'explain', 'record',
    'page-cache'.
    'bios' beside 'block': who issued a request was told by its first bio, and it was counted when it was dispatched, as
    kernels before 6.5 want it."""
    why: str = ""
    """Why less was watched than asked for, with the remedy; '' when nothing is missing."""
    kernel: str = ""
    held_ns: int = 0
    """When everything was attached and the command was let go."""
    ended_ns: int = 0
    """When its main process had ended."""
    processes: int = 0
    """Tasks followed, threads included; 0 when they were not counted."""
    threads: int | None = None
    """Of these, threads of a process that was there already (those that the kernel makes for io_uring are such);
    None when they were not told apart."""
    most_alive: int | None = None
    """Most tasks that were alive at once; None when that was not seen."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Every system call of the process tree: name -> how often it was entered. Empty when they were not counted
    (level SYSCALLS counts them). `syscall_9999` is one that has no name here, `syscall_others` are more such numbers
    than were kept apart, `compat` all calls of 32-bit programs. A call that a signal interrupted and that is entered
    again counts twice."""
    call_errors: Mapping[str, int] = field(default_factory=dict)
    """Of these, those that returned an error: name -> how often."""
    operations: Sequence[Operation] = ()
    outer_intervals: Mapping[str, Histogram] = field(default_factory=dict)
    """Around calls on files and block devices that wait, by kind: each from the return of the task's watched call
    before to the entry of its next call that reads no clock. What a tool measures of the call lies within."""
    explained: Sequence[Explained] = ()
    """Empty where it was not asked for."""
    entry_exit: EntryExit | None = None
    """None where nothing was explained, in older observations, and where it could not be measured."""
    files: Sequence[File] = ()
    sessions: Sequence[Session] = ()
    flags_followed: bool = False
    """Whether a change of an open file's flags (fcntl) began a session of its own. Older observations have those that
    it was opened with, or that it had at its first call."""
    syncs_followed: bool = False
    """Whether `Session.dirty_syncs` and `Session.synced_writes` were counted: not in older ones, nor by strace."""
    programs: Sequence[Program] = ()
    """In the order in which they began; none where they were not watched. Records do not keep them."""
    block: Sequence[Requests] = ()
    health: Mapping[str, int] = field(default_factory=dict)
    """What went wrong in watching, each 0 when nothing did: `lost` (events that found no room), `missed` (block
    requests whose completion was not seen), `unmatched` (completions without a start), `in_flight` (not ended when
    watching stopped), `dropped` (records that found no room in the ring), `untracked_files`, `untracked_sessions`. Of
    processes that ran before, `in_flight_at_start` are calls on files and requests that began before the watch, and are
    in no count. Of a listing of calls, `unlisted` are those that found no room in it."""
    counters: Mapping[str, float] = field(default_factory=dict)
    """The process tree's own account: rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled_write_bytes
    (proc(5), /proc/pid/io); major_faults, minor_faults, user_s, system_s, in_blocks, out_blocks,
    voluntary_switches, involuntary_switches (getrusage(2))."""
    disks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Whole devices over the trial, whoever used them: name -> reads, read_merges, read_bytes, writes, write_merges,
    write_bytes, discards, flushes (Documentation/block/stat.rst)."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """attach_s: from the call to everything attached; cpu_s: processor time of the watching process."""
    schema: int = SCHEMA

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able form; `from_dict` reads it back."""
        table: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return table

    def as_stored(self) -> dict[str, Any]:
        """The same without what is 0 in a class of calls: most of the many files that a program opens are hardly
        used. `from_dict` reads this back as well."""
        table = self.as_dict()
        del table["programs"]  # arguments say more of a user than any claim needs
        for item in (*table["sessions"], *table["operations"], *table["block"]):
            for name in _CLASSES & item.keys():
                item[name] = {key: value for key, value in (item[name] or {}).items() if value}
        for session in table["sessions"]:
            for name in [name for name in _SPARSE if not session[name]]:
                del session[name]
        return table


def from_dict(table: Mapping[str, Any]) -> Observation:
    """The Observation behind its JSON form; ValueError when it is none, unknown keys of a newer one are left out."""
    require_schema(table)
    try:
        return _adapter().validate_python({name: value for name, value in table.items() if value != []})
    except ValueError as error:
        raise ValueError(f"not an observation: {error}") from None


def of_witness(table: Mapping[str, Any]) -> Observation:
    """The same of what our own programs counted, whose types are right; a small one does without pydantic's import."""
    if len(table.get("sessions", ())) > _SMALL_SESSIONS:
        return from_dict(table)
    found: Observation = _built(Observation, {name: value for name, value in table.items() if value != []})
    return found


def _built(kind: Any, table: Mapping[str, Any]) -> Any:
    names, readers = _readers(kind)
    known = {name: value for name, value in table.items() if name in names}
    made = {name: read(known[name]) for name, read in readers.items() if known.get(name) is not None}
    return kind(**{**known, **made})


@functools.cache
def _readers(kind: Any) -> tuple[frozenset[str], Mapping[str, Callable[[Any], Any]]]:
    """The fields of a class, and what reads the JSON form of those that need it, by the type that is written here."""
    readers: dict[str, Callable[[Any], Any]] = {}
    for member in dataclasses.fields(kind):
        outer, inner = _TYPE.match(str(member.type)).groups()  # type: ignore[union-attr]
        of_class = dataclasses.is_dataclass(globals().get(inner))
        one = functools.partial(_built, globals()[inner]) if of_class else float if inner == "float" else None
        if one is not None:
            readers[member.name] = functools.partial(_read, outer, one)
    return frozenset(member.name for member in dataclasses.fields(kind)), readers


def _read(outer: str | None, one: Callable[[Any], Any], value: Any) -> Any:
    if outer == "Sequence":
        return [one(each) for each in value]
    return {key: one(each) for key, each in value.items()} if outer == "Mapping" else one(value)


def require_schema(table: Mapping[str, Any]) -> None:
    """ValueError for the JSON form of a later version's observation."""
    schema = table.get("schema", SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise ValueError(f"schema {schema!r} of an observation is not known; expected {SCHEMA} or less: update ioassay")


@functools.cache
def _adapter() -> TypeAdapter[Observation]:
    from pydantic import TypeAdapter

    return TypeAdapter(Observation)
