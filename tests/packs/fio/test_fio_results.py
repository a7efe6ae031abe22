"""What fio left: a verdict, and its jobs' results merged into metrics, distributions, series, parts and claims."""

from __future__ import annotations

import json
import math
import shutil
import statistics
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioassay.metrics import metric
from ioassay.packs.fio.claims import fio_claims, fio_json
from ioassay.packs.fio.claims.fio_results import CpuUse, Direction, Job, Latency, Results, merged_latency
from ioassay.packs.fio.driver import Fio, fio_outcome, job
from ioassay.packs.fio.driver.fio_outcome import judge, without_impossible
from ioassay.packs.fio.fio_options import Section
from ioassay.records.record import Series
from ioassay.roles import Outcome, Rates

from ...corpora import cases
from ...drivers.trials import GOLDEN, captured, ended, trial, versions

HISTOGRAMS = Path(__file__).parents[3] / "crates" / "fiolog" / "tests" / "golden" / "fio-3.33"
TIMED = {"rw": "randrw", "runtime": "10", "time_based": "1"}


@pytest.fixture(params=versions("fio"))
def version(request: pytest.FixtureRequest) -> str:
    """Each version of fio whose outputs were captured."""
    return str(request.param)


def output(version: str, name: str) -> str:
    return (GOLDEN / "fio" / version / name / "fio.json").read_text()


def results(version: str, name: str) -> Results:
    return fio_json.parse(output(version, name), name)


# The verdict


def job_of(row: dict[str, Any]) -> Job:
    """A job of a row: each direction that the row names, with requests of 4096 bytes unless it gives their bytes."""
    runtime_s = row.get("runtime_s", 10.0)
    directions = {
        name: Direction(row[counted], row.get(moved, row[counted] * 4096), runtime_s)
        for name, counted, moved in (("read", "reads", "read_bytes"), ("write", "writes", "written_bytes"))
        if counted in row
    }
    ran_s = row.get("job_runtime_s", runtime_s)
    return Job("job", 0, row.get("error", 0), directions, row.get("options", {}), ran_s)


@cases("drivers", "fio_verdicts")
def test_a_run_is_a_measurement_only_when_its_output_shows_one(case: dict[str, Any]) -> None:
    found = Results("fio-3.33", [job_of(row) for row in case["jobs"]]) if "jobs" in case else None
    section = Section("job", case.get("section", TIMED))
    how = Outcome(case.get("exit_code", 0), None, case.get("timed_out", False), 0.0, 10.0, Path("out"), Path("err"))
    verdict = judge(found, [section], how, case.get("messages", ""), "fio.json: is empty")
    assert verdict.reason == case.get("reason", verdict.reason)
    assert all(words in verdict.reason for words in case.get("says", ())), verdict.reason
    assert "lacks" not in case or case["lacks"] not in verdict.reason
    codes = [warning.code for warning in verdict.warnings]
    assert codes == case.get("warns", codes)
    assert len({warning.text for warning in verdict.warnings}) == len(codes)
    assert verdict.cannot == case.get("cannot", False)


def test_a_job_without_io_of_its_own_may_be_idle() -> None:
    burner = Section("burner", {"ioengine": "cpuio"})
    idle = Job("burner", 0, 0, {"read": Direction(0, 0, 0.0)})
    how = Outcome(0, None, False, 0.0, 10.0, Path("out"), Path("err"))
    busy = job_of({"reads": 100, "writes": 100})
    assert judge(Results("fio-3.33", [busy, idle]), [Section("job", TIMED), burner], how, "").reason == ""


def test_a_refusal_is_seen_though_fio_exits_with_0_and_reports_no_error(version: str) -> None:
    text = output(version, "mounted")
    assert json.loads(text[text.index("{") :])["jobs"][0]["error"] == 0
    case = json.loads((GOLDEN / "fio" / version / "mounted" / "case.json").read_text())
    assert case["outcome"]["exit_code"] == 0
    assert captured("fio", version, "mounted").status == "failed"


def test_results_that_are_cut_off_or_missing_fail_with_where(version: str, tmp_path: Path) -> None:
    wanted, how = trial("fio", {"rw": "read"}), ended(tmp_path)
    silent = replace(how, stdout=tmp_path / "none", stderr=tmp_path / "none")
    assert "fio wrote no results" in Fio().parse(wanted, silent, tmp_path).reason
    assert Fio().parse(wanted, None, tmp_path).status == "failed"
    (tmp_path / "fio.json").write_text(output(version, "read")[:1000])
    assert "JSON is cut off after" in Fio().parse(wanted, how, tmp_path).reason


@settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_results_never_raise(version: str, tmp_path: Path, data: st.DataObject) -> None:
    text = output(version, "two-sections")
    start = data.draw(st.integers(0, len(text) - 1))
    end = start + data.draw(st.integers(0, 40))
    text = text[:start] + data.draw(st.text(alphabet='0123456789.-{}[]",:eE \n', max_size=8)) + text[end:]
    (tmp_path / "fio.json").write_text(text)
    wanted = trial("fio", {"job": "[a]\n", "job_path": "/x/my.fio"})
    assert Fio().parse(wanted, ended(tmp_path), tmp_path).status in ("ok", "failed")


@pytest.mark.parametrize("means", [{"clat": 4.2e13, "lat": 13_000}, {"clat": 4.2e13}, {"clat": 12_000, "lat": 13_000}])
def test_hours_of_completion_in_a_request_of_microseconds_are_left_out(means: dict[str, float]) -> None:
    parts = {kind: Latency(100, mean_ns, 1.0, mean_ns / 2, mean_ns * 2) for kind, mean_ns in means.items()}
    found = Results("fio-3.33", [Job("job", 0, 0, {"read": Direction(100, 409600, 1.0, parts)})])
    kept, warnings = without_impossible(found)
    if means.get("lat", math.inf) < means["clat"]:
        assert set(kept.jobs[0].directions["read"].latencies) == {"lat"}
        (warning,) = warnings
        assert warning.code == "impossible-latency" and "clat is longer" in warning.text
    else:
        assert (kept, warnings) == (found, [])


@pytest.mark.parametrize("name", ["read", "write", "randrw-2-jobs", "null-engine"])
def test_a_trial_has_the_claims_of_its_results(version: str, name: str) -> None:
    found = captured("fio", version, name).claims
    assert found == fio_claims.claims(results(version, name))
    assert {claim.source for claim in found} == {"fio"}


# Metrics


def test_what_was_not_measured_is_left_out(version: str) -> None:
    (only,) = results(version, "read").jobs
    assert set(only.directions["read"].latencies) == {"clat", "lat"}  # a synchronous engine has no submission
    assert only.directions["write"].latencies == {}
    assert not [name for name in fio_outcome.metrics([only]) if name.startswith(("write", "trim", "read.slat"))]


def test_fio_2_counts_kib_and_microseconds() -> None:
    """Constructed after the documented format of fio 2 (HOWTO, "JSON output"); not captured."""
    document = json.loads((Path(__file__).parents[2] / "corpus" / "drivers" / "fio_2.json").read_text())
    found = fio_outcome.metrics(fio_json.parse(json.dumps(document, indent=2), "fio's output").jobs)
    assert (found["read.bytes"], found["read.bw"], found["read.iops"]) == (4 * 2**20, 2 * 2**20, 512)
    assert (found["read.slat.mean"], found["read.clat.p99"], found["read.lat.max"]) == (2000, 80000, 99000)


def test_unified_reporting_is_a_total() -> None:
    entry = {"io_bytes": 8192, "io_kbytes": 8, "total_ios": 2, "runtime": 1000}
    document = {"fio version": "fio-3.33", "jobs": [{"jobname": "a", "mixed": entry}]}
    found = fio_outcome.metrics(fio_json.parse(json.dumps(document, indent=1), "fio's output").jobs)
    assert found["total.bw"] == 8192


def test_a_mixed_load_has_its_directions_and_their_total(version: str) -> None:
    jobs = results(version, "randrw-2-jobs").jobs
    found = fio_outcome.metrics(jobs)
    assert found["total.ios"] == found["read.ios"] + found["write.ios"] == sum(job.ios for job in jobs)
    assert found["read.bw"] == pytest.approx(found["read.iops"] * 16384)
    assert found["total.bw"] == pytest.approx(found["read.bw"] + found["write.bw"], rel=0.01)
    assert 0 < found["read.clat.p50"] <= found["read.clat.p99"] <= found["read.clat.p99.9"] <= found["read.clat.max"]
    assert metric("first job/read.bw").unit == metric("read.bw").unit
    assert metric("first job/read.bw").label == "first job: Read bandwidth"


def test_percentiles_agree_with_those_of_fio_itself(version: str) -> None:
    """fio's are the value of a bin; ours lie between neighbouring requests' bins."""
    for case, direction in (("write", "write"), ("io-uring", "read"), ("null-engine", "read")):
        (only,) = results(version, case).jobs
        latency = only.directions[direction].latencies["clat"]
        ours = fio_outcome.percentiles_ns(latency)
        for share in (50.0, 90.0, 95.0, 99.0):
            assert ours[share] == pytest.approx(latency.percentiles_ns[share], rel=0.02)


samples = st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), min_size=1, max_size=4)


