"""What was seen of the claims of one group: calls, and what reached devices. Chooses the best source there is.

Deliberately not here: whether it is enough (`counts`, `device`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from ioassay.records.observation import DISCARD, READ, SYNC, SYSCALLS, WRITE, Calls, Observation, Requests, Session
from ioassay.records.record import SEVERAL_ENGINES, Claim
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import KEYS, LAYER_OF, MAPPED, MIXED, TRIM, Group, calls_of, groups
from ioassay.verify.verdict import Amount, Code, Statement, state

FILES, CALLS, PROCESS, NOTHING = "files", "calls", "process", "nothing"

AIO, URING, SPLICE, VSYNC = "libaio", "io_uring", "splice", "vsync"
RINGS = ("aio", "uring")
"""Operations whose work may be done outside of the calls that submit them."""
_LOOKS = frozenset({"stat", "lstat", "newfstatat", "statx"})
BY_NAME: Mapping[str, frozenset[str]] = {
    "filecreate": frozenset(),
    "filestat": _LOOKS,
    "filedelete": frozenset({"unlink", "unlinkat"}),
    "dircreate": frozenset({"mkdir", "mkdirat"}),
    "dirstat": _LOOKS,
    "dirdelete": frozenset({"rmdir", "unlinkat"}),
    "falloc": frozenset({"fallocate"}),
    "ftruncate": frozenset({"ftruncate"}),
}
"""Engine of fio that moves no data -> the system calls of which each operation makes one. Those that create files open
them, as many other calls do: these are counted by what was opened so."""
_STACKED = ("dm-", "md", "bcache")
_VIRTUAL = ("loop", "zram", "nbd", "ram", "ublk")


@dataclass(frozen=True)
class Evidence:
    """Calls of the group's kind. `source` says how they were told from others."""

    source: str
    """FILES: by file; CALLS: all of the process tree; PROCESS: its totals; NOTHING: calls were not watched."""
    operations: int = 0
    """Calls without those that failed: what failed was not done."""
    bytes: int = 0
    others_operations: int = 0
    """At most so many of these may belong to something else, such as the loader."""
    others_bytes: int = 0
    calls: Calls = field(default_factory=Calls)
    """With times, where there are any."""
    timed: bool = False
    syncs: int | None = None
    """None when they were not watched."""

    @property
    def amount(self) -> Amount:
        return Amount(self.operations, self.bytes, self.source)


@dataclass(frozen=True)
class Device:
    """What block devices did of the group's kind, as far as it was watched."""

    known: bool
    own_bytes: int = 0
    """In the context of the process tree."""
    own_requests: int | None = None
    any_bytes: int = 0
    """Upper bound: what others did counts as well, and whole devices."""
    merges: int = 0
    read_bytes: int = 0
    """Read by the process tree, whatever the claim's kind: what writes have to read first."""
    flushes: int = 0
    discards: int = 0
    virtual: Sequence[str] = ()
    """Names of those that did own requests and are no drives: a file or memory answers for them."""
    stacked: bool = False
    """Threads of device-mapper or the like may do what the process tree asks for."""
    process_bytes: int | None = None
    """The process's own account: read from devices, or dirtied (proc(5))."""


def kinds(kind: str) -> tuple[str, ...]:
    """The classes of calls behind a claim's kind."""
    if kind == MIXED:
        return READ, WRITE
    return (DISCARD,) if kind == TRIM else (kind,)


def calls_seen(group: Group, observation: Observation) -> Evidence:
    """The calls of the group's kind by the best source there is."""
    kind = group.claims[0].kind
    if group.claims[0].engine in BY_NAME:
        return _by_name(group.claims[0].engine, observation)
    if kind == TRIM:
        return Evidence(NOTHING)
    if group.told_apart:
        source, primed = FILES, group.one_pass and group.claims[0].primed
        total = sum_of(timed_calls(session, kind, primed=primed) for session in group.sessions)
        total = skipped(group, total) or total
        syncs = sum(session.sync.calls for session in group.sessions)
    elif SYSCALLS in observation.layers:
        source = CALLS
        total = sum_of(part.calls for part in observation.operations if part.kind in kinds(kind))
        syncs = sum(part.calls.calls for part in observation.operations if part.kind == "sync")
    else:
        return _by_process(kind, observation)
    among_others = source == CALLS or not (group.named or group.one_pass)
    others = (int(tolerances.of("others_operations")), others_bytes(kind)) if among_others else (0, 0)
    timed = observation.backend == "bpf"
    return Evidence(source, total.calls - total.errors, total.bytes, *others, total, timed=timed, syncs=syncs)


def skipped(group: Group, written: Calls) -> Calls | None:
    """What claims of sparse writes count: the reads, where these are as claimed; None where they are not.

    Zeros are seeked over and counted (coreutils dd.c, iwrite), so that no more may have been written.
    """
    if not group.counted or not all(claim.counted_paths for claim in group.claims):
        return None
    read = sum_of(session.read for session in group.counted)
    claimed, operations = (sum(getattr(each, of) or 0 for each in group.claims) for of in ("bytes", "operations"))
    few = written.bytes < claimed == read.bytes and written.calls <= operations
    return replace(read, calls=operations, completed=operations, errors=0) if few else None


def others_bytes(kind: str) -> int:
    """What of the bytes of a kind may be others' where files cannot be told apart."""
    both = ("others_bytes", "others_written_bytes")
    return int(sum(map(tolerances.of, {"read": both[:1], "write": both[1:]}.get(kind, both))))


