"""Saved states and sweeps: a resumed run goes on as if it had never stopped, and one of many is as it is alone."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay import atomic_file
from ioassay.errors import InputError, IoassayError, UsageError
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.simulator import Simulation
from ioassay.simulation import traces
from ioassay.simulation.options import MEMORY_SHARE

from ...corpora import cases

RECIPE = traces.recipe(
    requests=30_000, reads=0.3, arrivals="poisson:20000", addresses="zipf:0.9", range="64MiB", seed=3
)
DRIVE: dict[str, Any] = {"elements": 8, "blocks": 64, "endurance": 0}


def content(done: Simulation) -> str:
    """All that a simulation measured."""
    summary = {name: value for name, value in done.summary.items() if name != "wall_s"}
    return repr((summary, done.raw["elements"], done.raw["series"], done.raw["preconditioned"]))


def first(requests: int) -> dict[str, Any]:
    return traces.preparation(first=requests)


def saved(folder: Path, requests: int = 100, **options: Any) -> Path:
    """The state behind so many requests, of the usual drive."""
    state = folder / "used.state"
    ioassay.simulate(RECIPE, prepare=first(requests), save_state=state, **DRIVE, **options)
    return state


@cases("simulator", "resumed")
def test_a_resumed_run_is_one_run(case: dict[str, Any], tmp_path: Path) -> None:
    options = {**DRIVE, **case["options"]}
    whole = ioassay.simulate(RECIPE, **options)
    state = tmp_path / "run.state"
    ioassay.simulate(RECIPE, prepare=first(7_000), save_state=state, **options)
    ioassay.simulate(RECIPE, prepare=first(19_001), state=state, resume=True, save_state=state)
    done = ioassay.simulate(RECIPE, state=state, resume=True)
    assert content(done) == content(whole)


def test_a_file_is_resumed_from_the_cache_too(tmp_path: Path) -> None:
    path, state = tmp_path / "trace.csv", tmp_path / "run.state"
    traces.convert(RECIPE, path)
    whole = ioassay.simulate(path, **DRIVE)
    ioassay.simulate(path, prepare=first(5_000), save_state=state, **DRIVE)
    assert content(ioassay.simulate(path, state=state, resume=True)) == content(whole)


@pytest.mark.parametrize("controller", [{}, {"write_cache": "1MiB", "program_unit": "32KiB"}], ids=["none", "cache"])
def test_preconditioning_is_paid_once(controller: dict[str, Any], tmp_path: Path) -> None:
    state = tmp_path / "worn.state"
    worn = {**DRIVE, "precondition": 1, **controller}
    ioassay.simulate(traces.recipe(requests=0), save_state=state, **worn)
    runs = [
        {"policy": policy, "buffer": "1MiB", "window": window} for policy in ("none", "epo") for window in (None, 20)
    ]
    from_state = simulator.sweep(RECIPE, runs, state=state)
    for options, done in zip(runs, from_state, strict=True):
        at_once = ioassay.simulate(RECIPE, **worn, **options)
        assert content(done) == content(at_once) == content(ioassay.simulate(RECIPE, state=state, **options))


def test_a_second_run_finds_the_drive_and_the_buffer_as_the_first_left_them(tmp_path: Path) -> None:
    state = tmp_path / "used.state"
    options = {**DRIVE, "policy": "lru", "buffer": "1MiB"}
    ioassay.simulate(RECIPE, save_state=state, **options)
    alone, after = ioassay.simulate(RECIPE, **options), ioassay.simulate(RECIPE, state=state)
    assert after.summary["requests"] > 0
    assert after.summary["hit_ratio"] > alone.summary["hit_ratio"]
    assert after.summary["most_block_erases"] >= alone.summary["most_block_erases"]


def test_the_options_of_a_controller_are_those_of_its_state(tmp_path: Path) -> None:
    state = saved(tmp_path, write_cache="1MiB", program_unit="32KiB", small_read_us="20")
    with pytest.raises(UsageError, match="program-unit is 0, .* program-unit 32KiB"):
        ioassay.simulate(RECIPE, state=state, program_unit=0)
    again = ioassay.simulate(RECIPE, state=state, write_cache=2**20, small_read_us=[20])
    assert again.summary["requests"] == RECIPE["requests"]


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a drive behind a buffer."""
    return saved(tmp_path_factory.mktemp("states"), policy="lru", buffer="1MiB")


@cases("simulator", "states")
def test_other_options_are_refused_by_name(case: dict[str, Any], used: Path) -> None:
    with pytest.raises(UsageError, match=case["says"]):
        ioassay.simulate(RECIPE, state=used, **case["options"])


def test_the_same_options_in_another_spelling_are_not_refused(used: Path) -> None:
    same = {"elements": "8", "buffer": 2**20, "window": None}
    assert ioassay.simulate(RECIPE, state=used, **same).summary["requests"]
    with pytest.raises(UsageError, match=r"window is None, .* window 20"):
        ioassay.simulate(RECIPE, state=used, resume=True, window=None)


