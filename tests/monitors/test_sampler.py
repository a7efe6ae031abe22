"""The sampler: a grid without drift, two readings at least, bounded memory, losses noted once."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from ioassay.errors import UsageError
from ioassay.monitors import monitor
from ioassay.monitors import sampler as sampling
from ioassay.monitors.sampler import Sampler, next_tick
from ioassay.monitors.text_monitor import TextKind, TextMonitor, Texts
from ioassay.process import supervisor


class Counting:
    """Numbers readings 1, 2, … and tells when `enough` were taken."""

    def __init__(self, enough: int = 1) -> None:
        self._count, self._enough = itertools.count(1), enough
        self.done = threading.Event()

    def number(self) -> int:
        number = next(self._count)
        if number >= self._enough:
            self.done.set()
        return number


class Scripted(Counting):
    """A monitor that gives what `script` gives for reading 1, 2, …"""

    name = "scripted"

    def __init__(self, script: Callable[[int], Mapping[str, float]], enough: int = 1) -> None:
        super().__init__(enough)
        self._script = script

    def read(self) -> Mapping[str, float]:
        return self._script(self.number())


class Told(Counting, TextMonitor):
    """A monitor of texts: each says the number of its reading; `parsed` are those that were parsed already."""

    def __init__(self, enough: int = 1) -> None:
        Counting.__init__(self, enough)
        TextMonitor.__init__(self, TextKind("told", {}, ("proc/stat",)))
        self.parsed: list[int] = []

    def texts(self) -> Texts:
        return (b"%20d" % self.number(),)

    def parse(self, texts: Texts) -> Mapping[str, float]:
        self.parsed.append(int(texts[0]))
        return {"a": int(texts[0])}


def run(scripted: Scripted | Told, interval_s: float = 0.001, **options: Any) -> tuple[Sampler, Any, dict[str, float]]:
    sampler = Sampler([scripted], interval_s, **options)
    sampler.start()
    assert scripted.done.wait(PATIENCE_S)
    samples, cost = sampler.stop()
    return sampler, samples[0], cost


@pytest.mark.parametrize(("held", "enough"), [(None, 5), (3, 9)], ids=["when the load is over", "when memory is full"])
def test_texts_are_parsed(monkeypatch: pytest.MonkeyPatch, held: int | None, enough: int) -> None:
    if held is not None:
        monkeypatch.setattr(sampling, "MAX_TEXT_BYTES", held * 20)
    told = Told(enough)
    sampler = Sampler([told], 0.001)
    sampler.start()
    assert told.done.wait(PATIENCE_S)
    sampler.end()
    parsed = len(told.parsed)
    samples, cost = sampler.stop()
    # The first one, before the load, shows whether there is anything to read.
    assert parsed == (1 if held is None else cost["samples"] - held)
    assert list(samples[0].value) == told.parsed == list(range(1, int(cost["samples"]) + 1))
    assert cost["parsing_cpu_s"] >= 0


def test_texts_are_thinned_like_other_readings() -> None:
    clock = itertools.count(0.0, 0.5)  # always late
    _, samples, cost = run(Told(enough=140), clock=lambda: next(clock), max_values=101)
    assert len(samples.value) <= 101 + 2
    assert samples.value[0] == 1
    assert samples.value[-1] == cost["samples"]
    assert sorted(set(samples.value)) == list(samples.value)


def test_a_child_of_20_ms_has_a_reading_before_it_and_one_after_its_end(tmp_path: Path) -> None:
    sampler = Sampler([monitor("cpu"), monitor("null")], 0.1)
    outcome = supervisor.run(
        ["sleep", "0.02"], stdout=tmp_path / "stdout", stderr=tmp_path / "stderr", timeout_s=PATIENCE_S,
        on_held=lambda _: sampler.start(), on_ended=lambda _: sampler.end(),
    )  # fmt: skip
    samples, _ = sampler.stop()
    assert outcome.exit_code == 0
    for found in samples:
        assert found.time_s[0] <= 0, found.monitor
        assert found.time_s[-1] >= 0.02, found.monitor


def test_a_trial_has_a_first_and_a_last_reading_and_none_after_its_end() -> None:
    samples, cost = Sampler([monitor("null")], 3600).stop()  # it never began
    assert (list(samples[0].value), cost["samples"]) == ([], 0)
    sampler = Sampler([monitor("null")], 3600)
    sampler.start()
    sampler.end()
    sampler.end()
    samples, cost = sampler.stop()
    assert (samples[0].monitor, list(samples[0].name), list(samples[0].value)) == ("null", ["readings"] * 2, [1, 2])
    assert (cost["samples"], cost["missed"], cost["interval_s"]) == (2, 0, 3600)
    assert cost["cpu_s"] >= 0


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


def test_what_vanishes_one_after_the_other_is_noted_once_each() -> None:
    def script(number: int) -> Mapping[str, float]:
        cores = {f"cpu{core}.user": number for core in range(3) if number < 3 + core or number % 2}
        return {"all.user": number, **cores}

    sampler, _, _ = run(Scripted(script, enough=12))
    texts = "".join(warning.text for warning in sampler.warnings)
    assert texts.count("cpu0") == texts.count("cpu2") == 1


def test_a_core_that_goes_offline_an_interface_and_a_disk_that_go_are_noted(
    fake_root: Callable[..., Path], tmp_path: Path
) -> None:
    root = fake_root({
        "proc/stat": "cpu 1 1\ncpu0 1 1\ncpu1 1 1\n",
        "proc/diskstats": " 8 0 sda 1 1 1 1 1 1 1 1 1 1 1\n 8 16 sdb 1 1 1 1 1 1 1 1 1 1 1\n",
        "proc/net/dev": f"\n\nlo: {'1 ' * 16}\neth0: {'1 ' * 16}\n",
    })  # fmt: skip
    sampler = Sampler([monitor(name, root=root) for name in ("cpu", "disk", "net")], 3600)
    sampler.start()
    for name in ("stat", "diskstats", "net/dev"):
        lines = (root / "proc" / name).read_text().splitlines(keepends=True)
        (root / "proc" / name).write_text("".join(lines[:-1]))
    samples, _ = sampler.stop()
    assert [warning.code for warning in sampler.warnings] == ["monitor-lost"] * 3
    for warning, lost in zip(sampler.warnings, ("cpu1", "sdb", "eth0"), strict=True):
        assert f"lost {lost} " in warning.text
    assert [len(set(found.time_s)) for found in samples] == [2, 2, 2]


def unreadable() -> Mapping[str, float]:
    raise OSError(95, "Operation not supported")


@pytest.mark.parametrize(
    ("bad", "code", "said"),
    [
        (unreadable, "monitor-unreadable", "not supported"),
        (lambda: {"a": math.inf}, "monitor-senseless", ""),
        (lambda: {"a": math.nan}, "monitor-senseless", ""),
        (lambda: {"a": int("many")}, "monitor-senseless", ""),
    ],
)
def test_readings_that_fail_are_noted_once_and_left_out(
    bad: Callable[[], Mapping[str, float]], code: str, said: str
) -> None:
    sampler, samples, _ = run(Scripted(lambda number: bad() if number > 2 else {"a": number}, enough=6))
    assert [(warning.code, said in warning.text) for warning in sampler.warnings] == [(code, True)]
    assert list(samples.value) == [1, 2]
    sampler, samples, _ = run(Scripted(lambda _: {}, enough=3))
    assert ([warning.code for warning in sampler.warnings], list(samples.value)) == (["monitor-empty"], [])


def test_a_defect_of_a_monitor_surfaces_when_the_sampler_is_stopped() -> None:
    def script(number: int) -> Mapping[str, float]:
        if number == 3:
            raise TypeError("no number: 'x'")
        return {"a": number}

    scripted = Scripted(script, enough=3)
    sampler = Sampler([scripted], 0.001)
    sampler.start()
    assert scripted.done.wait(PATIENCE_S)
    with pytest.raises(TypeError, match="no number"):
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
    with pytest.raises(UsageError, match=r"watch\.interval is .* s; expected at least 0\.001 s"):
        Sampler([], interval_s)
