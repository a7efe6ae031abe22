"""Synchronisation: did the kernel see those that are claimed, on the claim's files, in their order among the writes?

A tool's word is no evidence: a library may answer fsync without a call. Counted are calls that succeeded, by file where
files are known, and writes that are synchronised themselves. Where calls were not watched, the device must have most of
the writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.formats import conventions
from ioassay.records.observation import SYNC, SYSCALLS, WRITE, Observation, Session
from ioassay.records.record import Claim
from ioassay.verify import tolerances
from ioassay.verify.case import Case, Pool
from ioassay.verify.claim_groups import MIXED, NULL, Group
from ioassay.verify.evidence import unwatched
from ioassay.verify.statement import Code, Statement, state
from ioassay.verify.verdict import CONTRADICTED, INCOMPLETE, Fault, Finding

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
    if not group.told_apart:
        lacking = _in_total(claimed, ends, observation)
        return _judged(lacking + (_flags_unknown(observation) if lacking else []), case)
    written = [session for session in group.sessions if session.write.calls > session.write.errors]
    if not written and not any(claim.syncs for claim in case.claims):
        return None
    seen = sum(map(_succeeded, group.sessions))
    fewer = seen < claimed and not group.one_pass
    lacking = [state(Code.SYNCS_FEWER, claimed=claimed, seen=seen)] if fewer else []
    lacking += _flags_unknown(observation) if lacking and not observation.syncs_followed else []
    everything = any(part.entry in _OF_EVERYTHING and part.calls.completed for part in observation.operations)
    if ends and not everything:
        lacking += _without_end(group, written, observation)
    if each:
        lacking += _without_flags(written, observation)
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


def _in_total(claimed: int, ends: bool, observation: Observation) -> list[Statement]:
    """Of all files together there are at least as many as of the claim's own."""
    parts = [part.calls for part in observation.operations if part.kind == SYNC]
    seen = 0 if _of_ranges_alone(observation) else sum(part.calls - part.errors for part in parts)
    if seen < claimed:
        return [state(Code.SYNCS_FEWER, claimed=claimed, seen=seen)]
    return [state(Code.NO_SYNC_SEEN)] if ends and not seen else []


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


def _without_flags(written: Sequence[Session], observation: Observation) -> list[Statement]:
    """Sessions that wrote without O_SYNC and O_DSYNC, and without a synchronisation for each write."""
    if all(_succeeded(one) >= one.write.calls - one.write.errors for one in written):
        return []
    unknown = [] if observation.syncs_followed else _flags_unknown(observation)
    return unknown or [state(Code.OPENED_WITHOUT_SYNC)]


def _flags_unknown(observation: Observation) -> list[Statement]:
    """Where writes may have asked for it one by one."""
    entries = {part.entry for part in observation.operations if part.calls.calls and part.kind == WRITE}
    return [state(Code.WRITES_WITH_FLAGS)] if entries & _WITH_FLAGS else []


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
    if dirty >= writes // max(distances) - len(written):
        return []
    seen = sum(one.sync.calls - one.sync.errors for one in group.sessions)
    return [state(Code.SYNCED_UNCHANGED, distance=max(distances), writes=writes, synced=seen, dirty=dirty)]
