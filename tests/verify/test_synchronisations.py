"""Synchronisations that are claimed against those that the kernel saw: where each answer begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ioassay.records.observation import Calls, Observation, Operation, Session
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import Group
from ioassay.verify.device_traffic import Pool
from ioassay.verify.evidence import Device
from ioassay.verify.synchronisations import judge_sync

from .conftest import table

SIZE = 1_000_000
DONE = Calls(10, 10, bytes=SIZE, first_ns=100, last_ns=200)
YES, NO, FEWER = ("CONFIRMED", ""), ("CONTRADICTED", "NOT-SYNCED"), ("CONTRADICTED", "FEWER-SEEN")
OPEN = ("INCOMPLETE", "NOT-SYNCED")
LAYERS = ("block", "uring", "aio", "syscalls")


def session(*ends_ns: int, file: int = 0, errors: int = 0, flags: Sequence[str] = ("write",)) -> Session:
    """A session that wrote until 200 and was synchronised at these times."""
    sync = (
        Calls(len(ends_ns), len(ends_ns), errors, first_ns=min(ends_ns), last_ns=max(ends_ns)) if ends_ns else Calls()
    )
    return Session(file, 1, 999, flags, write=DONE, sync=sync)


def sync(
    *sessions: Session,
    source: str = "fio",
    entries: Sequence[str] = ("fsync",),
    layers: Sequence[str] = LAYERS,
    told_apart: bool = True,
    named: bool = True,
    one_pass: bool = False,
    own: int = SIZE,
    exit_ok: bool = True,
    health: dict[str, int] | None = None,
    writes: str = "pwrite64",
    **claim: Any,
) -> tuple[str, str] | None:
    """What is said of the synchronisations of one claim of writes."""
    made = Claim(source, **{"kind": "write", **claim})
    group = Group([0], [made], told_apart, sessions, named=named, one_pass=one_pass)
    number = sum(one.sync.calls for one in sessions)
    operations = [Operation(entry, "sync", Calls(number, number)) for entry in entries] if number else []
    operations.append(Operation(writes, "write", DONE))
    pool = Pool(
        kind="write", bytes=SIZE, operations=10, device=Device(True, own_bytes=own, any_bytes=own), claims=1,
        syncs=None, page_cache_bytes=None, direct=False, synced=None, filesystems=frozenset(), storage=True,
        watched="block" in layers,
    )  # fmt: skip
    seen = Observation("bpf", "syscalls", layers, operations=operations, health=health or {})
    found = judge_sync(group, pool, seen, exit_ok=exit_ok)
    return found and (found.category, found.reason)


END = {"unreported": ("end-fsync",), "includes": ("fsync",)}


@pytest.mark.parametrize(
    ("sessions", "claim", "wanted"),
    [
        ([session(300)], {}, None),
        ([session(300)], {"kind": "read", "includes": ("fsync",)}, None),
        ([session(300)], {"syncs": 1}, YES),
        ([session(300)], {"syncs": 2}, FEWER),
        ([session(300, 400, errors=1)], {"syncs": 2}, FEWER),
        ([session(150, 160), session(170, file=1)], {"syncs": 3, "includes": ("fsync",)}, YES),  # one for each write
        ([session(150)], {"includes": ("fsync",)}, YES),  # how many is not claimed
        ([session()], {"includes": ("fsync",)}, FEWER),
        ([session(200)], END, YES),
        ([session(199)], END, NO),
        ([session()], END, FEWER),
        ([session(), session(300)], END, YES),  # through another descriptor of the same file
        ([session(300), session(file=1)], END, OPEN),
        ([session(199)], {"source": "dd", "includes": ("fsync", "close")}, NO),
        ([], END, None),
    ],
)
def test_synchronisations_of_known_files(sessions: Sequence[Session], claim: dict[str, Any], wanted: object) -> None:
    assert sync(*sessions, **claim) == wanted


def test_a_pass_has_its_own_session() -> None:
    strict = {"source": "iozone", "includes": ("fsync",), "one_pass": True}
    assert (sync(session(50, 300), **strict), sync(session(50), **strict), sync(session(), **strict)) == (YES, NO, NO)


def test_what_leaves_it_open() -> None:
    assert sync(session(), **END, exit_ok=False) == ("INCOMPLETE", "FEWER-SEEN")  # the last steps are left out
    assert sync(session(199), **END, errors=1) == OPEN
    assert sync(session(), **END, health={"outlived": 1}) == ("INCOMPLETE", "CALLS-UNFINISHED")
    assert sync(session(300), session(file=1), **END, named=False) == YES  # the other may be a log


def test_ranges_are_not_durable_and_whole_filesystems_are() -> None:
    assert sync(session(300), **END, entries=("sync_file_range",)) == NO
    assert sync(session(300), **END, entries=("sync_file_range", "fdatasync")) == YES
    assert sync(session(150), **END, entries=("fsync", "syncfs")) == YES


def test_synchronous_writes_are_flags_of_the_open_file() -> None:
    each = {"includes": ("osync", "close"), "source": "dd"}
    assert sync(session(flags=("write", "sync")), **each) == sync(session(flags=("write", "dsync")), **each) == YES
    assert sync(session(), **each) == NO
    assert sync(session(*range(300, 310)), **each) == YES
    for way in ("pwritev2", "uring", "aio"):
        assert sync(session(), **each, writes=way) == OPEN
    assert sync(session(), session(flags=("write", "sync")), **each) == NO


def test_without_files_all_of_the_process_tree_count() -> None:
    assert sync(session(300), **END, told_apart=False) == YES
    assert sync(session(300), syncs=2, told_apart=False) == FEWER
    assert sync(session(), **END, told_apart=False) == FEWER
    assert sync(session(300), **END, told_apart=False, entries=("sync_file_range",)) == FEWER


@table("synchronisations", "where_calls_were_not_watched_the_device_must_have_most_of_it")
def test_where_calls_were_not_watched_the_device_must_have_most_of_it(
    own: int, layers: Sequence[str], wanted: object
) -> None:
    assert sync(session(), **END, own=own, layers=layers) == wanted
