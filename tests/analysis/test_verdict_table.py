"""What was measured once, row by row: fio's 64 MiB jobs under every engine, and the verdict that each must get.

Operations, bytes, requests and counters are those of real runs of fio 3.33 on Linux 6.18; times are made up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from ioassay.records.observation import Calls, File, Observation, Operation, Requests, Session
from ioassay.records.record import Claim
from ioassay.verify import verdict
from ioassay.verify.judge import judge, overall
from ioassay.verify.verdict import Code
from lab import codes

MIB, KIB = 2**20, 1024
OPS, ALL = 16384, 64 * MIB
SECOND = 10**9
FULL = ("counters", "block", "uring", "aio", "syscalls", "page-cache")
AT_BLOCK = ("counters", "block", "uring")
DISK = {"dev": "254:0", "name": "vda"}


def calls(number: int, volume: int, *, first_ns: int = SECOND, seconds: float = 1.0, each_ns: int = 50_000) -> Calls:
    if not number:
        return Calls()
    last_ns = first_ns + round(seconds * SECOND)
    return Calls(
        calls=number,
        completed=number,
        requested_bytes=volume,
        bytes=volume,
        first_ns=first_ns,
        last_ns=last_ns,
        sum_ns=number * each_ns,
        min_ns=each_ns,
        max_ns=each_ns,
    )


@dataclass(frozen=True)
class Row:
    """One line of the measurements."""

    name: str
    category: str
    code: Code
    """Of the explanation or the notes."""
    engine: str = "psync"
    kind: str = "read"
    direct: bool = False
    operations: int = OPS
    volume: int = ALL
    seen: int | None = None
    """Calls that were seen, where not all."""
    entry: str = "pread64"
    syncs: int = 0
    synced: bool = False
    own_reads: tuple[int, int] = (0, 0)
    own_writes: tuple[int, int] = (0, 0)
    other_writes: tuple[int, int] = (0, 0)
    merges: int = 0
    added: int | None = None
    major_faults: int = 0
    reason: str = ""
    at_block: str = ""
    """Category at the level block, where it is another."""
    written: int = 0
    """What the process dirtied, beside read_bytes, which are its requests'."""


READ_ALL = (OPS, ALL)
W = {"kind": "write", "entry": "pwrite64"}
SEEN = Code.CLAIMED_AND_SEEN
ROWS = [
    Row("buffered sequential read, cold", "CONFIRMED", Code.READ_AHEAD, own_reads=(20, ALL), added=ALL),
    Row("buffered random read, cold", "CONFIRMED", SEEN, own_reads=READ_ALL, added=ALL),
    Row("buffered read, warm", "CONFIRMED-CACHED", Code.PAGE_CACHE, added=0, reason="PAGE-CACHE"),
    Row("direct read", "CONFIRMED", SEEN, direct=True, own_reads=READ_ALL, added=0),
    Row("libaio direct", "CONFIRMED", SEEN, engine="libaio", entry="aio", direct=True, own_reads=READ_ALL),
    Row(
        "libaio sequential in batches", "CONFIRMED", Code.REQUESTS_MERGED, engine="libaio", entry="aio",
        direct=True, own_reads=(1024, ALL), merges=15360,
    ),
    Row(
        "io_uring direct", "CONFIRMED", Code.RING_CALLS, engine="io_uring", entry="uring", direct=True,
        own_reads=READ_ALL,
    ),
    Row(
        "io_uring with SQPOLL", "CONFIRMED", Code.REQUESTS_MERGED, engine="io_uring", entry="uring", direct=True,
        own_reads=(16267, ALL), merges=117,
    ),
    Row(
        "io_uring buffered, cold", "CONFIRMED", SEEN, engine="io_uring", entry="uring",
        own_reads=(16379, ALL - 5 * 4096), added=ALL,
    ),
    Row(
        "mapped random read, cold", "CONFIRMED", Code.CALLS_UNWATCHED, engine="mmap", seen=0, own_reads=READ_ALL,
        added=ALL + 10_486, major_faults=16384, reason="BY-DEVICE",
    ),
    Row("mapped read, warm", "INCOMPLETE", Code.MAPPED_FILES, engine="mmap", seen=0, added=0, reason="MAPPED"),
    Row("null engine", "UNSUBSTANTIATED", Code.NULL_ENGINE, engine="null", seen=0, reason="NULL-ENGINE"),
    Row("direct read of a hole", "UNSUBSTANTIATED", Code.HOLES, direct=True, added=0, reason="NO-DEVICE-IO"),
    Row("direct read of unwritten extents", "UNSUBSTANTIATED", Code.HOLES, direct=True, reason="NO-DEVICE-IO"),
    Row("buffered read of a hole", "CONFIRMED-CACHED", Code.PAGES_WITHOUT_DEVICE, added=ALL, reason="NO-DEVICE-IO"),
    Row("buffered overwrite", "CONFIRMED-DEFERRED", Code.NO_SYNC, **W, written=ALL, reason="NO-SYNC"),
    Row(
        "buffered overwrite, end_fsync", "CONFIRMED", Code.WRITE_BACK_GATHERED, **W, syncs=1, synced=True,
        own_writes=(131, ALL), written=ALL,
    ),
    Row(
        "new file, end_fsync", "CONFIRMED", Code.JOURNAL_BYTES, **W, syncs=1, synced=True,
        own_writes=(68, ALL + 20 * KIB), merges=7, written=ALL,
    ),
    Row(
        "overwrite, fsync each", "CONFIRMED", Code.FLUSHES, **W, operations=1024, volume=4 * MIB, syncs=1023,
        synced=True, own_writes=(2098, int(4.2 * MIB)), written=4 * MIB,
    ),
    Row(
        "new file, fsync each", "AMPLIFIED", Code.JOURNAL, **W, operations=1024, volume=4 * MIB,
        syncs=1023, synced=True, own_writes=(3071, 8 * MIB), written=4 * MIB, reason="JOURNAL",
    ),
    Row(
        "direct random overwrite, psync", "CONFIRMED", SEEN, **W, direct=True, own_writes=(16385, ALL + 4096),
        written=ALL,
    ),
    Row(
        "direct random overwrite, libaio", "CONFIRMED", SEEN, engine="libaio", kind="write", entry="aio",
        direct=True, own_writes=(16385, ALL + 4096), written=ALL,
    ),
    Row(
        "buffered random writes of 512 B", "AMPLIFIED", Code.READ_MODIFY_WRITE, **W, operations=8192, volume=4 * MIB,
        syncs=1, synced=True, own_reads=(6440, int(25.16 * MIB)), own_writes=(3919, int(25.16 * MIB)),
        written=int(25.15 * MIB), reason="READ-MODIFY-WRITE",
    ),
    Row(
        "written back by the kernel in time", "CONFIRMED", Code.KERNEL_WRITE_BACK, **W, syncs=1, synced=True,
        own_writes=(2, 8192), other_writes=(140, ALL), written=ALL,
    ),
]  # fmt: skip


