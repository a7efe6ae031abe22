"""Claims and an observation in, one verdict a claim out. Pure: the same in, the same out.

Each property that a claim states is judged apart (`properties`), and the worst of them is the verdict. Times, latencies
and the device's work are only held against calls that are as many as claimed. A loss of evidence leads to INCOMPLETE,
to UNSUPPORTED, or to a property that is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ioassay.formats.fio_clients import is_of_this_host
from ioassay.records.observation import Calls, Observation
from ioassay.records.record import Claim
from ioassay.verify import (
    access_pattern,
    explanations,
    latency_bounds,
    operation_counts,
    properties,
    session_times,
    tolerances,
)
from ioassay.verify.claim_groups import KEYS, TRIM, Group, groups
from ioassay.verify.device_traffic import Pool, is_direct, judge_device, pool_of
from ioassay.verify.engines import judge_engine
from ioassay.verify.evidence import Evidence, calls_seen, device_seen
from ioassay.verify.file_access import judge_direct, judge_files
from ioassay.verify.observer_effect import Effect, Twins, effect
from ioassay.verify.operation_counts import Expected, Fault
from ioassay.verify.statement import Code, Statement, state
from ioassay.verify.synchronisations import judge_sync
from ioassay.verify.verdict import (
    BY_DEVICE,
    CONFIRMED,
    INCOMPLETE,
    LOAD_OF_SERVERS,
    NOT_IO,
    NOT_JUDGED,
    PERTURBED,
    TRUE_CLAIMS,
    UNSUPPORTED,
    Property,
    Verdict,
    rank,
    severity_of,
)

_ITSELF = frozenset({"AT-ODDS-WITH-ITSELF", "LONGER-THAN-IT-RAN", "IMPOSSIBLE-LATENCY"})
"""What is wrong with a claim whatever was seen."""
_TRUE = TRUE_CLAIMS | {NOT_JUDGED}
_UNOBSERVED = "TIMING-NOT-OBSERVED"
_UNTIMED = frozenset(
    {
        Code.INTERVAL_WITH_MORE,
        Code.INTERVAL_TOO_SHORT,
        Code.LATENCY_PARTIAL,
        Code.LATENCY_UNTIMED,
    }
)
"""Notes on times that were seen and held against nothing."""
_BY_WATCHING = frozenset({properties.FILES, properties.DIRECT, properties.ENGINE, properties.SYNC})
"""Whether they are judged depends on what is watched; a note on times says the same of these."""


_Part = tuple[list[Fault], list[Statement], dict[str, float]]
"""What is wrong with times or places of calls, notes, and numbers."""


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
    verdicts = _judge_claims(claims, observation, twins, exit_ok=exit_ok, contended=contended)
    final = [place for place, claim in enumerate(claims) if "interim" not in claim.doubts]
    if len(final) == len(claims) or overall(verdicts).category in TRUE_CLAIMS:
        return verdicts
    last = [claims[place] for place in final]
    others = _judge_claims(last, observation, twins, exit_ok=exit_ok, contended=contended)
    return _with_interim(claims, dict(zip(final, others, strict=True)), verdicts)


def _with_interim(claims: Sequence[Claim], final: Mapping[int, Verdict], summed: list[Verdict]) -> list[Verdict]:
    """The verdicts without what may be interim summaries, if they are better: each of those has that of its claim."""
    if not final or rank(overall(list(final.values()))) >= rank(overall(summed)):
        return summed
    verdicts = []
    for place, claim in enumerate(claims):
        after = [at for at in final if at >= place and claims[at].kind == claim.kind] or list(final)
        verdict = final[after[0]]
        if place not in final:
            verdict = replace(verdict, claim=claim, notes=(state(Code.INTERIM_SUMMARY), *verdict.notes))
        verdicts.append(verdict)
    return verdicts


def _judge_claims(
    claims: Sequence[Claim], observation: Observation, twins: Twins | None, *, exit_ok: bool, contended: bool
) -> list[Verdict]:
    found: list[Verdict | None] = [None] * len(claims)
    probed = effect(twins) if twins is not None else None
    apart = [place for place, claim in enumerate(claims) if _not_io(claim)]
    for place in apart:
        found[place] = _of_keys(claims[place], observation, alone=len(apart) == len(claims))
    for place, claim in enumerate(claims):
        if claim.servers:
            found[place] = _of_servers(claim, observation)
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
    """What the kernel saw, whatever was claimed: the calls and the requests of each kind."""
    calls, requests = [], []
    for kind, counter in (("read", "rchar"), ("write", "wchar")):
        made = [part.calls for part in observation.operations if part.kind == kind]
        if made:
            calls.append(_summed(Code.CALLS, kind, made))
        elif volume := observation.counters.get(counter):
            calls.append(state(Code.CALLS_UNCOUNTED, kind=kind, bytes=volume))
        sent = [part.calls for part in observation.block if part.own and part.kind == kind and part.calls.calls]
        if sent:
            requests.append(_summed(Code.REQUESTS, kind, sent))
    codes = {Code.CALLS_OF_COMMAND: calls, Code.REQUESTS_OF_COMMAND: requests}
    return [state(code, parts=tuple(parts)) for code, parts in codes.items() if parts] or [state(Code.NO_IO_OF_COMMAND)]


def _summed(code: Code, kind: str, calls: Sequence[Calls]) -> Statement:
    return state(code, kind=kind, number=sum(one.calls for one in calls), bytes=sum(one.bytes for one in calls))


def _not_io(claim: Claim) -> bool:
    return claim.kind == KEYS


def _of_keys(claim: Claim, observation: Observation, *, alone: bool) -> Verdict:
    """Operations of a database are not I/O; only its times can be impossible.

    Unless they are `alone`, what the database read and wrote is claimed beside them.
    """
    faults = [*session_times.impossible(claim, observation)]
    if faults:
        listed = [_of_fault(properties.INTERVAL, faults[0])]
        return _verdict(faults[0], claim, faults[0].statements, {}, traffic(observation), listed)
    others = traffic(observation) if alone else [state(Code.DATABASE_IO_SEPARATE)]
    statements = (state(Code.DATABASE_OPERATIONS), *others)
    return Verdict(UNSUPPORTED, NOT_IO, statements, {"claimed_operations": claim.operations}, claim)


def _of_servers(claim: Claim, observation: Observation) -> Verdict:
    """What servers did is no I/O of the command; only its times can be impossible."""
    here = tuple(name for name in claim.servers if is_of_this_host(name))
    elsewhere = tuple(name for name in claim.servers if name not in here)
    faults = [*session_times.impossible(claim, observation)]
    if faults:
        listed = [_of_fault(properties.INTERVAL, faults[0])]
        return _verdict(faults[0], claim, faults[0].statements, {}, [], listed)
    statements = [state(Code.LOAD_OF_SERVERS, servers=claim.servers)]
    statements += [state(Code.SERVERS_HERE, servers=here)] if here else []
    statements += [state(Code.SERVERS_ELSEWHERE, servers=elsewhere)] if elsewhere else []
    numbers = {"claimed_operations": claim.operations, "claimed_bytes": claim.bytes}
    return Verdict(UNSUPPORTED, LOAD_OF_SERVERS, statements, numbers, claim)


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
    parts: dict[str, _Part] = {
        properties.INTERVAL: session_times.judge_times(group, want, seen, observation, contended=contended),
        properties.LATENCY: latency_bounds.judge_latency(group, seen, observation, contended=contended),
        properties.PATTERN: access_pattern.judge_pattern(group),
    }
    listed = _properties(group, want, seen, pool, observation, parts, exit_ok=exit_ok)
    if probed is not None and probed.perturbed() and all(each.category in _TRUE for each in listed):
        slowed = Property(properties.INTERVAL, PERTURBED, "PROBE-EFFECT", (state(Code.PERTURBED), probed.statement()))
        listed = _in_order([*(each for each in listed if each.name != slowed.name), slowed])
    fault = _deciding(listed) or Fault(CONFIRMED, _limit(want, seen))
    notes = [*_rest(listed, fault), *explanations.notes(group, want, seen, pool, observation)]
    notes += [note for _, remarks, _ in parts.values() for note in remarks]
    notes += [*_ended(exit_ok), *_effect_notes(probed, observation)]
    numbers = {**_counted(want, seen, pool), **_effect_numbers(probed)}
    for _, _, own in parts.values():
        numbers |= own
    explanation = _explained(fault, group, want, seen, pool, parts[properties.INTERVAL][2])
    return _verdict(fault, group.claims[0], explanation, numbers, notes, listed)


def _properties(
    group: Group,
    want: Expected,
    seen: Evidence,
    pool: Pool,
    observation: Observation,
    parts: Mapping[str, _Part],
    *,
    exit_ok: bool,
) -> list[Property]:
    """Those that the claims state, judged."""
    counted = operation_counts.judge_counts(group, want, seen, pool.device, observation)
    lost = _losses(observation)
    itself = any(fault.reason in _ITSELF for faults, _, _ in parts.values() for fault in faults)
    empty = [] if counted or itself else _empty(group, want, seen, parts[properties.INTERVAL][2])
    hold = not counted and not lost and not empty
    judged = [
        *_of_counts(group, counted, want, seen),
        judge_files(group),
        judge_direct(group, pool, observation),
        judge_engine(group, want, seen, observation),
        judge_sync(group, pool, observation, exit_ok=exit_ok),
        *(_of_part(name, group, part, hold=hold) for name, part in parts.items()),
        *(_of_fault(properties.INTERVAL, fault) for fault in empty),
        _of_device(pool, group, hold=hold),
    ]
    listed = {each.name: each for each in judged if each is not None}
    for fault in lost:
        listed = {name: each if each.reason in _ITSELF else _of_fault(name, fault) for name, each in listed.items()}
    return _in_order(list(listed.values()))


def _in_order(listed: Sequence[Property]) -> list[Property]:
    return sorted(listed, key=lambda each: properties.PROPERTIES.index(each.name))


def _of_counts(group: Group, counted: Sequence[Fault], want: Expected, seen: Evidence) -> list[Property]:
    """Fewer bytes are no fault of the operations, nor the other way round; all else that is wrong is of both.

    What is claimed and has no counterpart among the calls, as the operations of vsync, is not judged.
    """
    limit = _limit(want, seen)
    by = "" if limit == _UNOBSERVED else limit
    plain = {
        properties.OPERATIONS: Property(properties.OPERATIONS, NOT_JUDGED if by == BY_DEVICE else CONFIRMED, by),
        properties.BYTES: Property(properties.BYTES, CONFIRMED, by),
    }
    sides = {
        properties.OPERATIONS: (want.operations, seen.operations, 0.0),
        properties.BYTES: (want.bytes, seen.bytes, want.rounded_bytes),
    }
    beyond = {name: claimed - there for name, (claimed, there, _) in sides.items() if claimed is not None}
    for fault in counted:
        sign = {"FEWER-SEEN": 1, "CALLS-FAILED": 1, "MORE-SEEN": -1}.get(fault.reason, 0)
        apart = [name for name, difference in beyond.items() if sign * difference > sides[name][2]]
        plain |= {name: _of_fault(name, fault) for name in apart or beyond}
    for name in sides.keys() - beyond.keys():
        plain[name] = Property(name, NOT_JUDGED)
    return [plain[name] for name in sides if any(getattr(claim, name) is not None for claim in group.claims)]


def _of_part(name: str, group: Group, part: _Part, *, hold: bool) -> Property | None:
    """Times and places of calls, which mean something only where the calls are the claim's. None where unclaimed."""
    faults, notes, numbers = part
    faults = [fault for fault in faults if hold or fault.reason in _ITSELF]
    if faults:
        return _of_fault(name, max(faults, key=_severity))
    stated = {
        properties.INTERVAL: any(session_times.claimed_seconds(claim) for claim in group.claims),
        properties.LATENCY: any(claim.latency_ns for claim in group.claims),
        properties.PATTERN: access_pattern.is_claimed(group),
    }[name]
    known = hold and bool(numbers) and not _UNTIMED & {note.code for note in notes}
    return Property(name, CONFIRMED if known else NOT_JUDGED) if stated else None


