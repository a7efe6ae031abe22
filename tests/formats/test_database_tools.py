"""pgbench and redis-benchmark claim operations of a database; elbencho and vdbench, of which we have no real output."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError
from ioassay.records.record import Claim

GOLDEN = Path(__file__).parents[1] / "golden"


def read(command: str, file: str) -> list[Claim]:
    return formats.read(command.split(), (GOLDEN / file).read_text())


@pytest.mark.parametrize(
    ("name", "test", "operations", "seconds", "latency_ns"),
    [
        ("transactions", "<builtin: TPC-B (sort of)>", 100, 100 / 6430.041152, {"mean": 311e3}),
        ("timed", "<builtin: select only>", 60976, 60976 / 60894.219064, {"mean": 16e3, "stddev": 120e3}),
        ("scripts", "multiple scripts", 60, 60 / 1738.072478, {"mean": 574e3, "stddev": 874e3}),
    ],
)
def test_pgbench_claims_the_transactions_of_a_run(
    name: str, test: str, operations: int, seconds: float, latency_ns: dict[str, float]
) -> None:
    (claim,) = read("pgbench -c 2", f"pgbench/15.18/{name}.txt")
    assert (claim.kind, claim.test, claim.operations, claim.errors, claim.bytes) == ("keys", test, operations, 0, None)
    assert claim.seconds == pytest.approx(seconds)
    assert claim.latency_ns == pytest.approx(latency_ns)


def test_pgbench_without_a_report() -> None:
    assert formats.read(["pgbench", "-i"], "", (GOLDEN / "pgbench/15.18/initialise.err").read_text()) == []
    with pytest.raises(InputError, match="pgbench printed no report"):
        formats.read(["pgbench"], "", (GOLDEN / "pgbench/15.18/no-database.err").read_text())


def test_redis_benchmark_claims_the_requests_of_each_test() -> None:
    set_, get = read("redis-benchmark -t set,get", "redis_benchmark/7.0.15/plain.txt")
    assert (set_.kind, set_.test, set_.operations, get.test) == ("keys", "SET", 2000, "GET")
    assert set_.seconds == pytest.approx(2000 / 60606.06)
    assert set_.latency_ns == pytest.approx(
        {"mean": 61e3, "min": 8e3, "p50": 31e3, "p95": 63e3, "p99": 919e3, "max": 4559e3}
    )
    (incr,) = read("redis-benchmark -t incr", "redis_benchmark/7.0.15/precision.txt")
    assert incr.operations == 504  # more than the 500 that were asked for


def test_redis_benchmark_without_counts_claims_latencies() -> None:
    table = read("redis-benchmark --csv", "redis_benchmark/7.0.15/csv.txt")
    assert [claim.test for claim in table] == ["PING_INLINE", "PING_MBULK", "SET", "GET"]
    assert (table[3].latency_ns["p99"], table[3].latency_ns["mean"]) == pytest.approx((87e3, 27e3))
    quiet = read("redis-benchmark -q", "redis_benchmark/7.0.15/quiet.txt")
    assert [(claim.test, claim.latency_ns) for claim in quiet] == [
        ("SET", {"p50": pytest.approx(47e3)}),
        ("LPUSH", {"p50": pytest.approx(31e3)}),
        ("MSET (10 keys)", {"p50": pytest.approx(39e3)}),
    ]
    assert {claim.operations for claim in [*table, *quiet]} == {None}
    with pytest.raises(InputError, match="redis-benchmark printed no results"):
        formats.read(["redis-benchmark"], "Could not connect to Redis\n")


def test_elbencho_claims_the_last_thread_of_each_phase() -> None:
    write, reading = read("elbencho -w -r -b 64k --direct --csvfile a/b.csv /data/f", "elbencho/documented/phases.txt")
    assert (write.kind, write.operations, write.bytes, write.seconds) == ("write", 8192, 2**29, 1.31)
    assert (write.rate_bytes_per_s, write.direct, write.paths) == (390 * 2**20, True, ("/data/f",))
    assert write.latency_ns == {"mean": pytest.approx(158e3)}
    assert (reading.kind, reading.operations, reading.bytes, reading.seconds) == ("read", None, 2**29, 0.455)
    assert reading.rate_unit_bytes == 2**20  # rounded down to whole MiB
    assert "several-clocks" in write.doubts


def test_a_mix_of_elbencho_is_a_write_and_a_read() -> None:
    write, reading = read("elbencho --rwmixpct 75", "elbencho/documented/mix.txt")
    assert (write.kind, write.bytes, reading.kind, reading.bytes) == ("write", 3100 << 20, "read", 9300 << 20)
    assert write.seconds == reading.seconds == pytest.approx(124.001)
    (old,) = read("elbencho -w", "elbencho/documented/version-1.txt")
    assert (old.seconds, old.bytes, old.latency_ns) == (99.973, 2**40, {"mean": pytest.approx(1.5e6)})
    with pytest.raises(InputError, match="no phase"):
        read("elbencho", "elbencho/documented/refused.txt")


def test_vdbench_claims_the_averages_of_each_run() -> None:
    reads, mixed = formats.read(["./flat"], (GOLDEN / "vdbench/documented/devices.txt").read_text())
    assert (reads.kind, reads.test, mixed.kind, mixed.test) == ("read", "rd1", "mixed", "rd2")
    assert reads.rate_bytes_per_s == 39.5 * 2**20
    assert reads.rate_unit_bytes == pytest.approx(2**20 / 1e4)
    assert (reads.latency_ns, reads.record_bytes) == ({"mean": pytest.approx(98.8e3)}, 4096)
    assert (reads.operations, reads.bytes, reads.seconds, reads.unreported) == (None, None, None, ("ramp",))
    files = formats.read(["./flat"], (GOLDEN / "vdbench/documented/files.txt").read_text())
    assert [(claim.kind, claim.rate_bytes_per_s) for claim in files] == [("read", 1.5 * 2**20), ("write", 2**19)]


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("vdbench -f parm", "output/flatfile.html"),
        ("./vdbench -f parm -o /tmp/x", "/tmp/x/flatfile.html"),
        ("vdbench -fparm -oy", "y/flatfile.html"),
    ],
)
def test_the_flat_file_lies_in_the_folder_of_the_output(command: str, file: str) -> None:
    assert formats.outputs(command.split()) == [file]
    text = (GOLDEN / "vdbench/documented/devices.txt").read_text()
    assert len(formats.read(command.split(), "Vdbench execution completed\n", "", {file: text})) == 2
    with pytest.raises(InputError, match="cannot be read"):
        formats.read(command.split(), "")


def test_an_interrupted_run_of_vdbench_has_no_average() -> None:
    with pytest.raises(InputError, match="no run that ended"):
        formats.read(["./flat"], (GOLDEN / "vdbench/documented/interrupted.txt").read_text())
