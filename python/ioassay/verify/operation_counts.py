"""Operations and bytes: was as much done as is claimed?

Exact where calls are known by file; else the traffic of loaders and of printed results may be among what was seen
(`tolerance`), and a claim that is small against that is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from ioassay.records.observation import Observation
from ioassay.records.record import Claim
from ioassay.units import format_size
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import MAPPED, Group
from ioassay.verify.drive_counters import PAST_THE_KERNEL
from ioassay.verify.evidence import BY_NAME, FILES, NOTHING, SPLICE, VSYNC, Device, Evidence, unwatched
from ioassay.verify.statement import Amount, Code, Statement, state
from ioassay.verify.verdict import CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED

_LEFT_OUT = {
    "ramp": Code.LEFT_OUT_RAMP,
    "layout": Code.LEFT_OUT_LAYOUT,
    "other-tests": Code.LEFT_OUT_OTHER_TESTS,
    "own-files": Code.LEFT_OUT_OWN_FILES,
    "pre-read": Code.LEFT_OUT_PRE_READ,
}
"""Extra traffic that a tool says it leaves out of its numbers."""
_NOT_AS_CALLS = frozenset({"stdio", SPLICE, VSYNC})
_PAGE_BYTES = 4096
_FAULT_BYTES = 16 * _PAGE_BYTES
"""At most so much is mapped by one fault (fault_around_bytes in mm/memory.c)."""


@dataclass(frozen=True)
class Fault:
    """Why a claim is not simply confirmed: a category of `verdict`, a reason, what it rests on."""

    category: str
    reason: str
    statements: Sequence[Statement] = ()


@dataclass(frozen=True)
class Expected:
    """What must have been done for the claims of a group to be true; None for what is not claimed."""

    operations: int | None
    bytes: int | None
    rounded_bytes: float = 0.0
    """Printed in steps of so much."""
    notes: Sequence[Statement] = ()

    @property
    def amount(self) -> Amount:
        """What was claimed."""
        return Amount(self.operations, self.bytes)


def expected(group: Group) -> Expected:
    """The sum of the claims, and what is known to come beside them.

    The C library makes calls of its own size for stdio's records, a pipe divides what is spliced, and vsync has one
    call for what lies side by side, so that these are not counted. Nor are the bytes of files that are only created.
    """
    operations = _total([None if claim.engine in _NOT_AS_CALLS else claim.operations for claim in group.claims])
    # Without bytes the rate alone is judged.
    volume = _total([None if claim.engine in BY_NAME else claim.bytes for claim in group.claims])
    rounded = sum(claim.rate_unit_bytes for claim in group.claims if claim.operations is None)
    notes = []
    if not group.one_pass:
        extra = [
            (int(claim.primed) + claim.silent_passes * (claim.operations or 0), _beside(claim))
            for claim in group.claims
        ]
        if any(bytes_beside for _, bytes_beside in extra):
            operations = None if operations is None else operations + sum(one for one, _ in extra)
            volume = None if volume is None else volume + sum(one for _, one in extra)
            notes.append(state(Code.SILENT_PASSES_COUNTED))
    return Expected(operations, volume, rounded if rounded > len(group.claims) else 0.0, notes)


def _total(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _beside(claim: Claim) -> int:
    return int(claim.primed) * (claim.record_bytes or 0) + claim.silent_passes * (claim.bytes or 0)


def judge_counts(group: Group, want: Expected, seen: Evidence, device: Device, observation: Observation) -> list[Fault]:
    """Nothing when the counts are as claimed; else the one fault."""
    if want.operations is None and want.bytes is None:
        return []
    engine = MAPPED if any(claim.engine == MAPPED for claim in group.claims) else group.claims[0].engine
    if engine == "null":
        null = state(Code.NULL_ENGINE, claimed=want.amount)
        return [Fault(UNSUBSTANTIATED, "NULL-ENGINE", (null, state(Code.NOTHING_SUPPORTS)))]
    if (name := PurePath(engine).name) in PAST_THE_KERNEL:
        past = state(Code.PAST_THE_KERNEL, claimed=want.amount, engine=name)
        return [Fault(UNSUBSTANTIATED, "PAST-THE-KERNEL", (past, state(Code.NOTHING_SUPPORTS)))]
    hidden = unwatched(engine, observation.layers)
    if hidden or seen.source == NOTHING:
        return _by_device(group, want, device, hidden or state(Code.CALLS_UNWATCHED), mapped=engine == MAPPED)
    if _is_nothing(want, seen) and (nothing := _nothing(group, want, seen, device, observation)):
        return [nothing]
    if fewer := _fewer(group, want, seen, device, observation):
        return [fewer]
    if engine in BY_NAME:
        return _below(want, seen)
    return _more(group, want, seen) or _resolution(group, want, seen, device)


def _is_nothing(want: Expected, seen: Evidence) -> bool:
    """No more than what others may have done, and the claim is larger than that."""
    if seen.operations == 0 or (seen.bytes == 0 and (want.bytes or 0) > 0):
        return True
    volume = seen.others_bytes if seen.source != "files" else 0
    return seen.bytes <= volume and (want.bytes or 0) > 2 * volume


def _nothing(group: Group, want: Expected, seen: Evidence, device: Device, observation: Observation) -> Fault | None:
    if not (want.operations or want.bytes):
        return None
    elsewhere = bool(group.told_apart and group.missing and not group.files)  # then what devices did is of others
    unnamed = not elsewhere and not group.claims[0].engine  # by whatever way
    device = replace(device, own_bytes=_for_these_files(group, device))
    if unnamed and _covers(device.own_bytes, want):
        if _covers(device.own_bytes - _written_elsewhere(group, observation), want):
            return None
        return Fault(INCOMPLETE, "CALLS-NOT-OBSERVED", (state(Code.CALLS_BEHIND_DEVICE),))
    if unnamed and _may_be_hidden(want, seen, device, observation):
        return Fault(INCOMPLETE, "CALLS-NOT-OBSERVED", (state(Code.CALLS_BEHIND_DEVICE),))
    reason, why = unsure(group, observation) or ("", None)
    # Single requests that are under way do not explain that there was none at all.
    if why and (reason != "CALLS-UNFINISHED" or observation.health.get("outlived", 0)):
        return Fault(INCOMPLETE, reason, (*apart(want, seen), why))
    nothing = state(Code.NOTHING_SEEN, claimed=want.amount, seen=seen.amount)
    missing = [state(Code.FILES_NOT_OPENED, files=tuple(group.missing[:3]))] if group.missing else []
    errors = [state(Code.CALLS_FAILED, errors=seen.calls.errors)] if seen.calls.errors else []
    return Fault(UNSUBSTANTIATED, "NOTHING-SEEN", (nothing, *missing, *errors, state(Code.NOTHING_SUPPORTS)))


def _for_these_files(group: Group, device: Device) -> int:
    """What the device did, at most as much as came into the page cache for these files where that was watched."""
    added = [file.page_cache_bytes for file in group.files]
    if group.claims[0].kind != "read" or group.claims[0].direct or not added or None in added:
        return device.own_bytes
    return min(device.own_bytes, sum(part or 0 for part in added))


def _written_elsewhere(group: Group, observation: Observation) -> int:
    """Written by calls on other files: the device may have done as much for them."""
    if group.claims[0].kind != "write" or not group.told_apart:
        return 0
    own = {file.id for file in group.files}
    return sum(session.write.bytes for session in observation.sessions if session.file not in own)


def apart(want: Expected, seen: Evidence) -> list[Statement]:
    """Claimed and seen, with all digits of bytes that look the same when they are rounded."""
    both = [state(Code.CLAIMED_AND_SEEN, claimed=want.amount, seen=seen.amount)]
    if want.bytes is not None and want.bytes != seen.bytes and format_size(want.bytes) == format_size(seen.bytes):
        both.append(state(Code.BYTES_APART, claimed=want.bytes, seen=seen.bytes))
    return both


def _lack(want: Expected, seen: Evidence) -> float:
    """The share of the claim that was not seen, of bytes or operations, whichever is more."""
    pairs = ((want.bytes, seen.bytes), (want.operations, seen.operations))
    return max((1 - present / claimed for claimed, present in pairs if claimed), default=0.0)


def _may_be_hidden(want: Expected, seen: Evidence, device: Device, observation: Observation) -> bool:
    """Whether the device did clearly more than the calls that were seen, in a way that was not watched."""
    slack = tolerances.of("others_bytes")
    if not device.known or device.own_bytes <= seen.bytes + slack:
        return False
    if not {"aio", "uring"} <= set(observation.layers):
        return True
    faults = observation.counters.get("major_faults", 0)
    return faults * _FAULT_BYTES >= _lacking_bytes(want, seen)


def _lacking_bytes(want: Expected, seen: Evidence) -> float:
    """What was claimed and not seen, of operations without bytes by the mean of those that were seen."""
    if want.bytes is not None or not want.operations:
        return (want.bytes or 0) - seen.bytes
    mean = seen.bytes / seen.operations if seen.operations else 0.0
    return (want.operations - seen.operations) * mean


def _covers(own_bytes: int, want: Expected) -> bool:
    return bool(want.bytes) and own_bytes >= (want.bytes or 0) * (1 - tolerances.of("device_share"))


def _fewer(group: Group, want: Expected, seen: Evidence, device: Device, observation: Observation) -> Fault | None:
    if _is_nothing(want, seen):
        return None
    lacks_bytes = want.bytes is not None and seen.bytes < want.bytes - want.rounded_bytes
    lacks_operations = want.operations is not None and seen.operations < want.operations
    if not lacks_bytes and not lacks_operations:
        return None
    both = apart(want, seen)
    if not lacks_bytes and seen.operations + seen.calls.errors >= (want.operations or 0):
        failed = state(Code.FAILED_OPERATIONS, errors=seen.calls.errors)
        few = seen.operations < (want.operations or 0) / 2  # a disk that fills fails once, at the end
        return Fault(UNSUBSTANTIATED if few else INCOMPLETE, "CALLS-FAILED", (*both, failed))
    if cause := unsure(group, observation):
        reason, why = cause
        return Fault(INCOMPLETE, reason, (*both, why))
    if not group.claims[0].engine and _may_be_hidden(want, seen, device, observation):
        return Fault(INCOMPLETE, "CALLS-NOT-OBSERVED", (*both, state(Code.DEVICE_DID_MORE)))
    return Fault(CONTRADICTED, "FEWER-SEEN", (*both, state(Code.FEWER_SEEN, lack=_lack(want, seen))))


def unsure(group: Group, observation: Observation) -> tuple[str, Statement] | None:
    """Why fewer may have been seen than were made: a reason, and what it rests on."""
    claim, health = group.claims[0], observation.health
    if outlived := health.get("outlived", 0):
        return "CALLS-UNFINISHED", state(Code.PROCESSES_OUTLIVED, processes=outlived)
    in_flight, unmatched = health.get("in_flight", 0), health.get("unmatched", 0)
    unmatched += health.get("in_flight_at_start", 0)
    if in_flight or unmatched:
        return "CALLS-UNFINISHED", state(Code.RESULTS_UNSEEN, in_flight=in_flight, unmatched=unmatched)
    if group.one_pass and "among-others" in claim.doubts:
        return "SIDES-UNKNOWN", state(Code.OTHER_PROGRAMS)
    if "sides-unknown" in claim.doubts:
        return "SIDES-UNKNOWN", state(Code.FILES_UNKNOWN)
    return ("SPARSE", state(Code.ZEROS_SKIPPED)) if "sparse" in claim.doubts else None


def surplus(want: Expected, seen: Evidence) -> tuple[int, int]:
    """Operations and bytes that were seen beyond what was claimed."""
    operations = seen.operations - want.operations if want.operations is not None else 0
    volume = seen.bytes - want.bytes if want.bytes is not None else 0
    return max(operations, 0), max(volume, 0)


def _more(group: Group, want: Expected, seen: Evidence) -> list[Fault]:
    operations, volume = surplus(want, seen)
    if _without_data(operations, max(volume - int(want.rounded_bytes), 0), seen):
        return []
    if operations <= seen.others_operations and volume <= max(seen.others_bytes, want.rounded_bytes):
        return []
    if leaves_out(group):
        return []
    both = apart(want, seen)
    # Only of files that are named is it known that nothing else was done to them on purpose.
    # fio leaves bytes of vsync's last calls out of its results.
    others = any("among-others" in claim.doubts for claim in group.claims) or group.claims[0].source == "user"
    others |= group.claims[0].engine == VSYNC
    if seen.source == "files" and (group.named or group.one_pass) and not others:
        return [Fault(CONTRADICTED, "MORE-SEEN", (*both, state(Code.MORE_SEEN)))]
    return [Fault(INCOMPLETE, "MORE-SEEN", (*both, state(Code.REST_UNKNOWN), *_remedy(group, seen)))]


def _remedy(group: Group, seen: Evidence) -> list[Statement]:
    """What would identify the rest, where anything is left to be done."""
    unnamed = not any(claim.paths for claim in group.claims)
    if group.overflowed:
        return [state(Code.TOO_MANY_FILES)]
    if seen.source != FILES:
        return [state(Code.NAME_FILES_AND_USE_SYSCALLS if unnamed else Code.USE_SYSCALLS)]
    return [state(Code.NAME_FILES)] if unnamed else []


def leaves_out(group: Group) -> bool:
    """Whether a tool says that it did more than it reports."""
    return any(name in _LEFT_OUT for claim in group.claims for name in claim.unreported)


def _without_data(operations: int, volume: int, seen: Evidence) -> bool:
    """Calls that moved nothing or a part: the file ended, the disk was full, a signal came.

    What was written before the rest was refused is in no operation, and some tools leave it out of their bytes.
    """
    calls = seen.calls
    refused = calls.short * calls.requested_bytes / calls.calls if calls.errors and calls.short else 0
    if seen.source != FILES:
        return operations == 0 and volume == 0
    return volume <= refused and operations <= calls.short


def _below(want: Expected, seen: Evidence) -> list[Fault]:
    """Of calls that programs make on their own account a claim must be many."""
    if seen.others_operations <= tolerances.of("resolution") * (want.operations or 0):
        return []
    both = state(Code.CLAIMED_AND_SEEN, claimed=want.amount, seen=seen.amount)
    return [Fault(INCOMPLETE, "BELOW-RESOLUTION", (both, state(Code.OTHERS_CALLS, others=seen.others_operations)))]


def _resolution(group: Group, want: Expected, seen: Evidence, device: Device) -> list[Fault]:
    """Totals cannot tell a small claim from others' traffic; the device can, where direct I/O went to it."""
    exact = surplus(want, seen) == (0, 0)
    if exact or seen.source == "files" or want.bytes is None:
        return []
    if seen.others_bytes <= tolerances.of("resolution") * want.bytes:
        return []
    most = want.bytes * (1 + tolerances.of("amplified")) + tolerances.of("device_bytes")
    if group.claims[0].direct and device.known and _covers(device.own_bytes, want) and device.own_bytes <= most:
        return []
    both = state(Code.CLAIMED_AND_SEEN, claimed=want.amount, seen=seen.amount)
    below = state(Code.BELOW_RESOLUTION, others_bytes=seen.others_bytes)
    return [Fault(INCOMPLETE, "BELOW-RESOLUTION", (both, below, *_remedy(group, seen)))]


