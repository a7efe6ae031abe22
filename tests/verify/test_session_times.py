"""Claimed intervals against those of the calls: where each answer begins."""

from __future__ import annotations

from typing import Any

import pytest

from ioassay.records.observation import Calls, Observation, Session
from ioassay.records.record import Claim
from ioassay.verify import session_times
from ioassay.verify.claim_groups import Group
from ioassay.verify.evidence import FILES, Evidence
from ioassay.verify.session_times import accountings, claimed_seconds

from .conftest import table

SECOND = 10**9
SIZE, COUNT = 1_000_000, 1000
WATCHED = Observation("bpf", "syscalls", ("syscalls",), held_ns=SECOND, ended_ns=101 * SECOND)


def calls(seconds: float, begin_ns: int = 2 * SECOND, each_ns: int = 1000, number: int = COUNT) -> Calls:
    last_ns = begin_ns + round(seconds * SECOND)
    return Calls(number, number, 0, 0, SIZE, SIZE, begin_ns, last_ns, number * each_ns, each_ns, each_ns)


def claim(seconds: float | None, source: str = "iozone", **fields: Any) -> Claim:
    return Claim(source, **{"kind": "read", "operations": COUNT, "bytes": SIZE, "seconds": seconds, **fields})


USUAL: dict[str, Any] = {
    "tool": "iozone", "took_s": 1.0, "number": COUNT, "each_ns": 1000, "source": FILES, "told_apart": True,
    "contended": False,
}  # fmt: skip
"""Of a row: what runs, for how long, its calls, how long each takes, and what is known of them. The rest is claimed."""


@table(
    "session_times",
    "the_clock_of_a_pass_runs_from_its_first_call_to_its_last",
    "of_few_records_the_last_may_take_most_of_the_time",
    "a_tool_that_was_perhaps_held_up",
    "clocks_around_calls_may_be_longer_and_not_shorter",
    "requests_in_flight_may_end_after_the_clock",
    "a_tool_that_lost_its_processor_is_incomplete_at_most",
    "totals_of_calls_have_a_span_and_those_of_a_process_have_none",
)
def test_times(seconds: float, fields: Any, wanted: str) -> None:
    """The reason of the fault; without one 'note' where there is a note, else ''."""
    of, claimed = {**USUAL, **fields}, {name: value for name, value in fields.items() if name not in USUAL}
    done = calls(of["took_s"], each_ns=of["each_ns"], number=of["number"])
    session = Session(0, SECOND, 0, read=done, write=done, ended_ns=done.last_ns)
    made = claim(seconds, of["tool"], **{"operations": of["number"], **claimed})
    group = Group([0], [made], of["told_apart"], [session], one_pass=True)
    seen = Evidence(of["source"], of["number"], SIZE, calls=done, timed=True)
    faults, notes, _ = session_times.judge_times(group, seen, WATCHED, contended=of["contended"])
    assert (faults[0].reason if faults else "note" * bool(notes)) == wanted


def loose(*begins_s: float, contended: bool = False, **fields: Any) -> tuple[str, str]:
    """Category and reason for sessions of a second each, or whether there is a warning, of a claim of three seconds."""
    parts = [calls(1.0, begin_ns=round((2 + begin) * SECOND)) for begin in begins_s]
    total = Calls()
    for part in parts:
        total = total.plus(part)
    sessions = [Session(0, part.first_ns, part.last_ns, read=part) for part in parts]
    group = Group([0], [claim(3.0, "fio", **fields)], True, sessions)
    seen = Evidence(FILES, total.calls, total.bytes, calls=total, timed=True)
    faults, notes, _ = session_times.judge_times(group, seen, WATCHED, contended=contended)
    warned = any(note.warns for note in notes)
    return (faults[0].category, faults[0].reason) if faults else ("", "warning" * warned)


@table("session_times", "pauses_between_sessions_are_in_the_interval")
def test_pauses_between_sessions_are_in_the_interval(begins_s: Any, fields: Any, wanted: object) -> None:
    assert loose(*begins_s, **(fields or {})) == wanted


