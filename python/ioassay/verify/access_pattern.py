"""Pattern and working set: did the calls go where the claim says?

Judged by the offsets that the witness kept of each session (`observation.Pattern`). Counts of what was touched are
upper bounds, sums over sessions as well, so that a claim is contradicted only where too little was touched whatever the
granules hide. Where offsets, their order or the calls behind an operation are not known, nothing is contradicted: a
claim that the user states is INCOMPLETE then, and one that was derived from a tool's options is not judged.

Deliberately not here: how random the offsets are beyond that, and what of skewed distributions can be said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ioassay.records.observation import READ, WRITE, Calls, Pattern
from ioassay.records.record import BACKWARD, RANDOM, SEQUENTIAL, STRIDED
from ioassay.verify import tolerances
from ioassay.verify.case import Case, total
from ioassay.verify.claim_groups import MIXED, TRIM, Group
from ioassay.verify.verdict import CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED, Code, Fault, Finding, state

_DEVIATIONS = 6
"""A random tool is further off than so many standard deviations once in 10^9 runs."""
_CONTINUED_BY_CHANCE = 2 / 3
"""Of random calls on new places, so many have a touched place right before them once all places are touched: of two
neighbours either may come first (1/2), and fio takes the next free one where a random one was used."""
_OCCUPANCY_VARIANCE = 0.15
"""Of the number of different boxes hit, a box: at most so much, whatever the number of draws (Feller, vol. I, IV.2)."""
_SMALL_FILE_SHARE = 0.05
"""Of what the largest file moved, where no file is named: smaller ones may be a program's own."""


@dataclass(frozen=True)
class _Part:
    file: int
    calls: Calls
    pattern: Pattern


class _Access:
    """What the calls of these parts come to, of claims of so many operations on records of one size."""

    def __init__(
        self, parts: Sequence[_Part], operations: int | None, record_bytes: int | None, *, both_ways: bool
    ) -> None:
        self.parts, self.operations = parts, operations
        self.both_ways = both_ways
        """Reads and writes, whose order among each other is not known."""
        patterns = [part.pattern for part in parts]
        self.calls, self.bytes = sum(one.calls for one in patterns), sum(part.calls.bytes for part in parts)
        # Neighbours in time, of a file that is opened again for each call.
        singles = [part for part in parts if part.pattern.calls == 1]
        singles.sort(key=lambda part: (part.file, part.calls.first_ns))
        reopened = [(before.pattern, after.pattern) for before, after in pairwise(singles) if before.file == after.file]
        self.followers = self.calls - len(parts) + len(reopened)
        """Calls that have one before them, in their session or where each session is one call."""
        self.sequential = sum(one.sequential for one in patterns)
        self.sequential += sum(after.lowest_bytes == before.highest_bytes for before, after in reopened)
        lowest = min((one.lowest_bytes for pair in reopened for one in pair), default=0)
        rewinds = sum(after.lowest_bytes == lowest != before.highest_bytes for before, after in reopened)
        self.in_order = self.sequential + sum(one.rewinds for one in patterns) + rewinds
        """Sequential calls, and those that began again at the beginning."""
        strides = Counter(after.lowest_bytes - before.lowest_bytes for before, after in reopened)
        self.strided = sum(one.stride_calls for one in patterns if one.stride_bytes)
        self.strided += max((number for stride, number in strides.items() if stride), default=0)
        """Calls at the most frequent distance of their session, which is not 0."""
        slack, least_bytes = tolerances.of("pattern_unsure"), self.calls * (record_bytes or math.inf)
        as_many = bool(operations) and abs(self.calls - (operations or 0)) <= slack * (operations or 0)
        self.one_by_one = as_many or self.bytes >= (1 - slack) * least_bytes
        self.draw_bytes = self.bytes / max(self.calls if self.one_by_one else self.calls - self.sequential, 1)
        """What one operation moves: a call, or a run of calls where it may be several."""
        files: dict[int, list[_Part]] = {}
        for part in parts:
            files.setdefault(part.file, []).append(part)
        self.files = list(files.values())
        """The parts of each."""
        unique = [[part.pattern.unique_bytes for part in own] for own in self.files]
        self.most_touched = sum(min(sum(each), _span(own)) for each, own in zip(unique, self.files, strict=True))
        """Different bytes, at most: of each file the sum of its sessions, and no more than from end to end."""
        surely = [[part.pattern.unique_bytes - part.pattern.error_bytes for part in own] for own in self.files]
        self.least_touched = sum(map(max, surely))
        """Different bytes, at least: of each file those of its largest session."""
        self.numbers: dict[str, float] = {
            "sequential_share": self.sequential / self.followers if self.followers else 0.0,
            "stride_share": self.strided / self.followers if self.followers else 0.0,
            "reuse_share": sum(one.reused for one in patterns) / self.calls if self.calls else 0.0,
            "unique_bytes_at_most": self.most_touched,
            "unique_bytes_at_least": self.least_touched,
        }


