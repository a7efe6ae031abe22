"""The study `access-paths`: every path is in it, and it runs from the command line to its findings at a tiny scale."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ioassay.study import catalog, overrides
from ioassay.study.model import Study

from .cli.command_server import CommandServer

PATHS = [
    "psync",
    "libaio",
    "io_uring",
    "io_uring fixed",
    "io_uring SQPOLL",
    "io_uring polled",
    "io_uring passthrough",
    "nbd",
    "spdk",
]
BOTH = ["access-paths-jobs", "access-paths-depth"]
QUICK_TRIALS = 220


def cases(study: Study) -> list[str]:
    return [case["name"] for case in study.case]


def test_six_jobs_and_the_depth_go_through_each_path() -> None:
    jobs, depth = catalog.load("access-paths").studies
    assert [jobs.name, depth.name] == BOTH
    assert cases(jobs) == PATHS
    assert cases(depth) == [name for name in PATHS if name not in ("psync", "io_uring polled")]
    assert jobs.factors == {"rw": ["randread", "randwrite", "randrw"], "numjobs": [1, 4]}
    assert depth.factors == {"iodepth": [1, 2, 4, 8, 16, 32, 64, 128]}
    for study in (jobs, depth):
        assert study.params["runtime"] == "10s" and study.params["direct"] == 1 and study.params["bs"] == "4KiB"
        assert study.target.kind == "virtual"


def test_no_path_makes_the_drive_poll_another() -> None:
    for study in catalog.load("access-paths").studies:
        for case in study.case:
            assert len(case.get("target.ways", ["by its form"])) == 1
            assert ("target.ways" in case) != (case.get("target.form") in ("kernel", "nvme-character"))


def test_the_quick_scale_has_every_path_and_both_ends_of_the_depth() -> None:
    jobs, depth = catalog.load("access-paths", lambda table: overrides.scaled(table, "quick")).studies
    assert cases(jobs) == PATHS and jobs.factors["numjobs"] == [1, 4] and len(jobs.factors["rw"]) == 3
    assert (depth.factors["iodepth"][0], depth.factors["iodepth"][-1]) == (1, 128)
    trials = sum(
        len(study.case) * len(next(iter(study.factors.values()))) * (2 if study is jobs else 1) * study.max_repetitions
        for study in (jobs, depth)
    )
    assert trials <= QUICK_TRIALS


def of(found: dict[str, Any], question: str) -> list[dict[str, Any]]:
    return [finding for finding in found["findings"] if finding["question"] == question]


@pytest.mark.root
@pytest.mark.fio
@pytest.mark.slow
def test_all_paths_are_compared_and_their_claims_set_against_the_drive(tmp_path: Path) -> None:
    tiny = ["--repetitions", "2", "--set", "runtime=100ms", "--set", "target.size=16MiB"]
    few = ["--factor", "rw=randrw", "--factor", "numjobs=1", "--factor", "iodepth=1,8"]
    without_spdk = {**os.environ, "IOASSAY_SPDK_FIO": str(tmp_path)}
    with closing(CommandServer()) as server:
        words = ["run", "access-paths", "--scale", "quick", *tiny, *few, "--json"]
        code, said, errors = server.run(words, tmp_path, without_spdk, 600)
    assert code == 0, errors
    found = json.loads(said)
    assert found["trials"]["failed"] == 0
    skips = json.dumps(found["skips"])
    assert "IOASSAY_SPDK_FIO" in skips and "EOPNOTSUPP" in skips
    for finding in of(found, "drive"):
        assert finding["statistics"]["apart"] == 0, finding["statement"]
        told = {row["condition"].split(",")[0].removeprefix("case=") for row in finding["statistics"]["rows"]}
        assert any("nbd" in condition for condition in told)
        assert all(row["drive_bytes"] == row["claimed_bytes"] for row in finding["statistics"]["rows"])
    assert len(of(found, "drive")) == 2
    for finding in of(found, "verdict"):
        assert finding["statistics"]["contradicted"] == 0
        assert set(finding["statistics"]["categories"]) == {"CONFIRMED"}
    (together,) = of(found, "choices")
    assert [study["study"] for study in together["statistics"]["studies"]] == BOTH
    tables = {table["columns"][0]: table["rows"] for table in together["tables"]}
    assert tables["Published, on another machine"]
    withheld = together["statistics"].get("withheld")  # where others used this machine
    assert ("Condition" in tables) != bool(withheld)
    assert withheld or len(tables["Condition"]) == 1 + 2  # six jobs at one, and two depths
    (premise,) = together["statistics"]["premises"]
    assert premise.startswith(("The engines reached the same drive by different transports", "All engines loaded"))
    for finding in of(found, "costs"):
        for cost in finding["statistics"]["costs"]:
            parts = ("submission_ns", "device_ns", "transport_ns", "completion_ns")
            assert sum(cost[part] or 0.0 for part in parts) == pytest.approx(cost["total_ns"])
    assert len(of(found, "costs")) == 2
    compared = {finding["response"]: finding["statistics"] for finding in of(found, "choice")}
    for response in ("total.iops", "read.lat.p99", "write.clat.mean", "cpu.per_io", "read.iops"):
        assert "nbd" in {compared[response]["average"]["best"], *compared[response]["average"]["best_against"]}
        assert compared[response]["same_target"] is not None


def test_every_job_has_its_bars_and_the_depth_its_curves() -> None:
    jobs, depth = catalog.load("access-paths").studies
    drawn = {figure.name.removeprefix("access_paths_") for figure in jobs.figures}
    for quantity in ("iops", "bandwidth", "read_tail", "write_tail", "cpu_per_request", "costs"):
        assert {f"{quantity}_1_job", f"{quantity}_4_jobs"} <= drawn
    assert {f"latency_{rw}_{n}" for rw in ("randread", "randwrite", "randrw") for n in ("1_job", "4_jobs")} <= drawn
    curves = {figure.name.removeprefix("access_paths_depth_") for figure in depth.figures}
    assert curves == {"iops", "throughput_latency", "latency", "tail", "cpu_per_request", "at_the_drive"}
