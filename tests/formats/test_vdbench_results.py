"""What `ioassay import` takes from vdbench's flat file: averages of runs, and their intervals as series."""

from pathlib import Path

import pytest

from ioassay.errors import InputError
from ioassay.formats import vdbench_results
from ioassay.formats.result_entry import Entry
from ioassay.store import frames, importer

GOLDEN = Path(__file__).parents[1] / "golden" / "vdbench" / "documented"


def entries(name: str) -> list[Entry]:
    return vdbench_results.read((GOLDEN / name).read_text(), name)


def test_of_volumes_a_mix_has_rates_of_the_total_and_latencies_of_both() -> None:
    reads, mix = entries("devices.txt")
    assert reads.metrics == {
        "read.iops": 10112,
        "read.bw": pytest.approx(39.5 * 2**20),
        "read.lat.mean": pytest.approx(98_800),
        "read.lat.max": pytest.approx(9_500_000),
        "read.lat.stddev": pytest.approx(250_000),
    }
    assert (mix.label, mix.options["rwmixread"], mix.options["bs"], mix.options["workers"]) == (
        "rd2",
        "70.1",
        "4KiB",
        "8",
    )
    assert mix.metrics["total.iops"] == 810
    assert (mix.metrics["read.lat.mean"], mix.metrics["write.lat.mean"]) == (900_000, 1_200_000)
    assert "read.iops" not in mix.metrics


def test_of_files_both_have_their_own() -> None:
    (files,) = entries("files.txt")
    assert files.metrics == {
        "read.iops": 384,
        "read.bw": 1.5 * 2**20,
        "read.lat.mean": 400_000,
        "write.iops": 128,
        "write.bw": 0.5 * 2**20,
        "write.lat.mean": 700_000,
    }


def test_intervals_are_series_and_a_stall_is_a_point_of_them() -> None:
    text = (GOLDEN / "devices.txt").read_text()
    (first, *_) = vdbench_results.read(text, "x")
    rates = next(series for series in first.series if series.metric == "read.iops")
    assert (rates.time_s[:3], rates.value[:3]) == ([0, 1, 2], [9000, 9984, 10240])
    stalled = text.replace("9984.0000    39.0000", "   0.0000     0.0000")
    (first, *_) = vdbench_results.read(stalled, "x")
    assert next(series for series in first.series if series.metric == "read.iops").value[1] == 0


def test_a_run_that_was_interrupted_leaves_nothing_to_the_next() -> None:
    text = (GOLDEN / "devices.txt").read_text()
    average = next(line for line in text.splitlines() if " rd1 " in line and " avg_" in line)
    (only,) = vdbench_results.read(text.replace(f"{average}\n", ""), "x")
    assert only.label == "rd2"
    assert min(series.time_s[0] for series in only.series) == 0
    with pytest.raises(InputError, match="interrupted.txt: vdbench's flat file has no run that ended"):
        entries("interrupted.txt")


def test_flat_files_are_recognised(tmp_path: Path) -> None:
    found = frames.load(importer.take_in([GOLDEN / "devices.txt"], tmp_path / "run"))
    assert found.studies[0].driver == "vdbench"
    assert found.studies[0].factors == {"rwmixread": ["100", "70.1"]}
    assert set(found.series["metric"]) >= {"read.iops", "total.bw"}
