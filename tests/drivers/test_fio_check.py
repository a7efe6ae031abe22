"""What makes no sense is said before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.fio import Fio
from ioassay.errors import StudyError, ToolError
from ioassay.roles import NOTHING, READ, WRITE

FILE = {"kind": "file", "path": "testfile", "size": "1GiB"}
OPTIONS = """rw bs ioengine direct buffered iodepth numjobs size runtime time_based rwmixread rwmixwrite
bssplit size offset randseed gtod_reduce exec_prerun group_reporting norandommap io_submit_mode loops ioscheduler
verify verify_backlog unique_filename"""
PROBES = {
    "engines": "Available IO engines:\n\tpsync\n\tlibaio\n\tmmap\n\tnull\n\tio_uring\n",
    "options": "\n".join(f"{name:24}: what it does" for name in OPTIONS.split()),
}


def fio() -> Fio:
    made = Fio()
    made.configure("fio-3.33\n", PROBES)
    return made


def codes(params: dict[str, Any], target: dict[str, Any] = FILE) -> list[str]:
    return [warning.code for warning in fio().validate(params, target)]


def test_a_served_drive_costs_its_start_and_a_missing_plugin_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("IOASSAY_SPDK_FIO", str(tmp_path))
    timed = {"rw": "randread", "runtime": "10s", "ioengine": "nbd"}
    drive = {"kind": "virtual", "size": "64MiB"}
    assert fio().estimate(timed, drive).seconds - fio().estimate(timed, FILE).seconds == pytest.approx(0.3)
    assert fio().estimate({**timed, "ioengine": "spdk_bdev"}, drive).seconds == 0


def test_a_sensible_point_has_no_warning() -> None:
    params = {"ioengine": "libaio", "direct": 1, "iodepth": 32, "rw": "randread", "bs": "4KiB", "runtime": "10s"}
    assert codes(params) == []


@pytest.mark.parametrize(
    ("params", "key", "message"),
    [
        ({"ioengine": "libaoi"}, "ioengine", "did you mean 'libaio'"),
        ({"rw": "reed"}, "rw", "no pattern of fio"),
        ({"client": "host-a"}, "client", r"\[run\] hosts"),
        ({"job": "[a]\nsize=1m\nserver\n", "job_path": "a.fio"}, "server", r"\[run\] hosts"),
        ({"rw": "randtrim"}, "rw", "cannot be trimmed"),
        ({"numjobs": 0}, "numjobs", "nothing would run"),
        ({"iodepth": 0}, "iodepth", "nothing would run"),
        ({"numjobs": "many"}, "numjobs", "whole number"),
        ({"rwmixwrite": 101}, "rwmixwrite", "wanted 0 to 100"),
        ({"rwmixwrite": -1}, "rwmixwrite", "whole number"),
        ({"runtime": 0}, "runtime", "more than 0"),
        ({"time_based": 1}, "time_based", "add runtime"),
        ({"bs": "2GiB"}, "bs", "more than the 1 GiB"),
        ({"bs": "8k", "size": "4k"}, "bs", "more than the 4 KiB"),
        ({"size": "2GiB"}, "size", "past the target's size"),
        ({"bs": 0}, "bs", "wanted a size"),
        ({"logs": ["bandwidth"]}, "logs", "wanted a list of bw"),
        ({"logs": ["bw"], "log_interval": "1ms"}, "log_interval", "10 ms or more"),
        ({"iodeth": 4}, "iodeth", "did you mean 'iodepth'"),
        ({"sqthread_poll": 1}, "sqthread_poll", "option of ioengine io_uring"),
        ({"ioscheduler": "none"}, "ioscheduler", "changes this machine"),
        ({"description": "x" * 8192}, "description", "more than the 8190 bytes"),
        ({"description": "x\vfilename=y"}, "description", "contains '.x0b'"),
    ],
)
def test_the_impossible_is_refused_under_its_key(params: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(StudyError, match=message) as caught:
        fio().validate({"rw": "read", **params}, FILE)
    assert caught.value.key == f"params.{key}"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"iodepth": 8}, "iodepth-ignored"),
        ({"ioengine": "libaio", "iodepth": 8}, "buffered-async"),
        ({"ioengine": "mmap", "direct": 1}, "direct-ignored"),
        ({"direct": 1, "bs": "1000"}, "bs-unaligned"),
        ({"bs": "4k", "bssplit": "4k/50:8k/50"}, "bs-ignored"),
        ({"rw": "rw", "rwmixread": 50, "rwmixwrite": 50}, "mix-given-twice"),
        ({"randseed": 5}, "fixed-seed"),
        ({"gtod_reduce": 1}, "no-latency"),
        ({"rw": "randwrite", "verify": "crc32c", "verify_backlog": 64}, "verify-rates"),
        ({"exec_prerun": "true"}, "runs-commands"),
        ({"group_reporting": True}, "group-reporting-ignored"),
        ({"rw": "randread", "bs": "3k"}, "last-block"),
    ],
)
def test_the_odd_is_warned_about_with_a_remedy(params: dict[str, Any], code: str) -> None:
    found = fio().validate({"rw": "read", **params}, FILE)
    assert [(warning.code, bool(warning.remedy)) for warning in found] == [(code, True)]


def test_depth_counts_where_requests_are_offloaded() -> None:
    assert codes({"rw": "read", "iodepth": 8, "io_submit_mode": "offload"}) == []


def test_what_fio_trims_it_opens_without_direct_io() -> None:
    params = {"rw": "randtrimwrite", "direct": 1, "bs": "4KiB"}
    assert codes(params, {"kind": "device", "path": "/dev/sdz"}) == ["direct-ignored"]
    assert codes({**params, "direct": 0}, {"kind": "device", "path": "/dev/sdz"}) == []
    assert codes({**params, "rw": "randtrim"}, {"kind": "device", "path": "/dev/sdz"}) == []


def test_unaligned_direct_requests_are_refused_where_the_sector_is_known() -> None:
    with pytest.raises(StudyError, match="sector of 4096 bytes"):
        fio().validate({"rw": "read", "direct": 1, "bs": "512"}, {**FILE, "logical_block_bytes": 4096})


def test_a_load_without_a_target_is_refused_but_for_engines_without_storage() -> None:
    with pytest.raises(StudyError, match=r"wanted \[target\]"):
        fio().validate({"rw": "read"}, {"kind": "null"})
    assert codes({"rw": "read", "ioengine": "null"}, {"kind": "null"}) == []


def test_a_target_path_that_fio_cannot_read_is_refused_before_anything_runs() -> None:
    with pytest.raises(StudyError, match="cannot express") as caught:
        fio().validate({"rw": "read"}, {**FILE, "path": "/disk/#1"})
    assert caught.value.key == "target.path"


@pytest.mark.parametrize("version", ["fio-3.17", "fio-2.16", "fio 9"])
def test_a_version_that_is_too_old_or_strange_is_refused_with_the_one_wanted(version: str) -> None:
    with pytest.raises(ToolError, match="wanted"):
        Fio().configure(version, {})


@pytest.mark.parametrize(
    ("params", "access"),
    [
        ({"rw": "randread"}, READ),
        ({}, READ),
        ({"rw": "randrw"}, WRITE),
        ({"rw": "rw", "rwmixwrite": 0}, WRITE),
        ({"rw": "trim"}, WRITE),
        ({"rw": "write", "ioengine": "null"}, NOTHING),
        ({"rw": "read", "ioengine": "falloc"}, WRITE),
    ],
)
def test_access_is_the_strongest_thing_that_may_happen(params: dict[str, Any], access: str) -> None:
    assert fio().access(params) == access


def test_a_timed_load_costs_its_time_and_an_unknown_volume() -> None:
    found = fio().estimate({"rw": "randrw", "runtime": "10s", "ramp_time": "2s"}, FILE)
    assert 12 <= found.seconds < 13
    assert found.written_bytes is None


def test_a_load_by_size_writes_its_share_of_the_target_for_each_job() -> None:
    found = fio().estimate({"rw": "randrw", "rwmixwrite": 25, "numjobs": 2, "loops": 2}, FILE)
    assert found.written_bytes == 2**30
    assert fio().estimate({"rw": "read"}, FILE).written_bytes == 0


def test_an_option_that_only_servers_obey_is_warned_about() -> None:
    assert "only-of-clients" in codes({"job": "[a]\nsize=1m\nunique_filename=0\n", "job_path": "a.fio"})
