"""Times: three accountings of a session, and whether the claimed interval and rate fit what the kernel timed.

A benchmark's interval may be accounted as the sum of its calls' times, as open to close, or as first call to last
call. Sums leave out what the program does between two calls (20 to 109 % for 4 KiB records in memory), open to close
takes in what the tool does not time (an fsync: up to 63 %); tools that time a loop time first to last call, to 0.1 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate

from ioassay.formats import conventions
from ioassay.records.observation import STRACE, SYSCALLS, Calls, Observation, Session
from ioassay.records.record import Claim
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import Group, calls_of
from ioassay.verify.evidence import AIO, BY_NAME, URING, Evidence, kinds, without_first
from ioassay.verify.operation_counts import Expected, Fault, surplus
from ioassay.verify.statement import Code, Statement, state
from ioassay.verify.verdict import CONTRADICTED, HELD_UP, INCOMPLETE

_NS = 1e-9
_AROUND = frozenset({"ramp", "layout", "stonewalled", "pre-read"})
"""What a tool does before or after the interval that it claims, by its own words."""


@dataclass(frozen=True)
class Accountings:
    """The time of one pass in three ways, in seconds; None where an end was not seen."""

    sum_of_calls_s: float
    open_to_close_s: float | None
    first_to_last_s: float
    bytes: int

    def rates(self) -> dict[str, float]:
        """Bytes a second by each that is known and not 0."""
        ways = {
            "sum_of_calls": self.sum_of_calls_s,
            "open_to_close": self.open_to_close_s,
            "first_to_last": self.first_to_last_s,
        }
        return {name: self.bytes / seconds for name, seconds in ways.items() if seconds}


def accountings(session: Session, kind: str, *, primed: bool = False, includes: Sequence[str] = ()) -> Accountings:
    """The three of one session; `first_to_last_s` ends with the fsync or close that the claim includes."""
    calls = calls_of(session, kind)
    if primed and calls.calls > session.first.calls:
        calls = without_first(calls, session.first, session.second_ns)
    ended_ns = calls.last_ns
    if "fsync" in includes and session.sync.last_ns > ended_ns:
        # One more may follow after the tool's clock, on a clean file: the one that had to write took longest.
        ended_ns = min(session.sync.last_ns, ended_ns + session.sync.max_ns)
    if "close" in includes and session.closed_ns:
        ended_ns = max(ended_ns, session.closed_ns)
    known = session.opened_ns and session.closed_ns
    return Accountings(
        calls.sum_ns * _NS,
        (session.closed_ns - session.opened_ns) * _NS if known else None,
        max(ended_ns - calls.first_ns, 0) * _NS if calls.completed else 0.0,
        calls.bytes,
    )


def of_group(group: Group) -> Accountings | None:
    """Those of a claim with one session of its own."""
    if not group.one_pass or not group.sessions:
        return None
    claim = group.claims[0]
    return accountings(group.sessions[0], claim.kind, primed=claim.primed, includes=claim.includes)


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


def judge_times(
    group: Group, want: Expected, seen: Evidence, observation: Observation, *, contended: bool = False
) -> tuple[list[Fault], list[Statement], dict[str, float]]:
    """Faults, notes and numbers of the interval: by the calls' times, else by the requests', else by the command's."""
    faults = [fault for claim in group.claims for fault in impossible(claim, observation)]
    timed = [claim for claim in group.claims if claimed_seconds(claim)]
    if not timed or want.bytes == 0 or group.claims[0].engine in BY_NAME:
        return faults, [state(Code.NOTHING_TIMED)] if timed else [], {}
    if "sides-unknown" in timed[0].doubts:
        return faults, [state(Code.TIMES_OF_UNKNOWN_SIDES)], {}
    if not seen.timed or not seen.calls.completed:
        found, notes, numbers = _without_calls(timed, group, want, observation, contended=contended)
        return [*faults, *found], notes, numbers
    claim = max(timed, key=lambda one: claimed_seconds(one) or 0.0)
    seconds, accounted = claimed_seconds(claim) or 0.0, of_group(group)
    if accounted is not None and conventions(claim.source).passes:
        return _strict(faults, claim, seconds, accounted, seen, contended=contended)
    return _loose(faults, claim, seconds, group, want, seen, contended=contended)


