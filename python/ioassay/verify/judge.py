"""Claims and an observation in, one verdict a claim out. Pure: the same in, the same out.

The questions are asked in a fixed order, and the worst answer is the verdict: is it a claim about I/O at all; does it
contradict itself; was everything seen; were as many operations and bytes seen; do times and latencies fit; what did
the device do; did watching change it. A loss of evidence can only lead to INCOMPLETE or UNSUPPORTED.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ioassay.records.observation import Observation
from ioassay.records.record import Claim
from ioassay.verify import access_pattern, explanations, latency_bounds, operation_counts, session_times, tolerances
from ioassay.verify.claim_groups import KEYS, TRIM, Group, groups
from ioassay.verify.device_traffic import Pool, is_direct, judge_device, pool_of
from ioassay.verify.evidence import Evidence, calls_seen, device_seen
from ioassay.verify.observer_effect import Effect, Twins, effect
from ioassay.verify.operation_counts import Expected, Fault
from ioassay.verify.statement import Code, Statement, state
from ioassay.verify.verdict import (
    BY_DEVICE,
    CONFIRMED,
    INCOMPLETE,
    NOT_IO,
    PERTURBED,
    TRUE_CLAIMS,
    UNSUPPORTED,
    Verdict,
    rank,
    severity_of,
)

_ITSELF = frozenset({"AT-ODDS-WITH-ITSELF", "LONGER-THAN-IT-RAN", "IMPOSSIBLE-LATENCY"})
"""What is wrong with a claim whatever was seen."""


def judge(
    claims: Sequence[Claim],
    observation: Observation,
    *,
    twins: Twins | None = None,
    exit_ok: bool = True,
    contended: bool = False,
) -> list[Verdict]:
    """One verdict a claim, in their order.

    `twins` are repetitions with and without the witness, of which the observed run is one. `exit_ok`: the command
    ended as it should. `contended`: other programs used the processors, so that the tool may have waited for one at any
    moment: a claim that is slower than the truth is then never contradicted.
    """
    found: list[Verdict | None] = [None] * len(claims)
    probed = effect(twins) if twins is not None else None
    apart = [place for place, claim in enumerate(claims) if _not_io(claim)]
    for place in apart:
        found[place] = _of_keys(claims[place], observation, alone=len(apart) == len(claims))
    rest = [place for place in range(len(claims)) if found[place] is None]
    grouped = groups([claims[place] for place in rest], observation)
    pools = _pools(grouped, observation)
    for group in grouped:
        verdict = _judge(group, pools[_pool_key(group)], observation, probed, exit_ok=exit_ok, contended=contended)
        for place in group.places:
            found[rest[place]] = replace(verdict, claim=claims[rest[place]])
    return [verdict for verdict in found if verdict is not None]


def overall(verdicts: Sequence[Verdict], observation: Observation | None = None) -> Verdict:
    """The worst of them, the first of equals; UNSUPPORTED, with what the kernel saw, where there is none."""
    if verdicts:
        return max(verdicts, key=rank)
    seen = traffic(observation) if observation is not None else ()
    return Verdict(UNSUPPORTED, "NO-CLAIM", (state(Code.NO_CLAIM), *seen))


def traffic(observation: Observation) -> list[Statement]:
    """What the kernel saw, whatever was claimed: kind, number (None where it is not known) and bytes of each."""
    parts: list[tuple[str, int | None, float]] = []
    for kind in ("read", "write"):
        calls = [part.calls for part in observation.operations if part.kind == kind]
        volume, number = sum(c.bytes for c in calls), sum(c.calls for c in calls)
        if calls:
            parts.append((kind, number, volume))
        elif observation.counters.get(name := {"read": "rchar", "write": "wchar"}[kind]):
            parts.append((kind, None, observation.counters[name]))
    requests = []
    own = [part for part in observation.block if part.own and part.kind in ("read", "write")]
    for kind in ("read", "write"):
        volume = sum(part.calls.bytes for part in own if part.kind == kind)
        number = sum(part.calls.calls for part in own if part.kind == kind)
        if number:
            requests.append((kind, number, volume))
    return [
        *([state(Code.CALLS_OF_COMMAND, parts=tuple(parts))] if parts else ()),
        *([state(Code.REQUESTS_OF_COMMAND, parts=tuple(requests))] if requests else ()),
    ] or [state(Code.NO_IO_OF_COMMAND)]


def _not_io(claim: Claim) -> bool:
    return claim.kind == KEYS


def _of_keys(claim: Claim, observation: Observation, *, alone: bool) -> Verdict:
    """Operations of a database are not I/O; only its times can be impossible.

    Unless they are `alone`, what the database read and wrote is claimed beside them.
    """
    faults = [*session_times.impossible(claim, observation)]
    if faults:
        return _verdict(faults[0], claim, faults[0].statements, {}, traffic(observation))
    others = traffic(observation) if alone else [state(Code.DATABASE_IO_SEPARATE)]
    statements = (state(Code.DATABASE_OPERATIONS), *others)
    return Verdict(UNSUPPORTED, NOT_IO, statements, {"claimed_operations": claim.operations}, claim)


def _pools(grouped: Sequence[Group], observation: Observation) -> dict[tuple[str, bool | None], Pool]:
    """By kind of claim, and direct or not: what the device did is shared. What direct I/O took, the others lack."""
    members: dict[tuple[str, bool | None], list[Group]] = {}
    for group in grouped:
        members.setdefault(_pool_key(group), []).append(group)
    kinds = {kind for kind, _ in members}
    found: dict[tuple[str, bool | None], Pool] = {}
    for key in sorted(members, key=lambda key: key[1] is not True):
        files = {file.id: file for group in members[key] for file in group.files}
        together = Group((), members[key][0].claims, members[key][0].told_apart, files=list(files.values()))
        moved = [_moved(group, calls_seen(group, observation)) for group in members[key]]
        device = device_seen(together, observation)
        laid_out = sum(session.write.bytes for group in members[key] for session in group.layout)
        if laid_out:
            own = max(device.own_bytes - laid_out, min(device.own_bytes, sum(volume for _, volume in moved)))
            device = replace(device, own_bytes=own)
        if key[1] is True and any(kind == key[0] and direct is not True for kind, direct in members):
            most = sum(volume for _, volume in moved)  # whose the rest was cannot be told
            device = replace(device, own_bytes=min(device.own_bytes, most))
        if key[1] is not True and (beside := found.get((key[0], True))):
            device = replace(device, own_bytes=max(device.own_bytes - beside.bytes, 0))
            if device.process_bytes is not None:
                device = replace(device, process_bytes=max(device.process_bytes - beside.bytes, 0))
        pool = pool_of(members[key], moved, device, observation, key[1])
        found[key] = replace(pool, reads_claimed=bool(kinds & {"read", "mixed"}))
    return found


def _pool_key(group: Group) -> tuple[str, bool | None]:
    return group.claims[0].kind, is_direct(group)


def _moved(group: Group, seen: Evidence) -> tuple[int, int]:
    """Operations and bytes that devices should have done: what is claimed where others are among what was seen.

    What a tool does and leaves out of its numbers (a ramp) is done by devices as well.
    """
    want = operation_counts.expected(group)
    if operation_counts.leaves_out(group) and seen.bytes > (want.bytes or 0):
        return seen.operations, seen.bytes
    operations = want.operations if seen.source != "files" and want.operations else seen.operations
    volume = want.bytes if seen.source != "files" and want.bytes else seen.bytes
    return operations, volume or want.bytes or 0


def _judge(
    group: Group, pool: Pool, observation: Observation, probed: Effect | None, *, exit_ok: bool, contended: bool
) -> Verdict:
    want, seen = operation_counts.expected(group), calls_seen(group, observation)
    if unsupported := _unsupported(group, want, observation):
        return _verdict(unsupported, group.claims[0], unsupported.statements, {}, [])
    timed, timing_notes, times = session_times.judge_times(group, seen, observation, contended=contended)
    late, latency_notes, latencies = latency_bounds.judge_latency(group, seen)
    elsewhere, pattern_notes, places = access_pattern.judge_pattern(group)
    itself = [fault for fault in (*timed, *late) if fault.reason in _ITSELF]
    counted = operation_counts.judge_counts(group, want, seen, pool.device, observation)
    counted = counted or _empty(group, want, seen, times)
    faults = itself or _losses(observation) or counted or [*timed, *late, *elsewhere] or judge_device(pool, observation)
    fault = max(faults, key=_severity) if faults else None
    notes = [*explanations.notes(group, want, seen, pool, observation), *timing_notes, *latency_notes, *pattern_notes]
    notes += [*_ended(exit_ok), *_effect_notes(probed, observation)]
    if probed is not None and probed.perturbed() and (fault is None or fault.category in TRUE_CLAIMS):
        fault = Fault(PERTURBED, "PROBE-EFFECT", (state(Code.PERTURBED), probed.statement()))
    numbers = {**_counted(want, seen, pool), **times, **latencies, **places, **_effect_numbers(probed)}
    if fault is None:
        fault = Fault(CONFIRMED, _limit(want, seen))
    explanation = _explained(fault, group, want, seen, pool, times)
    return _verdict(fault, group.claims[0], explanation, numbers, notes)


def _severity(fault: Fault) -> int:
    return rank(Verdict(fault.category, ""))


def _verdict(
    fault: Fault,
    claim: Claim,
    explanation: Sequence[Statement],
    numbers: Mapping[str, Any],
    notes: Sequence[Statement],
) -> Verdict:
    if fault.reason == BY_DEVICE:  # how far others' calls are from the claim means nothing
        numbers = {name: value for name, value in numbers.items() if not name.endswith("_difference_percent")}
    severity = severity_of(fault.category)
    if severity == "info" and any(note.warns for note in notes):
        severity = "warning"
    notes = tuple(dict.fromkeys(notes))
    return Verdict(fault.category, fault.reason, tuple(explanation), numbers, claim, notes, severity)


def _unsupported(group: Group, want: Expected, observation: Observation) -> Fault | None:
    claim = group.claims[0]
    if claim.kind == TRIM and not {"block", "record"} & set(observation.layers):
        return Fault(UNSUPPORTED, "DISCARDS", (state(Code.DISCARDS_UNWATCHED),))
    if claim.kind not in ("read", "write", "mixed", TRIM):
        return Fault(UNSUPPORTED, "UNKNOWN-KIND", (state(Code.UNKNOWN_KIND, kind=claim.kind),))
    stonewalled = any("stonewalled" in one.unreported for one in group.claims)
    if want.operations is None and want.bytes is None and stonewalled:
        return Fault(INCOMPLETE, "STONEWALLED", (state(Code.STONEWALLED), *traffic(observation)))
    amount = want.operations is not None or want.bytes is not None or access_pattern.is_claimed(group)
    if not amount and not any(map(session_times.claimed_seconds, group.claims)):
        return Fault(UNSUPPORTED, "NOTHING-TO-JUDGE", (state(Code.NO_AMOUNT), *traffic(observation)))
    return None


def _empty(group: Group, want: Expected, seen: Evidence, times: Mapping[str, float]) -> list[Fault]:
    """A time alone, and nothing that was timed to hold it against."""
    if want.operations is not None or want.bytes is not None or times or access_pattern.is_claimed(group):
        return []
    return [Fault(UNSUPPORTED, "NOTHING-TO-JUDGE", (state(Code.TIME_ALONE, seen=seen.amount),))]


def _losses(observation: Observation) -> list[Fault]:
    lost, dropped = (observation.health.get(name, 0) for name in ("lost", "dropped"))
    if max(lost, dropped) <= tolerances.of("lost"):
        return []
    return [Fault(INCOMPLETE, "EVENTS-LOST", (state(Code.EVENTS_LOST, lost=lost, dropped=dropped),))]


def _ended(exit_ok: bool) -> list[Statement]:
    return [] if exit_ok else [state(Code.COMMAND_FAILED)]


def _limit(want: Expected, seen: Evidence) -> str:
    """What a CONFIRMED does not rest on."""
    if seen.source == "nothing" or (want.bytes and seen.bytes < want.bytes):
        return BY_DEVICE
    if seen.source == "process":
        return "BY-TOTALS"
    return "" if seen.timed else "TIMING-NOT-OBSERVED"


def _effect_notes(probed: Effect | None, observation: Observation) -> list[Statement]:
    if probed is not None:
        return [probed.statement()]
    return [state(Code.NO_TWINS)] if {"syscalls", "record"} & set(observation.layers) else []


def _effect_numbers(probed: Effect | None) -> dict[str, Any]:
    if probed is None:
        return {}
    return {
        "probe_effect_ratio": probed.ratio,
        "probe_effect_low": probed.low,
        "probe_effect_high": probed.high,
        "probe_effect_runs": probed.runs,
    }


def _counted(want: Expected, seen: Evidence, pool: Pool) -> dict[str, Any]:
    device = pool.device
    found: dict[str, Any] = {
        "claimed_operations": want.operations,
        "claimed_bytes": want.bytes,
        "seen_operations": seen.operations if seen.source != "nothing" else None,
        "seen_bytes": seen.bytes if seen.source != "nothing" else None,
        "evidence": seen.source,
        "others_operations": seen.others_operations,
        "others_bytes": seen.others_bytes,
        "seen_errors": seen.calls.errors,
        "seen_syncs": seen.syncs,
        "device_bytes": device.own_bytes if device.known else None,
        "device_requests": device.own_requests,
        "device_merges": device.merges,
        "device_upper_bound_bytes": device.any_bytes,
    }
    if device.known and pool.bytes:
        found["device_share"] = pool.reached_bytes / pool.bytes
    for name in ("operations", "bytes"):
        claimed = found[f"claimed_{name}"]
        if claimed and found[f"seen_{name}"] is not None:
            found[f"{name}_difference_percent"] = (found[f"seen_{name}"] / claimed - 1) * 100
    return found


def _explained(
    fault: Fault, group: Group, want: Expected, seen: Evidence, pool: Pool, times: Mapping[str, float]
) -> Sequence[Statement]:
    if fault.reason == "DEVICE-NOT-OBSERVED":
        return [state(Code.SEEN, seen=seen.amount), *fault.statements]
    if fault.category not in TRUE_CLAIMS:
        return fault.statements
    by_device = seen.source == "nothing" or bool(want.bytes and seen.bytes < want.bytes)
    if by_device:
        known = [state(Code.CLAIMED, claimed=want.amount), state(Code.CALLS_UNWATCHED), _moved_by_device(pool)]
    elif want.operations is None and want.bytes is None:
        known = [state(Code.SEEN, seen=seen.amount)]
    else:
        known = [state(Code.CLAIMED_AND_SEEN, claimed=want.amount, seen=seen.amount)]
    if fault.statements:
        return [*known, *fault.statements]
    difference = times.get("rate_difference_percent")
    if group.one_pass and difference is not None and pool.bytes:
        rate = seen.bytes / times["seen_seconds"]
        known.append(state(Code.RATE_OF_CALLS, bytes_per_s=rate, difference_percent=abs(difference)))
    elif pool.device.known and pool.storage and pool.bytes and not by_device:
        known.append(_moved_by_device(pool))
    return known


def _moved_by_device(pool: Pool) -> Statement:
    """What reached the device, or what the process's own account says, where requests were not watched."""
    own = pool.device.own_bytes
    if not pool.watched and pool.kind == "write":
        return state(Code.PAGES_DIRTIED, own_bytes=own)
    if pool.kind == "write" and own < pool.bytes:
        return state(Code.DEVICE_WROTE, own_bytes=own, others_bytes=pool.device.any_bytes - own)
    return state(Code.DEVICE_MOVED, own_bytes=own)
