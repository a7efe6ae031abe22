"""A run while it goes: the rates of its trial, once a second, and its state as readers get it, each thing once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ioassay.drivers.null import Null
from ioassay.packs.live.live_page import Cursor, RunState
from ioassay.records.record import Environment, Record
from ioassay.roles import CurrentRates, Rates, Trial
from ioassay.runner.trial import RateReader

QUIET = Environment(
    seconds=1.0, processors=2, own_share=0.9, others_share=0.01, kernel_share=0.0, steal_share=0.0, programs=[]
)


def trial(number: int) -> Trial:
    return Trial(f"{number}", "s", "fio", {"x": number}, {}, {}, {}, 0, 1, number)


def record(of: Trial, status: str = "ok", environment: Environment | None = QUIET, **metrics: float) -> Record:
    kept = {"id": of.id, "study": of.study, "driver": of.driver, "point": of.point, "repetition": of.repetition}
    reason = "it broke\nbadly" if status != "ok" else ""
    return Record(kept, status, reason, started_unix_s=0.0, duration_s=2.0, metrics=metrics, environment=environment)


class Clock:
    """A clock that is moved by hand."""

    now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> RunState:
    return RunState("Title", Path("/runs/r"), 3, 30.0, map(trial, range(3)), clock=clock)


def test_a_new_reader_gets_all_and_then_what_is_new(state: RunState, clock: Clock) -> None:
    news, cursor = state.news(Cursor())
    assert news["whole"]
    assert [row[4] for row in news["rows"]] == ["planned"] * 3
    assert (news["total"], news["left_s"], news["end"]) == (3, 30.0, "")
    state.started(trial(1))
    clock.now_s += 4
    news, cursor = state.news(cursor)
    assert not news["whole"]
    assert news["rows"] == [(1, "s", "x=1", 1, "running", "", "")]
    assert (news["running"], news["running_s"], news["left_s"]) == ("s x=1 #1", 4.0, 26.0)
    state.ended(trial(1), "ok")
    state.recorded(trial(1), record(trial(1), **{"read.iops": 12_300.0, "read.lat.p99": 8e5, "read.bw": 1e6}))
    news, cursor = state.news(cursor)
    result = "Read IOPS: 12.3 k; Read total latency, 99th percentile: 800 µs"
    assert news["rows"] == [(1, "s", "x=1", 1, "ok", result, "2 s")]
    assert (news["counts"], news["left_s"], news["grade"]) == ({"ok": 1}, 8.0, "fit")
    assert state.news(cursor)[0]["rows"] == []
    assert [row[4] for row in state.news(Cursor())[0]["rows"]] == ["planned", "ok", "planned"]


def test_rates_are_points_of_the_charts_and_lines_end_with_their_trial(state: RunState, clock: Clock) -> None:
    state.started(trial(0))
    clock.now_s += 1
    state.measuring(trial(0), CurrentRates(1.0, Rates(5.0, 6.0), "sda", Rates(7.0, 8.0), 9.0))
    news, cursor = state.news(Cursor())
    assert news["points"] == [(1.0, 5.0, 7.0, 9.0)]
    assert news["tool"] == {"name": "fio", "iops": 5.0, "bytes_per_s": 6.0}
    assert news["device"] == {"name": "sda", "iops": 7.0, "bytes_per_s": 8.0}
    clock.now_s += 1
    state.measuring(trial(0), CurrentRates(2.0))
    state.ended(trial(0), "ok")
    news, _ = state.news(cursor)
    assert news["points"] == [(2.0, None, None, None)] * 2
    assert (news["tool"], news["device"], news["latency_ns"], news["rates_age_s"]) == (None, None, None, 0.0)


def test_a_reader_that_was_away_for_long_gets_the_latest_points(state: RunState) -> None:
    _, cursor = state.news(Cursor())
    for number in range(5000):
        state.measuring(trial(0), CurrentRates(1.0, Rates(float(number), 0.0)))
    news, cursor = state.news(cursor)
    assert [point[1] for point in news["points"]] == [float(number) for number in range(4100, 5000)]
    assert state.news(cursor)[0]["points"] == []


def test_a_failed_trial_has_its_reason_as_result(state: RunState) -> None:
    state.started(trial(0))
    state.ended(trial(0), "failed")
    state.recorded(trial(0), record(trial(0), "failed", None))
    assert state.news(Cursor())[0]["rows"][0][4:6] == ("failed", "it broke\\nbadly")


def test_an_unfit_machine_is_named_with_its_reason(state: RunState) -> None:
    state.recorded(trial(0), record(trial(0), environment=replace(QUIET, own_share=0.3, others_share=0.6)))
    news, _ = state.news(Cursor())
    assert (news["grade"], news["conditions"]) == (
        "unfit",
        "Other programs used 60 % of the CPU time. Stop them, or repeat the run with --wait-quiet.",
    )


def test_trials_of_a_search_get_rows_as_they_come(clock: Clock) -> None:
    state = RunState("Title", Path("r"), 9, 1.0, clock=clock)
    state.started(trial(7))
    assert state.news(Cursor())[0]["rows"] == [(0, "s", "x=7", 1, "running", "", "")]


def test_the_first_end_stands(state: RunState) -> None:
    state.end("complete", "It ended.", Path("/runs/r/report/index.html"))
    state.end("failed", "no")
    news, _ = state.news(Cursor())
    assert (news["end"], news["end_text"], news["report"]) == ("complete", "It ended.", "/runs/r/report/index.html")
    assert state.has_ended


# The rates, from what the tool and a made-up kernel say


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
