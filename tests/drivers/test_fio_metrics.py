"""The results of fio's jobs, merged into metrics, distributions and parts."""

import json
import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay.drivers.fio import fio_metrics
from ioassay.formats import fio_json
from ioassay.formats.fio_results import CpuUse, Direction, Job, Latency, Results, merged_latency


def read(text: str) -> Results:
    return fio_json.parse(text, "fio's output")


def test_what_was_not_measured_is_left_out(golden: Any) -> None:
    (job,) = read(golden.text("read")).jobs
    assert set(job.directions["read"].latencies) == {"clat", "lat"}  # a synchronous engine has no submission
    assert job.directions["write"].latencies == {}
    assert not [name for name in fio_metrics.metrics([job]) if name.startswith(("write", "trim", "read.slat"))]


def test_fio_2_counts_kib_and_microseconds() -> None:
    """Constructed after the documented format of fio 2 (HOWTO, "JSON output"); not captured."""
    entry = {
        "io_bytes": 4096,
        "bw": 2048,
        "iops": 512.0,
        "runtime": 2000,
        "total_ios": 1024,
        "slat": {"min": 1, "max": 9, "mean": 2.0, "stddev": 1.0},
        "clat": {"min": 10, "max": 90, "mean": 20.0, "stddev": 5.0, "percentile": {"99.000000": 80, "0.00": 0}},
        "lat": {"min": 11, "max": 99, "mean": 22.0, "stddev": 6.0},
    }
    document = {"fio version": "fio-2.16", "jobs": [{"jobname": "old", "groupid": 0, "error": 0, "read": entry}]}
    (job,) = read(json.dumps(document, indent=2)).jobs
    found = fio_metrics.metrics([job])
    assert (found["read.bytes"], found["read.bw"], found["read.iops"]) == (4 * 2**20, 2 * 2**20, 512)
    assert (found["read.slat.mean"], found["read.clat.p99"], found["read.lat.max"]) == (2000, 80000, 99000)


def test_a_mixed_load_has_its_directions_and_their_total(golden: Any) -> None:
    jobs = read(golden.text("randrw-2-jobs")).jobs
    found = fio_metrics.metrics(jobs)
    assert found["total.ios"] == found["read.ios"] + found["write.ios"] == sum(job.ios for job in jobs)
    assert found["read.bw"] == pytest.approx(found["read.iops"] * 16384)
    assert found["total.bw"] == pytest.approx(found["read.bw"] + found["write.bw"], rel=0.01)
    assert 0 < found["read.clat.p50"] <= found["read.clat.p99"] <= found["read.clat.p99.9"] <= found["read.clat.max"]


def test_percentiles_agree_with_those_of_fio_itself(golden: Any) -> None:
    """fio's are the value of a bin; ours lie between neighbouring requests' bins."""
    for case, direction in (("write", "write"), ("io-uring", "read"), ("null-engine", "read")):
        (job,) = read(golden.text(case)).jobs
        latency = job.directions[direction].latencies["clat"]
        ours = fio_metrics.percentiles_ns(latency)
        for share in (50.0, 90.0, 95.0, 99.0):
            assert ours[share] == pytest.approx(latency.percentiles_ns[share], rel=0.02)


def test_every_metric_of_the_results_is_in_the_registry(golden: Any) -> None:
    from ioassay.metrics import known, metric

    found = fio_metrics.metrics(read(golden.text("randrw-2-jobs")).jobs)
    assert {"read.bw", "context_switches"} <= found.keys()
    assert [name for name in found if not known(name)] == []
    assert metric("first job/read.bw").unit == metric("read.bw").unit
    assert metric("first job/read.bw").label == "first job: Read bandwidth"


samples = st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), min_size=1, max_size=4)


def latency(values: list[int]) -> Latency:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    bins = {value: values.count(value) for value in values}
    return Latency(len(values), statistics.mean(values), deviation, min(values), max(values), bins)


def merge(latencies: list[Latency]) -> Latency:
    jobs = [Job("j", 0, 0, {"read": Direction(each.count, 0, 1.0, {"lat": each})}) for each in latencies]
    merged = merged_latency(jobs, "read", "lat")
    assert merged is not None
    return merged


