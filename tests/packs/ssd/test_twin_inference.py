"""A drive whose options are hidden is described from its readings; one of another kind is called a misfit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ioassay as ia
from ioassay.errors import InputError
from ioassay.packs.ssd.twin import battery, description, inference, reads
from ioassay.packs.ssd.twin.loads import Load, Reading, by_name
from ioassay.packs.ssd.twin.simulated import SimulatedTarget
from ioassay.simulation import traces

KIB = 1024
NOISE = 0.02


def drive(elements: int, unit_kib: int, page_kib: int, times: list[float], **others: Any) -> dict[str, Any]:
    shape = inference.geometry(256 << 20, elements, unit_kib * KIB, types=len(times))
    times_of = {"page_type_read_us": times} if len(times) > 1 else {"read_us": times[0]}
    options = {"program_unit": unit_kib * KIB, "flash_page": page_kib * KIB, "program_us": 600.0, **times_of}
    return {**shape, **options, "command_read_us": 8.0, "link_mb_s": 3000.0, "flash_channel_mb_s": 800.0, **others}


STRUCTURES = [
    drive(5, 48, 16, [40.0]),
    drive(7, 16, 4, [25.0, 32.0]),
    drive(12, 96, 8, [60.0, 90.0, 70.0]),
    drive(31, 64, 4, [35.0], flash_channels=1),
    drive(48, 256, 8, [100.0, 140.0]),
    drive(64, 32, 4, [20.0], command_rate=400_000.0),
]


@pytest.mark.parametrize("options", STRUCTURES, ids=lambda each: f"{each['elements']}x{each['program_unit'] // KIB}KiB")
def test_structure_is_told_exactly(options: dict[str, Any]) -> None:
    found = by_name(battery.learn(SimulatedTarget(options, 5, noise=NOISE), writes=False, budget_s=600))
    unit = reads.unit_bytes(found)
    assert unit == options["program_unit"]
    assert reads.elements(found) == options["elements"]
    assert reads.flash_page_bytes(found, unit)[0] == options["flash_page"]


def test_loads_have_names_of_their_own_and_fit_the_drive() -> None:
    target = SimulatedTarget(STRUCTURES[1], 5, noise=NOISE)
    loads = [each.load for each in battery.learn(target, writes=False, budget_s=600)]
    assert len({load.name for load in loads}) == len(loads)
    assert all(load.requests for load in loads)
    # As fio places random requests: at all multiples of the alignment within the range.
    assert all(2 * load.align_bytes <= target.capacity_bytes for load in loads if load.name.startswith("pair-"))


@pytest.mark.parametrize("most", [8, 64])
def test_group_tests_have_a_multiple_of_each_count(most: int) -> None:
    chosen = battery.group_tests(most, 400)
    assert all(any(distance % count == 0 for distance in chosen) for count in range(2, most + 1))
    assert len(chosen) < most / 2


def test_modes_of_two_thirds_and_one_third_are_three_page_types() -> None:
    found = [reads.Mode(50.0, 0.66), reads.Mode(70.0, 0.34)]
    assert reads.type_values(found) == [50.0, 50.0, 70.0]


@pytest.fixture(scope="module")
def learned() -> tuple[dict[str, Any], inference.Fit]:
    options = drive(6, 64, 8, [40.0, 55.0])
    readings = battery.learn(SimulatedTarget(options, 9, noise=NOISE), writes=False, budget_s=600)
    return options, inference.fit(readings, capacity_bytes=256 << 20, laid_out=True)


def test_intervals_have_the_true_times(learned: tuple[dict[str, Any], inference.Fit]) -> None:
    options, fit = learned
    truth = {**options, "page_type_read_us 0": 40.0, "page_type_read_us 1": 55.0}
    bounds = [(truth[each.name], each) for each in fit.parameters if each.low is not None and each.name in truth]
    assert len(bounds) >= 4
    inside = [each.low <= true <= each.high for true, each in bounds if each.low is not None and each.high is not None]
    assert sum(inside) >= len(inside) - 1


def test_held_out_loads_are_met(learned: tuple[dict[str, Any], inference.Fit]) -> None:
    _, fit = learned
    errors = [
        abs(each.modelled / each.measured - 1)
        for each in fit.residuals
        if not each.is_fitted and each.statistic == "mean_us"
    ]
    assert len(errors) >= 4
    assert np.median(errors) < 0.04
    assert fit.misfit == ""


def test_no_limit_of_commands_is_below_what_writes_reach(learned: tuple[dict[str, Any], inference.Fit]) -> None:
    options, _ = learned
    limited = {**options, "command_rate": 60_000.0}
    readings = battery.learn(SimulatedTarget(limited, 9, noise=NOISE), writes=False, budget_s=600)
    fast = Load("write-4KiB", "rates", "write", 4 * KIB, 16, requests=100)
    told = inference.fit(
        [*readings, Reading(fast, 100, 1.0, {"iops": 200_000.0})], capacity_bytes=256 << 20, laid_out=True
    )
    assert told.options["command_rate"] == 0.0


def test_the_description_simulates_a_workload_as_the_drive_does_and_is_served(
    learned: tuple[dict[str, Any], inference.Fit], tmp_path: Path
) -> None:
    options, fit = learned
    path = tmp_path / "mine.toml"
    description.write(fit, [], path, about="x", source="y")
    reads_of = traces.recipe(requests=8000, reads=1, range="128MiB", arrivals="poisson:40000", addresses="zipf:0.9")
    mean_ms = [ia.simulate(reads_of, drive=of, window=None).summary["mean_response_ms"] for of in (options, path)]
    assert mean_ms[1] == pytest.approx(mean_ms[0], rel=0.05)
    with ia.serve("16MiB", drive=path) as served:
        assert served.size_bytes == 16 << 20


class OneHead:
    """A disk: one request at a time, and it takes longer the farther it is."""

    capacity_bytes = 256 << 20

    def __init__(self) -> None:
        self._draws, self._head = np.random.default_rng(3), 0

    def run(self, loads: Sequence[Load]) -> list[Reading]:
        return [self._run(load) for load in loads]

    def _run(self, load: Load) -> Reading:
        align = load.align_bytes or load.size_bytes
        span = load.span_bytes or self.capacity_bytes
        places = self._draws.integers((span - load.size_bytes) // align + 1, size=load.requests) * align
        moves = np.abs(np.diff(places, prepend=self._head))
        times = 100 + np.sqrt(moves) + self._draws.uniform(0, 4000, len(places)) * (moves > 0)
        latencies = np.convolve(times, np.ones(load.depth))[: len(times)]
        values, counts = np.unique(np.round(latencies), return_counts=True)
        statistics = {"mean_us": float(latencies.mean()), "p50_us": float(np.median(latencies))}
        return Reading(load, len(times), 1.0, statistics, bins_us=values, counts=counts)


def test_a_disk_is_called_a_misfit() -> None:
    target = OneHead()
    readings = battery.learn(target, writes=False, budget_s=600)
    assert inference.fit(readings, capacity_bytes=target.capacity_bytes, laid_out=True).misfit


def test_a_battery_that_was_cut_is_incomplete_and_no_misfit() -> None:
    readings = battery.learn(SimulatedTarget(STRUCTURES[0], 5, noise=NOISE), writes=False, budget_s=600)[:8]
    fit = inference.fit(readings, capacity_bytes=256 << 20, laid_out=True, seconds=24)
    assert fit.misfit == ""
    elements = next(each for each in fit.parameters if each.name == "elements")
    assert elements.identified == "combination"
    assert "--budget" in elements.needs


def test_what_the_host_limited_is_left_out() -> None:
    readings = battery.learn(SimulatedTarget(STRUCTURES[0], 5), writes=False, budget_s=600)[:4]
    bound = [replace(each, is_host_bound=True) for each in readings]
    with pytest.raises(InputError, match="the host"):
        inference.fit(bound, capacity_bytes=None, laid_out=False)


def test_plain_writes_tell_command_time_and_drain() -> None:
    writes = {"program_us": 200.0, "write_cache": 512 * KIB, "command_write_us": 9.0}
    options = drive(8, 32, 16, [60.0], flash_channel_mb_s=0.0, fill=0.0, **writes)
    readings = []
    for size, depth in ((4, 1), (4, 4), (4, 32), (16, 1), (16, 8), (128, 1), (128, 8)):
        load = Load(f"write-{size}-{depth}", "writes", "write", size * KIB, depth, "sequential", requests=1500)
        readings += SimulatedTarget(options, 3).run([load])
    fit = inference.fit(readings, capacity_bytes=None, laid_out=False)
    found = {each.name: each.value for each in fit.parameters}
    assert fit.misfit == ""
    assert found["command_write_us"] == pytest.approx(9.0, rel=0.05)
    assert found["drain"] == pytest.approx(8 * 32 * KIB / 200.0, rel=0.05)
