"""fio's time logs as series: in base units, of each job and of all together."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.fio import logs
from ioassay.drivers.fio.section import Section
from ioassay.records.record import Series

HISTOGRAMS = Path(__file__).parents[2] / "crates" / "fiolog" / "tests" / "golden" / "fio-3.33"
ALL = {"logs": ["bw", "iops", "lat", "clat", "slat"], "log_interval": "100ms"}


def write(folder: Path, kind: str, job: int, *lines: tuple[int, int, int]) -> None:
    """A log with (time in ms, value, direction: 0 read, 1 write) in each line."""
    text = "".join(f"{time_ms}, {value}, {direction}, 0, 0\n" for time_ms, value, direction in lines)
    (folder / f"log_{kind}.{job}.log").write_text(text)


def read(folder: Path, *kinds: str, interval: str = "100ms") -> dict[tuple[str, int], Series]:
    found, warnings = logs.series({"logs": list(kinds), "log_interval": interval}, folder)
    assert warnings == []
    return {(series.metric, series.job): series for series in found}


def test_every_log_of_a_real_run_becomes_series_of_both_directions(golden: Any) -> None:
    found = golden.parsed("randrw-2-jobs")
    assert not found.warnings
    metrics = {series.metric for series in found.series}
    quantities = ("bw", "iops", "lat.mean", "clat.mean", "slat.mean")
    assert metrics == {f"{direction}.{quantity}" for direction in ("read", "write") for quantity in quantities}
    assert {series.job for series in found.series} == {-1, 0, 1}


def test_series_agree_with_the_results_of_the_same_run(golden: Any) -> None:
    found = golden.parsed("randrw-2-jobs")
    merged = {series.metric: series for series in found.series if series.job == -1}
    for metric in ("read.bw", "write.bw", "read.iops", "read.lat.mean", "write.clat.mean", "read.slat.mean"):
        values = merged[metric].value
        assert len(values) >= 8  # of ten intervals: fio leaves out the last
        assert sum(values) / len(values) == pytest.approx(found.metrics[metric], rel=0.15)
        assert all(0 < time_s < 1.1 for time_s in merged[metric].time_s)


def test_bandwidth_is_in_bytes_and_jobs_add_up(tmp_path: Path) -> None:
    write(tmp_path, "bw", 1, (100, 10, 0), (200, 20, 0))
    write(tmp_path, "bw", 2, (101, 1, 0), (301, 4, 0))
    found = read(tmp_path, "bw")
    assert list(found["read.bw", -1].time_s) == pytest.approx([0.15, 0.25, 0.35])
    assert list(found["read.bw", -1].value) == [11 * 1024, 20 * 1024, 4 * 1024]
    assert list(found["read.bw", 1].value) == [1024, 4 * 1024]


def test_latencies_of_jobs_are_weighted_by_their_requests(tmp_path: Path) -> None:
    write(tmp_path, "lat", 1, (100, 1000, 0))
    write(tmp_path, "lat", 2, (100, 4000, 0))
    write(tmp_path, "iops", 1, (100, 300, 0))
    write(tmp_path, "iops", 2, (100, 100, 0))
    assert list(read(tmp_path, "lat")["read.lat.mean", -1].value) == [1750]


def test_a_single_job_has_no_series_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "iops", 1, (100, 5, 0), (100, 7, 1))
    assert {job for _, job in read(tmp_path, "iops")} == {-1}


def test_histograms_over_time_are_asked_for_and_leave_no_series(tmp_path: Path) -> None:
    job = Section("job", {"rw": "randread"})
    options = logs.options({"logs": ["hist"], "log_interval": "250ms"}, job, "raw/")
    assert {name: options[name] for name in ("write_hist_log", "log_hist_msec", "log_hist_coarseness")} == {
        "write_hist_log": "raw/log",
        "log_hist_msec": "250",
        "log_hist_coarseness": "2",
    }
    assert "write_hist_log" not in logs.options({"logs": ["bw"]}, job)
    shutil.copy(HISTOGRAMS / "coarse_clat_hist.1.log", tmp_path / "log_clat_hist.1.log")
    assert logs.series({"logs": ["hist"]}, tmp_path) == ([], [])


@pytest.mark.parametrize("text", [None, "107, 0, 4096, 1, 2\n", "gibberish\n"])
def test_histograms_that_are_missing_or_broken_are_a_warning(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "log_clat_hist.1.log").write_text(text)
    _, (warning,) = logs.series({"logs": ["hist"]}, tmp_path)
    assert warning.code == "log-unreadable" and "log_clat_hist.1.log" in warning.text


def test_jobs_past_the_ninth_keep_their_order(tmp_path: Path) -> None:
    for number in range(1, 12):
        write(tmp_path, "bw", number, (100, number, 0))
    assert list(read(tmp_path, "bw")["read.bw", 10].value) == [11 * 1024]


def test_a_log_that_is_missing_or_broken_is_a_warning_and_the_others_are_read(golden: Any, tmp_path: Path) -> None:
    for path in (golden.folder / "randrw-2-jobs").glob("log_*.log"):
        shutil.copy(path, tmp_path)
    (tmp_path / "log_lat.1.log").write_text("not a log\n")
    for path in tmp_path.glob("log_iops.*"):
        path.unlink()
    found, warnings = logs.series(ALL, tmp_path)
    assert [warning.code for warning in warnings] == ["log-unreadable", "log-unreadable"]
    assert "log_iops.1.log is not there" in warnings[0].text
    assert "log_lat.1.log" in warnings[1].text
    assert {series.metric.split(".")[1] for series in found} == {"bw", "clat", "slat"}
