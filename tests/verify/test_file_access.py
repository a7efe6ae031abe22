"""Files that are named and how they were opened: where each answer begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.records.observation import Calls, File, Observation, Session
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import Group, groups
from ioassay.verify.device_traffic import Pool
from ioassay.verify.evidence import Device
from ioassay.verify.file_access import judge_direct, judge_files

from .conftest import table

SIZE = 1_000_000
NAMED = {"paths": ("/data/one",), "paths_stated": True}


def session(file: int = 0, volume: int = SIZE, *, direct: bool = False) -> Session:
    return Session(file, 1, 9, ["read", *(["direct"] if direct else [])], read=Calls(10, 10, bytes=volume))


def files(
    claim: Mapping[str, Any], *opened: str, source: str = "fio", volume: int = SIZE, **fields: Any
) -> tuple[str, str] | None:
    """What is said of the files of one claim, where each of `opened` was read."""
    seen = Observation(
        "bpf",
        "syscalls",
        fields.pop("layers", ("syscalls",)),
        files=[File(number, "8:1", number, path, "regular", "ext4") for number, path in enumerate(opened)],
        sessions=[session(number, volume) for number in range(len(opened))],
        **fields,
    )
    (group,) = groups([Claim(source, "read", bytes=SIZE, **claim)], seen)
    found = judge_files(group)
    return found and (found.category, found.reason)


@table("file_access", "files_that_are_named")
def test_files_that_are_named(claim: Mapping[str, Any], opened: Sequence[str], wanted: object) -> None:
    assert files(claim, *opened) == wanted


@table("file_access", "what_leaves_the_names_open_blames_nobody")
def test_what_leaves_the_names_open_blames_nobody(
    claim: Any, opened: Sequence[str], fields: Any, wanted: object
) -> None:
    paths = [f"/data/{'x' * int(path[7:])}" if path.startswith("/data/x") else path for path in opened]
    assert files(claim or NAMED, *paths, **(fields or {})) == wanted


def test_what_another_claim_names_was_not_read_in_its_place() -> None:
    seen = Observation(
        "bpf", "syscalls", ("syscalls",), files=[File(0, "8:1", 1, "/data/two", "regular")], sessions=[session()]
    )
    claims = [Claim("fio", "read", bytes=SIZE, paths=(path,), paths_stated=True) for path in ("/data/one", "/data/two")]
    found = [judge_files(group) for group in groups(claims, seen)]
    assert [each and each.category for each in found] == ["UNSUBSTANTIATED", "CONFIRMED"]


def judged(
    *sessions: Session,
    calls: Mapping[str, int] | None = None,
    added: int | None = 0,
    own: int = SIZE,
    known: bool = True,
    filesystem: str = "ext4",
    health: Mapping[str, int] | None = None,
    claims: Sequence[Claim] = (Claim("fio", "read", bytes=SIZE, direct=True),),
    told_apart: bool = True,
    followed: bool = False,
) -> tuple[str, str] | None:
    """What is said of direct I/O."""
    group = Group(
        range(len(claims)), claims, told_apart, sessions, [File(0, "8:1", 5, "/a", "regular", filesystem, added)]
    )
    pool = Pool(
        kind="read", bytes=SIZE, operations=10, device=Device(known, own_bytes=own), claims=1, syncs=0,
        page_cache_bytes=added, direct=False, synced=None, filesystems=frozenset({filesystem}), storage=True,
        watched=True,
    )  # fmt: skip
    seen = Observation("bpf", "syscalls", ("syscalls",), calls={"read": 9} if calls is None else calls,
                       health=health or {}, flags_followed=followed)  # fmt: skip
    found = judge_direct(group, pool, seen)
    return found and (found.category, found.reason)


@table("file_access", "direct_io_is_that_of_the_sessions")
def test_direct_io_is_that_of_the_sessions(
    direct: Sequence[int] | None, buffered: Sequence[int] | None, last_parts: int | None, claims: Any, fields: Any,
    wanted: object,
) -> None:  # fmt: skip
    sessions = [session(volume=volume, direct=True) for volume in direct or ()]
    sessions += [session(volume=volume) for volume in buffered or ()]
    sessions += [Session(0, 1, 9, ["read"], read=Calls(1, 1, bytes=SIZE // 20))] * (last_parts or 0)
    made = [Claim("fio", "read", bytes=SIZE, direct=is_direct) for is_direct in claims or (True,)]
    assert judged(*sessions, claims=made, **(fields or {})) == wanted


def test_without_a_claimed_volume_each_session_has_to_be_direct() -> None:
    assert judged(session(direct=True), session(), claims=[Claim("fio", "read", direct=True)]) == (
        "CONTRADICTED", "NOT-DIRECT",
    )  # fmt: skip