def requests(kind: str, pair: tuple[int, int], *, own: bool = True, merges: int = 0) -> list[Requests]:
    return [Requests(**DISK, own=own, kind=kind, calls=calls(*pair), merges=merges)] if pair[0] else []


def observe(row: Row, layers: tuple[str, ...] = FULL, backend: str = "bpf") -> Observation:
    """What the witness sees of the row's job when it watches these layers."""
    number = row.operations if row.seen is None else row.seen
    done = calls(number, row.volume if number else 0)
    syncs = calls(row.syncs, 0, first_ns=2 * SECOND - 1000, seconds=1e-6)
    read, write = (done, Calls()) if row.kind == "read" else (Calls(), done)
    flags = ["read", "write", *(["direct"] if row.direct else [])]
    session = Session(0, SECOND - 9, 2 * SECOND + 9, flags, read, write, syncs, ended_ns=2 * SECOND)
    loader = Session(1, 1, 2, ["read"], read=calls(1, 832))
    with_calls = "syscalls" in layers
    rings = row.entry == "uring" and "uring" in layers
    operations = [Operation(row.entry, row.kind, done)] if number and (with_calls or rings) else []
    if with_calls:
        operations += [Operation("read", "read", calls(1, 832)), Operation("fsync", "sync", syncs)]
    watched = "block" in layers
    block = [
        *requests("read", row.own_reads, merges=row.merges if row.kind == "read" else 0),
        *requests("write", row.own_writes, merges=row.merges if row.kind == "write" else 0),
        *requests("write", row.other_writes, own=False),
    ]
    return Observation(
        backend=backend,
        asked="syscalls",
        layers=layers,
        held_ns=SECOND - SECOND // 10,
        ended_ns=2 * SECOND + SECOND // 10,
        processes=3,
        operations=operations,
        files=[
            File(0, "254:1", 12, "/data/big", "regular", "ext4", row.added if "page-cache" in layers else None),
            File(1, "254:1", 13, "/usr/lib/libc.so.6", "regular", "ext4", 0 if "page-cache" in layers else None),
        ]
        if with_calls
        else [],
        sessions=[loader, session] if with_calls else [],
        block=block if watched else [],
        counters=counters(row, number) if "counters" in layers else {},
    )


def counters(row: Row, number: int) -> dict[str, float]:
    """By calls of the process alone: what rings and contexts move is in no rchar."""
    direct_calls = number if row.entry.startswith("p") else 0
    reads = row.kind == "read"
    return {
        "rchar": (row.volume if direct_calls and reads else 0) + 73_000,
        "syscr": (direct_calls if reads else 0) + 100,
        "wchar": (row.volume if direct_calls and not reads else 0) + 9_000,
        "syscw": (0 if reads else direct_calls) + 3,
        "read_bytes": row.own_reads[1],
        "write_bytes": row.written or row.own_writes[1],
        "major_faults": row.major_faults,
    }


