"""The judge as a whole, over generated runs: what holds for every claim and every loss of evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ioassay.records.observation import Calls, File, Observation, Operation, Requests, Session
from ioassay.records.record import Claim
from ioassay.verify.judge import Twins, judge, overall
from ioassay.verify.properties import PROPERTIES, table
from ioassay.verify.verdict import (
    CATEGORIES,
    CONFIRMED,
    CONTRADICTED,
    INCOMPLETE,
    NOT_JUDGED,
    TRUE_CLAIMS,
    UNSUBSTANTIATED,
    UNSUPPORTED,
    Verdict,
)

SECOND, MIB = 10**9, 2**20
LAYERS = ("counters", "block", "uring", "aio", "syscalls", "page-cache")
DENIED = {CONTRADICTED, UNSUBSTANTIATED}
ENTRIES = {
    "sync": ("read", "write"),
    "psync": ("pread64", "pwrite64"),
    "vsync": ("readv", "writev"),
    "pvsync2": ("preadv2", "pwritev2"),
    "libaio": ("aio", "aio"),
    "io_uring": ("uring", "uring"),
}


@dataclass(frozen=True)
class Run:
    """What a tool really did to one file."""

    kind: Annotated[str, st.sampled_from(["read", "write"])]
    direct: bool
    engine: Annotated[str, st.sampled_from(sorted(ENTRIES))]
    count: Annotated[int, st.integers(1000, 5000)]
    """Operations in each session."""
    record_bytes: Annotated[int, st.sampled_from([4096, 16384, 65536])]
    sessions: Annotated[int, st.integers(1, 3)]
    pause_s: Annotated[float, st.floats(0, 2)]
    synced: bool
    cold: bool
    vain: Annotated[int, st.integers(0, 3)]
    """Calls of each session that failed or moved nothing."""
    fcntl: Annotated[int, st.integers(0, 1)]
    filesystem: Annotated[str, st.sampled_from(["ext4", "xfs", "tmpfs", "btrfs"])]

    @property
    def operations(self) -> int:
        return self.count * self.sessions

    @property
    def bytes(self) -> int:
        return self.operations * self.record_bytes

    @property
    def seconds(self) -> float:
        return self.sessions * 1.0 + (self.sessions - 1) * self.pause_s


RUNS = st.builds(Run)


def calls(number: int, volume: int, begin_ns: int, *, vain: int = 0) -> Calls:
    """Calls over one second, of which `vain` more moved nothing."""
    each_ns = SECOND // (number + vain)
    return Calls(
        number + vain, number + vain, vain - vain // 2, vain // 2, volume, volume, begin_ns, begin_ns + SECOND,
        (number + vain) * each_ns, each_ns, each_ns,
    )  # fmt: skip


def observed(run: Run, path: str = "/data/big") -> Observation:
    """What a complete witness sees of it."""
    sessions, total, syncs = [], Calls(), Calls()
    flags = [run.kind, *(["direct"] if run.direct else [])]
    for number in range(run.sessions):
        begin_ns = 2 * SECOND + round(number * (1 + run.pause_s) * SECOND)
        done = calls(run.count, run.count * run.record_bytes, begin_ns, vain=run.vain)
        after = Calls(1, 1, first_ns=done.last_ns + 10, last_ns=done.last_ns + 20) if run.synced else Calls()
        sides: dict[str, Any] = {run.kind: done}
        sessions.append(
            Session(0, begin_ns - 10, done.last_ns + 90, flags, sync=after, dirty_syncs=after.calls, **sides)
        )
        total, syncs = total.plus(done), syncs.plus(after)
    in_memory = run.filesystem == "tmpfs"
    reached = (run.direct or run.cold or run.synced) and not in_memory
    device = calls(run.operations, run.bytes, 2 * SECOND) if reached else Calls()
    device = replace(device, last_ns=device.first_ns + round(run.seconds * SECOND)) if reached else device
    operations = [Operation(ENTRIES[run.engine][run.kind == "write"], run.kind, total)]
    operations += [Operation("fsync", "sync", syncs)] if run.synced else []
    by_calls = run.engine not in ("libaio", "io_uring")
    names = ("rchar", "syscr") if run.kind == "read" else ("wchar", "syscw")
    others = {"rchar": 70_000, "syscr": 90, "wchar": 900, "syscw": 9}
    own = dict(zip(names, (run.bytes, total.calls) if by_calls else (0, 0), strict=True))
    added = 0 if run.direct or (run.kind == "read" and not run.cold) else run.bytes
    return Observation(
        backend="bpf",
        asked="syscalls",
        layers=LAYERS,
        held_ns=SECOND,
        ended_ns=20 * SECOND,
        syncs_followed=True,
        calls={"read": 9, **({"fcntl": run.fcntl} if run.fcntl else {})},
        operations=operations,
        files=[File(0, "8:1", 5, path, "regular", run.filesystem, added)],
        sessions=sessions,
        block=[Requests("8:0", "sda", True, run.kind, device)] if reached else [],
        counters={
            **{name: others[name] + own.get(name, 0) for name in others},
            "read_bytes": device.bytes if run.kind == "read" else 0,
            "write_bytes": run.bytes if run.kind == "write" else 0,
        },
    )


def claimed(run: Run, source: str = "fio", **fields: Any) -> Claim:
    """The truth about it."""
    synced = run.synced and run.kind == "write"
    said = {
        "operations": run.operations,
        "bytes": run.bytes,
        "seconds": run.seconds + 1e-4,
        "latency_ns": {"mean": SECOND / (run.count + run.vain) + 2000.0},
        "engine": run.engine,
        "direct": run.direct,
        "paths": ("/data/big",),
        "paths_stated": True,
        "syncs": run.sessions if synced else None,
        "includes": ("fsync",) if synced else (),
    }
    return Claim(source, run.kind, **{**said, **fields})


def only(claim: Claim, seen: Observation, **more: Any) -> Verdict:
    (verdict,) = judge([claim], seen, **more)
    return verdict


def categories(verdict: Verdict) -> dict[str, str]:
    return {each.name: each.category for each in verdict.properties}


@given(RUNS, st.sampled_from(["fio", "dd", "user"]), st.booleans())
def test_an_honest_claim_is_never_contradicted(run: Run, source: str, contended: bool) -> None:
    verdict = only(claimed(run, source), observed(run), contended=contended)
    assert verdict.category in TRUE_CLAIMS, (verdict.category, verdict.reason, verdict.explanation)
    assert set(categories(verdict)) >= {"operations", "bytes", "files", "engine", "interval", "latency"}
    assert ("sync" in categories(verdict)) == (run.synced and run.kind == "write")
    assert ("direct" in categories(verdict)) == run.direct


@given(RUNS)
def test_an_honest_claim_that_names_no_file_is_never_contradicted(run: Run) -> None:
    assert only(claimed(run, paths=(), paths_stated=False), observed(run)).category not in DENIED


OTHER = {
    "sync": "io_uring",
    "psync": "libaio",
    "vsync": "psync",
    "pvsync2": "mmap",
    "libaio": "sync",
    "io_uring": "libaio",
}
LIES: Mapping[str, Callable[[Run], dict[str, Any]]] = {
    "operations": lambda run: {"operations": 2 * run.operations, "latency_ns": {}},
    "bytes": lambda run: {"bytes": 2 * run.bytes, "operations": None},
    "files": lambda _: {"paths": ("/data/another",)},
    "direct": lambda _: {"direct": True},
    "engine": lambda run: {"engine": OTHER[run.engine]},
    "sync": lambda run: {"syncs": run.sessions + 1, "includes": ("fsync",)},
    "interval": lambda run: {"seconds": run.seconds / 2, "latency_ns": {}},
    "latency": lambda run: {"latency_ns": {"mean": SECOND / (run.count + run.vain) / 2}},
}


@pytest.mark.parametrize("name", LIES)
@given(run=RUNS, source=st.sampled_from(["fio", "dd"]))
def test_a_lie_about_one_property_is_found_in_it(name: str, run: Run, source: str) -> None:
    if name == "direct":
        run = replace(run, direct=False, cold=run.kind == "read", filesystem="ext4", fcntl=0)
    if name == "operations" and run.engine == "vsync":  # which may do several by one call
        run = replace(run, engine="psync")
    if name == "engine" and OTHER[run.engine] == "mmap":
        run = replace(run, kind="read")
    if name == "sync":
        run = replace(run, kind="write")
    verdict = only(claimed(run, source, **LIES[name](run)), observed(run))
    assert verdict.category == CONTRADICTED, (verdict.reason, categories(verdict))
    assert categories(verdict)[name] == CONTRADICTED or (name == "engine" and OTHER[run.engine] == "mmap")


@given(RUNS, st.floats(0.2, 2))
def test_pauses_between_sessions_are_no_way_to_be_faster(run: Run, pause_s: float) -> None:
    run = replace(run, sessions=3, pause_s=pause_s)
    verdict = only(claimed(run, seconds=3.0, latency_ns={}), observed(run))
    assert (verdict.category, verdict.reason) == (CONTRADICTED, "OTHER-TIME")


@given(RUNS, st.floats(0.0, 0.998))
def test_direct_reads_have_all_their_bytes_of_the_device(run: Run, share: float) -> None:
    run = replace(run, kind="read", direct=True, filesystem="ext4")
    seen = observed(run)
    volume = int(run.bytes * share)
    part = replace(seen.block[0], calls=replace(seen.block[0].calls, bytes=volume))
    fewer = replace(seen, block=[part], counters={**seen.counters, "read_bytes": volume})
    assert (only(claimed(run), fewer).category, only(claimed(run), seen).category) == (UNSUBSTANTIATED, CONFIRMED)


def at_level(seen: Observation, *layers: str) -> Observation:
    """The same run with less watched."""
    with_calls = "syscalls" in layers
    kept = [
        part for part in seen.operations if (part.entry in layers if part.entry in ("uring", "aio") else with_calls)
    ]
    files = [
        replace(file, page_cache_bytes=file.page_cache_bytes if "page-cache" in layers else None) for file in seen.files
    ]
    hidden = any(part.entry in ("uring", "aio") for part in seen.operations if part not in kept)
    return replace(
        seen,
        layers=layers,
        calls=seen.calls if with_calls else {},
        operations=kept,
        files=files if with_calls else [],
        sessions=seen.sessions if with_calls and not hidden else [],
        block=seen.block if "block" in layers else [],
        counters=seen.counters if "counters" in layers else {},
    )


LOSSES: Mapping[str, Callable[[Observation], Observation]] = {
    **{
        name: (lambda seen, name=name: replace(seen, health={name: 3}))
        for name in ("lost", "dropped", "unmatched", "in_flight", "outlived", "untracked_files", "untracked_sessions")
    },
    "counters": lambda seen: at_level(seen, "counters"),
    "block": lambda seen: at_level(seen, "counters", "block", "uring"),
    "no-block": lambda seen: at_level(seen, "counters", "uring", "aio", "syscalls", "page-cache"),
    "no-page-cache": lambda seen: at_level(seen, "counters", "block", "uring", "aio", "syscalls"),
    "nothing": lambda seen: at_level(seen),
    "calls-by-name": lambda seen: replace(seen, calls={}),
}


OF_FILES = {"untracked_files", "untracked_sessions", "counters", "block", "nothing"}


@pytest.mark.parametrize("loss", LOSSES)
@given(run=RUNS, lie=st.sampled_from(["", *LIES]))
def test_a_loss_of_evidence_strengthens_no_property(loss: str, run: Run, lie: str) -> None:
    if lie == "sync":
        run = replace(run, kind="write")
    if loss in OF_FILES:
        assume(lie != "files")  # then all calls of the process tree are meant
        run = replace(run, filesystem="ext4")  # that a file is in memory is not known
    claim = claimed(run, **(LIES[lie](run) if lie else {}))
    before, after = (categories(only(claim, seen)) for seen in (observed(run), LOSSES[loss](observed(run))))
    for name, category in after.items():
        earlier = before.get(name, NOT_JUDGED)
        open_ = {INCOMPLETE, UNSUPPORTED, NOT_JUDGED, earlier}
        if earlier in DENIED:  # neither confirmed, nor denied on less than before; nothing at all may be left of it
            assert category in open_ | {UNSUBSTANTIATED}, (name, earlier, category)
        elif earlier in TRUE_CLAIMS and not lie:  # of a lie, another property may tell
            assert category in open_ | TRUE_CLAIMS, (name, earlier, category)


@given(RUNS, st.sampled_from(["", *LIES]), st.sampled_from(["", *LOSSES]), st.booleans(), st.booleans())
def test_the_verdict_is_the_worst_of_its_properties(run: Run, lie: str, loss: str, exit_ok: bool, slowed: bool) -> None:
    claim = claimed(run, **(LIES[lie](run) if lie else {}))
    seen = LOSSES[loss](observed(run)) if loss else observed(run)
    twins = Twins("IOPS", [50.0, 51, 50.5, 49.9], [100.0, 101, 100.2, 99.8]) if slowed else None
    verdict = only(claim, seen, exit_ok=exit_ok, twins=twins)
    order = [*CATEGORIES]
    judged = [each for each in verdict.properties if each.category != NOT_JUDGED]
    worst = max((order.index(each.category) for each in judged), default=0)
    assert verdict.category == order[worst], (verdict.category, categories(verdict))
    assert [each.name for each in verdict.properties] == [name for name in PROPERTIES if name in categories(verdict)]
    for each in judged:
        assert each.category == CONFIRMED or each.reason in table()[each.name].outcomes[each.category], each


@given(st.lists(RUNS, min_size=2, max_size=3), st.data())
def test_several_claims_are_only_as_good_as_the_worst(runs: list[Run], data: st.DataObject) -> None:
    lie = data.draw(st.sampled_from(["bytes", "interval", "engine"]))
    seen = [observed(run, f"/data/{place}") for place, run in enumerate(runs)]
    claims = [claimed(run, paths=(f"/data/{place}",)) for place, run in enumerate(runs)]
    claims[0] = replace(claims[0], **LIES[lie](runs[0]))
    together = replace(
        seen[0],
        files=[replace(each.files[0], id=place, inode=place) for place, each in enumerate(seen)],
        sessions=[replace(one, file=place) for place, each in enumerate(seen) for one in each.sessions],
        operations=[part for each in seen for part in each.operations],
        block=[part for each in seen for part in each.block],
    )
    verdicts = judge(claims, together)
    if lie != "engine":  # ways are counted for all files together
        assert overall(verdicts).category == CONTRADICTED
    assert all(verdict.category not in DENIED for verdict in verdicts[1:])


SEEN_AT: Mapping[str, Callable[[Observation], Observation]] = {
    "syscalls": lambda seen: seen,
    "block": LOSSES["block"],
    "counters": LOSSES["counters"],
    "strace": lambda seen: replace(at_level(seen, "aio", "syscalls"), backend="strace"),
}


@pytest.mark.parametrize(
    ("level", "engine"),
    [*((level, "psync") for level in SEEN_AT), ("syscalls", "io_uring"), ("block", "io_uring")],
)
@pytest.mark.parametrize("kind", ["read", "write"])
def test_what_is_judged_at_a_level_is_what_the_table_of_evidence_says(level: str, engine: str, kind: str) -> None:
    run = Run(kind, True, engine, 2000, 65536, 1, 0.0, True, True, 0, 0, "ext4")
    found = categories(only(claimed(run), SEEN_AT[level](observed(run))))
    for name, category in found.items():
        basis = table()[name].shown_by.get(level)
        unseen = basis is None or (basis == "io_uring alone" and engine != "io_uring")
        assert basis == "begin and end of the command" or category in (
            {NOT_JUDGED, INCOMPLETE} if unseen else TRUE_CLAIMS
        ), (name, level, category)