def _of_device(pool: Pool, group: Group, *, hold: bool) -> Property | None:
    """What devices did for calls that are the claim's. None where there is no device to do it."""
    if not pool.bytes or not pool.storage or pool.kind == TRIM:
        return None
    for fault in judge_device(pool, access_pattern.jumps(group)) if hold else ():
        return _of_fault(properties.DEVICE, fault)
    return Property(properties.DEVICE, CONFIRMED if hold and pool.is_known else NOT_JUDGED)


def _of_fault(name: str, fault: Fault) -> Property:
    return Property(name, fault.category, fault.reason, tuple(fault.statements))


def _severity(fault: Fault) -> int:
    return rank(Verdict(fault.category, ""))


def _deciding(listed: Sequence[Property]) -> Fault | None:
    """The worst; of equals what contradicts itself, then the first. None where all that was judged is CONFIRMED."""
    ordered = sorted(listed, key=lambda each: (-rank(each), each.reason not in _ITSELF))
    if not ordered or rank(ordered[0]) <= 0:
        return None
    return Fault(ordered[0].category, ordered[0].reason, ordered[0].statements)


def _rest(listed: Sequence[Property], fault: Fault) -> list[Statement]:
    """What is wrong with other properties; and, of a claim that is true as far as it was judged, what was not."""
    wrong = [each for each in listed if each.category not in _TRUE]
    found = [statement for each in wrong for statement in each.statements if statement not in fault.statements]
    unseen = tuple(each.name for each in listed if each.category == NOT_JUDGED and each.name in _BY_WATCHING)
    return [*found, *([state(Code.PROPERTIES_UNWATCHED, names=unseen)] if unseen and not wrong else ())]


