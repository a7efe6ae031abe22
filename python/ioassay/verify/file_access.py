"""How the claim's files were used: were they, past the page cache, by the engine and with the synchronisations claimed?

Flags are those of the open file, as fcntl(2) sets them. Older observations have those of the beginning only: then pages
that came into the cache, or a device that did nothing, decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ioassay.formats import conventions
from ioassay.records.observation import SYNC, SYSCALLS, WRITE, Observation, Session
from ioassay.records.record import Claim
from ioassay.verify import tolerances
from ioassay.verify.case import Case, Pool
from ioassay.verify.claim_groups import MAPPED, MIXED, NULL, Group, calls_of
from ioassay.verify.evidence import AIO, BY_NAME, RINGS, SPLICE, URING, VSYNC, kinds, unwatched
from ioassay.verify.verdict import (
    CONTRADICTED,
    INCOMPLETE,
    UNSUBSTANTIATED,
    Code,
    Fault,
    Finding,
    Statement,
    state,
    when,
)

_OVERFLOWED = Finding([Fault(INCOMPLETE, "EVENTS-LOST", (state(Code.TOO_MANY_FILES),))])
"""Not without a judgement: else opening files until the tables are full would hide how it was done."""


def judge_files(case: Case) -> Finding | None:
    """None where no file is named.

    The words of a tool's own arguments are its files; a name that a parser derives from others may be wrong.
    """
    group = case.group
    if not any(claim.paths for claim in case.claims):
        return None
    if group.overflowed:
        return _OVERFLOWED
    if not group.told_apart or case.claim.engine in BY_NAME:
        return Finding(judged=False)
    if group.named or not group.missing:
        return Finding()
    missing = state(Code.FILES_NOT_OPENED, files=tuple(group.missing[:3]))
    moved = sum(calls_of(session, case.claim.kind).bytes for session in group.others or group.sessions)
    elsewhere = state(Code.OTHER_FILES, moved_bytes=moved)
    if group.files:  # judged by these, since the names may be wrong
        return Finding([Fault(INCOMPLETE, "OTHER-FILES", (missing, elsewhere))])
    if not moved or moved < sum(claim.bytes or 0 for claim in case.claims) / 2:
        return Finding([Fault(UNSUBSTANTIATED, "NOTHING-SEEN", (missing,))])
    return Finding([Fault(CONTRADICTED, "OTHER-FILES", (missing, elsewhere))])


def judge_direct(case: Case) -> Finding | None:
    """None where direct I/O is not claimed. A file may be opened both ways: enough must have gone past the cache."""
    claims = [claim for claim in case.claims if claim.direct]
    if not claims:
        return None
    if case.group.overflowed:
        return _OVERFLOWED
    kind = claims[0].kind
    used = [session for session in case.group.sessions if calls_of(session, kind).bytes]
    if not case.group.told_apart or case.group.shared or not used:
        return Finding(judged=False)
    through = _buffered(used, kind, len(claims))
    buffered = sum(calls_of(session, kind).bytes for session in through)
    direct = sum(calls_of(session, kind).bytes for session in used) - buffered
    volumes = [claim.bytes for claim in claims if claim.bytes is not None]
    if len(volumes) < len(claims) < len(case.claims):  # what the others moved is not known apart
        return Finding(judged=False)
    enough = not buffered or (len(volumes) == len(claims) and direct >= sum(volumes))
    return Finding([] if enough else [_not_direct(case, through, buffered)])


def _not_direct(case: Case, through: Sequence[Session], buffered: int) -> Fault:
    """Of sessions that moved `buffered` bytes through the page cache."""
    seen, opened = case.observation, state(Code.NOT_DIRECT, calls_bytes=buffered)
    if case.unsure:
        return Fault(INCOMPLETE, case.unsure[0], (opened, case.unsure[1]))
    if not seen.flags_followed and (not seen.calls or seen.calls.get("fcntl")):
        numbers = {session.file for session in through}
        added = sum(file.page_cache_bytes or 0 for file in case.group.files if file.id in numbers)
        pool, share = case.pool, tolerances.of("cached_share")
        did = max(pool.device.own_bytes, pool.device.process_bytes or 0)
        may_have = not pool.is_known or pool.in_memory or did >= buffered * share  # or no device had to
        if added < buffered * share and may_have:
            return Fault(INCOMPLETE, "NOT-DIRECT", (opened, state(Code.FLAGS_MAY_CHANGE)))
    return Fault(CONTRADICTED, "NOT-DIRECT", (opened,))


def _buffered(sessions: Sequence[Session], kind: str, runs: int) -> list[Session]:
    """Those that went through the page cache.

    dd clears O_DIRECT for its last block where that is a part of one. So for each of `runs`, a single call that moves
    less than a direct one did is left out, and no more: they could be half of all.
    """
    records: dict[int, float] = defaultdict(float)
    for session in sessions:
        calls = calls_of(session, kind)
        if "direct" in session.flags:
            records[session.file] = max(records[session.file], calls.bytes / calls.calls)
    through = [session for session in sessions if "direct" not in session.flags]
    moved = [(session, calls_of(session, kind)) for session in through]
    rest = [session for session, calls in moved if calls.calls > 1 or calls.bytes >= records[session.file]]
    return rest if len(through) - len(rest) <= runs else through


# Ways into the kernel are counted for the whole process tree, so that what went one way is at most what was counted of
# it: less than the claim's own calls moved cannot all have gone there.

_POSITIONED = frozenset({"pread64", "pwrite64"})
_VECTORS = frozenset({"readv", "writev"})
_POSITIONED_VECTORS = frozenset({"preadv", "pwritev", "preadv2", "pwritev2"})
_PLAIN = frozenset({"read", "write"}) | _POSITIONED | _VECTORS | _POSITIONED_VECTORS
WAYS: Mapping[str, frozenset[str]] = {
    "sync": _PLAIN | {"sendfile", "copy_file_range", "splice"},
    "stdio": _PLAIN,
    "psync": _POSITIONED,
    VSYNC: _VECTORS,
    "pvsync": _POSITIONED_VECTORS,
    "pvsync2": _POSITIONED_VECTORS,
    "posixaio": _PLAIN,
    AIO: frozenset({"aio"}),
    URING: frozenset({"uring"}),
    SPLICE: frozenset({"splice", "vmsplice", "tee"}),
    MAPPED: frozenset(),
}
"""Engine -> names of `Operation.entry`. 'sync' and the C library's own stand for any call that waits."""