def impossible(claim: Claim, observation: Observation) -> list[Fault]:
    """What is wrong with the times of a claim whatever was seen of its calls."""
    return [*_life(claim, observation), *_itself(claim)]


def _without_calls(
    timed: Sequence[Claim], group: Group, want: Expected, observation: Observation, *, contended: bool
) -> tuple[list[Fault], list[Statement], dict[str, float]]:
    """No calls were timed: direct requests that are all the claim's lie in its interval, which lies in the command's
    life."""
    claim = max(timed, key=lambda one: claimed_seconds(one) or 0.0)
    seconds = claimed_seconds(claim) or 0.0
    own = [part.calls for part in observation.block if part.own and part.kind in kinds(claim.kind)]
    if all(one.direct for one in group.claims) and want.bytes and sum(part.bytes for part in own) == want.bytes:
        span_s = _span_of([part for part in own if part.completed])
        numbers = _numbers(seconds, span_s, allowed_s(claim, seconds))
        if span_s <= seconds + numbers["allowed_seconds"]:
            return [], [], numbers
        longer = state(Code.REQUESTS_LONGER, claimed_s=seconds, seen_s=span_s)
        if contended or _jobs_apart(claim, seconds, span_s, numbers["allowed_seconds"]):
            return [Fault(INCOMPLETE, HELD_UP, (longer, state(Code.DELAYED_OR_WRONG)))], [], numbers
        return [Fault(CONTRADICTED, "OTHER-TIME", (longer, _rate(span_s, seconds)))], [], numbers
    life_s = (observation.ended_ns - observation.held_ns) * _NS if observation.held_ns else 0.0
    if group.named and all(session.opened_ns and session.closed_ns for session in group.sessions):
        opened = [(session.closed_ns, session.opened_ns) for session in group.sessions]
        life_s = min(life_s, (max(opened)[0] - min(begin for _, begin in opened)) * _NS) if opened else life_s
    why = Code.STRACE_TIMES if observation.backend == STRACE else Code.TIMES_UNWATCHED
    untimed = [] if SYSCALLS in observation.layers and observation.backend != STRACE else [state(why)]
    if life_s <= 0:
        return [], untimed, {}
    if seconds >= life_s * (1 - tolerances.of("life_share")):
        return [], [state(Code.RATE_BY_LIFE, command_s=life_s, ratio=life_s / seconds)], _numbers(seconds, life_s, 0.0)
    unknown = state(Code.RATE_NOT_JUDGED, claimed_s=seconds, command_s=life_s)
    return [Fault(INCOMPLETE, "RATE-NOT-JUDGED", (unknown, *untimed))], [], {}


def _life(claim: Claim, observation: Observation) -> list[Fault]:
    """No interval is longer than the command ran, and no mean latency."""
    if not observation.held_ns or not observation.ended_ns:
        return []
    life_s = (observation.ended_ns - observation.held_ns) * _NS
    longest_s = max(claim.seconds or 0.0, claim.latency_ns.get("mean", 0.0) * _NS)
    if longest_s <= life_s + allowed_s(claim, longest_s) + 0.01 * life_s:
        return []
    code = Code.LONGER_THAN_COMMAND if claim.seconds == longest_s else Code.OPERATION_LONGER_THAN_COMMAND
    return [Fault(CONTRADICTED, "LONGER-THAN-IT-RAN", (state(code, claimed_s=longest_s, command_s=life_s),))]


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


def _late_s(seen_s: float) -> float:
    """How much later than the last call a tool that is held up may read its clock."""
    share_s = tolerances.of("held_up_share") * seen_s
    return max(tolerances.of("late_clock_s"), min(tolerances.of("held_up_s"), share_s))