def _by_device(group: Group, want: Expected, device: Device, why: Statement, *, mapped: bool) -> list[Fault]:
    """Calls cannot be known: what the device did may be enough."""
    reason = "MAPPED" if mapped else "CALLS-NOT-OBSERVED"
    known = (state(Code.CLAIMED, claimed=want.amount), why)
    reached = max(device.own_bytes, device.process_bytes or 0)
    if device.known and _covers(reached, want):
        most = (want.bytes or 0) * (1 + tolerances.of("amplified")) + tolerances.of("loader_device_bytes")
        if reached <= most or leaves_out(group):
            return []
        all_moved = state(Code.DEVICES_MOVED, moved_bytes=reached)
        return [Fault(INCOMPLETE, "MORE-SEEN", (*known, all_moved, state(Code.REST_UNKNOWN)))]
    expected = device.known and group.claims[0].direct and want.bytes and not device.stacked
    if expected and reached <= tolerances.of("device_bytes"):
        return [Fault(UNSUBSTANTIATED, "NO-DEVICE-IO", (*known, state(Code.DIRECT_WITHOUT_DEVICE)))]
    moved = [state(Code.DEVICES_MOVED_PART, moved_bytes=reached)] if device.known else []
    return [Fault(INCOMPLETE, reason, (*known, *moved))]


def left_out(claims: Sequence[Claim]) -> list[Statement]:
    """What the tool says it leaves out."""
    names = dict.fromkeys(name for claim in claims for name in claim.unreported)
    return [state(_LEFT_OUT[name]) for name in names if name in _LEFT_OUT]
