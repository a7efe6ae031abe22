"""Monitors of the trial's own processes: events of the kernel, schedstat, control groups."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.host import perf_events
from ioassay.monitors import control_group, perf, schedstat
from ioassay.monitors.sampler import Sampler
from ioassay.process import supervisor
from ioassay.roles import Monitor, ProcessMonitor

FakeRoot = Callable[..., Path]
CHURN = "for i in 1 2 3 4 5; do /bin/true; done; sleep 0.05"


def watched(monitors: list[Monitor], argv: list[str], tmp_path: Path) -> dict[str, dict[str, float]]:
    """The last reading of each monitor that watched the command from before its first instruction."""
    sampler = Sampler(monitors, 0.01)

    def held(pid: int) -> None:
        sampler.attach(pid)
        sampler.start()

    try:
        supervisor.run(
            argv, stdout=tmp_path / "out", stderr=tmp_path / "err", timeout_s=20,
            on_held=held, on_ended=lambda _: sampler.end(),
        )  # fmt: skip
    finally:
        samples, _ = sampler.stop()
    return {one.monitor: dict(zip(one.name, one.value, strict=True)) for one in samples}


# perf


@pytest.fixture
def events() -> dict[str, str]:
    known = perf_events.availability()
    if known["context_switches"] != "available":
        pytest.skip(f"context switches: {known['context_switches']}")
    return known


def test_events_are_those_of_the_whole_tree_ended_processes_too(tmp_path: Path, events: dict[str, str]) -> None:
    single = watched([perf.PerfMonitor()], ["/bin/true"], tmp_path)["perf"]
    many = watched([perf.PerfMonitor()], ["/bin/sh", "-c", CHURN], tmp_path)["perf"]
    assert many["minor_faults.count"] > 3 * single["minor_faults.count"] > 0
    assert many["context_switches.count"] >= 5  # the shell waits for each of its children
    assert 0 < many["task_clock.count"] < 5e9


def test_nothing_before_the_first_instruction_is_counted(tmp_path: Path, events: dict[str, str]) -> None:
    monitor = perf.PerfMonitor()
    readings = []

    def held(pid: int) -> None:
        monitor.attach(pid)
        readings.append(monitor.read())

    files = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}
    supervisor.run(
        ["/bin/true"], **files, timeout_s=20, on_held=held, on_ended=lambda _: readings.append(monitor.read())
    )
    monitor.detach()
    assert set(readings[0].values()) == {0} and readings[1]["task_clock.count"] > 0
    assert monitor.read() == {}


def test_an_event_that_the_machine_lacks_is_said_and_has_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: dict[str, str]
) -> None:
    opened = perf_events.open_counter

    def without_hardware(event: perf_events.Event, pid: int, *, on_exec: bool = False) -> perf_events.Counter | str:
        return "no counter" if event.multiplexed else opened(event, pid, on_exec=on_exec)

    monkeypatch.setattr(perf_events, "open_counter", without_hardware)
    monitor = perf.PerfMonitor()
    reading = watched([monitor], ["/bin/true"], tmp_path)["perf"]
    assert monitor.unavailable == dict.fromkeys(("cycles", "instructions", "cache_misses"), "not available: no counter")
    assert not [name for name in reading if name.startswith("cycles")]
    assert perf_events.availability()["cycles"] == "not available: no counter"


def test_hardware_events_come_with_the_times_that_scale_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Multiplexed(perf_events.Counter):
        def read(self) -> perf_events.Count:
            return perf_events.Count(300, 1000, 600)

        def close(self) -> None:
            pass

    monkeypatch.setattr(perf_events, "open_counter", lambda event, *_, **__: Multiplexed(event, -1))
    monitor = perf.PerfMonitor()
    monitor.attach(1)
    reading = monitor.read()
    assert [reading[f"cycles.{name}"] for name in perf.FIELDS] == [300, 1000, 600]
    assert "context_switches.running_ns" not in reading


def test_an_architecture_that_is_not_known_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    assert perf_events.open_counter(perf_events.EVENTS[0], 0) == "the number of perf_event_open on abacus is not known"


# schedstat


def task(root: Path, pid: int, tid: int, schedstat: str, comm: str, children: str = "") -> None:
    folder = root / f"proc/{pid}/task/{tid}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"schedstat": schedstat, "comm": comm + "\n", "children": children}.items():
        (folder / name).write_text(text)
    (root / f"proc/{pid}/schedstat").write_text(schedstat)


def test_tasks_are_summed_over_the_tree_and_by_program(fake_root: FakeRoot) -> None:
    root = fake_root({"proc/self/x": ""})
    task(root, 7, 7, "0 0 0", "python")
    monitor = schedstat.SchedstatMonitor(root)
    monitor.attach(7)
    assert monitor.read() == {"run_ns": 0, "wait_ns": 0, "slices": 0, "tasks": 1, "unread": 0}
    task(root, 7, 7, "100 10 1", "stress.ng main", "8")
    task(root, 8, 8, "50 40 2", "worker")
    task(root, 8, 9, "50 50 2", "worker")
    monitor.read()
    assert monitor.read() == {
        "run_ns": 200,
        "wait_ns": 100,
        "slices": 5,
        "tasks": 3,
        "unread": 0,
        "stress_ng_main.run_ns": 100,
        "stress_ng_main.wait_ns": 10,
        "worker.run_ns": 100,
        "worker.wait_ns": 90,
    }


def test_a_task_that_has_ended_keeps_what_it_read_last(fake_root: FakeRoot) -> None:
    root = fake_root({"proc/self/x": ""})
    task(root, 7, 7, "100 10 1", "main", "8")
    task(root, 8, 8, "50 40 2", "worker")
    monitor = schedstat.SchedstatMonitor(root)
    monitor.attach(7)
    monitor.read()
    (root / "proc/7/task/7/children").write_text("")
    reading = monitor.read()
    assert (reading["run_ns"], reading["wait_ns"], reading["tasks"]) == (150, 50, 1)
    assert reading["worker.wait_ns"] == 40


def test_more_tasks_than_are_followed_are_counted_and_not_read(
    fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedstat, "MOST_TASKS", 2)
    root = fake_root({"proc/self/x": ""})
    for tid in (7, 8, 9):
        task(root, 7, tid, "1 1 1", "main")
    monitor = schedstat.SchedstatMonitor(root)
    monitor.attach(7)
    reading = monitor.read()
    assert (reading["run_ns"], reading["tasks"], reading["unread"]) == (2, 3, 1)


def test_a_kernel_without_the_account_is_said(fake_root: FakeRoot) -> None:
    monitor = schedstat.SchedstatMonitor(fake_root({"proc/7/task/7/comm": "main"}))
    monitor.attach(7)
    assert monitor.read() == {} and list(monitor.unavailable) == ["schedstat"]


def test_waiting_for_a_processor_is_seen_on_this_machine(tmp_path: Path) -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel has no /proc/<pid>/schedstat")
    processor = min(os.sched_getaffinity(0))
    burn = "while [ $i -lt 60000 ]; do i=$((i+1)); done"
    script = f"taskset -p -c {processor} $$ >/dev/null; i=0; ({burn}) & ({burn}) & wait"
    reading = watched([schedstat.SchedstatMonitor()], ["/bin/sh", "-c", script], tmp_path)["schedstat"]
    assert reading["wait_ns"] > 0.2 * reading["run_ns"] > 0


# cgroup

UNIFIED = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def test_version_two_gives_accounts_and_the_limit_of_a_group_above(fake_root: FakeRoot) -> None:
    group = "sys/fs/cgroup/lab/ioassay-1-2-3"
    root = fake_root(
        {
            "proc/7/cgroup": "0::/lab/ioassay-1-2-3\n",
            "proc/self/mountinfo": UNIFIED,
            f"{group}/cgroup.controllers": "cpu memory io\n",
            f"{group}/cpu.stat": "usage_usec 1\n",
            f"{group}/cpu.max": "max 100000\n",
            "sys/fs/cgroup/lab/cpu.stat": "usage_usec 900\nuser_usec 500\n"
            "nr_periods 10\nnr_throttled 4\nthrottled_usec 7\n",
            "sys/fs/cgroup/lab/cpu.max": "150000 100000\n",
            f"{group}/memory.max": "1048576\n",
            f"{group}/memory.current": "4096\n",
            f"{group}/memory.events": "low 0\nmax 12\noom_kill 1\n",
            f"{group}/io.stat": "254:0 rbytes=1024 wbytes=512 rios=2 wios=1 dbytes=0\n",
            f"{group}/io.max": "254:0 rbps=1000000 wbps=max riops=max wiops=50\n",
            f"{group}/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=55\nfull avg10=0.00 total=1\n",
        }
    )
    monitor = control_group.CgroupMonitor(root)
    monitor.attach(7)
    assert monitor.read() == {
        "own": 1,
        "cpu.usage_us": 900,
        "cpu.user_us": 500,
        "cpu.periods": 10,
        "cpu.throttled": 4,
        "cpu.throttled_us": 7,
        "cpu.quota_us": 150000,
        "cpu.period_us": 100000,
        "memory.limit_bytes": 1048576,
        "memory.usage_bytes": 4096,
        "memory.limit_hits": 12,
        "memory.oom_kills": 1,
        "254:0.read_sectors": 2,
        "254:0.write_sectors": 1,
        "254:0.reads": 2,
        "254:0.writes": 1,
        "254:0.read_limit": 1e6,
        "254:0.write_limit_iops": 50,
        "memory.some_us": 55,
    }


def test_version_one_gives_the_same_fields(fake_root: FakeRoot) -> None:
    trees = {name: f"sys/fs/cgroup/{name}/t" for name in ("cpu", "cpuacct", "memory", "blkio")}
    mounts = "".join(
        f"{n} 1 0:{n} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n" for n, name in enumerate(trees)
    )
    root = fake_root(
        {
            "proc/7/cgroup": "".join(f"{n}:{name}:/t\n" for n, name in enumerate(trees)),
            "proc/self/mountinfo": mounts,
            f"{trees['cpu']}/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 7000\n",
            f"{trees['cpu']}/cpu.cfs_quota_us": "-1\n",
            f"{trees['cpu']}/cpu.cfs_period_us": "100000\n",
            f"{trees['cpuacct']}/cpuacct.usage": "5000\n",
            f"{trees['memory']}/memory.limit_in_bytes": "9223372036854771712\n",
            f"{trees['memory']}/memory.failcnt": "3\n",
            f"{trees['memory']}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            f"{trees['blkio']}/blkio.throttle.io_service_bytes": "254:0 Read 1024\n254:0 Write 0\nTotal 1024\n",
            f"{trees['blkio']}/blkio.throttle.read_bps_device": "254:0 1000000\n",
        }
    )
    monitor = control_group.CgroupMonitor(root)
    monitor.attach(7)
    assert monitor.read() == {
        "own": 0,
        "cpu.periods": 10,
        "cpu.throttled": 4,
        "cpu.throttled_us": 7,
        "cpu.period_us": 100000,
        "cpu.usage_us": 5,
        "memory.limit_hits": 3,
        "memory.oom_kills": 2,
        "254:0.read_sectors": 2,
        "254:0.write_sectors": 0,
        "254:0.read_limit": 1e6,
    }


def test_the_root_group_has_no_account(fake_root: FakeRoot) -> None:
    root = fake_root(
        {"proc/7/cgroup": "0::/\n", "proc/self/mountinfo": UNIFIED, "sys/fs/cgroup/cgroup.controllers": ""}
    )
    monitor = control_group.CgroupMonitor(root)
    monitor.attach(7)
    assert monitor.read() == {}
    assert monitor.unavailable == {"cgroup": "not available: the processes are in the root group, which has no account"}


def test_monitors_of_processes_are_told_apart_and_others_are_left_alone() -> None:
    assert isinstance(perf.PerfMonitor(), ProcessMonitor)
    assert isinstance(control_group.CgroupMonitor(), ProcessMonitor)
    assert isinstance(schedstat.SchedstatMonitor(), ProcessMonitor)
