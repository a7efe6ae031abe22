"""Latencies: every printed one lies between bounds that follow from the kernel's histogram of the calls.

A tool reads its clock before the call and after it: a latency of its is longer than the kernel's, never shorter. What
it adds is its own cost for each call, and what it waited for a processor. `clat` and `slat` of engines that submit and
complete apart are parts of an operation's latency: fio takes the time of issue after io_submit returned, and with
SQPOLL its completion latencies are no times at all. They are bounded above alone, and their sum is the whole.

A latency matches where its bounds are close, and it lies between them. One that lies further up may be that of a tool
that waited for a processor within the outer interval of the call: from the return of the call before to the entry of
the next. It counts a wait as a whole or not at all, and so prints about what a call or an outer interval took. Such a
latency is not judged, and a note names it; where no outer intervals were seen, the tool's mean must have room for it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate, pairwise
from typing import NamedTuple

from ioassay.formats import conventions
from ioassay.records.observation import SYNC, Calls, Histogram, Session, merged
from ioassay.records.record import SEVERAL_ENGINES, Claim
from ioassay.verify import tolerances
from ioassay.verify.case import Case
from ioassay.verify.claim_groups import MAPPED, calls_of
from ioassay.verify.evidence import AIO, FILES, SPLICE, URING, VSYNC, kinds
from ioassay.verify.session_times import claimed_seconds
from ioassay.verify.verdict import (
    CONTRADICTED,
    HELD_UP,
    INCOMPLETE,
    MATCH,
    Code,
    Fault,
    Finding,
    Statement,
    state,
    when,
)

_ROUNDING_DOUBT = "whole-microseconds"
_LONGEST_SHARE = 1.1
"""Of the interval: a request that began before it may end in it."""
_PARTS = ("clat.", "slat.")
_SYNCS = "sync."
_PREFIXES = (*_PARTS, _SYNCS, "lat.")
_REAPED_LATER = (URING, "posixaio", SPLICE)
"""Engines whose requests end in the kernel, in another thread or with a further call, before the tool collects them."""
_ENDS = {"min": 0.0, "max": 1.0}
_EXACT = 1e-6
"""Of a share in decimals, times a number."""


class _Bounds(NamedTuple):
    """Between which latencies, in ns, a statistic lies, and how far below a tool may print it."""

    low_ns: float
    high_ns: float
    share: float


@dataclass(frozen=True)
class _Seen:
    """The kernel's latencies of a class of calls, of which `number` are the claim's."""

    number: int
    latency: Histogram
    others: Sequence[Calls]
    """Calls in the same histogram that are surely not the claim's."""
    unknown: int
    """Further calls in it that are not the claim's."""
    whole: Calls | None
    """The claim's calls and those that it leaves out, where no others are among them."""
    unseen: int = 0
    """Calls whose end was not seen: they may have taken any time."""
    outer: Histogram = field(default_factory=Histogram)
    """Outer intervals of these calls and maybe of others; none where they are no bounds."""
    ranks_apart: int = 1
    """Between definitions of a percentile."""

    @property
    def is_alone(self) -> bool:
        """Whether the histogram has these calls and no others."""
        return not self.others and not self.unknown and not self.unseen

    def bounds(self, share: float, delayed: int = 0) -> _Bounds:
        """Between which latencies, in ns, that of this share of the calls lies (0 the shortest, 1 the longest).

        The definitions of a percentile are at most one call apart (Hyndman and Fan, 1996). A tool that lost its
        processor printed longer times of `delayed` calls, at most.
        """
        rank, apart = math.ceil(share * self.number - _EXACT), self.ranks_apart if 0 < share < 1 else 0
        first, last = (min(max(one, 1), self.number) for one in (rank - apart, rank + apart))
        low = next((value for value, held in self._held(surely=True) if held >= first), 0)
        last += delayed
        high = next((value for value, held in self._held(surely=False) if held >= last <= self.number), math.inf)
        return _Bounds(low, high, tolerances.of("latency_bucket_share"))

    def most_ns(self, share: float, excess_ns: float) -> float:
        """What that of this share of the calls is at most, where a tool added so much to all of them together.

        All longer ones are at least as long: the excess raises as many of the longest calls as it takes.
        """
        shorter, calls, sum_ns = math.ceil(share * self.number - _EXACT) - 1, 0, excess_ns
        for value, held in zip(self.latency.values_ns, self.latency.up_to, strict=True):
            value_ns = value * (1 + tolerances.of("latency_bucket_share"))
            if calls and sum_ns / calls <= value_ns:
                break
            added = max(held - shorter - calls, 0)
            calls, sum_ns = calls + added, sum_ns + added * value_ns
        return sum_ns / calls if calls else math.inf

    def longest_ns(self, share: float) -> float:
        """What that of this share of the calls is at most, by its outer interval: others had the shortest ones."""
        rank = max(math.ceil(share * self.number - _EXACT), 1) + (self.ranks_apart if 0 < share < 1 else 0)
        others = max(sum(self.outer.counts) - self.number, 0)
        place = bisect_left(self.outer.up_to, min(rank, self.number) + others)
        return float([*self.outer.values_ns, math.inf][place])

    def _held(self, *, surely: bool) -> Iterable[tuple[int, int]]:
        """Each value, with the most or the fewest calls of the claim that took at most so long."""
        width = 1 + tolerances.of("latency_bucket_share")
        ends = sorted((one.max_ns if surely else one.min_ns, one.calls) for one in self.others)
        places, sums = [end for end, _ in ends], [0, *accumulate(calls for _, calls in ends)]
        for value, held in zip(self.latency.values_ns, self.latency.up_to, strict=True):
            apart = sums[bisect_right(places, value / width if surely else value * width)]
            yield value, held - apart + (self.unseen if surely else -self.unknown)


