"""Operations and bytes: was as much done as is claimed?

Exact where calls are known by file; else the traffic of loaders and of printed results may be among what was seen
(`tolerance`), and a claim that is small against that is not judged.
"""

from __future__ import annotations

import math
from pathlib import PurePath

from ioassay.records.observation import WRITE
from ioassay.units import format_size
from ioassay.verify import tolerances
from ioassay.verify.case import Case
from ioassay.verify.claim_groups import MAPPED, NULL
from ioassay.verify.drive_counters import PAST_THE_KERNEL
from ioassay.verify.evidence import BY_NAME, FILES, NOTHING, VSYNC, unwatched
from ioassay.verify.verdict import CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED, Code, Fault, Statement, state, when

_FAULT_BYTES = 16 * 4096
"""At most so much is mapped by one fault (fault_around_bytes in mm/memory.c)."""


def judge_counts(case: Case) -> list[Fault]:
    """Nothing when the counts are as claimed; else the one fault."""
    if not case.is_amount_claimed:
        return []
    engine = case.claim.engine
    # Engines that say themselves that they do nothing here.
    nothing, name = state(Code.NOTHING_SUPPORTS), PurePath(engine).name
    if engine == NULL:
        null = state(Code.NULL_ENGINE, claimed=case.expected.amount)
        return [Fault(UNSUBSTANTIATED, "NULL-ENGINE", (null, nothing))]
    if name in PAST_THE_KERNEL:
        past = state(Code.PAST_THE_KERNEL, claimed=case.expected.amount, engine=name)
        return [Fault(UNSUBSTANTIATED, "PAST-THE-KERNEL", (past, nothing))]
    hidden = unwatched(engine, case.observation.layers)
    if hidden or case.seen.source == NOTHING:
        return _by_device(case, hidden or state(Code.CALLS_UNWATCHED), mapped=engine == MAPPED)
    seen, claimed, claimed_bytes = case.seen, case.expected.operations or 0, case.expected.bytes or 0
    others, volume = seen.others_operations, seen.others_bytes if seen.source != "files" else 0
    # No more than what others may have done, and the claim is larger than that.
    is_nothing = seen.operations == 0 or (seen.bytes == 0 and claimed_bytes > 0)
    is_nothing |= seen.bytes <= volume and claimed_bytes > 2 * volume
    fault = _nothing(case) if is_nothing else _fewer(case)
    if fault is None and engine not in BY_NAME:
        fault = _more(case) or _resolution(case)
    elif fault is None and others > tolerances.of("resolution") * claimed:
        # Of calls that programs make on their own account a claim must be many.
        fault = _unresolved(case, state(Code.OTHERS_CALLS, others=others))
    return [fault] if fault else []


def _nothing(case: Case) -> Fault | None:
    if not (case.expected.operations or case.expected.bytes):
        return None
    group = case.group
    elsewhere = bool(group.told_apart and group.missing and not group.files)  # then what devices did is of others
    if not elsewhere and not case.claim.engine:  # by whatever way
        did = case.pool.device.own_bytes
        added = [file.page_cache_bytes for file in group.files]
        if case.claim.kind == "read" and not case.claim.direct and added and None not in added:
            did = min(did, sum(part or 0 for part in added))  # at most as much as came into the page cache for them
        elsewhere_bytes = 0  # written by calls on other files: the device may have done as much for them
        if case.claim.kind == "write" and group.told_apart:
            own = {file.id for file in group.files}
            others = [session for session in case.observation.sessions if session.file not in own]
            elsewhere_bytes = sum(session.write.bytes for session in others)
        if _covers(did - elsewhere_bytes, case):
            return None
        if _covers(did, case) or _may_be_hidden(case, did):
            return Fault(INCOMPLETE, "CALLS-NOT-OBSERVED", (state(Code.CALLS_BEHIND_DEVICE),))
    # Single requests that are under way do not explain that there was none at all.
    if case.unsure and (case.unsure[0] != "CALLS-UNFINISHED" or case.observation.health.get("outlived", 0)):
        return Fault(INCOMPLETE, case.unsure[0], (*apart(case), case.unsure[1]))
    nothing = state(Code.NOTHING_SEEN, claimed=case.expected.amount, seen=case.seen.amount)
    missing = when(group.missing, Code.FILES_NOT_OPENED, files=tuple(group.missing[:3]))
    errors = when(case.seen.calls.errors, Code.CALLS_FAILED, errors=case.seen.calls.errors)
    return Fault(UNSUBSTANTIATED, "NOTHING-SEEN", (nothing, *missing, *errors, state(Code.NOTHING_SUPPORTS)))