def _strict(
    faults: list[Fault], claim: Claim, seconds: float, accounted: Accountings, seen: Evidence, *, contended: bool
) -> tuple[list[Fault], list[Statement], dict[str, float]]:
    """The tool's clock is known to run from the first to the last call."""
    seen_s = accounted.first_to_last_s
    numbers = _numbers(seconds, seen_s, allowed_s(claim, seconds))
    numbers.update({f"{name}_bytes_per_s": rate for name, rate in accounted.rates().items()})
    if abs(seconds - seen_s) <= numbers["allowed_seconds"]:
        return faults, [], numbers
    if 0 < seconds - seen_s <= _late_s(seen_s) and "clock-clamp" not in claim.doubts:
        return faults, [state(Code.CLOCK_LATE, late_s=seconds - seen_s)], numbers
    if 0 < seen_s - seconds <= _held_back_s(claim, seen) + numbers["allowed_seconds"]:
        return faults, [state(Code.LAST_RECORD_LATE)], numbers
    rates = [accounted.bytes / s if s else None for s in (seconds, seen_s)]
    other = state(
        Code.OTHER_INTERVAL, claimed_s=seconds, claimed_bytes_per_s=rates[0], seen_s=seen_s, seen_bytes_per_s=rates[1]
    )
    if "clock-clamp" in claim.doubts:
        fault = Fault(CONTRADICTED, "CLOCK-CLAMP", (other, state(Code.CLOCK_CLAMPED)))
    elif _perhaps_held_up(seconds, seen_s) or (contended and seconds > seen_s):
        fault = Fault(INCOMPLETE, HELD_UP, (other, state(Code.DELAYED_OR_WRONG)))
    else:
        fault = Fault(CONTRADICTED, "OTHER-TIME", (other,))
    return [*faults, fault], [], numbers


def _perhaps_held_up(seconds: float, seen_s: float) -> bool:
    """Whether losing its processor may explain it: in a short interval whatever it does to the rate, in a longer one
    unless it halves it. A slower claim than the truth is nobody's boast, and is not called a lie without need."""
    if not 0 < seconds - seen_s <= tolerances.of("held_up_s"):
        return False
    return seen_s < tolerances.of("short_interval_s") or seconds < 1.9 * seen_s


def _held_back_s(claim: Claim, seen: Evidence) -> float:
    """What stdio's last buffer may take that is written when the file is synchronised or closed, after the clock."""
    if claim.engine != "stdio" or claim.kind != "write" or claim.includes:
        return 0.0
    span_s = _span(seen)
    return span_s if seen.calls.calls <= 2 else 2 * span_s / seen.calls.calls + seen.calls.max_ns * _NS


def _loose(
    faults: list[Fault],
    claim: Claim,
    seconds: float,
    group: Group,
    want: Expected,
    seen: Evidence,
    *,
    contended: bool,
) -> tuple[list[Fault], list[Statement], dict[str, float]]:
    """The tool's clock runs around its calls: no session may last longer, and it may be longer for good reasons.

    Nor may all sessions together, unless several processes have a clock each. What a tool leaves out of its interval
    it leaves out of its counts as well: where these are complete, so is the interval.
    """
    notes: list[Statement] = []
    skipped: Set[str] = _AROUND & {name for one in group.claims for name in one.unreported}
    skipped = skipped if surplus(want, seen) != (0, 0) else frozenset()
    sessions = _after_the_rest(group, want) if skipped else group.sessions
    longest_s = max((_span_of([part]) for part in _large(sessions, claim.kind)), default=0.0)
    longest_s = longest_s if group.told_apart else _span(seen)
    allowed = allowed_s(claim, seconds) + _in_flight_s(claim, seconds, seen)
    numbers = _numbers(seconds, longest_s, allowed)
    if skipped and longest_s > seconds + allowed:
        notes.append(state(Code.INTERVAL_WITH_MORE, parts=tuple(sorted(skipped))))
    elif seconds < longest_s / 2 and longest_s <= seconds + allowed:
        notes.append(state(Code.INTERVAL_TOO_SHORT, claimed_s=seconds, allowed_s=allowed))
    elif _are_shared(sessions, claim.kind) and _jobs_apart(claim, seconds, longest_s, allowed):
        notes += [state(Code.JOBS_APART, warns=True, claimed_s=seconds, seen_s=longest_s), _rate(longest_s, seconds)]
    elif longest_s > seconds + allowed and group.told_apart | (seen.source == "calls"):
        longer = state(Code.CALLS_LONGER, claimed_s=seconds, seen_s=longest_s)
        if contended and ("several-clocks" in claim.doubts or claim.engine in (AIO, URING)):
            faults = [*faults, Fault(INCOMPLETE, HELD_UP, (longer, state(Code.DELAYED_OR_WRONG)))]
        else:
            faults = [*faults, Fault(CONTRADICTED, "OTHER-TIME", (longer, _rate(longest_s, seconds)))]
    elif len(group.claims) > 1 or skipped:
        pass  # what passed between the sessions is between the intervals, or before them
    elif group.told_apart and _span_of(large := _large(group.sessions, claim.kind)) > seconds + allowed:
        paused, stopped = _pauses(claim, seconds, allowed, large, contended=contended)
        faults, notes = [*faults, *paused], [*notes, *stopped]
    elif seconds > _span(seen) + allowed + 0.05 * seconds:
        notes.append(state(Code.CLOCK_WIDER, claimed_s=seconds, seen_s=_span(seen)))
    return faults, notes, numbers


