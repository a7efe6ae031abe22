"""The numbers of a verdict, and what several claims of one kind share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ioassay.records.observation import Calls, File, Observation, Operation, Requests, Session
from ioassay.records.record import Claim
from ioassay.verify.judge import judge, overall
from ioassay.verify.statement import Code
from ioassay.verify.verdict import UNSUPPORTED, Verdict

from .conftest import table

SECOND = 10**9


def calls(number: int, volume: int, errors: int = 0) -> Calls:
    return Calls(number, number, errors, 0, volume, volume, 2 * SECOND, 3 * SECOND, number, 1, 1)


def observation(
    *paths: str, sides: Sequence[str] = ("read",), direct: Sequence[bool] = (), **fields: Any
) -> Observation:
    """Files with one session each, in which each of `sides` moved 1000 operations of 4096 bytes."""
    flags = [["read", "write", *(["direct"] if wanted else [])] for wanted in direct or [False] * len(paths)]
    done = calls(1000, 4_096_000, 3)
    sessions = [
        Session(at, SECOND, 4 * SECOND, flags[at], **dict.fromkeys(sides, done), sync=Calls(2, 2))
        for at in range(len(paths))
    ]
    files = [File(at, "8:1", 5 + at, path, "regular", "ext4") for at, path in enumerate(paths)]
    return Observation("bpf", "syscalls", ("block", "syscalls", "aio", "uring"), held_ns=SECOND, ended_ns=9 * SECOND,
                       files=files, sessions=sessions, **fields)  # fmt: skip


def claim(path: str, kind: str = "read", source: str = "fio", **fields: Any) -> Claim:
    return Claim(source, kind, **{"operations": 1000, "bytes": 4_096_000, "paths": (path,), **fields})


def test_the_load_of_servers_is_not_held_against_the_command_that_controls_them() -> None:
    """Nothing was seen of the command, which says nothing of what its servers did."""
    (verdict,) = judge([claim("", paths=(), servers=("127.0.0.1:9000", "host-b"))], observation())
    assert (verdict.category, verdict.reason, verdict.severity) == (UNSUPPORTED, "LOAD-OF-SERVERS", "info")
    codes = [statement.code for statement in verdict.explanation]
    assert codes == [Code.LOAD_OF_SERVERS, Code.SERVERS_HERE, Code.SERVERS_ELSEWHERE]
    assert verdict.explanation[1]["servers"] == ("127.0.0.1:9000",)
    assert verdict.explanation[2]["servers"] == ("host-b",)


def test_servers_cannot_have_worked_longer_than_the_command_waited_for_them() -> None:
    (verdict,) = judge([claim("", paths=(), servers=("host-b",), seconds=99.0)], observation())
    assert (verdict.category, verdict.reason) == ("CONTRADICTED", "LONGER-THAN-IT-RAN")


def test_the_numbers_of_a_verdict() -> None:
    block = [Requests("8:0", "sda", True, "read", calls(80, 3_000_000), merges=6),
             Requests("8:0", "sda", False, "read", calls(9, 500_000))]  # fmt: skip
    (verdict,) = judge([claim("/a", operations=800, bytes=4_000_000)], observation("/a", block=block))
    assert verdict.numbers == {
        "claimed_operations": 800,
        "claimed_bytes": 4_000_000,
        "seen_operations": 1000,
        "seen_bytes": 4_096_000,
        "evidence": "files",
        "others_operations": 0,
        "others_bytes": 0,
        "seen_errors": 3,
        "seen_syncs": 2,
        "device_bytes": 3_000_000,
        "device_requests": 80,
        "device_merges": 6,
        "device_upper_bound_bytes": 3_500_000,
        "device_share": pytest.approx(3_000_000 / 4_096_000),
        "operations_difference_percent": pytest.approx(25.0),
        "bytes_difference_percent": pytest.approx(2.4),
    }


def shares(claims: Sequence[Claim], seen: Observation) -> list[float | None]:
    return [verdict.numbers.get("device_share") for verdict in judge(claims, seen)]


def test_what_the_device_did_is_shared_by_the_claims_of_a_kind() -> None:
    block = [Requests("8:0", "sda", True, "read", calls(80, 4_096_000))]
    assert shares([claim("/a"), claim("/b")], observation("/a", "/b", block=block)) == [0.5, 0.5]
    mixed = observation("/a", "/b", sides=("read", "write"), block=block, counters={})
    assert shares([claim("/a"), claim("/b", "write")], mixed) == [1.0, 0.0]


def test_direct_io_takes_its_bytes_of_the_device_first() -> None:
    def of(volume: int, account: int | None = None) -> list[float | None]:
        block = [Requests("8:0", "sda", True, "read", calls(80, volume))]
        counters = {} if account is None else {"read_bytes": account}
        seen = observation("/a", "/b", direct=(False, True), block=block, counters=counters)
        return shares([claim("/a"), claim("/b", direct=True)], seen)

    assert of(4_096_000) == [0.0, 1.0]
    assert of(2_048_000) == [0.0, 0.5]
    assert of(6_144_000) == [0.5, 1.0]
    assert of(4_096_000, account=6_144_000) == [0.5, 1.5]  # whose the rest was is known of the requests alone


def test_laying_out_a_file_is_none_of_its_writes() -> None:
    block = [Requests("8:0", "sda", True, "write", calls(80, 6_000_000))]
    seen = observation("/a", sides=("write",), block=block)
    layout = Session(0, 1, 2, ["write"], write=calls(10, 1_904_000))
    (verdict,) = judge([claim("/a", "write")], replace(seen, sessions=[layout, *seen.sessions]))
    assert verdict.numbers["device_bytes"] == 4_096_000
    larger = replace(layout, write=calls(10, 4_000_000))  # of which not all has reached the device
    (verdict,) = judge([claim("/a", "write")], replace(seen, sessions=[larger, *seen.sessions]))
    assert verdict.numbers["device_bytes"] == 4_096_000


@table("judge", "what_no_rule_can_judge")
def test_what_no_rule_can_judge(fields: dict[str, Any], reason: str) -> None:
    fields = {**fields}
    layers = fields.pop("layers", ("block", "syscalls", "aio", "uring"))
    block = [Requests("8:0", "sda", True, "read", calls(80, 4_096_000))]
    made = claim("/a", fields.pop("kind", "read"), **fields)
    (verdict,) = judge([made], replace(observation("/a", block=block), layers=layers))
    assert verdict.reason == reason


def test_keys_are_judged_beside_io() -> None:
    keys = Claim("db_bench", "keys", operations=5, seconds=1.0)
    block = [Requests("8:0", "sda", True, "read", calls(80, 4_096_000))]
    operations = [Operation("read", "read", calls(1000, 4_096_000))]
    verdict = judge([keys, claim("/a"), keys], observation("/a", block=block, operations=operations))
    assert [(each.category, each.claim and each.claim.kind) for each in verdict] == [
        (UNSUPPORTED, "keys"), ("CONFIRMED", "read"), (UNSUPPORTED, "keys"),
    ]  # fmt: skip


def test_of_equals_the_first_is_the_worst() -> None:
    verdicts = [Verdict("CONFIRMED", "", str(number)) for number in range(3)]
    assert overall(verdicts).explanation == "0"
    assert overall([]).category == UNSUPPORTED


def test_interim_summaries_are_counted_only_where_they_are_runs_of_their_own() -> None:
    def dd(number: int, *doubts: str) -> Claim:
        return claim("/a", operations=number, bytes=4096 * number, source="dd", doubts=doubts)

    block = [Requests("8:0", "sda", True, "read", calls(80, 4_096_000))]
    seen = observation("/a", block=block)
    runs = judge([dd(400, "interim"), dd(600)], seen)
    assert [verdict.category for verdict in runs] == ["CONFIRMED", "CONFIRMED"]
    assert not any(note.code == Code.INTERIM_SUMMARY for verdict in runs for note in verdict.notes)
    asked = judge([dd(400, "interim"), dd(700, "interim"), dd(1000)], seen)
    assert [verdict.category for verdict in asked] == ["CONFIRMED"] * 3
    assert [verdict.claim and verdict.claim.operations for verdict in asked] == [400, 700, 1000]
    noted = [any(note.code == Code.INTERIM_SUMMARY for note in verdict.notes) for verdict in asked]
    assert noted == [True, True, False]
    wrong = judge([dd(400, "interim"), dd(2000)], seen)
    assert {verdict.category for verdict in wrong} == {"CONTRADICTED"}
