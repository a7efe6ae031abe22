"""Each check of the doctor on a fake machine: a healthy one has no findings, one defect gives exactly its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ioassay import host
from ioassay.host import doctor
from ioassay.process.supervisor import Captured

FakeRoot = Callable[..., Path]

CPU = "sys/devices/system/cpu"
DISK = "sys/devices/pci0/nvme/nvme0/nvme0n1"
PARTITION = f"{DISK}/nvme0n1p1"
HEALTHY: Mapping[str, str | Path | None] = {
    "proc/cpuinfo": "model name\t: Example CPU\nflags\t: fpu\n",
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\nSwapTotal: 1000000 kB\nSwapFree: 1000000 kB\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "proc/loadavg": "0.16 0.14 0.13 2/122 13454\n",
    "proc/stat": "cpu  800 0 100 9000 50 0 50 0 0 0\n",
    "proc/self/status": "Cpus_allowed_list:\t0-3\n",
    "proc/self/mountinfo": "30 1 259:1 / / rw,relatime - ext4 /dev/nvme0n1p1 rw\n",
    "proc/diskstats": "259 0 nvme0n1 100 0 0 0 50 0 0 0 0 0 0\n",
    "proc/7/stat": "7 (bash) S 1 1 1 0 -1 0 0 0 0 0 100 0 0 0 20 0 1 0 100 0 0\n",
    "proc/self/cgroup": "0::/job\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu io memory\n",
    "sys/fs/cgroup/job/cpu.max": "max 100000\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm \n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/class/power_supply/BAT0/status": "Full\n",
    f"{CPU}/intel_pstate/no_turbo": "1\n",
    f"{CPU}/cpu0/cpuidle/state1/name": "C1\n",
    f"{CPU}/cpu0/cpuidle/state1/latency": "2\n",
    **{f"{CPU}/cpu{n}/topology/core_id": f"{n}\n" for n in range(4)},
    **{f"{CPU}/cpu{n}/cpufreq/scaling_governor": "performance\n" for n in range(4)},
    f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
    f"{CPU}/cpu0/thermal_throttle/package_throttle_count": "0\n",
    "sys/dev/block/259:0": Path("../../devices/pci0/nvme/nvme0/nvme0n1"),
    "sys/dev/block/259:1": Path("../../devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p1"),
    f"{PARTITION}/dev": "259:1\n",
    f"{PARTITION}/partition": "1\n",
    f"{PARTITION}/size": "2000\n",
    f"{PARTITION}/start": "2048\n",
    f"{PARTITION}/alignment_offset": "0\n",
    f"{DISK}/dev": "259:0\n",
    f"{DISK}/size": "4000\n",
    f"{DISK}/device/device/current_link_speed": "16.0 GT/s PCIe\n",
    f"{DISK}/device/device/max_link_speed": "16.0 GT/s PCIe\n",
    f"{DISK}/device/device/current_link_width": "4\n",
    f"{DISK}/device/device/max_link_width": "4\n",
    f"{DISK}/queue/scheduler": "[none] mq-deadline kyber bfq\n",
    f"{DISK}/queue/rotational": "0\n",
    f"{DISK}/queue/read_ahead_kb": "128\n",
    f"{DISK}/queue/write_cache": "write through\n",
    f"{DISK}/queue/physical_block_size": "4096\n",
}
TOOLS = {
    "fio": "fio-3.33",
    "smartctl": json.dumps({"smart_status": {"passed": True}, "temperature": {"current": 41}}),
    "systemd-detect-virt": "none",
}


@dataclass(frozen=True)
class Defect:
    """What is wrong with an otherwise healthy machine, and what the finding says: pieces of its text and remedy."""

    code: str
    text: Sequence[str]
    remedy: str
    tree: Mapping[str, str | Path | None] = field(default_factory=dict)
    without: Sequence[str] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    later: Mapping[str, str] = field(default_factory=dict)
    """Files as they are at the second look."""


def mounted(kind: str, options: str = "rw", source: str = "/dev/nvme0n1p1", number: str = "259:1") -> dict[str, str]:
    return {"proc/self/mountinfo": f"30 1 {number} / / rw,relatime - {kind} {source} {options}\n"}


def health(**said: Any) -> dict[str, str]:
    return {"smartctl": json.dumps(said)}


DEFECTS = [
    Defect("governor-not-performance", ["powersave on 1 of 4"], "echo performance | sudo tee /sys/devices/system/cpu/",
           {f"{CPU}/cpu2/cpufreq/scaling_governor": "powersave\n"}),
    Defect("no-governor", ["no cpufreq"], "bare machine", without=[f"{CPU}/cpu{n}/cpufreq" for n in range(4)]),
    Defect("turbo-on", ["turbo is on"], "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo",
           {f"{CPU}/intel_pstate/no_turbo": "0\n"}),
    Defect("turbo-on", ["turbo is on"], "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost",
           {f"{CPU}/cpufreq/boost": "1\n", f"{CPU}/cpu0/cpufreq/scaling_driver": "acpi-cpufreq\n"},
           without=[f"{CPU}/intel_pstate"]),
    Defect("deep-idle-states", ["C10 (1034 µs)"], "cpupower idle-set --disable-by-latency 50",
           {f"{CPU}/cpu0/cpuidle/state2/name": "C10\n", f"{CPU}/cpu0/cpuidle/state2/latency": "1034\n"}),
    Defect("cpu-throttled", ["9 times"], "cooling", {f"{CPU}/cpu0/thermal_throttle/package_throttle_count": "9\n"}),
    Defect("on-battery", ["battery"], "power supply", {"sys/class/power_supply/BAT0/status": "Discharging\n"}),
    Defect("high-load", ["3.50", "4 processors", "less than 1"], "ps -eo", {"proc/loadavg": "3.50 1 1 1/1 1\n"}),
    Defect("busy-processes", ["bash (7, 50% of a core)"], "--pid 7 ",
           later={"proc/7/stat": "7 (bash) S 1 1 1 0 -1 0 0 0 0 0 150 0 0 0 20 0 1 0 100 0 0\n"}),
    Defect("background-services", ["updatedb.plocat"], "sudo systemctl stop updatedb.service",
           {"proc/8/stat": "8 (updatedb.plocat) S 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 100 0 0\n"}),
    Defect("background-services", ["rsync"], "wait",
           {"proc/8/stat": "8 (rsync) S 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 100 0 0\n"}),
    Defect("virtual-machine", ["kvm", "Standard PC"], "ioassay compare",
           {"sys/class/dmi/id/product_name": "Standard PC\n"}, tools={"systemd-detect-virt --vm": "kvm"}),
    Defect("steal-time", ["5.0%"], "dedicated", {"proc/stat": "cpu  800 0 100 9000 50 0 50 50 0 0\n"}),
    Defect("swap-in-use", ["97.7 MiB"], "sudo swapoff --all && sudo swapon --all",
           {"proc/meminfo": str(HEALTHY["proc/meminfo"]).replace("SwapFree: 1000000", "SwapFree: 900000")}),
    Defect("low-memory", ["97.7 MiB of 7.63 GiB"], "ps -eo",
           {"proc/meminfo": str(HEALTHY["proc/meminfo"]).replace("MemAvailable: 7000000", "MemAvailable: 100000")}),
    Defect("huge-pages-always", ["'always'"], "echo madvise | sudo tee",
           {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"}),
    Defect("cpu-limit", ["0.5 of 4 processors"], "CPUQuota", {"sys/fs/cgroup/job/cpu.max": "50000 100000\n"}),
    Defect("cpu-affinity", ["processors 0-1,3 only, of 4"], "taskset --cpu-list 0-3",
           {"proc/self/status": "Cpus_allowed_list:\t0-1,3\n"}),
    Defect("memory-limit", ["1 MiB"], "MemoryMax", {"sys/fs/cgroup/job/memory.max": "1048576\n"}),
    Defect("io-limit", ["259:0 rbps=1000"], "io.max", {"sys/fs/cgroup/job/io.max": "259:0 rbps=1000 wbps=max\n"}),
    Defect("slow-clock-source", ["hpet"], "echo tsc | sudo tee /sys/devices/system/clocksource",
           {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"}),
    Defect("old-kernel", ["4.19.0-6-amd64", "5.10"], "newer kernel", {"proc/sys/kernel/osrelease": "4.19.0-6-amd64\n"}),
    Defect("not-root", ["not root"], "sudo \"$(command -v ioassay)\" …", facts={"user.root": False}),
    Defect("no-witness", ["CAP_BPF is missing"], "--cap-add=BPF", facts={"witness.unusable": "CAP_BPF is missing"}),
    Defect("no-confinement", ["seccomp"], "ioassay help safety", facts={"confinement.unusable": "a seccomp filter"}),
    Defect("leftover-restore-file", ["restore-1-1-1.json"], "ioassay doctor --restore",
           {"run/ioassay/restore-1-1-1.json": "{}"}),
    Defect("low-free-space", ["1 GiB are free on /"], "--set target.size=256MiB",
           facts={"disk.free_bytes": 1 << 30, "disk.size_bytes": 8 << 30}),
    Defect("disk-nearly-full", ["5.0% free"], "sudo fstrim --verbose /",
           facts={"disk.free_bytes": 50 << 30, "disk.size_bytes": 1000 << 30}),
    Defect("memory-filesystem", ["/ is tmpfs"], "findmnt --real", mounted("tmpfs", source="tmpfs", number="0:9")),
    Defect("overlay-filesystem", ["layered file system"], "--volume",
           mounted("overlay", source="overlay", number="0:9")),
    Defect("network-filesystem", ["nfs4 from server:/x"], "findmnt --real",
           mounted("nfs4", source="server:/x", number="0:9")),
    Defect("compressing-filesystem", ["compress=zstd:3"], "chattr +m /", mounted("btrfs", "rw,compress=zstd:3")),
    Defect("compressing-filesystem", ["zfs"], "zfs set compression=off", mounted("zfs", source="tank/x", number="0:9")),
    Defect("access-times", ["strictatime"], "sudo mount -o remount,relatime /",
           {"proc/self/mountinfo": "30 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n"}),
    Defect("discard-on-delete", ["'discard'"], "sudo mount -o remount,nodiscard /", mounted("ext4", "rw,discard")),
    Defect("write-back-cache", ["nvme0n1 has a write-back cache"], "--set params.fsync=1",
           {f"{DISK}/queue/write_cache": "write back\n"}),
    Defect("scheduler", ["nvme0n1 uses bfq, wanted none"], "echo none | sudo tee /sys/block/nvme0n1/queue/scheduler",
           {f"{DISK}/queue/scheduler": "none mq-deadline kyber [bfq]\n"}),
    Defect("read-ahead", ["8192 KiB on nvme0n1"], "echo 128 | sudo tee /sys/block/nvme0n1/queue/read_ahead_kb",
           {f"{DISK}/queue/read_ahead_kb": "8192\n"}),
    Defect("disk-in-use", ["nvme0n1 (300/s)"], "sudo iotop",
           later={"proc/diskstats": "259 0 nvme0n1 300 0 0 0 150 0 0 0 0 0 0\n"}),
    Defect("drive-failing", ["reports trouble: nvme0n1"], "sudo smartctl --all /dev/nvme0n1",
           tools=health(smart_status={"passed": False})),
    Defect("drive-failing", ["reports trouble: nvme0n1"], "sudo smartctl --all /dev/nvme0n1",
           tools=health(nvme_smart_health_information_log={"critical_warning": 0, "media_errors": 3})),
    Defect("drive-hot", ["nvme0n1 77 °C"], "--set run.cooldown=30s", tools=health(temperature={"current": 77})),
    Defect("slow-link", ["8 GT/s x4, and could at 16 GT/s x4"], "another slot",
           {f"{DISK}/device/device/current_link_speed": "8.0 GT/s PCIe\n"}),
    Defect("misaligned-partition", ["nvme0n1p1", "4096 bytes"], "parted --align optimal",
           {f"{PARTITION}/start": "63\n"}),
    Defect("raid-working", ["nvme0n1 (resync)"], "echo idle | sudo tee /sys/block/nvme0n1/md/sync_action",
           {f"{DISK}/md/sync_action": "resync\n"}),
    Defect("layered-device", ["nvme0n1p1 (encryption)"], "the drive itself",
           {f"{PARTITION}/dm/uuid": "CRYPT-LUKS2-1-x\n"}, without=[f"{PARTITION}/partition", f"{PARTITION}/start"]),
]  # fmt: skip


def examined(root: Path, tools: Mapping[str, str], later: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The facts of a fake machine, as root sees it, with plenty of space; `later` happens while it is observed."""

    def capture(argv: Sequence[str]) -> Captured:
        return Captured(0, tools.get(" ".join(argv), tools.get(argv[0], "")), "", False)

    def sleep(_: float) -> None:
        for name, text in (later or {}).items():
            (root / name).write_text(text)

    found = host.facts(Path("/"), root, capture=capture, observe_s=1.0, sleep=sleep)
    found["user"]["root"] = True
    found["witness"], found["confinement"] = {"bpf": True}, {"landlock": True}
    found["disk"] |= {"free_bytes": 500 << 30, "size_bytes": 1000 << 30}
    return found