def apart(case: Case) -> list[Statement]:
    """Claimed and seen, with all digits of bytes that look the same when they are rounded."""
    claimed, seen = case.expected, case.seen
    both = state(Code.CLAIMED_AND_SEEN, claimed=claimed.amount, seen=seen.amount)
    alike = claimed.bytes not in (None, seen.bytes) and format_size(claimed.bytes or 0) == format_size(seen.bytes)
    return [both, *when(alike, Code.BYTES_APART, claimed=claimed.bytes, seen=seen.bytes)]


def _may_be_hidden(case: Case, own_bytes: int) -> bool:
    """Whether the device did clearly more than the calls that were seen, in a way that was not watched."""
    if not case.pool.device.known or own_bytes <= case.seen.bytes + tolerances.of("others_bytes"):
        return False
    if not {"aio", "uring"} <= set(case.observation.layers):
        return True
    claimed, seen = case.expected, case.seen
    lacking: float = (claimed.bytes or 0) - seen.bytes
    if claimed.bytes is None and claimed.operations:  # by the mean of those that were seen
        lacking = (claimed.operations - seen.operations) * (seen.bytes / max(seen.operations, 1))
    return case.observation.counters.get("major_faults", 0) * _FAULT_BYTES >= lacking


def _covers(own_bytes: int, case: Case) -> bool:
    claimed = case.expected.bytes or 0
    return claimed > 0 and own_bytes >= claimed * (1 - tolerances.of("device_share"))


def _fewer(case: Case) -> Fault | None:
    claimed, seen = case.expected, case.seen
    lacks_bytes = claimed.bytes is not None and seen.bytes < claimed.bytes - claimed.rounded_bytes
    operations = claimed.operations or 0
    if not lacks_bytes and seen.operations >= operations:
        return None
    both = apart(case)
    if not lacks_bytes and seen.operations + seen.calls.errors >= operations:
        failed = state(Code.FAILED_OPERATIONS, errors=seen.calls.errors)
        few = seen.operations < operations / 2  # a disk that fills fails once, at the end
        return Fault(UNSUBSTANTIATED if few else INCOMPLETE, "CALLS-FAILED", (*both, failed))
    if case.unsure:
        return Fault(INCOMPLETE, case.unsure[0], (*both, case.unsure[1]))
    if not case.claim.engine and _may_be_hidden(case, case.pool.device.own_bytes):
        return Fault(INCOMPLETE, "CALLS-NOT-OBSERVED", (*both, state(Code.DEVICE_DID_MORE)))
    pairs = ((claimed.bytes, seen.bytes), (claimed.operations, seen.operations))
    lack = max((1 - there / stated for stated, there in pairs if stated), default=0.0)
    return Fault(CONTRADICTED, "FEWER-SEEN", (*both, state(Code.FEWER_SEEN, lack=lack)))


def _more(case: Case) -> Fault | None:
    operations, volume = case.surplus
    seen, rounded = case.seen, case.expected.rounded_bytes
    allowed = operations <= seen.others_operations and volume <= max(seen.others_bytes, rounded)
    # Calls that moved nothing or a part: the file ended, the disk was full, a signal came. What was written before the
    # rest was refused is in no operation, and some tools leave it out of their bytes.
    calls, beyond = seen.calls, max(volume - int(rounded), 0)
    of_files = seen.source == FILES
    refused = calls.short * calls.requested_bytes / calls.calls if of_files and calls.errors and calls.short else 0
    without_data = beyond <= refused and operations <= (calls.short if of_files else 0)
    if allowed or case.leaves_out or without_data:
        return None
    both = apart(case)
    # Only of files that are named is it known that nothing else was done to them on purpose.
    # fio leaves bytes of vsync's last calls out of its results.
    others = any("among-others" in claim.doubts for claim in case.claims) or case.claim.source == "user"
    others |= case.claim.engine == VSYNC
    if of_files and (case.group.named or case.group.one_pass) and not others:
        return Fault(CONTRADICTED, "MORE-SEEN", (*both, state(Code.MORE_SEEN)))
    return Fault(INCOMPLETE, "MORE-SEEN", (*both, state(Code.REST_UNKNOWN), *_remedy(case)))


