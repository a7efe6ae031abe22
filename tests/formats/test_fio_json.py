"""fio's JSON of any version as numbers in base units."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay.errors import InputError
from ioassay.formats import fio_json
from ioassay.formats.fio_results import Results

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
