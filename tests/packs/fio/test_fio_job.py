"""From parameters to fio's job file: names and values of options, the target, SPDK's engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay import units
from ioassay.errors import ConditionError, StudyError, ToolError
from ioassay.packs.fio.driver import job
from ioassay.packs.fio.fio_options import SPDK, Names, canonical, fio_bytes, fio_seconds, write
from ioassay.roles import NOTHING, Command, Load

from ...corpora import cases, has
from ...drivers.trials import NOWHERE, offered, trial

SUFFIXES = ["", "k", "K", "KiB", "kB", "KB", "m", "M", "MiB", "MB", "g", "GiB", "GB", "TiB"]
spelled_sizes = st.builds(lambda number, suffix: f"{number}{suffix}", st.integers(1, 9999), st.sampled_from(SUFFIXES))


@given(text=spelled_sizes, kb_base=st.sampled_from([1024, 1000]))
def test_fio_reads_a_written_size_as_the_bytes_that_were_meant(text: str, kb_base: int) -> None:
    assert fio_bytes(write("bs", text), kb_base) == units.parse_size(text)


@given(sizes=st.lists(spelled_sizes, min_size=1, max_size=3))
def test_sizes_of_each_direction_keep_their_places(sizes: list[str]) -> None:
    assert write("bs", ",".join(sizes)) == ",".join(str(units.parse_size(size)) for size in sizes)
    assert write("bs", sizes) == write("bs", ",".join(sizes))


@given(parts=st.lists(st.tuples(spelled_sizes, st.integers(0, 100)), min_size=1, max_size=4))
def test_a_split_keeps_its_shares(parts: list[tuple[str, int]]) -> None:
    written = write("bssplit", ":".join(f"{size}/{share}" for size, share in parts))
    assert written == ":".join(f"{units.parse_size(size)}/{share}" for size, share in parts)


@given(milliseconds=st.integers(1, 10**7))
def test_fio_reads_a_written_run_time_as_the_time_that_was_meant(milliseconds: int) -> None:
    assert fio_seconds(write("runtime", f"{milliseconds}ms")) == pytest.approx(milliseconds / 1e3)


@cases("drivers", "fio_options")
def test_names_values_and_sizes_are_those_of_fio(case: dict[str, Any]) -> None:
    if "alias" in case:
        assert canonical(case["alias"]) == case["name"]
    elif "bytes" in case:
        found = fio_bytes(case["text"], case["kb_base"])
        assert ("unknown" if found is None else found) == case["bytes"]
    elif "written" in case:
        assert write(case["name"], case["value"]) == case["written"]
    else:
        with pytest.raises(StudyError, match=case["refused"]) as caught:
            write(case["name"], case["value"])
        assert caught.value.key == f"params.{case['name']}"


def test_options_are_those_of_the_engine_and_of_a_newer_fio() -> None:
    names = Names()
    names.check(["nonsense"], {"psync"})  # fio was not asked yet
    names.learn(
        {
            "engines": "Available IO engines:\n\tpsync\n\tlibaio\n",
            "options": "rw                      : IO direction\n  bs                    : Block size unit\n",
            "engine:libaio": "brand_new               : Came with a newer fio\n",
        }
    )
    names.check(["nonsense"], {"my_own_engine"})
    names.check(["bs", "userspace_reap", "brand_new", "bs_is_seq_rand"], {"libaio", "psync"})
    with pytest.raises(StudyError, match="option of ioengine libaio; used here: psync"):
        names.check(["userspace_reap"], {"psync"})
    with pytest.raises(StudyError, match="did you mean 'bs'") as caught:
        names.check(["rw", "bss"], {"psync"})
    assert caught.value.key == "params.bss"


def emitted(params: dict[str, Any], load: Load, seed: int = 7) -> dict[str, str]:
    """The options of the emitted job."""
    heading, *lines = job.emit(trial("fio", params, id="0123abcd", seed=seed), load).splitlines()
    assert heading == "[ioassay-0123abcd]"
    return dict(line.split("=", 1) for line in lines)


@cases("drivers", "fio_jobs")
def test_a_job_has_the_options_of_its_trial(case: dict[str, Any]) -> None:
    made: list[tuple[str, int]] = []

    def make(name: str, size_bytes: int) -> Path:
        made.append((name, size_bytes))
        return Path("/disk") / name

    kind, path = case.get("kind", "file"), Path(case.get("path", "/disk/testfile"))
    load = Load(kind, None if kind == "null" else path, case.get("size_bytes", 2**30), read_only=False)
    if "fails" in case:
        with pytest.raises(ToolError) as caught:
            emitted(case["params"], load)
        assert case["fails"] in str(caught.value)
        return
    if "makes" in case:
        with pytest.raises(ToolError, match="no file can be made"):
            emitted(case["params"], load)
        load = Load("folder", path, load.size_bytes, read_only=False, new_file=make)
    found = emitted(case["params"], load)
    assert has(found, case.get("has", {})) and int(found["size"]) > 0
    assert not found.keys() & set(case.get("lacks", ()))
    assert sorted(found) == case.get("names", sorted(found))
    if "makes" in case:
        assert made == [("fio", case["makes"])] and found["filename"] == "/disk/fio"


def test_a_seed_always_fits_fios_signed_number() -> None:
    found = emitted({"rw": "read"}, Load("file", Path("/disk/testfile"), 2**30, False), seed=2**64 - 1)
    assert int(found["randseed"]) < 2**63


def test_status_lines_are_asked_for_but_where_calls_are_counted(tmp_path: Path) -> None:
    params = {"ioengine": "null", "rw": "read", "size": "1MiB"}
    for calls, eta in ((False, "--eta=always"), (True, "--eta=never")):
        assert eta in offered("fio").command(trial("fio", params, calls=calls), NOWHERE, tmp_path).argv


NVMEVIRT = {"kind": "nvmevirt", "module": "nvmev.ko", "memmap_start": 2**30, "memmap_size": 2**29, "cpus": [1, 2]}


@pytest.mark.parametrize(("engine", "why"), [("spdk_nvme", "vfio-pci or uio"), ("nbd", "no drive of the kernel's")])
def test_on_nvmevirt_engines_with_their_own_transport_are_skipped(tmp_path: Path, engine: str, why: str) -> None:
    params = {"ioengine": engine, "rw": "randread", "iodepth": 1}
    codes = {warning.code for warning in offered("fio").validate(params, NVMEVIRT)}
    assert codes == {"will-be-skipped"}
    with pytest.raises(ConditionError, match=why):
        job.emit(trial("fio", params), Load("device", Path("/dev/nvme1n1"), 2**29, read_only=False), tmp_path)


# SPDK's engines, which fio does not list

VIRTUAL = {"kind": "virtual", "size": "64MiB"}
NQN = "nqn.2016-06.io.example:drive"
DRIVE = Load("file", None, 2**26, False, {"nvme_tcp": "127.0.0.1:4420", "nqn": NQN})
PARAMS = {"rw": "randread", "bs": "4KiB", "iodepth": 8, "runtime": "1s"}


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of the plugins' names."""
    folder = tmp_path / "fio-plugins"
    folder.mkdir()
    for engine in SPDK:
        (folder / engine).touch()
    monkeypatch.setenv(job.SPDK_VARIABLE, str(folder))
    monkeypatch.setattr(job, "_HUGE_PAGES", tmp_path / "nr_hugepages")
    (tmp_path / "nr_hugepages").write_text("512\n")
    return folder


