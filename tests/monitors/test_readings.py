"""What each monitor reads from a small fake /proc."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.errors import UsageError
from ioassay.host import perf_events
from ioassay.monitors import COUNTER, GAUGE, MONITORS, field, fields, monitor
from ioassay.monitors.perf import PerfMonitor
from ioassay.roles import Monitor, ProcessMonitor

FakeRoot = Callable[..., Path]

STAT = """cpu  14044 1 6562 337493 3661 0 182 68 5 6
cpu0 1168 0 888 88293 113 0 39 13 0 0
cpu3 10379 0 3997 72487 3457 0 105 31 0 0
intr 452579 0 7 9 0
ctxt 727122
btime 1795221167
processes 13454
procs_running 2
procs_blocked 1
softirq 99887 1 2 3 4 5 6 7 8 9 10
"""
DISKSTATS = """   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 82121 11743 4537682 82511 54729 52914 8667496 25239 3 41012 108888 7457 141 1434832 779 10562 358
 259       1 nvme0n1 10 1 80 5 20 2 160 7 0 11 12
"""
MEMINFO = """MemTotal:       24683672 kB
MemFree:        12000000 kB
MemAvailable:   20000000 kB
Cached:          1000000 kB
Dirty:               512 kB
HugePages_Total:       0
"""
VMSTAT = "nr_free_pages 3\npgpgin 5000\npgpgout 600\npgmajfault 7\npswpin 0\nnr_dirtied 11\n"
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3293      31    0    0    0     0          0         0     3293      31    0    0    0     0       0          0
eth0.100: 100 2 3 4 5 6 7 8 900 10 11 12 13 14 15 16
eth0:1: 1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0
"""  # noqa: E501
PRESSURE = "some avg10=11.05 avg60=2.10 avg300=1.14 total=30940979\nfull avg10=10.69 avg60=2.03 avg300=1.10 total=7\n"


@pytest.fixture
def proc(fake_root: FakeRoot) -> Path:
    return fake_root(
        {
            "proc/stat": STAT,
            "proc/diskstats": DISKSTATS,
            "proc/meminfo": MEMINFO,
            "proc/vmstat": VMSTAT,
            "proc/net/dev": NET_DEV,
            "proc/pressure/io": PRESSURE,
            "proc/loadavg": "0.25 1.50 2.00 3/146 9804\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
            "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "7\n",
            "sys/class/hwmon/hwmon0/name": "coretemp\n",
            "sys/class/hwmon/hwmon0/temp1_label": "Package id 0\n",
            "sys/class/hwmon/hwmon0/temp1_input": "48000\n",
            f"proc/{os.getpid()}/schedstat": "100 20 3\n",
            f"proc/{os.getpid()}/task/{os.getpid()}/schedstat": "100 20 3\n",
            f"proc/{os.getpid()}/task/{os.getpid()}/comm": "tool\n",
            f"proc/{os.getpid()}/cgroup": "0::/\n",
            "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory io\n",
            "sys/fs/cgroup/cpu.stat": "usage_usec 5\n",
        }
    )


def attached(name: str, root: Path = Path("/")) -> Monitor:
    """The monitor, of this process where it is one of processes."""
    made = monitor(name, root=root)
    if isinstance(made, ProcessMonitor):
        made.attach(os.getpid())
    return made


def test_cpu_gives_every_state_of_all_cores_and_of_each(proc: Path) -> None:
    reading = monitor("cpu", root=proc).read()
    assert reading["all.user"] == 14044
    assert reading["all.guest_nice"] == 6
    assert reading["cpu3.iowait"] == 3457
    assert reading["cpu0.steal"] == 13
    assert "cpu1.user" not in reading  # offline
    assert (reading["context_switches"], reading["interrupts"], reading["forks"]) == (727122, 452579, 13454)
    assert (reading["running"], reading["blocked"], reading["softirqs"]) == (2, 1, 99887)


def test_cpu_gives_soft_interrupts_of_each_kind(proc: Path) -> None:
    reading = monitor("cpu", root=proc).read()
    assert (reading["hi.softirqs"], reading["net_rx.softirqs"], reading["rcu.softirqs"]) == (1, 4, 10)


def test_cpu_sees_what_changed_since_the_file_was_opened(proc: Path) -> None:
    cpu = monitor("cpu", root=proc)
    cpu.read()
    (proc / "proc/stat").write_text(STAT.replace("14044", "14144"))
    assert cpu.read()["all.user"] == 14144


def test_disk_gives_all_fields_of_the_chosen_device(proc: Path) -> None:
    reading = monitor("disk", devices=["vda"], root=proc).read()
    assert {name.partition(".")[0] for name in reading} == {"vda"}
    assert reading["vda.reads"] == 82121
    assert reading["vda.write_sectors"] == 8667496
    assert reading["vda.in_flight"] == 3
    assert reading["vda.flush_ms"] == 358
    assert len(reading) == len(fields("disk")) == 17


def test_disk_of_an_old_kernel_has_only_the_fields_it_knows(proc: Path) -> None:
    reading = monitor("disk", devices=["nvme0n1"], root=proc).read()
    assert reading["nvme0n1.weighted_io_ms"] == 12
    assert "nvme0n1.discards" not in reading


