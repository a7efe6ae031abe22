"""fio's time logs as they are grouped, and what logs with a line for each request say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.formats.fio_logs import grouped, is_log, series_of


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
