"""The sampler: a grid without drift, two readings at least, bounded memory, losses noted once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ioassay.errors import UsageError
from ioassay.monitors import monitor
from ioassay.monitors.sampler import Sampler, next_tick


class Scripted:
    """A monitor that gives what `script` gives for reading 1, 2, … and tells when `enough` were taken."""

    name = "scripted"

    def __init__(self, script: Callable[[int], Mapping[str, float]], enough: int = 1) -> None:
        self._script = script
        self._count = itertools.count(1)
        self._enough = enough
        self.done = threading.Event()

    def read(self) -> Mapping[str, float]:
        number = next(self._count)
        if number >= self._enough:
            self.done.set()
        return self._script(number)


def run(scripted: Scripted, interval_s: float = 0.001, **options: Any) -> tuple[Sampler, Any, dict[str, float]]:
    sampler = Sampler([scripted], interval_s, **options)
    sampler.start()
    assert scripted.done.wait(60)
    samples, cost = sampler.stop()
    return sampler, samples[0], cost


def test_the_shortest_trial_has_a_first_and_a_last_reading() -> None:
    sampler = Sampler([monitor("null")], 3600)
    sampler.start()
    samples, cost = sampler.stop()
    assert list(samples[0].value) == [1, 2]
    assert list(samples[0].name) == ["readings", "readings"]
    assert samples[0].monitor == "null"
    assert cost["samples"] == 2
    assert cost["missed"] == 0
    assert cost["interval_s"] == 3600
    assert cost["cpu_s"] >= 0


def test_a_trial_that_never_began_has_no_readings() -> None:
    samples, cost = Sampler([monitor("null")], 0.25).stop()
    assert list(samples[0].value) == []
    assert cost["samples"] == 0


def test_times_count_from_the_mark_and_earlier_ones_are_negative() -> None:
    clock = itertools.count(100.0, 1.0)
    sampler = Sampler([monitor("null")], 3600, clock=lambda: next(clock))
    sampler.start()  # starts at 100, reads at 101; the thread then looks at the clock once
    sampler.mark(150.0)
    samples, _ = sampler.stop()
    assert samples[0].time_s[0] == 101.0 - 150.0
    assert len(samples[0].time_s) == 2


def test_every_reading_has_one_value_for_each_field_at_one_time() -> None:
    sampler, samples, cost = run(Scripted(lambda n: {"a": n, "b": -n}, enough=5))
    assert list(samples.name) == ["a", "b"] * int(cost["samples"])
    assert list(samples.value)[:4] == [1, -1, 2, -2]
    assert list(samples.time_s) == sorted(samples.time_s)
    assert len(set(samples.time_s)) == cost["samples"]
    assert sampler.warnings == []


@pytest.mark.parametrize(
    ("tick", "elapsed_s", "following"),
    [(1, 0.26, 2), (1, 0.49, 2), (1, 0.5, 3), (1, 1.3, 6), (3, 0.74, 4), (7, 1.75, 8)],
)
def test_the_next_reading_lies_on_the_grid_and_ahead(tick: int, elapsed_s: float, following: int) -> None:
    assert next_tick(tick, elapsed_s, 0.25) == following


def test_a_slow_reading_skips_grid_points_and_counts_them() -> None:
    clock = [0.0]

    def slow(number: int) -> Mapping[str, float]:
        clock[0] += 0.025  # each reading takes two and a half intervals
        return {"a": number}

    scripted = Scripted(slow, enough=4)
    _, samples, cost = run(scripted, 0.01, clock=lambda: clock[0])
    # Each reading but the first and the last begins on the grid and ends past one more point, at least.
    assert cost["missed"] >= cost["samples"] - 2
    assert list(samples.value) == list(range(1, int(cost["samples"]) + 1))


def test_a_field_that_vanishes_is_noted_once_and_the_others_go_on() -> None:
    def script(number: int) -> Mapping[str, float]:
        vda = {"vda.reads": number, "vda.writes": number}
        return vda if number in (3, 5) or number > 6 else {**vda, "sdb.reads": number, "sdb.writes": number}

    sampler, samples, cost = run(Scripted(script, enough=9))
    assert [warning.code for warning in sampler.warnings] == ["monitor-lost"]
    assert "lost sdb " in sampler.warnings[0].text
    assert list(samples.name).count("vda.reads") == cost["samples"]
    assert list(samples.name).count("sdb.reads") == 4


def test_a_monitor_that_cannot_be_read_is_noted_once_and_the_trial_goes_on() -> None:
    def script(number: int) -> Mapping[str, float]:
        if number > 2:
            raise OSError(95, "Operation not supported")
        return {"a": number}

    sampler, samples, _ = run(Scripted(script, enough=6))
    assert [(warning.code, "not supported" in warning.text) for warning in sampler.warnings] == [
        ("monitor-unreadable", True)
    ]
    assert list(samples.value) == [1, 2]


def test_a_monitor_with_nothing_to_read_is_said_to_have_nothing() -> None:
    sampler, samples, _ = run(Scripted(lambda _: {}, enough=3))
    assert [warning.code for warning in sampler.warnings] == ["monitor-empty"]
    assert list(samples.value) == []


def test_a_defect_of_a_monitor_surfaces_when_the_sampler_is_stopped() -> None:
    def script(number: int) -> Mapping[str, float]:
        if number == 3:
            raise ValueError("no number: 'x'")
        return {"a": number}

    scripted = Scripted(script, enough=3)
    sampler = Sampler([scripted], 0.001)
    sampler.start()
    assert scripted.done.wait(60)
    with pytest.raises(ValueError, match="no number"):
        sampler.stop()


def test_memory_stays_bounded_by_halving_the_rate() -> None:
    clock = [0.0]

    def script(number: int) -> Mapping[str, float]:
        clock[0] += 1.0  # always late: a reading comes a moment after the other, whatever the interval
        return {"a": number, "b": number}

    _, samples, cost = run(Scripted(script, enough=140), clock=lambda: clock[0], max_values=100)
    assert len(samples.value) <= 100 + 4
    assert samples.value[0] == 1
    assert samples.value[-1] == cost["samples"]
    assert cost["interval_s"] == 0.001
    assert cost["kept_interval_s"] >= 0.004
    assert list(samples.time_s) == sorted(samples.time_s)


@pytest.mark.parametrize("interval_s", [0, -1, 1e-9, float("nan")])
def test_an_impossible_interval_is_refused(interval_s: float) -> None:
    with pytest.raises(UsageError, match=r"watch\.interval is .* s; wanted at least 0\.001 s"):
        Sampler([], interval_s)
