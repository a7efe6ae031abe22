"""The kernel's NVMe/TCP host on machines that are made up: what is written to it, which devices are ours, what stays.

A real kernel reads the same text in tests/guest/test_kernel_client.py.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S, until

from ioassay.errors import ConditionError, ToolError
from ioassay.packs.virtual_drive.targets import nvme_host
from ioassay.packs.virtual_drive.targets.nvme_host import Subsystem
from ioassay.packs.virtual_drive.targets.virtual import VirtualTarget
from ioassay.process.supervisor import Captured
from ioassay.roles import READ, Consent, Trial
from ioassay.targets import target

NQN = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"
OURS = Subsystem("127.0.0.1:4420", NQN, "IOASSAY1", 2**20)
HOST = "00000000-0000-4000-8000-000000000001"
TRIAL = Trial("0" * 16, "s", "null", {}, {}, {}, {}, 0, 1, 0)


def a_block_device() -> Path:
    """Any node of one: it is looked at and never opened."""
    found = next((path for path in sorted(Path("/dev").iterdir()) if path.is_block_device()), None)
    if found is None:
        pytest.skip("no block device is in /dev here")
    return found


@dataclass
class Machine:
    """A kernel with an NVMe/TCP host: `follow` plays its part while a test runs."""

    root: Path
    serial: str = "IOASSAY1"
    size_bytes: int = 2**20
    multipath: bool = True
    has_character: bool = True
    is_slow: bool = False
    """It connects, and no namespace appears."""
    has_module: bool = True
    asked: list[list[str]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        (self.root / "dev").mkdir(parents=True)
        (self.root / "sys/block").mkdir(parents=True)
        (self.root / "sys/class/nvme").mkdir(parents=True)
        if self.has_module:
            self.load()

    def load(self) -> None:
        (self.root / "sys/module/nvme_tcp").mkdir(parents=True)
        (self.root / "dev/nvme-fabrics").touch()

    def run(self, argv: Sequence[str]) -> Captured:
        """Of modprobe."""
        self.asked.append(list(argv))
        if "--dry-run" not in argv:
            self.load()
        return Captured(0, "", "", timed_out=False)

    def controller(
        self, name: str, nqn: str = NQN, address: str = "traddr=127.0.0.1,trsvcid=4420,src_addr=127.0.0.1"
    ) -> Path:
        folder = self.root / name
        folder.mkdir()
        for file, text in {"subsysnqn": nqn, "transport": "tcp", "address": address, "serial": self.serial}.items():
            (folder / file).write_text(f"{text}\n")
        (folder / "delete_controller").touch()
        return folder.rename(self.root / "sys/class/nvme" / name)  # nobody sees it in part

    def namespace(self, name: str, nqn: str = NQN) -> None:
        """Its device is the subsystem with multipath, and the controller without."""
        node = a_block_device()
        status = node.stat()
        folder = self.root / "sys/devices" / name
        of_nqn = folder / "device"
        of_nqn.mkdir(parents=True)
        for file, text in {"subsysnqn": nqn, "serial": self.serial}.items():
            (of_nqn / file).write_text(f"{text}\n")
        (folder / "dev").write_text(f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}\n")
        (folder / "size").write_text(f"{self.size_bytes // 512}\n")
        (self.root / "dev" / name).symlink_to(node)
        if self.has_character:
            (self.root / "dev" / f"ng{name.removeprefix('nvme')}").touch()
        (self.root / "sys/block" / name).symlink_to(folder)

    def follow(self) -> None:
        """Connect what is written, and delete what is to be deleted."""
        fabrics = self.root / "dev/nvme-fabrics"
        while not self.stop.wait(0.005):
            with suppress(OSError):
                if fabrics.read_text() and not (self.root / "sys/class/nvme/nvme3").exists():
                    fabrics.write_text("")
                    self.controller("nvme3")
                    if not self.is_slow:
                        self.namespace("nvme3n1")
                for folder in (self.root / "sys/class/nvme").iterdir():
                    if (folder / "delete_controller").read_text() == "1":
                        for name in (folder.name, f"{folder.name}n1"):
                            (self.root / "sys/block" / name).unlink(missing_ok=True)
                        shutil.rmtree(folder.rename(self.root / "gone"))

    def controllers(self) -> list[str]:
        return sorted(folder.name for folder in (self.root / "sys/class/nvme").iterdir())


@contextmanager
def followed(machine: Machine) -> Iterator[Machine]:
    thread = threading.Thread(target=machine.follow)
    thread.start()
    try:
        yield machine
    finally:
        machine.stop.set()
        thread.join()


def test_the_text_for_the_kernel_names_the_drive_and_polled_queues_and_gives_up_soon() -> None:
    assert nvme_host.options(OURS, 2, HOST) == (
        f"transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn={NQN},"
        f"hostnqn=nqn.2014-08.org.nvmexpress:uuid:{HOST},hostid={HOST},"
        "nr_io_queues=2,nr_poll_queues=2,keep_alive_tmo=5,reconnect_delay=2,ctrl_loss_tmo=10"
    )


@pytest.mark.parametrize(("processors", "queues"), [(1, 1), (7, 7), (64, 7)])
def test_all_queues_fit_a_controller_of_the_drive(processors: int, queues: int) -> None:
    text = nvme_host.options(OURS, processors, HOST)
    assert re.findall(r"queues=(\d+)", text) == [str(queues)] * 2 and 2 * queues <= 16


@pytest.mark.parametrize("has_character", [True, False])
def test_the_devices_of_the_drive_are_found_and_those_of_others_stay(tmp_path: Path, has_character: bool) -> None:
    with followed(Machine(tmp_path, has_character=has_character)) as machine:
        machine.controller("nvme0", "nqn.another")  # somebody reused the port
        machine.controller("nvme1", NQN, "traddr=10.0.0.1,trsvcid=4420")  # or serves the same name elsewhere
        with nvme_host.connected(OURS, tmp_path, machine.run) as found:
            assert (found.controller, found.block) == ("nvme3", tmp_path / "dev/nvme3n1")
            assert found.character == (tmp_path / "dev/ng3n1" if has_character else None)
            assert machine.controllers() == ["nvme0", "nvme1", "nvme3"]
        assert machine.controllers() == ["nvme0", "nvme1"]
    assert machine.asked == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"serial": "OTHER"}, "serial number 'OTHER', expected 'IOASSAY1': not used"),
        ({"size_bytes": 2**30}, "expected 1048576: not used"),
        ({"is_slow": True}, "has no block device of it"),
    ],
)
def test_what_is_not_the_drive_or_does_not_appear_is_disconnected_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], reason: str
) -> None:
    if "is_slow" in settings:
        monkeypatch.setattr(nvme_host, "_APPEARS_S", 0.2)
    connect = nvme_host._connect  # of the kernel it returns when the controller is there
    monkeypatch.setattr(nvme_host, "_connect", lambda *given: (connect(*given), until(machine.controllers)))
    with (
        followed(Machine(tmp_path, **settings)) as machine,
        pytest.raises(ToolError, match=reason),
        nvme_host.connected(OURS, tmp_path, machine.run),
    ):
        raise AssertionError("it was used")
    assert machine.controllers() == []


def test_a_kernel_that_refuses_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "dev/nvme-fabrics").unlink()
    with (
        pytest.raises(ToolError, match="No such file or directory; dmesg"),
        nvme_host.connected(OURS, tmp_path, machine.run),
    ):
        raise AssertionError("it connected")


def test_the_module_is_loaded_only_for_a_trial(tmp_path: Path) -> None:
    with followed(Machine(tmp_path, has_module=False)) as machine:
        assert nvme_host.lack(tmp_path, machine.run) == ""
        assert machine.asked == [["modprobe", "--dry-run", "--quiet", "nvme_tcp"]]
        with nvme_host.connected(OURS, tmp_path, machine.run):
            assert machine.asked[1:] == [["modprobe", "nvme_tcp"]]


@pytest.mark.parametrize("fails", [lambda argv: Captured(1, "", "not found", timed_out=False), None])
def test_a_kernel_without_the_module_lacks_a_host(
    tmp_path: Path, fails: Callable[[Sequence[str]], Captured] | None
) -> None:
    def absent(argv: Sequence[str]) -> Captured:
        raise ToolError("cannot start 'modprobe'")

    machine = Machine(tmp_path, has_module=False)
    assert "modprobe nvme-tcp" in nvme_host.lack(tmp_path, fails or absent)
    with pytest.raises(ToolError, match="cannot be loaded"), nvme_host.connected(OURS, tmp_path, fails or absent):
        raise AssertionError("it connected")
    assert machine.controllers() == []


KILLED = """
import os, signal, sys
from pathlib import Path
from ioassay.packs.virtual_drive.targets import nvme_host
root = Path(sys.argv[1])
ours = nvme_host.Subsystem("127.0.0.1:4420", sys.argv[2], "IOASSAY1", 2**20)
with nvme_host.connected(ours, root, None):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_runner_leaves_no_connection(tmp_path: Path) -> None:
    with followed(Machine(tmp_path)) as machine:
        machine.controller("nvme0", "nqn.another")
        done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), NQN], check=False, timeout=PATIENCE_S)
        assert done.returncode == -signal.SIGKILL
        until(lambda: machine.controllers() == ["nvme0"])