def judge_engine(case: Case) -> Finding | None:
    """None where no engine is named. One that is not in WAYS is not judged."""
    seen, layers = case.seen, set(case.observation.layers)
    engines = {claim.engine for claim in case.claims}
    if engines == {""}:
        return None
    ways = frozenset[str]().union(*(WAYS.get(name, frozenset()) for name in engines))
    # What is left out, or was done by others, may have gone another way.
    if case.expected.bytes is None and (case.leaves_out or seen.others_bytes):
        return Finding(judged=False)
    least = min(seen.bytes, case.expected.bytes or seen.bytes) - seen.others_bytes
    watched = {entry if entry in RINGS else SYSCALLS for entry in ways or {""}} <= layers
    # Where mapped files may have moved it, calls are those that lay out or check a file.
    few = case.claim.kind != "read" or case.leaves_out or seen.bytes < (case.expected.bytes or 0) / 2
    if not engines <= WAYS.keys() or least <= 0 or not watched or (MAPPED in engines and few):
        return Finding(judged=False)
    own = [part for part in case.observation.operations if part.kind in kinds(case.claim.kind)]
    moved, any_way = (sum(part.calls.bytes for part in own if part.entry in ways or every) for every in (False, True))
    if moved >= least * (1 - tolerances.of("engine_share")):
        return Finding()
    if any_way < least:  # operations were not all counted
        return Finding(judged=False)
    other = state(Code.OTHER_ENGINE, engines=tuple(sorted(engines)), moved_bytes=moved, calls_bytes=seen.bytes)
    if case.unsure:
        return Finding([Fault(INCOMPLETE, case.unsure[0], (other, case.unsure[1]))])
    return Finding([Fault(CONTRADICTED, "OTHER-ENGINE", (other,))])


