"""db_bench's lines, histograms and warnings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError
from ioassay.formats import db_bench_output

GOLDEN = Path(__file__).parents[1] / "golden" / "db_bench" / "7.8.3"


def text(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text()


def test_each_benchmark_is_a_claim_of_keys() -> None:
    found = formats.read(["db_bench"], text("plain"))
    assert [claim.test for claim in found] == [
        *("fillseq", "readrandom", "readseq", "overwrite", "seekrandom", "deleteseq", "fillsync"),
    ]
    assert {(claim.kind, claim.operations, claim.paths) for claim in found} == {("keys", 20000, ("/golden/db",))}
    line = next(line for line in text("plain").splitlines() if line.startswith("fillseq"))
    assert f" {found[0].latency_ns['mean'] / 1e3:.3f} micros/op" in line
    assert f" {round(20000 / (found[0].seconds or 1))} ops/sec" in line
    assert f" {(found[0].rate_bytes_per_s or 0) / 2**20:.1f} MB/s" in line


def test_histograms_belong_to_the_line_before_them() -> None:
    found = formats.read([], text("histogram"))
    assert [claim.test for claim in found[:3]] == ["fillrandom", "readrandom", "readrandom"]  # no lines of averages
    printed = [line for line in text("histogram").splitlines() if line.startswith("Percentiles:")]
    timed = [claim for claim in found if claim.kind == "keys"]
    for claim, line in zip(timed, printed, strict=False):  # the last prints two
        assert (
            f"P50: {claim.latency_ns['p50'] / 1e3:.2f} " in line
            and f"P99: {claim.latency_ns['p99'] / 1e3:.2f} " in line
        )


def test_what_rocksdb_counted_of_its_files_is_a_claim_about_io() -> None:
    (written,) = (claim for claim in formats.read([], text("histogram")) if claim.kind != "keys")  # nothing was read
    assert (written.kind, written.test, written.bytes) == ("write", "RocksDB's writes", 2750448)
    assert written.unreported == ("own-files",) and "log-not-synced" in written.doubts
    told = text("histogram").replace("last.level.read.bytes COUNT : 0", "last.level.read.bytes COUNT : 40960")
    for argv, engine in (([], ""), (["db_bench", "--mmap_read=true"], "mmap"), (["--mmap_read=false"], "")):
        (read,) = (claim for claim in db_bench_output.read(told, argv) if claim.kind == "read")
        assert (read.bytes, read.engine) == (2 * 40960, engine)  # of both kinds of levels
    synced = told.replace("wal.synced COUNT : 0", "wal.synced COUNT : 7")
    (written,) = (claim for claim in db_bench_output.read(synced) if claim.kind == "write")
    assert (written.syncs, written.doubts) == (7, ())
    flushed = told.replace("flush.write.bytes COUNT : 0", "flush.write.bytes COUNT : 4096")
    for log in ("wal.bytes COUNT : 0", "another COUNT : 7"):  # without a log there is none to synchronise
        written = db_bench_output.read(re.sub(r"wal.bytes COUNT : \d+", log, flushed))[-1]
        assert (written.kind, written.bytes, written.syncs, written.doubts) == ("write", 4096, None, ())


def test_what_it_says_against_itself_is_a_warning() -> None:
    assert db_bench_output.parse(text("plain")).warnings == ["Assertions are enabled; benchmarks unnecessarily slow"]
    assert len(formats.read([], text("mixed"))) == 4


@pytest.mark.parametrize(
    ("line", "operations", "rate"),
    [
        ("fillseq      :       3.387 micros/op 295222 ops/sec;   32.7 MB/s", None, 32.7 * 2**20),
        ("fillseq      :       2.100 micros/op;   52.7 MB/s", None, 52.7 * 2**20),
        ("... finished 900 ops   \rreadhot : 3.4 micros/op 10 ops/sec 1.0 seconds 10 operations;", 10, None),
    ],
)
def test_lines_of_other_versions(line: str, operations: int | None, rate: float | None) -> None:
    (claim,) = formats.read([], line)
    assert (claim.operations, claim.rate_bytes_per_s) == (operations, rate)


def test_nothing_to_read_is_said() -> None:
    for bad, wanted in (
        (text("unknown-benchmark") + (GOLDEN / "unknown-benchmark.err").read_text(), "nonsense"),
        ("", "empty"),
        ("RocksDB:    version 7.8.3\nKeys:       16 bytes each", "no line of results"),
        ("fillseq : nan micros/op 1 ops/sec", "nan"),
        ("fillseq : 1.0 micros/op 9999999999999999999 ops/sec 1.0 seconds 1 operations;", "9999999999999999999"),
    ):
        with pytest.raises(InputError, match=wanted):
            db_bench_output.read(bad)
