"""Times: three accountings of a session, and whether the claimed interval and rate fit what the kernel timed.

A benchmark's interval may be accounted as the sum of its calls' times, as open to close, or as first call to last
call. Sums leave out what the program does between two calls (20 to 109 % for 4 KiB records in memory), open to close
takes in what the tool does not time (an fsync: up to 63 %); tools that time a loop time first to last call, to 0.1 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate

from ioassay.formats import conventions
from ioassay.records.observation import STRACE, SYSCALLS, Calls, Observation, Session
from ioassay.records.record import SEVERAL_ENGINES, Claim
from ioassay.verify import tolerances
from ioassay.verify.case import Case
from ioassay.verify.claim_groups import MAPPED, Group, calls_of
from ioassay.verify.evidence import AIO, BY_NAME, URING, kinds, sum_of, timed_calls
from ioassay.verify.verdict import CONTRADICTED, HELD_UP, INCOMPLETE, Code, Fault, Finding, Statement, state

_NS = 1e-9
_AROUND = frozenset({"ramp", "layout", "stonewalled", "pre-read"})
"""What a tool does before or after the interval that it claims, by its own words."""


@dataclass(frozen=True)
class TimingDefinitions:
    """The time of one pass in three ways, in seconds; None where an end was not seen."""

    sum_of_calls_s: float
    open_to_close_s: float | None
    first_to_last_s: float
    bytes: int

    def rates(self) -> dict[str, float]:
        """Bytes a second by each that is known and not 0."""
        ways = ("sum_of_calls", "open_to_close", "first_to_last")
        return {name: self.bytes / seconds for name in ways if (seconds := getattr(self, f"{name}_s"))}


def timing_definitions(
    session: Session, kind: str, *, primed: bool = False, includes: Sequence[str] = ()
) -> TimingDefinitions:
    """The three of one session; `first_to_last_s` ends with the fsync or close that the claim includes."""
    calls = timed_calls(session, kind, primed=primed)
    ended_ns = calls.last_ns
    if "fsync" in includes and session.sync.last_ns > ended_ns:
        # One more may follow after the tool's clock, on a clean file: the one that had to write took longest.
        ended_ns = min(session.sync.last_ns, ended_ns + session.sync.max_ns)
    if "close" in includes and session.closed_ns:
        ended_ns = max(ended_ns, session.closed_ns)
    known = session.opened_ns and session.closed_ns
    return TimingDefinitions(
        calls.sum_ns * _NS,
        (session.closed_ns - session.opened_ns) * _NS if known else None,
        max(ended_ns - calls.first_ns, 0) * _NS if calls.completed else 0.0,
        calls.bytes,
    )


def of_group(group: Group) -> TimingDefinitions | None:
    """Those of a claim with one session of its own."""
    if not group.one_pass or not group.sessions:
        return None
    claim = group.claims[0]
    return timing_definitions(group.sessions[0], claim.kind, primed=claim.primed, includes=claim.includes)


def claimed_seconds(claim: Claim) -> float | None:
    """The claimed interval, or the one behind the rate."""
    if claim.seconds is not None:
        return claim.seconds
    return claim.bytes / claim.rate_bytes_per_s if claim.bytes and claim.rate_bytes_per_s else None


def allowed_s(claim: Claim, seconds: float) -> float:
    """How far the claimed interval may be from the kernel's."""
    share = tolerances.of("interval_share")
    if claim.rate_bytes_per_s:
        share += claim.rate_unit_bytes / claim.rate_bytes_per_s
    loose = 0.0 if conventions(claim.source).passes else tolerances.of("loose_clock_s")
    return share * seconds + tolerances.of("interval_s") + claim.clock_step_s + loose


def record_work_s(claim: Claim) -> float:
    """How much longer than that a claim is explained by the work on one record between clock and call."""
    return (claim.record_bytes or 0) / 4096 * tolerances.of("page_work_s") if conventions(claim.source).passes else 0.0


def judge_times(case: Case) -> Finding | None:
    """The claimed interval: by the calls' times, else by the requests', else by the command's life.

    None where no time and no rate is claimed.
    """
    faults = [fault for claim in case.claims for fault in impossible(claim, case.observation)]
    timed = [claim for claim in case.claims if claimed_seconds(claim)]
    if not timed:
        return Finding(faults) if faults else None
    claim = max(timed, key=lambda one: claimed_seconds(one) or 0.0)
    if case.expected.bytes == 0 or case.claim.engine in BY_NAME:
        found = Finding(notes=[state(Code.NOTHING_TIMED)], judged=False)
    elif "sides-unknown" in timed[0].doubts:
        found = Finding(notes=[state(Code.TIMES_OF_UNKNOWN_SIDES)], judged=False)
    elif not case.seen.timed or not case.seen.calls.completed or case.claim.engine in (MAPPED, SEVERAL_ENGINES):
        found = _without_calls(case, claim)
    elif (accounted := of_group(case.group)) is not None and conventions(claim.source).passes:
        found = _strict(case, claim, accounted)
    else:
        found = _loose(case, claim)
    return replace(found, faults=[*faults, *found.faults])