def judge_latency(case: Case) -> Finding | None:
    """None where no latency is claimed; those that were compared and found right are numbers `latency_match_…`."""
    if not any(claim.latency_ns for claim in case.claims):
        return None
    faults: list[Fault] = []
    notes: list[Statement] = []
    numbers: dict[str, float] = {}
    for claim in case.claims:
        # Longer than the interval: of what is only a part of an operation's latency, that is a warning.
        seconds = 0.0 if claim.kind == "keys" else claimed_seconds(claim) or 0.0
        longest_ns = (seconds * _LONGEST_SHARE + claim.clock_step_s + tolerances.of("loose_clock_s")) * 1e9
        longer = {name: ns for name, ns in claim.latency_ns.items() if seconds and ns > longest_ns}
        impossible = [
            state(Code.IMPOSSIBLE_LATENCY, warns=name.startswith(_PARTS), latency_ns=ns, name=name, interval_s=seconds)
            for name, ns in longer.items()
            if not name.startswith(_SYNCS)
        ]
        faults += [Fault(CONTRADICTED, "IMPOSSIBLE-LATENCY", (each,)) for each in impossible if not each.warns]
        faults += _disorder(claim)
        notes += [each for each in impossible if each.warns][:1]
        # With mapped files calls are those before it.
        if claim.latency_ns and claim.kind != "keys" and claim.engine not in (MAPPED, SEVERAL_ENGINES):
            found, untold = _compared(claim, case, numbers)
            faults, notes = [*faults, *found], [*notes, *untold]
    untimed = {Code.LATENCY_PARTIAL, Code.LATENCY_UNTIMED} & {note.code for note in notes}
    others = {name for note in notes if note.code == Code.LATENCY_UNKNOWN for name in note["names"]}
    known = {name: value for name, value in numbers.items() if name.removeprefix(MATCH) not in others}
    return Finding(faults, notes, known, judged=any(name.startswith(MATCH) for name in known) and not untimed)


def _disorder(claim: Claim) -> list[Fault]:
    """Percentiles ascend, from the shortest to the longest; submission and completion make up the whole."""
    ordered: dict[str, list[tuple[float, str]]] = {}
    for name in claim.latency_ns:
        prefix, statistic = _split(name)
        if (share := _share(statistic)) is not None and not (prefix in _PARTS and _has_parts(claim)):
            ordered.setdefault(prefix, []).append((share, name))
    slack = 1 + tolerances.of("latency_bucket_share")
    for names in ordered.values():
        for (_, low), (_, high) in pairwise(sorted(names)):
            low_ns, high_ns = claim.latency_ns[low], claim.latency_ns[high]
            if low_ns > high_ns * slack + 1000:
                why = state(Code.LATENCY_DISORDER, low=low, high=high, low_ns=low_ns, high_ns=high_ns)
                return [Fault(CONTRADICTED, "IMPOSSIBLE-LATENCY", (why,))]
        own = [f"{_split(names[0][1])[0]}{name}" for name in ("mean", "stddev", "max")]
        values = [claim.latency_ns.get(name) for name in own]
        mean_ns, spread_ns, most_ns = (value or 0.0 for value in values)
        spread_ns += claim.latency_step_ns.get(own[1], 0.0)
        number = math.inf if own[0].startswith(_SYNCS) else claim.operations or math.inf
        if all(values) and most_ns - mean_ns > spread_ns * math.sqrt(number) * slack + 1000:
            why = state(Code.LATENCY_SPREAD, mean_ns=mean_ns, spread_ns=spread_ns, most_ns=most_ns)
            return [Fault(CONTRADICTED, "IMPOSSIBLE-LATENCY", (why,))]
    parts_ns = [claim.latency_ns.get(f"{part}mean") or 0.0 for part in _PARTS]
    whole_ns, sum_ns = claim.latency_ns.get("mean", 0.0), sum(parts_ns)
    possible = sum_ns <= (claimed_seconds(claim) or math.inf) * 1e9  # of SQPOLL fio prints hours
    if whole_ns and parts_ns[1] and possible and abs(sum_ns - whole_ns) > (slack - 1) * whole_ns + 1000:
        return [Fault(INCOMPLETE, "OTHER-LATENCY", (state(Code.LATENCY_PARTS, sum_ns=sum_ns, whole_ns=whole_ns),))]
    return []


