"""Claims that are true and look like lies, and lies that look true: what real tools and users were seen to claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioassay.records.observation import Calls, File, Observation, Operation, Requests, Session
from ioassay.records.record import Claim
from ioassay.verify import verdict
from ioassay.verify.judge import judge, traffic
from ioassay.verify.verdict import Code, state
from lab import codes

SECOND, MIB = 10**9, 2**20
LAYERS = ("counters", "block", "uring", "aio", "syscalls", "page-cache")
AT_BLOCK = ("counters", "block", "uring")
COUNT, SIZE = 4096, 16 * MIB


def calls(number: int = COUNT, volume: int = SIZE, seconds: float = 1.0) -> Calls:
    each_ns = 50_000
    last_ns = SECOND + round(seconds * SECOND)
    return Calls(number, number, 0, 0, volume, volume, SECOND, last_ns, number * each_ns, each_ns, each_ns)


def observed(kind: str = "read", done: Calls | None = None, **fields: Any) -> Observation:
    """A run of `kind` of 16 MiB in one second, all of which the device did."""
    done = done or calls()
    sides: dict[str, Any] = {kind: done}
    return replace(
        Observation(
            backend="bpf",
            asked="syscalls",
            layers=LAYERS,
            held_ns=1,
            ended_ns=4 * SECOND,
            operations=[Operation("pread64", kind, done)],
            files=[File(0, "254:1", 12, "/data/big", "regular", "ext4", SIZE)],
            sessions=[Session(0, SECOND // 2, 3 * SECOND, [kind], sync=Calls(1, 1), **sides)],
            block=[Requests("254:0", "vda", True, kind, done)],
            counters={"read_bytes": SIZE},
        ),
        **fields,
    )


def said(**fields: Any) -> Claim:
    base = {"source": "fio", "kind": "read", "operations": COUNT, "bytes": SIZE, "paths": ("/data/big",)}
    return Claim(**{**base, **fields})


def only(claim: Claim, seen: Observation) -> verdict.Verdict:
    (found,) = judge([claim], seen)
    return found


def test_reading_a_file_beforehand_is_left_out_of_numbers_times_and_latencies() -> None:
    seen = observed(done=calls(2 * COUNT, 2 * SIZE, 2.0))
    found = only(said(seconds=0.5, latency_ns={}, unreported=("pre-read",)), seen)
    assert found.category == "CONFIRMED", found.explanation
    assert state(Code.LEFT_OUT_PRE_READ) in found.notes


def test_what_a_ramp_did_is_no_read_ahead_at_the_level_block() -> None:
    counters = {"rchar": 2 * SIZE, "syscr": 2 * COUNT, "read_bytes": 2 * SIZE}
    done = calls(2 * COUNT, 2 * SIZE, 2.0)
    seen = observed(done=done, layers=AT_BLOCK, operations=[], sessions=[], files=[], counters=counters)
    assert only(said(unreported=("ramp",)), seen).category == "CONFIRMED"
    assert only(said(unreported=()), seen).category == "INCOMPLETE"


def test_calls_that_all_failed_have_done_nothing() -> None:
    done = replace(calls(4, 0, 0.005), errors=4)
    found = only(said(operations=4, bytes=0, seconds=0.0, rate_bytes_per_s=0.0), observed(done=done, block=[]))
    assert found.reason == "NOTHING-SEEN" and state(Code.CALLS_FAILED, errors=4) in found.explanation


@pytest.mark.parametrize(
    ("engine", "made", "wanted"),
    [("filedelete", COUNT, "CONFIRMED"), ("filedelete", COUNT - 1, "CONTRADICTED"),
     ("filedelete", 0, "UNSUBSTANTIATED"), ("falloc", COUNT, "UNSUBSTANTIATED"), ("filestat", COUNT, "INCOMPLETE"),
     ("filestat", -3, "INCOMPLETE")],
)  # fmt: skip
def test_engines_that_move_no_data_are_judged_by_calls_of_these_names(engine: str, made: int, wanted: str) -> None:
    names = {"unlink": made + 3, "newfstatat": 2 * COUNT} if made >= 0 else {}
    seen = replace(observed("write", calls(92, 6000)), calls=names, call_errors={"unlink": 3})
    assert only(said(kind="write", engine=engine, paths=()), seen).category == wanted


def test_what_is_spliced_is_not_looked_for_in_totals_that_cannot_have_it() -> None:
    counters = {"rchar": 60_000, "syscr": 100, "read_bytes": SIZE}
    seen = observed(layers=AT_BLOCK, operations=[], sessions=[], files=[], counters=counters)
    assert only(said(engine="splice"), seen).reason == "BY-DEVICE"
    cached = replace(seen, block=[], counters={**counters, "read_bytes": 0})
    assert only(said(engine="splice"), cached).category == "INCOMPLETE"


@pytest.mark.parametrize("volume", [SIZE // 2, 0])
def test_what_daemons_went_on_to_do_is_not_called_a_lie(volume: int) -> None:
    done = calls(COUNT // 2 if volume else 0, volume)
    seen = observed(done=done, health={"lost": 0, "outlived": 1})
    found = only(said(), seen)
    assert (found.category, found.reason) == ("INCOMPLETE", "CALLS-UNFINISHED"), found.explanation
    assert state(Code.PROCESSES_OUTLIVED, processes=1) in found.explanation
    assert only(said(), observed(health={"outlived": 1})).category == "CONFIRMED"


def test_more_synchronisations_than_were_made_are_contradicted() -> None:
    writes = {"kind": "write", "includes": ("fsync",)}
    assert only(said(syncs=1, **writes), observed("write")).category == "CONFIRMED"
    found = only(said(syncs=3, **writes), observed("write"))
    assert found.category == "CONTRADICTED" and found.explanation[0] == state(Code.SYNCS_FEWER, claimed=3, seen=1)
    lost = only(said(syncs=3, **writes), observed("write", health={"unmatched": 2}))
    assert lost.category == "INCOMPLETE"


def test_a_user_means_the_files_that_are_named_and_a_parser_may_err() -> None:
    named = {"paths": ("/data/other",), "operations": None}
    found = only(said(source="user", **named), observed())
    assert found.category == "UNSUBSTANTIATED"
    assert state(Code.FILES_NOT_OPENED, files=("/data/other",)) in found.explanation
    derived = only(said(source="fio", **named), observed())
    assert (derived.category, derived.reason) == ("INCOMPLETE", "OTHER-FILES")
    stated = only(said(source="fio", paths_stated=True, **named), observed())
    assert (stated.category, stated.reason) == ("CONTRADICTED", "OTHER-FILES")


def test_a_time_alone_needs_calls_to_hold_it_against() -> None:
    alone = {"source": "user", "operations": None, "bytes": None, "seconds": 1.0}
    assert only(said(**alone), observed()).category == "CONFIRMED"
    idle = observed(sessions=[], operations=[], files=[], block=[])
    assert only(said(**{**alone, "paths": ()}), idle).reason == "NOTHING-TO-JUDGE"
    assert only(said(**{**alone, "seconds": 9.0, "paths": ()}), idle).reason == "LONGER-THAN-IT-RAN"


def test_an_operation_cannot_take_longer_than_the_command() -> None:
    found = only(said(latency_ns={"mean": 3600e9}), observed())
    assert found.reason == "LONGER-THAN-IT-RAN" and Code.OPERATION_LONGER_THAN_COMMAND in codes(found)


def test_amounts_that_look_alike_are_told_with_all_digits() -> None:
    found = only(said(bytes=SIZE - 4096), observed())
    assert found.category == "CONTRADICTED"
    assert state(Code.BYTES_APART, claimed=SIZE - 4096, seen=SIZE) in found.explanation


@pytest.mark.parametrize(
    ("paths", "layers", "step"),
    [
        ((), LAYERS, Code.NAME_FILES),
        (("/data/big",), LAYERS, Code.REST_UNKNOWN),
        ((), AT_BLOCK, Code.NAME_FILES_AND_USE_SYSCALLS),
    ],
)
def test_only_what_is_left_to_be_done_is_advised(paths: Any, layers: Any, step: str) -> None:
    counters = {"rchar": SIZE, "syscr": COUNT, "read_bytes": SIZE}
    seen = observed(layers=layers, counters=counters)
    if layers is AT_BLOCK:
        seen = replace(seen, operations=[], sessions=[], files=[])
    found = only(said(source="user", bytes=SIZE // 2, operations=None, paths=paths), seen)
    assert found.reason == "MORE-SEEN" and found.explanation[-1].code == step


def test_a_rate_shorter_than_its_clock_can_say_is_not_judged_and_a_hundredfold_one_is_a_factor() -> None:
    short = only(said(seconds=1e-5), observed(done=calls(seconds=1.5e-3)))
    assert short.category == "CONFIRMED" and Code.INTERVAL_TOO_SHORT in codes(short)
    wrong = only(said(seconds=0.01), observed())
    assert wrong.reason == "OTHER-TIME" and wrong.explanation[-1].code == Code.RATE_TOO_HIGH


def test_nothing_is_told_of_kinds_without_bytes() -> None:
    seen = replace(observed(), operations=[], block=[], counters={"rchar": 100, "wchar": 0})
    assert [one["parts"] for one in traffic(seen)] == [(state(Code.CALLS_UNCOUNTED, kind="read", bytes=100),)]


def test_what_a_script_did_beside_the_tool_is_not_held_against_it() -> None:
    seen = observed(done=calls(2 * COUNT, 2 * SIZE, 2.0))
    assert only(said(), seen).category == "CONTRADICTED"
    found = only(said(doubts=("among-others",), seconds=0.5), seen)
    assert (found.category, found.reason) == ("INCOMPLETE", "MORE-SEEN"), found.explanation
    assert only(said(doubts=("among-others",)), observed(done=calls(COUNT // 2, SIZE // 2))).category == "CONTRADICTED"
