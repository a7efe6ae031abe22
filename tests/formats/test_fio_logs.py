"""fio's logs: as they are grouped, what logs with a line for each request say, and histograms by window."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ioassay._core import Histogram, read_histogram_log
from ioassay.errors import InputError
from ioassay.formats import fio_logs
from ioassay.formats.fio_logs import grouped, is_log, series_of

GOLDEN = Path(__file__).parents[2] / "crates" / "fiolog" / "tests" / "golden" / "fio-3.33"


def write(folder: Path, name: str, *lines: tuple[int, int, int, int]) -> Path:
    """A log of (time in ms, value, direction: 0 read, 1 write, block size)."""
    path = folder / name
    path.write_text("".join(f"{', '.join(map(str, line))}, 0\n" for line in lines))
    return path


def test_logs_of_a_prefix_are_one_load_with_its_jobs_in_order() -> None:
    names = ["a_bw.10.log", "a_bw.2.log", "b_bw.log", "a_b_clat.1.log", "a_clat_hist.1.log", "a.txt", "a_bw.log.gz"]
    paths = [Path("/x", name) for name in names]
    results = {
        logs.prefix: {kind: [path.name for path in own] for kind, own in logs.kinds.items()} for logs in grouped(paths)
    }
    assert results == {
        "a": {"bw": ["a_bw.2.log", "a_bw.10.log"], "clat_hist": ["a_clat_hist.1.log"]},
        "b": {"bw": ["b_bw.log"]},
        "a_b": {"clat": ["a_b_clat.1.log"]},
    }
    assert [path.name for path in paths if is_log(path)] == names[:5]
    assert len(grouped([Path("/x/a_bw.1.log"), Path("/y/a_bw.1.log")])) == 2


def test_requests_give_volumes_rates_and_distributions(tmp_path: Path) -> None:
    write(tmp_path, "l_bw.1.log", (100, 1, 0, 4096), (250, 1, 0, 8192), (400, 1, 1, 512))
    write(tmp_path, "l_bw.2.log", (500, 1, 0, 4096))
    write(tmp_path, "l_clat.1.log", (100, 1000, 0, 4096), (250, 3000, 0, 8192))
    (logs,) = grouped(sorted(tmp_path.iterdir()))
    results = logs.read()
    assert results.metrics["read.bytes"] == 16384 and results.metrics["read.ios"] == 3
    assert (results.metrics["read.bw"], results.metrics["read.iops"]) == pytest.approx((16384 / 0.5, 3 / 0.5))
    assert (results.metrics["write.bytes"], results.metrics["write.bw"]) == pytest.approx((512, 512 / 0.4))
    assert (results.metrics["read.clat.mean"], results.metrics["read.clat.min"]) == pytest.approx((2000, 1000))
    assert [(part.direction, part.kind, sum(part.counts)) for part in results.buckets] == [("read", "clat", 2)]
    assert results.has("read", "clat") and not results.has("write", "clat") and not results.warnings
    assert {series.metric for series in results.series} == {"read.clat.mean"}


def test_averages_over_windows_give_a_series_and_a_warning(tmp_path: Path) -> None:
    write(tmp_path, "l_lat.1.log", (100, 1000, 0, 0), (200, 3000, 0, 0))
    (logs,) = grouped(list(tmp_path.iterdir()))
    results = logs.read()
    assert [warning.code for warning in results.warnings] == ["log-averaged"]
    assert results.buckets == [] and results.metrics == {"read.lat.mean": 2000}
    ((series),) = results.series
    assert (series.metric, series.job, list(series.value)) == ("read.lat.mean", -1, [1000, 3000])


def test_latencies_are_weighted_where_each_job_has_a_log_of_its_requests(tmp_path: Path) -> None:
    latencies = [write(tmp_path, "l_lat.1.log", (100, 1000, 0, 0)), write(tmp_path, "l_lat.2.log", (100, 4000, 0, 0))]
    weights = [write(tmp_path, "l_iops.1.log", (100, 3, 0, 0)), write(tmp_path, "l_iops.2.log", (100, 1, 0, 0))]

    def merged(*own: Path) -> list[float]:
        return list(series_of("lat", latencies, 100, own)[0].value)

    assert (merged(), merged(*weights), merged(weights[0])) == ([2500], [1750], [2500])
    idle = write(tmp_path, "l_iops.3.log", (100, 0, 0, 0))
    assert merged(idle, idle) == [1000]
    assert [series.job for series in series_of("lat", latencies, 100)] == [-1, 0, 1]


# Histograms: every request once, at the middle of its bin


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