def options(command: Command | None) -> dict[str, str]:
    assert command is not None
    return dict(line.split("=", 1) for line in command.files["job.fio"].splitlines()[1:])


@pytest.mark.parametrize("engine", sorted(SPDK))
def test_without_the_plugin_a_trial_is_skipped_with_the_remedy(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(job.SPDK_VARIABLE, str(tmp_path))
    driver, skipped = offered("fio"), trial("fio", {**PARAMS, "ioengine": engine})
    [warning] = driver.validate(skipped.params, VIRTUAL)
    assert warning.code == "will-be-skipped" and "./configure --with-fio" in warning.text
    assert driver.command(skipped, DRIVE, tmp_path) is None
    found = driver.parse(skipped, None, tmp_path)
    assert found.status == "skipped"
    assert found.reason == job.missing_spdk(engine) and f"set {job.SPDK_VARIABLE}=" in found.reason


def test_a_served_drive_costs_its_start_and_a_missing_plugin_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(job.SPDK_VARIABLE, str(tmp_path))
    estimate, timed = offered("fio").estimate, {"rw": "randread", "runtime": "10s", "ioengine": "nbd"}
    file = {"kind": "file", "path": "testfile", "size": "1GiB"}
    assert estimate(timed, VIRTUAL).seconds - estimate(timed, file).seconds == pytest.approx(0.3)
    assert estimate({**timed, "ioengine": "spdk_bdev"}, VIRTUAL).seconds == 0


def test_with_the_plugin_the_block_layer_connects_to_the_drive(plugins: Path, tmp_path: Path) -> None:
    driver, wanted = offered("fio"), trial("fio", {**PARAMS, "ioengine": "spdk_bdev"})
    assert driver.validate(wanted.params, VIRTUAL) == []
    command = driver.command(wanted, DRIVE, tmp_path)
    found = options(command)
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
    own = trial("fio", {**wanted.params, "spdk_mem": 256})
    assert options(driver.command(own, DRIVE, tmp_path))["spdk_mem"] == "256"


def test_colons_of_the_address_are_escaped(plugins: Path, tmp_path: Path) -> None:
    command = offered("fio").command(trial("fio", {**PARAMS, "ioengine": "spdk_nvme"}), DRIVE, tmp_path)
    assert options(command)["filename"] == (
        "trtype=TCP adrfam=IPv4 traddr=127.0.0.1 trsvcid=4420 subnqn=nqn.2016-06.io.example\\:drive ns=1"
    )
    assert list(command.files) == ["job.fio"]


def test_only_what_it_writes_is_open_to_the_block_layer() -> None:
    confinement, block_layer = offered("fio").confinement, {**PARAMS, "ioengine": "spdk_bdev"}
    found = confinement(block_layer)
    assert (found.waiver, list(found.host)) == ("", [Path("/var/tmp")])
    for own in ({"spdk_json_conf": "mine.json"}, {"env_context": "--single-file-segments"}, {"ioengine": "spdk_nvme"}):
        assert "by itself" in confinement({**block_layer, **own}).waiver


@pytest.mark.parametrize(("engine", "skipped"), [("spdk_nvme", True), ("spdk_bdev", False)])
def test_huge_pages_are_looked_for_where_they_are_needed(
    plugins: Path, tmp_path: Path, engine: str, skipped: bool
) -> None:
    (tmp_path / "nr_hugepages").write_text("0\n")
    assert bool(job.missing_spdk(engine)) == skipped
    assert ("vm.nr_hugepages" in job.missing_spdk(engine)) == skipped


def test_a_target_without_nvme_over_tcp_is_refused(plugins: Path) -> None:
    params = {**PARAMS, "ioengine": "spdk_bdev"}
    with pytest.raises(StudyError, match="kind = 'virtual'") as caught:
        offered("fio").validate(params, {"kind": "file", "path": "testfile", "size": "64MiB"})
    assert caught.value.key == "params.ioengine"
    with pytest.raises(ToolError, match="add 'nvme-tcp' to target.ways"):
        job.emit(trial("fio", params), Load("file", Path("/drive"), 2**26, False))


def test_a_plugin_that_a_study_names_by_its_path_is_taken(tmp_path: Path) -> None:
    driver, plugin = offered("fio"), tmp_path / "spdk_bdev"
    (warning,) = driver.validate({"rw": "randread", "ioengine": str(plugin)}, VIRTUAL)
    assert warning.code == "will-be-skipped" and str(plugin) in job.missing_spdk("spdk_bdev", str(plugin))
    plugin.touch()
    for named in (str(plugin), f"external:{plugin}"):
        wanted = trial("fio", {"rw": "read", "ioengine": named}, target=VIRTUAL)
        assert driver.validate(wanted.params, VIRTUAL) == []
        assert driver.access({"ioengine": named, "rw": "randwrite"}) == NOTHING
        assert f"\nioengine={plugin}\n" in job.emit(wanted, DRIVE, tmp_path)
        assert list(job.extra_files(wanted, DRIVE)) == ["spdk.json"]


def test_a_job_file_that_names_its_own_drive_for_spdk_is_left_as_it_is(tmp_path: Path) -> None:
    plugin = tmp_path / "spdk_bdev"
    plugin.touch()
    text = f"[a]\nioengine={plugin}\nrw=randwrite\nthread=1\nspdk_json_conf=mine.json\nfilename=Nvme0n1\n"
    params = {"job": text, "job_path": str(tmp_path / "a.fio"), "job_folder": str(tmp_path)}
    assert list(offered("fio").validate(params, {})) == []
    assert list(offered("fio").touches(params)) == []
