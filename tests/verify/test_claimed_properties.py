"""The properties of a claim, each held against its evidence: engine, synchronisations, latencies, files, times.

And the ratio of watched to unwatched runs. The rows say where each answer begins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ioassay.records.observation import Calls, File, Histogram, Observation, Operation, Session
from ioassay.records.record import Claim
from ioassay.verify import session_times
from ioassay.verify.case import Expected
from ioassay.verify.claim_groups import Group, groups
from ioassay.verify.evidence import FILES, Device, Evidence
from ioassay.verify.file_access import judge_direct, judge_engine, judge_files, judge_sync
from ioassay.verify.judge import Effect, Twins, effect
from ioassay.verify.latency_bounds import judge_latency
from ioassay.verify.session_times import claimed_seconds, judge_times, timing_definitions
from ioassay.verify.verdict import Finding

from .conftest import _sum, case, pool, said, table

SIZE = 1_000_000
LAYERS = ("block", "uring", "aio", "syscalls")
Said = tuple[str, str] | None
"""Category and reason."""


def device(own: int = SIZE, *, known: bool = True) -> Device:
    return Device(known, own_bytes=own, any_bytes=own)


# The way into the kernel


@table(
    "engines",
    "each_engine_has_its_ways",
    "a_few_calls_another_way_are_no_other_engine",
    "a_way_that_was_not_watched_is_open",
    "mapped_files_are_laid_out_and_checked_by_calls",
)
def test_engines(name: str, entry: str | None, ways: Any, fields: Any, wanted: str | None) -> None:
    """The category, where the process tree moved `ways` (entry, bytes), or all by one."""
    of = {
        "seen": SIZE,
        "source": FILES,
        "others": 0,
        "kind": "read",
        "layers": LAYERS,
        "unreported": (),
        **(fields or {}),
    }
    claims = [Claim("fio", of["kind"], engine=each, unreported=of["unreported"]) for each in name.split("+")]
    moved = [(entry, SIZE)] if entry else ways
    operations = [Operation(way, of["kind"], Calls(9, 9, bytes=volume)) for way, volume in moved]
    watched = Observation("bpf", "syscalls", of["layers"], operations=operations)
    evidence = Evidence(of["source"], 9, of["seen"], 0, of["others"])
    group = Group([0], claims, of["source"] == FILES)
    found = said(judge_engine(case(group, expected=Expected(9, SIZE), seen=evidence, observation=watched)))
    assert (found and found[0]) == wanted


# Synchronisations


def synced(*ends: int, file: int = 0, errors: int = 0, flags: Sequence[str] = ("write",), **of: int) -> Session:
    """A session that wrote until 200 and was synchronised at these times."""
    count = len(ends)
    sync = Calls(count, count, errors, first_ns=min(ends), last_ns=max(ends)) if ends else Calls()
    return Session(file, 1, 999, flags, write=WRITTEN, sync=sync, **of)  # type: ignore[arg-type]


WRITTEN = Calls(10, 10, bytes=SIZE, first_ns=100, last_ns=200)
OF_GROUPS = ("told_apart", "named", "one_pass")


def said_of_synchronisations(
    sessions: Sequence[Session],
    *,
    source: str = "fio",
    entries: Sequence[str] = ("fsync",),
    layers: Sequence[str] = LAYERS,
    own: int = SIZE,
    exit_ok: bool = True,
    health: dict[str, int] | None = None,
    writes: str = "pwrite64",
    followed: bool = False,
    **claim: Any,
) -> Said:
    of_group = {"told_apart": True, "named": True} | {name: claim.pop(name) for name in OF_GROUPS if name in claim}
    group = Group([0], [Claim(source, **{"kind": "write", **claim})], sessions=sessions, **of_group)
    number = sum(one.sync.calls for one in sessions)
    operations = [Operation(entry, "sync", Calls(number, number)) for entry in entries] if number else []
    operations.append(Operation(writes, "write", WRITTEN))
    seen = Observation("bpf", "syscalls", layers, operations=operations, health=health or {}, syncs_followed=followed)
    over = pool("write", device(own), watched="block" in layers)
    return said(judge_sync(case(group, pool=over, observation=seen, exit_ok=exit_ok)))


@table(
    "synchronisations",
    "synchronisations_of_known_files",
    "a_pass_has_its_own_session",
    "what_leaves_it_open",
    "ranges_are_not_durable_and_whole_filesystems_are",
    "synchronous_writes_are_flags_of_the_open_file",
    "without_files_all_of_the_process_tree_count",
    "where_calls_were_not_watched_the_device_must_have_most_of_it",
    "synchronisations_come_among_the_writes_as_claimed",
)
def test_synchronisations(sessions: Sequence[dict[str, Any]], claim: dict[str, Any], wanted: Said) -> None:
    made = [synced(*each.get("ends", ()), **{k: v for k, v in each.items() if k != "ends"}) for each in sessions]
    assert said_of_synchronisations(made, **claim) == wanted


# Latencies


MEAN_NS = 100_000
SPREAD = Histogram((50_000, 100_000, 150_000, 900_000), (250, 600, 140, 10))
"""Of the calls of the process tree, of which ten, the longest, are on another file."""


def of_latency(latency: dict[str, float], seen: Evidence | None = None, claims: int = 1, **claim: Any) -> Any:
    """The reason of the fault, and how many notes there are."""
    busy = bool(claim.pop("contended", False))
    watched = replace(SPREADED, outer_intervals=OUTER) if claim.pop("outer", False) else SPREADED
    made = Claim("fio", **{"kind": "read", "seconds": 1.0, "latency_ns": latency, "operations": 990, **claim})
    session = Session(0, 1, 9, sync=Calls(4, 4, sum_ns=4 * 80_000, min_ns=80_000, max_ns=80_000))
    group = Group([0], [made] * claims, True, [session])
    found = judge_latency(case(group, seen=seen or timed(), observation=watched, contended=busy)) or Finding()
    return found.faults[0].reason if found.faults else "", len(found.notes)


def timed(calls: int = 990, completed: int = 990) -> Evidence:
    done = Calls(calls, completed, sum_ns=MEAN_NS * completed, min_ns=50_000, max_ns=150_000)
    return Evidence(FILES, calls, 0, calls=done, timed=True)


SPREADED = Observation(
    "bpf", "syscalls", (), counters={"involuntary_switches": 0},
    operations=[Operation("pread64", "read", Calls(1000, 1000), SPREAD),
    Operation("fsync", "sync", Calls(4, 4), Histogram((80_000,), (4,)))],
    sessions=[Session(1, 1, 9, read=Calls(10, 10, min_ns=900_000, max_ns=900_000))],
)  # fmt: skip


OUTER = {
    "read": Histogram((52_000, 102_000, 153_000, 5_000_000), (250, 600, 138, 2)),
    "sync": Histogram((90_000, 700_000), (3, 1)),
}
"""Around the same: between two of the calls the tool waited for a processor."""


@table(
    "latency_bounds",
    "a_mean_may_be_a_little_below_and_more_above",
    "no_operation_takes_longer_than_the_interval",
    "each_printed_latency_has_bounds",
    "outer_intervals_bound_what_a_tool_prints",
)
def test_latencies(mean_ns: float | None, latency: Any, fields: Any, wanted: object) -> None:
    assert of_latency(latency or {"mean": mean_ns}, **fields) == wanted


def test_which_latencies_are_judged() -> None:
    half = {"mean": 50_000.0}
    assert of_latency(half, timed(990, 971)) == ("OTHER-LATENCY", False)
    assert of_latency(half, timed(990, 970)) == ("", True)  # too few ends were seen
    assert of_latency(half, timed(990, 0)) == of_latency(half, Evidence(FILES, 990, 0, calls=timed().calls)) == ("", 1)
    assert of_latency(half, claims=2) == ("", 2)  # whose each call was is not known
    made = Claim("fio", "read", operations=990, latency_ns={"mean": 97_500.0})
    found = judge_latency(case(Group([0], [made], True), seen=timed(), observation=SPREADED))
    numbers = found.numbers if found else {}
    known = {"claimed_latency_ns": 97_500.0, "seen_latency_ns": MEAN_NS, "latency_coverage": 1.0}
    assert numbers == {**known, "latency_match_mean": 0.975}


# Files, and how they were opened


def opened(file: int = 0, volume: int = SIZE, *, direct: bool = False) -> Session:
    return Session(file, 1, 9, ["read", *(["direct"] if direct else [])], read=Calls(10, 10, bytes=volume))


def said_of_files(
    paths: Sequence[str], *claims: Mapping[str, Any], source: str = "fio", volume: int = SIZE, **fields: Any
) -> list[Said]:
    """Of the files of each claim, where each of `paths` was read."""
    files = [File(number, "8:1", number, path, "regular", "ext4") for number, path in enumerate(paths)]
    sessions = [opened(number, volume) for number in range(len(paths))]
    seen = Observation("bpf", "syscalls", **{"layers": ("syscalls",), **fields}, files=files, sessions=sessions)
    listed = groups([Claim(source, "read", bytes=SIZE, **claim) for claim in claims], seen)
    return [said(judge_files(case(group))) for group in listed]


@table("file_access", "files_that_are_named", "what_leaves_the_names_open_blames_nobody")
def test_files(claim: Any, opened: Sequence[str], fields: Any, wanted: Said) -> None:
    paths = [f"/data/{'x' * int(path[7:])}" if path.startswith("/data/x") else path for path in opened]
    named = {"paths": ("/data/one",), "paths_stated": True} if claim is None else claim
    assert said_of_files(paths, named, **(fields or {})) == [wanted]


def test_what_another_claim_names_was_not_read_in_its_place() -> None:
    both = [{"paths": (path,), "paths_stated": True} for path in ("/data/one", "/data/two")]
    found = said_of_files(["/data/two"], *both)
    assert [each and each[0] for each in found] == ["UNSUBSTANTIATED", "CONFIRMED"]


def said_of_direct(
    *sessions: Session,
    claims: Sequence[Claim],
    calls: Mapping[str, int] | None = None,
    added: int | None = 0,
    filesystem: str = "ext4",
    health: Mapping[str, int] | None = None,
    told_apart: bool = True,
    followed: bool = False,
    own: int = SIZE,
    known: bool = True,
) -> Said:
    file = File(0, "8:1", 5, "/a", "regular", filesystem, added)
    group = Group(range(len(claims)), claims, told_apart, sessions, [file])
    of = pool(device=device(own, known=known), page_cache_bytes=added, filesystems=frozenset({filesystem}))
    seen = Observation("bpf", "syscalls", ("syscalls",), calls={"read": 9} if calls is None else calls,
                       health=health or {}, flags_followed=followed)  # fmt: skip
    return said(judge_direct(case(group, pool=of, observation=seen)))


@table("file_access", "direct_io_is_that_of_the_sessions")
def test_direct_io_is_that_of_the_sessions(
    direct: Sequence[int] | None, buffered: Sequence[int] | None, last_parts: int | None, claims: Any, fields: Any,
    wanted: Said,
) -> None:  # fmt: skip
    sessions = [opened(volume=volume, direct=True) for volume in direct or ()]
    sessions += [opened(volume=volume) for volume in buffered or ()]
    sessions += [Session(0, 1, 9, ["read"], read=Calls(1, 1, bytes=SIZE // 20))] * (last_parts or 0)
    made = [Claim("fio", "read", bytes=SIZE, direct=is_direct) for is_direct in claims or (True,)]
    assert said_of_direct(*sessions, claims=made, **(fields or {})) == wanted


def test_without_a_claimed_volume_each_session_has_to_be_direct() -> None:
    claims = [Claim("fio", "read", direct=True)]
    assert said_of_direct(opened(direct=True), opened(), claims=claims) == ("CONTRADICTED", "NOT-DIRECT")


# Claimed intervals against those of the calls


SECOND = 10**9
COUNT = 1000
WATCHED = Observation("bpf", "syscalls", ("syscalls",), held_ns=SECOND, ended_ns=101 * SECOND)


def calls(seconds: float, begin_ns: int = 2 * SECOND, each_ns: int = 1000, number: int = COUNT) -> Calls:
    last_ns = begin_ns + round(seconds * SECOND)
    return Calls(number, number, 0, 0, SIZE, SIZE, begin_ns, last_ns, number * each_ns, each_ns, each_ns)


def claim(seconds: float | None, source: str = "iozone", **fields: Any) -> Claim:
    return Claim(source, **{"kind": "read", "operations": COUNT, "bytes": SIZE, "seconds": seconds, **fields})


USUAL: dict[str, Any] = {
    "tool": "iozone", "took_s": 1.0, "number": COUNT, "each_ns": 1000, "source": FILES, "told_apart": True,
    "claims": 1, "contended": False,
}  # fmt: skip
"""Of a row: what runs, for how long, its calls, how long each takes, and what is known of them. The rest is claimed."""


@table(
    "session_times",
    "the_clock_of_a_pass_runs_from_its_first_call_to_its_last",
    "of_few_records_the_last_may_take_most_of_the_time",
    "a_tool_that_was_perhaps_held_up",
    "clocks_around_calls_may_be_longer_and_not_shorter",
    "requests_in_flight_may_end_after_the_clock",
    "a_tool_that_lost_its_processor_is_incomplete_at_most",
    "totals_of_calls_have_a_span_and_those_of_a_process_have_none",
)
def test_times(seconds: float, fields: Any, wanted: str) -> None:
    """The reason of the fault; without one 'note' where there is a note, else ''."""
    of, claimed = {**USUAL, **fields}, {name: value for name, value in fields.items() if name not in USUAL}
    done = calls(of["took_s"], each_ns=of["each_ns"], number=of["number"])
    session = Session(0, SECOND, 0, read=done, write=done, ended_ns=done.last_ns)
    made = claim(seconds, of["tool"], **{"operations": of["number"], **claimed})
    group = Group(range(of["claims"]), [made] * of["claims"], of["told_apart"], [session], one_pass=True)
    seen = Evidence(of["source"], of["number"], SIZE, calls=done, timed=True)
    found = judge_times(case(group, seen=seen, observation=WATCHED, contended=of["contended"]))
    assert found is not None
    assert (found.faults[0].reason if found.faults else "note" * bool(found.notes)) == wanted


def loose(*begins_s: float, moved: Sequence[int] = (), contended: bool = False, **fields: Any) -> tuple[str, str]:
    """Category and reason for sessions of a second each, or whether there is a warning, of a claim of three seconds."""
    parts = [calls(1.0, begin_ns=round((2 + begin) * SECOND)) for begin in begins_s]
    parts = [replace(part, bytes=moved_bytes) for part, moved_bytes in zip(parts, moved, strict=False)] or parts
    total = _sum(parts)
    sessions = [Session(0, part.first_ns, part.last_ns, read=part) for part in parts]
    group = Group([0], [claim(3.0, "fio", **fields)], True, sessions)
    seen = Evidence(FILES, total.calls, total.bytes, calls=total, timed=True)
    found = judge_times(case(group, seen=seen, observation=WATCHED, contended=contended))
    assert found is not None
    return found.faults[0][:2] if found.faults else ("", "warning" * any(note.warns for note in found.notes))


@table("session_times", "pauses_between_sessions_are_in_the_interval")
def test_pauses_between_sessions_are_in_the_interval(begins_s: Any, fields: Any, wanted: object) -> None:
    assert loose(*begins_s, **(fields or {})) == wanted


@table("session_times", "impossible_times")
def test_impossible_times(fields: dict[str, Any], reason: str) -> None:
    faults = session_times.impossible(claim(**{"seconds": 1.0, **fields}), WATCHED)
    assert [fault.reason for fault in faults] == ([reason] if reason else [])
    life_unknown = Observation("bpf", "syscalls", (), held_ns=0, ended_ns=SECOND)
    assert session_times.impossible(claim(1e9), life_unknown) == []


def test_the_claimed_interval_is_stated_or_lies_behind_the_rate() -> None:
    assert claimed_seconds(claim(2.0, rate_bytes_per_s=1.0)) == 2.0
    assert claimed_seconds(claim(None, rate_bytes_per_s=SIZE / 4)) == 4.0
    assert claimed_seconds(claim(None)) is None
    assert claimed_seconds(claim(None, bytes=None, rate_bytes_per_s=5.0)) is None


def test_the_work_on_a_record_is_allowed_to_passes() -> None:
    assert session_times.record_work_s(claim(1.0, record_bytes=8192)) == pytest.approx(320e-9)
    assert (
        session_times.record_work_s(claim(1.0)) == session_times.record_work_s(claim(1.0, "fio", record_bytes=4)) == 0
    )


def test_which_groups_are_timed() -> None:
    def judged(group: Group, seen: Evidence, backend: str = "bpf") -> tuple[int, bool]:
        """How many notes there are, and whether there are numbers."""
        watched = Observation(backend, "syscalls", (), held_ns=SECOND, ended_ns=101 * SECOND)
        found = judge_times(case(group, seen=seen, observation=watched))
        return (len(found.notes), bool(found.numbers)) if found else (0, False)

    done = calls(1.0)
    timed = Evidence(FILES, COUNT, SIZE, calls=done, timed=True)
    session = Session(0, SECOND, 0, read=done)
    single = Group([0], [claim(1.0)], True, [session], one_pass=True)
    assert judged(single, timed) == (0, True)
    assert judged(Group([0, 1], [claim(1.0), claim(1.0)], True, [session]), timed) == (0, True)
    assert judged(single, Evidence(FILES, COUNT, SIZE, calls=done), "strace") == (0, False)
    assert judged(single, Evidence(FILES, COUNT, SIZE, calls=done)) == (0, False)
    assert judged(Group([0], [claim(None)], True, [session]), timed) == (0, False)
    assert judged(Group([0], [claim(1.0, bytes=0)], True, [session]), timed) == (1, False)
    ignore_terminal_signals = Evidence(FILES, 4, 0, calls=Calls(4, 4), timed=True)
    assert judged(Group([0], [claim(1.0, bytes=0)], True, [session]), ignore_terminal_signals) == (1, False)


def test_accountings_of_a_session() -> None:
    done = Calls(11, 11, 0, 0, 11_000, 11_000, 2 * SECOND, 4 * SECOND, 11 * 10**7, 10**7, 10**7)
    first = Calls(1, 1, 0, 0, 1000, 1000, 2 * SECOND, 2 * SECOND + 10**7, 10**7, 10**7, 10**7)
    sync = Calls(1, 1, first_ns=5 * SECOND, last_ns=6 * SECOND)
    session = Session(0, SECOND, 9 * SECOND, read=done, sync=sync, first=first, second_ns=3 * SECOND,
                      ended_ns=7 * SECOND)  # fmt: skip
    plain = timing_definitions(session, "read")
    found = (plain.sum_of_calls_s, plain.first_to_last_s, plain.open_to_close_s, plain.bytes)
    assert found == pytest.approx((0.11, 2.0, 8.0, 11_000))
    primed = timing_definitions(session, "read", primed=True)
    assert (primed.sum_of_calls_s, primed.first_to_last_s, primed.bytes) == pytest.approx((0.10, 1.0, 10_000))
    assert timing_definitions(session, "write").first_to_last_s == 0


# Watched and unwatched runs


TRACED = [0.0, 8.0, 5.0, 7.0, 6.0, 9.0, 4.0]
UNTRACED = [10.0, 12.0, 11.0, 10.5]


def variance_of_median(values: Sequence[float]) -> float:
    """Price and Bonett (2002), equation 2: from the ranks a = (n + 1) / 2 - sqrt(n) and n - a + 1."""
    ordered = np.sort(np.log(values))
    a = max(1, round((ordered.size + 1) / 2 - math.sqrt(ordered.size)))
    tail = stats.binom.cdf(a - 1, ordered.size, 0.5)
    return float((ordered[-a] - ordered[a - 1]) / (2 * stats.norm.isf(tail))) ** 2


def test_the_ratio_of_the_medians_has_the_interval_of_price_and_bonett() -> None:
    probed = effect(Twins("x", TRACED, UNTRACED))
    ratio = math.sqrt(6.0 * 7.0) / math.sqrt(10.5 * 11.0)
    half = stats.t.ppf(0.975, 8) * math.sqrt(variance_of_median(TRACED[1:]) + variance_of_median(UNTRACED))
    assert probed is not None and probed.low is not None and probed.high is not None
    assert (probed.ratio, probed.runs) == (pytest.approx(ratio), 4)
    assert (probed.low, probed.high) == pytest.approx((ratio * math.exp(-half), ratio * math.exp(half)))
    many = [math.exp(number / 24) for number in range(25)]
    wide = effect(Twins("x", many, [1.0, 1.0, 1.0]))
    assert wide is not None and wide.high is not None
    half = stats.t.ppf(0.975, 26) * math.sqrt(variance_of_median(many))
    assert math.log(wide.high / wide.ratio) == pytest.approx(half)


def test_three_runs_of_each_have_an_interval() -> None:
    two, three = effect(Twins("x", [1.0, 2.0], [1.0, 2.0, 3.0])), effect(Twins("x", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]))
    assert two is not None and (two.low, two.high, two.runs) == (None, None, 2)
    assert three is not None and three.low is not None and three.runs == 3
    assert effect(Twins("x", [0.0], [1.0])) is None


@table("observer_effect", "an_effect_beyond_chance_and_three_percent_perturbs")
def test_an_effect_beyond_chance_and_three_percent_perturbs(
    ratio: float, low: float | None, high: float | None, perturbed: bool
) -> None:
    assert Effect("x", ratio, low, high, 5).perturbed() == perturbed