def _remedy(case: Case) -> list[Statement]:
    """What would identify the rest, where anything is left to be done."""
    unnamed = not any(claim.paths for claim in case.claims)
    if case.group.overflowed:
        return [state(Code.TOO_MANY_FILES)]
    if case.seen.source != FILES:
        return [state(Code.NAME_FILES_AND_USE_SYSCALLS if unnamed else Code.USE_SYSCALLS)]
    return when(unnamed, Code.NAME_FILES)


def _resolution(case: Case) -> Fault | None:
    """Totals cannot tell a small claim from others' traffic; the device can, where direct I/O went to it."""
    seen, claimed, device = case.seen, case.expected.bytes, case.pool.device
    if case.surplus == (0, 0) or seen.source == "files" or claimed is None:
        return None
    if seen.others_bytes <= tolerances.of("resolution") * claimed:
        return None
    most = claimed * (1 + tolerances.of("amplified")) + tolerances.of("device_bytes")
    if case.claim.direct and device.known and _covers(device.own_bytes, case) and device.own_bytes <= most:
        return None
    return _unresolved(case, state(Code.BELOW_RESOLUTION, others_bytes=seen.others_bytes), *_remedy(case))


def _unresolved(case: Case, *why: Statement) -> Fault:
    both = state(Code.CLAIMED_AND_SEEN, claimed=case.expected.amount, seen=case.seen.amount)
    return Fault(INCOMPLETE, "BELOW-RESOLUTION", (both, *why))


def _touched_bytes(case: Case) -> int | None:
    """What was done to mapped files, as far as no call did it; None where that is not known.

    A page that is read has to come into the page cache, and one that is written has to be dirtied, which the process's
    account counts once until it is written back. What is done more than once with a page is in neither.
    """
    seen, writes, files = case.observation, case.claim.kind == WRITE, {file.id: file for file in case.group.files}
    storage = {file.id for file in seen.files if file.kind in ("regular", "block")} if writes else {*files}
    sessions = [session for session in seen.sessions if session.file in storage]
    added = [file.page_cache_bytes for file in files.values()]
    if writes and "write_bytes" in seen.counters:
        done = int(seen.counters["write_bytes"])
    elif writes or not added or None in added or any(session.read.calls for session in sessions):
        return None
    else:
        done = sum(part or 0 for part in added)
    return max(done - sum(session.write.bytes for session in sessions), 0)


def _by_device(case: Case, why: Statement, *, mapped: bool) -> list[Fault]:
    """Calls cannot be known: what the device did may be enough."""
    device, claimed = case.pool.device, case.expected.bytes or 0
    known = (state(Code.CLAIMED, claimed=case.expected.amount), why)
    reached = max(device.own_bytes, device.process_bytes or 0)
    if mapped and (touched := _touched_bytes(case)) is not None:
        volumes = [claim.bytes or (claim.operations or 0) * (claim.record_bytes or 0) for claim in case.mapped]
        wanted = sum(volumes) * (1 - tolerances.of("device_share")) if all(volumes) else math.inf
        if wanted <= touched <= sum(volumes) * (1 + tolerances.of("amplified")) + tolerances.of("device_bytes"):
            return []
        reached = min(reached, touched) if touched < wanted else reached  # the rest was for others
    if device.known and _covers(reached, case):
        most = claimed * (1 + tolerances.of("amplified")) + tolerances.of("loader_device_bytes")
        if reached <= most or case.leaves_out:
            return []
        all_moved = state(Code.DEVICES_MOVED, moved_bytes=reached)
        reason = "MAPPED" if mapped else "MORE-SEEN"
        return [Fault(INCOMPLETE, reason, (*known, all_moved, state(Code.REST_UNKNOWN)))]
    is_direct = device.known and case.claim.direct and claimed and not device.stacked and not mapped
    if is_direct and case.pool.filesystems and reached <= tolerances.of("device_bytes"):
        return [Fault(UNSUBSTANTIATED, "NO-DEVICE-IO", (*known, state(Code.DIRECT_WITHOUT_DEVICE)))]
    moved = when(device.known, Code.DEVICES_MOVED_PART, moved_bytes=reached)
    return [Fault(INCOMPLETE, "MAPPED" if mapped else "CALLS-NOT-OBSERVED", (*known, *moved))]
