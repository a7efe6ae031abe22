"""Patterns and working sets: liars of every class are contradicted, and what is not known accuses nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioassay.formats import stated_claim
from ioassay.records.observation import Calls, File, Observation, Pattern, Session
from ioassay.records.record import Claim
from ioassay.verify.judge import judge
from ioassay.verify.statement import Code
from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED, Verdict

from .conftest import table

MIB, RECORD = 1 << 20, 4096
SET = 16 * MIB
N = SET // RECORD

SEQUENTIAL = Pattern(N, N - 1, stride_bytes=RECORD, stride_calls=N - 1, unique_bytes=SET, highest_bytes=SET)
ONE_BLOCK = Pattern(N, 0, N - 1, N - 1, 0, N - 1, RECORD, highest_bytes=RECORD)
FIRST_MIB = Pattern(N, N - 16, 15, N - 256, RECORD, N - 16, MIB, highest_bytes=MIB)
SHUFFLED = Pattern(N, 40, 0, 0, unique_bytes=SET, highest_bytes=SET)
DRAWN = Pattern(N, 1, 1, N // 3, unique_bytes=int(SET * 0.632), highest_bytes=SET)
SMALL_SET = Pattern(N, 16, 16, N - 256, unique_bytes=MIB, highest_bytes=MIB)
STRIDED = Pattern(N, 0, 0, 0, 17 * RECORD, N - 17, SET, highest_bytes=SET)
BACKWARD = Pattern(N, 0, 0, 0, -RECORD, N - 1, SET, highest_bytes=SET)


def seen(*patterns: Pattern | None, file: int = 0, kind: str = "read") -> Observation:
    """One session for each, one after the other; `file` says how many files they are spread over."""
    sessions = []
    for place, pattern in enumerate(patterns):
        number = pattern.calls if pattern else N
        calls = Calls(number, number, 0, 0, number * RECORD, number * RECORD, 10 * place + 1, 10 * place + 9, 8, 1, 1)
        which = {f"{kind}_pattern": pattern, kind: calls}
        sessions.append(Session(place if file else 0, 10 * place, 10 * place + 9, ["read", "write"], **which))  # type: ignore[arg-type]
    files = [File(at, "0:1", 5 + at, f"/data{at or ''}", "regular", "tmpfs") for at in range(len(patterns))]
    layers = ("block", "syscalls", "aio", "uring")
    return Observation("bpf", "syscalls", layers, held_ns=1, ended_ns=10**12, files=files, sessions=sessions)


def verdict(claim: str | Claim, observation: Observation) -> Verdict:
    if isinstance(claim, str):
        claim = stated_claim.parse(f"path=/data,{claim}")
    (found,) = judge([claim], observation)
    return found


def codes(found: Verdict) -> set[Code]:
    return {statement.code for statement in (*found.explanation, *found.notes)}


PATTERNS = {
    "sequential": SEQUENTIAL, "one_block": ONE_BLOCK, "first_mib": FIRST_MIB, "shuffled": SHUFFLED, "drawn": DRAWN,
    "small_set": SMALL_SET, "strided": STRIDED, "backward": BACKWARD,
}  # fmt: skip


def pattern_of(name: str | None, changed: dict[str, int] | None = None) -> Pattern | None:
    return None if name is None else replace(PATTERNS[name], **(changed or {}))


RANDOM_16 = "ops=4096,pattern=random,working_set=16MiB"


@table("access_pattern", "liars_are_contradicted")
def test_liars_are_contradicted(claim: str, pattern: str, changed: Any, reason: str) -> None:
    did = pattern_of(pattern, changed)
    found = verdict(claim, seen(did))
    assert (found.category, found.reason) == (CONTRADICTED, reason)
    written = replace(stated_claim.parse(f"path=/data,{claim}"), kind="write")
    assert verdict(written, seen(did, kind="write")).reason == reason


@table("access_pattern", "honest_claims_are_confirmed_with_what_they_rest_on")
def test_honest_claims_are_confirmed_with_what_they_rest_on(claim: str, pattern: str) -> None:
    did = PATTERNS[pattern]
    found = verdict(claim, seen(did))
    assert found.category.startswith(CONFIRMED)
    assert Code.ACCESS_SEEN in codes(found)
    assert found.numbers["sequential_share"] == pytest.approx(did.sequential / (N - 1))
    assert found.numbers["unique_bytes_at_most"] == did.unique_bytes


@table("access_pattern", "what_is_not_known")
def test_what_is_not_known_leaves_a_stated_claim_incomplete(claim: str, pattern: Any, changed: Any, code: str) -> None:
    found = verdict(claim, seen(pattern_of(pattern, changed)))
    assert (found.category, found.reason) == (INCOMPLETE, "PATTERN-UNKNOWN")
    assert Code(code) in codes(found)


@table("access_pattern", "what_is_not_known")
def test_what_is_not_known_says_nothing_of_what_options_imply(
    claim: str, pattern: Any, changed: Any, code: str
) -> None:
    implied = replace(stated_claim.parse(f"path=/data,{claim}"), source="fio")
    assert (
        verdict(replace(implied, bytes=None, seconds=None), seen(pattern_of(pattern, changed))).category != INCOMPLETE
    )


def test_one_random_order_of_few_places_that_is_repeated_is_random() -> None:
    sixteen = Pattern(16_000, 5_000, 1_000, 15_984, RECORD, 5_000, 16 * RECORD, highest_bytes=16 * RECORD)
    found = verdict("ops=16000,pattern=random,working_set=64KiB", seen(sixteen))
    assert found.category.startswith(CONFIRMED)
    found = verdict("ops=16000,pattern=random,working_set=64KiB", seen(replace(sixteen, sequential=15_000)))
    assert found.reason == "OTHER-PATTERN"


def test_other_programs_on_the_file_accuse_nobody() -> None:
    claim = Claim("fio", "read", operations=N, bytes=SET, paths=("/data",), pattern="random", working_set_bytes=SET)
    assert verdict(claim, seen(SEQUENTIAL)).reason == "OTHER-PATTERN"
    for field in ({"doubts": ("among-others",)}, {"unreported": ("pre-read",)}):
        assert verdict(replace(claim, **field), seen(SEQUENTIAL)).category.startswith(CONFIRMED)  # type: ignore[arg-type]


def test_a_file_that_is_opened_for_each_call_is_judged_by_all_of_them() -> None:
    def one(place: int) -> Pattern:
        offset = place * RECORD
        return Pattern(1, unique_bytes=RECORD, lowest_bytes=offset, highest_bytes=offset + RECORD)

    def reason(places: Any, claim: str = "ops=256,pattern=random,working_set=1MiB") -> str:
        return verdict(claim, seen(*map(one, places))).reason

    assert reason(range(256)) == "OTHER-PATTERN"
    assert reason([0] * 256) == "OTHER-WORKING-SET"
    assert reason(list(range(16)) * 16) in ("OTHER-PATTERN", "OTHER-WORKING-SET")
    assert reason([place * 17 % 257 for place in range(256)]) == "OTHER-PATTERN"
    assert reason([place * place * 31 % 256 for place in range(256)], "ops=256,pattern=sequential") == "OTHER-PATTERN"
    assert reason([(place * 97 + place**2 * 60) % 256 for place in range(256)]) not in ("OTHER-PATTERN",)


def test_jobs_on_one_file_and_on_their_own_are_added_up() -> None:
    quarter = replace(SHUFFLED, calls=N // 4, sequential=9, unique_bytes=SET // 4)
    assert verdict(RANDOM_16, seen(*[quarter] * 4)).category.startswith(CONFIRMED)
    part = replace(FIRST_MIB, calls=N // 4, sequential=0, stride_calls=0, stride_bytes=0)
    assert verdict(RANDOM_16, seen(*[part] * 4)).reason == "OTHER-WORKING-SET"  # end to end, they are 1 MiB
    apart = stated_claim.parse("path=/data:/data1,ops=8192,pattern=random,working_set=32MiB")
    assert verdict(apart, seen(SHUFFLED, SHUFFLED, file=1)).category.startswith(CONFIRMED)


def test_no_call_is_no_pattern() -> None:
    found = verdict("pattern=random", replace(seen(SHUFFLED), sessions=[]))
    assert found.category == UNSUBSTANTIATED and Code.NO_CALL_ON_FILES in codes(found)


def test_reads_and_writes_of_one_file_in_turn_are_no_sequence() -> None:
    both = seen(SEQUENTIAL)
    session = replace(both.sessions[0], write=both.sessions[0].read, write_pattern=SHUFFLED)
    mixed = replace(both, sessions=[session])
    assert verdict("kind=mixed,pattern=sequential", mixed).reason == "PATTERN-UNKNOWN"
    assert verdict("kind=mixed,ops=8192,pattern=random", mixed).reason == "OTHER-PATTERN"
