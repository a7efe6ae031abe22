"""The bar of a run: how many trials run, which one began last, how long the rest will take."""

import io

import pytest

from ioassay.cli import progress
from ioassay.roles import CurrentRates, Rates, Trial


class Clock:
    """A clock that is put forward by hand."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class Bar(progress.Bar):
    """A bar of which the test sees what it was asked to show."""

    def __init__(self) -> None:
        super().__init__(io.StringIO(), 10)
        self.shown: dict[str, str] = {}

    def update(self, **shown: str | None) -> None:
        self.shown.update({name: text for name, text in shown.items() if text is not None})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def trial(number: int) -> Trial:
    return Trial(f"{number}", "s", "null", {"x": number}, {}, {}, {}, 0, 1, number)


def test_one_after_the_other(clock: Clock) -> None:
    bar = Bar()
    shown = progress.Terminal(bar, 10, 30.0)
    assert bar.shown["left"] == "30 s"
    for number in range(2):
        shown.started(trial(number))
        assert bar.shown["point"] == f"s x={number} #1"
        clock.now_s += 2
        shown.ended(trial(number), "ok")
    assert bar.shown["left"] == "16 s"


def test_several_at_once_share_the_time(clock: Clock) -> None:
    bar = Bar()
    shown = progress.Terminal(bar, 16, 30.0)
    for number in range(4):
        shown.started(trial(number))
    assert bar.shown["point"] == "s x=3 #1 and 3 more"
    for number in range(4):
        clock.now_s += 2 if number == 0 else 0
        shown.ended(trial(number), "ok")
        shown.started(trial(number + 4))
    assert bar.shown["left"] == "6 s"
    assert bar.shown["point"] == "s x=7 #1 and 3 more"


def test_what_was_kept_tells_nothing_about_the_time(clock: Clock) -> None:
    bar = Bar()
    shown = progress.Terminal(bar, 10, 30.0)
    shown.ended(trial(0), "kept")
    assert bar.shown["left"] == "27 s"


def test_the_bar_is_one_line_that_is_drawn_anew_and_taken_away(clock: Clock) -> None:
    stream = io.StringIO()
    bar = progress.Bar(stream, 4)
    bar.update(left="10 s")
    bar.completed += 1
    bar.update(point="too soon to be drawn")
    clock.now_s += 1
    bar.update(point="s x=1 #1")
    bar.say("failed: s x=0")
    bar.end()
    first, second, rest = stream.getvalue().split("\r", 3)[1:]
    assert first == "╺" + "─" * 23 + " 0/4 10 s left \x1b[K"
    assert second == "━" * 6 + "╺" + "─" * 17 + " 1/4 10 s left s x=1 #1\x1b[K"
    assert rest.startswith("\x1b[Kfailed: s x=0\n") and rest.endswith("\r\x1b[K")


def test_a_log_has_a_line_a_minute(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    shown = progress.Terminal(progress.Log(io.StringIO(), 3), 3, 150.0)
    for number in range(3):
        shown.started(trial(number))
        clock.now_s += 50
        shown.ended(trial(number), "failed")
    said = capsys.readouterr().err.splitlines()
    assert said == ["2 of 3 trials done, 50 s left: s x=1 #1"]


def test_rates_have_a_line_below_the_bar_while_there_are_any(clock: Clock) -> None:
    stream = io.StringIO()
    bar = progress.Bar(stream, 4)
    bar.update(left="10 s", rates="1 s  now fio 5 IOPS")
    clock.now_s += 1
    bar.say("best after 1: x=1")
    clock.now_s += 1
    bar.update(rates="")
    bar.end()
    empty = "╺" + "─" * 23 + " 0/4 10 s left "
    below = "\n1 s  now fio 5 IOPS\x1b[A"
    first, said, again, last, end = stream.getvalue().split("\r")[1:]
    assert first == f"{empty}\x1b[K{below}"
    assert said == "\x1b[Jbest after 1: x=1\n"
    assert again == f"{empty}\x1b[J{below}"
    assert last == f"{empty}\x1b[J"
    assert end == "\x1b[K"


def test_each_source_gives_its_own_numbers(clock: Clock) -> None:
    bar = Bar()
    shown = progress.Terminal(bar, 10, 30.0)
    shown.started(trial(0))
    clock.now_s += 2
    device = Rates(31_000.0, 128e6)
    shown.measuring(trial(0), CurrentRates(2.0, Rates(12_345.0, 50e6), "sda", device, 107_000.0))
    assert bar.shown["rates"] == "2 s  now null 12.3 k IOPS, 50 MB/s   sda 31 k IOPS, 128 MB/s, 107 µs"
    assert bar.shown["left"] == "28 s"
    shown.measuring(trial(0), CurrentRates(3.0, None, "sda", device))
    assert bar.shown["rates"] == "3 s  now sda 31 k IOPS, 128 MB/s"
    shown.measuring(trial(0), CurrentRates(4.0))
    assert bar.shown["rates"] == "4 s"


def test_the_line_of_rates_stays_between_trials_without_old_numbers(clock: Clock) -> None:
    stream = io.StringIO()
    shown = progress.Terminal(progress.Bar(stream, 4), 4, 30.0)
    shown.started(trial(0))
    assert "\n" not in stream.getvalue()
    clock.now_s += 2
    shown.measuring(trial(0), CurrentRates(2.0, Rates(12_345.0, 50e6)))
    clock.now_s += 1
    shown.ended(trial(0), "ok")
    clock.now_s += 1
    shown.started(trial(1))
    assert stream.getvalue().rpartition("\n")[2] == "0 s\x1b[A"