def change(facts: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, key = dotted.split(".")
    for section in sections:
        facts = facts[section]
    facts[key] = value


def test_a_healthy_machine_has_no_findings(fake_root: FakeRoot) -> None:
    assert doctor.diagnose(examined(fake_root(HEALTHY), TOOLS)) == []


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.code}")
def test_a_defect_gives_its_own_finding_with_value_and_remedy(fake_root: FakeRoot, defect: Defect) -> None:
    root = fake_root(HEALTHY)
    for name in defect.without:
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    fake_root(defect.tree)
    facts = examined(root, {**TOOLS, **defect.tools}, defect.later)
    for dotted, value in defect.facts.items():
        change(facts, dotted, value)
    found = doctor.diagnose(facts)
    assert [warning.code for warning in found] == [defect.code]
    for piece in defect.text:
        assert piece in found[0].text
    assert defect.remedy in found[0].remedy


def test_every_check_has_a_defect_here() -> None:
    assert {defect.code for defect in DEFECTS} == set(doctor.CHECKS)


def test_every_check_is_documented() -> None:
    page = (Path(__file__).parents[1] / "docs/doctor.md").read_text()
    assert [code for code in doctor.CHECKS if f"`{code}`" not in page] == []


@pytest.mark.parametrize(
    "facts", [{}, {"cpu": None}, {"disk": {}}, {"disk": {"devices": [{}]}}, {"limits": {"io": []}}]
)
def test_absent_facts_give_no_findings(facts: Mapping[str, Any]) -> None:
    assert doctor.diagnose(facts) == []


