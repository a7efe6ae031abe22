"""Verdicts on a database: operations on keys are no I/O, and what it says that it read and wrote is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ioassay.records.observation import Calls, File, Observation, Requests, Session
from ioassay.records.record import Claim
from ioassay.verify.judge import judge
from ioassay.verify.verdict import Code
from lab import codes

SECOND, MIB = 10**9, 2**20


def calls(number: int, volume: int, first_ns: int, seconds: float) -> Calls:
    last_ns = first_ns + round(seconds * SECOND)
    return Calls(number, number, 0, 0, volume, volume, first_ns, last_ns, number * 2000, 2000, 2000)


def database_run(**changes: Any) -> Observation:
    """What the kernel saw of a database: totals of the process, requests of its tables and of some of its log."""
    requests = [
        Requests("7:0", "loop0", True, "read", calls(600, 30 * MIB, SECOND, 2.0)),
        Requests("7:0", "loop0", True, "write", calls(200, 40 * MIB, SECOND, 2.0)),
        Requests("7:0", "loop0", False, "write", calls(20, 4 * MIB, SECOND, 2.0)),
    ]
    totals = {"rchar": 61 * MIB, "syscr": 16_100, "wchar": 63 * MIB, "syscw": 200_400}
    counters = {**totals, "read_bytes": 30 * MIB, "write_bytes": 63 * MIB}
    seen = Observation("bpf", "block", ("block", "uring", "counters"), block=requests, counters=counters)
    return replace(seen, **changes)


def database_claims(**changes: Any) -> list[Claim]:
    own: dict[str, Any] = {"source": "db_bench", "unreported": ("own-files",)}
    return [
        Claim("db_bench", "keys", "fillseq", operations=100_000, seconds=1.0),
        Claim(kind="read", test="RocksDB's reads", bytes=60 * MIB, **own),
        Claim(
            kind="write",
            test="RocksDB's writes",
            **{"bytes": 61 * MIB, "doubts": ("log-not-synced",), **own, **changes},
        ),
    ]


def test_what_a_database_read_and_wrote_is_judged_beside_its_operations() -> None:
    keys, read, written = judge(database_claims(), database_run())
    assert keys.category == "UNSUPPORTED" and Code.DATABASE_IO_SEPARATE in codes(keys)
    assert read.category == "CONFIRMED-CACHED" and read.explanation[-2]["device_bytes"] == 30 * MIB
    assert (written.category, written.reason) == ("CONFIRMED-DEFERRED", "LOG-NOT-SYNCED")
    assert {Code.WRITTEN, Code.LOG_NOT_SYNCED} <= codes(written)
    assert Code.LEFT_OUT_OWN_FILES in codes(written)


def test_a_database_that_says_more_than_it_did_is_contradicted() -> None:
    _, _, written = judge(database_claims(bytes=90 * MIB), database_run())
    assert (written.category, written.reason) == ("CONTRADICTED", "FEWER-SEEN")


def test_a_log_that_is_synchronised_is_on_the_device() -> None:
    _, _, written = judge(database_claims(doubts=(), syncs=100), database_run())
    assert written.category == "CONFIRMED"


def test_the_files_in_a_database_are_meant_though_its_folder_was_opened_too() -> None:
    sides = {"read": calls(15_000, 60 * MIB, SECOND, 2.0), "write": calls(200_000, 63 * MIB, SECOND, 2.0)}
    seen = database_run(
        layers=("counters", "block", "uring", "aio", "syscalls"),
        files=[
            File(0, "7:0", 2, "/data/db", "directory", "ext4"),
            File(1, "7:0", 9, "/data/db/4.sst", "regular", "ext4"),
        ],
        sessions=[
            Session(0, SECOND, 2 * SECOND, ["read"], sync=Calls(3, 3)),
            Session(1, SECOND, 3 * SECOND, ["read", "write"], **sides),
        ],
    )
    made = [replace(claim, paths=("/data/db",)) for claim in database_claims()]
    _, read, written = judge(made, seen)
    assert read.numbers["seen_bytes"] == 60 * MIB and read.category == "CONFIRMED"
    assert written.numbers["seen_bytes"] == 63 * MIB and written.category.startswith("CONFIRMED")
