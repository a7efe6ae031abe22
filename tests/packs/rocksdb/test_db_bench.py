"""The driver db_bench: parameters, real captured outputs, and the installed db_bench itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import ConditionError, ToolError
from ioassay.packs.rocksdb import claims
from ioassay.packs.rocksdb.claims import Output
from ioassay.packs.rocksdb.driver import Capabilities, DbBench, benchmark_metrics, capabilities, suspicions
from ioassay.packs.rocksdb.driver import read as settings
from ioassay.records.record import FAILED, OK
from ioassay.roles import EndedStep, Load, Outcome, Parsed, Step

from ...conftest import tmpfs
from ...drivers import trials
from ...drivers.trials import OFFERS, ended, trial
from ...patience import PATIENCE_S

GOLDEN = trials.GOLDEN / "db_bench" / "7.8.3"
OFFER = capabilities(OFFERS["db_bench"][1])
TARGET = {"kind": "folder", "path": "."}


def test_flags_with_types_and_benchmarks_are_read_from_the_help() -> None:
    assert OFFER.flags["num"] == "int64" and OFFER.flags["sync"] == "bool"
    assert OFFER.flags["compression_ratio"] == "double"
    assert OFFER.benchmarks == ("fillseq", "readrandom", "waitforcompaction")


def steps_of(benchmarks: str, **more: Any) -> Sequence[Step]:
    params = {"benchmarks": benchmarks, "process_per_load": True, **more}
    return settings(params, Capabilities()).steps("db_bench", ["--db=x"], 5)


def test_each_load_can_be_a_process_of_its_own() -> None:
    found = steps_of("fillseq,waitforcompaction,readrandom[X2],overwrite,fillrandom", num=10)
    assert [step.name for step in found] == ["fillseq", "readrandom", "overwrite", "fillrandom"]
    assert [step.argv[1] for step in found] == [
        "--benchmarks=fillseq,waitforcompaction",
        "--benchmarks=readrandom[X2]",
        "--benchmarks=overwrite,flush",
        "--benchmarks=fillrandom,flush",
    ]
    assert ["--use_existing_db=1" in step.argv for step in found] == [False, True, True, False]
    seeds = {word for step in found for word in step.argv if word.startswith("--seed=")}
    assert len(seeds) == 4 and "--seed=5" in seeds  # reads that draw as fillrandom drew would find every key
    first, second = steps_of("readseq", prepare="fillseq")
    assert (first.name, first.argv[1]) == ("", "--benchmarks=fillseq,flush")
    assert "--use_existing_db=1" in second.argv


@pytest.mark.parametrize("cold", [False, True])
def test_the_page_cache_forgets_before_each_process_where_that_is_asked(tmp_path: Path, cold: bool) -> None:
    params = {"benchmarks": "readrandom", "prepare": "fillseq", "process_per_load": True, "cold_cache": cold}
    command = DbBench().command(trial("db_bench", params), Load("folder", tmp_path, 0, False), tmp_path)
    assert command is not None and command.cold == cold


@pytest.mark.parametrize(
    ("libraries", "messages", "has"),
    [
        ("libsnappy.so.1 => …", "0", False),
        ("librocksdb.so.7.8\nliburing.so.2 => …", "0", True),
        ("libsnappy.so.1 => …", "1\n", True),  # linked statically: a message of RocksDB's shows it
        ("", "", True),  # not asked
    ],
)
def test_reads_by_io_uring_are_skipped_where_the_build_has_none(
    libraries: str, messages: str, has: bool, tmp_path: Path
) -> None:
    driver = DbBench()
    driver.configure("db_bench version 7.8.3", {"libraries": libraries, "io_uring": messages})
    wanted, load = trial("db_bench", {"benchmarks": "readseq", "async_io": True}), Load("folder", tmp_path, 0, False)
    if has:
        assert driver.command(wanted, load, tmp_path) is not None
    else:
        with pytest.raises(ConditionError, match="built without io_uring"):
            driver.command(wanted, load, tmp_path)


def test_another_db_bench_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOASSAY_DB_BENCH", "/opt/db_bench")
    tool = DbBench().tool()
    assert tool is not None and tool.executable == "/opt/db_bench"
    assert [argv[0] for argv in tool.probes.values()] == ["/opt/db_bench", "ldd", "grep"]


def test_a_build_may_have_another_name_and_a_relative_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IOASSAY_DB_BENCH", "./build/db_bench-new")
    driver = DbBench()
    tool = driver.tool()
    assert tool is not None and tool.executable == str(tmp_path / "build" / "db_bench-new")
    driver.configure("db_bench-new version 7.8.3", {})
    with pytest.raises(ToolError, match="db_bench-new --version said 'cache_bench version 7.8.3'"):
        driver.configure("cache_bench version 7.8.3", {})


def test_the_estimate_grows_with_the_operations() -> None:
    small = DbBench().estimate({"benchmarks": "fillseq", "num": 1000}, TARGET)
    large = DbBench().estimate({"benchmarks": "fillseq", "num": 10_000_000}, TARGET)
    assert large.seconds > 10 * small.seconds


# Real captured outputs


def read(name: str, params: dict[str, Any], exit_code: int = 0) -> Parsed:
    outcome = Outcome(exit_code, None, False, 0.0, 1.0, GOLDEN / f"{name}.txt", GOLDEN / f"{name}.err")
    return DbBench().parse(trial("db_bench", params), outcome, GOLDEN)


def test_synchronisations_of_the_log_are_those_of_the_statistics() -> None:
    found = read("synced", {"benchmarks": "fillrandom", "sync": True}).metrics
    assert {name: value for name, value in found.items() if name.startswith("sync.")} == pytest.approx(
        {"sync.ios": 300, "sync.lat.mean": 1_020_855_000 / 300, "sync.lat.max": 23_912_000}
        | {"sync.lat.p50": 2_566_666.667, "sync.lat.p95": 9.6e6, "sync.lat.p99": 1.8e7}
    )
    assert not any(name.startswith("sync.") for name in read("histogram", {"benchmarks": "fillseq"}).metrics)


def test_percentiles_of_two_processes_are_none_of_both() -> None:
    text = (GOLDEN / "synced.txt").read_text()
    both = claims.merged([claims.parse(text), claims.parse(text)])
    found = benchmark_metrics(both, ["fillrandom"])
    assert {name for name in found if name.startswith("sync.")} == {"sync.ios", "sync.lat.mean"}
    assert found["sync.ios"] == 600


def test_a_line_of_results_is_rates_and_volume() -> None:
    parsed = read("plain", {"benchmarks": "fillseq,readrandom,readseq,overwrite,seekrandom,deleteseq,fillsync"})
    assert parsed.status == OK, parsed.reason
    assert parsed.metrics["fillseq.ops"] == 20000
    assert {part["name"] for part in parsed.parts} >= {"fillseq", "seekrandom", "fillsync"}
    assert parsed.metrics["readrandom.found"] == 1.0
    assert [warning.code for warning in parsed.warnings] == ["debug-build"]
    assert [claim.kind for claim in parsed.claims] == ["keys"] * 7


def test_a_histogram_is_a_distribution_with_all_operations() -> None:
    benchmarks = "fillrandom,readrandom[X2],readseq[W1],readrandomwriterandom"
    parsed = read("histogram", {"benchmarks": benchmarks, "num": 10000, "reads": 5000, "threads": 2})
    assert parsed.status == OK, parsed.reason
    counts = {found.direction: sum(found.counts) for found in parsed.buckets}
    for name, operations in counts.items():
        assert operations == parsed.metrics[f"{name}.ops"], name
    assert "readrandom.op_time.p99" not in parsed.metrics  # of two runs no percentile is averaged
    assert parsed.metrics["fillrandom.op_time.p99"] > parsed.metrics["fillrandom.op_time.p50"]


@pytest.mark.parametrize(
    ("micros", "operations", "average", "most", "count", "contradicted"),
    [
        (3.6, 16_000, 100.0, 60_000, 16_000, False),  # each of many threads waited before its time began
        (0.5, 100_000, 1.1, 60_000, 100_000, False),  # the thread waited 60 ms before its time began
        (1.5, 20_000, 15.0, 20, 2000, False),  # batches of ten
        (50.0, 40_000, 30.0, 60, 40_000, False),  # it waited 0.8 s after its last operation
        (50.0, 400_000, 30.0, 60, 400_000, True),
    ],
)
def test_times_of_operations_add_up_to_that_of_the_line_but_for_what_lies_outside(
    micros: float, operations: int, average: float, most: int, count: int, contradicted: bool
) -> None:
    line = f"x : {micros:.3f} micros/op {1e6 / micros:.0f} ops/sec {micros * operations / 1e6:.3f} seconds"
    shape = f"Count: {count} Average: {average}  StdDev: 0\nMin: 1  Median: 1.5  Max: {most}\n"
    rows = f"(       0, {most:7} ] {count:8} 100.000% 100.000%\n"
    (claim,) = claims.CLAIMS.read(f"{line} {operations} operations;\nMicroseconds per read:\n{shape}{rows}")
    assert [misfit.name for misfit in claim.misfits if misfit.name == "micros/op"] == ["micros/op"] * contradicted


def test_keys_that_are_not_found_are_explained() -> None:
    parsed = read("histogram", {"benchmarks": "fillrandom,readrandom[X2]", "num": 10000, "threads": 2})
    (told,) = [warning for warning in parsed.warnings if warning.code == "keys-not-found"]
    assert "draws 2 times as many keys as there are" in told.text  # the capture has two threads
    assert "86.47%" in told.text


@pytest.mark.parametrize(("operations", "explained"), [(200, True), (20_000, False)])
def test_a_share_of_few_reads_may_be_further_from_the_expected_one(operations: int, explained: bool) -> None:
    wanted = settings({"benchmarks": "fillrandom,readrandom"}, OFFER)
    (told,) = suspicions(wanted, {"readrandom.found": 0.58, "readrandom.ops": operations}, Output(()))
    assert ("some of them again" in told.text) == explained


def test_a_compression_that_was_asked_for_and_not_done_is_a_warning() -> None:
    head = Output((), compression="NoCompression")
    wanted = settings({"benchmarks": "fillseq", "compression_type": "zstd"}, OFFER)
    (told,) = suspicions(wanted, {}, head)
    assert told.code == "not-compressed" and "'zstd'" in told.text
    assert not suspicions(wanted, {}, Output((), compression="ZSTD"))
    assert not suspicions(settings({"benchmarks": "fillseq"}, OFFER), {}, head)


@pytest.mark.parametrize(
    ("name", "benchmarks", "exit_code", "said"),
    [
        ("plain", "fillseq,readreverse", 0, "db_bench printed no results of readreverse"),
        ("unknown-benchmark", "nonsense", 1, "unknown benchmark 'nonsense'"),
    ],
)
def test_a_benchmark_without_results_is_a_failure(name: str, benchmarks: str, exit_code: int, said: str) -> None:
    parsed = read(name, {"benchmarks": benchmarks, "num": 10}, exit_code)
    assert parsed.status == FAILED and said in parsed.reason


def test_processes_of_one_trial_have_counts_of_their_own(tmp_path: Path) -> None:
    whole = (GOLDEN / "histogram.txt").read_text()
    both = whole + whole.replace("fillrandom", "fillseq")
    steps = [EndedStep("fillrandom", 0, len(whole.encode())), EndedStep("fillseq", 0, len(both.encode()))]
    params = {"benchmarks": "fillrandom,fillseq", "process_per_load": True}
    parsed = DbBench().parse(trial("db_bench", params), ended(tmp_path, both, steps=steps), tmp_path)
    assert parsed.status == OK, parsed.reason
    own = [parsed.metrics[f"{name}.rocksdb.user_bytes"] for name in ("fillrandom", "fillseq")]
    assert own[0] == own[1] > 0 and parsed.metrics["rocksdb.user_bytes"] == sum(own)
    assert parsed.metrics["fillseq.rocksdb.write_amplification"] == parsed.metrics["rocksdb.write_amplification"] >= 1


# The installed one


@pytest.fixture(scope="module")
def driver() -> DbBench:
    """A driver that has asked the installed db_bench for its flags."""
    made: DbBench = trials.asked("db_bench")
    return made


def run(driver: DbBench, params: dict[str, Any], folder: Path, place: Path | None = None) -> Parsed:
    """A measured trial, whose database is in a folder of its own."""
    place = place or folder / "place"
    place.mkdir(parents=True, exist_ok=True)
    driver.validate(params, TARGET)
    return trials.run(driver, params, Load("folder", place, 0, False), folder, timeout_s=PATIENCE_S)[0]


def measured(driver: DbBench, params: dict[str, Any], folder: Path) -> Parsed:
    """One that measured something."""
    parsed = run(driver, params, folder)
    assert parsed.status == OK, parsed.reason
    return parsed


def test_the_times_of_idle_threads_are_no_latency() -> None:
    line = "fillbatch    : {} micros/op 0 ops/sec 1.290 seconds 1 operations;"
    for micros, known in (("2870340.000", False), ("1289000.000", True)):  # of 64 threads, and of one
        (claim,) = claims.CLAIMS.read(line.format(micros))
        assert ("mean" in claim.latency_ns, claim.misfits) == (known, ())


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("1 ops/sec 0.607 seconds 1 operations", 0.607),  # the rate has one digit
        ("164745 ops/sec 0.607 seconds 100000 operations", 100_000 / 164_745),
        ("164745 ops/sec 0.000 seconds 1 operations", 1 / 164_745),
        ("0 ops/sec 1.290 seconds 1 operations", 1.29),
        ("1 ops/sec", None),
        ("", None),
    ],
)
def test_the_interval_is_the_most_exact_in_print(words: str, seconds: float | None) -> None:
    (claim,) = claims.CLAIMS.read(f"fillbatch    : 899999.000 micros/op {words};")
    assert claim.seconds == (seconds and pytest.approx(seconds))


def test_the_rate_of_one_run_is_the_printed_one_and_of_several_that_of_all() -> None:
    lines = [f"fillseq : 661.9 micros/op {rate} ops/sec 1.984 seconds 3000 operations;" for rate in (1511, 1512)]
    assert benchmark_metrics(claims.parse(lines[0]), ["fillseq"])["fillseq.ops_rate"] == 1511
    both = benchmark_metrics(claims.parse("\n".join(lines)), ["fillseq"])
    assert both["fillseq.ops_rate"] == pytest.approx(3000 / 1.984)


@pytest.mark.rocksdb
def test_four_loads_are_measured_in_processes_of_their_own(driver: DbBench, tmp_path: Path) -> None:
    loads = ("fillseq", "readseq", "fillrandom", "readrandom")
    params = {"benchmarks": ",".join(loads), "num": 5000, "process_per_load": True, "cold_cache": True}
    parsed = measured(driver, params, tmp_path)
    assert parsed.metrics["readrandom.found"] == pytest.approx(0.632, abs=0.05)
    assert parsed.metrics["fillseq.rocksdb.user_bytes"] > 0 == parsed.metrics["readseq.rocksdb.user_bytes"]
    both = sum(parsed.metrics[f"{name}.rocksdb.flush_bytes"] for name in loads)
    assert parsed.metrics["rocksdb.flush_bytes"] == both > 0
    assert parsed.metrics["readrandom.rocksdb.flush_bytes"] == 0  # the load before ended with a flush
    written = [claim.bytes for claim in parsed.claims if claim.kind == "write"]
    assert len(written) == 1 and written[0] > 0


@pytest.mark.rocksdb
def test_reads_of_nothing_say_what_is_missing(driver: DbBench, tmp_path: Path) -> None:
    parsed = run(driver, {"benchmarks": "readrandom", "num": 1000}, tmp_path)
    assert any("nothing filled the database" in warning.text for warning in parsed.warnings)


@pytest.mark.rocksdb
@pytest.mark.parametrize(
    ("compression", "said"),
    [
        ("no-such-compression", "Cannot parse compression type 'no-such-compression'"),
        ("xpress", "Compression type Xpress is not linked with the binary"),  # it is of Windows
    ],
)
def test_what_rocksdb_refuses_is_a_failure_with_its_words(
    driver: DbBench, tmp_path: Path, compression: str, said: str
) -> None:
    parsed = run(driver, {"benchmarks": "fillseq", "num": 2000, "compression_type": compression}, tmp_path)
    assert parsed.status == FAILED
    assert said in parsed.reason and "micros/op" not in parsed.reason


@pytest.mark.rocksdb
def test_benchmarks_of_several_kinds_are_measured_in_one_run(driver: DbBench, tmp_path: Path) -> None:
    names = ("readrandomwriterandom", "mixgraph", "seekrandom", "overwrite", "multireadrandom", "deleterandom")
    sizes = {"num": 3000, "reads": 3000, "compression_type": "snappy"}
    params = {"benchmarks": ",".join(names), "prepare": "fillseq,compact", **sizes}
    parsed = measured(driver, params, tmp_path)
    for name in ("readrandomwriterandom", "mixgraph", "seekrandom", "multireadrandom"):
        assert parsed.metrics[f"{name}.found"] == 1.0, name
    for name in names:
        assert parsed.metrics[f"{name}.ops"] >= 3000
        assert sum(count for one in parsed.buckets if one.direction == name for count in one.counts) > 0, name


@pytest.mark.rocksdb
def test_reads_find_what_was_prepared_and_what_rocksdb_did_is_claimed_as_io(driver: DbBench, tmp_path: Path) -> None:
    parsed = measured(driver, {"benchmarks": "readrandom", "prepare": "fillseq,flush", "num": 5000}, tmp_path)
    assert parsed.metrics["readrandom.found"] == 1.0
    assert "fillseq.ops_rate" not in parsed.metrics
    read, written = (next(one for one in parsed.claims if one.kind == kind) for kind in ("read", "write"))
    assert read.bytes and read.test == "RocksDB's reads"
    parts = ("wal_bytes", "flush_bytes", "compaction_write_bytes")
    assert written.bytes == sum(parsed.metrics[f"rocksdb.{part}"] for part in parts)
    assert written.doubts == ("log-not-synced",)
    synced = run(driver, {"benchmarks": "fillseq", "num": 50, "sync": True}, tmp_path / "synced")
    (written,) = (one for one in synced.claims if one.kind == "write")
    assert (written.syncs or 0) >= 50 and not written.doubts


@pytest.mark.rocksdb
@pytest.mark.root
def test_a_full_disk_in_the_middle_is_a_failure_that_says_so(driver: DbBench, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", 6 << 10) as small:
        params = {"benchmarks": "fillrandom", "num": 200_000, "write_buffer_size": "256KiB"}
        parsed = run(driver, params, tmp_path / "raw", small)  # what it says finds room
    # RocksDB's own thread may find the failed writer first, where its build asserts that there is none.
    assert parsed.status == FAILED
    assert "No space left on device" in parsed.reason or "WritableFileWriter" in parsed.reason
