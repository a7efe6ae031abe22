"""What a drive that counts for itself says of the claims: a second witness, at the other end of the path.

The kernel sees nothing of what a program sends to a drive by itself (NBD, SPDK), and no request of a file that a
process serves (FUSE). The drive sees every request that reached it, whoever sent it: bytes are compared, requests and
times only told, since requests may be split and merged on their way. Whose they were it cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from ioassay.records.record import Claim
from ioassay.verify import properties, tolerances
from ioassay.verify.case import total
from ioassay.verify.claim_groups import MIXED, TRIM
from ioassay.verify.verdict import (
    AMPLIFIED,
    BY_DRIVE,
    CACHED,
    CONFIRMED,
    CONTRADICTED,
    INCOMPLETE,
    NOT_JUDGED,
    TRUE_CLAIMS,
    UNSUBSTANTIATED,
    Code,
    Fault,
    Property,
    Statement,
    Verdict,
    rank,
    severity_of,
    state,
)

PAST_THE_KERNEL = frozenset({"nbd", "spdk_nvme", "spdk_bdev"})
"""fio's engines that speak to a drive by themselves: for the kernel they are sockets, or nothing at all."""
_UNSEEN = {
    UNSUBSTANTIATED: {"NO-DEVICE-IO", "NOTHING-SEEN", "PAST-THE-KERNEL"},
    CACHED: {"NO-DEVICE-IO"},
    INCOMPLETE: {"CALLS-NOT-OBSERVED", "DEVICE-NOT-OBSERVED", "BELOW-RESOLUTION", "EVENTS-LOST", "MAPPED", "MORE-SEEN"},
    CONTRADICTED: {"FEWER-SEEN"},
}
"""Verdicts whose only reason is that the kernel did not see enough."""


@dataclass(frozen=True)
class Count:
    """What a drive counted of one kind during a trial."""

    operations: int
    bytes: int
    latency_ns: float | None = None
    """Mean of its own time for one."""


def counts(metrics: Mapping[str, Any]) -> dict[str, Count]:
    """By kind of claim, from a trial's metrics `drive.*`; empty where the storage does not count for itself."""
    found = {}
    for kind, directions in {**{one: (one,) for one in ("read", "write", TRIM)}, MIXED: ("read", "write")}.items():
        rows: list[list[Any]] = [
            [metrics.get(f"drive.{one}.{name}") for name in ("ios", "bytes", "lat.mean")] for one in directions
        ]
        if any(None in row[:2] for row in rows):
            continue
        timed = [(int(ios), mean) for ios, _, mean in rows if mean is not None]
        weight = sum(ios for ios, _ in timed)
        mean = sum(ios * mean for ios, mean in timed) / weight if weight else None
        found[kind] = Count(sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows), mean)
    return found


def set_against(verdicts: Sequence[Verdict], counted: Mapping[str, Count]) -> list[Verdict]:
    """The verdicts of one trial, with what the drive counted; claims of one kind are set against it together."""
    volumes = {
        kind: total([one.claim.bytes for one in verdicts if one.claim is not None and one.claim.kind == kind])
        for kind in counted
    }
    found = []
    for verdict in verdicts:
        claim = verdict.claim
        if claim is None or claim.kind not in counted:
            found.append(verdict)
            continue
        count, claimed = counted[claim.kind], volumes[claim.kind]
        numbers = {"operations": count.operations, "bytes": count.bytes, "latency_mean_ns": count.latency_ns}
        known = {**verdict.numbers, **{f"drive_{name}": one for name, one in numbers.items()}}
        if claimed:
            known["drive_difference_percent"] = (count.bytes / claimed - 1) * 100
        told = replace(verdict, numbers=known)
        found.append(_compared(told, claim, claimed, count) if claimed else told)
    return found


def _compared(verdict: Verdict, claim: Claim, claimed: int, count: Count) -> Verdict:
    """Less than was claimed is behind a cache that says nothing; past it the claim is wrong."""
    counted = state(Code.DRIVE_COUNTED, requests=count.operations, counted_bytes=count.bytes)
    other = state(Code.DRIVE_COUNTED_OTHER, **dict(counted.values), claimed_bytes=claimed)
    slack = tolerances.of("device_bytes") + tolerances.of("device_share") * claimed
    is_true, past = verdict.category in TRUE_CLAIMS, PurePath(claim.engine).name in PAST_THE_KERNEL
    if count.bytes < claimed - slack:
        if count.bytes and (past or (claim.direct and is_true)):
            return _judged(verdict, CONTRADICTED, "DRIVE-FEWER", other)
    elif count.bytes > claimed * (1 + tolerances.of("amplified")) + slack and not claim.unreported:
        if is_true or _is_unseen(verdict):
            return _judged(verdict, AMPLIFIED, "DRIVE-MORE", other)
    elif _is_unseen(verdict):
        return _judged(verdict, CONFIRMED, BY_DRIVE, state(Code.PATH_UNSEEN, claimed_bytes=claimed), counted)
    else:
        other = counted
    return replace(verdict, notes=(*verdict.notes, other))


def _is_unseen(verdict: Verdict) -> bool:
    """Whether the kernel only did not see enough; where it followed the claim's own files, it saw all of them."""
    if verdict.category == CONTRADICTED and verdict.numbers.get("evidence") == "files":
        return False
    return verdict.reason in _UNSEEN.get(verdict.category, ())


def _judged(verdict: Verdict, category: str, reason: str, *why: Statement) -> Verdict:
    """With what the drive says in the place of what the kernel did not see; other properties stay as they are."""
    before = [state(Code.KERNEL_ALONE, explanation=tuple(verdict.explanation))] if verdict.explanation else []
    judged: dict[str, Property] = {}
    for each in verdict.properties:  # bytes that reached the drive were moved, and are durable; how stays open
        seen = each.reason not in _UNSEEN.get(each.category, ())
        if seen or (each.name, each.category) == (properties.SYNC, CONTRADICTED):
            judged[each.name] = each
        elif each.name in (properties.FILES, properties.DIRECT, properties.ENGINE, properties.PATTERN):
            judged[each.name] = Property(each.name, NOT_JUDGED)
        else:
            judged[each.name] = Property(each.name, CONFIRMED, BY_DRIVE, why)
    if judged:
        device = Property(properties.DEVICE, category, reason, why)
        judged[properties.DEVICE] = max(device, judged.get(properties.DEVICE, device), key=rank)
    found: list[Fault | Property] = [Fault(category, reason, why), *judged.values()]
    worst = max(found, key=rank)
    return replace(
        verdict,
        category=worst.category,
        reason=worst.reason,
        explanation=worst.statements,
        notes=(*verdict.notes, *before),
        severity=severity_of(worst.category),
        properties=tuple(judged[name] for name in properties.PROPERTIES if name in judged),
    )