def claim(row: Row, **fields: Any) -> Claim:
    said: dict[str, Any] = {
        "operations": row.operations,
        "bytes": row.volume,
        "seconds": 1.001,
        "rate_bytes_per_s": row.volume / 1.001,
        "clock_step_s": 1e-3,
        "latency_ns": {"mean": 51_000.0, "p50": 50_000.0},
        "engine": row.engine,
        "direct": row.direct,
        "paths": ("/data/big",),
        "includes": ("fsync",) if row.synced else (),
    }
    return Claim(source="fio", kind=row.kind, **{**said, **fields})


EACH = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@EACH
def test_each_measured_job_gets_its_verdict(row: Row) -> None:
    (found,) = judge([claim(row)], observe(row))
    assert (found.category, found.reason) == (row.category, row.reason), found
    assert row.code in codes(found), found


@EACH
def test_each_measured_job_gets_it_without_named_files_too(row: Row) -> None:
    (found,) = judge([claim(row, paths=())], observe(row))
    assert found.category == row.category, found.explanation


@EACH
def test_the_level_block_finds_no_other_truth(row: Row) -> None:
    (found,) = judge([claim(row)], observe(row, AT_BLOCK))
    same = verdict.TRUE_CLAIMS if row.category in verdict.TRUE_CLAIMS else {row.category}
    assert found.category in {*same, "INCOMPLETE"}, found.explanation
    if row.category == "UNSUBSTANTIATED" and row.direct:  # its file is not known, and may be in memory
        assert found.category == "INCOMPLETE", found.explanation
    elif row.category != "CONFIRMED-DEFERRED" and row.engine != "libaio" and row.name != "buffered read of a hole":
        assert found.category == row.category, found.explanation


@EACH
def test_double_bytes_are_contradicted_wherever_any_were_seen(row: Row) -> None:
    lie = claim(row, operations=2 * row.operations, bytes=2 * row.volume, rate_bytes_per_s=2 * row.volume / 1.001)
    (found,) = judge([lie], observe(row))
    wanted = {"CONTRADICTED"} if row.seen is None else {"UNSUBSTANTIATED", "INCOMPLETE"}
    assert found.category in wanted, found.explanation
    assert verdict.contradicted([found]) == (found.category == "CONTRADICTED")


@EACH
def test_half_the_time_is_contradicted_where_calls_are_timed(row: Row) -> None:
    lie = claim(row, seconds=0.5, rate_bytes_per_s=row.volume / 0.5)
    (found,) = judge([lie], observe(row))
    wanted = "CONTRADICTED" if row.seen is None else "INCOMPLETE" if row.engine == "mmap" else row.category
    assert found.category == wanted, found.explanation
    if row.seen is None:
        assert Code.RATE_TOO_HIGH in codes(found) and found.reason == "OTHER-TIME"


LOSSES = [
    *[("lost", name, None) for name in ("lost", "dropped", "untracked_sessions", "untracked_files", "unmatched")],
    ("layers", "", AT_BLOCK),
    ("layers", "", ("counters",)),
    ("layers", "", ("syscalls", "aio")),
    ("layers", "", ()),
    ("layers", "", tuple(name for name in FULL if name != "page-cache")),
    ("layers", "", tuple(name for name in FULL if name != "block")),
    ("layers", "", tuple(name for name in FULL if name not in ("block", "counters"))),
]


@EACH
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss[1]}{'-'.join(loss[2] or ())}" or "nothing")
@pytest.mark.parametrize("share", [0.5, 1, 2])
def test_lost_evidence_never_makes_a_verdict_stronger(row: Row, loss: tuple[str, str, Any], share: float) -> None:
    said = claim(row, operations=int(row.operations * share), bytes=int(row.volume * share), rate_bytes_per_s=None)
    before = judge([said], observe(row))[0].category
    what, name, layers = loss
    seen = observe(row, layers) if what == "layers" else replace(observe(row), health={name: 7})
    (after,) = judge([said], seen)
    same = verdict.TRUE_CLAIMS if before in verdict.TRUE_CLAIMS else {before}
    # That the calls were made may be all that is left to say, or all that can be denied.
    assert after.category in {*same, "INCOMPLETE", "UNSUPPORTED"}, f"{before} before: {after.explanation}"


@EACH
def test_the_order_of_what_was_seen_does_not_matter(row: Row) -> None:
    seen = observe(row)
    turned = replace(
        seen,
        operations=seen.operations[::-1],
        files=seen.files[::-1],
        sessions=seen.sessions[::-1],
        block=seen.block[::-1],
    )
    assert judge([claim(row)], seen) == judge([claim(row)], turned)


def test_nothing_claimed_says_what_the_kernel_saw() -> None:
    found = overall([], observe(ROWS[0]))
    assert (found.category, found.reason) == ("UNSUPPORTED", "NO-CLAIM")
    assert Code.CALLS_OF_COMMAND in codes(found)