# A tool's word is no evidence of a synchronisation: a library may answer fsync without a call. Counted are calls that
# succeeded, by file where files are known, and writes that are synchronised themselves. Where calls were not watched,
# the device must have most of the writes.

_NOT_DURABLE = frozenset({"sync_file_range"})
"""It starts or awaits write-back, and neither writes metadata nor flushes the drive's cache (sync_file_range(2))."""
_OF_EVERYTHING = frozenset({"sync", "syncfs"})
_WITH_FLAGS = frozenset({"pwritev2", "aio", "uring"})
"""Ways to write that can ask for RWF_SYNC or RWF_DSYNC in each call; newer observations have those that did."""


def judge_sync(case: Case) -> Finding | None:
    """None where no synchronisation is claimed, or nothing was written that could be synchronised.

    Which calls are whose is unknown: where some claims are of synchronous writes, or of a synchronisation at the end,
    and others are not, only their number is judged.
    """
    group, observation = case.group, case.observation
    # Where some synchronisation of writes is claimed and no number, it is one.
    claimed = sum(claim.syncs or (_writes(claim) and "fsync" in claim.includes) for claim in case.claims)
    ends, each = all(map(_ends, case.claims)), all(map(_each, case.claims))
    if case.claim.engine == NULL or not (claimed or ends or each):
        return Finding(judged=False) if any(_ends(claim) or _each(claim) for claim in case.claims) else None
    if SYSCALLS not in observation.layers or unwatched(case.claim.engine, observation.layers):
        return _by_device(case.pool)
    if not group.told_apart:  # of all files together there are at least as many as of the claim's own
        parts = [part.calls for part in observation.operations if part.kind == SYNC]
        seen = 0 if _of_ranges_alone(observation) else sum(part.calls - part.errors for part in parts)
        lacking = when(seen < claimed, Code.SYNCS_FEWER, claimed=claimed, seen=seen)
        lacking = lacking or when(ends and not seen, Code.NO_SYNC_SEEN)
        return _judged(lacking + (_flags_unknown(observation) if lacking else []), case)
    written = [session for session in group.sessions if session.write.calls > session.write.errors]
    if not written and not any(claim.syncs for claim in case.claims):
        return None
    seen = sum(map(_succeeded, group.sessions))
    lacking = when(seen < claimed and not group.one_pass, Code.SYNCS_FEWER, claimed=claimed, seen=seen)
    lacking += _flags_unknown(observation) if lacking and not observation.syncs_followed else []
    everything = any(part.entry in _OF_EVERYTHING and part.calls.completed for part in observation.operations)
    if ends and not everything:
        lacking += _without_end(group, written, observation)
    # Sessions that wrote without O_SYNC and O_DSYNC have a synchronisation for each write.
    if each and not all(_succeeded(one) >= one.write.calls - one.write.errors for one in written):
        unknown = [] if observation.syncs_followed else _flags_unknown(observation)
        lacking += unknown or [state(Code.OPENED_WITHOUT_SYNC)]
    if observation.syncs_followed and not everything:
        lacking += _out_of_order(group, written)
    return _judged(lacking, case)


def _writes(claim: Claim) -> bool:
    return claim.kind in ("write", MIXED)


def _ends(claim: Claim) -> bool:
    """Whether a synchronisation is claimed after the last write: by a clock that stops after it, or an option."""
    ends = "fsync" in claim.includes and ("close" in claim.includes or conventions(claim.source).passes)
    return _writes(claim) and (ends or "end-fsync" in claim.unreported)


