"""The target that is a simulated drive: what it says, what it yields, and that nothing stays."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S, children, until

from ioassay.errors import ConditionError, StudyError, ToolError
from ioassay.packs.virtual_drive import serving
from ioassay.packs.virtual_drive.targets import virtual
from ioassay.roles import WRITE, Consent, Trial
from ioassay.targets import target

SMALL = {"kind": "virtual", "size": "16MiB", "calibrate": False}
TRIAL = Trial("0" * 16, "s", "null", {}, {}, {}, {}, 0, 1, 0)
root = pytest.mark.root


def made(**settings: Any) -> Any:
    return target({**SMALL, **settings}, Consent())


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this test's drives have their folders, so that other tests' are told apart. Sockets need short paths."""
    made = Path(tempfile.mkdtemp(prefix="vt-"))
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    yield made
    made.rmdir()


def left(place: Path) -> list[str]:
    """What a drive could leave: mounts, loop devices, folders, processes."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{place}/" in line]
    loops = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # another test's may go just now
            loops.append(path.read_text())
    return [
        *mounts,
        *(file for file in loops if f"{place}/" in file),
        *os.listdir(place),
        *map(str, children()),
    ]


def test_a_zoned_drive_is_served_to_hosts_of_nvme() -> None:
    with made(zones="1MiB,capacity=768KiB,open=4", ways=["nvme-tcp"], model="none").load(TRIAL) as load:
        assert load.path is None and "nqn" in load.addresses
        zones = load.counted().document["counted"]["zones"]
    assert (zones["zones"], zones["empty"], zones["capacity_bytes"]) == (16, 16, 768 << 10)


@pytest.mark.parametrize(
    ("settings", "granted"),
    [({"model": "none"}, True), ({"model": "none", "prefault": False}, False), ({"prefault": True}, True), ({}, False)],
)
def test_first_writes_wait_for_memory_only_where_a_model_hides_it(settings: dict[str, Any], granted: bool) -> None:
    size = 256 << 20
    with made(size=size, ways=["nbd"], **settings).load(TRIAL):
        assert (resident_bytes(serving_process()) >= size) == granted


def serving_process() -> int:
    """The process of the drive."""
    (pid,) = (pid for pid in children() if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return pid


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def test_without_root_trials_on_a_folder_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (told,) = made(form="folder").inspect(WRITE)
    assert told.code == "will-be-skipped"
    with pytest.raises(ConditionError, match="requires root"), made(form="folder").load(TRIAL):
        pass


@root
def test_the_file_is_a_drive_and_what_it_counted_is_told(place: Path) -> None:
    with made(policy="lru", buffer="1MiB").load(TRIAL) as load:
        assert load.path is not None and load.size_bytes == 16 * 2**20
        assert load.path.stat().st_size == load.size_bytes
        socket = urllib.parse.unquote(load.addresses["nbd"].partition("socket=")[2])
        assert Path(socket).is_socket()
        assert load.addresses["nvme_tcp"].startswith("127.0.0.1:")
        descriptor = os.open(load.path, os.O_RDWR)
        try:
            assert os.pwrite(descriptor, b"x" * 8192, 4096) == 8192
            assert os.pread(descriptor, 4096, 8192) == b"x" * 4096
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        counted = load.counted()
        assert counted.metrics["drive.write.ios"] == counted.metrics["drive.read.ios"] == 1
        assert counted.metrics["drive.write.bytes"] == 8192
        assert counted.metrics["drive.flush.ios"] == 1
        assert counted.metrics["drive.read_hit_ratio"] == 1.0
        assert counted.document["counted"]["writes"]["latency_ns"]["buckets"]
    until(lambda: left(place) == [])


@root
@pytest.mark.parametrize("form", ["device", "folder"])
def test_on_the_file_lies_a_device_and_on_that_a_file_system(form: str, place: Path) -> None:
    with made(form=form, size="64MiB", model="none", ways=["fuse"]).load(TRIAL) as load:
        assert load.path is not None and load.kind == form
        assert load.path.is_block_device() if form == "device" else os.path.ismount(load.path)
        name = load.path if form == "device" else load.path / "file"
        with name.open("wb") as file:
            file.write(b"y" * 2**20)
            file.flush()
            os.fsync(file.fileno())
        assert load.counted().metrics["drive.write.bytes"] >= 2**20
    until(lambda: left(place) == [])


@root
def test_a_file_made_in_its_folder_was_always_there_as_its_counts_tell(place: Path) -> None:
    with made(form="folder", size="64MiB", model="none", ways=["fuse"]).load(TRIAL) as load:
        assert load.new_file is not None
        assert 32 * 2**20 < load.size_bytes < 64 * 2**20
        file = load.new_file("data", load.size_bytes)
        assert file.stat().st_size == load.size_bytes
        assert load.counted().metrics["drive.write.bytes"] < 2**20
        with pytest.raises(ToolError, match="No space left on device while 60 MiB were written"):
            load.new_file("more", 60 * 2**20)
        assert [path.name for path in load.path.iterdir() if path.is_file()] == ["data"]
    until(lambda: left(place) == [])


@root
@pytest.mark.parametrize(
    ("state", "filesystem", "least", "most"),
    [("none", "ext4", 1.0, 1.0), ("steady", "ext4", 1.2, 20.0), ("steady", "xfs", 1.2, 20.0)],
)
def test_a_file_system_on_a_used_drive_leaves_it_used(
    state: str, filesystem: str, least: float, most: float, place: Path
) -> None:
    if shutil.which(f"mkfs.{filesystem}") is None:
        pytest.skip(f"needs mkfs.{filesystem}")
    swift = {"read_us": 0, "program_us": 0, "erase_us": 0, "elements": 8}
    settings = {"precondition": state, "filesystem": filesystem, "size": "320MiB", **swift}
    with made(form="folder", ways=["fuse"], **settings).load(TRIAL) as load:
        with (load.path / "file").open("wb") as file:
            file.write(b"y" * 4 * 2**20)
            file.flush()
            os.fsync(file.fileno())
        counted = load.counted()
        assert least <= counted.metrics["drive.write_amplification"] <= most
        assert counted.metrics["drive.trim.bytes"] == 0  # nothing goes on in the background
        assert bool(counted.document["drive"]["preconditioned"]) == (state == "steady")
    until(lambda: left(place) == [])


@root
def test_each_trial_has_a_new_drive_and_an_error_leaves_nothing(place: Path) -> None:
    drive = made(ways=["fuse"], model="none")
    with pytest.raises(ZeroDivisionError), drive.load(TRIAL) as load:
        load.path.write_bytes(b"z" * 4096)
        raise ZeroDivisionError
    until(lambda: left(place) == [])
    with drive.load(TRIAL) as load, load.path.open("rb") as file:
        assert file.read(4096) == bytes(4096)
    until(lambda: left(place) == [])


def test_a_drive_that_cannot_be_served_says_why(place: Path) -> None:
    with pytest.raises(ToolError, match="could not be served: .*memory"), made(size="900TiB").load(TRIAL):
        pass
    until(lambda: left(place) == [])


@root
@pytest.mark.parametrize("form", ["file", "device", "folder"])
def test_a_drive_that_is_killed_says_so_and_leaves_nothing(form: str, place: Path) -> None:
    drive = made(form=form, size="64MiB", model="none", ways=["fuse"], block_size=4096)
    with drive.load(TRIAL) as load:
        served = serving_process()
        os.kill(served, signal.SIGKILL)
        until(lambda: served not in children())
        with pytest.raises(ToolError, match="ended during the trial, killed by SIGKILL"):
            load.counted()
    until(lambda: left(place) == [])


HOLDS_A_DRIVE = """
import sys
from ioassay.roles import Consent, Trial
from ioassay.targets import target
spec = {"kind": "virtual", "size": "64MiB", "calibrate": False, "model": "none", "ways": ["fuse"], "form": sys.argv[1]}
with target(spec, Consent()).load(Trial("0" * 16, "s", "null", {}, {}, {}, {}, 0, 1, 0)) as load:
    (load.path / "file" if load.kind == "folder" else load.path).open("r+b" if load.kind != "folder" else "wb").close()
    print("ready", flush=True)
    sys.stdin.read()
