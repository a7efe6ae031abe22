"""Latencies: a tool's mean lies above the kernel's by its own cost for each call; none is longer than its interval.

Compared is the whole latency of an operation, never the completion part alone (`clat`): fio takes the time of issue
after io_submit returned, and with SQPOLL its completion latencies are no times at all.
"""

from __future__ import annotations

from ioassay.records.record import Claim
from ioassay.units import format_ns
from ioassay.verify import tolerances
from ioassay.verify.amounts import duration
from ioassay.verify.claim_groups import Group
from ioassay.verify.evidence import URING, Evidence
from ioassay.verify.operation_counts import Fault, leaves_out
from ioassay.verify.session_times import claimed_seconds
from ioassay.verify.verdict import CONTRADICTED

_ROUNDING_DOUBT = "whole-microseconds"
# A request that began before the interval may end in it.
_LONGEST_SHARE = 1.1


def judge_latency(group: Group, seen: Evidence) -> tuple[list[Fault], list[str], dict[str, float]]:
    """Faults, notes and numbers."""
    faults: list[Fault] = []
    notes: list[str] = []
    for claim in group.claims:
        impossible = _impossible(claim)
        faults += [fault for name, fault in impossible if not name.startswith(("clat.", "slat."))]
        notes += [f"Warning: {fault.text}" for name, fault in impossible if name.startswith(("clat.", "slat."))][:1]
    if len(group.claims) != 1 or "mean" not in group.claims[0].latency_ns:
        return faults, notes, {}
    return _mean(group, seen, faults, notes)


def _impossible(claim: Claim) -> list[tuple[str, Fault]]:
    seconds = claimed_seconds(claim)
    if not seconds or claim.kind == "keys":
        return []
    longest_ns = (seconds * _LONGEST_SHARE + claim.clock_step_s + tolerances.of("loose_clock_s")) * 1e9
    found = []
    for name, value_ns in claim.latency_ns.items():
        if value_ns > longest_ns:
            text = (
                f"A latency of {format_ns(value_ns)} ({name}) was claimed, and the whole interval lasted "
                f"{duration(seconds)}: that cannot be."
            )
            found.append((name, Fault(CONTRADICTED, "IMPOSSIBLE-LATENCY", text)))
    return found


def _mean(
    group: Group, seen: Evidence, faults: list[Fault], notes: list[str]
) -> tuple[list[Fault], list[str], dict[str, float]]:
    claim = group.claims[0]
    claimed_ns, ended = claim.latency_ns["mean"], seen.calls.completed
    if not seen.timed or not ended:
        return faults, [*notes, "Its latencies were not judged: single calls were not timed."], {}
    coverage = ended / seen.calls.calls if seen.calls.calls else 0.0
    seen_ns = seen.calls.sum_ns / ended
    numbers = {"claimed_latency_ns": claimed_ns, "seen_latency_ns": seen_ns, "latency_coverage": coverage}
    if coverage < tolerances.of("coverage"):
        notes = [*notes, f"Its latencies were not judged: of {coverage * 100:.3g} % of the calls the end was seen."]
        return faults, notes, numbers
    rounding_ns = 1000.0 if _ROUNDING_DOUBT in claim.doubts else 0.0
    below_ns = tolerances.of("latency_below_share") * seen_ns + tolerances.of("latency_below_ns") + rounding_ns
    told = f"A mean latency of {format_ns(claimed_ns)} was claimed; the kernel timed {format_ns(seen_ns)}"
    if leaves_out(group):
        return (
            faults,
            [*notes, "Its latencies were not judged: what it left out of its numbers was timed too."],
            numbers,
        )
    if claimed_ns < seen_ns - below_ns:
        return [*faults, Fault(CONTRADICTED, "OTHER-LATENCY", f"{told}, which is longer.")], notes, numbers
    above_ns = tolerances.of("latency_share") * seen_ns + tolerances.of("latency_ns") + rounding_ns
    if claimed_ns > seen_ns + above_ns:
        notes = [*notes, f"{told}: {_why_longer(claim)}."]
    return faults, notes, numbers


def _why_longer(claim: Claim) -> str:
    if claim.engine == URING:
        return "io_uring's requests end in the kernel before the tool collects them"
    return "between the call's end and the tool's clock lies other work (a busy processor, batches)"
