"""Drives with a controller: their limits by arithmetic, and what a cache, a suspension and a mapping change.

Random ones are compared with a second implementation in `test_random_drives`.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy.special import lambertw

from ioassay import traces
from ioassay.simulator import check, simulate

PLAIN = {
    "elements": 4, "planes": 2, "dies": 1, "blocks": 32, "pages_per_block": 32, "endurance": 0, "reserve": 0.2,
    "window": None,
}  # fmt: skip
CACHED = {
    **PLAIN, "write_cache": "256KiB", "program_unit": "32KiB", "command_write_us": 9, "command_write_us_per_4k": 0.5,
    "link_mb_s": 3200,
}  # fmt: skip
MIXED = traces.recipe(requests=3000, arrivals="poisson:20000", reads=0.5, range="8MiB", sizes="8KiB")


def test_a_write_at_depth_1_takes_its_command_time_and_its_transfer() -> None:
    writes = traces.recipe(requests=800, range="8MiB")
    done = simulate(writes, feed="closed:1", flash_channel_mb_s=1600, **CACHED)
    assert done.summary["mean_response_ms"] == pytest.approx(0.0095 + 4096 / 3.2e9 * 1e3, rel=1e-9)


def test_a_read_of_an_idle_drive_adds_up() -> None:
    read = traces.recipe(requests=1, reads=1.0, range="4KiB")
    options = {**CACHED, "command_read_us": 20, "page_type_read_us": "70/80", "small_read_us": "30/40"}
    options |= {"flash_channel_mb_s": 800, "flash_page": "16KiB"}
    transfers_us = 4096 / 800 + 4096 / 3200
    assert simulate(read, **options).summary["mean_response_ms"] == pytest.approx((50 + transfers_us) / 1e3, rel=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"command_rate": 1e12},
        {"flash_channels": 4},
        {"superblock": 4},
        {"link_mb_s": 512 / 0.2384},
        {"flash_channel_mb_s": 512 / 528 / 0.025},
        {"page_type_read_us": 25},
        {"page_type_read_us": [25, 25], "small_read_us": "25/25"},
    ],
)
def test_what_limits_nothing_changes_nothing(changes: dict[str, Any]) -> None:
    names = ("mean_response_ms", "p99_ms", "max_ms", "iops", "mean_utilisation", "moved_pages")
    without = simulate(MIXED, **PLAIN, command_read_us=1).summary
    with_it = simulate(MIXED, **PLAIN, command_read_us=1, **changes).summary
    assert [with_it[name] for name in names] == pytest.approx([without[name] for name in names], rel=1e-6)


def test_options_at_their_defaults_leave_the_reference_drive_as_it_is() -> None:
    without = simulate(MIXED, **PLAIN).summary
    zeros = dict.fromkeys(("write_cache", "program_unit", "command_rate", "superblock", "link_mb_s"), 0)
    assert {**simulate(MIXED, **PLAIN, **zeros).summary, "wall_s": 0} == {**without, "wall_s": 0}


def test_a_cache_drains_at_the_rate_of_flash_when_it_is_full() -> None:
    writes = traces.recipe(requests=6000, range="8MiB")
    quick = {**PLAIN, "reserve": 0.5, "blocks": 64, "write_cache": "256KiB", "program_unit": "32KiB", "program_us": 400}
    quick |= {"flash_channel_mb_s": 1e5, "channel_us_per_sector": 0}
    done = simulate(writes, feed="closed:16", **quick)
    pages_per_s = (done.raw["drive"]["written_pages"]) / done.span_s
    assert pages_per_s == pytest.approx(4 * 8 / 400e-6, rel=0.01)
    assert done.summary["mean_response_ms"] == pytest.approx(16 / pages_per_s * 1e3, rel=0.05)


def test_suspension_takes_program_and_erase_time_out_of_reads() -> None:
    options = {**CACHED, "precondition": 1.0, "read_priority": True, "flash_channel_mb_s": 1600, "erase_us": 5000}
    load = traces.recipe(requests=5000, arrivals="poisson:4000", reads=0.5, range=check(options)["capacity_bytes"])
    plain = simulate(load, **options)
    suspended = simulate(load, **options, program_suspensions=4, erase_suspensions=4, suspend_us=10)
    longest_us = [done.response("read").quantile(0.99) / 1e3 for done in (plain, suspended)]
    assert suspended.raw["controller"]["suspensions"] > 100
    assert longest_us[0] > 1000 > 500 > longest_us[1]


def test_random_reads_hit_the_share_of_the_mapping_that_is_cached() -> None:
    read = traces.recipe(requests=30_000, reads=1.0, range="8MiB", seed=5)
    options = {**PLAIN, "mapping_cache": "4KiB", "read_us": 50, "flash_channel_mb_s": 1e5, "link_mb_s": 1e5}
    found = simulate(read, feed="closed:1", **options).summary
    assert found["mapping_hit_ratio"] == pytest.approx(512 / 2048, abs=0.01)
    assert found["mapping_misses"] == found["translation_reads"] and found["translation_writes"] == 0
    assert found["mapping_hits"] + found["mapping_misses"] == 30_000
    # A miss reads flash twice.
    assert found["mean_response_ms"] == pytest.approx(0.05 * (2 - found["mapping_hit_ratio"]), rel=0.01)


def test_pages_of_one_request_share_the_read_of_their_translation_page() -> None:
    options = {**PLAIN, "mapping_cache": "4KiB"}
    found = simulate(traces.recipe(requests=1, reads=1.0, sizes="64KiB", range="64KiB"), **options).summary
    assert (found["mapping_misses"], found["translation_reads"]) == (16, 1)


def test_changed_entries_of_a_translation_page_are_written_together() -> None:
    options = {**PLAIN, "mapping_cache": "4KiB", "mapping_entry_bytes": 512}
    writes = traces.recipe(requests=1, sizes="64KiB", range="64KiB")
    found = simulate(writes, **options).summary
    # 8 entries: the ninth lets the first leave, and the 7 others that changed with it are written too.
    assert (found["translation_reads"], found["translation_writes"]) == (1, 1)
    assert found["mapping_hit_ratio"] is None
    assert simulate(writes, **PLAIN, command_read_us=1).summary["translation_writes"] is None


def test_steady_state_has_the_amplification_of_its_spare_space_and_no_more_work_than_time() -> None:
    options = {**CACHED, "blocks": 64, "min_free": 0.05, "precondition": 1.0, "program_unit": 0}
    size = check(options)["capacity_bytes"]
    done = simulate(traces.recipe(requests=40_000, range=size), feed="closed:8", **options)
    # Collection of the oldest block amplifies uniform writes by a / (a + W(-a exp(-a))) (P. Desnoyers, "Analytic
    # Modeling of SSD Write Performance", SYSTOR 2012), where a is the space in use over the exported space. Of 64
    # superblocks, 3 are kept free and one is being written. The greedy choice is nearly the same for uniform writes.
    alpha = (64 - 3 - 1) / 52
    oldest = alpha / (alpha + lambertw(-alpha * math.exp(-alpha)).real)
    assert done.summary["write_amplification"] == pytest.approx(oldest, rel=0.08)
    assert done.summary["mean_utilisation"] <= 1
    assert (
        simulate(traces.recipe(requests=40_000, range=size), feed="closed:8", **options).raw["drive"]
        == done.raw["drive"]
    )
