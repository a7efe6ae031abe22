"""Whether an engine gets to the target is said before anything runs; in a folder it loads a file made for it."""

from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.fio import Fio, job, spdk
from ioassay.errors import ConditionError, ToolError
from ioassay.roles import NOTHING, Load, Trial

VIRTUAL = {"kind": "virtual", "size": "64MiB"}
FILE = {"kind": "file", "path": "testfile", "size": "64MiB"}
FOLDER = {"kind": "folder", "path": "."}
OPTIONS = "rw bs ioengine direct iodepth numjobs size offset offset_increment runtime thread"
PROBES = {
    "engines": "Available IO engines:\n\tpsync\n\tlibaio\n\tio_uring\n\tnbd\n\tnull\n",
    "options": "\n".join(f"{name} : what it does" for name in OPTIONS.split()),
}
MIB = 2**20


def validated(params: dict[str, Any], target: dict[str, Any]) -> list[str]:
    driver = Fio()
    driver.configure("fio-3.33\n", PROBES)
    return [warning.code for warning in driver.validate({"rw": "randread", **params}, target)]


NVMEVIRT = {"kind": "nvmevirt", "module": "nvmev.ko", "memmap_start": 2**30, "memmap_size": 2**29, "cpus": [1, 2]}


@pytest.mark.parametrize(("engine", "why"), [("spdk_nvme", "vfio-pci or uio"), ("nbd", "no drive of the kernel's")])
def test_on_nvmevirt_engines_with_their_own_transport_are_skipped(tmp_path: Path, engine: str, why: str) -> None:
    codes = validated({"ioengine": engine, "iodepth": 1}, NVMEVIRT)
    assert codes and set(codes) == {"will-be-skipped"}
    trial = Trial("0" * 16, "s", "fio", {}, {"ioengine": engine, "rw": "randread"}, {}, {}, 0, 1, 0)
    with pytest.raises(ConditionError, match=why):
        job.emit(trial, Load("device", Path("/dev/nvme1n1"), 2**29, read_only=False), tmp_path)


def test_a_character_device_is_what_the_job_names(tmp_path: Path) -> None:
    params = {"ioengine": "io_uring_cmd", "cmd_type": "nvme", "rw": "randread", "direct": 0}
    trial = Trial("0" * 16, "s", "fio", {}, params, {}, {}, 0, 1, 0)
    text = job.emit(trial, Load("device", Path("/dev/ng0n1"), 2**20, read_only=False), tmp_path)
    assert "filename=/dev/ng0n1\n" in text and "cmd_type=nvme\n" in text


def test_a_plugin_that_a_study_names_by_its_path_is_taken(tmp_path: Path) -> None:
    plugin = tmp_path / "spdk_bdev"
    assert validated({"ioengine": str(plugin)}, VIRTUAL) == ["will-be-skipped"]
    assert str(plugin) in spdk.missing("spdk_bdev", str(plugin))
    plugin.touch()
    for named in (str(plugin), f"external:{plugin}"):
        assert validated({"ioengine": named}, VIRTUAL) == []
        assert Fio().access({"ioengine": named, "rw": "randwrite"}) == NOTHING
        load = Load("file", None, 64 * MIB, False, {"nvme_tcp": "127.0.0.1:4420", "nqn": "nqn.2016-06.io.example:a"})
        trial = Trial("0" * 16, "s", "fio", {}, {"rw": "read", "ioengine": named}, VIRTUAL, {}, 0, 1, 0)
        assert f"\nioengine={plugin}\n" in job.emit(trial, load, tmp_path)
        assert list(job.extra_files(trial, load)) == ["spdk.json"]


def test_a_job_file_that_names_its_own_drive_for_spdk_is_left_as_it_is(tmp_path: Path) -> None:
    plugin = tmp_path / "spdk_bdev"
    plugin.touch()
    text = f"[a]\nioengine={plugin}\nrw=randwrite\nthread=1\nspdk_json_conf=mine.json\nfilename=Nvme0n1\n"
    params = {"job": text, "job_path": str(tmp_path / "a.fio"), "job_folder": str(tmp_path)}
    driver = Fio()
    driver.configure("fio-3.33\n", PROBES)
    assert list(driver.validate(params, {})) == []
    assert list(driver.touches(params)) == []


def test_in_a_folder_a_file_is_made_that_holds_all_areas(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def make(name: str, size_bytes: int) -> Path:
        asked.append((name, size_bytes))
        return tmp_path / name

    load = Load("folder", tmp_path, 64 * MIB, False, new_file=make)
    areas = [
        ({}, 64 * MIB),
        ({"size": "8MiB"}, 8 * MIB),
        ({"size": "8MiB", "offset": "1MiB"}, 9 * MIB),
        ({"size": "8MiB", "offset": "1MiB", "offset_increment": "16MiB", "numjobs": 3}, 41 * MIB),
        ({"size": "25%"}, 16 * MIB),
    ]
    for params, size_bytes in areas:
        trial = Trial("0" * 16, "s", "fio", {}, {"rw": "read", **params}, {}, {}, 0, 1, 0)
        assert f"filename={tmp_path}/fio\n" in job.emit(trial, load)
        assert asked.pop() == ("fio", size_bytes)
    with pytest.raises(ToolError, match="no file can be made"):
        job.emit(trial, Load("folder", tmp_path, MIB, False))
