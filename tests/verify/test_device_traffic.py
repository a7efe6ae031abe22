"""What devices did, held against the bytes of the calls: where each answer begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ioassay.records.observation import Calls, File, Observation, Operation, Session
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import Group
from ioassay.verify.device_traffic import Pool, is_direct, is_synced, judge_device, pool_of
from ioassay.verify.evidence import Device

from .conftest import table

SIZE = 10_000_000
ENOUGH = 9_990_000  # less 0.1 %
AMPLE = 11_104_857  # and 10 %, and 0.1 MiB
NOTHING = Observation("bpf", "syscalls", ("syscalls", "block"))


def pool(own: int = SIZE, *, everything: int = 0, account: int | None = None, **fields: Any) -> Pool:
    device = Device(fields.pop("known", True), own_bytes=own, any_bytes=max(own, everything), process_bytes=account,
                    stacked=fields.pop("stacked", False))  # fmt: skip
    base: dict[str, Any] = {
        "kind": "read", "bytes": SIZE, "operations": 100, "device": device, "claims": 1, "syncs": 0,
        "page_cache_bytes": None, "direct": None, "synced": None, "storage": True, "watched": True,
    }  # fmt: skip
    return Pool(**{**base, **fields, "filesystems": frozenset(fields.get("filesystems", ("ext4",)))})


def judged(of: Pool) -> tuple[str, str] | None:
    result = judge_device(of, NOTHING)
    assert len(result) <= 1
    return (result[0].category, result[0].reason) if result else None


@table("device_traffic", "direct_and_unusual_storage")
def test_direct_and_unusual_storage(fields: dict[str, Any], wanted: object) -> None:
    assert judged(pool(**fields)) == wanted


@table("device_traffic", "reads_through_the_cache")
def test_reads_through_the_cache(fields: dict[str, Any], wanted: object) -> None:
    assert judged(pool(**fields)) == wanted


@table("device_traffic", "writes_through_the_cache")
def test_writes_through_the_cache(fields: dict[str, Any], wanted: object) -> None:
    assert judged(pool(kind="write", **fields)) == wanted


@table("device_traffic", "what_the_device_surely_did")
def test_what_the_device_surely_did(fields: dict[str, Any], reached: int) -> None:
    assert pool(**fields).reached_bytes == reached


def test_the_mean_size_of_a_call() -> None:
    assert pool(operations=4).record_bytes == SIZE / 4
    assert pool(operations=0).record_bytes == 0


DONE, READ = Calls(4, 4, bytes=16384, first_ns=10, last_ns=20), Calls(3, 3, bytes=3000, first_ns=10, last_ns=20)


def session(*flags: str, file: int = 0, sync_ns: int | None = None, write: Calls = DONE, read: Calls = READ) -> Session:
    sync = Calls() if sync_ns is None else Calls(1, 1, first_ns=sync_ns, last_ns=sync_ns + 1)
    return Session(file, 1, 99, flags, read=read, write=write, sync=sync)


def group(*sessions: Session, source: str = "fio", told_apart: bool = True, layout: Any = (), **claim: Any) -> Group:
    files = [File(0, "8:1", 5, "/data/big", "regular", "ext4", 4096)]
    return Group([0], [Claim(source, **{"kind": "write", **claim})], told_apart, sessions, files, layout=layout)


@pytest.mark.parametrize(
    ("sessions", "claimed", "direct"),
    [
        ([session("direct")], None, True),
        ([session("read")], True, False),
        ([session("direct"), session("read")], True, None),
        ([session("direct"), session("read", write=Calls())], None, True),
        ([], True, True),
        ([session("direct", write=Calls())], False, False),
    ],
)
def test_direct_is_what_was_opened_so_or_else_what_is_claimed(
    sessions: Sequence[Session], claimed: bool | None, direct: bool | None
) -> None:
    assert is_direct(group(*sessions, direct=claimed)) is direct


@pytest.mark.parametrize(
    ("of", "synced"),
    [
        (group(session()), False),
        (group(session(), includes=("fsync",)), False),  # no word replaces a call
        (group(session(), syncs=1), False),
        (group(session(), syncs=1, told_apart=False), True),
        (group(session(sync_ns=20), source="iozone", includes=("fsync",)), True),
        (group(session(sync_ns=15), source="iozone", includes=("fsync",)), False),
        (group(session("dsync"), session("sync")), True),
        (group(session("dsync"), session()), False),
        (group(session("dsync"), session(write=Calls())), True),
        (group(session(sync_ns=500)), True),
        (group(session(sync_ns=500), source="iozone"), False),
        (group(session(sync_ns=15), source="iozone"), True),
        (group(session(sync_ns=10), source="iozone"), False),
        (group(session(sync_ns=20), source="iozone"), False),
        (group(session(), told_apart=False), None),
        (group(session(), told_apart=False, unreported=("end-fsync",)), True),
    ],
)
def test_synchronisations_count_within_the_claimed_interval(of: Group, synced: bool | None) -> None:
    assert is_synced(of) is synced


def pooled(observation: Observation, *groups: Group, direct: bool | None = None) -> Pool:
    return pool_of(groups, [(7, 700)] * len(groups), Device(True), observation, direct)


def test_a_pool_holds_the_sessions_of_its_files() -> None:
    first, second, other = session("direct", sync_ns=15), session(), session(file=9)
    seen = Observation("bpf", "syscalls", ("syscalls", "block"), sessions=[first, second, other])
    both = pooled(seen, group(first, second), group(first, second))
    assert (both.operations, both.bytes, both.syncs, both.claims) == (8, 32768, 1, 2)
    assert (both.filesystems, both.storage, both.watched) == (frozenset({"ext4"}), True, True)
    assert pooled(seen, group(first, second), direct=True).bytes == 16384
    assert pooled(seen, group(first, second), direct=False).syncs == 0
    assert pooled(seen, group(first, layout=[second])).operations == 4
    assert pooled(seen, group(first, second, kind="read")).bytes == 6000
    assert pooled(seen, group(first), group(first, includes=("fsync",))).synced is True
    assert pooled(seen, group(second), group(second, includes=("fsync",))).synced is False
    assert not pooled(seen, group(first)).log and pooled(seen, group(first, doubts=("log-not-synced",))).log


def test_a_pool_without_sessions_takes_what_is_claimed() -> None:
    parts = [Operation("fsync", "sync", Calls(3, 3)), Operation("pread64", "read", READ)]
    seen = Observation("bpf", "block", ("block",), sessions=[session()], operations=parts)
    result = pooled(seen, group(told_apart=False), group(told_apart=False))
    assert (result.operations, result.bytes, result.syncs, result.synced) == (14, 1400, 3, None)
    assert (result.filesystems, result.storage) == (frozenset(), True)
    assert pooled(Observation("bpf", "block", ("counters",)), group(told_apart=False)).syncs is None
    assert not pooled(Observation("bpf", "block", ("counters",)), group(told_apart=False)).watched
    unmoved = session(write=Calls(4, 4))
    assert pooled(Observation("bpf", "syscalls", ("syscalls",), sessions=[unmoved]), group(unmoved)).bytes == 700


def test_pages_of_the_cache_are_those_of_reads_alone() -> None:
    only_read = session(write=Calls())
    seen = Observation("bpf", "syscalls", ("syscalls",), sessions=[only_read])
    assert pooled(seen, group(only_read, kind="read")).page_cache_bytes == 4096
    written = Observation("bpf", "syscalls", ("syscalls",), sessions=[only_read, session()])
    assert pooled(written, group(only_read, kind="read")).page_cache_bytes is None