def _after_the_rest(group: Group, want: Expected) -> list[Session]:
    """The last sessions that hold what was claimed: what a tool leaves out (a layout, a pre-read) comes before."""
    kind = group.claims[0].kind
    kept = [session for session in group.sessions if calls_of(session, kind).calls]
    while len(kept) > 1:
        rest = [calls_of(session, kind) for session in kept[1:]]
        if sum(part.calls for part in rest) < (want.operations or 0) or sum(one.bytes for one in rest) < (
            want.bytes or 0
        ):
            break
        kept = kept[1:]
    return kept


def _are_shared(sessions: Sequence[Session], kind: str) -> bool:
    """Whether several tasks may have used one session, so that its span is that of several clocks."""
    patterns = [session.write_pattern if kind == "write" else session.read_pattern for session in sessions]
    return not patterns or any(pattern is None or pattern.switches for pattern in patterns)


def _pauses(
    claim: Claim, seconds: float, allowed: float, sessions: Sequence[Calls], *, contended: bool
) -> tuple[list[Fault], list[Statement]]:
    """Its file was opened several times, and what passed in between is not in the claimed interval."""
    seen_s = _span_of(sessions)
    if {"several-clocks", "among-others"} & set(claim.doubts):
        return [], []
    if "pauses" in claim.unreported or seen_s <= seconds + allowed + (len(sessions) - 1) * tolerances.of("reopened_s"):
        return [], [state(Code.CLOCK_STOPPED, warns=True, claimed_s=seconds, seen_s=seen_s)]
    left_out = state(Code.PAUSES_LEFT_OUT, claimed_s=seconds, sessions=len(sessions), seen_s=seen_s)
    if contended:
        return [Fault(INCOMPLETE, HELD_UP, (left_out, state(Code.DELAYED_OR_WRONG)))], []
    return [Fault(CONTRADICTED, "OTHER-TIME", (left_out, _rate(seen_s, seconds)))], []


def _jobs_apart(claim: Claim, seconds: float, seen_s: float, allowed: float) -> bool:
    """Whether several processes, each with its clock, explain that their calls took longer than the longest of them."""
    most_s = seconds + min(tolerances.of("several_clocks_s"), seconds)
    return "several-clocks" in claim.doubts and seconds + allowed < seen_s <= most_s


def _in_flight_s(claim: Claim, seconds: float, seen: Evidence) -> float:
    """How much later than the tool's clock its last requests may end, which were in flight when it stopped."""
    if claim.engine not in (AIO, URING):
        return 0.0
    return min(seen.calls.max_ns * _NS, tolerances.of("in_flight_share") * seconds)


def _rate(seen_s: float, claimed_s: float) -> Statement:
    return state(Code.RATE_TOO_HIGH, ratio=seen_s / claimed_s) if claimed_s else state(Code.NO_RATE)


def _span(seen: Evidence) -> float:
    return _span_of([seen.calls])


def _span_of(parts: Sequence[Calls]) -> float:
    return max(max(part.last_ns for part in parts) - min(part.first_ns for part in parts), 0) * _NS if parts else 0.0


def _large(sessions: Iterable[Session], kind: str) -> list[Calls]:
    """Without the least, which together moved next to nothing: a shell reads the script by which the tool starts."""
    parts = [part for session in sessions if (part := calls_of(session, kind)).completed]
    parts.sort(key=lambda part: part.bytes)
    sums = [*accumulate(part.bytes for part in parts)]
    least = min(tolerances.of("others_bytes"), tolerances.of("resolution") * max(sums, default=0))
    return [part for part, total in zip(parts, sums, strict=True) if total >= least]
