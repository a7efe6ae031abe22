"""What is taken as evidence: the best source of calls, and what devices did of the claim's kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ioassay.records.observation import Calls, File, Observation, Operation, Requests, Session
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import Group
from ioassay.verify.evidence import (
    CALLS,
    FILES,
    NOTHING,
    Evidence,
    calls_seen,
    classes,
    device_seen,
    unwatched,
    without_first,
)

from .conftest import table

LAYERS = ("counters", "block", "uring", "aio", "syscalls")
LOADERS, PRINTED = 256 * 1024, 64 * 1024
ACCOUNT = {"rchar": 10**6, "syscr": 100, "wchar": 2 * 10**6, "syscw": 300, "read_bytes": 4096, "write_bytes": 8192}


def calls(number: int, volume: int = 0, first_ns: int = 1, last_ns: int = 2) -> Calls:
    return Calls(number, number, 0, 0, volume, volume, first_ns, last_ns, number, 1, 1)


def observation(layers: Sequence[str] = LAYERS, backend: str = "bpf", **fields: Any) -> Observation:
    return Observation(backend, "syscalls", layers, **fields)


def group(kind: str = "read", told_apart: bool = True, sessions: Sequence[Session] = (), **fields: Any) -> Group:
    claim = Claim("iozone", kind, primed=fields.pop("primed", False))
    return Group([0], [claim], told_apart, sessions, **fields)


def amounts(seen: Evidence) -> tuple[str, int, int, int, int]:
    return seen.source, seen.operations, seen.bytes, seen.others_operations, seen.others_bytes


SESSIONS = [
    Session(0, 1, 9, read=calls(5, 50), write=calls(2, 20), sync=calls(1), first=calls(1, 10), second_ns=4),
    Session(0, 11, 19, read=calls(1, 10), write=calls(3, 30), sync=calls(2), first=calls(1, 10), second_ns=14),
]


def test_calls_by_file_are_those_of_the_group_s_sessions() -> None:
    seen = calls_seen(group(sessions=SESSIONS, named=True), observation())
    assert amounts(seen) == (FILES, 6, 60, 0, 0) and (seen.timed, seen.syncs) == (True, 3)
    assert amounts(calls_seen(group("write", sessions=SESSIONS, named=True), observation())) == (FILES, 5, 50, 0, 0)
    assert amounts(calls_seen(group("mixed", sessions=SESSIONS, one_pass=True), observation())) == (
        FILES,
        11,
        110,
        0,
        0,
    )
    assert not calls_seen(group(sessions=SESSIONS), observation(backend="strace")).timed


@pytest.mark.parametrize(("kind", "others"), [("read", LOADERS), ("write", PRINTED), ("mixed", LOADERS + PRINTED)])
def test_files_that_no_claim_names_may_be_others(kind: str, others: int) -> None:
    seen = calls_seen(group(kind, sessions=SESSIONS), observation())
    assert (seen.others_operations, seen.others_bytes) == (256, others)


def test_the_priming_record_of_a_pass_is_left_out_where_more_was_read() -> None:
    primed = group(sessions=SESSIONS, one_pass=True, primed=True)
    seen = calls_seen(primed, observation())
    assert amounts(seen)[:3] == (FILES, 4 + 1, 40 + 10)  # the second session has its first record only
    assert amounts(calls_seen(replace(primed, one_pass=False), observation()))[1] == 6
    assert without_first(calls(5, 50, 1, 8), calls(1, 10), 4) == Calls(4, 4, 0, 0, 40, 40, 4, 8, 4, 1, 1)
    assert without_first(calls(5, 50, 3, 8), calls(1, 10), 0).first_ns == 3


def test_totals_of_the_calls_where_files_are_not_told_apart() -> None:
    parts = [
        Operation("pread64", "read", calls(5, 50)),
        Operation("uring", "read", calls(1, 10)),
        Operation("write", "write", calls(7, 70)),
        Operation("fsync", "sync", calls(2)),
    ]
    seen = calls_seen(group(told_apart=False), observation(operations=parts))
    assert amounts(seen) == (CALLS, 6, 60, 256, LOADERS) and (seen.timed, seen.syncs) == (True, 2)
    assert amounts(calls_seen(group("mixed", told_apart=False), observation(operations=parts)))[:3] == (CALLS, 13, 130)
    assert amounts(calls_seen(group("trim"), observation(operations=parts)))[0] == NOTHING


@table("evidence", "totals_of_the_process_and_its_rings")
def test_totals_of_the_process_and_its_rings(kind: str, counters: Any, rings: int, wanted: object) -> None:
    own = [Operation("uring", "read", calls(rings, 10 * rings))] if rings else []
    watched = observation(("counters", "block", "uring"), operations=own, counters=counters)
    assert amounts(calls_seen(group(kind, told_apart=False), watched)) == wanted


@table("evidence", "which_engines_a_layer_sees")
def test_which_engines_a_layer_sees(engine: str, layers: Sequence[str], seen: bool) -> None:
    assert bool(unwatched(engine, layers)) != seen


def request(name: str, kind: str, volume: int, *, own: bool = True, dev: str = "8:0", number: int = 1) -> Requests:
    return Requests(dev, name, own, kind, calls(number, volume), merges=number)


BLOCK = [
    request("sda", "read", 100, number=2),
    request("sda", "write", 30, number=3),
    request("sda", "discard", 0, number=4),
    request("sda", "flush", 0, number=5),
    request("sda", "read", 40, own=False, number=6),
    request("loop1", "read", 7, dev="7:1"),
]


def test_requests_of_the_process_tree_and_of_others() -> None:
    seen = device_seen(group(), observation(block=BLOCK, counters=ACCOUNT))
    assert (seen.known, seen.own_bytes, seen.own_requests, seen.any_bytes, seen.merges) == (True, 107, 3, 147, 3)
    assert (seen.read_bytes, seen.written_requests, seen.flushes, seen.discards) == (107, 3, 5, 4)
    assert (seen.virtual, seen.stacked, seen.process_bytes) == (["loop1"], True, 4096)
    written = device_seen(group("write"), observation(block=BLOCK, counters=ACCOUNT))
    assert (written.own_bytes, written.any_bytes, written.read_bytes, written.process_bytes) == (30, 30, 107, 8192)
    both = device_seen(group("mixed"), observation(block=BLOCK, counters=ACCOUNT))
    assert (both.own_bytes, both.any_bytes, both.process_bytes) == (137, 177, 12288)
    assert device_seen(group("trim"), observation(block=BLOCK)).own_requests == 4


def test_requests_to_the_device_of_the_files_come_first() -> None:
    here = [File(0, "8:0", 5, "/data/big", "regular")]
    seen = device_seen(group(files=here), observation(block=BLOCK))
    assert (seen.own_bytes, seen.virtual, seen.read_bytes) == (100, [], 100)
    elsewhere = [File(0, "0:30", 5, "/data/big", "regular")]
    assert device_seen(group(files=elsewhere), observation(block=BLOCK)).own_bytes == 107


@pytest.mark.parametrize(
    ("block", "stacked"),
    [
        ([request("sda", "read", 1)], False),
        ([request("dm-0", "read", 1)], True),
        ([request("dm-0", "read", 1, own=False, dev="253:0")], False),
        ([request("dm-0", "read", 1, own=False, dev="254:1")], True),
    ],
)
def test_a_device_above_others_counts_where_the_files_lie_on_it(block: list[Requests], stacked: bool) -> None:
    files = [File(0, "254:1", 5, "/data/big", "regular")]
    assert device_seen(group(files=files), observation(block=block)).stacked == stacked


def test_the_process_account_stands_for_requests_that_were_not_watched() -> None:
    disks = {"sda": {"read_bytes": 5000, "write_bytes": 1}, "sdb": {"read_bytes": 70, "write_bytes": 9000}}
    alone = device_seen(group(), observation(("counters",), block=BLOCK, counters=ACCOUNT, disks=disks))
    assert (alone.known, alone.own_bytes, alone.own_requests, alone.any_bytes) == (True, 4096, None, 5000)
    both = device_seen(group("mixed"), observation(("counters",), counters=ACCOUNT, disks=disks))
    assert (both.own_bytes, both.any_bytes) == (12288, 12288)
    busy = device_seen(group("mixed"), observation(("counters",), counters={}, disks=disks))
    assert (busy.known, busy.own_bytes, busy.any_bytes, busy.process_bytes) == (False, 0, 9070, None)
    assert device_seen(group(), observation(("record",), block=BLOCK)).own_bytes == 107


def test_classes_of_calls_are_of_the_files_that_the_claims_name() -> None:
    files = [File(0, "8:1", 5, "/data/big", "regular"), File(1, "8:1", 6, "/data/log", "regular")]
    sessions = [Session(0, 1, 9, read=calls(5, 50), sync=calls(1)), Session(1, 1, 9, write=calls(3, 30), sync=calls(4))]
    every = [Operation("read", "read", calls(9, 90)), Operation("write", "write", calls(8, 80))]
    seen = observation(files=files, sessions=sessions, operations=every)

    def counted(claims: Sequence[Claim], watched: Observation = seen) -> dict[str, int]:
        return {kind: of.calls for kind, of in classes(claims, watched).items()}

    assert counted([Claim("fio", "read", paths=("/data/big",))]) == {"read": 5, "write": 0, "sync": 1}
    assert counted([]) == counted([Claim("db_bench", "keys")]) == {"read": 5, "write": 3, "sync": 5}
    assert counted([], replace(seen, layers=("counters",))) == {"read": 9, "write": 8, "sync": 0}
