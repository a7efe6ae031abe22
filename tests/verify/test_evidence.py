"""What is taken as evidence, and the counts, the devices and the notes that are held against a claim.

The rows say where each answer begins, to the operation and the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from pytest import approx

from ioassay.narrative import explanation_text
from ioassay.records.observation import Calls, File, Observation, Operation, Requests, Session, from_dict
from ioassay.records.record import Claim
from ioassay.verify.case import Expected, Pool, expected, is_direct, is_synced, pool_of
from ioassay.verify.claim_groups import Group
from ioassay.verify.device_traffic import judge_device
from ioassay.verify.evidence import FILES, Device, Evidence, calls_seen, classes, device_seen, timed_calls, unwatched
from ioassay.verify.judge import explanations
from ioassay.verify.latency_parts import latency_parts
from ioassay.verify.operation_counts import judge_counts

from .conftest import case, pool, table

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


PARTS = [
    Operation("pread64", "read", calls(5, 50)),
    Operation("uring", "read", calls(1, 10)),
    Operation("write", "write", calls(7, 70)),
    Operation("fsync", "sync", calls(2)),
]


@table(
    "evidence",
    "calls_by_file_are_those_of_the_group_s_sessions",
    "files_that_no_claim_names_may_be_others",
    "the_priming_record_of_a_pass_is_left_out_where_more_was_read",
    "totals_of_the_calls_where_files_are_not_told_apart",
)
def test_calls_seen(kind: str | None, of: Any, parts: bool | None, backend: str | None, wanted: Any, seen: Any) -> None:
    sessions = [] if parts else SESSIONS
    watched = observation(backend=backend or "bpf", operations=PARTS if parts else [])
    found = calls_seen(group(kind or "read", sessions=sessions, **(of or {})), watched)
    assert amounts(found) == wanted
    assert all(getattr(found, name) == value for name, value in (seen or {}).items())


def test_the_first_record_is_left_out_with_its_time() -> None:
    session = Session(1, 0, 0, read=calls(5, 50, 3, 8), first=calls(1, 10), second_ns=4)
    assert timed_calls(session, "read", primed=True) == Calls(4, 4, 0, 0, 40, 40, 4, 8, 4, 1, 1)
    assert timed_calls(replace(session, second_ns=0), "read", primed=True).first_ns == 3
    assert timed_calls(session, "read", primed=False) == session.read


@table("evidence", "totals_of_the_process_and_its_rings")
def test_totals_of_the_process_and_its_rings(kind: str, counters: Any, rings: int, wanted: object) -> None:
    own = [Operation("uring", "read", calls(rings, 10 * rings))] if rings else []
    watched = observation(("counters", "block", "uring"), operations=own, counters=counters)
    assert amounts(calls_seen(group(kind, told_apart=False), watched)) == wanted


@table("evidence", "which_engines_a_layer_sees")
def test_which_engines_a_layer_sees(engine: str, layers: Sequence[str], seen: bool) -> None:
    assert bool(unwatched(engine, layers)) != seen


BLOCK = {
    "sda reads": Requests("8:0", "sda", True, "read", calls(2, 100), merges=2),
    "sda writes": Requests("8:0", "sda", True, "write", calls(3, 30), merges=3),
    "sda discards": Requests("8:0", "sda", True, "discard", calls(4), merges=4),
    "sda flushes": Requests("8:0", "sda", True, "flush", calls(5), merges=5),
    "sda reads of others": Requests("8:0", "sda", False, "read", calls(6, 40), merges=6),
    "loop1 reads": Requests("7:1", "loop1", True, "read", calls(1, 7), merges=1),
    "dm-0 reads": Requests("8:0", "dm-0", True, "read", calls(1, 1)),
    "dm-0 reads of others": Requests("253:0", "dm-0", False, "read", calls(1, 1)),
    "dm-0 reads of others, of the files": Requests("254:1", "dm-0", False, "read", calls(1, 1)),
}
USUAL = list(BLOCK)[:6]
DISKS = {"sda": {"read_bytes": 5000, "write_bytes": 1}, "sdb": {"read_bytes": 70, "write_bytes": 9000}}


@table(
    "evidence",
    "requests_of_the_process_tree_and_of_others",
    "requests_to_the_device_of_the_files_come_first",
    "a_device_above_others_counts_where_the_files_lie_on_it",
    "the_process_account_stands_for_requests_that_were_not_watched",
)
def test_devices_seen(
    kind: str | None, on: str | None, block: Any, layers: Any, account: bool | None, disks: bool | None, wanted: Any
) -> None:
    files = [File(0, on, 5, "/data/big", "regular")] if on else []
    requests = [BLOCK[name] for name in (USUAL if block is None else block)]
    counters, of_disks = ACCOUNT if account else {}, DISKS if disks else {}
    seen = observation(layers or LAYERS, block=requests, counters=counters, disks=of_disks)
    found = device_seen(group(kind or "read", files=files), seen)
    assert {name: _listed(getattr(found, name)) for name in wanted} == {**wanted}


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


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


# Counts of calls


@table(
    "operation_counts",
    "calls_of_known_files_are_compared_exactly",
    "calls_that_failed_or_moved_a_part_are_no_data",
    "what_others_may_have_done_is_allowed_for_in_totals",
    "nothing_was_seen_where_the_claim_is_more_than_twice_what_others_do",
    "totals_resolve_a_claim_that_is_large_against_others_or_was_direct",
    "a_device_that_worked_leaves_a_claim_without_calls_open",
    "a_fault_maps_64_kib_at_most",
    "what_devices_did_for_others_does_not_stand_for_a_file_that_nobody_opened",
    "calls_that_others_finished_leave_fewer_open",
    "mapped_files_are_judged_by_the_device",
    "engines_without_data_or_beyond_the_kernel_are_unsubstantiated",
)
def test_counts(
    want: Any, seen: Any, calls: Any, claim: Any, own: int | None, device: Any, layers: Any, counters: Any,
    health: Any, wanted: Sequence[object],
) -> None:  # fmt: skip
    source, operations, volume, *others = (*(seen or (FILES,)), 0, 0)[: max(len(seen or ()), 3)]
    counted = Calls(operations, operations, **(calls or {}), bytes=volume)
    stated = {**(claim or {})}
    of_group = {name: stated.pop(name) for name in ("missing", "one_pass", "named") if name in stated}
    of = case(
        Group([0], [Claim("fio", "read", **stated)], True, **{"named": True, **of_group}),
        expected=Expected(*(want or (1000, 4_096_000))),
        seen=Evidence(source, operations, volume, *others, calls=counted),
        pool=pool(device=Device(own is not None, own_bytes=own or 0, **(device or {}))),
        observation=observation(layers or LAYERS, health=health or {}, counters=counters or {}),
    )
    assert [fault[:2] for fault in judge_counts(of)] == [*wanted]


def test_what_calls_wrote_leaves_no_less_than_nothing_for_a_mapped_file() -> None:
    made = Claim("fio", "read", engine="mmap", operations=16, bytes=2**20)
    of = case(
        Group([0], [made], True, files=[File(1, "0:30", 5, "/a", "regular", "tmpfs", page_cache_bytes=0)], named=True),
        expected=Expected(16, 2**20),
        seen=Evidence("nothing", 0, 0),
        pool=pool(device=Device(True)),
        observation=observation(sessions=[Session(1, 1, 9, write=calls(16, 2**20))]),
        mapped=[made],
    )
    (fault,) = judge_counts(of)
    assert fault.statements[-1]["moved_bytes"] == 0


@table("operation_counts", "sparse_writes_are_counted_by_their_reads")
def test_sparse_writes(claimed: Any, read: Any, written: Any, seen: Any, device: str | None) -> None:
    number, volume = claimed
    stated = Claim("dd", "write", operations=number, bytes=volume, counted_paths=("/in",), doubts=("sparse",))
    counted = [Session(1, 1, 9, read=calls(*read))] if read else []
    sparse = Group([0], [stated], True, [Session(0, 1, 9, write=calls(*written))], named=True, counted=counted)
    found = calls_seen(sparse, observation())
    assert (found.operations, found.bytes) == seen
    writes = pool_over(0, kind="write", bytes=written[1], synced=False)
    judged = judge_device(case(sparse, seen=found, pool=writes))
    assert (judged.faults[0].category if judged and judged.faults else None) == device


@table("operation_counts", "mapped_files_are_judged_by_their_pages")
def test_mapped_files(
    mapped: Any, added: int | None, written: int | None, read: int | None, dirtied: int | None, own: int | None,
    wanted: object,
) -> None:  # fmt: skip
    claims = [Claim("fio", **{"kind": "read", "engine": "mmap", **fields}) for fields in mapped]
    files = [File(0, "8:1", 9, "/data/big", "regular", page_cache_bytes=added)]
    made = Session(0, 1, 9, read=calls(1, read or 0) if read else Calls(), write=calls(9, written or 0))
    of = case(
        Group([0], claims[:1], True, files=files, named=True),
        mapped=claims,
        expected=Expected(claims[0].operations, claims[0].bytes),
        pool=pool(device=Device(own is not None, own_bytes=own or 0)),
        observation=observation(files=files, sessions=[made], counters={"write_bytes": dirtied} if dirtied else {}),
    )
    assert tuple(fault[:2] for fault in judge_counts(of)) == wanted


def test_priming_and_silent_passes_are_expected_beside_the_claim() -> None:
    claim = Claim("iozone", "read", operations=10, bytes=40960, record_bytes=4096, primed=True, silent_passes=2)
    beside = expected(Group([0], [claim], True))
    assert (beside.operations, beside.bytes, len(beside.notes)) == (10 + 1 + 20, 40960 + 4096 + 81920, 1)
    alone = expected(Group([0], [claim], True, one_pass=True))
    assert (alone.operations, alone.bytes, alone.notes) == (10, 40960, [])


@table("operation_counts", "claims_of_a_group_are_summed_where_all_state_them")
def test_claims_of_a_group_are_summed_where_all_state_them(claims: Sequence[dict[str, Any]], wanted: object) -> None:
    found = expected(Group([], [Claim("fio", "read", **claim) for claim in claims], True))
    assert (found.operations, found.bytes, found.rounded_bytes) == wanted


# What devices did, held against the bytes of the calls


SIZE = 10_000_000


def a_pool(device: Device, **fields: Any) -> Pool:
    sets = {"filesystems": fields.pop("filesystems", ("ext4",)), "devices": fields.pop("devices", ())}
    base = {"bytes": SIZE, "operations": 100, "syncs": 0, "direct": None, **fields}
    return pool(device=device, **base, **{name: frozenset(value) for name, value in sets.items()})


def pool_over(own: int = SIZE, *, everything: int = 0, account: int | None = None, **fields: Any) -> Pool:
    of = {"known": True, "own_requests": fields.pop("requests", None), "process_bytes": account}
    of |= {name: fields.pop(name) for name in ("known", "stacked") if name in fields}
    device = Device(**of, own_bytes=own, any_bytes=max(own, everything))
    return a_pool(device, **fields)


@table("device_traffic", "direct_and_unusual_storage", "reads_through_the_cache", "writes_through_the_cache")
def test_devices(fields: dict[str, Any], jumps: int | None, wanted: object, says: str | None) -> None:
    of = case(group(), pool=pool_over(**fields))
    vars(of)["jumps"] = jumps or 0  # a property that is computed once
    found = judge_device(of)
    faults = found.faults if found else ()
    assert [fault[:2] for fault in faults] == ([wanted] if wanted else [])
    assert says is None or says in {statement.code for statement in faults[0].statements}


@table("device_traffic", "what_the_device_surely_did")
def test_what_the_device_surely_did(fields: dict[str, Any], reached: int) -> None:
    assert pool_over(**fields).reached_bytes == reached
    assert (pool_over(operations=4).record_bytes, pool_over(operations=0).record_bytes) == (SIZE / 4, 0)


DONE, READ = Calls(4, 4, bytes=16384, first_ns=10, last_ns=20), Calls(3, 3, bytes=3000, first_ns=10, last_ns=20)


def session(*flags: str, file: int = 0, sync_ns: int | None = None, write: Calls = DONE, read: Calls = READ) -> Session:
    sync = Calls() if sync_ns is None else Calls(1, 1, first_ns=sync_ns, last_ns=sync_ns + 1)
    return Session(file, 1, 99, flags, read=read, write=write, sync=sync)


def written(*sessions: Session, told_apart: bool = True, layout: Any = (), **claim: Any) -> Group:
    files = [File(0, "8:1", 5, "/data/big", "regular", "ext4", 4096)]
    said = {"source": "fio", "kind": "write", **claim}
    return Group([0], [Claim(**said)], told_apart, sessions, files, layout=layout)


@table(
    "device_traffic",
    "direct_is_what_was_opened_so_or_else_what_is_claimed",
    "synchronisations_count_within_the_claimed_interval",
)
def test_sessions_are_direct_or_synchronised(sessions: Any, claim: Any, direct: Any, synced: Any) -> None:
    made = [
        session(
            *each.get("flags", ()), sync_ns=each.get("sync_ns"), write=DONE if each.get("writes", True) else Calls()
        )
        for each in sessions
    ]
    of = written(*made, **claim)
    assert is_direct(of) is direct if "direct" in claim else is_synced(of) is synced


DIFFERENT = {
    "direct": session("direct", sync_ns=15), "plain": session(), "of another file": session(file=9),
    "reads alone": session(write=Calls()), "nothing moved": session(write=Calls(4, 4)),
}  # fmt: skip
BY_WAY = [Operation("fsync", "sync", Calls(3, 3)), Operation("pread64", "read", READ)]


@table("device_traffic", "a_pool_holds_the_sessions_of_its_files", "a_pool_without_sessions_takes_what_is_claimed")
def test_pools(seen: Any, groups: Any, layers: Any, by_way: bool | None, direct: bool | None, wanted: Any) -> None:
    """Of 7 operations and 700 bytes that each group claims; `groups` name their sessions, `seen` all that there are."""

    def named(names: Sequence[str]) -> list[Session]:
        return [DIFFERENT[name] for name in names]

    watched = observation(layers or ("syscalls", "block"), sessions=named(seen), operations=BY_WAY if by_way else [])
    made = [written(*named(of), **{**claim, "layout": named(claim.get("layout", ()))}) for of, claim in groups]
    found = pool_of(made, [(7, 700)] * len(made), Device(True), watched, direct)
    assert {name: getattr(found, name) for name in wanted} == {
        name: frozenset(value) if isinstance(value, tuple) else value for name, value in wanted.items()
    }


# Facts that are worth a note beside a true claim


COUNT = 1000


def used(flags: Sequence[str], calls: int) -> Session:
    return Session(0, 1, 9, flags, read=Calls(calls, calls), write=Calls(calls, calls, bytes=9 * calls))


@table(
    "explanations",
    "what_was_seen_beside_the_claim",
    "how_the_group_was_judged",
    "what_the_device_did_otherwise",
    "fewer_requests_than_calls",
    "what_could_not_be_watched",
)
def test_notes(seen: Any, claim: Any, group: Any, pool: Any, device: Any, watched: Any, number: int) -> None:
    """How many notes there are; none by default."""
    made = {"source": FILES, "operations": COUNT, "bytes": SIZE, **(seen or {})}
    if "calls" in made:
        made["calls"] = Calls(**made["calls"])
    of = {"told_apart": True, **(group or {})}
    claims = [Claim("fio", **{"kind": "read", **(claim or {})})] * of.pop("number", 1)
    for kind in of.keys() & {"layout", "sessions"}:
        of[kind] = [used(**each) for each in of[kind]]
    base = {"known": True, "own_bytes": SIZE, "own_requests": COUNT, "any_bytes": SIZE}
    over = a_pool(Device(**{**base, **(device or {})}), **{"operations": COUNT, **(pool or {})})
    whole = {"layers": ("block", "syscalls"), **(watched or {})}
    if "own_requests" in whole:
        whole["block"] = [Requests("8:0", "sda", True, "read", Calls(*whole.pop("own_requests")))]
    held = {"expected": Expected(COUNT, SIZE), "seen": Evidence(**made), "observation": observation(**whole)}
    assert len(explanations(case(Group([0], claims, **of), pool=over, **held))) == number


@table("evidence", "parts_of_a_latency")
def test_parts_of_a_latency(
    explained: Any, claimed: Any, wanted: Any, parts: Any, text: str, entry_exit: Any, apart: str | None
) -> None:
    known = {"backend": "bpf", "asked": "explain", "layers": LAYERS, "explained": explained, "entry_exit": entry_exit}
    seen = from_dict(known)
    (found,) = latency_parts([Claim("fio", kind, latency_ns=means) for kind, means in claimed.items()], seen)
    assert (found.kind, found.engine, found.mean_ns, found.seen_ns) == wanted
    assert [tuple(asdict(part).values()) for part in found.parts] == [approx(part) for part in parts]
    assert str(explanation_text.parts_sentence(found)) == text
    assert str(explanation_text.sum_sentence(found) or "") == (apart or "")
