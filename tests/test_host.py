"""Host facts from a fake root: what is there is read, what is not there is an absent key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay import host
from ioassay.errors import ToolError
from ioassay.host import cpus, disks, system
from ioassay.host.machine import Machine, choices, known, selected
from ioassay.process import landlock
from ioassay.process.landlock import Support
from ioassay.process.supervisor import Captured
from ioassay.roles import Tool

FakeRoot = Callable[..., Path]
Tree = Mapping[str, str | bytes | Path | None]

CPU = "sys/devices/system/cpu"
LAPTOP: Tree = {
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Example CPU\nflags\t\t: fpu\n",
    "proc/sys/kernel/ostype": "Linux\n",
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "proc/sys/kernel/version": "#1 SMP PREEMPT_DYNAMIC Debian\n",
    "proc/sys/kernel/hostname": "somewhere\n",
    "proc/cmdline": "root=UUID=1 quiet\n",
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n',
    "proc/meminfo": "MemTotal:       1000 kB\nMemAvailable:    900 kB\nSwapTotal: 100 kB\nSwapFree:  90 kB\n",
    "proc/sys/vm/swappiness": "60\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "proc/loadavg": "0.16 0.14 0.13 2/122 13454\n",
    "proc/uptime": "900.5 3000.1\n",
    "proc/stat": "cpu  800 0 100 9000 50 0 50 50 0 0\n",
    "proc/self/status": "Name:\tcat\nCpus_allowed_list:\t0-3\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm \n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/class/power_supply/BAT0/status": "Discharging\n",
    "sys/class/power_supply/mouse/type": "Battery\n",
    "sys/class/power_supply/mouse/scope": "Device\n",
    "sys/class/power_supply/mouse/status": "Full\n",
    "sys/class/dmi/id/sys_vendor": "Example Ltd\n",
    "sys/devices/system/node/node0": None,
    f"{CPU}/intel_pstate/no_turbo": "0\n",
    f"{CPU}/smt/control": "on\n",
    f"{CPU}/vulnerabilities/meltdown": "Not affected\n",
    f"{CPU}/vulnerabilities/spectre_v2": "Mitigation: IBRS\n",
    f"{CPU}/cpu0/cpuidle/state0/name": "POLL\n",
    f"{CPU}/cpu0/cpuidle/state0/latency": "0\n",
    f"{CPU}/cpu0/cpuidle/state1/name": "C10\n",
    f"{CPU}/cpu0/cpuidle/state1/latency": "1034\n",
    f"{CPU}/cpu0/cpuidle/state1/disable": "1\n",
    "sys/class/thermal/thermal_zone0/type": "acpitz\n",
    "sys/class/thermal/thermal_zone0/temp": "99000\n",
    "sys/class/thermal/thermal_zone1/type": "x86_pkg_temp\n",
    "sys/class/thermal/thermal_zone1/temp": "61000\n",
    **{f"{CPU}/cpu{n}/topology/physical_package_id": "0\n" for n in range(4)},
    **{f"{CPU}/cpu{n}/topology/core_id": f"{n // 2}\n" for n in range(4)},
    **{f"{CPU}/cpu{n}/cpufreq/scaling_governor": f"{'powersave' if n else 'performance'}\n" for n in range(4)},
    **{f"{CPU}/cpu{n}/thermal_throttle/package_throttle_count": "7\n" for n in range(4)},
    f"{CPU}/cpu0/cpufreq/scaling_available_governors": "performance powersave\n",
    f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
    f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_performance\n",
}

PARTITION = "sys/devices/pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p2"
DISK = "sys/devices/pci0000:00/nvme/nvme0/nvme0n1"
CRYPT = "sys/devices/virtual/block/dm-0"
STACK: Tree = {
    "proc/self/mountinfo": (
        "27 1 0:9 / / rw,relatime - tmpfs tmpfs rw\n"
        "30 27 254:0 / /data rw,noatime shared:1 - ext4 /dev/mapper/secret rw,discard\n"
    ),
    "proc/diskstats": "259 0 nvme0n1 100 0 0 0 50 0 0 0 0 0 0\n254 0 dm-0 10 0 0 0 5 0 0 0 0 0 0\n8 0 sda 1\n",
    "data/here": None,
    "sys/dev/block/254:0": Path("../../devices/virtual/block/dm-0"),
    "sys/dev/block/259:2": Path("../../devices/pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p2"),
    "sys/dev/block/259:0": Path("../../devices/pci0000:00/nvme/nvme0/nvme0n1"),
    f"{CRYPT}/dev": "254:0\n",
    f"{CRYPT}/size": "1000\n",
    f"{CRYPT}/ro": "0\n",
    f"{CRYPT}/dm/uuid": "CRYPT-LUKS2-0123-secret\n",
    f"{CRYPT}/slaves/nvme0n1p2": Path("../../../../pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p2"),
    f"{CRYPT}/queue/scheduler": "none\n",
    f"{PARTITION}/dev": "259:2\n",
    f"{PARTITION}/partition": "2\n",
    f"{PARTITION}/size": "2000\n",
    f"{PARTITION}/start": "2048\n",
    f"{PARTITION}/alignment_offset": "0\n",
    f"{DISK}/dev": "259:0\n",
    f"{DISK}/size": "4000\n",
    f"{DISK}/wwid": "eui.0011\n",
    f"{DISK}/device/model": "Example NVMe 1TB   \n",
    f"{DISK}/device/serial": "S123\n",
    f"{DISK}/device/firmware_rev": "2.0\n",
    f"{DISK}/device/device/current_link_speed": "8.0 GT/s PCIe\n",
    f"{DISK}/device/device/max_link_speed": "16.0 GT/s PCIe\n",
    f"{DISK}/device/device/current_link_width": "4\n",
    f"{DISK}/device/device/max_link_width": "4\n",
    f"{DISK}/queue/scheduler": "[none] mq-deadline kyber\n",
    f"{DISK}/queue/rotational": "0\n",
    f"{DISK}/queue/nr_requests": "1023\n",
    f"{DISK}/queue/read_ahead_kb": "128\n",
    f"{DISK}/queue/write_cache": "write back\n",
    f"{DISK}/queue/wbt_lat_usec": "2000\n",
    f"{DISK}/queue/physical_block_size": "512\n",
}


def captured(answers: Mapping[str, str]) -> Callable[[Sequence[str]], Captured]:
    """Stands in for commands: by the first word, or by all words."""

    def capture(argv: Sequence[str]) -> Captured:
        said = answers.get(" ".join(argv), answers.get(argv[0]))
        if said is None:
            raise ToolError(f"cannot start '{argv[0]}'")
        return Captured(0, said, "", False)

    return capture


def facts(root: Path, path: Path | None = None, **options: Any) -> dict[str, Any]:
    found = host.facts(path, root, sleep=lambda _: None, **options)
    json.dumps(found)
    return found


def test_the_processors_are_described_with_all_that_makes_their_speed_vary(fake_root: FakeRoot) -> None:
    cpu = facts(fake_root(LAPTOP))["cpu"]
    assert cpu["model"] == "Example CPU"
    assert (cpu["cpus"], cpu["cores"], cpu["sockets"], cpu["threads_per_core"], cpu["numa_nodes"]) == (4, 2, 1, 2, 1)
    assert cpu["governors"] == {"performance": 1, "powersave": 3}
    assert cpu["available_governors"] == ["performance", "powersave"]
    assert cpu["frequency_driver"] == "intel_pstate"
    assert cpu["energy_preference"] == "balance_performance"
    assert cpu["turbo"] is True
    assert cpu["smt"] == "on"
    assert cpu["mitigations"] == {"spectre_v2": "Mitigation: IBRS"}
    assert cpu["idle"]["states"][1] == {"name": "C10", "latency_us": 1034, "disabled": True}
    assert cpu["throttled"] == 7
    assert cpu["temperature_c"] == 61


@pytest.mark.parametrize(("file", "text", "turbo"), [("cpufreq/boost", "1", True), ("cpufreq/boost", "0", False)])
def test_turbo_of_other_drivers_is_called_boost(fake_root: FakeRoot, file: str, text: str, turbo: bool) -> None:
    assert facts(fake_root({f"{CPU}/{file}": text}))["cpu"]["turbo"] is turbo


@pytest.mark.parametrize(
    ("text", "lacks"), [("flags\t\t: fpu avx avx2\n", False), ("flags\t\t: fpu avx\n", True), ("Features: fp\n", False)]
)
def test_an_x86_processor_without_avx2_is_known(fake_root: FakeRoot, text: str, lacks: bool) -> None:
    assert cpus.lacks_avx2(fake_root({"proc/cpuinfo": text})) is lacks


def test_the_system_is_described(fake_root: FakeRoot) -> None:
    found = facts(fake_root(LAPTOP))
    assert found["kernel"]["release"] == "6.1.0-18-amd64"
    assert found["kernel"]["cmdline"] == "root=UUID=1 quiet"
    assert found["distribution"] == {"id": "debian", "version": "12", "name": "Debian GNU/Linux 12 (bookworm)"}
    assert found["memory"]["total_bytes"] == 1000 * 1024
    assert found["memory"]["swap_free_bytes"] == 90 * 1024
    assert found["memory"]["huge_pages"] == "madvise"
    assert found["memory"]["swappiness"] == 60
    assert found["clock"]["source"] == "tsc"
    assert found["clock"]["available"] == ["tsc", "hpet", "acpi_pm"]
    assert found["power"] == {"on_battery": True}
    assert found["limits"]["affinity"] == "0-3"
    assert found["virtualisation"] == {"vendor": "Example Ltd"}
    assert found["activity"]["load"] == [0.16, 0.14, 0.13]
    assert found["activity"]["uptime_s"] == 900.5
    assert found["activity"]["steal_share"] == 0.05
    assert found["user"] == {"root": os.geteuid() == 0}


def test_an_empty_machine_has_few_facts_and_no_error(tmp_path: Path) -> None:
    found = facts(tmp_path, Path("/nowhere/at/all"))
    assert set(found) == {"schema", "gathered_unix_s", "clock", "activity", "ioassay", "user", "disk"}
    assert found["disk"] == {"path": "/nowhere/at/all"}


def test_unreadable_and_senseless_files_are_absent_keys(fake_root: FakeRoot) -> None:
    root = fake_root(
        {
            "proc/cpuinfo": None,  # a folder where a file should be
            "proc/meminfo": b"\xff\xfe MemTotal\nMemAvailable: many kB\n",
            "proc/loadavg": "",
            "proc/diskstats": "nonsense\n",
            "proc/stat": "cpu\n",
            "proc/self/cgroup": "nonsense",
            "proc/self/mountinfo": "also nonsense\n",
            "proc/1/stat": "1 (no end",
            f"{CPU}/cpu0/cpufreq/scaling_governor": "\n",
        }
    )
    found = facts(root, Path("/"))
    assert "cpu" not in found
    assert "memory" not in found
    assert "load" not in found["activity"]


def test_lscpu_adds_what_files_do_not_tell_flat_or_nested(fake_root: FakeRoot) -> None:
    flat = {"lscpu": [{"field": "Architecture:", "data": "aarch64"}, {"field": "Model name:", "data": "Neoverse-N1"}]}
    nested = {"lscpu": [{"field": "Architecture:", "data": "aarch64"},
                        {"field": "Vendor ID:", "data": "ARM", "children": [{"field": "Model name:", "data": "Neoverse-N1"}]}]}  # fmt: skip  # noqa: E501
    for said in (flat, nested):
        cpu = facts(fake_root({"proc/cpuinfo": ""}), capture=captured({"lscpu": json.dumps(said)}))["cpu"]
        assert (cpu["architecture"], cpu["model"]) == ("aarch64", "Neoverse-N1")
    assert "cpu" not in facts(fake_root({}), capture=captured({"lscpu": "no JSON"}))


@pytest.mark.parametrize(
    ("tree", "answers", "vm", "container"),
    [
        ({}, {"systemd-detect-virt --vm": "kvm\n", "systemd-detect-virt --container": "docker\n"}, "kvm", "docker"),
        ({}, {"systemd-detect-virt --vm": "none\n", "systemd-detect-virt --container": "none\n"}, None, None),
        ({"proc/cpuinfo": "flags : fpu hypervisor\n"}, {}, "unknown", None),
        ({"proc/cpuinfo": "flags : fpu hypervisor\n"}, {"systemd-detect-virt --vm": "none"}, "unknown", None),
        ({"sys/hypervisor/type": "xen\n"}, {}, "xen", None),
    ],
)
def test_a_virtual_machine_is_recognised(
    fake_root: FakeRoot, tree: Tree, answers: Mapping[str, str], vm: str | None, container: str | None
) -> None:
    found = facts(fake_root(tree), capture=captured(answers)).get("virtualisation", {})
    assert (found.get("vm"), found.get("container")) == (vm, container)


def test_limits_of_control_groups_are_the_tightest_of_all_levels(fake_root: FakeRoot) -> None:
    group = "sys/fs/cgroup"
    root = fake_root(
        {
            "proc/self/cgroup": "0::/user.slice/job\n",
            f"{group}/cgroup.controllers": "cpu io memory\n",
            f"{group}/user.slice/cpu.max": "150000 100000\n",
            f"{group}/user.slice/job/cpu.max": "max 100000\n",
            f"{group}/user.slice/memory.max": "max\n",
            f"{group}/user.slice/job/memory.max": "1048576\n",
            f"{group}/user.slice/io.max": "259:0 rbps=1000 wbps=max\n",
        }
    )
    limits = facts(root)["limits"]
    assert limits == {"version": 2, "cpus": 1.5, "memory_bytes": 1 << 20, "io": ["259:0 rbps=1000 wbps=max"]}


def test_limits_of_control_groups_of_version_1(fake_root: FakeRoot) -> None:
    group = "sys/fs/cgroup"
    root = fake_root(
        {
            "proc/self/cgroup": "5:blkio:/a\n4:memory:/a/b\n2:cpu,cpuacct:/a\n0::/\n",
            f"{group}/cpu/a/cpu.cfs_quota_us": "50000\n",
            f"{group}/cpu/a/cpu.cfs_period_us": "100000\n",
            f"{group}/cpu/cpu.cfs_quota_us": "-1\n",
            f"{group}/memory/a/memory.limit_in_bytes": "4096\n",
            f"{group}/memory/memory.limit_in_bytes": "9223372036854771712\n",
            f"{group}/blkio/a/blkio.throttle.read_bps_device": "8:0 1000\n",
        }
    )
    limits = facts(root)["limits"]
    assert limits == {"version": 1, "cpus": 0.5, "memory_bytes": 4096, "io": ["8:0 1000 (read_bps)"]}


def stat_line(pid: int, name: str, ticks: int) -> str:
    return f"{pid} ({name}) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 100 0 0\n"


def test_busy_processes_and_requests_of_others_are_what_changed_while_looking(fake_root: FakeRoot) -> None:
    root = fake_root(
        {
            **STACK,
            "proc/7/stat": stat_line(7, "idle one", 100),
            "proc/8/stat": stat_line(8, "a (b) \x1b[2J", 100),
            "proc/9/stat": stat_line(9, "updatedb", 100),
            "proc/10/stat": stat_line(10, "unattended-upgr", 5),
            "proc/10/cmdline": "/usr/bin/python3\0/usr/share/unattended-upgrade-shutdown\0--wait-for-signal\0",
            "proc/11/stat": stat_line(11, "apt-get", 5),
        }
    )

    def work(seconds: float) -> None:
        assert seconds == 0.5
        (root / "proc/8/stat").write_text(stat_line(8, "a (b) \x1b[2J", 140))
        (root / "proc/9/stat").write_text(stat_line(9, "updatedb", 110))
        (root / "proc/12/").mkdir()
        (root / "proc/12/stat").write_text(stat_line(12, "new", 500))
        stats = str(STACK["proc/diskstats"])
        (root / "proc/diskstats").write_text(stats.replace("nvme0n1 100", "nvme0n1 130"))

    found = host.facts(Path("/data"), root, observe_s=0.5, sleep=work)["activity"]
    per_s = os.sysconf("SC_CLK_TCK")
    assert found["busy"] == [
        {"pid": 8, "name": "a (b) ?[2J", "share": round(40 / per_s / 0.5, 2)},
        {"pid": 9, "name": "updatedb", "share": round(10 / per_s / 0.5, 2)},
    ]
    assert found["disk_requests"] == {"nvme0n1": 30, "dm-0": 0}
    assert found["background"] == ["apt-get", "updatedb"]


def test_the_disk_under_a_path_is_followed_down_to_the_drive(fake_root: FakeRoot) -> None:
    root = fake_root(STACK)
    disk = facts(root, Path("/data/here/not/made/yet"))["disk"]
    assert disk["path"] == "/data/here/not/made/yet"
    assert disk["mount"]["point"] == "/data"
    assert disk["mount"]["source"] == "/dev/mapper/secret"
    assert disk["mount"]["filesystem"] == "ext4"
    assert {"noatime", "discard"} <= set(disk["mount"]["options"])
    assert disk["free_bytes"] > 0
    assert disk["size_bytes"] >= disk["free_bytes"]
    crypt, partition, drive_ = disk["devices"]
    assert (crypt["name"], crypt["kind"], crypt["built_on"]) == ("dm-0", "crypt", ["nvme0n1p2"])
    assert (partition["name"], partition["kind"], partition["start_bytes"]) == ("nvme0n1p2", "partition", 2048 * 512)
    assert "queue" not in partition
    assert (drive_["name"], drive_["kind"], drive_["size_bytes"]) == ("nvme0n1", "disk", 4000 * 512)
    assert (drive_["model"], drive_["serial"], drive_["firmware"]) == ("Example NVMe 1TB", "S123", "2.0")
    assert drive_["queue"]["scheduler"] == "none"
    assert drive_["queue"]["schedulers"] == ["none", "mq-deadline", "kyber"]
    assert drive_["queue"]["rotational"] is False
    assert drive_["queue"]["write_cache"] == "write back"
    assert drive_["queue"]["wbt_lat_usec"] == 2000
    assert "max_sectors_kb" not in drive_["queue"]
    assert drive_["link"] == {"speed": "8.0 GT/s PCIe", "max_speed": "16.0 GT/s PCIe", "width": 4, "max_width": 4}
    assert host.devices(Path("/data/here"), root) == ["dm-0", "nvme0n1p2", "nvme0n1"]


def test_a_path_on_memory_has_a_mount_and_no_devices(fake_root: FakeRoot) -> None:
    disk = facts(fake_root(STACK), Path("/elsewhere"))["disk"]
    assert disk["mount"]["filesystem"] == "tmpfs"
    assert "devices" not in disk
    assert host.devices(None) == []


def test_a_loop_device_leads_to_the_disk_of_its_backing_file(fake_root: FakeRoot) -> None:
    loop = "sys/devices/virtual/block/loop0"
    root = fake_root(
        {
            **STACK,
            "proc/self/mountinfo": str(STACK["proc/self/mountinfo"]) + "40 30 7:0 / /mnt rw - xfs /dev/loop0 rw\n",
            "data/image": "",
            "sys/dev/block/7:0": Path("../../devices/virtual/block/loop0"),
            "sys/block/loop0": Path("../devices/virtual/block/loop0"),
            f"{loop}/dev": "7:0\n",
            f"{loop}/size": "8\n",
            f"{loop}/loop/backing_file": "/data/image\n",
        }
    )
    (root / "mnt").mkdir()
    disk = facts(root, Path("/mnt"))["disk"]
    assert [device["name"] for device in disk["devices"]] == ["loop0", "dm-0", "nvme0n1p2", "nvme0n1"]
    assert disk["devices"][0]["kind"] == "loop"
    assert disk["devices"][0]["backing_file"] == "/data/image"


def test_all_devices_of_a_btrfs_are_found(fake_root: FakeRoot) -> None:
    tree: dict[str, str | Path | None] = {
        "proc/self/mountinfo": "27 1 0:25 / / rw,noatime - btrfs /dev/sda rw,compress=zstd:1\n",
    }
    for number, name in ((0, "sda"), (16, "sdb"), (32, "sdc")):
        folder = f"sys/devices/{name}"
        tree |= {
            f"{folder}/dev": f"8:{number}\n",
            f"{folder}/size": "8\n",
            f"sys/dev/block/8:{number}": Path(f"../../devices/{name}"),
            f"sys/class/block/{name}": Path(f"../../devices/{name}"),
        }
    tree["sys/fs/btrfs/u-1/devices/sda"] = Path("../../../../devices/sda")
    tree["sys/fs/btrfs/u-1/devices/sdb"] = Path("../../../../devices/sdb")
    tree["sys/fs/btrfs/u-2/devices/sdc"] = Path("../../../../devices/sdc")
    assert host.devices(Path("/"), fake_root(tree)) == ["sda", "sdb"]


SMARTCTL = {
    "smart_status": {"passed": True},
    "temperature": {"current": 41},
    "power_on_time": {"hours": 1200},
    "nvme_smart_health_information_log": {"critical_warning": 0, "percentage_used": 3, "media_errors": 0},
}
NVME = {"critical_warning": 4, "temperature": 314, "percent_used": 3, "media_errors": 2, "power_on_hours": 9}


def test_the_health_of_a_drive_is_asked_of_smartctl_or_of_nvme(fake_root: FakeRoot) -> None:
    root = fake_root(STACK)
    by_smartctl = facts(root, Path("/data"), capture=captured({"smartctl": json.dumps(SMARTCTL)}))
    assert by_smartctl["disk"]["devices"][2]["health"] == {
        "passed": True,
        "temperature_c": 41,
        "power_on_h": 1200,
        "critical_warning": 0,
        "percentage_used": 3,
        "media_errors": 0,
    }
    by_nvme = facts(root, Path("/data"), capture=captured({"nvme": json.dumps(NVME)}))["disk"]["devices"][2]["health"]
    assert by_nvme["passed"] is False
    assert by_nvme["temperature_c"] == 41
    assert by_nvme["media_errors"] == 2
    without = facts(root, Path("/data"), capture=captured({"smartctl": "smartctl: permission denied"}))
    assert "health" not in without["disk"]["devices"][2]


def test_a_virtual_disk_is_not_asked_for_its_health() -> None:
    class Vda:
        name = "vda"
        folder = Path("/nowhere")

    assert disks.health(Machine(capture=captured({"smartctl": json.dumps(SMARTCTL)})), Vda()) == {}  # type: ignore[arg-type]


def test_versions_of_tools_are_those_that_are_there(fake_root: FakeRoot) -> None:
    root = fake_root({})
    wanted = [Tool("fio", ["fio", "--version"], (3,), "fio"), Tool("iozone", ["iozone", "-v"], (3,), "iozone3")]
    assert facts(root, tools=wanted, capture=captured({"fio": "\nfio-3.33\nmore"}))["tools"] == {"fio": "fio-3.33"}
    assert "tools" not in facts(root, capture=captured({"fio": "fio-3.33"}))


def test_the_commit_is_that_of_our_checkout_only(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "checkout/python/ioassay", tmp_path / "site-packages/ioassay"
    (tmp_path / "checkout/.git").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    machine = Machine(tmp_path, captured({"git": "0123456789ab-dirty\n"}))
    assert system.ioassay_itself(machine, ours)["commit"] == "0123456789ab-dirty"
    assert "commit" not in system.ioassay_itself(machine, theirs)


def test_whether_trials_can_be_confined_is_a_fact_of_this_machine_and_of_no_other(
    fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "confinement" not in host.facts(None, fake_root({}), observe_s=0)
    for able, wanted in (
        (Support(7), {"landlock": True, "abi": 7}),
        (Support(3), {"landlock": True, "abi": 3, "gaps": ["ioctl calls on devices"]}),
        (Support(0, "it is off"), {"landlock": False, "unusable": "it is off"}),
    ):
        monkeypatch.setattr(landlock, "support", lambda able=able: able)
        assert system.confinement(Machine()) == wanted


def test_facts_of_this_machine_can_be_stored(tmp_path: Path) -> None:
    found = host.facts(tmp_path, observe_s=0.01)
    assert json.loads(json.dumps(found)) == found
    assert found["cpu"]["cpus"] >= 1
    assert found["disk"]["mount"]["point"]


def test_small_readings() -> None:
    assert (selected("a [b] c"), selected("b"), selected(None)) == ("b", "b", None)
    assert (choices("a [b] c"), choices(None)) == (["a", "b", "c"], [])
    assert known(a=None, b=0, c=False, d={}, e=[], f="") == {"b": 0, "c": False, "f": ""}


@pytest.mark.root
def test_a_real_loop_device_is_found_with_what_it_lies_on(
    loop_device: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = loop_device(8 << 20)
    found = host.facts(device, observe_s=0.0)["disk"]
    assert found["devices"][0]["name"] == device.name
    assert found["devices"][0]["kind"] == "loop"
    assert found["devices"][0]["size_bytes"] == 8 << 20
    assert "mount" not in found
    assert [one["name"] for one in found["devices"][1:]] == host.devices(tmp_path)
    monkeypatch.chdir(device.parent)
    assert host.devices(Path(device.name)) == host.devices(device)