def test_disk_without_chosen_devices_watches_all_but_unused_loop_devices(proc: Path) -> None:
    idle = " 259       2 nvme1n1 0 0 0 0 0 0 0 0 0 0 0\n"
    (proc / "proc/diskstats").write_text(DISKSTATS + idle)
    reading = monitor("disk", root=proc).read()
    assert {name.partition(".")[0] for name in reading} == {"vda", "nvme0n1", "nvme1n1"}
    assert reading["nvme1n1.reads"] == 0  # so that its first request has something to be counted from


def test_a_device_that_is_unplugged_disappears_from_the_reading(proc: Path) -> None:
    disk = monitor("disk", devices=["vda", "nvme0n1"], root=proc)
    assert "nvme0n1.reads" in disk.read()
    (proc / "proc/diskstats").write_text("".join(DISKSTATS.splitlines(keepends=True)[:2]))
    assert {name.partition(".")[0] for name in disk.read()} == {"vda"}


def test_memory_gives_bytes_and_paging_counters(proc: Path) -> None:
    reading = monitor("memory", root=proc).read()
    assert reading["free_bytes"] == 12000000 * 1024
    assert reading["dirty_bytes"] == 512 * 1024
    assert reading["paged_in_kib"] == 5000
    assert reading["major_faults"] == 7
    assert "slab_bytes" not in reading


def test_net_gives_each_interface_even_with_dots_and_colons_in_its_name(proc: Path) -> None:
    reading = monitor("net", root=proc).read()
    assert reading["lo.rx_bytes"] == reading["lo.tx_bytes"] == 3293
    assert reading["eth0.100.rx_dropped"] == 4
    assert reading["eth0.100.tx_bytes"] == 900
    assert reading["eth0.100.tx_dropped"] == 12
    assert reading["eth0:1.tx_packets"] == 2
    assert field("net", "eth0.100.tx_bytes") == fields("net")["tx_bytes"]


def test_pressure_gives_shares_and_totals_of_what_the_kernel_has(proc: Path) -> None:
    reading = monitor("pressure", root=proc).read()
    assert reading == {
        "io.some_avg10": 11.05,
        "io.some_total": 30940979,
        "io.full_avg10": 10.69,
        "io.full_total": 7,
    }


def test_scheduler_gives_loads_and_tasks(proc: Path) -> None:
    reading = monitor("scheduler", root=proc).read()
    assert reading == {"load1": 0.25, "load5": 1.5, "load15": 2.0, "runnable": 3, "tasks": 146}


def test_null_counts_its_readings() -> None:
    null = monitor("null")
    assert [null.read()["readings"], null.read()["readings"]] == [1, 2]


@pytest.mark.parametrize("name", sorted(MONITORS))
def test_a_monitor_is_called_what_the_list_calls_it_and_reads_known_fields(name: str, proc: Path) -> None:
    made = attached(name, proc)
    reading = made.read()
    assert made.name == name
    if isinstance(made, PerfMonitor) and not reading:
        assert made.unavailable.keys() == {event.name for event in perf_events.EVENTS}
        pytest.skip(f"no event can be counted by this user: {made.unavailable['task_clock']}")
    assert reading
    assert [read for read in reading if field(name, read) is None] == []


@pytest.mark.parametrize("name", sorted(MONITORS))
def test_every_field_says_counter_or_gauge_unit_and_meaning(name: str) -> None:
    for known in fields(name).values():
        assert known.kind in (COUNTER, GAUGE)
        assert known.unit
        assert known.meaning


@pytest.mark.parametrize("name", sorted(MONITORS.keys() - {"null", "perf"}))
def test_a_machine_without_the_files_gives_an_empty_reading(name: str, tmp_path: Path) -> None:
    assert attached(name, tmp_path).read() == {}


@pytest.mark.parametrize("name", sorted(MONITORS))
def test_counters_of_this_machine_do_not_shrink(name: str) -> None:
    made = attached(name)
    try:
        before, after = made.read(), made.read()
    except OSError as error:
        pytest.skip(f"this kernel does not give {name}: {error}")
    for name_, value in before.items():
        known = field(name, name_)
        assert known is not None
        # proc_stat(5): iowait (and with it idle) may decrease.
        if known.kind == COUNTER and name_.rpartition(".")[2] not in ("idle", "iowait"):
            assert after.get(name_, value) >= value, name_


def test_an_unknown_monitor_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match=r"no monitor is called 'disc'; did you mean 'disk'\?"):
        monitor("disc")
    with pytest.raises(UsageError, match="known: cpu, disk"):
        fields("quantum")
    assert field("quantum", "spin") is None


@pytest.mark.parametrize("name", sorted(MONITORS))
def test_the_documentation_names_every_monitor_and_field(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs/monitors.md").read_text()
    assert f"## {name}" in page
    section = page.split(f"## {name}\n")[1].split("\n## ")[0]
    assert [known for known in fields(name) if f"`{known}`" not in section] == []
