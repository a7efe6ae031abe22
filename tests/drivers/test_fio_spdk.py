"""SPDK's engines for fio: known although fio does not list them, skipped with the remedy where a plugin is missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.fio import Fio, job, spdk
from ioassay.errors import StudyError, ToolError
from ioassay.roles import Command, Load, Trial

VIRTUAL = {"kind": "virtual", "size": "64MiB"}
NQN = "nqn.2016-06.io.example:drive"
LOAD = Load("file", None, 2**26, False, {"nvme_tcp": "127.0.0.1:4420", "nqn": NQN})
PROBES = {"engines": "Available IO engines:\n\tpsync\n\tnbd\n", "options": "rw : what it does\nbs : what it does\n"}
PARAMS = {"rw": "randread", "bs": "4KiB", "iodepth": 8, "runtime": "1s"}


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of the plugins' names."""
    folder = tmp_path / "fio-plugins"
    folder.mkdir()
    for engine in spdk.ENGINES:
        (folder / engine).touch()
    monkeypatch.setenv(spdk.VARIABLE, str(folder))
    monkeypatch.setattr(spdk, "_HUGE_PAGES", tmp_path / "nr_hugepages")
    (tmp_path / "nr_hugepages").write_text("512\n")
    return folder


@pytest.fixture
def none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without plugins."""
    monkeypatch.setenv(spdk.VARIABLE, str(tmp_path))
    return tmp_path


def trial(engine: str, **params: Any) -> Trial:
    return Trial("0123abcd", "study", "fio", {}, {**PARAMS, "ioengine": engine, **params}, VIRTUAL, {}, 0, 7, 0)


def fio() -> Fio:
    made = Fio()
    made.configure("fio-3.33\n", PROBES)
    return made


def lines(command: Command | None) -> dict[str, str]:
    assert command is not None
    return dict(line.split("=", 1) for line in command.files["job.fio"].splitlines()[1:])


@pytest.mark.parametrize("engine", spdk.ENGINES)
def test_without_the_plugin_a_trial_is_skipped_with_the_remedy(engine: str, none: Path) -> None:
    driver, skipped = fio(), trial(engine)
    [warning] = driver.validate(skipped.params, VIRTUAL)
    assert warning.code == "will-be-skipped" and "./configure --with-fio" in warning.text
    assert driver.command(skipped, LOAD, none) is None
    found = driver.parse(skipped, None, none)
    assert found.status == "skipped"
    assert found.reason == spdk.missing(engine) and f"set {spdk.VARIABLE}=" in found.reason


def test_with_the_plugin_the_block_layer_connects_to_the_drive(plugins: Path, tmp_path: Path) -> None:
    driver, wanted = fio(), trial("spdk_bdev")
    assert driver.validate(wanted.params, VIRTUAL) == []
    command = driver.command(wanted, LOAD, tmp_path)
    found = lines(command)
    assert found["ioengine"] == str(plugins / "spdk_bdev")
    assert (found["thread"], found["size"], found["iodepth"]) == ("1", str(2**26), "8")
    assert found["spdk_json_conf"] == str(tmp_path / "spdk.json")
    assert "--no-huge" in found["env_context"]
    assert command is not None
    alone, connected = json.loads(command.files["spdk.json"])["subsystems"][0]["config"]
    assert alone["params"] == {"bdev_auto_examine": False}, "its reads would be counted as the load's"
    assert command.env["RUNTIME_DIRECTORY"] == str(tmp_path)
    attach = connected["params"]
    assert (attach["traddr"], attach["trsvcid"], attach["subnqn"]) == ("127.0.0.1", "4420", NQN)
    assert found["filename"] == f"{attach['name']}n1"


def test_colons_of_the_address_are_escaped(plugins: Path, tmp_path: Path) -> None:
    command = fio().command(trial("spdk_nvme"), LOAD, tmp_path)
    assert lines(command)["filename"] == (
        "trtype=TCP adrfam=IPv4 traddr=127.0.0.1 trsvcid=4420 subnqn=nqn.2016-06.io.example\\:drive ns=1"
    )
    assert command is not None and list(command.files) == ["job.fio"]


def test_only_what_it_writes_is_open_to_the_block_layer() -> None:
    found = fio().confinement(trial("spdk_bdev").params)
    assert (found.waiver, list(found.host)) == ("", [Path("/var/tmp")])
    for own in ({"spdk_json_conf": "mine.json"}, {"env_context": "--single-file-segments"}):
        assert "by itself" in fio().confinement(trial("spdk_bdev", **own).params).waiver
    assert "by itself" in fio().confinement(trial("spdk_nvme").params).waiver


def test_what_the_study_sets_of_the_engine_counts(plugins: Path, tmp_path: Path) -> None:
    assert lines(fio().command(trial("spdk_bdev", spdk_mem=256), LOAD, tmp_path))["spdk_mem"] == "256"


@pytest.mark.parametrize(("engine", "skipped"), [("spdk_nvme", True), ("spdk_bdev", False)])
def test_huge_pages_are_looked_for_where_they_are_needed(
    plugins: Path, tmp_path: Path, engine: str, skipped: bool
) -> None:
    (tmp_path / "nr_hugepages").write_text("0\n")
    assert bool(spdk.missing(engine)) == skipped
    assert ("vm.nr_hugepages" in spdk.missing(engine)) == skipped


def test_a_target_without_nvme_over_tcp_is_refused(plugins: Path) -> None:
    file = {"kind": "file", "path": "testfile", "size": "64MiB"}
    with pytest.raises(StudyError, match="kind = 'virtual'") as caught:
        fio().validate(trial("spdk_bdev").params, file)
    assert caught.value.key == "params.ioengine"
    with pytest.raises(ToolError, match="add 'nvme-tcp' to target.ways"):
        job.emit(trial("spdk_bdev"), Load("file", Path("/drive"), 2**26, False))
