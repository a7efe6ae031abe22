"""Where the time of a claim's operations went, from the parts that the programs of level EXPLAIN counted.

The ways into the kernel and out of it are outside of what the programs see, and are measured apart. What is left of the
claimed mean (the tool's own work, its waits between its clock and the call) is a part of its own, which proves nothing:
`sum_ns` is without it. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ioassay.records.observation import (
    OBSERVER,
    PARTS,
    READ,
    SYNC,
    WHOLE,
    WRITE,
    Explained,
    Observation,
    Part,
    merged,
)
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import MIXED
from ioassay.verify.evidence import AIO, URING

ENTRY_EXIT = "entry-exit"
"""Entering and leaving the kernel, the witness's own work at the exit included."""
PREPARATION = "preparation"
"""The tool's own work before a call that waits, as the tool claims it: fio's `lat` without its `clat`."""
TOOL = "tool"
"""The part that nobody but the tool sees."""
_ENTRIES = {"aio": AIO, "uring": URING}
ENGINES = ("", *_ENTRIES.values())
"""Of `LatencyParts`."""
_FEWEST_SHARE = 0.01
"""Of all the time of a kind: ways that take less, such as the loader's reads, are left out."""


@dataclass(frozen=True)
class LatencyPart:
    """One part of the time of each operation."""

    name: str
    """Of PARTS, ENTRY_EXIT, PREPARATION or TOOL."""
    mean_ns: float
    share: float
    """Of the mean of the operations."""
    p50_ns: float | None = None
    p99_ns: float | None = None
    """Over all operations, those with nothing of it included; None where single ones are not known."""


@dataclass(frozen=True)
class LatencyParts:
    """The mean latency of one kind of operations as a sum."""

    kind: str
    """'read', 'write', 'mixed' or 'sync'."""
    engine: str
    """'libaio', 'io_uring', or '' for calls that wait."""
    operations: int
    mean_ns: float
    """The claimed one; where no claim is about these operations alone, or it is below the kernel's, what was seen."""
    seen_ns: float
    """The kernel's: to the return of the call, or to the reaping."""
    sum_ns: float
    """Of all parts but TOOL."""
    claimed_ns: float | None
    """None where no claim is about these operations alone."""
    depth: float
    """How many of them were under way, in the mean of the time from the first to the last."""
    parts: Sequence[LatencyPart]
    """The largest first; those that took any time."""

    @property
    def sum_share(self) -> float:
        """Of the claimed mean, the sum of the parts that were measured; 1 where none is claimed."""
        return self.sum_ns / self.claimed_ns if self.claimed_ns else 1.0


def latency_parts(claims: Sequence[Claim], seen: Observation) -> list[LatencyParts]:
    """The parts of each kind of operations that a claim is about, then those of what made them durable."""
    kinds = dict.fromkeys(claim.kind for claim in claims if claim.kind in (READ, WRITE, MIXED))
    found = [parts for kind in (*kinds, SYNC) for parts in _of_kind(kind, claims, seen)]
    return sorted(found, key=lambda parts: parts.kind == SYNC)


def _of_kind(kind: str, claims: Sequence[Claim], seen: Observation) -> list[LatencyParts]:
    kinds = (READ, WRITE) if kind == MIXED else (kind,)
    ways = [each for each in seen.explained if each.kind in kinds]
    least_ns = _FEWEST_SHARE * max((_part(WHOLE, [way]).sum_ns for way in ways), default=0)
    by_engine: dict[str, list[Explained]] = {}
    for way in ways:
        if _part(WHOLE, [way]).sum_ns > least_ns:
            by_engine.setdefault(_ENTRIES.get(way.entry, ""), []).append(way)
    own = [claim for claim in claims if claim.kind == kind]
    claimed = own[0].latency_ns if len(own) == len(by_engine) == 1 else {}
    found = [_sum(kind, engine, among, claimed, seen) for engine, among in by_engine.items()]
    return sorted(found, key=lambda parts: -parts.operations * parts.seen_ns)


def _sum(
    kind: str, engine: str, among: Sequence[Explained], claimed: Mapping[str, float], seen: Observation
) -> LatencyParts:
    whole = _part(WHOLE, among)
    seen_ns = whole.sum_ns / whole.number
    claimed_ns = claimed.get("mean")
    entry_exit: LatencyPart | None = None
    if own := seen.entry_exit:  # each operation enters the kernel once and is returned once, alone or with others
        observer, own_ns = _part(OBSERVER, among), own.entry_ns + own.exit_ns
        ends = (_quantile(observer, whole.number, quantile) + own_ns for quantile in (0.5, 0.99))
        entry_exit = LatencyPart(ENTRY_EXIT, observer.sum_ns / whole.number + own_ns, 0.0, *ends)
    preparation_ns = 0.0
    # Not where the tool submits its operations: that is a call as well.
    if not engine and "slat.mean" not in claimed and {"mean", "clat.mean"} <= claimed.keys():
        preparation_ns = max(claimed["mean"] - claimed["clat.mean"], 0.0)
    sum_ns = seen_ns + preparation_ns + (entry_exit.mean_ns if entry_exit else 0.0)
    mean_ns = max(claimed_ns, seen_ns) if claimed_ns else sum_ns
    parts = [
        LatencyPart(
            part.name,
            part.sum_ns / whole.number,
            part.sum_ns / whole.number / mean_ns,
            _quantile(part, whole.number, 0.5),
            _quantile(part, whole.number, 0.99),
        )
        for part in (_part(name, among) for name in PARTS)
        if part.sum_ns
    ]
    if entry_exit:
        parts.append(replace(entry_exit, share=entry_exit.mean_ns / mean_ns))
    if preparation_ns:
        parts.append(LatencyPart(PREPARATION, preparation_ns, preparation_ns / mean_ns))
    if mean_ns > sum_ns:
        parts.append(LatencyPart(TOOL, mean_ns - sum_ns, 1 - sum_ns / mean_ns))
    parts.sort(key=lambda part: -part.mean_ns)
    ways = {(one.entry, one.kind) for one in among}
    calls = [each.calls for each in seen.operations if (each.entry, each.kind) in ways and each.calls.completed]
    span_ns = max((one.last_ns for one in calls), default=0) - min((one.first_ns for one in calls), default=0)
    depth = whole.sum_ns / (span_ns or whole.sum_ns)
    return LatencyParts(kind, engine, whole.number, mean_ns, seen_ns, sum_ns, claimed_ns, depth, parts)


def _part(name: str, among: Iterable[Explained]) -> Part:
    """One part of several ways as one."""
    same = [part for each in among for part in each.parts if part.name == name]
    if len(same) == 1:
        return same[0]
    latency = merged(part.latency for part in same)
    return Part(name, sum(part.number for part in same), sum(part.sum_ns for part in same), latency)


def _quantile(part: Part, operations: int, quantile: float) -> float:
    """Of all operations; those in which the part took no time are the smallest."""
    left = quantile * operations - max(operations - part.number, 0)
    for value_ns, count in zip(part.latency.values_ns, part.latency.counts, strict=True):
        left -= count
        if left <= 0:
            return float(value_ns) if left + count > 0 else 0.0
    return float(part.latency.values_ns[-1]) if part.latency.values_ns else 0.0