"""


@root
@pytest.mark.parametrize("form", ["file", "device", "folder"])
def test_a_runner_that_is_killed_leaves_nothing(form: str, place: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(place)}
    argv = [sys.executable, "-c", HOLDS_A_DRIVE, form]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as runner:
        assert runner.stdout is not None and runner.stdout.readline() == b"ready\n"
        assert os.listdir(place)
        runner.kill()
    until(lambda: left(place) == [])


@root
def test_a_loop_device_has_the_blocks_of_its_drive(place: Path) -> None:
    with made(form="device", model="none", ways=["fuse"], block_size=4096).load(TRIAL) as load:
        assert Path("/sys/block", load.path.name, "queue/logical_block_size").read_text() == "4096\n"
        descriptor = os.open(load.path, os.O_RDONLY | os.O_DIRECT)
        os.close(descriptor)
    until(lambda: left(place) == [])


@root
def test_a_drive_that_hangs_is_told_and_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(form="folder", size="64MiB", model="none", ways=["fuse"]).load(TRIAL) as load:
        (load.path / "file").write_bytes(b"not written back yet" * 4096)
        monkeypatch.setattr(serving, "_ANSWER_S", 0.3)
        monkeypatch.setattr(virtual, "_DYING_S", 0.1)
        os.kill(serving_process(), signal.SIGSTOP)
        with pytest.raises(ToolError, match="no drive answers there: timed out"):
            load.counted()
    until(lambda: left(place) == [])


def test_what_a_form_needs_is_looked_for_before_the_first_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual.shutil, "which", lambda name: None)
    monkeypatch.setattr(virtual.os, "access", lambda path, mode: True)
    monkeypatch.setattr(virtual.os, "geteuid", lambda: 1000)
    with pytest.raises(StudyError, match="fusermount3 for users other than root; Debian has it in the package fuse3"):
        made(ways=["fuse"]).inspect(WRITE)
    assert made(ways=["nbd"]).inspect(WRITE) == []
    monkeypatch.setattr(virtual.os, "geteuid", lambda: 0)
    with pytest.raises(StudyError, match=r"mkfs\.xfs is not installed"):
        made(form="folder", filesystem="xfs").inspect(WRITE)


@root
@pytest.mark.parametrize("settings", [{"model": "none", "policy": "lru"}, {"policy": "none"}])
def test_options_that_have_no_effect_are_no_error_of_a_trial(place: Path, settings: dict[str, Any]) -> None:
    """They may be levels of a factor that the other models and policies have."""
    with made(ways=["fuse"], buffer="1MiB", **settings).load(TRIAL) as load:
        assert load.counted().metrics["drive.errors"] == 0
    until(lambda: left(place) == [])


def test_options_that_have_no_effect_are_a_warning() -> None:
    (warning,) = made(ways=["nbd"], model="none", policy="lru").inspect(WRITE)
    assert warning.code == "drive-option-unused" and warning.text.startswith("policy: not used by model 'none'")


def faulty(folder: Path, text: str) -> str:
    path = folder / "faults.toml"
    path.write_text(text)
    return str(path)


@root
def test_faults_begin_with_the_trial_and_end_with_it(tmp_path: Path, place: Path) -> None:
    plan = faulty(tmp_path, '[[fault]]\nkind = "write-error"\n[[fault]]\nkind = "stuck"\nop = "trim"\nfor = "1h"\n')
    with made(ways=["fuse"], form="folder", size="64MiB", model="none", faults=plan).load(TRIAL) as load:
        file = load.new_file("data", 1 << 20)  # which is filled while nothing fails
        assert load.counted().metrics["drive.faults"] == 0
        with file.open("r+b") as opened, pytest.raises(OSError, match="Input/output error"):
            opened.write(b"x" * 4096)
            os.fsync(opened.fileno())
        counted = load.counted()
        assert counted.metrics["drive.faults"] > 0
        assert counted.document["counted"]["faults"][0]["kind"] == "write-error"
    until(lambda: left(place) == [])
    with made(ways=["fuse"], model="none").load(TRIAL) as load:
        assert "drive.faults" not in load.counted().metrics


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[fault]]\nkind = "stuck"', "without 'for' would keep a trial from its end"),
        ('[[fault]]\nkind = "slow"', r"fault\[0\]\.kind"),
    ],
)
def test_faults_that_cannot_be_are_said_before_the_first_trial(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(StudyError, match=said) as raised:
        made(faults=faulty(tmp_path, text))
    assert raised.value.key == "target.faults"
    with pytest.raises(StudyError, match="No such file"):
        made(faults="there-is-none.toml")


@root
def test_a_file_where_the_run_was_started_does_not_shadow_a_module_of_the_drive(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "json.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(place)
    with made(ways=["fuse"], model="none").load(TRIAL) as load:
        assert load.path is not None
    (place / "json.py").unlink()
    until(lambda: left(place) == [])


def test_a_drive_of_a_program_that_is_gone_serves_nothing(place: Path) -> None:
    drive = {"transports": [f"nbd:unix:{place}/a"], "size_bytes": 2**20, "model": "none"}
    argv = serving.command([drive])
    code = argv[3].replace(str(os.getpid()), "1")
    done = subprocess.run([*argv[:3], code, *argv[4:]], capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode != 0, done.stdout, left(place)) == (True, b"", [])
