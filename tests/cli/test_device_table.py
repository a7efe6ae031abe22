"""Which drive is loaded, and what is on it, is said before anything is written."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.root, pytest.mark.fio]
MIB = 1 << 20
STUDY = """
title = "Device"
driver = "fio"
repetitions = 1
[target]
kind = "device"
path = "{path}"
size = "1MiB"
prepare = "none"
[params]
rw = "{rw}"
bs = "4KiB"
size = "64KiB"
[watch]
witness = "off"
monitors = []
"""


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Path]:
    def write(disk: Path, rw: str = "write") -> Path:
        path = tmp_path / "device.toml"
        path.write_text(STUDY.format(path=disk, rw=rw))
        return path

    return write


def backing_of(disk: Path) -> str:
    return Path("/sys/block", disk.name, "loop/backing_file").read_text().strip()


def test_the_plan_names_the_drive_and_what_was_found(ioassay: Any, loop_device: Callable, study: Callable) -> None:
    disk = loop_device(300 * MIB)
    answer = ioassay("plan", study(disk), "--json")
    assert answer.code == 0, answer.err
    assert answer.json["devices"] == [
        {
            "path": str(disk),
            "name": str(disk),
            "model": f"loop device over {backing_of(disk)}",
            "serial": "",
            "size_bytes": 300 * MIB,
            "access": "write",
            "content": ["is empty: every byte was read as zero"],
            "host": "",
        }
    ]
    said = ioassay("plan", study(disk)).err
    assert f"{disk} is written: loop device over {backing_of(disk)}, 300 MiB\n" in said
    assert "    is empty: every byte was read as zero\n" in said


def test_what_consent_gives_up_is_said_by_plan_and_run(ioassay: Any, loop_device: Callable, study: Callable) -> None:
    disk = loop_device(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-L", "kept", str(disk)], check=True)
    refused = ioassay("plan", study(disk))
    assert refused.code == 3
    assert f"{disk} (block device" in refused.err and f"64 MiB, loop device over {backing_of(disk)})" in refused.err
    for command in ("plan", "run"):
        answer = ioassay(command, study(disk), f"--destroy-data={disk}")
        assert answer.code == 0, answer.err
        assert f"{disk} is written" in answer.err
        assert "    holds ext4, label kept\n" in answer.err


def test_a_device_that_a_job_file_names_is_shown(ioassay: Any, loop_device: Callable, tmp_path: Path) -> None:
    disk = loop_device(300 * MIB)
    (tmp_path / "my.fio").write_text(f"[a]\nfilename={disk}\nrw=write\nsize=64k\n")
    with disk.open("r+b") as file:
        file.seek(150 * MIB + 8192 + 1)
        file.write(b"8 bytes.")
    refused = ioassay("run", "my.fio", "--repetitions", "1")
    assert refused.code == 3
    assert f"holds data of no known format, at byte {150 * MIB + 8193}" in refused.err
    assert not (tmp_path / "runs").exists()
    planned = ioassay("plan", "my.fio", "--destroy-data", disk, "--json").json["devices"]
    assert [(device["path"], device["access"]) for device in planned] == [(str(disk), "write")]
    assert planned[0]["content"] == ["was not read whole, so what it holds is not known: samples of it are zero"]


def test_a_device_that_is_only_read_is_shown_as_that(ioassay: Any, loop_device: Callable, study: Callable) -> None:
    disk = loop_device(8 * MIB)
    assert f"{disk} is read: loop device" in ioassay("plan", study(disk, "read")).err