def _compared(claim: Claim, case: Case, numbers: dict[str, float]) -> tuple[list[Fault], list[Statement]]:
    seen, contended = case.seen, case.contended
    calls = _of_calls(claim, case)
    if calls is None:
        return [], [state(Code.LATENCY_UNTIMED)]
    numbers["latency_coverage"] = coverage = seen.calls.completed / seen.calls.calls if seen.calls.calls else 0.0
    if coverage < tolerances.of("coverage"):
        return [], [state(Code.LATENCY_PARTIAL, coverage=coverage)]
    syncs: _Seen | None = None
    if claim.syncs:
        whole = reduce(Calls.plus, (session.sync for session in case.group.sessions), Calls())
        alone = len(case.claims) == 1 and claim.syncs <= whole.completed
        others = [one.sync for one in _others(case)]
        syncs = _seen(claim, case, claim.syncs, (SYNC,), others, whole if alone else None)
    classes = {"": calls, _SYNCS: syncs}
    below, above, apart = list[Statement](), list[Statement](), list[Statement]()
    unknown: list[str] = []
    delayed = case.observation.counters.get("involuntary_switches", math.inf)
    for name, value_ns in claim.latency_ns.items():
        prefix, statistic = _split(name)
        own = classes.get(prefix, calls)
        bounds = _bounds(statistic, own) if own is not None else None
        if own is None or bounds is None:
            unknown.append(name)
            continue
        close = replace(own, ranks_apart=0) if conventions(claim.source).exact_ranks else own
        is_part = prefix in (*_PARTS, _SYNCS) and _has_parts(claim)
        low_ns, high_ns = _allowed(bounds, name, claim, is_part=is_part)
        if value_ns < low_ns and statistic != "stddev":
            below.append(state(Code.LATENCY_BELOW, name=name, claimed_ns=value_ns, seen_ns=bounds[0]))
        elif _is_close(value_ns, _bounds(statistic, close), name, claim, own, is_part=is_part):
            numbers[f"{MATCH}{name}"] = value_ns / bounds[0] if bounds[0] else 1.0
        else:
            unknown.append(name)
            if (prefix or not _begins_earlier(claim)) and value_ns > max(
                high_ns, _most_ns(name, own, claim, delayed, contended=contended)
            ):
                above.append(state(Code.LATENCY_ABOVE, name=name, claimed_ns=value_ns, seen_ns=bounds[1]))
            else:
                apart += _apart(value_ns, own, name, claim)
        if name == "mean":
            numbers |= {"claimed_latency_ns": value_ns, "seen_latency_ns": bounds[0]}
    below += _of_requests(claim, calls, numbers)
    faults = [Fault(CONTRADICTED, "OTHER-LATENCY", tuple(below[:1]))] if below else []
    notes = when(unknown, Code.LATENCY_UNKNOWN, names=tuple(unknown))
    if conventions(claim.source).syncs_timed and claim.kind != "read" and not claim.direct:
        above, apart = [], []
    if above and (claim.engine in _REAPED_LATER or (contended and claim.engine == AIO)):
        cause = Code.RING_COMPLETES_EARLY if claim.engine == URING else Code.WORK_BEFORE_CLOCK
        return faults, [above[0], state(cause), *notes]
    if above:
        faults.append(Fault(INCOMPLETE, HELD_UP, (above[0], state(Code.WORK_BEFORE_CLOCK))))
    elif apart:
        faults.append(Fault(INCOMPLETE, "OTHER-LATENCY", tuple(apart[:1])))
    return faults, notes


