"""Counts held against claims: where each answer begins, to the operation and the byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ioassay.records.observation import Calls, Observation
from ioassay.records.record import Claim
from ioassay.verify import operation_counts
from ioassay.verify.claim_groups import Group
from ioassay.verify.evidence import CALLS, FILES, NOTHING, Device, Evidence
from ioassay.verify.operation_counts import Expected, expected

from .conftest import table

COUNT, SIZE = 1000, 4_096_000
SHARE = 4_091_904  # SIZE less 0.1 %: what the device must have done
LOADERS, PRINTED = 256 * 1024, 64 * 1024
ALL_LAYERS = ("counters", "block", "uring", "aio", "syscalls")
CLAIMED = Expected(COUNT, SIZE)
EXACT, FEWER, MORE = [], [("CONTRADICTED", "FEWER-SEEN")], [("CONTRADICTED", "MORE-SEEN")]
NOTHING_SEEN = [("UNSUBSTANTIATED", "NOTHING-SEEN")]


def group(told_apart: bool = True, missing: Sequence[str] = (), one_pass: bool = False, **claim: Any) -> Group:
    return Group([0], [Claim(**{"source": "fio", "kind": "read", **claim})], told_apart, named=True, missing=missing,
                 one_pass=one_pass)  # fmt: skip


def observation(layers: Sequence[str] = ALL_LAYERS, **fields: Any) -> Observation:
    return Observation("bpf", "syscalls", layers, **fields)


def faults(
    want: Expected,
    seen: Evidence,
    device: Device | None = None,
    *,
    of: Group | None = None,
    watched: Observation | None = None,
) -> list[tuple[str, str]]:
    """Category and reason of each fault; by default of a group that names its file, with no device watched."""
    made = operation_counts.judge_counts(of or group(), want, seen, device or Device(False), watched or observation())
    return [(fault.category, fault.reason) for fault in made]


@pytest.mark.parametrize(
    ("want", "operations", "volume", "short", "wanted"),
    [
        (CLAIMED, COUNT, SIZE, 0, EXACT),
        (CLAIMED, COUNT, SIZE - 1, 0, FEWER),
        (CLAIMED, COUNT - 1, SIZE, 0, FEWER),
        (Expected(1, 4096), 1, 4096, 0, EXACT),
        (Expected(None, SIZE, 1000.0), COUNT, SIZE - 1000, 0, EXACT),
        (Expected(None, SIZE, 1000.0), COUNT, SIZE - 1001, 0, FEWER),
        (Expected(None, SIZE, 1000.0), COUNT, SIZE + 1000, 0, EXACT),
        (Expected(None, SIZE, 1000.0), COUNT, SIZE + 1001, 0, MORE),
        (CLAIMED, COUNT + 1, SIZE, 0, MORE),
        (CLAIMED, COUNT + 1, SIZE, 1, EXACT),  # a read that found the end of the file
        (CLAIMED, COUNT + 2, SIZE, 1, MORE),
        (CLAIMED, COUNT + 1, SIZE + 1, 1, MORE),
        (Expected(10, 0), 1, 0, 0, FEWER),
        (Expected(10, None), 10, 0, 0, EXACT),
        (Expected(10, 0), 10, 0, 0, EXACT),
        (Expected(10, None), 0, 0, 0, NOTHING_SEEN),
        (CLAIMED, 1, 0, 0, NOTHING_SEEN),
        (Expected(0, 0), 0, 0, 0, EXACT),
        (Expected(None, None), 7, SIZE, 0, EXACT),
    ],
)
def test_calls_of_known_files_are_compared_exactly(
    want: Expected, operations: int, volume: int, short: int, wanted: object
) -> None:
    calls = Calls(operations, operations, short=short, bytes=volume)
    assert faults(want, Evidence(FILES, operations, volume, calls=calls)) == wanted


@pytest.mark.parametrize(
    ("want", "operations", "short", "errors", "wanted"),
    [
        (CLAIMED, COUNT + 2, 1, 1, EXACT),  # a full disk: a part was written, and the rest refused
        (CLAIMED, COUNT + 3, 1, 1, MORE),
        (CLAIMED, COUNT + 2, 0, 2, EXACT),
        (Expected(COUNT, None), COUNT, 0, 1, FEWER),  # what failed is no operation
        (Expected(COUNT, None), COUNT + 1, 0, 1, EXACT),
        (Expected(COUNT, None), COUNT, 1, 0, EXACT),
    ],
)
def test_calls_that_failed_or_moved_a_part_are_no_data(
    want: Expected, operations: int, short: int, errors: int, wanted: object
) -> None:
    calls = Calls(operations, operations, errors, short, bytes=SIZE)
    assert faults(want, Evidence(FILES, operations, SIZE, calls=calls)) == wanted


@table("operation_counts", "what_others_may_have_done_is_allowed_for_in_totals")
def test_what_others_may_have_done_is_allowed_for_in_totals(
    operations: int, volume: int, wanted: Sequence[object]
) -> None:
    assert faults(CLAIMED, Evidence(CALLS, operations, volume, 256, PRINTED)) == [*wanted]


def test_nothing_was_seen_where_the_claim_is_more_than_twice_what_others_do() -> None:
    seen = Evidence(CALLS, 16, PRINTED, 256, PRINTED)
    assert faults(Expected(None, 2 * PRINTED), seen) == FEWER
    assert faults(Expected(None, 2 * PRINTED + 1), seen) == NOTHING_SEEN
    assert faults(Expected(None, PRINTED), Evidence(CALLS, 16, 0, 256, PRINTED)) == NOTHING_SEEN


@table("operation_counts", "totals_resolve_a_claim_that_is_large_against_others_or_was_direct")
def test_totals_resolve_a_claim_that_is_large_against_others_or_was_direct(
    others: int, direct: bool, own: int, wanted: object
) -> None:
    seen = Evidence(CALLS, COUNT, SIZE + 1, 256, others)
    result = faults(CLAIMED, seen, Device(True, own_bytes=own), of=group(direct=direct))
    assert result == ([("INCOMPLETE", wanted)] if wanted else EXACT)


NOT_SEEN = Evidence(FILES, 0, 0)
HIDDEN = [("INCOMPLETE", "CALLS-NOT-OBSERVED")]


@table("operation_counts", "a_device_that_worked_leaves_a_claim_without_calls_open")
def test_a_device_that_worked_leaves_a_claim_without_calls_open(
    own: int, layers: Sequence[str], faulted: int, wanted: Sequence[object]
) -> None:
    watched = observation(layers, counters={"major_faults": faulted})
    assert faults(CLAIMED, NOT_SEEN, Device(True, own_bytes=own), watched=watched) == [*wanted]


def test_a_fault_maps_64_kib_at_most() -> None:
    watched = observation(counters={"major_faults": 63})
    for volume, wanted in ((63 * 65536, HIDDEN), (63 * 65536 + 1, NOTHING_SEEN)):
        device = Device(True, own_bytes=LOADERS + 1)
        assert faults(Expected(COUNT, volume), NOT_SEEN, device, watched=watched) == wanted


def test_what_devices_did_for_others_does_not_stand_for_a_file_that_nobody_opened() -> None:
    lost = group(missing=["/data/other"])
    assert faults(CLAIMED, NOT_SEEN, Device(True, own_bytes=SIZE), of=lost) == NOTHING_SEEN
    assert faults(CLAIMED, NOT_SEEN, Device(True, own_bytes=SIZE), of=group(engine="psync")) == NOTHING_SEEN
    assert faults(Expected(COUNT, None), NOT_SEEN, Device(True, own_bytes=SIZE)) == HIDDEN


def test_calls_that_others_finished_leave_fewer_open() -> None:
    half = Evidence(FILES, COUNT // 2, SIZE // 2)
    for health in ({"outlived": 1}, {"in_flight": 1}, {"unmatched": 2}, {"in_flight_at_start": 1}):
        assert faults(CLAIMED, half, watched=observation(health=health)) == [("INCOMPLETE", "CALLS-UNFINISHED")]
    assert faults(CLAIMED, half, watched=observation(health={"outlived": 0, "lost": 3})) == FEWER
    assert faults(CLAIMED, NOT_SEEN, watched=observation(health={"in_flight": 1})) == NOTHING_SEEN
    assert faults(CLAIMED, NOT_SEEN, watched=observation(health={"outlived": 1})) == [
        ("INCOMPLETE", "CALLS-UNFINISHED")
    ]
    for doubt, one_pass, wanted in [
        ("among-others", True, "SIDES-UNKNOWN"),
        ("sides-unknown", False, "SIDES-UNKNOWN"),
        ("sparse", False, "SPARSE"),
    ]:
        doubted = group(doubts=(doubt,), one_pass=one_pass)
        assert faults(CLAIMED, half, of=doubted) == faults(CLAIMED, NOT_SEEN, of=doubted) == [("INCOMPLETE", wanted)]
    assert faults(CLAIMED, half, of=group(doubts=("among-others",))) == FEWER


MOST = SIZE + 409_600 + 8 * 2**20  # and 10 %, and programs that were read cold


@table("operation_counts", "mapped_files_are_judged_by_the_device")
def test_mapped_files_are_judged_by_the_device(
    own: int, account: int | None, everything: int, direct: bool, stacked: bool, wanted: Sequence[object]
) -> None:
    device = Device(True, own_bytes=own, any_bytes=everything, stacked=stacked, process_bytes=account)
    assert faults(CLAIMED, Evidence(FILES), device, of=group(engine="mmap", direct=direct)) == [*wanted]


def test_engines_without_data_or_beyond_the_kernel_are_unsubstantiated() -> None:
    exact = Evidence(FILES, COUNT, SIZE)
    for engine, reason in [
        ("null", "NULL-ENGINE"), ("filestat", "NULL-ENGINE"), ("nbd", "PAST-THE-KERNEL"),
        ("external:/opt/spdk_nvme", "PAST-THE-KERNEL"),
    ]:  # fmt: skip
        assert faults(CLAIMED, exact, of=group(engine=engine)) == [("UNSUBSTANTIATED", reason)]
    assert faults(CLAIMED, Evidence(NOTHING)) == [("INCOMPLETE", "CALLS-NOT-OBSERVED")]


def test_priming_and_silent_passes_are_expected_beside_the_claim() -> None:
    claim = Claim("iozone", "read", operations=10, bytes=40960, record_bytes=4096, primed=True, silent_passes=2)
    beside = expected(Group([0], [claim], True))
    assert (beside.operations, beside.bytes, len(beside.notes)) == (10 + 1 + 20, 40960 + 4096 + 81920, 1)
    alone = expected(Group([0], [claim], True, one_pass=True))
    assert (alone.operations, alone.bytes, alone.notes) == (10, 40960, [])


def test_claims_of_a_group_are_summed_where_all_state_them() -> None:
    def of(*claims: dict[str, Any]) -> tuple[int | None, int | None, float]:
        result = expected(Group([], [Claim("fio", "read", **claim) for claim in claims], True))
        return result.operations, result.bytes, result.rounded_bytes

    assert of({"operations": 2, "bytes": 8}, {"operations": 3, "bytes": 9}) == (5, 17, 0.0)
    assert of({"operations": 2, "bytes": 8}, {"bytes": 9}) == (None, 17, 0.0)
    for engine in ("stdio", "splice"):  # other calls than records
        assert of({"operations": 2, "bytes": 8, "engine": engine}) == (None, 8, 0.0)
    # A step of a byte is no rounding; 1024 is that of volumes printed in KiB, without exact operations.
    assert of({"bytes": 8, "rate_unit_bytes": 1024.0}, {"bytes": 9, "rate_unit_bytes": 1.0}) == (None, 17, 1025.0)
    assert of({"bytes": 8, "operations": 2, "rate_unit_bytes": 1024.0}) == (2, 8, 0.0)