def latency_of(values: list[int]) -> Latency:
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
    merged = merge([latency_of(values) for values in jobs])
    wanted = latency_of([value for values in jobs for value in values])
    assert merged.count == wanted.count
    assert merged.bins == wanted.bins
    assert (merged.min_ns, merged.max_ns) == (wanted.min_ns, wanted.max_ns)
    assert math.isclose(merged.mean_ns, wanted.mean_ns, rel_tol=1e-9)
    assert math.isclose(merged.stddev_ns, wanted.stddev_ns, rel_tol=1e-6, abs_tol=1e-3)


def test_percentiles_of_several_jobs_without_bins_are_not_made_up() -> None:
    own = Latency(10, 5.0, 1.0, 1.0, 9.0, {}, {99.0: 8.0})
    assert fio_outcome.percentiles_ns(merge([own])) == {99.0: 8.0}
    assert fio_outcome.percentiles_ns(merge([own, own])) == {}


def reader(name: str, group: int, runtime_s: float, blocks: int, **options: str) -> Job:
    done = Direction(blocks, 4096 * blocks, runtime_s)
    return Job(name, group, 0, {"read": done}, options, runtime_s, CpuUse(50.0, 10.0))


def test_jobs_add_up_over_the_longest_and_groups_over_all_their_times() -> None:
    first = reader("a", 0, 1.0, 100)
    together = fio_outcome.metrics([first, reader("a", 0, 2.0, 300)])
    assert together["read.bw"] == 4096 * 400 / 2
    assert together["cpu.usr"] == pytest.approx(75)  # 50 % for 1 s and 50 % for 2 s, in 2 s
    after = fio_outcome.metrics([first, reader("b", 1, 2.0, 300, stonewall="")])
    assert (after["read.bw"], after["read.runtime"]) == (4096 * 400 / 3, 3.0)
    apart = fio_outcome.metrics([reader("a", 0, 2.0, 100), reader("b", 1, 2.0, 300, new_group="1")])
    assert apart["read.runtime"] == 2.0


def test_sections_of_a_job_file_have_metrics_of_their_own(version: str) -> None:
    jobs = [reader("a", 0, 1.0, 100), reader("b", 1, 2.0, 300)]
    made = fio_outcome.by_section(jobs)
    assert (made["a/read.iops"], made["b/read.iops"]) == (100, 150)
    assert fio_outcome.by_section(jobs[:1]) == {}
    found = captured("fio", version, "two-sections").metrics
    assert found["read.runtime"] == pytest.approx(0.3, rel=0.1)
    assert found["sequential/read.bytes"] + found["random/read.bytes"] == found["read.bytes"]


def test_distributions_are_kept_merged_and_of_each_job(version: str) -> None:
    found = fio_outcome.buckets(results(version, "randrw-2-jobs").jobs)
    whole, first, second = (
        [b for b in found if (b.direction, b.kind, b.job) == ("read", "lat", n)] for n in (-1, 0, 1)
    )
    assert sum(whole[0].counts) == sum(first[0].counts) + sum(second[0].counts)
    assert list(whole[0].values_ns) == sorted(whole[0].values_ns)
    assert {b.job for b in fio_outcome.buckets(results(version, "read").jobs)} == {-1}


def test_parts_are_the_jobs_and_the_disks(version: str) -> None:
    parts = fio_outcome.parts(results(version, "randrw-2-jobs"))
    assert [part["name"] for part in parts[:2]] == ["ioassay-randrw-2-jobs.0", "ioassay-randrw-2-jobs.1"]
    disks = [part for part in parts if part["name"].startswith("disk ")]
    assert disks
    assert {"read_ios", "write_ios", "util"} <= disks[0]["metrics"].keys()


DONE = {"total.ios": 10_000.0, "total.runtime": 2.0}


@pytest.mark.parametrize(
    ("shares", "found", "used_s", "per_io_ns", "uncounted"),
    [
        ([(10, 40)], DONE, (0.35, 0.84), 100_000, 0.0),  # 1 s, 0.16 s to start, 0.03 s that vary
        ([(60, 10)], DONE, (1.36, 2.0), 320_000, 90),  # the thread of SQPOLL
        ([(10, 40), (10, 40)], DONE, (0.4, 1.76), 200_000, 0.0),
        ([(10, 40)], {}, (1, 1), None, None),
        ([(10, 40)], {"total.ios": 0.0, "total.runtime": 2.0}, (1, 1), None, None),
        ([(10, 40)], DONE, None, None, None),  # results made elsewhere
    ],
)
def test_processor_time_that_fio_does_not_count_belongs_to_the_requests(
    shares: Any, found: dict[str, float], used_s: Any, per_io_ns: float | None, uncounted: float | None
) -> None:
    """The kernel's threads for io_uring."""
    jobs = [Job("j", 0, 0, {}, runtime_s=2.0, cpu=CpuUse(*share)) for share in shares]
    used: Any = used_s and SimpleNamespace(ru_utime=used_s[0], ru_stime=used_s[1])
    wanted = {} if per_io_ns is None else {"cpu.per_io": per_io_ns, "cpu.uncounted": uncounted}
    assert fio_outcome.cpu_metrics(jobs, found, used) == pytest.approx(wanted)