def _span(parts: Sequence[_Part]) -> int:
    lowest = min(part.pattern.lowest_bytes for part in parts)
    return max(part.pattern.highest_bytes for part in parts) - lowest


def judge_pattern(case: Case) -> Finding | None:
    """None where no order and no working set is claimed."""
    if not case.is_pattern_claimed:
        return None
    patterns, sets = {claim.pattern for claim in case.claims}, {claim.working_set_bytes for claim in case.claims}
    pattern, working_set = patterns.pop() if len(patterns) == 1 else "", sets.pop() if len(sets) == 1 else None
    if not pattern and working_set is None:
        return Finding(judged=False)
    stated = any(claim.source == "user" for claim in case.claims)
    parts = _parts(case.group)
    if unknown := _unknown(case.group, parts):
        return Finding([unknown] if stated else [], judged=False)
    group, records = case.group, {claim.record_bytes for claim in case.claims}
    access = _Access(
        [part for part in parts if part is not None],
        total([claim.operations for claim in case.claims]),
        records.pop() if len(records) == 1 else None,
        both_ways=case.claim.kind == MIXED and len(parts) > len(group.sessions),
    )
    faults = [*_judge_order(pattern, access), *_judge_extent(pattern, working_set, access)]
    contradictions = [fault for fault in faults if fault.category == CONTRADICTED]
    faults = contradictions or (faults if stated else [])
    sequential = access.numbers["sequential_share"]
    seen = state(Code.ACCESS_SEEN, calls=access.calls, unique_bytes=access.most_touched, sequential=sequential)
    return Finding(faults[:1], [seen] if stated and not faults else [], access.numbers)


def _parts(group: Group) -> list[_Part | None]:
    """The sessions that moved something, None for one without offsets; of files that are not named, large ones."""
    kind = group.claims[0].kind
    reads = [(one.file, one.read, one.read_pattern) for one in group.sessions if kind in (READ, MIXED)]
    writes = [(one.file, one.write, one.write_pattern) for one in group.sessions if kind in (WRITE, MIXED)]
    found = [part for part in (*reads, *writes) if part[1].bytes]
    if not group.named and not group.one_pass:
        volumes: Counter[int] = Counter()
        for file, calls, _ in found:
            volumes[file] += calls.bytes
        least = _SMALL_FILE_SHARE * max(volumes.values(), default=0)
        found = [part for part in found if volumes[part[0]] >= least]
    return [None if pattern is None else _Part(file, calls, pattern) for file, calls, pattern in found]


def _unknown(group: Group, parts: Sequence[_Part | None]) -> Fault | None:
    if group.claims[0].kind == TRIM or not group.told_apart or None in parts:
        return _incomplete(Code.OFFSETS_UNWATCHED)
    if not parts:
        return Fault(UNSUBSTANTIATED, "NOTHING-SEEN", (state(Code.NO_CALL_ON_FILES),))
    known = [part.pattern for part in parts if part is not None]
    if any("among-others" in claim.doubts or "pre-read" in claim.unreported for claim in group.claims):
        return _incomplete(Code.OFFSETS_OF_OTHERS)
    calls = sum(pattern.calls for pattern in known)
    if sum(pattern.unsure for pattern in known) > tolerances.of("pattern_unsure") * calls:
        return _incomplete(Code.OFFSETS_UNSURE)
    return None


def _incomplete(code: Code) -> Fault:
    return Fault(INCOMPLETE, "PATTERN-UNKNOWN", (state(code),))