def test_findings_of_stored_facts_are_those_of_the_day(fake_root: FakeRoot) -> None:
    facts = examined(fake_root({**HEALTHY, "proc/loadavg": "9.0 1 1 1/1 1\n"}), TOOLS)
    assert doctor.diagnose(json.loads(json.dumps(facts))) == doctor.diagnose(facts)


@pytest.mark.parametrize(
    ("name", "scheduler", "rotational", "wanted"),
    [
        ("sda", "[none] mq-deadline bfq", "1", "mq-deadline"),
        ("sda", "none [mq-deadline] bfq", "1", None),
        ("sda", "none mq-deadline [bfq]", "0", "none"),
        ("sda", "none [mq-deadline]", "0", None),
        ("vda", "[none] mq-deadline", "1", None),  # a virtual disk calls itself rotational whatever it is
        ("nvme0n1", "none mq-deadline [kyber]", "0", None),
        ("nvme0n1", "none [mq-deadline]", "0", "none"),
        ("sda", "[none]", "1", None),  # no better one to be had
    ],
)
def test_the_scheduler_is_judged_by_the_kind_of_drive(name: str, scheduler: str, rotational: str, wanted: str) -> None:
    queue = {
        "scheduler": scheduler.partition("[")[2].partition("]")[0],
        "schedulers": scheduler.replace("[", "").replace("]", "").split(),
        "rotational": rotational == "1",
    }
    facts = {"disk": {"devices": [{"name": name, "kind": "disk", "queue": queue}]}}
    found = [warning for warning in doctor.diagnose(facts) if warning.code == "scheduler"]
    assert [f"wanted {wanted}" in warning.text for warning in found] == ([True] if wanted else [])


def test_a_mount_point_with_a_space_is_quoted_in_commands(fake_root: FakeRoot) -> None:
    tree = {"proc/self/mountinfo": "30 1 259:1 / / rw,relatime - ext4 /dev/nvme0n1p1 rw,discard\n"}
    facts = examined(fake_root({**HEALTHY, **tree}), TOOLS)
    facts["disk"]["mount"]["point"] = "/my disk; reboot"
    (found,) = doctor.diagnose(facts)
    assert "sudo mount -o remount,nodiscard '/my disk; reboot' " in found.remedy