def _each(claim: Claim) -> bool:
    """Whether every write is claimed to be synchronous."""
    return _writes(claim) and "osync" in claim.includes


def _of_ranges_alone(observation: Observation) -> bool:
    """Whether all that was synchronised in the process tree were ranges, which are durable nowhere."""
    entries = {part.entry for part in observation.operations if part.kind == SYNC and part.calls.calls}
    return bool(entries) and entries <= _NOT_DURABLE


def _judged(lacking: Sequence[Statement], case: Case) -> Finding:
    if not lacking:
        return Finding()
    reason = "FEWER-SEEN" if lacking[0].code == Code.SYNCS_FEWER else "NOT-SYNCED"
    if case.unsure:
        return Finding([Fault(INCOMPLETE, case.unsure[0], (*lacking, case.unsure[1]))])
    failed = not case.exit_ok or any(claim.errors for claim in case.claims)  # then the last steps are left out
    partly = any(statement.code in (Code.SYNCED_IN_PART, Code.WRITES_WITH_FLAGS) for statement in lacking)
    return Finding([Fault(INCOMPLETE if failed or partly else CONTRADICTED, reason, tuple(lacking))])


def _by_device(pool: Pool) -> Finding:
    """Calls were not watched: it stays open, and is doubtful where the device lacks much of what was written."""
    if pool.watched and pool.device.any_bytes >= pool.bytes * tolerances.of("cached_share"):
        return Finding(judged=False)
    return Finding([Fault(INCOMPLETE, "CALLS-NOT-OBSERVED", (state(Code.SYNCS_UNWATCHED),))])


def _succeeded(session: Session) -> int:
    return session.sync.calls - session.sync.errors + session.synchronous_writes


def _without_end(group: Group, written: Sequence[Session], observation: Observation) -> list[Statement]:
    """Files whose last write no synchronisation followed, through whichever descriptor.

    Of files that no claim names, some may be another program's: then one file that was synchronised is enough.
    """
    files = dict.fromkeys(session.file for session in written)
    last_ns = {number: max(one.write.last_ns for one in written if one.file == number) for number in files}
    ranges = _of_ranges_alone(observation)
    synced = [one for one in group.sessions if one.sync.calls > one.sync.errors and one.file in files and not ranges]
    in_time = {one.file for one in synced if one.sync.last_ns >= last_ns[one.file] or not one.sync.last_ns}
    if len(in_time) == len(files) or (in_time and not (group.named or group.one_pass)):
        return []
    if in_time:
        return [state(Code.SYNCED_IN_PART, written=len(files), synced=len(in_time))]
    return [state(Code.SYNCED_TOO_EARLY if synced else Code.NO_SYNC_SEEN)]


def _flags_unknown(observation: Observation) -> list[Statement]:
    """Where writes may have asked for it one by one."""
    entries = {part.entry for part in observation.operations if part.calls.calls and part.kind == WRITE}
    return when(entries & _WITH_FLAGS, Code.WRITES_WITH_FLAGS)


def _out_of_order(group: Group, written: Sequence[Session]) -> list[Statement]:
    """Fewer synchronisations that had something to do than the writes make at the distance that is claimed.

    Each session may end before its last one. Others may write to the files as well: no more than claimed counts.
    """
    distances = [claim.writes_per_sync or 0 for claim in group.claims]
    if not all(distances):
        return []
    made = sum(one.write.calls - one.write.errors for one in written)
    writes = min(made, sum(claim.operations or made for claim in group.claims))
    dirty = sum(one.dirty_syncs + one.synchronous_writes for one in group.sessions)
    seen, distance = sum(one.sync.calls - one.sync.errors for one in group.sessions), max(distances)
    few = dirty < writes // distance - len(written)
    return when(few, Code.SYNCED_UNCHANGED, distance=distance, writes=writes, synced=seen, dirty=dirty)