@cases("drivers", "fio_status_lines")
def test_the_last_complete_status_gives_the_rates_of_all_directions(case: dict[str, Any]) -> None:
    expected = Rates(case["iops"], case["bytes_per_s"]) if "iops" in case else None
    assert fio_outcome.rates("\r".join(case["parts"])) == expected


# Time logs, as series in base units

ALL = {"logs": ["bw", "iops", "lat", "clat", "slat"], "log_interval": "100ms"}


def write(folder: Path, kind: str, job: int, *lines: tuple[int, int, int]) -> None:
    """A log with (time in ms, value, direction: 0 read, 1 write) in each line."""
    text = "".join(f"{time_ms}, {value}, {direction}, 0, 0\n" for time_ms, value, direction in lines)
    (folder / f"log_{kind}.{job}.log").write_text(text)


def read(folder: Path, *kinds: str) -> dict[tuple[str, int], Series]:
    found, warnings = job.log_series({"logs": list(kinds), "log_interval": "100ms"}, folder)
    assert warnings == []
    return {(series.metric, series.job): series for series in found}


def test_logs_of_a_real_run_become_series_that_agree_with_its_results(version: str) -> None:
    found = captured("fio", version, "randrw-2-jobs")
    assert not found.warnings
    quantities = ("bw", "iops", "lat.mean", "clat.mean", "slat.mean")
    names = {f"{direction}.{quantity}" for direction in ("read", "write") for quantity in quantities}
    assert {series.metric for series in found.series} == names
    assert {series.job for series in found.series} == {-1, 0, 1}
    merged = {series.metric: series for series in found.series if series.job == -1}
    for name in ("read.bw", "write.bw", "read.iops", "read.lat.mean", "write.clat.mean", "read.slat.mean"):
        values = merged[name].value
        assert len(values) >= 8  # of ten intervals: fio leaves out the last
        assert sum(values) / len(values) == pytest.approx(found.metrics[name], rel=0.15)
        assert all(0 < time_s < 1.1 for time_s in merged[name].time_s)


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


def test_jobs_past_the_ninth_keep_their_order_and_a_single_one_has_no_series(tmp_path: Path) -> None:
    for number in range(1, 12):
        write(tmp_path, "bw", number, (100, number, 0))
    assert list(read(tmp_path, "bw")["read.bw", 10].value) == [11 * 1024]
    write(tmp_path, "iops", 1, (100, 5, 0), (100, 7, 1))
    assert {job for _, job in read(tmp_path, "iops")} == {-1}


def test_histograms_over_time_are_asked_for_and_leave_no_series(tmp_path: Path) -> None:
    section = Section("job", {"rw": "randread"})
    options = job.log_options({"logs": ["hist"], "log_interval": "250ms"}, section, "raw/")
    wanted = {"write_hist_log": "raw/log", "log_hist_msec": "250", "log_hist_coarseness": "2"}
    assert {name: options[name] for name in wanted} == wanted
    assert "write_hist_log" not in job.log_options({"logs": ["bw"]}, section)
    shutil.copy(HISTOGRAMS / "coarse_clat_hist.1.log", tmp_path / "log_clat_hist.1.log")
    assert job.log_series({"logs": ["hist"]}, tmp_path) == ([], [])


@pytest.mark.parametrize("text", [None, "107, 0, 4096, 1, 2\n", "gibberish\n"])
def test_histograms_that_are_missing_or_broken_are_a_warning(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "log_clat_hist.1.log").write_text(text)
    _, (warning,) = job.log_series({"logs": ["hist"]}, tmp_path)
    assert warning.code == "log-unreadable" and "log_clat_hist.1.log" in warning.text


def test_a_log_that_is_missing_or_broken_is_a_warning_and_the_others_are_read(version: str, tmp_path: Path) -> None:
    for path in (GOLDEN / "fio" / version / "randrw-2-jobs").glob("log_*.log"):
        if not path.name.startswith("log_iops."):
            shutil.copy(path, tmp_path)
    (tmp_path / "log_lat.1.log").write_text("not a log\n")
    found, warnings = job.log_series(ALL, tmp_path)
    assert [warning.code for warning in warnings] == ["log-unreadable", "log-unreadable"]
    assert "log_iops.1.log is not there" in warnings[0].text
    assert "log_lat.1.log" in warnings[1].text
    assert {series.metric.split(".")[1] for series in found} == {"bw", "clat", "slat"}
