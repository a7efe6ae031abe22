"""What `ioassay import` takes from sysbench's output: rates, times of events, levels of each kind of test."""

from pathlib import Path

import pytest

from ioassay.errors import InputError
from ioassay.formats import sysbench_results
from ioassay.formats.result_entry import Entry, size_level
from ioassay.store import frames, importer

GOLDEN = Path(__file__).parents[1] / "golden" / "sysbench" / "1.0.20"


def entry(name: str) -> Entry:
    (found,) = sysbench_results.read((GOLDEN / f"{name}.txt").read_text(), name)
    return found


def test_a_mix_has_rates_of_both_sides_and_times_of_events_only() -> None:
    mix = entry("rndrw")
    assert {name: value for name, value in mix.metrics.items() if not name.startswith("event.")} == {
        "read.iops": 4660.56,
        "read.bw": pytest.approx(72.82 * 2**20),
        "write.iops": 3112.41,
        "write.bw": pytest.approx(48.63 * 2**20),
        "sync.rate": 322.53,
    }
    assert mix.metrics["event.time.mean"] == pytest.approx(115_320)
    assert mix.metrics["event.time.p95"] == pytest.approx(10_000)
    assert mix.metrics["event.time.max"] == pytest.approx(4_760_000)
    assert "event.time.min" not in mix.metrics  # printed as 0.00
    assert mix.options == {
        "test": "random r/w",
        "workers": "1",
        "bs": "16KiB",
        "file_size": "2MiB",
        "files": "4",
        "direct": "0",
        "io_mode": "sync",
        "rw_ratio": "1.50",
    }


def test_requests_of_one_kind_have_the_latency_of_their_events() -> None:
    reads = entry("rndrd-direct")
    assert reads.metrics["read.lat.p99"] == reads.metrics["event.time.p99"] == pytest.approx(130_000)
    assert not [name for name in reads.metrics if name.startswith("write") or name.endswith("p95")]
    assert (reads.options["direct"], reads.options["workers"]) == ("1", "2")


def test_processor_memory_and_other_tests() -> None:
    assert entry("cpu").metrics["event.rate"] == 980.72
    assert entry("cpu").options == {"test": "cpu", "workers": "1", "prime_limit": "10000"}
    memory = entry("memory-read")
    assert memory.options["bs"] == "4KiB"
    assert (memory.options["operation"], memory.options["workers"]) == ("read", "2")
    assert memory.metrics["memory.bw"] / 4096 == pytest.approx(memory.metrics["event.rate"], rel=1e-4)
    threads = entry("threads")
    assert threads.metrics["event.rate"] > 0
    assert set(threads.options) == {"test", "workers"}


def test_a_test_without_results_is_a_failed_trial_and_files_that_were_made_are_no_test() -> None:
    assert entry("cut-file").problem.startswith("sysbench was ended before its results")
    with pytest.raises(InputError, match=r"x: has no test of sysbench.*bytes written"):
        sysbench_results.read((GOLDEN / "prepare.txt").read_text(), "x")


def test_outputs_are_recognised_and_what_differs_is_a_factor(tmp_path: Path) -> None:
    files = [GOLDEN / f"{name}.txt" for name in ("seqrd", "rndrd-mmap", "rndrd-async")]
    found = frames.load(importer.take_in(files, tmp_path / "run"))
    assert found.studies[0].driver == "sysbench"
    assert found.studies[0].factors == {
        "test": ["sequential read", "random read"],
        "io_mode": ["sync", "mmap", "async"],
    }
    assert found.trials["status"].to_list() == ["ok"] * 3
    fio = GOLDEN.parents[1] / "fio" / "3.33" / "read" / "fio.json"
    mixed = frames.load(importer.take_in([GOLDEN / "seqrd.txt", fio], tmp_path / "mixed"))
    assert sorted(mixed.studies[0].title.split()) == sorted(["fio", "and", "sysbench", "results", "from", "2", "files"])
    both = tmp_path / "both.txt"
    both.write_text("".join((GOLDEN / name).read_text() for name in ("cpu.txt", "cpu.txt")))
    assert frames.load(importer.take_in([both], tmp_path / "again")).trials["repetition"].to_list() == [0, 1]


@pytest.mark.parametrize(("size_bytes", "level"), [(0, "0"), (1000, "1000"), (65536, "64KiB"), (2**30, "1GiB")])
def test_sizes_as_levels_are_exact(size_bytes: int, level: str) -> None:
    assert size_level(size_bytes) == level
