"""Write cache, superblocks, spare space, times and rules of garbage collection are told from writes alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from ioassay import simulator
from ioassay.packs.ssd.twin import writes
from ioassay.packs.ssd.twin.battery import Known
from ioassay.packs.ssd.twin.loads import Reading, by_name
from ioassay.packs.ssd.twin.simulated import SimulatedTarget

KIB, MIB = 2**10, 2**20


def series(
    onset: int, period: int, *, fast: int = 0, times: tuple[float, ...] = (500.0,), elements: int = 4
) -> np.ndarray:
    """Durable writes of one unit each, as of a drive of `elements` with `period` units in a superblock."""
    unit = np.arange(40 * period)
    values = np.array(times)[unit // elements % (period // elements) % len(times)]
    values[onset::period] += 3000.0
    return np.concatenate([np.full(fast, 90.0), values])


SERIES = {
    "plain": (series(120, 24), (0, 120, 24, 1)),
    "an SLC region first": (series(48, 16, fast=70), (70, 48, 16, 1)),
    "an SLC region of three rows": (series(48, 16, fast=12), (12, 48, 16, 1)),
    "page types whose rows begin anew in a superblock": (series(80, 40, times=(300.0, 500.0, 700.0)), (0, 80, 40, 3)),
    "one row": (series(12, 4), (0, 12, 4, 1)),
}


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("case", SERIES)
def test_counts_of_durable_writes_tell_superblock_spare_region_and_types(case: str, noise: float) -> None:
    latencies, wanted = SERIES[case]
    noisy = latencies * np.exp(np.random.default_rng(1).normal(0, noise, len(latencies)))
    seen = writes.sweep(noisy, 4)
    assert (seen.fast, seen.onset, seen.period, seen.types) == wanted


def test_writes_that_nothing_delays_tell_no_superblock() -> None:
    seen = writes.sweep(np.full(500, 400.0), 4)
    assert (seen.onset, seen.period, seen.rows, seen.types) == (0, 0, 0, 1)


def test_page_types_that_begin_anew_tell_rows_that_no_erasure_tells() -> None:
    rows = np.arange(400) // 4 % 7 % 3
    seen = writes.sweep(np.array([300.0, 500.0, 700.0])[rows], 4)
    assert (seen.period, seen.rows, seen.types) == (0, 7, 3)


def test_erasures_from_the_first_unit_on_leave_the_level_of_programs() -> None:
    seen = writes.sweep(series(1, 24), 4)
    assert (seen.onset, seen.period, seen.levels) == (1, 24, (500.0,))


def hidden(**others: Any) -> dict[str, Any]:
    return {
        "elements": 6,
        "planes": 2,
        "dies": 1,
        "page": 4096,
        "flash_page": 8 * KIB,
        "program_unit": 32 * KIB,
        "blocks": 96,
        "pages_per_block": 8 * 4,
        "reserve": 0.15,
        "min_free": 0.02,
        "read_us": 50.0,
        "program_us": 700.0,
        "erase_us": 4000.0,
        "command_read_us": 5.0,
        "command_write_us": 9.0,
        "flash_channels": 2,
        "flash_channel_mb_s": 500.0,
        "link_mb_s": 2000.0,
        "copy_back": False,
        "channel_us_per_sector": 0.0,
        "spare_bytes": 0,
        "endurance": 0,
        "write_cache": 2 * MIB,
        **others,
    }


DRIVES = {
    "cache": hidden(),
    "no cache, page types": hidden(write_cache=0, page_type_program_us=[400.0, 700.0, 1000.0]),
    "background": hidden(background_free=0.06, hot_cold=True, read_priority=True),
    "erasures that do not show": hidden(
        erase_us=300.0, background_free=0.06, page_type_program_us=[400.0, 700.0, 1000.0]
    ),
    "SLC region": hidden(
        reserve=0.25,
        slc_region=3 * MIB,
        bits_per_cell=3,
        slc_program_us=100.0,
        slc_read_us=35.0,
        slc_folding="idle",
        slc_idle_us=100_000.0,
    ),
}
FOLDED = DRIVES["SLC region"] | {"slc_folding": "full"}
READ_SIDE = ("elements", "page", "flash_page", "program_unit", "read_us", "command_read_us", "dies", "spare_bytes")
CHANNELS = ("flash_channels", "flash_channel_mb_s", "link_mb_s", "channel_us_per_sector")


@cache
def learned(name: str) -> tuple[dict[str, Any], writes.WriteSide]:
    """With the read side known, and 2 % noise."""
    truth = DRIVES.get(name, FOLDED)
    target = SimulatedTarget(truth, 3, noise=0.02)
    readings: list[Reading] = []
    for stage in (writes.first_loads, writes.rate_loads, writes.steady_loads):
        known = Known(target.capacity_bytes, by_name(readings), 600, writes=True)
        readings += target.run(stage(known, truth["program_unit"], truth["elements"]))
    base = {key: truth[key] for key in READ_SIDE + CHANNELS}
    return truth, writes.WriteSide(readings, [base], target.capacity_bytes, 60)


@pytest.mark.parametrize("name", DRIVES)
def test_structure_of_the_write_side_is_told_exactly(name: str) -> None:
    truth, side = learned(name)
    options = side.options()
    assert options["write_cache"] == truth["write_cache"]
    superblocks = [each["planes"] * each["pages_per_block"] for each in (truth, options)]
    assert superblocks[0] == superblocks[1]
    assert options.get("slc_region", 0) == pytest.approx(truth.get("slc_region", 0), rel=0.1)
    assert options.get("slc_folding") == truth.get("slc_folding")
    assert options["read_priority"] == truth.get("read_priority", False)
    assert bool(options.get("background_free")) == bool(truth.get("background_free"))


@pytest.mark.parametrize("name", DRIVES)
def test_intervals_have_the_true_times(name: str) -> None:
    truth, side = learned(name)
    truth = truth | {f"page_type_program_us {n}": each for n, each in enumerate(truth.get("page_type_program_us", ()))}
    bounds = [each for each in side.parameters() if each.unit == "us" and each.name in truth and each.low is not None]
    assert {"erase_us", "command_write_us"} <= {each.name for each in bounds}
    inside = [each.low <= truth[each.name] <= each.high for each in bounds]
    assert sum(inside) >= len(inside) - 1, [(each.name, each.low, each.high) for each in bounds]


@pytest.mark.parametrize("name", DRIVES)
def test_write_amplification_in_steady_state_is_met(name: str) -> None:
    truth, side = learned(name)
    draws = np.random.default_rng(5)
    places = draws.integers(side.capacity_bytes // 8192, size=6000).astype(np.uint64) * 8192
    arrays = {"kind": np.ones(6000, np.uint8), "offset_bytes": places, "bytes": np.full(6000, 8192, np.uint32)}
    found = [
        simulator.Drive(**options, precondition=1).run(arrays, feed="closed:16").summary
        for options in (truth, side.options())
    ]
    for key, most in (("write_amplification", 0.05), ("mean_response_ms", 0.08)):
        assert found[1][key] == pytest.approx(found[0][key], rel=most), key


def test_a_region_that_all_writes_go_to_is_told_by_garbage_collection() -> None:
    truth, side = learned("SLC region for all writes")
    region = [each["slc_region"] for each in (truth, side.options())]
    superblock = truth["elements"] * truth["program_unit"] * (truth["planes"] * truth["pages_per_block"] // 8 // 3)
    assert abs(region[0] - region[1]) <= superblock
    assert side.options()["slc_folding"] != "idle"


def test_what_is_left_out_is_assumed_and_says_what_would_tell_it() -> None:
    truth = DRIVES["cache"]
    target = SimulatedTarget(truth, 3)
    known = Known(target.capacity_bytes, {}, 600, writes=True)
    loads = [*writes.first_loads(known, 32 * KIB, 6), *writes.rate_loads(known, 32 * KIB, 6)]
    readings = target.run([each for each in loads if each.name != writes.FILL])
    base = {key: truth[key] for key in READ_SIDE + CHANNELS}
    found = {each.name: each for each in writes.WriteSide(readings, [base], target.capacity_bytes, 60).parameters()}
    assert found["write_cache"].identified == "no" and "filled a cache" in found["write_cache"].needs
    assert found["spare share"].identified == "assumed" and "overwrites" in found["spare share"].needs