def _verdict(
    fault: Fault,
    claim: Claim,
    explanation: Sequence[Statement],
    numbers: Mapping[str, Any],
    notes: Sequence[Statement],
    listed: Sequence[Property] = (),
) -> Verdict:
    if fault.reason == BY_DEVICE:  # how far others' calls are from the claim means nothing
        numbers = {name: value for name, value in numbers.items() if not name.endswith("_difference_percent")}
    severity = severity_of(fault.category)
    if severity == "info" and any(note.warns for note in notes):
        severity = "warning"
    notes = tuple(dict.fromkeys(notes))
    return Verdict(fault.category, fault.reason, tuple(explanation), numbers, claim, notes, severity, tuple(listed))


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
    return "" if seen.timed else _UNOBSERVED


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
        "device_bytes": device.own_bytes if pool.is_known else None,
        "device_requests": device.own_requests,
        "device_merges": device.merges,
        "device_upper_bound_bytes": device.any_bytes,
    }
    if pool.is_known and pool.bytes:
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
    elif pool.is_known and pool.storage and pool.bytes and not by_device:
        known.append(_moved_by_device(pool))
    return known


def _moved_by_device(pool: Pool) -> Statement:
    """What reached the device, or what the process's own account says, where requests were not watched."""
    own = pool.reached_bytes
    if not pool.watched and pool.kind == "write":
        return state(Code.PAGES_DIRTIED, own_bytes=own)
    if pool.kind == "write" and own < pool.bytes:
        return state(Code.DEVICE_WROTE, own_bytes=own, others_bytes=max(pool.device.any_bytes - own, 0))
    return state(Code.DEVICE_MOVED, own_bytes=own)