@table("session_times", "impossible_times")
def test_impossible_times(fields: dict[str, Any], reason: str) -> None:
    faults = session_times.impossible(claim(**{"seconds": 1.0, **fields}), WATCHED)
    assert [fault.reason for fault in faults] == ([reason] if reason else [])
    life_unknown = Observation("bpf", "syscalls", (), held_ns=0, ended_ns=SECOND)
    assert session_times.impossible(claim(1e9), life_unknown) == []


def test_the_claimed_interval_is_stated_or_lies_behind_the_rate() -> None:
    assert claimed_seconds(claim(2.0, rate_bytes_per_s=1.0)) == 2.0
    assert claimed_seconds(claim(None, rate_bytes_per_s=SIZE / 4)) == 4.0
    assert claimed_seconds(claim(None)) is None
    assert claimed_seconds(claim(None, bytes=None, rate_bytes_per_s=5.0)) is None


def test_the_work_on_a_record_is_allowed_to_passes() -> None:
    assert session_times.record_work_s(claim(1.0, record_bytes=8192)) == pytest.approx(320e-9)
    assert (
        session_times.record_work_s(claim(1.0)) == session_times.record_work_s(claim(1.0, "fio", record_bytes=4)) == 0
    )


def test_which_groups_are_timed() -> None:
    def judged(group: Group, seen: Evidence, backend: str = "bpf") -> tuple[int, bool]:
        """How many notes there are, and whether there are numbers."""
        watched = Observation(backend, "syscalls", (), held_ns=SECOND, ended_ns=101 * SECOND)
        _, notes, numbers = session_times.judge_times(group, seen, watched)
        return len(notes), bool(numbers)

    done = calls(1.0)
    timed = Evidence(FILES, COUNT, SIZE, calls=done, timed=True)
    session = Session(0, SECOND, 0, read=done)
    single = Group([0], [claim(1.0)], True, [session], one_pass=True)
    assert judged(single, timed) == (0, True)
    assert judged(Group([0, 1], [claim(1.0), claim(1.0)], True, [session]), timed) == (1, False)
    assert judged(single, Evidence(FILES, COUNT, SIZE, calls=done), "strace") == (1, False)
    assert judged(single, Evidence(FILES, COUNT, SIZE, calls=done)) == (1, False)
    assert judged(Group([0], [claim(None)], True, [session]), timed) == (0, False)
    assert judged(Group([0], [claim(1.0, bytes=0)], True, [session]), timed) == (0, False)
    unmoved = Evidence(FILES, 4, 0, calls=Calls(4, 4), timed=True)
    assert judged(Group([0], [claim(1.0, bytes=0)], True, [session]), unmoved) == (1, False)


def test_accountings_of_a_session() -> None:
    done = Calls(11, 11, 0, 0, 11_000, 11_000, 2 * SECOND, 4 * SECOND, 11 * 10**7, 10**7, 10**7)
    first = Calls(1, 1, 0, 0, 1000, 1000, 2 * SECOND, 2 * SECOND + 10**7, 10**7, 10**7, 10**7)
    sync = Calls(1, 1, first_ns=5 * SECOND, last_ns=6 * SECOND)
    session = Session(0, SECOND, 9 * SECOND, read=done, sync=sync, first=first, second_ns=3 * SECOND,
                      ended_ns=7 * SECOND)  # fmt: skip
    plain = accountings(session, "read")
    found = (plain.sum_of_calls_s, plain.first_to_last_s, plain.open_to_close_s, plain.bytes)
    assert found == pytest.approx((0.11, 2.0, 8.0, 11_000))
    primed = accountings(session, "read", primed=True)
    assert (primed.sum_of_calls_s, primed.first_to_last_s, primed.bytes) == pytest.approx((0.10, 1.0, 10_000))
    assert accountings(session, "write").first_to_last_s == 0
