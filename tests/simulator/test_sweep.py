"""Many simulations from one pass over a trace: each is what it would be alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay import simulator, traces
from ioassay.errors import InputError, UsageError
from ioassay.simulator import Simulation

RECIPE = traces.recipe(
    requests=30_000, reads=0.2, arrivals="poisson:20000", addresses="zipf:0.9", range="64MiB", seed=3
)
WRITES = traces.recipe(requests=30_000, arrivals="poisson:20000", range="64MiB", seed=4)


def content(done: Simulation) -> dict[str, Any]:
    """All that a simulation measured."""
    raw = {name: value for name, value in done.raw.items() if name not in ("wall_s", "cache", "interrupted")}
    for kind in ("all", "read", "write", "other"):
        histogram = raw[kind]["response_ns"]
        quantiles = histogram.quantiles([0.1, 0.5, 0.99, 1.0]) if histogram.count else None
        raw[kind] = {**raw[kind], "response_ns": (histogram.count, quantiles)}
    return raw


def draw(chance: random.Random) -> dict[str, Any]:
    """The options of a small drive at random."""
    return {
        "elements": chance.choice([1, 3, 8]),
        "blocks": chance.choice([64, 100]),
        "policy": chance.choice(["none", "lru", "epo", "fab", "idle-cold"]),
        "buffer": chance.choice(["1MiB", "256KiB"]),
        "mode": chance.choice(["reshape", "inline"]),
        "window": chance.choice([None, 20]),
        "feed": chance.choice(["open", "closed:32", "scaled:0.5", "batch:48@5ms"]),
        "precondition": chance.choice([0, 0, 0.3]),
        "endurance": 0,
    }


@pytest.mark.parametrize("recipe", [RECIPE, WRITES], ids=["mixed", "writes"])
def test_each_run_of_a_sweep_is_what_it_is_alone(recipe: dict[str, Any]) -> None:
    chance = random.Random(16)
    runs = [draw(chance) for _ in range(9)]
    prepare = traces.preparation(limit="8MiB", beyond="wrap")
    together = simulator.sweep(recipe, runs, prepare=prepare)
    for options, done in zip(runs, together, strict=True):
        alone = ioassay.simulate(recipe, prepare=prepare, **options)
        assert repr(content(done)) == repr(content(alone)), options  # NaN is not equal to itself, its text is


def test_a_file_gives_the_same_as_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    traces.convert(RECIPE, path)
    runs: list[dict[str, Any]] = [{"elements": 4, "policy": policy} for policy in ("none", "lru", "epo")]
    for _ in range(2):  # parsed, and from the cache
        for options, done in zip(runs, simulator.sweep(path, runs), strict=True):
            assert repr(content(done)) == repr(content(ioassay.simulate(path, cache=False, **options)))


def test_drives_that_do_not_fit_together_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [{"elements": elements} for elements in (2, 4, 8)]
    expected = [content(done) for done in simulator.sweep(WRITES, runs)]
    largest = simulator.check(runs[-1])["memory_bytes"]
    monkeypatch.setattr(simulator, "available_bytes", lambda: int(largest / simulator.MEMORY_SHARE) + 1)
    assert repr([content(done) for done in simulator.sweep(WRITES, runs)]) == repr(expected)
    with pytest.raises(UsageError, match="standard input can be read once only"):
        simulator.sweep("-", runs)


def test_a_wrong_trace_fails_the_sweep_as_it_fails_a_run(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    traces.convert(RECIPE, path)
    with path.open("a", encoding="utf-8") as file:
        file.write("nonsense\n")
    runs = [{"elements": 4}, {"elements": 8}]
    with pytest.raises(InputError, match="line 30002"):
        simulator.sweep(path, runs)
    with pytest.raises(UsageError, match="to end within the drive's"):
        simulator.sweep(RECIPE, [{"elements": 4}, {"elements": 1, "planes": 2, "dies": 1, "blocks": 32}])
    with pytest.raises(UsageError, match="elements is 0"):
        simulator.sweep(RECIPE, [{"elements": 4}, {"elements": 0}])


def test_no_run_is_no_work() -> None:
    assert simulator.sweep(RECIPE, []) == []