def impossible(claim: Claim, observation: Observation) -> list[Fault]:
    """What is wrong with the times of a claim whatever was seen of its calls."""
    faults = []
    if observation.held_ns and observation.ended_ns:  # no interval is longer than the command ran, and no mean latency
        life_s = (observation.ended_ns - observation.held_ns) * _NS
        longest_s = max(claim.seconds or 0.0, claim.latency_ns.get("mean", 0.0) * _NS)
        if longest_s > life_s + allowed_s(claim, longest_s) + 0.01 * life_s:
            code = Code.LONGER_THAN_COMMAND if claim.seconds == longest_s else Code.OPERATION_LONGER_THAN_COMMAND
            why = state(code, claimed_s=longest_s, command_s=life_s)
            faults = [Fault(CONTRADICTED, "LONGER-THAN-IT-RAN", (why,))]
    odd = [state(Code.MISFIT if one.high is not None else Code.MISFIT_BELOW, **vars(one)) for one in claim.misfits[:1]]
    return [*faults, *_itself(claim), *(Fault(CONTRADICTED, "AT-ODDS-WITH-ITSELF", (one,)) for one in odd)]


def _without_calls(case: Case, claim: Claim) -> Finding:
    """No calls were timed: direct requests that are all the claim's lie in its interval, which lies in the command's
    life."""
    seconds, observation = claimed_seconds(claim) or 0.0, case.observation
    own = [part.calls for part in observation.block if part.own and part.kind in kinds(claim.kind)]
    volume = case.expected.bytes
    if all(one.direct for one in case.claims) and volume and sum(part.bytes for part in own) == volume:
        span_s, allowed = _span([part for part in own if part.completed]), allowed_s(claim, seconds)
        longer = state(Code.REQUESTS_LONGER, claimed_s=seconds, seen_s=span_s)
        excused = case.contended or _jobs_apart(claim, seconds, span_s, allowed)
        fault = _other_time(longer, _rate(span_s, seconds), excused=excused)
        return Finding([fault] if span_s > seconds + allowed else [], numbers=_numbers(seconds, span_s, allowed))
    # How long the command ran, or the files were open where all of those are known; 0 where that is not known.
    life_s = (observation.ended_ns - observation.held_ns) * _NS if observation.held_ns else 0.0
    opened = case.group.sessions
    if case.group.named and opened and all(one.opened_ns and one.closed_ns for one in opened):
        span_ns = max(one.closed_ns for one in opened) - min(one.opened_ns for one in opened)
        life_s = min(life_s, span_ns * _NS, sum(one.closed_ns - one.opened_ns for one in opened) * _NS)
    why = Code.STRACE_TIMES if observation.backend == STRACE else Code.TIMES_UNWATCHED
    untimed = [] if SYSCALLS in observation.layers and observation.backend != STRACE else [state(why)]
    if life_s <= 0:
        return Finding(notes=untimed, judged=False)
    if seconds + allowed_s(claim, seconds) >= life_s * (1 - tolerances.of("life_share")):
        by_life = state(Code.RATE_BY_LIFE, command_s=life_s, ratio=life_s / seconds)
        return Finding(notes=[by_life], numbers=_numbers(seconds, life_s, 0.0))
    unknown = state(Code.RATE_NOT_JUDGED, claimed_s=seconds, command_s=life_s)
    return Finding([Fault(INCOMPLETE, "RATE-NOT-JUDGED", (unknown, *untimed))])


def _itself(claim: Claim) -> list[Fault]:
    """Bytes or operations, seconds and rate of one claim belong together."""
    if not claim.seconds or claim.kind == "keys":
        return []
    amounts = (
        (claim.bytes, claim.rate_bytes_per_s, claim.rate_unit_bytes, Code.SELF_CONTRADICTION),
        (claim.operations, claim.operations_per_s, claim.operations_per_s_step, Code.SELF_CONTRADICTION_IN_OPERATIONS),
    )
    for amount, per_s, step, code in amounts:
        if amount is None or not per_s:
            continue
        implied_s = amount / per_s
        rounded_s = implied_s * step / per_s
        if abs(implied_s - claim.seconds) > allowed_s(claim, claim.seconds) + rounded_s + 0.01 * claim.seconds:
            why = state(code, claimed_s=claim.seconds, implied_per_s=amount / claim.seconds, claimed_per_s=per_s)
            return [Fault(CONTRADICTED, "AT-ODDS-WITH-ITSELF", (why,))]
    return []