def _of_requests(claim: Claim, calls: _Seen, numbers: dict[str, float]) -> list[Statement]:
    """Each request that was printed, in the order of their length, against the kernel's."""
    if not claim.requests_ns or not calls.latency.values_ns:
        return []
    calls, matched = replace(calls, number=len(claim.requests_ns), ranks_apart=0), True
    for rank, value_ns in enumerate(sorted(claim.requests_ns), 1):
        bounds = calls.bounds(rank / calls.number)
        low_ns, _ = _allowed(bounds, "", claim, is_part=False)
        if value_ns < low_ns:
            return [state(Code.LATENCY_BELOW, name="requests", claimed_ns=value_ns, seen_ns=bounds.low_ns)]
        matched = matched and _is_close(value_ns, bounds, "", claim, calls, is_part=False)
    if matched:
        numbers[f"{MATCH}requests"] = 1.0
    return []


def _is_close(value_ns: float, bounds: _Bounds | None, name: str, claim: Claim, calls: _Seen, *, is_part: bool) -> bool:
    """Whether it is the kernel's and the tool's own cost, of which its mean is a measure, and could be little else."""
    if bounds is None:
        return False
    mean_ns, whole = claim.latency_ns.get(f"{_split(name)[0]}mean", 0.0), calls.whole
    own_ns = mean_ns - whole.sum_ns / whole.completed if whole and whole.completed else math.inf
    cost_ns = min(max(own_ns, tolerances.of("latency_below_ns")), tolerances.of("latency_ns"))
    step_ns = _rounding_ns(name, claim)
    low_ns, _ = _allowed(bounds, name, claim, is_part=is_part)
    high_ns = bounds.high_ns * (1 + bounds.share) + cost_ns + step_ns
    return low_ns <= value_ns <= high_ns <= tolerances.of("latency_width") * low_ns + 2 * step_ns


def _apart(value_ns: float, calls: _Seen, name: str, claim: Claim) -> list[Statement]:
    """A latency of one operation that no call or outer interval is near, but for what the tool does around each."""
    statistic = _split(name)[1]
    is_of_one = statistic == "max" or (_share(statistic) is not None and conventions(claim.source).exact_ranks)
    seen_ns = merged((calls.latency, calls.outer)).values_ns
    nearest_ns = min(seen_ns, key=lambda one: abs(one - value_ns), default=math.inf)
    loose_ns = tolerances.of("latency_bucket_share") * value_ns + tolerances.of("latency_ns")
    loose_ns += tolerances.of("interrupt_ns")
    loose_ns += max(calls.longest_ns(share) - calls.bounds(share).low_ns for share in (0.0, 0.5, 0.9))
    is_apart = abs(nearest_ns - value_ns) > loose_ns + _rounding_ns(name, claim)
    found = is_of_one and calls.outer.counts and is_apart
    return when(found, Code.LATENCY_APART, name=name, claimed_ns=value_ns, seen_ns=nearest_ns)


def _of_calls(claim: Claim, case: Case) -> _Seen | None:
    """The calls of the claim; None where single ones were not timed, or are no operations of it."""
    group, seen, number = case.group, case.seen, claim.latency_operations or claim.operations
    if not seen.timed or not seen.calls.completed or not number:
        return None
    of_files = seen.source == FILES
    alone = len(group.claims) == 1 and (of_files or claim.operations == seen.operations)
    whole = seen.calls if alone and number <= seen.calls.calls else None
    others = _others(case) if of_files else []
    return _seen(claim, case, number, kinds(claim.kind), [calls_of(one, claim.kind) for one in others], whole)


def _others(case: Case) -> list[Session]:
    kept = {id(session) for session in case.group.sessions}
    return [session for session in case.observation.sessions if id(session) not in kept]


def _seen(
    claim: Claim, case: Case, number: int, classes: Sequence[str], others: Sequence[Calls], whole: Calls | None
) -> _Seen | None:
    watched, operations = case.observation, claim.syncs if SYNC in classes else claim.operations
    parts = [part for part in watched.operations if part.kind in classes]
    latency = merged(part.latency for part in parts)
    unseen = sum(part.calls.calls - part.calls.completed for part in parts)
    total, others = sum(latency.counts), [one for one in others if one.completed]
    unknown = total - number - sum(one.calls for one in others)
    if total < number * tolerances.of("coverage") or (unknown < 0 and whole is None):
        return _Seen(number, Histogram(), (), 0, whole) if whole else None
    # An outer interval bounds an operation that is one call.
    waits = whole and whole.completed == operations and claim.engine not in (AIO, VSYNC, *_REAPED_LATER)
    outer = merged(watched.outer_intervals.get(kind, Histogram()) for kind in classes if waits)
    return _Seen(number, latency, others, max(unknown, 0), whole, unseen, outer)


