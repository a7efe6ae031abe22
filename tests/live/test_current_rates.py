"""The current rates of a running trial: once a second, of that second, from what the tool and a made-up kernel say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.drivers.null import Null
from ioassay.roles import CurrentRates, Rates
from ioassay.runner.current_rates import RateReader


class Stating(Null):
    """A tool whose output is the number of its requests a second."""

    def rates(self, output: str) -> Rates | None:
        return Rates(float(output), 0.0) if output else None


class Scene:
    """A clock that is moved by hand, a tool's output, and /proc/diskstats."""

    def __init__(self, folder: Path, device: str = "sda") -> None:
        self.now_s, self.stdout, self.diskstats = 100.0, folder / "stdout", folder / "proc" / "diskstats"
        self.diskstats.parent.mkdir()
        self.count(reads=1000, read_sectors=8000, read_ms=500)
        self.reported: list[CurrentRates] = []
        self.reader = RateReader(Stating(), self.stdout, device, self.reported.append, folder, lambda: self.now_s)
        self.reader.begin()

    def count(
        self, reads: int = 0, read_sectors: int = 0, read_ms: int = 0, writes: int = 0, write_ms: int = 0
    ) -> None:
        row = f"8 0 sda {reads} 0 {read_sectors} {read_ms} {writes} 0 {8 * writes} {write_ms} 0 0 0 0 0 0 0 0 0\n"
        self.diskstats.write_text(f"8 16 sdb 9 9 9 9 9 9 9 9 9 9 9\n{row}")

    def after(self, seconds: float) -> CurrentRates | None:
        self.now_s += seconds
        before = len(self.reported)
        self.reader.report()
        return self.reported[-1] if len(self.reported) > before else None


def test_they_come_once_a_second_and_are_those_of_that_second(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.count(reads=1500, read_sectors=12_000, read_ms=600, writes=500, write_ms=100)
    assert scene.after(0.4) is None
    first = scene.after(0.1)
    assert first == CurrentRates(0.5, None, "sda", Rates(2000.0, 512 * 16_000.0), 200_000.0)
    assert scene.after(0.5) == CurrentRates(1.0, None, "sda", Rates(0.0, 0.0))
    assert scene.after(0.4) is None
    scene.count(reads=1600, read_sectors=12_800, read_ms=640, writes=500, write_ms=100)
    later = scene.after(1.6)
    assert later == CurrentRates(3.0, None, "sda", Rates(50.0, 512 * 400.0), 400_000.0)
    assert scene.after(0.9) is None
    assert scene.after(0.1) is not None


def test_a_latency_that_rounding_would_change_is_none(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.count(reads=1100, read_sectors=8800, read_ms=519)
    rates = scene.after(1.0)
    assert rates is not None
    assert (rates.storage, rates.latency_ns) == (Rates(100.0, 512 * 800.0), None)


@pytest.mark.parametrize("device", ["", "sdz"])
def test_without_a_device_there_is_no_number_of_one(tmp_path: Path, device: str) -> None:
    assert Scene(tmp_path, device).after(1.0) == CurrentRates(1.0)


def test_a_device_that_is_unplugged_has_no_number(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.diskstats.write_text("")
    assert scene.after(1.0) == CurrentRates(1.0)


def test_a_tool_states_nothing_once_it_has_been_silent(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "")
    stated = []
    for text in ("5", "70", None, None, None):
        if text is not None:
            scene.stdout.write_text(text)
        rates = scene.after(1.0)
        stated.append(rates.tool.iops if rates and rates.tool else None)
    assert stated == [5.0, 70.0, 70.0, 70.0, None]


def test_only_the_end_of_a_long_output_is_read(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "")
    scene.stdout.write_text(" " * 1_000_000 + "7")
    rates = scene.after(1.0)
    assert rates is not None
    assert rates.tool == Rates(7.0, 0.0)
