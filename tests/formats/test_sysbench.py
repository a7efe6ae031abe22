"""sysbench fileio: requests of each kind from rates and events, and what cannot be known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError
from ioassay.formats import sysbench
from ioassay.records.record import Claim

GOLDEN = Path(__file__).parents[1] / "golden" / "sysbench" / "1.0.20"
ARGV = ["sysbench", "fileio", "run"]


def text(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text()


def claims(name: str) -> list[Claim]:
    return formats.read(ARGV, text(name))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("seqrd", [("read", 512, None)]),
        ("rndrd-direct", [("read", 300, None)]),
        ("rndrd-async", [("read", 300, None)]),
        ("rndrw", [("read", 578, None), ("write", 386, 40)]),
        ("rndrw-reads", [("read", 100, None)]),  # it ended before its first write
        ("rndrw-timed", [("read", 603, None), ("write", 402, 44)]),
        ("rndwr-fsync-all", [("write", 100, 100)]),
        ("seqrewr", [("write", 496, 20)]),
        ("seqwr", [("write", 500, 4)]),
    ],
)
def test_requests_and_synchronisations_add_up_to_the_events(
    name: str, counts: list[tuple[str, int, int | None]]
) -> None:
    found = claims(name)
    assert [(claim.kind, claim.operations, claim.syncs) for claim in found] == counts
    for claim in found:
        assert claim.record_bytes and claim.operations and claim.seconds and claim.rate_bytes_per_s
        assert claim.bytes == claim.operations * claim.record_bytes
        assert claim.bytes / claim.seconds == pytest.approx(claim.rate_bytes_per_s, abs=claim.rate_unit_bytes)
        assert claim.paths == ("test_file.0", "test_file.1", "test_file.2", "test_file.3")
        assert claim.file_bytes == 2**21


def test_the_way_of_access_is_that_of_the_printed_options() -> None:
    ways = {name: claims(name)[0] for name in ("seqrd", "rndrd-direct", "rndrd-async", "rndrd-mmap", "seqwr")}
    assert [claim.engine for claim in ways.values()] == ["", "", "libaio", "mmap", ""]
    assert [claim.direct for claim in ways.values()] == [False, True, False, False, False]
    assert (ways["seqwr"].includes, ways["seqrd"].includes) == (("fsync",), ())
    assert (ways["rndrd-direct"].record_bytes, ways["seqrd"].record_bytes) == (4096, 16384)


def test_latencies_are_claimed_of_tests_with_one_kind_of_event() -> None:
    """The mean from the sum, which is 22.84 ms for 300 events: 0.08 in print."""
    assert claims("rndrd-direct")[0].latency_ns == {"mean": pytest.approx(22.84e6 / 300), "p99": pytest.approx(130e3)}
    assert claims("seqwr")[0].latency_ns["mean"] == pytest.approx(4200)
    for name in ("rndrw", "rndwr-fsync-all", "seqrewr", "rndrd-async", "rndrd-mmap"):
        assert all(not claim.latency_ns for claim in claims(name)), name


def test_of_a_long_run_bytes_are_claimed_with_their_uncertainty() -> None:
    """Ten minutes at a hundredth a second: some six requests more or less."""
    long = text("rndrw-timed")
    for printed, rate in (("299.15", "3000.01"), ("199.44", "2000.01"), ("21.83", "219.01")):
        long = long.replace(printed, rate)
    read, write = formats.read(ARGV, long.replace("events:              1045", "events:              3131418"))
    assert (read.operations, write.operations, write.syncs) == (None, None, None)
    assert read.bytes == pytest.approx(1800006 * 16384, abs=read.rate_unit_bytes)
    assert 5 * 16384 < read.rate_unit_bytes < 50 * 16384


def test_the_files_that_are_made() -> None:
    (claim,) = claims("prepare")
    assert (claim.kind, claim.test, claim.bytes, claim.operations) == ("write", "prepare", 2**23, None)
    assert claim.paths == ("test_file.0", "test_file.1", "test_file.2", "test_file.3")


def test_other_tests_claim_nothing() -> None:
    assert formats.read(["sysbench", "cpu", "run"], text("cpu")) == []


@pytest.mark.parametrize("bad", ["", text("cut-file"), text("rndrw").split("Latency")[0].replace("events:", "x")])
def test_no_results(bad: str) -> None:
    with pytest.raises(InputError, match="sysbench"):
        sysbench.read(bad, ARGV)


def test_part_blocks_leave_the_bytes_open() -> None:
    (claim,) = formats.read(ARGV, text("seqrd").replace("Block size 16KiB", "Block size 24KiB"))
    assert (claim.operations, claim.bytes) == (512, None)
