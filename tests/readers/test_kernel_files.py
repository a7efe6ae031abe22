"""Files of /proc and /sys and what tools say of drives, damaged: a kernel does not lie, but there are odd ones.

A fact that cannot be read is not known, and a reading that cannot be taken is a warning of the sampler: nothing here
may end a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from ioassay import host, validation
from ioassay.errors import IoassayError, ToolError
from ioassay.host import block_devices, disks, mounts
from ioassay.host.machine import Machine
from ioassay.monitors import MONITORS, monitor
from ioassay.process.supervisor import Captured
from ioassay.verify.witness import counters

from .mutation import COPIES, withstands

FakeRoot = Callable[[Mapping[str, "str | bytes | Path | None"]], Path]
CPU = "sys/devices/system/cpu"
DISK = "sys/devices/pci0/nvme0/nvme0n1"
FILES: dict[str, str] = {
    "proc/stat": "cpu  14044 1 6562 337493 3661 0 182 68 5 6\ncpu0 1168 0 888 88293 113 0 39 13 0 0\nintr 45 0 7\n"
    "ctxt 727122\nbtime 1795221167\nprocesses 13454\nprocs_running 2\nprocs_blocked 1\n"
    "softirq 99887 1 2 3 4 5 6 7 8 9 10\n",
    "proc/diskstats": " 259 0 nvme0n1 82121 11743 4537682 82511 54729 52914 8667496 25239 3 41012 108888 7457 141"
    " 1434832 779 10562 358\n",
    "proc/meminfo": "MemTotal:       24683672 kB\nMemFree: 12000000 kB\nMemAvailable: 20000000 kB\nCached: 1000 kB\n"
    "Dirty: 512 kB\nSwapTotal: 100 kB\nSwapFree: 90 kB\nHugePages_Total: 0\n",
    "proc/vmstat": "nr_free_pages 3\npgpgin 5000\npgpgout 600\npgmajfault 7\npswpin 0\nnr_dirtied 11\n",
    "proc/net/dev": "Inter-| Receive | Transmit\n face |bytes packets\n"
    "    lo:    3293      31    0    0    0     0          0         0     3293 31 0 0 0 0 0 0\n",
    "proc/pressure/io": "some avg10=11.05 avg60=2.10 avg300=1.14 total=309\nfull avg10=10 avg60=2 avg300=1 total=7\n",
    "proc/pressure/cpu": "some avg10=11.05 avg60=2.10 avg300=1.14 total=30940979\n",
    "proc/pressure/memory": "some avg10=1.05 avg60=2.10 avg300=1.14 total=309\nfull avg10=1 avg60=2 avg300=1 total=7\n",
    "proc/loadavg": "0.25 1.50 2.00 3/146 9804\n",
    "proc/uptime": "900.5 3000.1\n",
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Example CPU\nflags\t\t: fpu hypervisor\n",
    "proc/cmdline": "root=UUID=1 quiet mitigations=off isolcpus=1\n",
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "proc/self/status": "Name:\tcat\nCpus_allowed_list:\t0-3\n",
    "proc/self/mountinfo": "27 1 0:9 / / rw,relatime - tmpfs tmpfs rw\n"
    "30 27 259:0 / /data rw,noatime shared:1 - ext4 /dev/nvme0n1 rw,discard\n",
    "proc/7/io": "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n",
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n',
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    f"{CPU}/cpu0/topology/physical_package_id": "0\n",
    f"{CPU}/cpu0/topology/core_id": "0\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
    f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "3400000\n",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "7\n",
    f"{CPU}/cpu0/thermal_throttle/package_throttle_count": "7\n",
    f"{CPU}/cpu0/cpuidle/state0/latency": "2\n",
    "sys/class/hwmon/hwmon0/name": "coretemp\n",
    "sys/class/hwmon/hwmon0/temp1_label": "Package id 0\n",
    "sys/class/hwmon/hwmon0/temp1_input": "48000\n",
    "sys/class/thermal/thermal_zone0/type": "x86_pkg_temp\n",
    "sys/class/thermal/thermal_zone0/temp": "61000\n",
    f"{DISK}/dev": "259:0\n",
    f"{DISK}/size": "4000\n",
    f"{DISK}/ro": "0\n",
    f"{DISK}/diskseq": "9\n",
    f"{DISK}/queue/scheduler": "[none] mq-deadline kyber\n",
    f"{DISK}/queue/rotational": "0\n",
    f"{DISK}/queue/logical_block_size": "512\n",
    f"{DISK}/queue/nr_requests": "1023\n",
    f"{DISK}/device/model": "Example NVMe\n",
}
LINKS = {
    "sys/dev/block/259:0": Path("../../devices/pci0/nvme0/nvme0n1"),
    "sys/class/block/nvme0n1": Path("../../devices/pci0/nvme0/nvme0n1"),
    "sys/block/nvme0n1": Path("../devices/pci0/nvme0/nvme0n1"),
    "data": None,
}
LSCPU = {"lscpu": [{"field": "Model name:", "data": "Example", "children": [{"field": "L2 cache:", "data": "1 MiB"}]}]}
SMART = {
    "smart_status": {"passed": True},
    "temperature": {"current": 40},
    "power_on_time": {"hours": 7},
    "nvme_smart_health_information_log": {"critical_warning": 0, "percentage_used": 1, "media_errors": 0},
}
NVME = {"critical_warning": 0, "temperature": 310, "percent_used": 1, "avail_spare": 100, "media_errors": 0}


@pytest.fixture
def root(fake_root: FakeRoot) -> Path:
    return fake_root({**FILES, **LINKS})


def damage(root: Path, name: str, look: Callable[[], object], count: int = COPIES) -> None:
    """Each file in turn."""
    for file, text in FILES.items():
        path = root / file

        def read(copy: bytes, path: Path = path) -> None:
            path.write_bytes(copy)
            look()

        withstands(read, [text.encode()], f"{name} {file}", refuses=False, count=max(count // len(FILES), 1))
        path.write_text(text)


@pytest.mark.parametrize("name", MONITORS)
def test_monitors(root: Path, name: str) -> None:
    """The sampler takes ValueError, IndexError and the like of one reading for a warning (`monitors.sampler`)."""
    from ioassay.monitors.sampler import Sampler

    def look() -> None:
        sampler = Sampler([monitor(name, root=root, devices=["nvme0n1"])], 0.25)
        sampler.start()
        sampler.stop()

    damage(root, f"monitor {name}", look, count=COPIES // 8)


def test_host_facts(root: Path) -> None:
    def look() -> None:
        try:
            validation.table(json.dumps(host.facts(root / "data", root, sleep=lambda _: None)), "host.json")
        except IoassayError as error:  # of a device nothing is guessed
            assert "wanted" in str(error)

    damage(root, "host", look, count=COPIES // 2)


def test_block_devices_and_mounts(root: Path) -> None:
    def look() -> None:
        for found in (lambda: block_devices.named("nvme0n1", root), lambda: mounts.mount_of(root / "data", root)):
            try:
                device = found()
                if isinstance(device, block_devices.Device):
                    block_devices.family(device, root)
            except IoassayError as error:
                assert str(error)
        counters.disk_counters(["nvme0n1"], root)
        try:
            counted = counters.Counters(["nvme0n1"], root)
        except IoassayError:
            return
        counted.begin(7)
        counted.end(7)
        json.dumps(counted.result(None), allow_nan=False)

    damage(root, "block devices", look, count=COPIES // 2)


@pytest.mark.parametrize(("tool", "answer"), [("lscpu", LSCPU), ("smartctl", SMART), ("nvme", NVME)])
def test_answers_of_tools(root: Path, tool: str, answer: object) -> None:
    said = ""

    def capture(argv: Sequence[str]) -> Captured:
        if argv[0] != tool:
            raise ToolError("it is not there")
        return Captured(0, said, "", False)

    def read(copy: bytes) -> None:
        nonlocal said
        said = copy.decode("utf-8", "replace")
        device = block_devices.named("nvme0n1", root)
        assert device is not None
        from ioassay.host import cpus

        machine = Machine(root, capture)
        json.dumps([cpus.facts(machine), disks.health(machine, device)])

    withstands(read, [json.dumps(answer).encode()], f"answers of {tool}", tree="json", refuses=False, count=COPIES // 2)
