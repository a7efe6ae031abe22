"""Claims and an observation in, one verdict a claim out. Pure: the same in, the same out.

Each property that a claim states is judged apart (`CHECKS`), and the worst of them is the verdict. Times, latencies,
the order of offsets and the device's work are only held against calls that are as many as claimed. A loss of evidence
leads to INCOMPLETE, to UNSUPPORTED, or to a property that is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ioassay.formats import is_of_this_host, tool_runs
from ioassay.records.observation import Calls, Observation
from ioassay.records.record import Claim
from ioassay.verify import properties, session_times, tolerances
from ioassay.verify.access_pattern import judge_pattern
from ioassay.verify.case import LEFT_OUT, Case, Pool, cases, is_direct
from ioassay.verify.claim_groups import KEYS, TRIM, calls_of
from ioassay.verify.device_traffic import judge_device
from ioassay.verify.evidence import URING
from ioassay.verify.file_access import judge_direct, judge_engine, judge_files, judge_sync
from ioassay.verify.latency_bounds import judge_latency
from ioassay.verify.operation_counts import judge_counts
from ioassay.verify.session_times import judge_times
from ioassay.verify.verdict import (
    BY_DEVICE,
    CONFIRMED,
    CONTRADICTED,
    INCOMPLETE,
    LOAD_OF_SERVERS,
    NOT_IO,
    NOT_JUDGED,
    PERTURBED,
    TRUE_CLAIMS,
    UNSUBSTANTIATED,
    UNSUPPORTED,
    Amount,
    Code,
    Fault,
    Finding,
    Property,
    Statement,
    Verdict,
    rank,
    severity_of,
    state,
    when,
)

CHECKS: Mapping[str, Callable[[Case], Finding | None]] = {
    properties.FILES: judge_files,
    properties.DIRECT: judge_direct,
    properties.ENGINE: judge_engine,
    properties.SYNC: judge_sync,
    properties.INTERVAL: judge_times,
    properties.LATENCY: judge_latency,
    properties.PATTERN: judge_pattern,
    properties.DEVICE: judge_device,
}
"""Each property but the counts, which come first: the others may rest on them."""
_BY_WATCHING = (properties.FILES, properties.DIRECT, properties.ENGINE, properties.SYNC)
"""They hold whatever the counts are. Whether they are judged depends on what is watched."""
_ITSELF = frozenset({"AT-ODDS-WITH-ITSELF", "LONGER-THAN-IT-RAN", "IMPOSSIBLE-LATENCY"})
"""What is wrong with a claim whatever was seen."""
_TRUE = TRUE_CLAIMS | {NOT_JUDGED}
_UNOBSERVED = "TIMING-NOT-OBSERVED"


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
    probed = effect(twins) if twins is not None else None
    verdicts: dict[int, Verdict] = {}
    keys_alone = all(claim.kind == KEYS for claim in claims)
    for place, claim in enumerate(claims):
        if claim.kind == KEYS or claim.servers:
            verdicts[place] = _judge_no_io(claim, observation, alone=keys_alone)
    rest = [place for place in range(len(claims)) if place not in verdicts]
    for case in cases([claims[place] for place in rest], observation, contended=contended, exit_ok=exit_ok):
        verdict = _judge_case(case, probed)
        for place in case.group.places:
            verdicts[rest[place]] = replace(verdict, claim=claims[rest[place]])
    return [verdicts[place] for place in range(len(claims))]


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


def _judge_no_io(claim: Claim, observation: Observation, *, alone: bool) -> Verdict:
    """Operations of a database are not I/O, and what servers did is none of the command: only times can be impossible.

    Unless claims on a database are `alone`, what it read and wrote is claimed beside them.
    """
    seen = [] if claim.servers else traffic(observation)
    if faults := session_times.impossible(claim, observation):
        fault = Property(properties.INTERVAL, *faults[0])
        return _verdict(fault, claim, fault.statements, {}, seen, [fault])
    numbers = {"claimed_operations": claim.operations}
    if not claim.servers:
        others = seen if alone else [state(Code.DATABASE_IO_SEPARATE)]
        return Verdict(UNSUPPORTED, NOT_IO, (state(Code.DATABASE_OPERATIONS), *others), numbers, claim)
    here = tuple(name for name in claim.servers if is_of_this_host(name))
    elsewhere = tuple(name for name in claim.servers if name not in here)
    statements = [
        state(Code.LOAD_OF_SERVERS, servers=claim.servers),
        *when(here, Code.SERVERS_HERE, servers=here),
        *when(elsewhere, Code.SERVERS_ELSEWHERE, servers=elsewhere),
    ]
    return Verdict(UNSUPPORTED, LOAD_OF_SERVERS, statements, {**numbers, "claimed_bytes": claim.bytes}, claim)


def _judge_case(case: Case, probed: Effect | None) -> Verdict:
    if unsupported := _unsupported(case):
        return _verdict(unsupported, case.claim, unsupported.statements, {}, [])
    found = {name: finding for name, check in CHECKS.items() if (finding := check(case)) is not None}
    times = found.get(properties.INTERVAL, Finding()).numbers
    listed = _properties(case, found)
    if probed is not None and probed.perturbed() and all(each.category in _TRUE for each in listed):
        slowed = Property(properties.INTERVAL, PERTURBED, "PROBE-EFFECT", (state(Code.PERTURBED), probed.statement()))
        listed = _in_order([*(each for each in listed if each.name != slowed.name), slowed])
    # The worst; of equals what contradicts itself, then the first.
    fault = min(listed, key=lambda each: (-rank(each), each.reason not in _ITSELF), default=None)
    if fault is None or rank(fault) <= 0:
        fault = Property("", CONFIRMED, _limit(case))
    # What is wrong with other properties; and, of a claim that is true as far as it was judged, what was not.
    wrong = [each for each in listed if each.category not in _TRUE]
    unseen = tuple(each.name for each in listed if each.category == NOT_JUDGED and each.name in _BY_WATCHING)
    notes = [statement for each in wrong for statement in each.statements if statement not in fault.statements]
    notes += [*when(unseen and not wrong, Code.PROPERTIES_UNWATCHED, names=unseen), *explanations(case)]
    notes += [note for finding in found.values() for note in finding.notes]
    notes += when(not case.exit_ok, Code.COMMAND_FAILED)
    numbers = _numbers(case)
    if probed is not None:
        notes.append(probed.statement())
        numbers |= {f"probe_effect_{name}": getattr(probed, name) for name in ("ratio", "low", "high", "runs")}
    elif {"syscalls", "record"} & set(case.observation.layers):
        notes.append(state(Code.NO_TWINS))
    for finding in found.values():
        numbers |= finding.numbers
    return _verdict(fault, case.claim, _explained(fault, case, times), numbers, notes, listed)


def _unsupported(case: Case) -> Fault | None:
    claim, seen = case.claim, case.observation
    if claim.kind == TRIM and not {"block", "record"} & set(seen.layers):
        return Fault(UNSUPPORTED, "DISCARDS", (state(Code.DISCARDS_UNWATCHED),))
    if claim.kind not in ("read", "write", "mixed", TRIM):
        return Fault(UNSUPPORTED, "UNKNOWN-KIND", (state(Code.UNKNOWN_KIND, kind=claim.kind),))
    if not case.is_amount_claimed and any("stonewalled" in one.unreported for one in case.claims):
        return Fault(INCOMPLETE, "STONEWALLED", (state(Code.STONEWALLED), *traffic(seen)))
    is_amount = case.is_amount_claimed or case.is_pattern_claimed
    if not is_amount and not any(map(session_times.claimed_seconds, case.claims)):
        return Fault(UNSUPPORTED, "NOTHING-TO-JUDGE", (state(Code.NO_AMOUNT), *traffic(seen)))
    return None


def _properties(case: Case, found: Mapping[str, Finding]) -> list[Property]:
    """Those that the claims state, judged."""
    counted = judge_counts(case)
    gone, dropped = (case.observation.health.get(name, 0) for name in ("lost", "dropped"))
    is_lossy = max(gone, dropped) > tolerances.of("lost")
    events = state(Code.EVENTS_LOST, lost=gone, dropped=dropped)
    lost = Fault(INCOMPLETE, "EVENTS-LOST", (events,)) if is_lossy else None
    itself = any(fault.reason in _ITSELF for finding in found.values() for fault in finding.faults)
    timed = properties.INTERVAL in found and found[properties.INTERVAL].numbers
    is_empty = not (counted or itself or case.is_amount_claimed or case.is_pattern_claimed or timed)
    hold = not counted and not lost and not is_empty
    judged = _of_counts(case, counted)
    for name, finding in found.items():
        holds = (
            hold or name in _BY_WATCHING
        )  # the calls are the claim's, so that what was found of them means something
        faults = [fault for fault in finding.faults if holds or fault.reason in _ITSELF]
        without = Fault(CONFIRMED if holds and finding.judged else NOT_JUDGED, "")
        judged.append(Property(name, *max(faults, key=rank, default=without)))
    listed = {each.name: each for each in judged}
    if is_empty:  # a time alone, and nothing that was timed to hold it against
        alone = (state(Code.TIME_ALONE, seen=case.seen.amount),)
        listed[properties.INTERVAL] = Property(properties.INTERVAL, UNSUPPORTED, "NOTHING-TO-JUDGE", alone)
    if lost:
        listed = {name: each if each.reason in _ITSELF else Property(name, *lost) for name, each in listed.items()}
    if any(tool_runs.UNKNOWN in claim.doubts for claim in case.claims):
        unknown = Fault(INCOMPLETE, "PRINTER-UNKNOWN", (state(Code.PRINTER_UNKNOWN),))
        wrong = [each.name for each in listed.values() if each.category in (CONTRADICTED, UNSUBSTANTIATED)]
        listed |= {name: Property(name, *unknown) for name in wrong}
    return _in_order(list(listed.values()))


def _in_order(listed: Sequence[Property]) -> list[Property]:
    return sorted(listed, key=lambda each: properties.PROPERTIES.index(each.name))


def _of_counts(case: Case, counted: Sequence[Fault]) -> list[Property]:
    """Fewer bytes are no fault of the operations, nor the other way round; all else that is wrong is of both.

    What is claimed and has no counterpart among the calls, as the operations of vsync, is not judged.
    """
    limit, claimed, seen = _limit(case), case.expected, case.seen
    by = "" if limit == _UNOBSERVED else limit
    sides = {
        properties.OPERATIONS: (claimed.operations, seen.operations, 0.0),
        properties.BYTES: (claimed.bytes, seen.bytes, claimed.rounded_bytes),
    }
    beyond = {name: stated - there for name, (stated, there, _) in sides.items() if stated is not None}
    judged = {name: Property(name, CONFIRMED, by) if name in beyond else Property(name, NOT_JUDGED) for name in sides}
    if by == BY_DEVICE and properties.OPERATIONS in beyond:
        judged[properties.OPERATIONS] = Property(properties.OPERATIONS, NOT_JUDGED, by)
    for fault in counted:
        sign = {"FEWER-SEEN": 1, "CALLS-FAILED": 1, "MORE-SEEN": -1}.get(fault.reason, 0)
        apart = [name for name, difference in beyond.items() if sign * difference > sides[name][2]]
        judged |= {name: Property(name, *fault) for name in apart or beyond}
    return [judged[name] for name in sides if any(getattr(claim, name) is not None for claim in case.claims)]


def _verdict(
    fault: Fault | Property,
    claim: Claim,
    explanation: Sequence[Statement],
    numbers: Mapping[str, Any],
    notes: Sequence[Statement],
    listed: Sequence[Property] = (),
) -> Verdict:
    if fault.reason == BY_DEVICE:  # how far others' calls are from the claim means nothing
        numbers = {name: value for name, value in numbers.items() if not name.endswith("_difference_percent")}
    severity = "warning" if any(note.warns for note in notes) else severity_of(fault.category)
    notes = tuple(dict.fromkeys(notes))
    return Verdict(fault.category, fault.reason, tuple(explanation), numbers, claim, notes, severity, tuple(listed))


def _limit(case: Case) -> str:
    """What a CONFIRMED does not rest on."""
    if case.is_by_device:
        return BY_DEVICE
    if case.seen.source == "process":
        return "BY-TOTALS"
    return "" if case.seen.timed else _UNOBSERVED


def _numbers(case: Case) -> dict[str, Any]:
    claimed, seen, pool, device = case.expected, case.seen, case.pool, case.pool.device
    is_seen = seen.source != "nothing"
    found: dict[str, Any] = {
        "claimed_operations": claimed.operations,
        "claimed_bytes": claimed.bytes,
        "seen_operations": seen.operations if is_seen else None,
        "seen_bytes": seen.bytes if is_seen else None,
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
        found["device_share"] = pool.share
    for name in ("operations", "bytes"):
        if is_seen and found[f"claimed_{name}"]:
            found[f"{name}_difference_percent"] = (found[f"seen_{name}"] / found[f"claimed_{name}"] - 1) * 100
    return found


def _explained(fault: Property, case: Case, times: Mapping[str, float]) -> Sequence[Statement]:
    seen, pool = state(Code.SEEN, seen=case.seen.amount), case.pool
    if fault.reason == "DEVICE-NOT-OBSERVED":
        return [seen, *fault.statements]
    if fault.category not in TRUE_CLAIMS:
        return fault.statements
    claimed = case.expected.amount
    if case.is_by_device:
        known = [state(Code.CLAIMED, claimed=claimed), state(Code.CALLS_UNWATCHED), _moved_by_device(pool)]
    else:
        both = state(Code.CLAIMED_AND_SEEN, claimed=claimed, seen=case.seen.amount)
        known = [both if case.is_amount_claimed else seen]
    if fault.statements:
        return [*known, *fault.statements]
    difference = times.get("rate_difference_percent")
    if case.group.one_pass and difference is not None and pool.bytes:
        rate = case.seen.bytes / times["seen_seconds"]
        known.append(state(Code.RATE_OF_CALLS, bytes_per_s=rate, difference_percent=abs(difference)))
    elif pool.is_known and pool.storage and pool.bytes and not case.is_by_device:
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


# Did watching change the result? Interleaved runs of one point with the witness, and their twins without it. Few runs
# give a wide interval, and then nothing is claimed either way.


@dataclass(frozen=True)
class Twins:
    """One metric of the same point, watched and not watched; one value a run."""

    metric: str
    traced: Sequence[float]
    untraced: Sequence[float]


@dataclass(frozen=True)
class Effect:
    """Median watched divided by median not watched, with its interval (None where it cannot be known)."""

    metric: str
    ratio: float
    low: float | None
    high: float | None
    runs: int
    """On each side; the smaller number."""

    def perturbed(self) -> bool:
        """Whether the interval excludes no effect, and the effect is more than the tolerance."""
        if self.low is None or self.high is None:
            return False
        return (self.high < 1 or self.low > 1) and abs(self.ratio - 1) > tolerances.of("probe_effect")

    def statement(self) -> Statement:
        code = Code.OBSERVER_EFFECT_UNKNOWN if self.low is None else Code.OBSERVER_EFFECT
        return state(code, metric=self.metric, ratio=self.ratio, low=self.low, high=self.high, runs=self.runs)


def effect(twins: Twins) -> Effect | None:
    """The probe effect; None where a side has no positive value."""
    from ioassay.stats import sample

    sides = [[value for value in side if value > 0] for side in (twins.traced, twins.untraced)]
    runs = min(map(len, sides))
    return Effect(twins.metric, *sample.ratio_of_medians(*sides), runs) if runs else None


# Explanations


def explanations(case: Case) -> list[Statement]:
    """What a reader may wonder about in a claim that is true, in a fixed order.

    Loader and layout traffic first, then priming reads and silent passes, the cache, read-ahead, merges, write-back,
    pre-flushes, the journal, what the tool's ring does, discards; at last what could not be watched or judged.
    """
    group, seen, (operations, volume) = case.group, case.seen, case.surplus
    of_files = seen.source == "files"
    beside = not of_files and (operations or volume) and volume <= seen.others_bytes
    extra = Amount(operations if case.expected.operations is not None else None, volume)
    ended = of_files and operations and not volume and operations <= seen.calls.short
    layout_bytes = sum(session.write.bytes for session in group.layout)
    missing = group.missing if group.named else ()
    primed, passes = (case.claim.primed, case.claim.silent_passes) if group.one_pass else (False, 0)
    names = dict.fromkeys(name for claim in case.claims for name in claim.unreported if name in LEFT_OUT)
    opened = any(calls_of(session, case.claim.kind).calls for session in group.sessions)
    watched, claims = case.observation, len(case.claims)
    missed, issued = watched.health.get("missed", 0), sum(part.calls.calls for part in watched.block)
    return [
        *case.expected.notes,
        *when(beside, Code.OTHER_TRAFFIC, extra=extra),
        *when(ended, Code.END_OF_FILE, calls=operations),
        *when(group.layout, Code.LAYOUT, written_bytes=layout_bytes),
        *when(seen.calls.errors, Code.CALLS_FAILED, errors=seen.calls.errors),
        *when(missing, Code.FILES_NOT_OPENED, files=tuple(missing[:3])),
        *when(primed, Code.PRIMING_READ),
        *when(passes, Code.SILENT_PASSES, passes=passes + 1),
        *(state(LEFT_OUT[name]) for name in names if case.surplus != (0, 0)),
        *when(opened and case.claim.direct is False and is_direct(group), Code.DIRECT_UNCLAIMED),
        *_device(case.pool),
        *when(case.claim.engine == URING, Code.RING_CALLS),
        *when(not group.one_pass and claims > 1, Code.SUMMED, claims=claims),
        *when(missed, Code.COMPLETIONS_MISSED, missed=missed, issued=issued),
        *when(not {"block", "record"} & set(watched.layers), Code.REQUESTS_UNWATCHED),
        *when(watched.why, Code.LESS_WATCHED, why=watched.why),
    ]


def _device(pool: Pool) -> list[Statement]:
    device, own, requests = pool.device, pool.device.own_bytes, pool.device.own_requests or 0
    if not device.known or not pool.bytes:
        return []
    gathered = _gathered(pool) if requests and own and requests < pool.operations * 0.999 else None
    writes, extra = pool.kind == "write", own - pool.bytes
    synced = writes and pool.watched and pool.syncs and own
    journal = synced and 0 < extra <= pool.bytes * tolerances.of("amplified")
    flushed = {"requests": requests, "flushes": device.flushes, "writes": pool.operations, "syncs": pool.syncs}
    late = writes and pool.watched and pool.synced and own < pool.bytes * (1 - tolerances.of("device_share"))
    return [
        *when(pool.claims > 1, Code.DEVICE_SHARED, claims=pool.claims),
        *when(pool.is_elsewhere, Code.OTHER_MACHINE),
        *([state(gathered, merges=device.merges, requests=requests, own_bytes=own)] if gathered else []),
        *when(journal, Code.JOURNAL_BYTES, extra_bytes=extra),
        *when(synced and requests > pool.operations, Code.FLUSHES, **flushed),
        *when(late, Code.KERNEL_WRITE_BACK, own_bytes=own),
        *when(device.virtual, Code.VIRTUAL_DEVICE, devices=tuple(device.virtual)),
        *when(device.discards and writes, Code.DISCARDED, requests=device.discards),
    ]


def _gathered(pool: Pool) -> Code | None:
    """Why there were fewer requests than calls."""
    if pool.direct and pool.device.own_bytes < pool.bytes * (1 - tolerances.of("device_share")):
        return None  # merges change no bytes
    if pool.device.merges:
        return Code.REQUESTS_MERGED
    if pool.direct:
        return Code.CALLS_MERGED
    if pool.kind == "read" and pool.reached_bytes >= pool.bytes / 2:
        return Code.READ_AHEAD
    return Code.WRITE_BACK_GATHERED if pool.kind == "write" and pool.synced else None