def test_another_trace_is_not_resumed(tmp_path: Path) -> None:
    state = saved(tmp_path)
    with pytest.raises(UsageError, match="expected the same"):
        ioassay.simulate({**RECIPE, "seed": 4}, state=state, resume=True)
    with pytest.raises(UsageError, match="resume is given without state"):
        ioassay.simulate(RECIPE, resume=True)


def test_damaged_states_are_refused(tmp_path: Path) -> None:
    state = saved(tmp_path, 3000)
    whole = state.read_bytes()
    undamaged = content(ioassay.simulate(RECIPE, state=state))
    for length in (0, 10, 30, len(whole) // 2, len(whole) - 1):
        state.write_bytes(whole[:length])
        with pytest.raises(IoassayError, match="used.state.* is damaged|not a saved state"):
            ioassay.simulate(RECIPE, state=state)
    for place in range(25, len(whole), max(1, len(whole) // 60)):
        state.write_bytes(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
        try:
            done = ioassay.simulate(RECIPE, state=state)
        except IoassayError:
            continue
        # Another distance of a match in the compressed state may lead to the same bytes, which the checksum is of.
        assert content(done) == undamaged
    state.write_bytes(whole[:16] + b"\x09" + whole[17:])
    with pytest.raises(UsageError, match="version 9, expected 6"):
        ioassay.simulate(RECIPE, state=state)
    with pytest.raises(UsageError, match="missing: No such file"):
        ioassay.simulate(RECIPE, state=tmp_path / "missing")


def test_a_state_is_whole_or_as_it_was(tmp_path: Path) -> None:
    state = saved(tmp_path)
    before = state.read_bytes()
    with pytest.raises(UsageError):
        ioassay.simulate(traces.recipe(requests=10, range="64TiB"), save_state=state, **DRIVE)
    assert state.read_bytes() == before
    assert os.listdir(tmp_path) == ["used.state"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_the_state_is_written_loses_neither_state_nor_results(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is synchronised last, which may take long."""
    recipe = traces.recipe(requests=1000, range="16MiB")
    sync = atomic_file.sync

    def interrupted(path: Path) -> None:
        os.kill(os.getpid(), number)
        sync(path)

    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic_file, "sync", interrupted)
    before = signal.signal(number, ended)
    try:
        done = ioassay.simulate(recipe, partial=True, save_state=tmp_path / "s", elements=4, blocks=64)
        with pytest.raises(KeyboardInterrupt):
            ioassay.simulate(recipe, save_state=tmp_path / "lost", elements=4, blocks=64)
    finally:
        signal.signal(number, before)
    monkeypatch.undo()
    assert done.raw["interrupted"] and done.summary["requests"] == 1000
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    assert ioassay.simulate(recipe, state=tmp_path / "s", resume=True).raw["all"]["count"] == 1000


BAD_TEXTS = (b"5", b"[]", b"{}", b"null", b'"a"', b'{"options": 5, "trace": {}}', b'{"options": {}}', b"[" * 3000)


@pytest.mark.parametrize("text", [*BAD_TEXTS, b"\xff"])
def test_a_state_whose_text_is_damaged_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s"
    ioassay.simulate(traces.recipe(requests=10, range="1MiB"), save_state=path, elements=4, blocks=64)
    whole = path.read_bytes()
    old_length = int.from_bytes(whole[20:24], "little")
    path.write_bytes(whole[:20] + len(text).to_bytes(4, "little") + text + whole[24 + old_length :])
    with pytest.raises(UsageError, match="the saved state is damaged"):
        ioassay.simulate(RECIPE, state=path)


# Many simulations from one pass over a trace


WRITES = traces.recipe(requests=30_000, arrivals="poisson:20000", range="64MiB", seed=4)


def everything(done: Simulation) -> dict[str, Any]:
    """All that a simulation measured, with the response times of each kind."""
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
        assert repr(everything(done)) == repr(everything(alone)), options  # NaN is not equal to itself, its text is


def test_a_file_gives_the_same_as_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    traces.convert(RECIPE, path)
    runs: list[dict[str, Any]] = [{"elements": 4, "policy": policy} for policy in ("none", "lru", "epo")]
    for _ in range(2):  # parsed, and from the cache
        for options, done in zip(runs, simulator.sweep(path, runs), strict=True):
            assert repr(everything(done)) == repr(everything(ioassay.simulate(path, cache=False, **options)))


def test_drives_that_do_not_fit_together_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [{"elements": elements} for elements in (2, 4, 8)]
    assert simulator.sweep(RECIPE, []) == []
    expected = [everything(done) for done in simulator.sweep(WRITES, runs)]
    largest = simulator.check(runs[-1])["memory_bytes"]
    monkeypatch.setattr(simulator, "available_bytes", lambda: int(largest / MEMORY_SHARE) + 1)
    assert repr([everything(done) for done in simulator.sweep(WRITES, runs)]) == repr(expected)
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
