"""fio's numbers against each other: its formats, clients and their sum, logs, its driver's metrics, and fresh runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay import formats
from ioassay._core import Histogram, read_histogram_log
from ioassay.errors import InputError
from ioassay.packs.fio.claims import fio_claims, fio_entries, fio_json, fio_logs, fio_terse
from ioassay.packs.fio.claims.fio_logs import grouped, is_log, series_of
from ioassay.packs.fio.claims.fio_results import Direction, Job, Latency, elapsed_s, merged_latency
from ioassay.packs.fio.driver import fio_outcome
from ioassay.records.record import Claim

from ...patience import PATIENCE_S

GOLDEN = Path(__file__).parents[2] / "golden" / "fio"
LOGS = Path(__file__).parents[3] / "crates" / "fiolog" / "tests" / "golden" / "fio-3.33"
WITH_RESULTS = ["by-size", "io-uring", "mmap", "null-engine", "randrw-2-jobs", "read", "trim", "two-sections", "write"]
VERSIONS_WITH_CLIENTS = pytest.mark.parametrize("version", ["3.33", "3.42"])


def text(name: str) -> str:
    return (GOLDEN / "3.33" / name / "fio.json").read_text()


@pytest.mark.parametrize("name", WITH_RESULTS)
def test_claims_agree_with_the_drivers_metrics(name: str) -> None:
    results = fio_json.parse(text(name), name)
    metrics = fio_outcome.metrics(results.jobs)
    found = fio_claims.claims(results)
    assert found
    for claim in found:
        assert claim.operations == metrics[f"{claim.kind}.ios"]
        assert claim.bytes == metrics[f"{claim.kind}.bytes"]
        assert claim.seconds == pytest.approx(metrics[f"{claim.kind}.runtime"])
        assert claim.rate_bytes_per_s == pytest.approx(metrics[f"{claim.kind}.bw"], rel=1e-6)
        assert claim.latency_ns["mean"] == pytest.approx(metrics[f"{claim.kind}.lat.mean"])


@pytest.mark.parametrize("terse", [3, 5])
def test_terse_lines_give_the_same_kind_of_metrics(terse: int) -> None:
    jobs = fio_terse.parse((GOLDEN / "3.33" / f"terse-{terse}.txt").read_text(), "it").jobs
    found = fio_outcome.metrics(jobs[:1])
    assert found["read.bw"] == pytest.approx(found["read.iops"] * 16384, rel=0.01)
    assert found["read.clat.p50"] <= found["read.clat.p99"] <= found["read.clat.max"]
    assert "trim.bw" not in found


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ("--name=a --numjobs=2 --name=b --stonewall --numjobs=4 --group_reporting", "aab"),
        ("--group_reporting --name=a --numjobs=2 --name=b --name=c --new_group --name=d", "ac"),
        ("--name=a --group_reporting --name=b --numjobs=2", "abb"),
        ("jobs.fio", "ab"),
    ],
)
def test_the_last_of_several_terse_reports_counts(words: str, jobs: str) -> None:
    line = (GOLDEN / "3.33" / "terse-3.txt").read_text().splitlines()[0].split(";")
    lines = "".join(";".join([*line[:2], job, *line[3:]]) + "\n" for job in jobs)
    once = fio_claims.read(lines, ["fio", *words.split()])
    assert once == fio_claims.read(lines * 3, ["fio", "--status-interval=1", *words.split()])


def test_json_plus_has_the_bins_of_all_three_latencies() -> None:
    write = fio_json.parse(text("write"), "it").jobs[0].directions["write"]
    assert set(write.latencies) == {"slat", "clat", "lat"}
    for latency in write.latencies.values():
        assert sum(latency.bins.values()) == latency.count == write.ios


@given(share=st.floats(0, 0.999))
def test_results_cut_off_anywhere_are_refused_and_never_misread(share: float) -> None:
    text = json.dumps({"fio version": "fio-3.33", "jobs": [{"jobname": "a", "read": {"io_bytes": 10}}]}, indent=1)
    with pytest.raises(InputError):
        fio_json.parse(text[: int(len(text) * share)], "it")


def of_time(runtime_s: float, group: int, **options: str) -> Job:
    return Job("a", group, 0, {"read": Direction(1, 1, runtime_s), "write": Direction(1, 1, 9.0)}, options)


def test_groups_run_one_after_another_unless_they_are_new_ones() -> None:
    jobs = [of_time(1, 0), of_time(3, 0), of_time(2, 1), of_time(4, 2, new_group="1")]
    assert elapsed_s(jobs, ["read"]) == 3 + 4
    assert elapsed_s([*jobs[:3], of_time(4, 2, new_group="1", stonewall="1")], ["read"]) == 3 + 2 + 4
    assert elapsed_s(jobs[:1], ["read", "write"]) == 9 and elapsed_s([], ["read"]) == elapsed_s(jobs, ["trim"]) == 0


def test_one_job_keeps_its_latency_and_a_job_without_bins_leaves_none() -> None:
    part, binless = Latency(2, 3.0, 1.0, 2, 4, {2: 1, 4: 1}), Latency(1, 5.0, 0.0, 5, 5)
    jobs = [Job("a", 0, 0, {"read": Direction(each.count, 1, 1.0, {"lat": each})}) for each in (part, binless)]
    assert merged_latency(jobs[:1], "read", "lat") == part and merged_latency(jobs, "read", "clat") is None
    both = merged_latency(jobs, "read", "lat")
    assert both is not None and both.bins == {}


# Clients


@VERSIONS_WITH_CLIENTS
@pytest.mark.parametrize("name", ["same-job", "different-jobs", "without-bins"])
def test_fios_sum_is_that_of_its_clients(version: str, name: str) -> None:
    found = fio_json.parse((GOLDEN / version / "clients" / f"{name}.json").read_text(), name)
    assert found.clients is not None and found.clients.total is not None
    assert found.clients.total.ios == sum(job.ios for job in found.jobs)
    assert not any("port" in disk.counts for disk in found.disks)
    assert fio_entries.differences(found) == []


@VERSIONS_WITH_CLIENTS
def test_stages_make_fios_rate_too_high(version: str) -> None:
    """It divides the bytes of all stages by the time of the longest one."""
    found = fio_json.parse((GOLDEN / version / "clients" / "stages.json").read_text(), "it")
    (difference,) = fio_entries.differences(found)
    assert difference.metric == "read.bw" and difference.stated > difference.merged
    each_s = [
        elapsed_s([job for job in found.jobs if job.client == name], ("read",)) for name in ("127.0.0.2", "127.0.0.3")
    ]
    assert elapsed_s(found.jobs, ("read",)) == max(each_s) > max(job.directions["read"].runtime_s for job in found.jobs)


@pytest.mark.parametrize(
    ("where", "metric"),
    [
        (("total_ios",), "read.ios"),
        (("io_bytes",), "read.bytes"),
        (("bw_bytes",), "read.bw"),
        (("lat_ns", "mean"), "read.lat.mean"),
        (("lat_ns", "stddev"), "read.lat.stddev"),
        (("lat_ns", "min"), "read.lat.min"),
        (("clat_ns", "max"), "read.clat.max"),
        (("clat_ns", "percentile", "99.900000"), "read.clat.p99.9"),
    ],
)
def test_a_sum_that_is_another_is_found(where: tuple[str, ...], metric: str) -> None:
    text = (GOLDEN / "3.42" / "clients" / "same-job.json").read_text()
    document = json.loads(text[text.index("{\n") :])
    table = document["client_stats"][-1]["read"]
    for key in where[:-1]:
        table = table[key]
    table[where[-1]] = int(table[where[-1]] * 1.01) + 2
    found = fio_json.parse(json.dumps(document), "it")
    assert [one.metric for one in fio_entries.differences(found)] == [metric]


# Logs


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


def test_latencies_are_weighted_where_each_job_has_a_log_of_its_requests(tmp_path: Path) -> None:
    latencies = [write(tmp_path, "l_lat.1.log", (100, 1000, 0, 0)), write(tmp_path, "l_lat.2.log", (100, 4000, 0, 0))]
    weights = [write(tmp_path, "l_iops.1.log", (100, 3, 0, 0)), write(tmp_path, "l_iops.2.log", (100, 1, 0, 0))]

    def merged(*own: Path) -> list[float]:
        return list(series_of("lat", latencies, 100, own)[0].value)

    assert (merged(), merged(*weights), merged(weights[0])) == ([2500], [1750], [2500])
    idle = write(tmp_path, "l_iops.3.log", (100, 0, 0, 0))
    assert merged(idle, idle) == [1000]
    assert [series.job for series in series_of("lat", latencies, 100)] == [-1, 0, 1]


@pytest.mark.parametrize("name", ["coarse_clat_hist.1.log", "hist_clat_hist.1.log"])
def test_the_windows_of_a_real_log_hold_what_the_whole_log_does(name: str) -> None:
    whole = read_histogram_log(LOGS / name)
    found = fio_logs.latency_windows([LOGS / name])
    assert found.keys() == whole.directions.keys()
    for direction, windows in found.items():
        bins = whole.directions[direction]
        assert len(windows) == bins.lines
        assert sum(sum(window.counts) for window in windows) == bins.histogram.count
        values = [value for window in windows for value in window.values_ns]
        merged = Histogram.from_buckets(values, [count for window in windows for count in window.counts])
        for share in (0.1, 0.5, 0.99):
            assert merged.quantile(share) == pytest.approx(bins.histogram.quantile(share), rel=0.02)


def test_the_logs_of_all_jobs_of_a_folder_are_in_their_order(tmp_path: Path) -> None:
    for job in (2, 10, 1):
        shutil.copy(LOGS / "coarse_clat_hist.1.log", tmp_path / f"log_clat_hist.{job}.log")
    (tmp_path / "log_bw.1.log").write_text("100, 1, 0, 0, 0\n")
    paths = fio_logs.histogram_logs(tmp_path)
    assert [path.name for path in paths] == [f"log_clat_hist.{job}.log" for job in (1, 2, 10)]
    one, three = fio_logs.latency_windows(paths[:1]), fio_logs.latency_windows(paths)
    assert all(len(three[direction]) == 3 * len(one[direction]) for direction in one)


def test_a_folder_without_logs_has_none(tmp_path: Path) -> None:
    assert fio_logs.histogram_logs(tmp_path / "missing") == []
    assert fio_logs.latency_windows([]) == {}


def test_a_histogram_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log_clat_hist.1.log"
    path.write_text("a, b\n")
    with pytest.raises(InputError, match=r"log_clat_hist\.1\.log"):
        fio_logs.latency_windows([path])


# Fresh runs


def run(folder: Path, *options: str, form: str = "json") -> tuple[list[Claim], Any]:
    argv = ["fio", "--name=job", "--size=1m", "--ioengine=psync", f"--output-format={form}", *options]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    return formats.read(argv, done.stdout, done.stderr), done.stdout


@pytest.mark.fio
def test_the_report_for_people_says_the_same_as_json_with_fewer_digits(tmp_path: Path) -> None:
    found, _ = run(tmp_path, "--rw=randrw", "--bs=8k", "--numjobs=2", "--filename=f", form="json,normal")
    _, both = run(tmp_path, "--rw=randrw", "--bs=8k", "--filename=f", form="normal")
    for claim in formats.read([], both):
        assert (claim.record_bytes, claim.engine, claim.bytes) == (8192, "psync", 8192 * (claim.operations or 0))
        assert claim.rate_bytes_per_s and claim.latency_ns["mean"] > 0
    assert sum(claim.bytes or 0 for claim in formats.read([], both)) == 2**20
    assert sum(claim.bytes or 0 for claim in found) == 2 * 2**20  # json stands first, and is preferred


@pytest.mark.fio
def test_what_fio_leaves_out_is_said(tmp_path: Path) -> None:
    (write,), _ = run(tmp_path, "--rw=write", "--fsync=16", "--end_fsync=1", "--filename=f")
    assert write.syncs in (15, 16)  # none after the last write, as of 3.33
    assert (write.operations, write.includes, write.unreported) == (256, ("fsync",), ("end-fsync",))
    rare = [run(tmp_path, "--rw=write", option, "--filename=f")[0] for option in ("--fsync=256", "--fdatasync=300")]
    assert [(one.syncs, one.includes) for (one,) in rare] == [(0, ()), (0, ())]
    jobs = ("--rw=write", "--fsync=200", "--numjobs=2", "--group_reporting")
    assert [(one.operations, one.includes) for one in run(tmp_path, *jobs)[0]] == [(512, ("fsync",))]
    assert [one.includes for one in run(tmp_path, *jobs, "--fsync=300")[0]] == [()]  # of each job
    read, write = run(tmp_path, "--rw=write", "--verify=crc32c", "--filename=f")[0]
    assert (read.operations, write.operations) == (256, 256)  # fio counts its own verification as reads


@pytest.mark.fio
def test_shapes_of_jobs(tmp_path: Path) -> None:
    (mixed,), _ = run(tmp_path, "--rw=randrw", "--unified_rw_reporting=1", "--filename=f")
    assert (mixed.kind, mixed.operations) == ("mixed", 256)
    (grouped,), _ = run(tmp_path, "--rw=write", "--numjobs=2", "--group_reporting", "--readwrite=write", "--loops=2")
    assert (grouped.operations, list(grouped.paths)) == (1024, ["job.0.0", "job.1.0"])
    assert all((tmp_path / path).exists() for path in grouped.paths)
    (limited,), _ = run(tmp_path, "--rw=write", "--io_size=256k", "--filename=f")
    assert (limited.bytes, limited.file_bytes) == (2**18, 2**20)


@pytest.mark.fio
@pytest.mark.parametrize(
    ("engine", "claimed"), [("null", "several engines"), ("mmap", "several engines"), ("sync", "")]
)
def test_jobs_that_fio_sums_up_have_no_engine_in_common(tmp_path: Path, engine: str, claimed: str) -> None:
    """Only one name is in the results, with the sums of both."""
    argv = ["fio", *("--name=a", f"--ioengine={engine}", "--rw=read", "--filename=f", "--size=64k"),
            *("--name=b", "--ioengine=psync", "--rw=read", "--filename=f", "--size=64k", "--group_reporting"),
            "--output-format=json"]  # fmt: skip
    (tmp_path / "f").write_bytes(bytes(65536))
    text = subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    (claim,) = fio_claims.read(text, argv)
    assert (claim.operations, claim.engine) == (32, claimed)


@pytest.mark.parametrize("option", ["gtod_reduce", "disable_clat", ""])
def test_latencies_of_a_group_are_not_claimed_where_some_of_its_jobs_have_none(option: str) -> None:
    text = (GOLDEN / "3.33" / "terse-3.txt").read_text().splitlines()[0]
    job = text.split(";")[2]
    argv = ["fio", f"--name={job}", "--group_reporting", "--name=other", *([f"--{option}=1"] if option else [])]
    assert all(bool(claim.latency_ns) is (not option) for claim in fio_claims.read(text, argv))


@pytest.mark.parametrize(("option", "counted", "is_odd"), [("runtime", False, True), ("ramp_time", False, False),
                                                           ("ramp_time", True, True)])  # fmt: skip
def test_latencies_of_a_ramp_may_be_more_than_the_requests(option: str, counted: bool, is_odd: bool) -> None:
    """Two were counted, and the percentiles are those of four (posixaio, fio 3.33)."""
    shares = {20.0: 57e6, 30.0: 363e6, 60.0: 376e6, 70.0: 376e6, 80.0: 2198e6}
    clat = Latency(2, 748.66e6, 977.24e6, 57e6, 2197e6, {}, shares, 1e6, 1e4, counted, 1e6)
    job = Job("a", 0, 0, {"read": Direction(2, 16384, 2.712, {"clat": clat})}, {option: "1"})
    assert bool(job.all_misfits("read", syncs=False)) is is_odd


def test_several_processes_have_that_many_latencies_at_once() -> None:
    latency = Latency(1000, 3e6, 0.0, 3e6, 3e6)
    job = Job("a", 0, 0, {"read": Direction(1000, 1 << 20, 1.0, {"clat": latency})}, runtime_s=1.0)
    for processes, said in ((4, []), (2, ["clat mean"])):
        known = job.with_options({"ioengine": "psync", "numjobs": str(processes)})
        assert [misfit.name for misfit in known.all_misfits("read", syncs=False)] == said