def _numbers(claimed_s: float, seen_s: float, allowed: float) -> dict[str, float]:
    found = {"claimed_seconds": claimed_s, "seen_seconds": seen_s, "allowed_seconds": allowed}
    if claimed_s > 0 and seen_s > 0:
        found["rate_difference_percent"] = (seen_s / claimed_s - 1) * 100
    return found


def _other_time(other: Statement, *more: Statement, excused: bool) -> Fault:
    """Another interval than the kernel's; `excused` where waiting for a processor may explain it."""
    if excused:
        return Fault(INCOMPLETE, HELD_UP, (other, state(Code.DELAYED_OR_WRONG)))
    return Fault(CONTRADICTED, "OTHER-TIME", (other, *more))


def _strict(case: Case, claim: Claim, accounted: TimingDefinitions) -> Finding:
    """The tool's clock is known to run from the first to the last call."""
    seconds, seen_s = claimed_seconds(claim) or 0.0, accounted.first_to_last_s
    numbers = _numbers(seconds, seen_s, allowed_s(claim, seconds))
    numbers |= {f"{name}_bytes_per_s": rate for name, rate in accounted.rates().items()}
    clamped, late_s, allowed = "clock-clamp" in claim.doubts, seconds - seen_s, numbers["allowed_seconds"]
    if abs(late_s) <= allowed:
        return Finding(numbers=numbers)
    share_s = tolerances.of("held_up_share") * seen_s  # by which a tool that is held up may read its clock later
    most_s = max(tolerances.of("late_clock_s"), min(tolerances.of("held_up_s"), share_s))
    if 0 < late_s <= most_s and not clamped:
        return Finding(notes=[state(Code.CLOCK_LATE, late_s=late_s)], numbers=numbers)
    held_back_s = 0.0  # what stdio's last buffer may take, which is written at the synchronisation or the close
    if claim.engine == "stdio" and claim.kind == "write" and not claim.includes:
        calls, span_s = case.seen.calls, _span([case.seen.calls])
        held_back_s = span_s if calls.calls <= 2 else 2 * span_s / calls.calls + calls.max_ns * _NS
    if 0 < -late_s <= held_back_s + allowed:
        return Finding(notes=[state(Code.LAST_RECORD_LATE)], numbers=numbers)
    rates = [accounted.bytes / s if s else None for s in (seconds, seen_s)]
    other = state(
        Code.OTHER_INTERVAL, claimed_s=seconds, claimed_bytes_per_s=rates[0], seen_s=seen_s, seen_bytes_per_s=rates[1]
    )
    # Losing its processor may explain it: in a short interval whatever it does to the rate, in a longer one unless it
    # halves it. A slower claim than the truth is nobody's boast, and is not called a lie without need.
    is_short = seen_s < tolerances.of("short_interval_s") or seconds < 1.9 * seen_s
    held_up = 0 < late_s <= tolerances.of("held_up_s") and is_short
    fault = _other_time(other, excused=held_up or (case.contended and late_s > 0))
    if clamped:
        fault = Fault(CONTRADICTED, "CLOCK-CLAMP", (other, state(Code.CLOCK_CLAMPED)))
    return Finding([fault], numbers=numbers)


