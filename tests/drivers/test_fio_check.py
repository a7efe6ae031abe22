"""What makes no sense is said before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.fio import Fio

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
