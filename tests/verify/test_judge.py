"""What claims are judged together, the numbers of a verdict, and what several claims of one kind share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ioassay.records.observation import Calls, File, Observation, Operation, Requests, Session
from ioassay.records.record import Claim
from ioassay.verify import latency_bounds
from ioassay.verify.claim_groups import Group, groups
from ioassay.verify.judge import judge, overall
from ioassay.verify.verdict import UNSUPPORTED, Code, Verdict

from .conftest import table

SECOND = 10**9


def calls(number: int, volume: int, errors: int = 0) -> Calls:
    return Calls(number, number, errors, 0, volume, volume, 2 * SECOND, 3 * SECOND, number, 1, 1)


def observation(
    *paths: str, sides: Sequence[str] = ("read",), direct: Sequence[bool] = (), **fields: Any
) -> Observation:
    """Files with one session each, in which each of `sides` moved 1000 operations of 4096 bytes."""
    flags = [["read", "write", *(["direct"] if wanted else [])] for wanted in direct or [False] * len(paths)]
    done = calls(1003, 4_096_000, 3)
    sessions = [
        Session(at, SECOND, 4 * SECOND, flags[at], **dict.fromkeys(sides, done), sync=Calls(2, 2))
        for at in range(len(paths))
    ]
    files = [File(at, "8:1", 5 + at, path, "regular", "ext4") for at, path in enumerate(paths)]
    return Observation("bpf", "syscalls", ("block", "syscalls", "aio", "uring"), held_ns=SECOND, ended_ns=9 * SECOND,
                       files=files, sessions=sessions, **fields)  # fmt: skip


def claim(path: str, kind: str = "read", source: str = "fio", **fields: Any) -> Claim:
    return Claim(source, kind, **{"operations": 1000, "bytes": 4_096_000, "paths": (path,), **fields})


def requests(volume: int = 4_096_000, kind: str = "read") -> Requests:
    return Requests("8:0", "sda", True, kind, calls(80, volume))


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
        "claimed_operations": 800, "claimed_bytes": 4_000_000, "seen_operations": 1000, "seen_bytes": 4_096_000,
        "evidence": "files", "others_operations": 0, "others_bytes": 0, "seen_errors": 3, "seen_syncs": 2,
        "device_bytes": 3_000_000, "device_requests": 80, "device_merges": 6, "device_upper_bound_bytes": 3_500_000,
        "device_share": pytest.approx(3_000_000 / 4_096_000), "operations_difference_percent": pytest.approx(25.0),
        "bytes_difference_percent": pytest.approx(2.4),
    }  # fmt: skip


@table(
    "judge", "what_the_device_did_is_shared_by_the_claims_of_a_kind", "direct_io_takes_its_bytes_of_the_device_first"
)
def test_shares_of_the_device(claims: Any, seen: Any, volume: int, wanted: Sequence[float]) -> None:
    made = [claim(**{"path": f"/{name}", **fields}) for name, fields in zip("ab", claims, strict=True)]
    verdicts = judge(made, observation("/a", "/b", block=[requests(volume)], **seen))
    assert [verdict.numbers.get("device_share") for verdict in verdicts] == [*wanted]


def test_laying_out_a_file_is_none_of_its_writes() -> None:
    seen = observation("/a", sides=("write",), block=[requests(6_000_000, "write")])
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
    made = claim("/a", fields.pop("kind", "read"), **fields)
    (verdict,) = judge([made], replace(observation("/a", block=[requests()]), layers=layers))
    assert verdict.reason == reason


def test_more_than_a_sum_of_both_kinds_is_others_where_claims_of_one_kind_use_its_file() -> None:
    operations = [Operation(kind, "pread64", calls(1000, 4_096_000)) for kind in ("read", "write")]
    seen = observation("/a", sides=("read", "write"), block=[requests(), requests(kind="write")], operations=operations)
    both = claim("/a", "mixed")
    alone, beside = judge([both], seen)[0], judge([both, claim("/a", "write", operations=None, bytes=None)], seen)[0]
    assert [(one.category, one.reason) for one in (alone, beside)] == [
        ("CONTRADICTED", "MORE-SEEN"),
        ("INCOMPLETE", "MORE-SEEN"),
    ]


@pytest.mark.parametrize(("other", "is_judged"), [("read", False), ("mixed", True)])
def test_a_call_through_the_cache_may_be_of_the_claim_of_another_kind_on_the_same_file(
    other: str, is_judged: bool
) -> None:
    operations = [Operation(kind, "pread64", calls(1000, 4_096_000)) for kind in ("read", "write")]
    seen = observation("/a", sides=("read", "write"), block=[requests(), requests(kind="write")], operations=operations)
    mixed = claim("/a", "mixed", direct=True, operations=2000, bytes=8_192_000)
    verdict, _ = judge([mixed, claim("/a" if other == "read" else "/b", other)], seen)
    assert (verdict.reason == "NOT-DIRECT") is is_judged


def test_keys_are_judged_beside_io() -> None:
    keys = Claim("db_bench", "keys", operations=5, seconds=1.0)
    operations = [Operation("read", "read", calls(1000, 4_096_000))]
    verdict = judge([keys, claim("/a"), keys], observation("/a", block=[requests()], operations=operations))
    assert [(each.category, each.claim and each.claim.kind) for each in verdict] == [
        (UNSUPPORTED, "keys"), ("CONFIRMED", "read"), (UNSUPPORTED, "keys"),
    ]  # fmt: skip


def test_of_equals_the_first_is_the_worst() -> None:
    verdicts = [Verdict("CONFIRMED", "", str(number)) for number in range(3)]
    assert overall(verdicts).explanation == "0"
    assert overall([]).category == UNSUPPORTED


def test_without_a_claim_the_verdict_says_what_the_kernel_saw() -> None:
    made = [Operation(entry, "read", calls(5, 500)) for entry in ("read", "pread64")]
    block = [requests(300), requests(700, "write"), replace(requests(), own=False)]
    seen = observation(operations=made, counters={"rchar": 7, "wchar": 9}, block=block)
    _, called, requested = overall([], seen).explanation
    assert [part.values[1:] for part in called["parts"]] == [(("number", 10), ("bytes", 1000)), (("bytes", 9),)]
    assert [part["bytes"] for part in requested["parts"]] == [300, 700]


# Which claims are judged together, on which files and sessions


DONE = Calls(4, 4, bytes=16384, first_ns=1, last_ns=2)


def file(number: int, path: str, kind: str = "regular") -> File:
    return File(number, "8:1", 100 + number, path, kind)


def session(number: int, opened_ns: int, *kinds: str, flags: Sequence[str] = ("read", "write")) -> Session:
    return Session(number, opened_ns, opened_ns + 5, flags, **dict.fromkeys(kinds, DONE))


def opened(files: Sequence[File], sessions: Sequence[Session], **fields: Any) -> Observation:
    return Observation("bpf", "syscalls", fields.pop("layers", ("syscalls",)), files=files, sessions=sessions, **fields)


def begun(group: Group) -> list[int]:
    return [session.opened_ns for session in group.sessions]


def used(claim: Claim, *files: File, kind: str = "read") -> list[str]:
    """The files of a claim, where each was used once."""
    (result,) = groups([claim], opened(files, [session(each.id, 1, kind) for each in files]))
    return [each.path for each in result.files]


@table("claim_groups", "a_file_is_named_by_its_path_or_its_folder")
def test_a_file_is_named_by_its_path_or_its_folder(named: str, place: str, same: bool) -> None:
    (result,) = groups([Claim("user", "read", paths=(named,))], opened([file(0, place)], [session(0, 1, "read")]))
    assert (result.named, [each.path for each in result.files]) == (same, [place] if same else [])
    assert result.missing == ([] if same else [named])


def test_a_path_that_was_cut_names_the_one_file_that_it_begins() -> None:
    cut = "/" + "d" * 254
    long = Claim("fio", "read", paths=(cut + "d/data",), paths_stated=True)
    assert used(long, file(0, cut), file(1, "/other")) == [cut]
    (either,) = groups([long], opened([file(0, cut), file(1, cut)], [session(0, 1, "read")]))
    assert (either.named, either.missing) == (False, list(long.paths))
    assert used(long, file(0, cut[:-1])) == []  # whole, so another one


@table(
    "claim_groups",
    "a_tool_that_names_no_file_means_those_that_are_no_program_s_own",
    "a_folder_that_is_named_stands_for_its_files_and_not_for_itself",
    "only_a_user_means_files_that_nobody_opened",
)
def test_which_files_are_meant(claim: Any, by: str | None, files: Any, means: tuple[str, ...]) -> None:
    made = Claim(**{"source": "fio", "kind": "read", **claim})
    listed = [file(number, *of) for number, of in enumerate(files)]
    assert tuple(used(made, *listed, kind=by or made.kind)) == means


FILES = [file(0, "/data/one"), file(1, "/data/two"), file(2, "/data/three")]
SESSIONS = [session(2, 30, "read"), session(0, 10, "read"), session(1, 20, "write"), session(0, 5, "read")]


@table("claim_groups", "kinds_are_judged_as_a_whole_where_files_are_not_told_apart")
def test_kinds_are_judged_as_a_whole_where_files_are_not_told_apart(fields: Any, told_apart: bool) -> None:
    claims = [Claim("iozone", "read"), Claim("iozone", "write"), Claim("iozone", "read")]
    result = groups(claims, opened(FILES, SESSIONS, **fields))
    assert [group.told_apart for group in result] == [told_apart] * (3 if told_apart else 2)
    if not told_apart:
        assert [group.places for group in result] == [[0, 2], [1]] and len(result[0].files) == 3


def test_what_was_not_watched_is_judged_apart() -> None:
    claims = [Claim("fio", "read", engine=engine) for engine in ("psync", "libaio", "io_uring", "sync", "splice")]
    places = [group.places for group in groups(claims, opened(FILES, SESSIONS, layers=["counters", "uring"]))]
    assert places == [[0, 2, 3], [1], [4]]


SESSIONS_OF = {
    "usual": SESSIONS,
    "passes": [
        session(0, 1), session(0, 2, "write"), session(0, 3, "write"), session(1, 4, "read"), session(0, 5, "read"),
        session(0, 6, "read"), session(0, 7, "read"),
    ],
    "only written": [session(0, 1, "write", flags=("write",))],
    "then opened for both": [session(0, 1, "write", flags=("write",)), session(0, 2, "write")],
    "then only read": [session(0, 1, "write", flags=("write",)), session(0, 2, "read")],
    "early, without an open": [
        *SESSIONS,
        Session(0, 0, 9, read=Calls(1, 1, first_ns=15, last_ns=16), write=Calls(1, 1, first_ns=7, last_ns=8)),
    ],
}  # fmt: skip


@table(
    "claim_groups",
    "claims_of_one_kind_that_share_a_file_are_summed",
    "a_pass_takes_the_next_session_of_its_kind_that_moved_something",
    "a_layout_is_what_was_only_written_before_files_were_opened_for_both",
    "a_session_without_an_open_begins_with_its_first_call",
)
def test_sessions_of_claims(seen: str, source: str, claims: Any, wanted: Any, places: Any, layout: Any) -> None:
    """By the times when they were opened, as are those that only laid the files out; `places` are of the claims."""
    made = [Claim(source, **{"paths": ("/data/one",), **claim}) for claim in claims]
    result = groups(made, opened(FILES, SESSIONS_OF[seen]))
    assert tuple(tuple(begun(group)) for group in result) == wanted
    assert places is None or tuple(tuple(group.places) for group in result) == places
    assert layout is None or tuple(each.opened_ns for group in result for each in group.layout) == layout


@table("claim_groups", "what_was_done_before_a_process_began_or_after_it_ended_is_another_s")
def test_lives_of_processes(source: str, lives: Any, reads: Any, bytes: int | None, own: tuple[int, ...]) -> None:
    claims = [
        Claim(source, "read", paths=("/data/one",), bytes=bytes or 16384, began_ns=began_ns, ended_ns=ended_ns)
        for began_ns, ended_ns in lives
    ]
    made = [Session(0, 1, 99, ("read",), read=replace(DONE, first_ns=of[0], last_ns=of[1])) for of in reads]
    (result,) = groups(claims, opened(FILES, made))
    assert tuple(session.read.first_ns for session in result.sessions) == own
    assert {session.read.first_ns for session in result.outside} == {of[0] for of in reads} - {*own}


@table("claim_groups", "sides_that_a_shell_redirected_are_known_by_the_process")
def test_sides_that_a_shell_redirected(claim: Any, files: Any, means: tuple[str, ...], exactly: bool | None) -> None:
    life = {"began_ns": 1, "ended_ns": 2, "doubts": ("sides-unknown",), "kind": "read"}
    made = Claim("dd", **{**life, **claim})
    listed = [file(number, *of) for number, of in enumerate(files)]
    (result,) = groups([made], opened(listed, [session(each.id, 1, made.kind) for each in listed]))
    assert tuple(each.path for each in result.files) == means
    assert result.named == bool(exactly or made.output == "8:1:101")


def test_the_file_of_a_pass_is_that_of_its_session() -> None:
    (result,) = groups([Claim("iozone", "write")], opened(FILES, SESSIONS))
    assert (result.one_pass, [each.id for each in result.files], result.named) == (True, [1], False)


@pytest.mark.parametrize(
    ("changed", "earlier"), [({}, True), ({"mean": 9400.0, "min": 3950.0}, False), ({"clat.min": 10_570.0}, False)]
)
def test_work_before_a_call_shows_in_more_than_one_number(changed: dict[str, float], earlier: bool) -> None:
    latency_ns = {"mean": 11_545.0, "min": 10_576.0, "clat.mean": 4648.0, "clat.min": 3916.0, **changed}
    assert latency_bounds._begins_earlier(Claim("fio", "write", engine="psync", latency_ns=latency_ns)) == earlier