def timed_calls(session: Session, kind: str, *, primed: bool) -> Calls:
    """What was done through it of the claim's kind, without the priming call that the tool does not time."""
    calls = calls_of(session, kind)
    if not primed or calls.calls <= session.first.calls:
        return calls
    names = ("calls", "completed", "errors", "short", "requested_bytes", "bytes", "sum_ns")
    less = {name: max(getattr(calls, name) - getattr(session.first, name), 0) for name in names}
    return replace(calls, **less, first_ns=session.second_ns or calls.first_ns)


def _by_name(engine: str, observation: Observation) -> Evidence:
    """A lower bound: that a program makes such calls on its own account is known of those that look at files."""
    if not observation.calls:
        return Evidence(NOTHING)
    names = BY_NAME[engine]
    made = sum(observation.calls.get(name, 0) - observation.call_errors.get(name, 0) for name in names)
    if not names:
        regular = {file.id for file in observation.files if file.kind == "regular"}
        made = sum("create" in one.flags and one.file in regular for one in observation.sessions)
    return Evidence(CALLS, made, others_operations=int(tolerances.of("others_looks")) if names is _LOOKS else 0)


def _by_process(kind: str, observation: Observation) -> Evidence:
    """Totals of the process; io_uring's operations are not in them and are seen one by one where it was watched."""
    rings = sum_of(part.calls for part in observation.operations if part.kind in kinds(kind))
    sides = [{"read": ("syscr", "rchar"), "write": ("syscw", "wchar")}[one] for one in kinds(kind)]
    counters = observation.counters
    known = all(name in counters for side in sides for name in side)
    if not known and not rings.calls:
        return Evidence(NOTHING)
    operations, volume = (int(sum(counters.get(side[at], 0) for side in sides)) for at in (0, 1))
    others = others_bytes(kind)
    if rings.calls and volume <= others:
        timed = observation.backend == "bpf"
        return Evidence(CALLS, rings.calls, rings.bytes, calls=rings, timed=timed)
    among = int(tolerances.of("others_operations"))
    return Evidence(PROCESS, operations + rings.calls, volume + rings.bytes, among, others)


def sum_of(parts: Iterable[Calls]) -> Calls:
    return reduce(Calls.plus, parts, Calls())


def unwatched(engine: str, layers: Sequence[str]) -> Statement | None:
    """Why calls of this engine could not be seen with these layers; None when they could."""
    if engine == MAPPED:
        return state(Code.MAPPED_FILES)
    if engine == SEVERAL_ENGINES:
        return state(Code.SEVERAL_ENGINES)
    if engine == SPLICE and SYSCALLS not in layers:
        return state(Code.SPLICED)
    if LAYER_OF.get(engine, SYSCALLS) not in (*layers, SYSCALLS):
        return state(Code.ENGINE_UNWATCHED, engine=engine, layers=tuple(layers))
    return None


def device_seen(group: Group, observation: Observation) -> Device:
    """What devices did of the group's kind; of the files' own devices where requests went there."""
    kind = group.claims[0].kind
    claimed = set(kinds(kind))
    own = [part for part in observation.block if part.own]
    theirs = {file.dev for file in group.files}
    here = [part for part in own if part.dev in theirs] or own
    done = [part for part in here if part.kind in claimed]
    others = [part for part in observation.block if not part.own and part.kind in claimed]
    accounts = [{"read": "read_bytes", "write": "write_bytes"}.get(one, "") for one in kinds(kind)]
    is_accounted = all(name in observation.counters for name in accounts)
    process = int(sum(observation.counters[name] for name in accounts)) if is_accounted else None
    # The busiest whole device: stacked ones see the same bytes several times.
    whole = [f"{one}_bytes" for one in (READ, WRITE) if one in claimed]
    busiest = max((sum(disk.get(name, 0) for name in whole) for disk in observation.disks.values()), default=0)
    watched = "block" in observation.layers or "record" in observation.layers
    own_bytes = _bytes(done) if watched else process or 0
    return Device(
        known=watched or process is not None,
        own_bytes=own_bytes,
        own_requests=sum(part.calls.calls for part in done) if watched else None,
        any_bytes=max(own_bytes + _bytes(others), busiest),
        merges=sum(part.merges for part in done),
        read_bytes=_bytes([part for part in here if part.kind == READ]),
        flushes=sum(part.calls.calls for part in observation.block if part.kind == "flush"),
        discards=sum(part.calls.calls for part in own if part.kind == DISCARD),
        virtual=sorted({part.name for part in done if part.name.startswith(_VIRTUAL)}),
        stacked=any(part.name.startswith(_STACKED) for part in observation.block if part.own or part.dev in theirs),
        process_bytes=process,
    )


def _bytes(parts: Sequence[Requests]) -> int:
    return sum(part.calls.bytes for part in parts)


_ANY = (Claim("user", READ), Claim("user", WRITE))
"""Claims that name nothing, for the files that are not the program's own."""


def classes(claims: Sequence[Claim], observation: Observation) -> dict[str, Calls]:
    """READ, WRITE and SYNC -> the calls on the files that the claims name, or that are no program's own.

    Where calls were not told apart by file, of all files; where calls were not watched, what was seen of them.
    """
    of_files = [claim for claim in claims if claim.kind != KEYS]
    found = groups(of_files or _ANY, observation)
    if not all(group.told_apart for group in found):
        made = observation.operations
        return {kind: sum_of(part.calls for part in made if part.kind == kind) for kind in (READ, WRITE, SYNC)}
    files = {file.id for group in found for file in group.files}
    sessions = [session for session in observation.sessions if session.file in files]
    return {kind: sum_of(getattr(session, kind) for session in sessions) for kind in (READ, WRITE, SYNC)}