def made(root: Path, **settings: object) -> VirtualTarget:
    found = target({"kind": "virtual", "size": "16MiB", "model": "none", **settings}, Consent(), root=root)
    assert isinstance(found, VirtualTarget)
    return found


def ways(of: VirtualTarget, folder: Path) -> list[str]:
    return [text.partition(":")[0] for text in of._description(folder)["transports"]]


def test_the_kernels_form_is_the_block_device_where_the_kernel_has_a_host(tmp_path: Path) -> None:
    (tmp_path / "with/sys/module/nvme_tcp").mkdir(parents=True)
    assert ways(made(tmp_path / "with", form="kernel"), tmp_path) == ["nvme-tcp"]
    assert made(tmp_path / "with", form="kernel").inspect(READ) == []


def test_the_kernels_form_is_the_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvme_host, "lack", lambda root: "there is none")
    assert ways(made(tmp_path, form="kernel"), tmp_path) == ["fuse"]
    (told,) = made(tmp_path, form="nvme").inspect(READ)
    assert (told.code, told.text) == ("will-be-skipped", "target.form = 'nvme': there is none")
    with pytest.raises(ConditionError, match="there is none"), made(tmp_path, form="nvme-character").load(TRIAL):
        raise AssertionError("it was served")


@pytest.mark.parametrize(
    ("form", "name", "past_cache"), [("nvme", "nvme3n1", False), ("nvme-character", "ng3n1", True)]
)
def test_a_trial_loads_the_device_that_the_kernel_has_of_its_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, name: str, past_cache: bool
) -> None:
    connected: list[Subsystem] = []

    @contextmanager
    def connect(subsystem: Subsystem, root: Path) -> Iterator[nvme_host.Connected]:
        connected.append(subsystem)
        yield nvme_host.Connected("nvme3", tmp_path / "nvme3n1", tmp_path / "ng3n1")

    monkeypatch.setattr(nvme_host, "lack", lambda root: "")
    monkeypatch.setattr(nvme_host, "connected", connect)
    with made(tmp_path, form=form).load(TRIAL) as load:
        assert (load.kind, load.path, load.size_bytes) == ("device", tmp_path / name, 16 * 2**20)
        (subsystem,) = connected
        assert subsystem == Subsystem(load.addresses["nvme_tcp"], load.addresses["nqn"], "IOASSAY1", 16 * 2**20)
        assert load.counted is not None
        counted = load.counted()
    assert counted.metrics["drive.block_device"] == 1.0 and counted.past_cache == past_cache
    assert "drive.floor" not in counted.metrics, "model none is calibrated only where a study says so"


def test_a_transports_own_time_is_measured_where_a_study_says_so(tmp_path: Path) -> None:
    with made(tmp_path, ways=["nvme-tcp"], calibrate=True).load(TRIAL) as load:
        assert load.counted is not None
        counted = load.counted()
    assert counted.metrics.get("drive.floor", 1.0) > 0 and not counted.warnings, "none of a model's time is doubtful"
    assert counted.metrics["drive.cpu"] >= 0 and counted.metrics["drive.block_device"] == 0.0
