"""Nothing is begun that would fill a file system: exit 2, nothing written, and the message says what fits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..corpora import cases
from .conftest import Ask

pytestmark = [pytest.mark.root, pytest.mark.fio]
MIB = 1 << 20
TARGET = """
title = "T"
driver = "fio"
repetitions = 1
[target]
kind = "file"
path = "{path}"
size = "{size}"
[params]
rw = "write"
bs = "4KiB"
size = "64KiB"
[watch]
witness = "off"
monitors = []
"""


@pytest.fixture
def disk(small_disk: Callable) -> Path:
    """A file system of 350 MiB, of which files get 286."""
    folder = small_disk(350 << 10)
    assert isinstance(folder, Path)
    return folder


@pytest.fixture
def ext4(loop_device: Callable, tmp_path: Path) -> Iterator[Path]:
    """The same on a loop device."""
    device, folder = loop_device(400 * MIB), tmp_path / "ext4"
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(device)], check=True)
    folder.mkdir()
    subprocess.run(["mount", str(device), str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def free_bytes(folder: Path) -> int:
    os.sync()
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize


def refused(ioassay: Ask, disk: Path, study: Path, *options: str) -> str:
    """What is said of a study that does not fit; nothing was written."""
    before, names = free_bytes(disk), sorted(disk.iterdir())
    answer = ioassay("run", study, *options, cwd=disk)
    assert answer.code == 2, answer.err
    assert sorted(disk.iterdir()) == names
    assert abs(free_bytes(disk) - before) < MIB
    return str(answer.err)


@cases("room", "jobs")
def test_a_job_file_that_does_not_fit_is_refused(case: Any, ioassay: Ask, disk: Path, tmp_path: Path) -> None:
    (tmp_path / "my.fio").write_text(case["job"])
    said = refused(ioassay, disk, tmp_path / "my.fio", "--repetitions", "1")
    assert [part for part in case["said"] if part.format(disk=disk) not in said] == [], said


def test_the_same_holds_on_ext4(ioassay: Ask, ext4: Path, tmp_path: Path) -> None:
    (tmp_path / "my.fio").write_text("[a]\nrw=write\nsize=200m\n[b]\nrw=write\nsize=100m\n")
    said = refused(ioassay, ext4, tmp_path / "my.fio", "--repetitions", "1")
    assert f"{ext4}/a.0.0 of 200 MiB and 1 more would take 300 MiB" in said


def test_targets_of_several_points_have_to_fit_together(ioassay: Ask, disk: Path, tmp_path: Path) -> None:
    study = tmp_path / "t.toml"
    study.write_text(TARGET.format(path=disk / "x", size="200MiB"))
    assert ioassay("plan", study).code == 0
    paths = f"target.path={disk / 'x'},{disk / 'y'}"
    assert "and 1 more would take 400 MiB" in refused(ioassay, disk, study, "--factor", paths)


def test_logs_of_single_requests_have_to_fit_into_the_runs_folder(ioassay: Ask, disk: Path, tmp_path: Path) -> None:
    (tmp_path / "my.fio").write_text("[a]\nrw=write\nbs=512\nsize=64m\nioengine=null\nwrite_lat_log=x\nio_size=1500m\n")
    answer = ioassay("run", tmp_path / "my.fio", "--repetitions", "1", "--output", disk / "run")
    assert answer.code == 2
    assert f"the tools' logs would take about 352 MiB in {disk / 'run'}" in answer.err
    assert not (disk / "run").exists()


def test_a_job_that_fits_leaves_the_margin_and_runs_again(ioassay: Ask, disk: Path, tmp_path: Path) -> None:
    (tmp_path / "my.fio").write_text("[a]\nrw=write\nsize=200m\n")
    for number in range(2):
        answer = ioassay("run", tmp_path / "my.fio", "--repetitions", "1", "--output", tmp_path / f"{number}", cwd=disk)
        assert answer.code == 0, answer.err
        assert free_bytes(disk) > 64 * MIB


def test_a_small_file_system_takes_nothing(ioassay: Ask, small_disk: Callable, tmp_path: Path) -> None:
    folder = small_disk(55 << 10)
    (tmp_path / "my.fio").write_text("[a]\nrw=write\nsize=100m\n")
    assert "wanted at most 0 B" in refused(ioassay, folder, tmp_path / "my.fio")
