"""What each monitor reads: rows on small fake trees, and what this machine gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases, files, has, tree

from ioassay.errors import UsageError
from ioassay.host import perf_events
from ioassay.monitors import COUNTER, GAUGE, MONITORS, field, fields, monitor
from ioassay.monitors.perf import PerfMonitor
from ioassay.monitors.sampler import Sampler
from ioassay.monitors.thermal import ThermalMonitor
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
    thermal = ThermalMonitor(root, clock=lambda: now[0])
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
    if isinstance(made, PerfMonitor) and not reading:
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
