"""Frequencies and temperatures, from a small fake /sys and from this machine's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.monitors import monitor
from ioassay.monitors.sampler import Sampler
from ioassay.monitors.thermal import ThermalMonitor

FakeRoot = Callable[..., Path]
CPU = "sys/devices/system/cpu"


def test_each_core_has_its_clock_and_its_throttles(fake_root: FakeRoot) -> None:
    root = fake_root({
        f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
        f"{CPU}/cpu10/cpufreq/scaling_cur_freq": "800000\n",
        f"{CPU}/cpu10/thermal_throttle/core_throttle_count": "3\n",
        f"{CPU}/cpufreq/boost": "1\n",
    })  # fmt: skip
    assert monitor("frequency", root=root).read() == {
        "cpu0.frequency_khz": 2400000,
        "cpu10.frequency_khz": 800000,
        "cpu10.throttles": 3,
    }


def test_cores_that_share_a_clock_have_it_once(fake_root: FakeRoot) -> None:
    root = fake_root({
        f"{CPU}/cpufreq/policy0/scaling_cur_freq": "1500000\n",
        f"{CPU}/cpu0/cpufreq": Path("../cpufreq/policy0"),
        f"{CPU}/cpu1/cpufreq": Path("../cpufreq/policy0"),
    })  # fmt: skip
    assert monitor("frequency", root=root).read() == {"cpu0.frequency_khz": 1500000}


def test_temperatures_are_named_after_chip_and_label_or_zone(fake_root: FakeRoot) -> None:
    root = fake_root({
        "sys/class/hwmon/hwmon0/name": "coretemp\n",
        "sys/class/hwmon/hwmon0/temp1_label": "Package id 0\n",
        "sys/class/hwmon/hwmon0/temp1_input": "48000\n",
        "sys/class/hwmon/hwmon1/name": "nvme\n",
        "sys/class/hwmon/hwmon1/temp1_label": "Composite\n",
        "sys/class/hwmon/hwmon1/temp1_input": "39850\n",
        "sys/class/hwmon/hwmon2/name": "nvme\n",
        "sys/class/hwmon/hwmon2/temp1_label": "Composite\n",
        "sys/class/hwmon/hwmon2/temp1_input": "41850\n",
        "sys/class/thermal/thermal_zone0/type": "acpitz\n",
        "sys/class/thermal/thermal_zone0/temp": "-5000\n",
    })  # fmt: skip
    assert monitor("thermal", root=root).read() == {
        "coretemp_package_id_0.temperature_mc": 48000,
        "nvme_composite.temperature_mc": 39850,
        "nvme_composite_2.temperature_mc": 41850,
        "zone0_acpitz.temperature_mc": -5000,
    }


def test_the_sensor_of_a_sata_disk_is_left_alone(fake_root: FakeRoot) -> None:
    root = fake_root({
        "sys/class/hwmon/hwmon0/name": "drivetemp\n",
        "sys/class/hwmon/hwmon0/temp1_input": "30000\n",
    })  # fmt: skip
    assert monitor("thermal", root=root).read() == {}


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


@pytest.mark.parametrize("text", ["", "no value\n", "N/A"])
def test_a_sensor_without_a_value_is_not_in_the_reading(fake_root: FakeRoot, text: str) -> None:
    root = fake_root({
        "sys/class/thermal/thermal_zone0/type": "cpu\n",
        "sys/class/thermal/thermal_zone0/temp": text,
        f"{CPU}/cpu0/cpufreq/scaling_cur_freq": text,
    })  # fmt: skip
    assert monitor("thermal", root=root).read() == {}
    assert monitor("frequency", root=root).read() == {}


def test_a_sensor_that_comes_back_is_read_again(fake_root: FakeRoot) -> None:
    root = fake_root({f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "1\n", f"{CPU}/cpu1/cpufreq/scaling_cur_freq": "2\n"})
    frequency = monitor("frequency", root=root)
    path = root / f"{CPU}/cpu1/cpufreq/scaling_cur_freq"
    path.unlink()
    assert set(frequency.read()) == {"cpu0.frequency_khz"}
    path.write_text("3\n")
    assert frequency.read()["cpu1.frequency_khz"] == 3


@pytest.mark.parametrize("name", ["frequency", "thermal"])
def test_a_machine_without_sensors_is_no_reason_for_a_warning(name: str, tmp_path: Path) -> None:
    sampler = Sampler([monitor(name, root=tmp_path)], 3600)
    sampler.start()
    samples, _ = sampler.stop()
    assert (len(samples[0].value), sampler.warnings) == (0, [])


@pytest.mark.parametrize("name", ["frequency", "thermal"])
def test_this_machine_s_sensors_are_plausible_where_it_has_them(name: str) -> None:
    reading = monitor(name).read()
    if not reading:
        pytest.skip(f"this machine has nothing for the monitor '{name}'")
    for field, value in reading.items():
        if field.endswith("_khz"):
            assert 50_000 < value < 10_000_000, field
        if field.endswith("_mc"):
            assert -60_000 < value < 150_000, field
