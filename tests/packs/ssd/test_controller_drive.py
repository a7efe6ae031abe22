"""Drives with a controller: their limits by arithmetic, what a cache and a suspension change, and what folding costs.

What a second implementation answered of random ones is compared in `test_reference_points`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy.special import lambertw

from ioassay.errors import UsageError
from ioassay.packs.ssd.simulator import check, simulate, sweep
from ioassay.simulation import traces

from ...corpora import cases

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


def test_flash_commands_wait_until_no_transfer_is_ready() -> None:
    # Two reads of each of two elements on a channel. Their commands take 1 us, the array 75 us, a transfer 10 us.
    options = {**PLAIN, "elements": 2, "flash_channels": 1, "flash_channel_mb_s": 409.6, "read_us": 75}
    options |= {"channel_us_per_sector": 0, "flash_command_us": 1}
    read = traces.recipe(requests=4, arrivals="none", addresses="sequential", reads=1.0, range="16KiB")
    done = simulate(read, feed="closed:4", **options)
    first, second = 1 + 75 + 10, 1 + 75 + 20
    # The commands of the second two cross when both transfers have ended.
    assert done.summary["mean_response_ms"] == pytest.approx((first + second + 2 * second + first + second) / 4e3)


@cases("simulator", "controllers", having="limits_nothing")
def test_what_limits_nothing_changes_nothing(case: dict[str, Any]) -> None:
    names = ("mean_response_ms", "p99_ms", "max_ms", "iops", "mean_utilisation", "moved_pages")
    without = simulate(MIXED, **PLAIN, command_read_us=1).summary
    with_it = simulate(MIXED, **PLAIN, command_read_us=1, **case["limits_nothing"]).summary
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
    assert suspended.raw["tally"]["suspensions"] > 100
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


def test_a_part_of_a_translation_page_crosses_the_channel_in_its_own_time() -> None:
    read = traces.recipe(requests=1, reads=1.0, range="4KiB")
    whole, part = (
        simulate(read, **PLAIN, mapping_cache="4KiB", flash_channel_mb_s=4.096, translation_read=bytes_of).summary
        for bytes_of in (0, 512)
    )
    assert whole["mean_response_ms"] - part["mean_response_ms"] == pytest.approx((4096 - 512) / 4096)


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


def test_throttled_writes_wait_for_no_whole_superblock_while_flash_programs_as_much() -> None:
    options: dict[str, Any] = {**CACHED, "pages_per_block": 128, "blocks": 128, "min_free": 0.02, "precondition": 1.0}
    writes = traces.recipe(requests=40_000, range=check(options)["capacity_bytes"])
    for hot_cold in (False, True):
        waits_ms, programmed_pages_per_s = [], []
        for throttle in (False, True):
            how = {"background_free": 0.06, "throttle": throttle, "hot_cold": hot_cold}
            done = simulate(writes, feed="closed:8", **options, **how).summary
            waits_ms.append(done["max_ms"])
            programmed_pages_per_s.append(done["iops"] * done["write_amplification"])
        assert waits_ms[1] < waits_ms[0] / 2
        assert programmed_pages_per_s[1] > 0.9 * programmed_pages_per_s[0]
    with pytest.raises(
        UsageError, match="background_free is 0, expected at least 5 of the 128 blocks .* with throttle"
    ):
        check({**options, "throttle": True})


@pytest.mark.parametrize("pattern, share", [("uniform", 1 / (1 + 8 * 1024 / 32_768)), ("sequential", 1.0)])
def test_the_mapping_log_takes_its_share_of_flash_from_writes_that_continue_no_other(
    pattern: str, share: float
) -> None:
    """Of a unit of 8 pages, each a command: 8 entries of 1 KiB."""
    options = {**CACHED, "pages_per_block": 256, "reserve": 0.7}
    writes = traces.recipe(requests=20_000, addresses=pattern, range="60MiB")
    without, with_it = (simulate(writes, feed="closed:64", mapping_log=size, **options) for size in (0, "1KiB"))
    assert with_it.summary["iops"] == pytest.approx(share * without.summary["iops"], rel=0.02)
    with pytest.raises(UsageError, match="mapping_log is 65536, expected at most the program unit of 32768 bytes"):
        check({**options, "mapping_log": "64KiB"})


# The SLC region


TLC = {
    "elements": 4, "dies": 1, "planes": 2, "blocks": 64, "pages_per_block": 96, "reserve": 0.4, "min_free": 0.05,
    "endurance": 0, "window": None, "driver": "fcfs", "program_unit": "48KiB", "program_us": 600, "read_us": 50,
    "write_cache": "1MiB", "command_write_us": 2, "flash_channel_mb_s": 1e5, "link_mb_s": 1e5, "link_duplex": True,
    "copy_back": False, "erase_us": 1000,
}  # fmt: skip
SUPERBLOCK = 4 * 2 * 96 // 3
"""Pages of a superblock in SLC mode."""
REGION: dict[str, Any] = {
    "slc_region": 8 * SUPERBLOCK * 4096, "bits_per_cell": 3, "slc_program_unit": "16KiB", "slc_program_us": 100,
    "slc_read_us": 20,
}  # fmt: skip
SLC_RATE, TLC_RATE = 4 * 4 / 100e-6, 4 * 12 / 600e-6
"""Pages a second of all elements."""


def sequential(pages: int) -> traces.Trace:
    return traces.recipe(
        requests=pages // 4, arrivals="none", addresses="sequential", sizes="16KiB", range=pages * 4096
    )


def written(pages: int, **options: Any) -> Any:
    return simulate(sequential(pages), feed="closed:32", **{**TLC, **REGION, **options})


def test_writes_go_at_the_rate_of_slc_until_the_region_is_used_up() -> None:
    done = written(8 * SUPERBLOCK, slc_folding="idle")
    assert done.summary["slc_pages"] == done.summary["written_pages"] == 8 * SUPERBLOCK
    assert done.summary["slc_free_share"] == 0 and done.summary["folded_pages"] == 0
    assert 8 * SUPERBLOCK / done.span_s == pytest.approx(SLC_RATE, rel=0.15)


def test_with_folding_when_idle_writes_beyond_the_region_go_at_the_rate_of_tlc() -> None:
    pages = 24 * SUPERBLOCK
    done = written(pages, slc_folding="idle")
    assert done.summary["slc_pages"] == 8 * SUPERBLOCK and done.summary["moved_pages"] == 0
    limit_s = 8 * SUPERBLOCK / SLC_RATE + 16 * SUPERBLOCK / TLC_RATE
    assert done.span_s == pytest.approx(limit_s, rel=0.1)


@pytest.mark.parametrize("folding", ["full", "both"])
def test_with_folding_when_full_writes_beyond_the_region_wait_for_it(folding: str) -> None:
    pages = 24 * SUPERBLOCK
    done = written(pages, slc_folding=folding)
    assert done.summary["slc_pages"] == done.summary["written_pages"] == pages
    # Each superblock beyond the region is written, and an earlier one read, programmed and erased.
    folded_s = SUPERBLOCK / TLC_RATE + SUPERBLOCK / 4 / 4 * 20e-6 + 1e-3
    limit_s = pages / SLC_RATE + 16 * folded_s
    assert done.span_s == pytest.approx(limit_s, rel=0.25)
    assert 16 * SUPERBLOCK <= done.summary["folded_pages"] <= 17 * SUPERBLOCK
    assert done.summary["folded_pages"] == done.summary["moved_pages"]
    amplification = 1 + done.summary["folded_pages"] / pages
    assert done.summary["write_amplification"] == pytest.approx(amplification, rel=1e-12)


def bursts(gap_ms: int, **options: Any) -> Any:
    """Six bursts, each as large as half the region, from end to end of the same 16 superblocks."""
    load = traces.recipe(
        requests=24 * SUPERBLOCK // 4, arrivals="none", addresses="sequential", sizes="16KiB",
        range=16 * SUPERBLOCK * 4096,
    )  # fmt: skip
    feed = f"batch:{SUPERBLOCK}@{gap_ms}ms"
    return simulate(load, feed=feed, **{**TLC, **REGION, "slc_idle_us": 1000, "slc_folding": "idle", **options})


def test_a_host_that_rests_finds_the_region_free_again() -> None:
    rested, hurried = bursts(500), bursts(20)
    assert rested.summary["slc_pages"] == 24 * SUPERBLOCK > hurried.summary["slc_pages"] > 8 * SUPERBLOCK
    # What was written behind the last rest is not folded: nobody waits for it.
    assert rested.summary["slc_free_share"] == 0.5 and rested.summary["folded_pages"] == 20 * SUPERBLOCK
    assert bursts(500, slc_idle_us=600_000).summary["folded_pages"] == 0


def test_overwritten_pages_need_no_folding() -> None:
    hot = traces.recipe(
        requests=60 * SUPERBLOCK, arrivals="none", addresses="sequential", sizes="4KiB", range=2 * SUPERBLOCK * 4096
    )
    found = simulate(hot, feed="closed:32", **{**TLC, **REGION}).summary
    assert found["slc_pages"] > 50 * SUPERBLOCK and found["folded_pages"] == 0 and found["write_amplification"] == 1


def test_a_page_is_read_in_the_time_of_where_it_is(lines: Callable[..., Path]) -> None:
    # Written, folded in between or not, and read alone.
    trace = lines(
        *((f"{number * 0.001:.6f}", 8 * number, 8, 0) for number in range(SUPERBLOCK)),
        *((f"{900 + number:.6f}", 8 * number, 8, 1) for number in range(20)),
    )
    options = {**TLC, **REGION, "write_cache": 0, "slc_program_unit": "4KiB", "command_read_us": 5}
    transfers_us = 4096 / 1e5 + 4096 / 1e5
    for folding, read_us in (("full", 20), ("idle", 50)):
        done = simulate(trace, format="disksim", **{**options, "slc_folding": folding, "program_unit": 0})
        expected_us = 5 + read_us + transfers_us
        assert done.raw["read"]["mean_response_ps"] / 1e6 == pytest.approx(expected_us, abs=1e-3)
        assert done.summary["folded_pages"] == (SUPERBLOCK if folding == "idle" else 0)


def test_a_dynamic_region_shrinks_as_the_drive_fills() -> None:
    one_read = traces.recipe(requests=1, reads=1.0, range="4KiB")
    region = {**REGION, "slc_dynamic": True, "slc_region": 40 * SUPERBLOCK * 4096}
    shares = [
        simulate(one_read, **{**TLC, **region, "fill": fill}).summary["slc_free_share"] for fill in (0.0, 0.6, 1.0)
    ]
    # Of 64 superblocks, 38.4 hold what is exported, and 3 + 1 + 1 stay free for garbage collection and folding.
    assert shares == [1.0, (64 - 24 - 5) / 40, (64 - 39 - 5) / 40]


@pytest.mark.parametrize("folding", ["full", "idle", "both"])
def test_a_dynamic_region_of_a_full_drive_in_long_use_gives_way(folding: str) -> None:
    region = {**REGION, "slc_dynamic": True, "slc_folding": folding, "reserve": 0.2}
    size = check({**TLC, **region})["capacity_bytes"]
    load = traces.recipe(requests=30_000, range=size, sizes="16KiB")
    done = simulate(load, feed="closed:8", precondition=1.0, **{**TLC, **region})
    plain = simulate(load, feed="closed:8", precondition=1.0, **{**TLC, "reserve": 0.2})
    assert done.summary["requests"] == 30_000
    assert plain.summary["write_amplification"] <= done.summary["write_amplification"] < 12


def test_reads_of_unmapped_pages_take_no_flash() -> None:
    size = check(TLC)["capacity_bytes"]
    reads = traces.recipe(requests=4000, reads=1.0, range=size, arrivals="poisson:1000")
    done = [simulate(reads, **{**TLC, "fill": fill}) for fill in (0.0, 0.5, 1.0)]
    found = [each.raw["drive"]["read_pages"] for each in done]
    assert found[0] == 0 and found[1] == pytest.approx(2000, rel=0.1) and found[2] == 4000
    assert done[0].summary["mean_response_ms"] * 1e3 == pytest.approx(4096 / 1e5)


def test_a_drive_that_is_not_full_is_fresh_for_longer() -> None:
    writes = sequential(64 * 4 * 2 * 96 // 2)
    cleanings = [simulate(writes, feed="closed:8", **{**TLC, "fill": fill}).summary["cleanings"] for fill in (0.1, 1)]
    assert cleanings[0] == 0 < cleanings[1]


def test_units_of_one_page_type_take_the_mean_of_the_program_times() -> None:
    typed = {**TLC, "program_unit": "16KiB", "page_type_program_us": "300/700/1100", "page_type_read_us": "40/50/60"}
    pages = 12_000
    done = simulate(sequential(pages), feed="closed:64", **typed)
    assert pages / done.span_s == pytest.approx(4 * 4 / 700e-6, rel=0.1)
    one = {**TLC, "program_unit": "16KiB", "program_us": 700}
    same = simulate(sequential(pages), feed="closed:64", **{**one, "page_type_program_us": 700})
    without = simulate(sequential(pages), feed="closed:64", **one)
    assert {**same.summary, "wall_s": 0} == {**without.summary, "wall_s": 0}


@cases("simulator", "controllers", having="with_region")
def test_a_region_works_with_other_options_and_in_sweeps(case: dict[str, Any]) -> None:
    options = {**TLC, **REGION, **case["with_region"]}
    load = traces.recipe(
        requests=6000, arrivals="poisson:4000", reads=0.4, range=check(options)["capacity_bytes"] // 2, sizes="16KiB"
    )
    done = simulate(load, **options)
    assert done.summary["slc_pages"] > 0 and done.summary["unfinished"] == 0
    (swept,) = sweep(load, [options])
    assert {**swept.summary, "wall_s": 0} == {**done.summary, "wall_s": 0}


def test_a_region_whose_blocks_wear_out_leaves_a_drive_without_one() -> None:
    options = {**TLC, **REGION, "endurance": 3, "slc_folding": "full"}
    load = traces.recipe(requests=9000, arrivals="none", addresses="sequential", sizes="16KiB", range="24MiB")
    done = simulate(load, feed="closed:8", **options)
    assert done.summary["dead_blocks"] == 8 * 4 * 2 and done.summary["slc_free_share"] == 0
    assert done.summary["slc_pages"] == 3 * 8 * SUPERBLOCK < done.summary["written_pages"]
