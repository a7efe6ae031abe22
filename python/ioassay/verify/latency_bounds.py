"""Latencies: a tool's mean lies above the kernel's by its own cost for each call; none is longer than its interval.

Compared is the whole latency of an operation, never the completion part alone (`clat`): fio takes the time of issue
after io_submit returned, and with SQPOLL its completion latencies are no times at all.
"""

from __future__ import annotations

from ioassay.records.record import Claim
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import Group
from ioassay.verify.evidence import URING, Evidence
from ioassay.verify.operation_counts import Fault, leaves_out
from ioassay.verify.session_times import claimed_seconds
from ioassay.verify.statement import Code, Statement, state
from ioassay.verify.verdict import CONTRADICTED

_ROUNDING_DOUBT = "whole-microseconds"
# A request that began before the interval may end in it.
_LONGEST_SHARE = 1.1


def judge_latency(group: Group, seen: Evidence) -> tuple[list[Fault], list[Statement], dict[str, float]]:
    """Faults, notes and numbers."""
    faults: list[Fault] = []
    notes: list[Statement] = []
    for claim in group.claims:
        impossible = _impossible(claim)
        parts = [statement for statement in impossible if statement.warns]
        faults += [Fault(CONTRADICTED, "IMPOSSIBLE-LATENCY", (each,)) for each in impossible if not each.warns]
        notes += parts[:1]
    if len(group.claims) != 1 or "mean" not in group.claims[0].latency_ns or group.claims[0].latency_operations:
        return faults, notes, {}
    return _mean(group, seen, faults, notes)


def _impossible(claim: Claim) -> list[Statement]:
    """Latencies longer than the interval; of those that are only a part of an operation's latency, a warning."""
    seconds = claimed_seconds(claim)
    if not seconds or claim.kind == "keys":
        return []
    longest_ns = (seconds * _LONGEST_SHARE + claim.clock_step_s + tolerances.of("loose_clock_s")) * 1e9
    return [
        state(
            Code.IMPOSSIBLE_LATENCY,
            warns=name.startswith(("clat.", "slat.", "sync.")),
            latency_ns=value_ns,
            name=name,
            interval_s=seconds,
        )
        for name, value_ns in claim.latency_ns.items()
        if value_ns > longest_ns
    ]


def _mean(
    group: Group, seen: Evidence, faults: list[Fault], notes: list[Statement]
) -> tuple[list[Fault], list[Statement], dict[str, float]]:
    claim = group.claims[0]
    claimed_ns, ended = claim.latency_ns["mean"], seen.calls.completed
    if not seen.timed or not ended:
        return faults, [*notes, state(Code.LATENCY_UNTIMED)], {}
    coverage = ended / seen.calls.calls if seen.calls.calls else 0.0
    seen_ns = seen.calls.sum_ns / ended
    numbers = {"claimed_latency_ns": claimed_ns, "seen_latency_ns": seen_ns, "latency_coverage": coverage}
    if coverage < tolerances.of("coverage"):
        return faults, [*notes, state(Code.LATENCY_PARTIAL, coverage=coverage)], numbers
    rounding_ns = 1000.0 if _ROUNDING_DOUBT in claim.doubts else 0.0
    below_ns = tolerances.of("latency_below_share") * seen_ns + tolerances.of("latency_below_ns") + rounding_ns
    if leaves_out(group):
        return faults, [*notes, state(Code.LATENCY_LEFT_OUT)], numbers
    if claimed_ns < seen_ns - below_ns:
        below = state(Code.LATENCY_BELOW, claimed_ns=claimed_ns, seen_ns=seen_ns)
        return [*faults, Fault(CONTRADICTED, "OTHER-LATENCY", (below,))], notes, numbers
    above_ns = tolerances.of("latency_share") * seen_ns + tolerances.of("latency_ns") + rounding_ns
    if claimed_ns > seen_ns + above_ns:
        cause = Code.RING_COMPLETES_EARLY if claim.engine == URING else Code.WORK_BEFORE_CLOCK
        notes = [*notes, state(Code.LATENCY_ABOVE, claimed_ns=claimed_ns, seen_ns=seen_ns), state(cause)]
    return faults, notes, numbers
