"""Ways into the kernel held against the engine that is claimed."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.records.observation import Calls, Observation, Operation
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import Group
from ioassay.verify.engines import judge_engine
from ioassay.verify.evidence import CALLS, FILES, NOTHING, Evidence
from ioassay.verify.operation_counts import Expected

from .conftest import table

SIZE = 1_000_000
LAYERS = ("block", "uring", "aio", "syscalls")


def engine(
    name: str,
    *ways: tuple[str, int],
    seen: int = SIZE,
    want: int | None = SIZE,
    source: str = FILES,
    others: int = 0,
    kind: str = "read",
    layers: Sequence[str] = LAYERS,
    unreported: Sequence[str] = (),
) -> str | None:
    """The category, where the process tree moved `ways` (entry, bytes)."""
    claims = [Claim("fio", kind, engine=each, unreported=unreported) for each in name.split("+")]
    operations = [Operation(entry, kind, Calls(9, 9, bytes=volume)) for entry, volume in ways]
    watched = Observation("bpf", "syscalls", layers, operations=operations)
    evidence = Evidence(source, 9, seen, 0, others)
    found = judge_engine(Group([0], claims, source == FILES), Expected(9, want), evidence, watched)
    return found and found.category


@table("engines", "each_engine_has_its_ways")
def test_each_engine_has_its_ways(name: str, entry: str, wanted: str | None) -> None:
    assert engine(name, (entry, SIZE)) == wanted


def test_a_few_calls_another_way_are_no_other_engine() -> None:
    assert engine("libaio", ("aio", 990_000), ("pread64", 10_000)) == "CONFIRMED"
    assert engine("libaio", ("aio", 989_999), ("pread64", 10_001)) == "CONTRADICTED"
    assert engine("libaio", ("aio", 1), ("pread64", SIZE - 2)) == "NOT-JUDGED"  # not all calls were counted
    assert engine("io_uring", ("uring", SIZE), ("read", SIZE), seen=2 * SIZE) == "CONFIRMED"  # it was read before
    assert engine("io_uring", ("read", 70_000), seen=SIZE, source=CALLS, others=SIZE) == "NOT-JUDGED"
    assert engine("psync", ("read", SIZE), seen=0, source=NOTHING) == "NOT-JUDGED"


def test_a_way_that_was_not_watched_is_open() -> None:
    assert engine("psync", ("read", SIZE), layers=("block", "uring", "aio")) == "NOT-JUDGED"
    assert engine("io_uring", ("read", SIZE), layers=("syscalls", "aio")) == "NOT-JUDGED"
    assert engine("libaio", ("read", SIZE), layers=("syscalls", "uring")) == "NOT-JUDGED"
    assert engine("io_uring", ("uring", 0), ("read", SIZE), layers=("uring",)) == "CONTRADICTED"


def test_mapped_files_are_laid_out_and_checked_by_calls() -> None:
    assert engine("mmap", ("read", SIZE), seen=SIZE // 2 - 1) == "NOT-JUDGED"
    assert engine("mmap", ("write", SIZE), kind="write") == "NOT-JUDGED"
    assert engine("mmap", ("read", SIZE), unreported=("own-files",)) == "NOT-JUDGED"
