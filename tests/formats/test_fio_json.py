"""fio's JSON of any version as numbers in base units."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay.errors import InputError
from ioassay.formats import fio_json
from ioassay.formats.fio_results import (
    CpuUse,
    Direction,
    Job,
    Latency,
    Results,
    SteadyState,
    elapsed_s,
    merged_latency,
)

FIO = Path(__file__).parents[1] / "golden" / "fio"


@pytest.fixture(params=sorted(path.name for path in FIO.iterdir() if (path / "read").is_dir()))
def golden(request: pytest.FixtureRequest) -> Path:
    """The captured outputs of each version of fio in turn."""
    return FIO / str(request.param)


def text(folder: Path, name: str) -> str:
    return (folder / name / "fio.json").read_text()


def read(text: str) -> Results:
    return fio_json.parse(text, "fio's output")


def test_numbers_are_in_bytes_seconds_and_nanoseconds(golden: Path) -> None:
    raw = json.loads(text(golden, "write"))["jobs"][0]
    (job,) = read(text(golden, "write")).jobs
    write = job.directions["write"]
    assert (write.ios, write.bytes) == (raw["write"]["total_ios"], 4096 * raw["write"]["total_ios"])
    assert write.runtime_s == raw["write"]["runtime"] / 1e3
    assert write.latencies["clat"].mean_ns == raw["write"]["clat_ns"]["mean"]
    assert job.options["ioengine"] == "libaio"
    assert job.cpu.sys_percent == raw["sys_cpu"]


def test_json_plus_has_the_bins_of_all_three_latencies(golden: Path) -> None:
    (job,) = read(text(golden, "write")).jobs
    write = job.directions["write"]
    assert set(write.latencies) == {"slat", "clat", "lat"}
    for latency in write.latencies.values():
        assert sum(latency.bins.values()) == latency.count == write.ios


@pytest.mark.parametrize("before", ["", "fio: a message\nnote: {odd}\n", "{not json\n"])
@pytest.mark.parametrize("after", ["", "\nfio: terminating on signal 15\n"])
def test_text_around_the_json_is_kept_apart(golden: Path, before: str, after: str) -> None:
    found = read(before + text(golden, "read") + after)
    assert found.jobs == read(text(golden, "read")).jobs
    assert found.messages.split() == (before + after).split()


def test_the_last_of_several_results_counts(golden: Path) -> None:
    both = text(golden, "read") + text(golden, "write")
    assert read(both).jobs == read(text(golden, "write")).jobs


def test_duplicate_keys_are_read_like_fio_means_them() -> None:
    text = '{\n"fio version": "fio-2.1", "jobs": [{"jobname": "a", "jobname": "a", "read": {"io_bytes": 1}}]}'
    assert read(text).jobs[0].name == "a"


def test_every_filename_that_fio_was_given_is_kept() -> None:
    options = '"filename" : "a", "bs" : "4k", "filename" : "b:c"'
    text = f'{{"fio version": "fio-3.33", "jobs": [{{"jobname": "j", "job options": {{{options}}}}}]}}'
    assert read(text).jobs[0].options == {"filename": "a:b:c", "bs": "4k"}
    twice = text.replace("}]", '}, {"jobname": "k", "job options": {"filename": "d"}}]')
    assert [job.options["filename"] for job in read(twice).jobs] == ["a:b:c", "d"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is empty"), ("fio: no\n", "has no JSON; it begins with 'fio: no'"), ('{\n "fio version" : "fio', "cut off")],
)
def test_text_without_whole_results_is_refused_with_what_it_is(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


@given(share=st.floats(0, 0.999))
def test_results_cut_off_anywhere_are_refused_and_never_misread(share: float) -> None:
    text = json.dumps({"fio version": "fio-3.33", "jobs": [{"jobname": "a", "read": {"io_bytes": 10}}]}, indent=1)
    with pytest.raises(InputError):
        read(text[: int(len(text) * share)])


@pytest.mark.parametrize("jobs", ['"none"', "[1]", '[{"read": 5}]', '[{"read": {"total_ios": "many"}}]'])
def test_json_that_fio_would_not_write_is_refused(jobs: str) -> None:
    with pytest.raises(InputError, match="not as fio writes it"):
        read(f'{{\n"fio version": "fio-3.33", "jobs": {jobs}}}')


def test_results_of_a_client_are_its_jobs_without_their_sum() -> None:
    entry = {"jobname": "a", "read": {"io_bytes": 10, "io_kbytes": 0, "total_ios": 1}}
    document = {"fio version": "fio-3.33", "client_stats": [entry, {**entry, "jobname": "All clients"}]}
    assert [job.name for job in read(json.dumps(document, indent=1)).jobs] == ["a"]


def test_results_begin_in_the_middle_of_a_line_where_messages_were_lost(golden: Path) -> None:
    noisy = "fio: io_u error on file /drive: Operation not" + text(golden, "write").lstrip()
    assert read(noisy).jobs == read(text(golden, "write")).jobs


def test_a_pair_that_fio_would_not_write_is_named(golden: Path) -> None:
    broken = text(golden, "read").replace('"bins" : {', '"bins" : { "soon": 1,', 1)
    with pytest.raises(InputError, match=r"clat_ns\.bins\.soon: wanted a whole number; found 'soon'"):
        read(broken)


FIO_2 = {
    "fio version": "fio-2.1",
    "global options": {"bs": "4k"},
    "jobs": [
        {
            "jobname": "a", "groupid": 2, "error": 5, "usr_cpu": 1.5, "sys_cpu": 2.5, "ctx": 7, "majf": 8, "minf": 9,
            "job options": {"rw": "rw"},
            "read": {
                "io_bytes": 10, "iops": 100.0, "runtime": 2000,
                "slat": {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0},
                "clat": {"min": 1, "max": 9, "mean": 3.5, "stddev": 1.5, "percentile": {"0.00": 0, "50.00": 3}},
                "lat": {"min": 2, "max": 10, "mean": 4.5, "stddev": 1.25, "bins": {"4": 6, "5": 0, "6": 2}},
            },
            "write": {"io_bytes": 4, "iops": 1.0, "runtime": 3000},
        }
    ],
}  # fmt: skip


def test_fio_2_counts_kib_and_microseconds_and_prints_no_requests() -> None:
    (job,) = read("\n" + json.dumps(FIO_2)).jobs
    assert (job.name, job.group, job.error, job.errors, job.syncs, job.steady) == ("a", 2, 5, 1, None, None)
    assert job.options == {"bs": "4k", "rw": "rw"} and job.runtime_s == 3.0 and job.cpu == CpuUse(1.5, 2.5, 7, 8, 9)
    done = job.directions["read"]
    assert (done.ios, done.ios_stated, done.bytes, done.runtime_s) == (200, False, 10240, 2.0)
    assert done.latencies == {
        "clat": Latency(200, 3500, 1500, 1000, 9000, {}, {50.0: 3000}),
        "lat": Latency(8, 4500, 1250, 2000, 10000, {4000: 6, 6000: 2}),
    }


def test_fio_3_counts_bytes_and_nanoseconds() -> None:
    times = {"min": 1, "max": 9, "mean": 3.5, "stddev": 1.5}
    job = {
        "jobname": "a", "total_err": 3, "error": 5, "job_runtime": 2500, "sync": {"total_ios": 4},
        "steadystate": {"ss": "iops:1%", "attained": 0},
        "read": {"io_bytes": 10, "io_kbytes": 0, "total_ios": 3, "runtime": 2000, "clat_ns": {**times, "N": 7}},
        "write": {"io_bytes": 11, "bw_bytes": 5, "total_ios": 0, "runtime": 1000, "clat_ns": {**times, "N": 0}},
    }  # fmt: skip
    (found,) = read("\n" + json.dumps({"fio version": "fio-3.36", "jobs": [job]})).jobs
    assert (found.errors, found.syncs, found.runtime_s, found.steady) == (3, 4, 2.5, SteadyState("iops:1%", False))
    done, none = found.directions["read"], found.directions["write"]
    assert (done.bytes, done.ios, done.ios_stated, done.rate_bytes_per_s) == (10, 3, True, None)
    assert done.latencies == {"clat": Latency(7, 3.5, 1.5, 1, 9)}
    assert (none.bytes, none.rate_bytes_per_s, none.latencies) == (11, 5, {})


def of_time(runtime_s: float, group: int, **options: str) -> Job:
    return Job("a", group, 0, {"read": Direction(1, 1, runtime_s), "write": Direction(1, 1, 9.0)}, options)


def test_groups_run_one_after_another_unless_they_are_new_ones() -> None:
    jobs = [of_time(1, 0), of_time(3, 0), of_time(2, 1), of_time(4, 2, new_group="1")]
    assert elapsed_s(jobs, ["read"]) == 3 + 4
    assert elapsed_s([*jobs[:3], of_time(4, 2, new_group="1", stonewall="1")], ["read"]) == 3 + 2 + 4
    assert elapsed_s(jobs[:1], ["read", "write"]) == 9 and elapsed_s([], ["read"]) == elapsed_s(jobs, ["trim"]) == 0


def test_latencies_of_jobs_merge_as_if_they_were_of_one() -> None:
    values = [np.array([1.0, 2.0, 4.0, 9.0]), np.array([5.0]), np.array([2.0, 2.5])]
    parts = [
        Latency(
            v.size, v.mean(), v.std(ddof=1) if v.size > 1 else 0.0, v.min(), v.max(), {3: v.size, v.size: 1}, {50: 1}
        )
        for v in values
    ]
    jobs = [
        Job("a", 0, 0, {"read": Direction(v.size, 1, 1.0, {"lat": part})})
        for v, part in zip(values, parts, strict=True)
    ]
    whole, found = np.concatenate(values), merged_latency(jobs, "read", "lat")
    assert found is not None and found.percentiles_ns == {} and found.bins == {3: 7, 4: 1, 1: 1, 2: 1}
    assert (found.count, found.mean_ns, found.stddev_ns, found.min_ns, found.max_ns) == pytest.approx(
        (7, whole.mean(), whole.std(ddof=1), 1, 9)
    )
    assert merged_latency(jobs[:1], "read", "lat") == parts[0] and merged_latency(jobs, "read", "clat") is None
    binless = Job("b", 0, 0, {"read": Direction(1, 1, 1.0, {"lat": Latency(1, 5.0, 0.0, 5, 5)})})
    both = merged_latency([jobs[1], binless], "read", "lat")
    assert both is not None and (both.bins, both.stddev_ns) == ({}, 0.0)
