"""Operations and bytes: was as much done as is claimed?

Exact where calls are known by file; else the traffic of loaders and of printed results may be among what was seen
(`tolerance`), and a claim that is small against that is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ioassay.records.observation import Observation
from ioassay.records.record import Claim
from ioassay.units import format_size
from ioassay.verify import tolerances
from ioassay.verify.amounts import amount, apart, how_to_tell, percent, seen_amount
from ioassay.verify.claim_groups import Group
from ioassay.verify.drive_counters import PAST_THE_KERNEL
from ioassay.verify.evidence import MAPPED, NOTHING, Device, Evidence, unwatched
from ioassay.verify.verdict import CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED

# Extra traffic that a tool says it leaves out of its numbers.
_LEFT_OUT = {
    "ramp": "the ramp before its clock started is not in its numbers",
    "layout": "laying out the file is not in its numbers",
    "own-files": "the database's own files beside its tables, and headers in its log, are not in its numbers",
    "pre-read": "reading the file before its clock started is not in its numbers",
}
_WITHOUT_DATA = frozenset({"null", "filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete"})
"""Engines of fio that move no data: they do nothing, or only create, look at and delete files."""
_PAGE_BYTES = 4096
_FAULT_BYTES = 16 * _PAGE_BYTES
"""At most so much is mapped by one fault (fault_around_bytes in mm/memory.c)."""


@dataclass(frozen=True)
class Fault:
    """Why a claim is not simply confirmed: a category of `outcome`, a reason, a sentence."""

    category: str
    reason: str
    text: str


@dataclass(frozen=True)
class Expected:
    """What must have been done for the claims of a group to be true; None for what is not claimed."""

    operations: int | None
    bytes: int | None
    rounded_bytes: float = 0.0
    """Printed in steps of so much."""
    notes: Sequence[str] = ()


def expected(group: Group) -> Expected:
    """The sum of the claims, and what is known to come beside them.

    The C library makes calls of its own size for stdio's records, so that these are not counted.
    """
    operations = _total([None if claim.engine == "stdio" else claim.operations for claim in group.claims])
    volume = _total([_bytes(claim) for claim in group.claims])
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
            notes.append("Priming reads and passes that are not reported are counted in, as the tool makes them.")
    return Expected(operations, volume, rounded if rounded > len(group.claims) else 0.0, notes)


def _total(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _bytes(claim: Claim) -> int | None:
    if claim.bytes is None and claim.rate_bytes_per_s and claim.seconds:
        return None  # known only to the digits of both: the rate is judged instead
    return claim.bytes


def _beside(claim: Claim) -> int:
    return int(claim.primed) * (claim.record_bytes or 0) + claim.silent_passes * (claim.bytes or 0)


def judge_counts(group: Group, want: Expected, seen: Evidence, device: Device, observation: Observation) -> list[Fault]:
    """Nothing when the counts are as claimed; else the one fault."""
    if want.operations is None and want.bytes is None:
        return []
    engine = group.claims[0].engine
    if engine in _WITHOUT_DATA:
        return [_null(want, engine)]
    if PurePath(engine).name in PAST_THE_KERNEL:
        return [_past(want, PurePath(engine).name)]
    hidden = unwatched(engine, observation.layers)
    if hidden or seen.source == NOTHING:
        return _by_device(group, want, device, hidden or "no calls were watched", mapped=engine == MAPPED)
    if _is_nothing(want, seen) and (nothing := _nothing(group, want, seen, device, observation)):
        return [nothing]
    if fewer := _fewer(group, want, seen, device, observation):
        return [fewer]
    more = _more(group, want, seen) or _resolution(group, want, seen, device)
    return more or _fewer_syncs(group, seen, observation)


def _null(want: Expected, engine: str) -> Fault:
    if engine != "null":
        text = f"{amount(want)} were claimed by an engine that moves no data ({engine}): its bytes are none of a file."
        return Fault(UNSUBSTANTIATED, "NULL-ENGINE", text)
    return Fault(
        UNSUBSTANTIATED,
        "NULL-ENGINE",
        f"{amount(want)} were claimed by an engine that does no I/O (null), and the kernel saw none: "
        "the rate is that of the tool alone.",
    )


def _past(want: Expected, engine: str) -> Fault:
    text = (
        f"{amount(want)} were claimed by an engine that speaks to the drive by itself ({engine}): the kernel sees at "
        "most its sockets, so only the drive could tell."
    )
    return Fault(UNSUBSTANTIATED, "PAST-THE-KERNEL", text)


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
    if not elsewhere and not group.claims[0].engine and _covers(device.own_bytes, want):
        return None if _device_only(want) else _hidden("the calls behind them were not seen")
    if not elsewhere and not group.claims[0].engine and _may_be_hidden(want, seen, device, observation):
        return _hidden("calls of another kind, or mapped files, may be behind it")
    missing = f" It names {', '.join(group.missing[:3])}, which nobody opened." if group.missing else ""
    errors = f" {seen.calls.errors} calls failed." if seen.calls.errors else ""
    if observation.health.get("outlived", 0) and (unsure := _unsure(group, observation)):
        return Fault(INCOMPLETE, *unsure(apart(want, seen)))
    return Fault(
        UNSUBSTANTIATED,
        "NOTHING-SEEN",
        f"{amount(want)} were claimed, and the kernel saw no such I/O of the process tree "
        f"({seen_amount(seen)}).{missing}{errors}",
    )


def _device_only(want: Expected) -> bool:
    return want.bytes is not None


def _hidden(text: str) -> Fault:
    return Fault(INCOMPLETE, "CALLS-NOT-OBSERVED", f"The device was used, but {text}: the claim was not judged.")


def _may_be_hidden(want: Expected, seen: Evidence, device: Device, observation: Observation) -> bool:
    """Whether the device did clearly more than the calls that were seen, in a way that was not watched."""
    slack = tolerances.of("others_bytes")
    if not device.known or device.own_bytes <= seen.bytes + slack:
        return False
    if not {"aio", "uring"} <= set(observation.layers):
        return True
    faults = observation.counters.get("major_faults", 0)
    return faults * _FAULT_BYTES >= (want.bytes or 0) - seen.bytes


def _covers(own_bytes: int, want: Expected) -> bool:
    return bool(want.bytes) and own_bytes >= (want.bytes or 0) * (1 - tolerances.of("device_share"))


def _fewer(group: Group, want: Expected, seen: Evidence, device: Device, observation: Observation) -> Fault | None:
    if _is_nothing(want, seen):
        return None
    lacks_bytes = want.bytes is not None and seen.bytes < want.bytes - want.rounded_bytes
    lacks_operations = want.operations is not None and seen.operations < want.operations
    if not lacks_bytes and not lacks_operations:
        return None
    told = apart(want, seen)
    claim = group.claims[0]
    if unsure := _unsure(group, observation):
        return Fault(INCOMPLETE, *unsure(told))
    if not claim.engine and _may_be_hidden(want, seen, device, observation):
        return Fault(INCOMPLETE, "CALLS-NOT-OBSERVED", f"{told}, and the device did more than these calls.")
    return Fault(CONTRADICTED, "FEWER-SEEN", f"{told}, which is {percent(want, seen)} less.")


def _unsure(group: Group, observation: Observation) -> Any:
    """Why fewer may have been seen than were made."""
    claim = group.claims[0]
    if outlived := observation.health.get("outlived", 0):
        processes = "1 process of it was" if outlived == 1 else f"{outlived} processes of it were"
        text = f"{processes} still running when the command ended, and no longer watched"
        return lambda told: ("CALLS-UNFINISHED", f"{told}; {text}.")
    at_end = {name: observation.health.get(name, 0) for name in ("in_flight", "unmatched")}
    if any(at_end.values()):
        text = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in at_end.items() if count)
        return lambda told: ("CALLS-UNFINISHED", f"{told}; the results of some calls were not seen ({text}).")
    if group.one_pass and "among-others" in claim.doubts:
        return lambda told: ("SIDES-UNKNOWN", f"{told}; other programs ran beside the tool, perhaps on the same file.")
    if "sides-unknown" in claim.doubts:
        return lambda told: ("SIDES-UNKNOWN", f"{told}; which files the tool copied is not known.")
    if "sparse" in claim.doubts:
        return lambda told: ("SPARSE", f"{told}; blocks of zeros are skipped, as it was told to.")
    return None


def _fewer_syncs(group: Group, seen: Evidence, observation: Observation) -> list[Fault]:
    """Of files that are known, synchronisations are counted as exactly as operations."""
    claimed = sum(claim.syncs or 0 for claim in group.claims)
    if seen.source != "files" or group.one_pass or seen.syncs is None or claimed <= seen.syncs:
        return []
    told = (
        f"{claimed} synchronisation{'' if claimed == 1 else 's'} of its files were claimed; the kernel saw {seen.syncs}"
    )
    if unsure := _unsure(group, observation):
        return [Fault(INCOMPLETE, *unsure(told))]
    return [Fault(CONTRADICTED, "FEWER-SEEN", f"{told}.")]


def surplus(want: Expected, seen: Evidence) -> tuple[int, int]:
    """Operations and bytes that were seen beyond what was claimed."""
    operations = seen.operations - want.operations if want.operations is not None else 0
    volume = seen.bytes - want.bytes if want.bytes is not None else 0
    return max(operations, 0), max(volume, 0)


def _more(group: Group, want: Expected, seen: Evidence) -> list[Fault]:
    operations, volume = surplus(want, seen)
    if volume <= want.rounded_bytes and _ends_of_files(operations, volume, seen):
        return []
    if operations <= seen.others_operations and volume <= max(seen.others_bytes, want.rounded_bytes):
        return []
    if leaves_out(group):
        return []
    told = apart(want, seen)
    # Only of files that are named is it known that nothing else was done to them on purpose.
    others = any("among-others" in claim.doubts for claim in group.claims) or group.claims[0].source == "user"
    if seen.source == "files" and (group.named or group.one_pass) and not others:
        return [Fault(CONTRADICTED, "MORE-SEEN", f"{told}: more than claimed, and nothing explains it.")]
    return [
        Fault(
            INCOMPLETE,
            "MORE-SEEN",
            f"{told}: as much as claimed and more, and whether the rest belongs to it cannot be told."
            f"{how_to_tell(group, seen)}",
        )
    ]


def leaves_out(group: Group) -> bool:
    """Whether a tool says that it did more than it reports."""
    return any(name in _LEFT_OUT for claim in group.claims for name in claim.unreported)


def _ends_of_files(operations: int, volume: int, seen: Evidence) -> bool:
    """Calls that moved nothing because the file ended."""
    return operations == 0 or (volume == 0 and seen.source == "files" and operations <= seen.calls.short)


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
    return [
        Fault(
            INCOMPLETE,
            "BELOW-RESOLUTION",
            f"{amount(want)} were claimed; the kernel saw {seen_amount(seen)}, but loaders and printed results are "
            f"among that, up to {format_size(seen.others_bytes)}. Use the level syscalls, which tells files apart.",
        )
    ]


def _by_device(group: Group, want: Expected, device: Device, why: str, *, mapped: bool) -> list[Fault]:
    """Calls cannot be known: what the device did may be enough."""
    reason = "MAPPED" if mapped else "CALLS-NOT-OBSERVED"
    told = f"{amount(want)} were claimed, and {why}"
    reached = max(device.own_bytes, device.process_bytes or 0)
    if device.known and _covers(reached, want):
        most = (want.bytes or 0) * (1 + tolerances.of("amplified")) + tolerances.of("loader_device_bytes")
        if reached <= most or leaves_out(group):
            return []
        text = f"{told}; devices moved {format_size(reached)}, and whether the rest belongs to it cannot be told."
        return [Fault(INCOMPLETE, "MORE-SEEN", text)]
    if device.known and group.claims[0].direct and want.bytes and not device.stacked:
        if reached <= tolerances.of("device_bytes"):
            text = f"{told}; the device did none of it, though direct I/O was claimed."
            return [Fault(UNSUBSTANTIATED, "NO-DEVICE-IO", text)]
        if device.any_bytes < want.bytes * (1 - tolerances.of("device_share")):
            text = f"{told}; all devices together moved {format_size(device.any_bytes)}, though direct I/O was claimed."
            return [Fault(CONTRADICTED, "FEWER-SEEN", text)]
    seen = f"; devices moved {format_size(reached)} for it, which does not show the rest" if device.known else ""
    return [Fault(INCOMPLETE, reason, f"{told}{seen}.")]


def left_out(claims: Sequence[Claim]) -> list[str]:
    """Sentences on what the tool says it leaves out."""
    names = dict.fromkeys(name for claim in claims for name in claim.unreported)
    return [f"More was seen than claimed: {_LEFT_OUT[name]}." for name in names if name in _LEFT_OUT]
