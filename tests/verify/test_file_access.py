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


def test_what_leaves_the_names_open_blames_nobody() -> None:
    assert files({"paths": ("/data/one",)}, "/data/two", source="user") == ("UNSUBSTANTIATED", "NOTHING-SEEN")
    assert files(NAMED, "/data/two", volume=SIZE // 2 - 1) == ("UNSUBSTANTIATED", "NOTHING-SEEN")
    assert files(NAMED, "/data/two", "") == ("INCOMPLETE", "OTHER-FILES")  # one was open before
    assert files(NAMED, "/data/two", "", volume=SIZE // 2) == ("CONTRADICTED", "OTHER-FILES")  # such as a log
    assert files(NAMED, "/jail/data/one") == ("INCOMPLETE", "OTHER-FILES")  # another root may hide where it lies
    assert files(NAMED, f"/data/{'x' * 248}") == ("CONTRADICTED", "OTHER-FILES")
    assert files(NAMED, f"/data/{'x' * 249}") == ("INCOMPLETE", "OTHER-FILES")  # longer paths are cut
    assert files(NAMED, "/data/two", layers=("block",)) == ("NOT-JUDGED", "")
    assert files(NAMED, "/data/two", health={"untracked_files": 1}) == ("INCOMPLETE", "EVENTS-LOST")


def test_what_another_claim_names_was_not_read_in_its_place() -> None:
    seen = Observation(
        "bpf", "syscalls", ("syscalls",), files=[File(0, "8:1", 1, "/data/two", "regular")], sessions=[session()]
    )
    claims = [Claim("fio", "read", bytes=SIZE, paths=(path,), paths_stated=True) for path in ("/data/one", "/data/two")]
    found = [judge_files(group) for group in groups(claims, seen)]
    assert [each and each.category for each in found] == ["UNSUBSTANTIATED", "CONFIRMED"]


def direct(
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


PAST, THROUGH = session(direct=True), session()
YES, NO, MAYBE = ("CONFIRMED", ""), ("CONTRADICTED", "NOT-DIRECT"), ("INCOMPLETE", "NOT-DIRECT")
BUFFERED = Claim("fio", "read", bytes=SIZE, direct=False)


def test_direct_is_how_the_file_was_opened() -> None:
    assert direct(PAST) == direct(PAST, THROUGH) == direct(PAST, session(volume=1)) == YES
    assert direct(THROUGH) == direct(session(volume=SIZE - 1, direct=True), session(volume=1)) == NO
    assert direct(PAST, THROUGH, claims=[Claim("fio", "read", direct=True)]) == NO  # how much is not claimed
    assert direct(PAST, THROUGH, claims=[Claim("fio", "read", bytes=SIZE, direct=True), BUFFERED]) == YES
    assert direct(THROUGH, claims=[BUFFERED]) is None
    assert direct() == direct(session(volume=0)) == direct(THROUGH, told_apart=False) == ("NOT-JUDGED", "")
    assert direct(THROUGH, health={"in_flight": 1}) == ("INCOMPLETE", "CALLS-UNFINISHED")


def test_a_flag_that_was_set_later_leaves_it_open_unless_pages_or_a_device_deny_it() -> None:
    later = {"fcntl": 1}
    assert direct(THROUGH, calls=later) == direct(THROUGH, calls={}) == MAYBE
    assert direct(THROUGH, calls=later, added=SIZE // 2 - 1) == MAYBE
    assert direct(THROUGH, calls=later, added=SIZE // 2) == NO  # pages came into the cache
    assert direct(THROUGH, calls=later, own=SIZE // 2 - 1) == NO  # nothing came from a device
    assert direct(THROUGH, calls=later, own=0, known=False) == MAYBE
    assert direct(THROUGH, calls=later, own=0, filesystem="tmpfs") == MAYBE
    assert direct(THROUGH, calls=later, own=0, filesystem="nfs4") == MAYBE


def test_the_last_part_of_a_block_may_be_buffered_once_a_run() -> None:
    record = session(volume=SIZE - SIZE // 20, direct=True)
    part = Session(0, 1, 9, ["read"], read=Calls(1, 1, bytes=SIZE // 20))
    assert direct(record, part, followed=True) == YES
    assert direct(record, part, part, followed=True) == NO
    two = [Claim("dd", "read", bytes=SIZE, direct=True)] * 2
    assert direct(record, part, record, part, claims=two, followed=True) == YES


def test_flags_that_were_followed_leave_nothing_open() -> None:
    assert direct(THROUGH, calls={"fcntl": 1}, followed=True) == NO
    assert direct(session(volume=SIZE - 1), session(volume=1, direct=True), calls={"fcntl": 2}, followed=True) == NO
    assert direct(PAST, calls={"fcntl": 1}, followed=True) == YES