def _loose(case: Case, claim: Claim) -> Finding:
    """The tool's clock runs around its calls: no session may last longer, and it may be longer for good reasons.

    Nor may all sessions together, unless several processes have a clock each. What a tool leaves out of its interval
    it leaves out of its counts as well: where these are complete, so is the interval.
    """
    group, seen, kind, seconds = case.group, case.seen, claim.kind, claimed_seconds(claim) or 0.0
    skipped: Set[str] = _AROUND & {name for one in case.claims for name in one.unreported}
    # Whether clearly more was moved than the printed rates give in their intervals, where no bytes are claimed.
    rated = sum((one.rate_bytes_per_s or math.inf) * (one.seconds or math.inf) for one in case.claims)
    is_more = case.expected.bytes is None and seen.bytes > rated * (1 + tolerances.of("amplified"))
    # Where calls are not told apart by file, what was done between the tests and before them is among them.
    is_alone = group.told_apart or (len(group.claims) == 1 and case.expected.bytes is not None)
    skipped = skipped if case.surplus != (0, 0) or is_more or not is_alone else frozenset()
    sessions = _after_the_rest(case) if skipped else group.sessions
    longest_s, all_s = max((_span([part]) for part in _large(sessions, kind)), default=0.0), _span([seen.calls])
    longest_s = longest_s if group.told_apart else all_s
    allowed = allowed_s(claim, seconds)
    if claim.engine in (AIO, URING):  # the last requests, which were in flight when the clock stopped, end later
        allowed += min(seen.calls.max_ns * _NS, tolerances.of("in_flight_share") * seconds)
    is_longer, rate = longest_s > seconds + allowed, _rate(longest_s, seconds)
    large = _large(group.sessions, kind) if group.told_apart else []
    # Where several tasks may have used one session, its span is that of several clocks.
    patterns = [one.write_pattern if kind == "write" else one.read_pattern for one in sessions]
    are_shared = not patterns or any(pattern is None or pattern.switches for pattern in patterns)
    faults, notes = list[Fault](), list[Statement]()
    if is_longer and (skipped or not is_alone):
        notes = [state(Code.INTERVAL_WITH_MORE, parts=tuple(sorted(skipped)) or ("several tests",))]
    elif seconds < longest_s / 2 and not is_longer:
        notes = [state(Code.INTERVAL_TOO_SHORT, claimed_s=seconds, allowed_s=allowed)]
    elif are_shared and _jobs_apart(claim, seconds, longest_s, allowed):
        notes = [state(Code.JOBS_APART, warns=True, claimed_s=seconds, seen_s=longest_s), rate]
    elif is_longer and (group.told_apart or seen.source == "calls"):
        several = "several-clocks" in claim.doubts or claim.engine in (AIO, URING)
        longer = state(Code.CALLS_LONGER, claimed_s=seconds, seen_s=longest_s)
        faults = [_other_time(longer, rate, excused=case.contended and several)]
    elif len(group.claims) > 1 or skipped:
        pass  # what passed between the sessions is between the intervals, or before them
    elif _span(large) > seconds + allowed:
        faults, notes = _pauses(case, claim, allowed, large)
    elif seconds > all_s + allowed + 0.05 * seconds:
        notes = [state(Code.CLOCK_WIDER, claimed_s=seconds, seen_s=all_s)]
    untimed = {Code.INTERVAL_WITH_MORE, Code.INTERVAL_TOO_SHORT} & {note.code for note in notes}
    return Finding(faults, notes, _numbers(seconds, longest_s, allowed), judged=not untimed)


def _after_the_rest(case: Case) -> list[Session]:
    """The last sessions that hold what was claimed: what a tool leaves out (a layout, a pre-read) comes before."""
    kind, claimed = case.claim.kind, case.expected
    kept = [session for session in case.group.sessions if calls_of(session, kind).calls]
    while len(kept) > 1:
        rest = sum_of(calls_of(session, kind) for session in kept[1:])
        if rest.calls < (claimed.operations or 0) or rest.bytes < (claimed.bytes or 0):
            break
        kept = kept[1:]
    return kept


def _pauses(case: Case, claim: Claim, allowed: float, sessions: Sequence[Calls]) -> tuple[list[Fault], list[Statement]]:
    """Its file was opened several times, and what passed in between is not in the claimed interval."""
    seconds, seen_s = claimed_seconds(claim) or 0.0, _span(sessions)
    if {"several-clocks", "among-others"} & set(claim.doubts):
        return [], []
    if "pauses" in claim.unreported or seen_s <= seconds + allowed + (len(sessions) - 1) * tolerances.of("reopened_s"):
        return [], [state(Code.CLOCK_STOPPED, warns=True, claimed_s=seconds, seen_s=seen_s)]
    left_out = state(Code.PAUSES_LEFT_OUT, claimed_s=seconds, sessions=len(sessions), seen_s=seen_s)
    return [_other_time(left_out, _rate(seen_s, seconds), excused=case.contended)], []


def _jobs_apart(claim: Claim, seconds: float, seen_s: float, allowed: float) -> bool:
    """Whether several processes, each with its clock, explain that their calls took longer than the longest of them."""
    most_s = seconds + min(tolerances.of("several_clocks_s"), seconds)
    return "several-clocks" in claim.doubts and seconds + allowed < seen_s <= most_s


def _rate(seen_s: float, claimed_s: float) -> Statement:
    return state(Code.RATE_TOO_HIGH, ratio=seen_s / claimed_s) if claimed_s else state(Code.NO_RATE)


def _span(parts: Sequence[Calls]) -> float:
    """Seconds from the first call of all to the last."""
    return max(max(part.last_ns for part in parts) - min(part.first_ns for part in parts), 0) * _NS if parts else 0.0


def _large(sessions: Iterable[Session], kind: str) -> list[Calls]:
    """Without the least, which together moved next to nothing: a shell reads the script by which the tool starts."""
    parts = [part for session in sessions if (part := calls_of(session, kind)).completed]
    parts.sort(key=lambda part: part.bytes)
    sums = [*accumulate(part.bytes for part in parts)]
    least = min(tolerances.of("others_bytes"), tolerances.of("resolution") * max(sums, default=0))
    return [part for part, total in zip(parts, sums, strict=True) if total >= least]
