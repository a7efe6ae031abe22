"""The bar of a run: how many trials run, which one began last, how long the rest will take."""

from typing import Any

import pytest

from ioassay.cli import progress
from ioassay.roles import Trial


class Clock:
    """A clock that is put forward by hand."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class Bar:
    """What rich's bar is asked to show."""

    def __init__(self) -> None:
        self.completed = 0
        self.shown: dict[str, str] = {}
        self.tasks = [self]

    def add_task(self, name: str, **shown: Any) -> int:
        self.shown.update(shown)
        return 0

    def update(self, task: int, **shown: str) -> None:
        self.shown.update(shown)

    def advance(self, task: int) -> None:
        self.completed += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def trial(number: int) -> Trial:
    return Trial(f"{number}", "s", "null", {"x": number}, {}, {}, {}, 0, 1, number)


def test_one_after_the_other(clock: Clock) -> None:
    bar = Bar()
    shown = progress.Terminal(bar, 10, 30.0)  # type: ignore[arg-type]
    assert bar.shown["left"] == "30 s"
    for number in range(2):
        shown.started(trial(number))
        assert bar.shown["point"] == f"s x={number} #1"
        clock.now_s += 2
        shown.ended(trial(number), "ok")
    assert bar.shown["left"] == "16 s"


def test_several_at_once_share_the_time(clock: Clock) -> None:
    bar = Bar()
    shown = progress.Terminal(bar, 16, 30.0)  # type: ignore[arg-type]
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
    shown = progress.Terminal(bar, 10, 30.0)  # type: ignore[arg-type]
    shown.ended(trial(0), "kept")
    assert bar.shown["left"] == "27 s"