def _bounds(statistic: str, calls: _Seen) -> _Bounds | None:
    """Those of a statistic of the claim's calls; None where they are not known."""
    whole, share = calls.whole, _share(statistic)
    apart, exact = max(whole.completed - calls.number, 0) if whole else 0, tolerances.of("latency_below_share")
    if statistic == "mean" and whole:
        least, most = (whole.sum_ns - apart * one for one in (whole.max_ns, whole.min_ns))
        number = whole.completed - apart
        return _Bounds(max(least / number, whole.min_ns), min(most / number, whole.max_ns), exact)
    if whole and not apart and share in _ENDS.values():
        end_ns = whole.max_ns if share else whole.min_ns
        return _Bounds(end_ns, end_ns, exact)
    if statistic == "stddev" and calls.latency.values_ns and whole and not apart and calls.is_alone:
        deviation_ns = calls.latency.deviation_ns(whole.sum_ns / whole.completed)
        return _Bounds(deviation_ns, deviation_ns, tolerances.of("latency_bucket_share"))
    return calls.bounds(share) if calls.latency.values_ns and share is not None else None


def _most_ns(name: str, calls: _Seen, claim: Claim, delayed: float, *, contended: bool) -> float:
    """What a tool may print within the outer intervals that was delayed so often, and has such a mean."""
    prefix, statistic = _split(name)
    share, whole = _share(statistic), calls.whole
    delayed += tolerances.of("interrupted_share") * calls.number
    if share is None or not calls.latency.values_ns:
        return math.inf if contended or statistic == "stddev" or share is not None else 0.0
    outer_ns = calls.longest_ns(share) if calls.outer.counts else math.inf
    high_ns = outer_ns * (1 + tolerances.of("latency_bucket_share")) + _rounding_ns(name, claim)
    if delayed < calls.number:
        late_ns = calls.bounds(share, math.ceil(delayed) if share else 0).high_ns
        high_ns = min(high_ns, late_ns * (1 + tolerances.of("latency_share")) + tolerances.of("latency_ns"))
    mean_ns = claim.latency_ns.get(f"{prefix}mean")
    if mean_ns and whole and whole.completed == calls.number and calls.is_alone:
        excess_ns = (mean_ns + tolerances.of("latency_below_ns")) * calls.number - whole.sum_ns
        high_ns = min(high_ns, calls.most_ns(share, max(excess_ns, 0.0)))
    return high_ns


def _split(name: str) -> tuple[str, str]:
    """'clat.p99.9' as 'clat.' and 'p99.9'."""
    prefix = next((one for one in _PREFIXES if name.startswith(one)), "")
    return prefix, name.removeprefix(prefix)


def _share(statistic: str) -> float | None:
    """The share of the calls that are no longer than a percentile, the least or the longest; None of anything else."""
    if statistic in _ENDS:
        return _ENDS[statistic]
    number = statistic.removeprefix("p")
    return float(number) / 100 if statistic.startswith("p") and number.replace(".", "", 1).isdecimal() else None


def _has_parts(claim: Claim) -> bool:
    """Whether submission and completion are told apart: `clat` is the whole otherwise."""
    return claim.engine in (AIO, URING) or claim.latency_ns.get("slat.mean", 0.0) > 0


def _begins_earlier(claim: Claim) -> bool:
    """Whether `lat` holds work before the call: its mean and its shortest exceed those of `clat`, and not one alone."""
    names = ("mean", "min") if "clat.min" in claim.latency_ns and not _has_parts(claim) else ()
    gaps_ns = [claim.latency_ns.get(name, 0.0) - claim.latency_ns.get(f"clat.{name}", 0.0) for name in names]
    return min(gaps_ns, default=0.0) > tolerances.of("latency_below_ns")


def _allowed(bounds: _Bounds, name: str, claim: Claim, *, is_part: bool) -> tuple[float, float]:
    """What may be printed for a latency between these."""
    below_ns = bounds.share * bounds.low_ns + tolerances.of("latency_below_ns")
    high_ns = bounds.high_ns * (1 + tolerances.of("latency_share")) + tolerances.of("latency_ns")
    rounding_ns = _rounding_ns(name, claim)
    return (0.0 if is_part else bounds.low_ns - below_ns - rounding_ns), high_ns + rounding_ns


def _rounding_ns(name: str, claim: Claim) -> float:
    return claim.latency_step_ns.get(name, 1000.0 if _ROUNDING_DOUBT in claim.doubts else 0.0)
