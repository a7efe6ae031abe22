"""Which claims are judged together, on which files and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.records.observation import Calls, File, Observation, Session
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import Group, groups

from .conftest import table

DONE = Calls(4, 4, bytes=16384, first_ns=1, last_ns=2)


def file(number: int, path: str, kind: str = "regular") -> File:
    return File(number, "8:1", 100 + number, path, kind)


def session(number: int, opened_ns: int, *kinds: str, flags: Sequence[str] = ("read", "write")) -> Session:
    return Session(number, opened_ns, opened_ns + 5, flags, **dict.fromkeys(kinds, DONE))


def observation(files: Sequence[File], sessions: Sequence[Session], **fields: Any) -> Observation:
    return Observation("bpf", "syscalls", fields.pop("layers", ("syscalls",)), files=files, sessions=sessions, **fields)


def begun(group: Group) -> list[int]:
    return [session.opened_ns for session in group.sessions]


def used(claim: Claim, *files: File, kind: str = "read") -> list[str]:
    """The files of a claim, where each was used once."""
    (result,) = groups([claim], observation(files, [session(each.id, 1, kind) for each in files]))
    return [each.path for each in result.files]


@table("claim_groups", "a_file_is_named_by_its_path_or_its_folder")
def test_a_file_is_named_by_its_path_or_its_folder(named: str, opened: str, same: bool) -> None:
    (result,) = groups([Claim("user", "read", paths=(named,))], observation([file(0, opened)], [session(0, 1, "read")]))
    assert (result.named, [each.path for each in result.files]) == (same, [opened] if same else [])
    assert result.missing == ([] if same else [named])


def test_a_path_that_was_cut_names_the_one_file_that_it_begins() -> None:
    cut = "/" + "d" * 254
    long = Claim("fio", "read", paths=(cut + "d/data",), paths_stated=True)
    assert used(long, file(0, cut), file(1, "/other")) == [cut]
    (either,) = groups([long], observation([file(0, cut), file(1, cut)], [session(0, 1, "read")]))
    assert (either.named, either.missing) == (False, list(long.paths))
    assert used(long, file(0, cut[:-1])) == []  # whole, so another one


def test_a_tool_that_names_no_file_means_those_that_are_no_program_s_own() -> None:
    library, script, data = file(0, "/usr/lib/libc.so.6"), file(1, "/home/me/job.fio"), file(2, "/home/me/data")
    part, proc, pipe = file(3, "/opt/x/locale/de"), file(4, "/proc/stat"), file(5, "/home/me/pipe", "pipe")
    assert used(Claim("fio", "read"), library, script, data, part, proc, pipe) == ["/home/me/data"]
    assert used(Claim("fio", "read"), file(0, "/home/me/libx.so.2")) == []
    # What is written is data wherever it lies, but what the kernel shows there never is.
    assert used(Claim("fio", "write"), file(0, "/opt/data.py"), proc, kind="write") == ["/opt/data.py"]
    # A file that was open before has no path: it is meant where there is no other.
    assert used(Claim("fio", "read"), file(0, ""), data) == ["/home/me/data"]
    assert used(Claim("fio", "read"), file(0, "")) == [""]
    assert used(Claim("fio", "write"), data) == []


def test_a_folder_that_is_named_stands_for_its_files_and_not_for_itself() -> None:
    claim = Claim("user", "read", paths=("/data",))
    assert used(claim, file(0, "/data", "directory"), file(1, "/data/one"), file(2, "/data/two")) == [
        "/data/one",
        "/data/two",
    ]


def test_only_a_user_means_files_that_nobody_opened() -> None:
    for source, files in (("user", []), ("fio", ["/data/big"])):
        assert used(Claim(source, "read", paths=("/data/other",)), file(0, "/data/big")) == files


FILES = [file(0, "/data/one"), file(1, "/data/two"), file(2, "/data/three")]
SESSIONS = [session(2, 30, "read"), session(0, 10, "read"), session(1, 20, "write"), session(0, 5, "read")]


def test_claims_of_one_kind_that_share_a_file_are_summed() -> None:
    def claim(kind: str, *paths: str) -> Claim:
        return Claim("fio", kind, paths=[f"/data/{path}" for path in paths])

    claims = [
        claim("read", "one"), claim("read", "two"), claim("write", "one"), claim("read", "three"),
        claim("read", "two", "one"), claim("read", "three"),
    ]  # fmt: skip
    result = groups(claims, observation(FILES, SESSIONS))
    assert [group.places for group in result] == [[0, 1, 4], [2], [3, 5]]
    assert [begun(group) for group in result] == [[5, 10, 20], [5, 10], [30]]
    later = groups([*claims, claim("read", "two", "three")], observation(FILES, SESSIONS))
    assert [group.places for group in later] == [[0, 1, 3, 4, 5, 6], [2]]
    last = groups(
        [*claims[:4], claim("read", "one", "two", "three"), claim("read", "two")], observation(FILES, SESSIONS)
    )
    assert [group.places for group in last] == [[0, 1, 3, 4, 5], [2]]


@table("claim_groups", "kinds_are_judged_as_a_whole_where_files_are_not_told_apart")
def test_kinds_are_judged_as_a_whole_where_files_are_not_told_apart(fields: Any, told_apart: bool) -> None:
    claims = [Claim("iozone", "read"), Claim("iozone", "write"), Claim("iozone", "read")]
    result = groups(claims, observation(FILES, SESSIONS, **fields))
    assert [group.told_apart for group in result] == [told_apart] * (3 if told_apart else 2)
    if not told_apart:
        assert [group.places for group in result] == [[0, 2], [1]] and len(result[0].files) == 3


def passes(*claims: Claim, sessions: Sequence[Session] = SESSIONS) -> list[list[int]]:
    return [begun(group) for group in groups(claims, observation(FILES, sessions))]


def test_a_pass_takes_the_next_session_of_its_kind_that_moved_something() -> None:
    def claim(kind: str, path: str = "one", **fields: Any) -> Claim:
        return Claim("iozone", kind, paths=(f"/data/{path}",) if path else (), **fields)

    made = [session(0, 1), session(0, 2, "write"), session(0, 3, "write"), session(1, 4, "read"), session(0, 5, "read"),
            session(0, 6, "read"), session(0, 7, "read")]  # fmt: skip
    assert passes(claim("write"), claim("read"), claim("read"), sessions=made) == [[2], [5], [6]]
    assert passes(claim("write", unreported=("layout",)), sessions=made) == [[3]]
    assert passes(claim("read", silent_passes=1), claim("read"), claim("read"), sessions=made) == [[5], [7], []]
    assert passes(claim("mixed"), claim("mixed"), sessions=made) == [[2], [3]]
    assert passes(claim("read", engine="mmap"), claim("read"), sessions=made) == [[], [5]]
    assert passes(claim("read", "two"), claim("read"), sessions=made) == [[4], [5]]
    # Without a name the passes are over all files that are no program's own, in the order of time.
    assert passes(claim("write", ""), claim("read", ""), claim("read", ""), sessions=made) == [[2], [4], [5]]
    both = Claim("iozone", "read", paths=("/data/one", "/data/two"))
    assert passes(both, sessions=made) == [[1, 2, 3, 4, 5, 6, 7]]


def test_the_file_of_a_pass_is_that_of_its_session() -> None:
    (result,) = groups([Claim("iozone", "write")], observation(FILES, SESSIONS))
    assert (result.one_pass, [each.id for each in result.files], result.named) == (True, [1], False)


def test_a_layout_is_what_was_only_written_before_files_were_opened_for_both() -> None:
    written, both = session(0, 1, "write", flags=("write",)), session(0, 2, "write")
    claim = Claim("fio", "write", paths=("/data/one",))
    (result,) = groups([claim], observation(FILES, [written, both]))
    assert (begun(result), [each.opened_ns for each in result.layout]) == ([2], [1])
    (only,) = groups([claim], observation(FILES, [written]))
    assert (begun(only), list(only.layout)) == ([1], [])
    (other,) = groups([Claim("dd", "write", paths=("/data/one",))], observation(FILES, [written, both]))
    assert (begun(other), list(other.layout)) == ([1, 2], [])
    (mapped,) = groups([Claim("fio", "write", paths=("/data/one",), engine="mmap")], observation(FILES, [written]))
    assert (begun(mapped), [each.opened_ns for each in mapped.layout]) == ([], [1])


def test_a_session_without_an_open_begins_with_its_first_call() -> None:
    early = Session(0, 0, 9, read=Calls(1, 1, first_ns=15, last_ns=16), write=Calls(1, 1, first_ns=7, last_ns=8))
    (result,) = groups([Claim("fio", "read", paths=("/data/one",))], observation(FILES, [*SESSIONS, early]))
    assert begun(result) == [5, 0, 10]