@given(jobs=samples)
def test_merged_latencies_are_those_of_all_requests_together(jobs: list[list[int]]) -> None:
    merged = merge([latency(values) for values in jobs])
    wanted = latency([value for values in jobs for value in values])
    assert merged.count == wanted.count
    assert merged.bins == wanted.bins
    assert (merged.min_ns, merged.max_ns) == (wanted.min_ns, wanted.max_ns)
    assert math.isclose(merged.mean_ns, wanted.mean_ns, rel_tol=1e-9)
    assert math.isclose(merged.stddev_ns, wanted.stddev_ns, rel_tol=1e-6, abs_tol=1e-3)


def job(name: str, group: int, runtime_s: float, volume: int, **options: str) -> Job:
    done = Direction(volume // 4096, volume, runtime_s)
    return Job(name, group, 0, {"read": done}, options, runtime_s, CpuUse(50.0, 10.0))


def test_jobs_that_run_together_add_up_over_the_longest() -> None:
    found = fio_metrics.metrics([job("a", 0, 1.0, 4096 * 100), job("a", 0, 2.0, 4096 * 300)])
    assert found["read.bw"] == 4096 * 400 / 2
    assert found["cpu.usr"] == pytest.approx(75)  # 50 % for 1 s and 50 % for 2 s, in 2 s


def test_groups_that_run_one_after_the_other_add_their_times() -> None:
    found = fio_metrics.metrics([job("a", 0, 1.0, 4096 * 100), job("b", 1, 2.0, 4096 * 300, stonewall="")])
    assert found["read.bw"] == 4096 * 400 / 3
    assert found["read.runtime"] == 3.0


def test_groups_that_only_report_apart_run_together() -> None:
    found = fio_metrics.metrics([job("a", 0, 2.0, 4096 * 100), job("b", 1, 2.0, 4096 * 300, new_group="1")])
    assert found["read.runtime"] == 2.0


def test_sections_of_a_job_file_have_metrics_of_their_own() -> None:
    jobs = [job("a", 0, 1.0, 4096 * 100), job("b", 1, 2.0, 4096 * 300)]
    found = fio_metrics.by_section(jobs)
    assert (found["a/read.iops"], found["b/read.iops"]) == (100, 150)
    assert fio_metrics.by_section(jobs[:1]) == {}


def test_percentiles_of_several_jobs_without_bins_are_not_made_up() -> None:
    own = Latency(10, 5.0, 1.0, 1.0, 9.0, {}, {99.0: 8.0})
    assert fio_metrics.percentiles_ns(merge([own])) == {99.0: 8.0}
    assert fio_metrics.percentiles_ns(merge([own, own])) == {}


def test_distributions_are_kept_merged_and_of_each_job(golden: Any) -> None:
    found = fio_metrics.buckets(read(golden.text("randrw-2-jobs")).jobs)
    whole, first, second = (
        [b for b in found if (b.direction, b.kind, b.job) == ("read", "lat", n)] for n in (-1, 0, 1)
    )
    assert sum(whole[0].counts) == sum(first[0].counts) + sum(second[0].counts)
    assert list(whole[0].values_ns) == sorted(whole[0].values_ns)
    assert {b.job for b in fio_metrics.buckets(read(golden.text("read")).jobs)} == {-1}


def test_parts_are_the_jobs_and_the_disks(golden: Any) -> None:
    parts = fio_metrics.parts(read(golden.text("randrw-2-jobs")))
    assert [part["name"] for part in parts[:2]] == ["ioassay-randrw-2-jobs.0", "ioassay-randrw-2-jobs.1"]
    disks = [part for part in parts if part["name"].startswith("disk ")]
    assert disks
    assert {"read_ios", "write_ios", "util"} <= disks[0]["metrics"].keys()


def test_unified_reporting_is_a_total() -> None:
    entry = {"io_bytes": 8192, "io_kbytes": 8, "total_ios": 2, "runtime": 1000}
    document = {"fio version": "fio-3.33", "jobs": [{"jobname": "a", "mixed": entry}]}
    found = fio_metrics.metrics(read(json.dumps(document, indent=1)).jobs)
    assert found["total.bw"] == 8192
