"""Monitors of the trial's own processes: events of the kernel and waiting for processors."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from ioassay.host import perf_events
from ioassay.monitors import perf, schedstat
from ioassay.monitors.sampler import Sampler
from ioassay.process import supervisor
from ioassay.roles import Monitor

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
            argv, stdout=tmp_path / "out", stderr=tmp_path / "err", timeout_s=PATIENCE_S,
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
        ["/bin/true"], **files, timeout_s=PATIENCE_S, on_held=held, on_ended=lambda _: readings.append(monitor.read())
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


def test_more_tasks_than_are_followed_are_counted_and_not_read(
    fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedstat, "MOST_TASKS", 2)
    root = fake_root({f"proc/7/task/{tid}/{name}": "1 1 1" for tid in (7, 8, 9) for name in ("schedstat", "comm")})
    fake_root({"proc/7/schedstat": "1 1 1"})
    monitor = schedstat.SchedstatMonitor(root)
    monitor.attach(7)
    reading = monitor.read()
    assert (reading["run_ns"], reading["tasks"], reading["unread"]) == (2, 3, 1)


def test_waiting_for_a_processor_is_seen_on_this_machine(tmp_path: Path) -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel has no /proc/<pid>/schedstat")
    processor = min(os.sched_getaffinity(0))
    burn = "while [ $i -lt 60000 ]; do i=$((i+1)); done"
    script = f"taskset -p -c {processor} $$ >/dev/null; i=0; ({burn}) & ({burn}) & wait"
    reading = watched([schedstat.SchedstatMonitor()], ["/bin/sh", "-c", script], tmp_path)["schedstat"]
    assert reading["wait_ns"] > 0.2 * reading["run_ns"] > 0
