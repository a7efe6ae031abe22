"""Histogram logs of fio by window: every request once, at the middle of its bin."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ioassay._core import Histogram, read_histogram_log
from ioassay.errors import InputError
from ioassay.formats import fio_logs

GOLDEN = Path(__file__).parents[2] / "crates" / "fiolog" / "tests" / "golden" / "fio-3.33"


@pytest.mark.parametrize("name", ["coarse_clat_hist.1.log", "hist_clat_hist.1.log"])
def test_the_windows_of_a_real_log_hold_what_the_whole_log_does(name: str) -> None:
    whole = read_histogram_log(GOLDEN / name)
    found = fio_logs.latency_windows([GOLDEN / name])
    assert found.keys() == whole.directions.keys()
    for direction, windows in found.items():
        bins = whole.directions[direction]
        assert [window.end_s for window in windows] == [time_ms / 1e3 for time_ms in bins.time_ms]
        assert [sum(window.counts) for window in windows] == bins.count
        values = [value for window in windows for value in window.values_ns]
        merged = Histogram.from_buckets(values, [count for window in windows for count in window.counts])
        for share in (0.1, 0.5, 0.99):
            assert merged.quantile(share) == pytest.approx(bins.histogram.quantile(share), rel=0.02)


def test_the_logs_of_all_jobs_of_a_folder_are_in_their_order(tmp_path: Path) -> None:
    for job in (2, 10, 1):
        shutil.copy(GOLDEN / "coarse_clat_hist.1.log", tmp_path / f"log_clat_hist.{job}.log")
    (tmp_path / "log_bw.1.log").write_text("100, 1, 0, 0, 0\n")
    paths = fio_logs.histogram_logs(tmp_path)
    assert [path.name for path in paths] == [f"log_clat_hist.{job}.log" for job in (1, 2, 10)]
    one, three = fio_logs.latency_windows(paths[:1]), fio_logs.latency_windows(paths)
    assert all(len(three[direction]) == 3 * len(one[direction]) for direction in one)


def test_a_folder_without_logs_has_none(tmp_path: Path) -> None:
    assert fio_logs.histogram_logs(tmp_path / "missing") == []
    assert fio_logs.latency_windows([]) == {}


@pytest.mark.parametrize("text", ["107, 0, 4096, 1, 2\n", "a, b\n", "107, 7, 4096" + ", 0" * 464 + "\n"])
def test_a_log_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log_clat_hist.1.log"
    path.write_text(text)
    with pytest.raises(InputError, match=r"log_clat_hist\.1\.log"):
        fio_logs.latency_windows([path])
