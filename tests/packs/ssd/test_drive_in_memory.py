"""A simulated drive in memory: as drives of saved states are, and fed by arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ioassay
from ioassay.errors import UsageError
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.simulator import Simulation
from ioassay.simulation import traces

from ...corpora import cases

DRIVE: dict[str, Any] = {"elements": 8, "blocks": 64, "endurance": 0}
CONTROLLER: dict[str, Any] = {**DRIVE, "dies": 1, "planes": 1, "write_cache": "1MiB", "command_read_us": 8}
RECIPE = traces.recipe(requests=5_000, reads=0.3, arrivals="poisson:20000", range="8MiB", seed=3)
ARRAYS: dict[str, Any] = {"kind": [0, 1, 2, 3], "offset_bytes": [0, 4096, 8192, 0], "bytes": [4096, 8192, 4096, 0]}


def content(done: Simulation) -> str:
    """All that a simulation measured."""
    return repr(({**done.summary, "wall_s": None}, done.raw["elements"], done.raw["series"]))


@pytest.mark.parametrize("options", [DRIVE, CONTROLLER, {**DRIVE, "policy": "lru", "buffer": "1MiB", "mode": "inline"}])
def test_runs_follow_each_other_as_from_a_saved_state(options: dict[str, Any], tmp_path: Path) -> None:
    state = tmp_path / "used.state"
    options = {**options, "precondition": 1, "slices": 256}
    first = ioassay.simulate(RECIPE, save_state=state, **options)
    drive = simulator.Drive(options)
    assert content(drive.run(RECIPE)) == content(first)
    kept = drive.copy()
    for other in ({}, {"window": None, "feed": "closed:8"}):
        assert content(kept.copy().run(RECIPE, **other)) == content(ioassay.simulate(RECIPE, state=state, **other))
    # Neither copies nor their runs have changed it.
    assert content(drive.run(RECIPE)) == content(kept.run(RECIPE))


def test_times_may_differ_from_those_of_a_state_and_nothing_else(tmp_path: Path) -> None:
    state = tmp_path / "worn.state"
    times = {"program_us": 300, "read_us": 60, "command_read_us": 1, "flash_channels": 2}
    worn = {**CONTROLLER, "precondition": 1, "slices": 256}
    ioassay.simulate(traces.recipe(requests=0), save_state=state, **worn)
    drive = simulator.Drive(worn)
    drive.set_timing(**times)
    at_once = content(ioassay.simulate(RECIPE, **{**worn, **times}))
    assert content(drive.run(RECIPE)) == content(ioassay.simulate(RECIPE, state=state, **times)) == at_once
    with pytest.raises(UsageError, match=r"program-us is 300, and the state in .* of a drive with program-us"):
        ioassay.simulate(RECIPE, state=state, resume=True, program_us=300)
    # Without options of a controller it would be another drive.
    ioassay.simulate(traces.recipe(requests=0), save_state=state, **DRIVE)
    with pytest.raises(UsageError, match="command-read-us is 8, .* command-read-us 0"):
        ioassay.simulate(RECIPE, state=state, command_read_us=8)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.int16])
def test_arrays_are_the_requests_of_a_trace(dtype: type, tmp_path: Path) -> None:
    rows = [(0, 0, 32), (0, 64, 32), (1, 128, 64), (0, 64, 32)]
    lines = [f"{at / 1e3},{'RW'[kind]},{512 * first},{512 * sectors}" for at, (kind, first, sectors) in enumerate(rows)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["time_s,kind,offset_bytes,length_bytes", *lines]))
    kind, first, sectors = (np.array(column) for column in zip(*rows, strict=True))
    arrays = {"at_us": 1e3 * np.arange(4), "kind": kind.astype(dtype), "offset_bytes": first * 512}
    done = simulator.Drive(DRIVE, slices=256).run({**arrays, "bytes": sectors * 512}, latencies=True)
    recipe = {"at_us": [0, 1e3, 2e3, 3e3], "kind": list(kind), "offset_bytes": first * 512, "bytes": sectors * 512}
    assert content(ioassay.simulate(recipe, **DRIVE)) == content(done)
    assert done.summary["requests"] == 4 and done.summary["simulated_s"] > 3e-3


def test_a_run_over_arrays_is_resumed_with_the_same_arrays_only(tmp_path: Path) -> None:
    state, arrays = tmp_path / "run.state", {name: np.array(column) for name, column in ARRAYS.items()}
    ioassay.simulate(ARRAYS, prepare=traces.preparation(first=2), save_state=state, **DRIVE)
    assert content(ioassay.simulate(arrays, state=state, resume=True)) == content(ioassay.simulate(ARRAYS, **DRIVE))
    with pytest.raises(UsageError, match="expected the same and not"):
        ioassay.simulate({**arrays, "kind": [0, 0, 2, 3]}, state=state, resume=True)


def test_latencies_are_in_order_of_issue() -> None:
    drive = simulator.Drive(DRIVE, window=None, feed="closed:4", driver="fcfs")
    done = drive.run({**ARRAYS, "kind": [0, 1, 0, 0], "bytes": [4096, 8192, 4096, 4096]}, latencies=True)
    latencies_us = done.latencies_us
    assert latencies_us.dtype == np.float64 and latencies_us.shape == (4,)
    for kind, chosen in (("read", [0, 2, 3]), ("write", [1])):
        assert latencies_us[chosen].mean() == pytest.approx(done.statistics(kind)["mean_us"])
    assert done.statistics("other") == {}
    with pytest.raises(UsageError, match="latencies=True"):
        _ = drive.run(ARRAYS).latencies_us
    assert np.isnan(drive.run(ARRAYS, latencies=True, end="last-issued").latencies_us).any()


@cases("simulator", "arrays")
def test_what_is_wrong_in_arrays_is_named_with_its_place(case: dict[str, Any]) -> None:
    arrays = {name: value for name, value in {**ARRAYS, **case["arrays"]}.items() if value != "absent"}
    with pytest.raises(UsageError, match=case["says"]):
        simulator.Drive(DRIVE).run({"arrays": arrays})


def test_a_wrong_option_is_named_and_a_drive_behind_an_error_is_refused() -> None:
    drive = simulator.Drive(DRIVE)
    with pytest.raises(UsageError, match="elements decides where pages are, .* times"):
        drive.set_timing(elements=4)
    with pytest.raises(UsageError, match="no option of a simulation is called 'read_usec'.*read_us"):
        drive.set_timing(read_usec=4)
    with pytest.raises(UsageError, match="read_us is an option of the drive, expected .* feed, window"):
        drive.run(ARRAYS, read_us=3)
    kept = drive.copy()
    with pytest.raises(UsageError, match=r"request 1 .*end within the drive's"):
        drive.run({**ARRAYS, "offset_bytes": [2**50, 0, 0, 0]})
    with pytest.raises(UsageError, match="last run failed or was given up: expected a copy"):
        drive.run(ARRAYS)
    assert kept.run(ARRAYS).summary["issued"] == 4
