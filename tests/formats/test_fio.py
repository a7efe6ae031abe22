"""What fio claims, in each of its formats, captured and fresh."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ioassay import formats
from ioassay.drivers.fio import fio_metrics
from ioassay.errors import InputError
from ioassay.formats import fio_claims, fio_json
from ioassay.formats.fio_job_options import size_bytes
from ioassay.records.record import Claim

GOLDEN = Path(__file__).parents[1] / "golden" / "fio" / "3.33"
WITH_RESULTS = ["by-size", "io-uring", "mmap", "null-engine", "randrw-2-jobs", "read", "trim", "two-sections", "write"]
NOTE = "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1\n"


def text(name: str) -> str:
    return (GOLDEN / name / "fio.json").read_text()


@pytest.mark.parametrize("name", WITH_RESULTS)
def test_claims_agree_with_the_drivers_metrics(name: str) -> None:
    results = fio_json.parse(text(name), name)
    metrics = fio_metrics.metrics(results.jobs)
    found = fio_claims.claims(results)
    assert found
    for claim in found:
        assert claim.operations == metrics[f"{claim.kind}.ios"]
        assert claim.bytes == metrics[f"{claim.kind}.bytes"]
        assert claim.seconds == pytest.approx(metrics[f"{claim.kind}.runtime"])
        assert claim.rate_bytes_per_s == pytest.approx(metrics[f"{claim.kind}.bw"], rel=1e-6)
        assert claim.latency_ns["mean"] == pytest.approx(metrics[f"{claim.kind}.lat.mean"])


@pytest.mark.parametrize(("before", "after"), [("", ""), (NOTE, ""), ("{ \n" + NOTE, "\nfio: terminating\n")])
def test_what_stands_around_the_json_does_no_harm(before: str, after: str) -> None:
    assert formats.read(["fio", "x"], before + text("read") + after) == formats.read(["fio"], text("read"))


def test_engines_files_and_sizes_are_those_of_the_options() -> None:
    (null,) = fio_claims.read(text("null-engine"))
    assert (null.engine, null.paths, null.direct) == ("null", [], False)
    (write,) = fio_claims.read(text("write"))
    assert (write.engine, list(write.paths), write.direct) == ("libaio", ["/golden/testfile"], True)
    assert (write.file_bytes, write.record_bytes, write.syncs, write.errors) == (2**24, 4096, 0, 0)
    (failed,) = fio_claims.read(text("no-space"))
    assert failed.errors == 1


def test_percentiles_are_told_of_one_job_only() -> None:
    assert "p99" in fio_claims.read(text("read"))[0].latency_ns
    assert all(
        set(claim.latency_ns) <= {"mean", "clat.mean", "slat.mean"} for claim in fio_claims.read(text("randrw-2-jobs"))
    )


def test_several_runs_of_a_script_claim_each_and_repeated_results_once() -> None:
    both = text("read") + text("write")
    script = ["sh", "-c", "fio a.fio --output-format=json && fio b.fio --output-format=json"]
    assert [claim.kind for claim in formats.read(script, both)] == ["read", "write"]
    assert [claim.kind for claim in formats.read(["fio", "--status-interval=1"], both)] == ["write"]


def test_results_in_a_file_are_brought_by_the_caller() -> None:
    argv = ["nice", "fio", "--output-format=json", "--output=out.json", "job.fio"]
    assert formats.outputs(argv) == ["out.json"]
    assert formats.read(argv, NOTE, files={"out.json": text("read")}) == fio_claims.read(text("read"))
    with pytest.raises(InputError, match=r"out\.json"):
        formats.read(argv, NOTE)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_terse_lines_have_whole_kib(version: int) -> None:
    read, write = formats.read([], (GOLDEN / f"terse-{version}.txt").read_text())
    assert (read.kind, write.kind, read.rate_unit_bytes, read.operations) == ("read", "write", 1024, None)
    assert read.bytes and read.seconds and read.bytes % 16384 == 0


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("", "empty"),
        (text("read")[:3000], "cut off"),
        ("Bad option <bss=4k>\n", "Bad option"),
        ('{"fio version": "fio-3.33", "jobs": []}', "no jobs"),
        ('{"fio version": "fio-3.33", "jobs": [1]}', "not as fio writes"),
        (text("read").replace('"io_bytes" : ', '"io_bytes" : -', 1), "io_bytes"),
        (text("read").replace('"runtime" : 151,', '"runtime" : NaN,', 1), "line 35 column 21"),
        (text("read").replace('"total_ios" : ', '"total_ios" : 9999999999999999', 1), "total_ios"),
        ("3;fio-3.33;job;0;0;1;2;3\n", "cut off: 8 fields"),
    ],
)
def test_bad_output_is_named(output: str, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        formats.read(["fio"], output)


@pytest.mark.parametrize(
    ("size", "found"),
    [("4k", 4096), ("4kb", 4096), ("4KiB", 4000), ("1.5m", 1536 * 1024), ("50%", None), ("0x10", None)],
)
def test_sizes_are_as_fio_reads_them(size: str, found: int | None) -> None:
    assert size_bytes(size) == found


# Fresh runs


def run(folder: Path, *options: str, form: str = "json") -> tuple[list[Claim], Any]:
    argv = ["fio", "--name=job", "--size=1m", "--ioengine=psync", f"--output-format={form}", *options]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=30)
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
    (ramp,), _ = run(tmp_path, "--rw=read", "--filename=f", "--ramp_time=100ms", "--time_based", "--runtime=200ms")
    assert ramp.unreported == ("ramp",)
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


# What options say of properties


def of_options(**options: str) -> Claim:
    """The claim of a golden output of reads or writes with these options."""
    printed = text("read")
    table = json.loads(printed[printed.index("{") :])
    own = {"name": "job", "rw": "write" if "sync" in options else "read", "ioengine": "psync", **options}
    for job in table["jobs"]:
        job["job options"] = own
        if own["rw"] == "write":
            job["read"], job["write"] = job["write"], job["read"]
    table.pop("global options", None)
    (claim,) = formats.read(["fio"], json.dumps(table))
    return claim


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        ({"filename": "data"}, True),
        ({"filename": "data", "ioengine": "io_uring", "directory": "/a"}, True),
        ({"filename": "data", "directory": "/a:/b"}, False),  # a job takes one of these folders
        ({"filename": "data", "ioengine": "rados"}, False),  # it is opened by nobody here
        ({"filename": "data", "read_iolog": "log"}, False),
        ({}, False),  # named after the job
    ],
)
def test_which_names_are_files_for_sure(options: dict[str, str], stated: bool) -> None:
    assert of_options(**options).paths_stated == stated


@pytest.mark.parametrize(
    ("sync", "each"), [("1", True), ("sync", True), ("dsync", True), ("0", False), ("none", False)]
)
def test_synchronous_writes(sync: str, each: bool) -> None:
    assert ("osync" in of_options(sync=sync).includes) == each


@pytest.mark.parametrize(("verify", "pauses"), [("crc32c", True), ("0", False), ("null", False)])
def test_its_clock_stops_while_it_verifies(verify: str, pauses: bool) -> None:
    assert ("pauses" in of_options(verify=verify).unreported) == pauses
