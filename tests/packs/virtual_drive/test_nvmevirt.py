"""The target of NVMeVirt on machines that are made up: commands and system files are fakes, its drive a loop device.

That a real kernel loads it cannot be tested where kernels load no modules.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases, text
from tests.patience import until

from ioassay.errors import ConditionError, RunError, SafetyRefusal, StudyError, ToolError
from ioassay.packs.virtual_drive.targets import nvmevirt
from ioassay.packs.virtual_drive.targets.nvmevirt import NvmevirtTarget
from ioassay.process.supervisor import Captured
from ioassay.roles import NOTHING, WRITE, Consent, Trial
from ioassay.targets import device_users, occupancy, target

from ...targets.conftest import MIB, make_ext4

GIB = 2**30
TRIAL = Trial("0" * 16, "s", "null", {}, {}, {}, {}, 0, 1, 0)
BOOT_LINE = "BOOT_IMAGE=/vmlinuz ro memmap=512M$1G isolcpus=2,3 quiet"
IOMEM = """\
00000000-00000fff : Reserved
00001000-3fffffff : System RAM
  02000000-02ffffff : Kernel code
40000000-5fffffff : Reserved
60000000-7fffffff : System RAM
fed00000-fed003ff : PNP0103:00
"""
CREATED = "[   12.5] NVMeVirt: Virtual NVMe device created"


@dataclass
class Machine:
    """A machine whose kernel loads modules: what it was asked, and what it has."""

    root: Path
    disk: Path | None = None
    """Appears as nvme1n1 when the module is loaded."""
    model: str = "CSL_Virt_MN_01"
    says: Sequence[str] = (CREATED,)
    refuses: dict[str, str] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)
    log: list[str] = field(default_factory=lambda: ["[    0.0] Linux"])

    def __post_init__(self) -> None:
        for name, held in {
            "proc/iomem": IOMEM,
            "proc/cmdline": BOOT_LINE + "\n",
            "proc/modules": "nvme 49152 0 - Live 0x0\n",
            "proc/swaps": "Filename Type Size Used Priority\n",
            "proc/self/mountinfo": "",
            "sys/devices/system/cpu/online": "0-3\n",
            "sys/devices/system/cpu/isolated": "2-3\n",
        }.items():
            self.write(name, held)
        self.write("module/nvmev.ko", "")
        (self.root / "dev").mkdir()
        (self.root / "sys/block").mkdir()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def capture(self, argv: Sequence[str]) -> Captured:
        self.asked.append(list(argv))
        program = argv[0]
        if program in self.refuses:
            return Captured(1, "", self.refuses[program], False)
        if program == "insmod":
            self.loaded()
        elif program == "rmmod":
            self.unloaded()
        return Captured(0, "\n".join(self.log) + "\n" if program == "dmesg" else "", "", False)

    def loaded(self) -> None:
        self.write("proc/modules", "nvmev 81920 0 - Live 0x0\nnvme 49152 0 - Live 0x0\n")
        self.log += self.says
        if self.disk is not None:
            self.appear("nvme1n1", self.disk)

    def appear(self, name: str, disk: Path) -> None:
        status = disk.stat()
        size = int(Path("/sys/block", disk.name, "size").read_text())
        folder = f"sys/devices/{name}"
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        self.write(f"{folder}/dev", number)
        self.write(f"{folder}/size", str(size))
        self.write(f"{folder}/device/model", f"{self.model}    \n")
        (self.root / "sys/block" / name).symlink_to(self.root / folder)
        (self.root / "dev" / name).symlink_to(disk)

    def unloaded(self) -> None:
        self.write("proc/modules", "nvme 49152 0 - Live 0x0\n")
        for name in ("sys/block/nvme1n1", "dev/nvme1n1"):
            (self.root / name).unlink(missing_ok=True)

    def programs(self) -> list[str]:
        return [argv[0] for argv in self.asked if argv[0] != "dmesg"]

    def target(self, *consented: str, **settings: Any) -> NvmevirtTarget:
        spec = {"kind": "nvmevirt", "module": str(self.root / "module/nvmev.ko"), "memmap_start": "1GiB"}
        spec |= {"memmap_size": "512MiB", "cpus": [2, 3], **settings}
        return NvmevirtTarget(spec, Consent(consented), root=self.root, capture=self.capture)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvmevirt, "_APPEARS_S", 0.2)
    monkeypatch.setattr(nvmevirt, "_FREE_S", 0.2)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# Before anything is loaded


def test_a_machine_that_was_booted_for_it_is_good(machine: Machine) -> None:
    assert list(machine.target().inspect(WRITE)) == []
    assert list(machine.target().inspect(NOTHING)) == []
    assert machine.asked == []


@cases("targets", "nvmevirt")
def test_machines_that_were_not_booted_for_it(machine: Machine, case: dict[str, Any]) -> None:
    machine.write("proc/cmdline", case.get("boot_line", BOOT_LINE))
    machine.write("proc/iomem", text({"text": IOMEM, "change": case.get("memory", ())}))
    with pytest.raises(StudyError, match=case["says"]) as found:
        machine.target(**case.get("settings", {})).inspect(WRITE)
    assert found.value.key == case.get("key", found.value.key)
    assert machine.asked == []


def test_boot_lines_are_read_as_the_kernel_reads_them(machine: Machine) -> None:
    machine.write("proc/cmdline", "memmap=0x10M$0x40000000,1K$4096 memmap=2G memmap=1G@3G memmap=x$y root=/dev/sda")
    assert list(nvmevirt.reserved_regions(machine.root)) == [(GIB, GIB + 16 * MIB), (4096, 5120)]


def test_processors_that_others_use_are_a_warning_with_the_boot_line(machine: Machine) -> None:
    machine.write("sys/devices/system/cpu/isolated", "3\n")
    (warning,) = machine.target().inspect(WRITE)
    assert warning.code == "processors-not-isolated"
    assert "processor 2" in warning.text and "isolcpus=2,3" in warning.text


def test_a_module_that_somebody_else_loaded_is_left_as_it_is(machine: Machine) -> None:
    machine.loaded()
    with pytest.raises(SafetyRefusal, match="loaded already, by somebody else: refused"):
        machine.target().inspect(WRITE)
    with pytest.raises(SafetyRefusal, match="rmmod nvmev"), machine.target().load(TRIAL):
        pass
    assert machine.asked == []


def test_a_kernel_without_modules_is_told(machine: Machine) -> None:
    (machine.root / "proc/modules").unlink()
    with pytest.raises(StudyError, match="loads no modules"):
        machine.target().inspect(WRITE)


def test_the_module_is_looked_for_beside_the_study(machine: Machine) -> None:
    spec = {"kind": "nvmevirt", "module": "module/none.ko", "memmap_start": "1GiB", "memmap_size": "2MiB"}
    made = target({**spec, "cpus": [2, 3]}, Consent(), study_folder=machine.root, root=machine.root)
    with pytest.raises(StudyError, match=f"{machine.root}/module/none.ko is no file|requires root"):
        made.inspect(WRITE)


def test_programs_that_load_it_are_looked_for_before_the_first_trial(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(machine.root))
    spec = {"kind": "nvmevirt", "module": "module/nvmev.ko", "memmap_start": "1GiB", "memmap_size": "512MiB"}
    made = target({**spec, "cpus": [2, 3]}, Consent(), study_folder=machine.root, root=machine.root)
    with pytest.raises(ToolError, match=r"insmod and rmmod and dmesg: not found.*kmod"):
        made.inspect(WRITE)


# Loading


def test_a_study_of_a_virtual_drive_can_switch_to_it(machine: Machine) -> None:
    virtual = {"size": "256MiB", "model": "none", "calibrate": True, "ways": ["nbd"], "form": "kernel"}
    assert machine.target(**virtual).inspect(WRITE) == machine.target().inspect(WRITE)
    block = machine.root / "dev/nvme1n1"
    assert machine.target(**virtual)._form_of(block) == block
    with pytest.raises(ConditionError, match="no character device"):
        machine.target(form="nvme-character")._form_of(block)
    machine.write("dev/ng1n1", "")
    assert machine.target(form="nvme-character")._form_of(block) == machine.root / "dev/ng1n1"


@pytest.mark.root
def test_the_drive_that_appears_is_filled_claimed_and_gone_after(machine: Machine, loop_device: Callable) -> None:
    machine.disk = loop_device(8 * MIB)
    made = machine.target()
    with made.load(TRIAL) as load:
        assert load.path == machine.root / "dev/nvme1n1"
        assert (load.kind, load.size_bytes, load.read_only) == ("device", 8 * MIB, False)
        assert occupancy.content(machine.disk).blank == 0
        with pytest.raises(OSError, match="busy"):
            os.open(machine.disk, os.O_RDONLY | os.O_EXCL)
    made.close()
    assert device_users.held() == []
    options = ["memmap_start=1073741824", "memmap_size=536870912", "cpus=2,3"]
    assert [argv for argv in machine.asked if argv[0] != "dmesg"] == [
        ["insmod", str(machine.root / "module/nvmev.ko"), *options],
        ["rmmod", "nvmev"],
    ]


@pytest.mark.root
def test_an_error_in_a_trial_unloads_it_too_and_the_next_has_it_again(machine: Machine, loop_device: Callable) -> None:
    machine.disk = loop_device(4 * MIB)
    made = machine.target(prepare="none")
    with pytest.raises(ZeroDivisionError), made.load(TRIAL):
        raise ZeroDivisionError
    with made.load(TRIAL):
        pass
    assert machine.programs() == ["insmod", "rmmod"] * 2
    assert device_users.held() == []


@pytest.mark.root
def test_a_drive_that_was_there_before_is_not_taken_for_the_modules(machine: Machine, loop_device: Callable) -> None:
    there = loop_device(4 * MIB)
    machine.appear("nvme0n1", there)
    with pytest.raises(ToolError, match="made no drive within"), machine.target().load(TRIAL):
        pass
    assert not any(there.read_bytes())


@pytest.mark.root
def test_memory_that_holds_a_file_system_is_kept_unless_its_loss_is_consented_to(
    machine: Machine, loop_device: Callable
) -> None:
    machine.disk = loop_device(8 * MIB)
    make_ext4(machine.disk)
    with pytest.raises(SafetyRefusal, match=r"holds ext4.*from when it was last loaded(.|\n)*--destroy-data"):
        machine.target().load(TRIAL).__enter__()
    assert machine.programs() == ["insmod", "rmmod"]
    with machine.target("nvme1n1").load(TRIAL) as load:
        assert load.size_bytes == 8 * MIB


@pytest.mark.root
def test_a_drive_in_use_is_not_taken_from_its_user(machine: Machine, loop_device: Callable) -> None:
    machine.disk = loop_device(4 * MIB)
    said = "stays loaded: .*held by the kernel or another program.*rmmod nvmev"
    with pytest.raises(RunError, match=said), machine.target(prepare="none").load(TRIAL):
        (number,) = device_users.held()
        device_users.give_back(number)
        user = os.open(machine.disk, os.O_RDONLY | os.O_EXCL)
        device_users._held[number] = (os.open("/dev/null", os.O_RDONLY), 1)
    os.close(user)
    assert machine.programs() == ["insmod"]


@cases("targets", "nvmevirt_loading")
def test_loading_that_fails(machine: Machine, case: dict[str, Any], loop_device: Callable) -> None:
    if "drive_mib" in case:
        machine.disk = loop_device(case["drive_mib"] * MIB)
    machine.model, machine.refuses = case.get("model", machine.model), case.get("refuses", {})
    machine.log, machine.says = [*machine.log, *case.get("earlier", ())], case.get("log", machine.says)
    machine.write("proc/cmdline", case.get("boot_line", BOOT_LINE))
    settings = {"prepare": "none", **case.get("settings", {})}
    with pytest.raises((RunError, ToolError), match=case["says"]), machine.target(**settings).load(TRIAL):
        assert case.get("loads")
    assert machine.disk is None or not any(machine.disk.read_bytes()), "what is not its drive is not touched"
    assert list(dict.fromkeys(machine.programs())) == case["programs"]  # rmmod may be tried again


def test_what_the_module_says_in_the_log_is_told_where_it_is_refused(machine: Machine) -> None:
    machine.refuses["insmod"] = "insmod: ERROR: could not insert module nvmev.ko: Operation not permitted"
    machine.log.append("[    3.0] NVMeVirt: of an earlier time")

    def refusing(argv: Sequence[str]) -> Captured:
        if argv[0] == "insmod":
            machine.log.append("[   12.0] NVMeVirt: [mem 0x40000000-0x5fffffff] is usable, not reseved region")
        return machine.capture(argv)

    made = machine.target()
    made._capture = refusing
    said = r"memory is not reserved; it says: \[mem 0x40000000-0x5fffffff\] is usable, not reseved region$"
    with pytest.raises(ToolError, match=said), made.load(TRIAL):
        pass
    assert machine.programs() == ["insmod"]


@pytest.mark.root
def test_a_log_without_times_and_one_that_lost_its_beginning_are_read(machine: Machine, loop_device: Callable) -> None:
    machine.disk, machine.log = loop_device(4 * MIB), [CREATED]
    with machine.target(prepare="none").load(TRIAL):
        assert machine.log == [CREATED, CREATED]
    machine.log = ["[    9.0] a", "[   10.0] b"]

    def rotating(argv: Sequence[str]) -> Captured:
        done = machine.capture(argv)
        if argv[0] == "insmod":
            del machine.log[0]
        return done

    made = machine.target(prepare="none")
    made._capture = rotating
    with made.load(TRIAL) as load:
        assert load.size_bytes == 4 * MIB


@pytest.mark.root
def test_a_runner_that_is_killed_has_it_unloaded(machine: Machine, loop_device: Callable) -> None:
    machine.disk = loop_device(4 * MIB)
    runner = os.fork()
    if runner == 0:
        try:
            machine.target(prepare="none").load(TRIAL).__enter__()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)  # it is to be no second pytest
    _, status = os.waitpid(runner, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    until(lambda: (machine.root / "proc/modules").read_text().startswith("nvme "))