def _judge_order(pattern: str, access: _Access) -> list[Fault]:
    if not pattern:
        return []
    if access.followers < tolerances.of("pattern_calls"):
        return [_incomplete(Code.TOO_FEW_CALLS)]
    shares = {"sequential": access.numbers["sequential_share"], "stride": access.numbers["stride_share"]}
    seen: dict[str, Any] = {"pattern": pattern, "calls": access.calls, **shares}
    other = Fault(CONTRADICTED, "OTHER-PATTERN", (state(Code.ACCESS_OTHER, **seen),))
    unclear = Fault(INCOMPLETE, "PATTERN-UNKNOWN", (state(Code.ACCESS_UNCLEAR, **seen),))
    if pattern == RANDOM and (regular := _judge_random(access, other, unclear)):
        return regular  # random calls of several tasks are none the more regular
    switches = sum(part.pattern.switches for part in access.parts)
    if switches > tolerances.of("pattern_unsure") * access.calls or (access.both_ways and pattern != RANDOM):
        return [_incomplete(Code.ORDER_UNKNOWN)]
    if pattern == RANDOM:
        return []
    share = access.followers * tolerances.of("pattern_share")
    if pattern == SEQUENTIAL:
        jumps = access.followers - access.in_order
        return [] if jumps <= share else [other if jumps > access.followers / 2 else unclear]
    if pattern in (BACKWARD, STRIDED) and access.sequential > access.followers - share:
        return [other]
    forward = any(part.pattern.stride_bytes > 0 for part in access.parts)
    return [unclear] if access.strided < access.followers - share or (pattern == BACKWARD and forward) else []


def _judge_random(access: _Access, other: Fault, unclear: Fault) -> list[Fault]:
    """Of random operations few are sequential or at one distance, as few as there are places to go to.

    A tool may repeat one random order (fio's loops do): no more calls are by chance than there are places.
    """
    regular = max(access.sequential, access.strided)
    # So many follow the one before by chance: as often as one place of all is drawn.
    expected = sum(
        min(part.pattern.calls, part.calls.bytes / max(_span([part] if part.pattern.calls > 1 else parts), 1))
        for parts in access.files
        for part in parts
    )
    share = min(expected / access.calls + tolerances.of("pattern_share"), 1.0)
    draws = max(min(access.followers, access.most_touched * access.calls / access.bytes), 1.0)
    if regular <= access.followers * (share + _DEVIATIONS * math.sqrt(share * (1 - share) / draws)):
        # Sequential streams in turns: each of their calls is on a new place, right behind one that was touched.
        fresh = sum(part.pattern.fresh for part in access.parts)
        continued = sum(part.pattern.continued for part in access.parts)
        chance = _CONTINUED_BY_CHANCE
        most = fresh * chance + _DEVIATIONS * math.sqrt(fresh * chance * (1 - chance))
        if not access.one_by_one or continued <= most:
            return []
        seen = state(Code.ACCESS_STREAMS, fresh=fresh, continued=continued / fresh)
        return [Fault(CONTRADICTED, "OTHER-PATTERN", (seen,))]
    if access.one_by_one or regular == access.followers:
        # fio takes the next free block where a random one was used: in small files more are sequential than by chance.
        return [other if regular > access.followers / 2 else unclear]
    return [_incomplete(Code.CALLS_OF_AN_OPERATION)]


def _judge_extent(pattern: str, working_set: int | None, access: _Access) -> list[Fault]:
    if working_set is None:
        single = pattern in (RANDOM, SEQUENTIAL) and access.calls > 1 and access.most_touched <= access.draw_bytes
        return [_incomplete(Code.ONE_PLACE)] if single else []
    slack = tolerances.of("working_set_share")
    calls = min(access.calls, access.operations or access.calls)  # an operation may be several, as by splice(2)
    rest = access.bytes / calls * len(access.files)  # of those that the ends of files fill up or leave out
    if access.least_touched > working_set * (1 + slack) + rest:
        larger = state(Code.WORKING_SET_LARGER, claimed_bytes=working_set, unique_bytes=access.least_touched)
        return [Fault(CONTRADICTED, "OTHER-WORKING-SET", (larger,))]
    # What such calls touch of a working set, and its standard deviation; of random draws with replacement.
    expected: float = working_set
    deviation = 0.0
    if pattern and pattern != RANDOM:
        expected = min(sum(max(part.calls.bytes for part in parts) for parts in access.files), working_set)
    else:
        draw = max(min(access.draw_bytes, working_set), 1.0)
        places, draws = working_set / draw, access.bytes / draw
        expected *= -math.expm1(draws * math.log1p(-1 / places)) if places > 1 else 1
        deviation = draw * math.sqrt(_OCCUPANCY_VARIANCE * min(places, draws))
    if access.most_touched >= expected * (1 - slack) - _DEVIATIONS * deviation - rest:
        return []
    smaller = state(Code.WORKING_SET_SMALLER, claimed_bytes=working_set, expected_bytes=int(expected),
                    unique_bytes=access.most_touched)  # fmt: skip
    return [Fault(CONTRADICTED, "OTHER-WORKING-SET", (smaller,))]
