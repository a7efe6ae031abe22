"""What each monitor reads: rows on small fake trees, what this machine gives, and what a trial's processes cost."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases, files, has, tree
from tests.patience import PATIENCE_S

from ioassay.errors import UsageError
from ioassay.host import perf_events
from ioassay.monitors import COUNTER, GAUGE, MONITORS, field, fields, monitor, process_monitors
from ioassay.monitors.sampler import Sampler
from ioassay.monitors.system_monitors import THERMAL
from ioassay.monitors.text_monitor import TextMonitor
from ioassay.process import supervisor
from ioassay.roles import Monitor, ProcessMonitor

FakeRoot = Callable[..., Path]
MACHINE = tree("monitors", "machine")


def attached(name: str, root: Path = Path("/")) -> Monitor:
    """The monitor, of this process where it is one of processes."""
    made = monitor(name, root=root)
    if isinstance(made, ProcessMonitor):
        made.attach(os.getpid())
    return made


@cases("monitors", "readings")
def test_readings(fake_root: FakeRoot, case: dict[str, Any]) -> None:
    root = fake_root(MACHINE if case.get("machine") else {})
    for number, look in enumerate([case, *case.get("then", ())]):
        fake_root(files(look.get("files", {})))
        if number == 0:
            made = monitor(case["monitor"], devices=case.get("devices", ()), root=root)
            if isinstance(made, ProcessMonitor):
                made.attach(case["process"])
        for name in look.get("gone", ()):
            (root / name).unlink()
        reading = made.read()
        assert reading == look.get("reading", reading)
        assert has(reading, look.get("has", {})) and not reading.keys() & set(look.get("lacks", ()))
        assert [name for name in reading if field(case["monitor"], name) is None] == []
        if "of" in look:
            assert {name.partition(".")[0] for name in reading} == set(look["of"])
        if "unavailable" in look:
            assert isinstance(made, ProcessMonitor) and made.unavailable == look["unavailable"]


def test_sensors_are_asked_once_a_second_and_repeat_their_value(fake_root: FakeRoot) -> None:
    root = fake_root({"sys/class/thermal/thermal_zone0/type": "cpu\n", "sys/class/thermal/thermal_zone0/temp": "1\n"})
    now = [0.0]
    thermal = TextMonitor(THERMAL, root, clock=lambda: now[0])
    found = []
    for value in range(5):
        (root / "sys/class/thermal/thermal_zone0/temp").write_text(f"{value}\n")
        found.append(thermal.read()["zone0_cpu.temperature_mc"])
        now[0] += 0.5
    assert found == [0, 0, 2, 2, 4]


@pytest.mark.parametrize("name", sorted(MONITORS))
def test_a_monitor_is_called_what_the_list_calls_it_and_reads_known_fields(name: str, fake_root: FakeRoot) -> None:
    own = f"proc/{os.getpid()}"
    account = {"schedstat": "100 20 3\n", "task/{}/schedstat": "100 20 3\n", "task/{}/comm": "tool\n"}
    processes = {f"{own}/{path.format(os.getpid())}": text for path, text in account.items()}
    made = attached(name, fake_root({**MACHINE, **processes, f"{own}/cgroup": "0::/\n"}))
    reading = made.read()
    assert made.name == name
    if isinstance(made, process_monitors.PerfMonitor) and not reading:
        assert made.unavailable.keys() == {event.name for event in perf_events.EVENTS}
        pytest.skip(f"no event can be counted by this user: {made.unavailable['task_clock']}")
    assert reading
    assert [read for read in reading if field(name, read) is None] == []


@pytest.mark.parametrize("name", sorted(MONITORS))
def test_every_field_says_counter_or_gauge_unit_and_meaning_and_is_documented(name: str) -> None:
    assert all(known.kind in (COUNTER, GAUGE) and known.unit and known.meaning for known in fields(name).values())
    page = (Path(__file__).parents[2] / "docs/monitors.md").read_text()
    section = page.split(f"## {name}\n")[1].split("\n## ")[0]
    assert [known for known in fields(name) if f"`{known}`" not in section] == []


@pytest.mark.parametrize("name", sorted(MONITORS.keys() - {"null", "perf"}))
def test_a_machine_without_the_files_gives_an_empty_reading(name: str, tmp_path: Path) -> None:
    assert attached(name, tmp_path).read() == {}


@pytest.mark.parametrize("name", ["frequency", "thermal"])
def test_a_machine_without_sensors_is_no_reason_for_a_warning(name: str, tmp_path: Path) -> None:
    sampler = Sampler([monitor(name, root=tmp_path)], 3600)
    sampler.start()
    samples, _ = sampler.stop()
    assert (len(samples[0].value), sampler.warnings) == (0, [])


@pytest.mark.parametrize("name", sorted(MONITORS))
def test_counters_of_this_machine_do_not_shrink_and_sensors_are_plausible(name: str) -> None:
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
        if name_.endswith("_khz"):
            assert 50_000 < value < 10_000_000, name_
        if name_.endswith("_mc"):
            assert -60_000 < value < 150_000, name_


def test_an_unknown_monitor_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match=r"no monitor is called 'disc'; did you mean 'disk'\?"):
        monitor("disc")
    with pytest.raises(UsageError, match="known: cpu, disk"):
        fields("quantum")
    assert field("quantum", "spin") is None


# The trial's own processes

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
    single = watched([process_monitors.PerfMonitor()], ["/bin/true"], tmp_path)["perf"]
    many = watched([process_monitors.PerfMonitor()], ["/bin/sh", "-c", CHURN], tmp_path)["perf"]
    assert many["minor_faults.count"] > 3 * single["minor_faults.count"] > 0
    assert many["context_switches.count"] >= 5  # the shell waits for each of its children
    assert 0 < many["task_clock.count"] < PATIENCE_S * 1e9


def test_nothing_before_the_first_instruction_is_counted(tmp_path: Path, events: dict[str, str]) -> None:
    monitor = process_monitors.PerfMonitor()
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

    def without_hardware(event: perf_events.Event, pid: int, *, on_exec: bool = False) -> int | str:
        return "no counter" if event.kind == perf_events.HARDWARE else opened(event, pid, on_exec=on_exec)

    monkeypatch.setattr(perf_events, "open_counter", without_hardware)
    monitor = process_monitors.PerfMonitor()
    reading = watched([monitor], ["/bin/true"], tmp_path)["perf"]
    assert monitor.unavailable == dict.fromkeys(("cycles", "instructions", "cache_misses"), "not available: no counter")
    assert not [name for name in reading if name.startswith("cycles")]
    assert perf_events.availability()["cycles"] == "not available: no counter"


def test_hardware_events_come_with_the_times_that_scale_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_events, "open_counter", lambda *_, **__: -1)
    monkeypatch.setattr(perf_events, "read", lambda counter: (300, 1000, 600))
    monitor = process_monitors.PerfMonitor()
    monitor.attach(1)
    reading = monitor.read()
    assert [reading[f"cycles.{name}"] for name in monitor.FIELDS] == [300, 1000, 600]
    assert "context_switches.running_ns" not in reading


def test_an_architecture_that_is_not_known_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    assert perf_events.open_counter(perf_events.EVENTS[0], 0) == "the number of perf_event_open on abacus is not known"


# schedstat


def test_more_tasks_than_are_followed_are_counted_and_not_read(
    fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_monitors, "MOST_TASKS", 2)
    root = fake_root({f"proc/7/task/{tid}/{name}": "1 1 1" for tid in (7, 8, 9) for name in ("schedstat", "comm")})
    fake_root({"proc/7/schedstat": "1 1 1"})
    monitor = process_monitors.SchedstatMonitor(root)
    monitor.attach(7)
    reading = monitor.read()
    assert (reading["run_ns"], reading["tasks"], reading["unread"]) == (2, 3, 1)


def test_waiting_for_a_processor_is_seen_on_this_machine(tmp_path: Path) -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel has no /proc/<pid>/schedstat")
    burn = "(while :; do :; done) & while :; do :; done"
    argv = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "/bin/sh", "-c", burn]
    monitor, reading = process_monitors.SchedstatMonitor(), dict[str, float]()

    def enough() -> str:
        reading.update(monitor.read())
        return "it has run for long enough" if reading["run_ns"] > 5e7 else ""

    files = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}
    supervisor.run(argv, **files, timeout_s=PATIENCE_S, on_held=monitor.attach, must_end=enough)
    monitor.detach()
    assert reading["wait_ns"] > 0.2 * reading["run_ns"] > 1e7
