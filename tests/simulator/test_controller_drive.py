"""Drives with a controller against a second one, written apart from it (`controller_drive`), and their limits."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.special import lambertw

from ioassay import traces
from ioassay.errors import UsageError
from ioassay.simulator import check, simulate

from .controller_drive import ControllerDrive
from .controller_superblocks import Controller, Slc
from .mapped_drive import MappedDrive
from .reference_drive import Request

DRIVES = 400 if os.environ.get("IOASSAY_THOROUGH") else 60
DRAWS = range(0, DRIVES, 20)
US = 1_000_000


def draw(chance: random.Random) -> tuple[Controller, dict[str, Any]]:
    """A drive of a few thousand pages, and its options."""
    elements, planes = chance.choice((1, 2, 3, 4, 8)), chance.choice((1, 2))
    unit = chance.choice((1, 2, 3, 4, 8))
    flash_page = chance.choice([each for each in (1, 2, 4, 8) if unit % each == 0])
    block_pages = unit * chance.randint(1 if unit > 1 else 2, 6)
    blocks, min_free = chance.randint(12, 24), chance.choice((0.1, 0.15))
    hot_cold = chance.random() < 0.4
    superblock = chance.choice([each for each in (0, 1, 2, elements) if each == 0 or elements % each == 0])
    slc, slc_options = None, {}
    if chance.random() < 0.6:
        slc, slc_options = draw_slc(chance, elements, planes * block_pages, unit, flash_page)
        blocks += 4
    low = int(min_free * blocks) + hot_cold + bool(slc)
    least = low + 3 + hot_cold + (0 if slc is None else 1 if slc.dynamic else slc.superblocks)
    reserve = chance.choice([share for share in (0.25, 0.3, 0.5, 0.7, 0.8) if int(share * blocks) >= least][:3])
    background = chance.randint(0, max(0, int(reserve * blocks) - least + low - 1))
    types = chance.choice((0, 1, 3))
    programs = [chance.choice((0, 300, 700)) for _ in range(chance.choice((0, types)))]
    fill = chance.choice((1, 1, 0, 0.5, chance.random()))
    times = [chance.choice((0, 20, 45, 80)) for _ in range(types)]
    small = [chance.choice((0, 15, 30)) for _ in range(chance.choice((0, 1, types)))]
    cache = chance.choice((0, unit, 2 * unit + 1, 16 * unit))
    read_priority = chance.random() < 0.7
    suspensions = [chance.choice((0, 1, 5)) if read_priority else 0 for _ in range(2)]
    suspend_us = chance.choice((0, 20)) if any(suspensions) else 0
    entry_bytes, mapping_pages = chance.choice((8, 200, 512)), chance.choice((0, 0, 1, 2, 9))
    options = {
        "mapping_cache": mapping_pages * flash_page * 4096, "mapping_entry_bytes": entry_bytes if mapping_pages else 8,
        "elements": elements, "dies": 1, "planes": planes, "blocks": blocks, "pages_per_block": block_pages,
        "reserve": reserve, "min_free": min_free, "endurance": 0, "read_us": 25, "program_us": chance.choice((0, 300)),
        "erase_us": chance.choice((0, 1000)), "copy_back": chance.random() < 0.3,
        "read_priority": read_priority, "cleaning": chance.choice(("greedy", "cost-benefit")),
        "write_cache": cache * 4096, "program_unit": unit * 4096, "flash_page": flash_page * 4096,
        "page_type_read_us": times or "none", "small_read_us": "/".join(map(str, small)) or "none",
        "command_read_us": chance.choice((0, 12.5)), "command_write_us": chance.choice((1, 6)),
        "command_read_us_per_4k": chance.choice((0, 0.5)), "command_write_us_per_4k": chance.choice((0, 1.5)),
        "command_rate": chance.choice((0, 40_000)), "flash_channels": chance.choice((0, 1, elements)),
        "flash_channel_mb_s": chance.choice((0, 51.2, 800)), "link_mb_s": chance.choice((0, 100, 3200)),
        "link_duplex": chance.random() < 0.5,
        "superblock": superblock, "page_type_program_us": programs or "none", "fill": fill,
        **slc_options,
        "program_suspensions": suspensions[0], "erase_suspensions": suspensions[1], "suspend_us": suspend_us,
        "background_free": (background + 0.5) / blocks if background else 0, "hot_cold": hot_cold,
        "window": chance.choice((None, None, 1, 8)), "driver": "fcfs", "max_outstanding": 1_000_000,
    }  # fmt: skip
    if slc:
        slc_us = {"program_ps": options["program_us"], "read_ps": 25}
        for name, key in (("slc_program_us", "program_ps"), ("slc_read_us", "read_ps")):
            slc_us[key] = slc_us[key] if options[name] == "none" else options[name]
        slc = replace(slc, **{key: value * US for key, value in slc_us.items()})
    read_ps = [each * US for each in times] or [25 * US]
    spec = Controller(
        elements, planes, blocks, block_pages, blocks - int(reserve * blocks), low, unit, flash_page,
        span=options["superblock"] or elements, cache=cache,
        read_ps=tuple(read_ps), small_read_ps=tuple([each * US for each in small] or read_ps),
        program_ps=tuple(each * US for each in programs or [options["program_us"]]), erase_ps=options["erase_us"] * US,
        command_ps=(round(options["command_write_us"] * US), round(options["command_read_us"] * US)),
        command_ps_per_4k=(
            round(options["command_write_us_per_4k"] * US), round(options["command_read_us_per_4k"] * US)
        ),
        interval_ps=round(10**12 / options["command_rate"]) if options["command_rate"] else 0,
        channels=options["flash_channels"] or elements,
        channel_ps=sector_ps(options["flash_channel_mb_s"]) or 528 * 25_000,
        link_ps=sector_ps(options["link_mb_s"]) or 238_400, duplex=options["link_duplex"],
        copy_back=options["copy_back"], read_priority=options["read_priority"],
        greedy=options["cleaning"] == "greedy",
        program_suspensions=suspensions[0], erase_suspensions=suspensions[1], suspend_ps=suspend_us * US,
        background=max(low, background), hot_cold=hot_cold, typed_units=bool(programs),
        mapped=int(check(options)["pages"] * round(fill * 1e6) // 10**6), slc=slc,
    )  # fmt: skip
    return spec, options


def draw_slc(
    chance: random.Random, elements: int, block_pages: int, unit: int, flash_page: int
) -> tuple[Slc | None, dict[str, Any]]:
    """An SLC region of a few superblocks, and its options; none where a block has too few pages for one."""
    bits = chance.choice((2, 3, 4))
    slc_unit = chance.choice(range(flash_page, unit + 1, flash_page))
    rows = block_pages // bits // slc_unit
    if rows == 0:
        return None, {}
    program_us, read_us = chance.choice((None, 0, 75)), chance.choice((None, 10))
    slc = Slc(
        superblocks=chance.randint(1, 4), dynamic=chance.random() < 0.5, unit=slc_unit, rows=rows,
        program_ps=0, read_ps=0, folding=chance.choice(("both", "idle", "full")),
        idle_ps=chance.choice((0, 50, 1000)) * US,
    )  # fmt: skip
    superblock_bytes = elements * rows * slc_unit * 4096
    return slc, {
        "slc_region": slc.superblocks * superblock_bytes + chance.randrange(superblock_bytes),
        "slc_dynamic": slc.dynamic, "bits_per_cell": bits, "slc_program_unit": slc_unit * 4096,
        "slc_program_us": "none" if program_us is None else program_us,
        "slc_read_us": "none" if read_us is None else read_us,
        "slc_folding": slc.folding, "slc_idle_us": slc.idle_ps // US,
    }  # fmt: skip


def drive(spec: Controller, options: dict[str, Any]) -> ControllerDrive:
    """The second drive, with a mapping cache if the options have one."""
    if not options["mapping_cache"]:
        return ControllerDrive(spec, options["window"])
    entry_bytes = options["mapping_entry_bytes"]
    entries, per_page = options["mapping_cache"] // entry_bytes, spec.flash_page * 4096 // entry_bytes
    pages = spec.usable * spec.elements * spec.planes * spec.block_pages
    return MappedDrive(spec, options["window"], min(entries, pages), per_page)


def sector_ps(mb_s: float) -> int:
    return round(512 * 10**6 / mb_s) if mb_s else 0


def load(chance: random.Random, pages: int) -> list[Request]:
    """Requests alone or in bursts, some to a few hot pages only."""
    largest, read_share = min(chance.choice((1, 1, 4, 24)), pages // 2), chance.choice((0.0, 0.2, 0.5, 1.0))
    gap_ns = chance.choice((5_000, 40_000, 400_000)) * (1 + largest) / 2
    burst, hot = chance.choice((1, 1, 7)), chance.choice((pages, pages, max(pages // 20, largest)))
    at_ns, requests = 0.0, []
    for number in range(chance.randint(200, 1500)):
        if number % burst == 0:
            at_ns += chance.expovariate(1 / (burst * gap_ns))
        size = chance.randint(1, largest)
        first = chance.randrange(hot - size + 1) * 8
        cut = chance.randrange(8) if chance.random() < 0.2 else 0
        requests.append(Request(round(at_ns) * 1000, first + cut, size * 8 - cut, chance.random() < read_share))
    return requests


@pytest.mark.parametrize("first", DRAWS)
def test_random_drives_under_random_loads(first: int, seed: int, lines: Callable[..., Path]) -> None:
    for number in range(first, min(first + 20, DRIVES)):
        chance = random.Random(f"{seed}.{number}")
        spec, options = draw(chance)
        requests = load(chance, check(options)["pages"])
        trace = lines(*((f"{each.at_ps / 1e9:.6f}", each.sector, each.sectors, int(each.is_read)) for each in requests))
        reference = drive(spec, options)
        responses_ps = reference.run(requests)
        done = simulate(trace, format="disksim", **options)
        found, case = done.summary, (seed, number, options)
        assert found["requests"] == len(requests), case
        assert found["mean_response_ms"] == pytest.approx(sum(responses_ps) / len(requests) / 1e9, rel=1e-9), case
        assert found["max_ms"] == pytest.approx(max(responses_ps) / 1e9, abs=1e-6), case
        assert found["moved_pages"] == reference.moved, case
        assert found["erases"] == reference.erased, case
        assert (found["slc_pages"], found["folded_pages"]) == (reference.in_slc, reference.folded), case
        assert found["slc_free_share"] == reference.slc_free_share, case
        assert done.raw["buffer"]["write_hits"] == reference.hits, case
        if isinstance(reference, MappedDrive):
            assert {name: done.raw["controller"][name] for name in reference.lookups} == reference.lookups, case
        assert list(done.raw["elements"]["busy_ps"]) == [each.busy_ps for each in reference.elements], case


# Limits

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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"write_cache": "4KiB", "program_unit": "32KiB"}, "write_cache is 4096, wanted 0, or at least the program"),
        ({"program_unit": "6KiB"}, "program_unit is 6144, wanted a multiple of the page"),
        ({"program_unit": "20KiB"}, "program_unit is 20480, wanted a multiple of the page of 4096 bytes that divides"),
        ({"program_unit": "32KiB", "flash_page": "64KiB"}, "flash_page is 65536, wanted a multiple of the page"),
        ({"flash_channels": 5}, "flash_channels is 5, wanted at most the 4 elements"),
        ({"superblock": 3}, "superblock is 3, wanted a divisor of the 4 elements"),
        ({"page_type_read_us": "40/60/80", "small_read_us": "30/40"}, "small_read_us is 2, wanted 1 time, or 3"),
        ({"page_type_read_us": "40/-1"}, "page_type_read_us is -1, wanted 0 to a second"),
        ({"small_read_us": "fast"}, "small_read_us is 'fast', wanted a number"),
        ({"command_rate": -5}, "command_rate is -5, wanted 0, or at least 1000"),
        ({"link_mb_s": 1e-6}, "link_mb_s is 0.000001, wanted 0, or at least 0.512"),
        ({"write_cache": "64KiB", "overlap": "dies"}, "overlap is on, wanted off with the options of the controller"),
        ({"write_cache": "64KiB", "pool": "plane"}, "pool is plane, wanted element with the options of"),
        ({"write_cache": "64KiB", "wear_levelling": "dynamic"}, "wear_levelling is on, wanted off with the options"),
        ({"write_cache": "64KiB", "channels": 2}, "channels is 2, wanted 1 with the options of the controller"),
        ({"write_cache": "64KiB", "policy": "lru", "mode": "inline"}, "mode is inline, wanted reshape, or write_cache"),
        ({"erase_suspensions": 1}, "erase_suspensions is 1, wanted 0 without read_priority"),
        ({"suspend_us": 20}, "suspend_us is 20, wanted 0 without program_suspensions"),
        ({"write_cache": "64KiB", "reserve": 0.1}, "reserve is 0.1, wanted at least 4 of the 32 blocks"),
        ({"write_cache": "64KiB", "reserve": 0.13, "hot_cold": True}, "reserve is 0.13, wanted at least 6 of the 32"),
        ({"background_free": 0.15}, "background_free is 0.15, wanted less than 4 of the 32 blocks"),
        ({"mapping_cache": "2KiB"}, "mapping_cache is 2048, wanted 0, or at least a translation page, the 4096 bytes"),
        ({"mapping_entry_bytes": 4}, "mapping_entry_bytes is 4, wanted 8 without mapping_cache"),
        ({"mapping_cache": "4KiB", "mapping_entry_bytes": 0}, "mapping_entry_bytes is 0, wanted 1 to 512"),
        ({"background_free": 1}, "background_free is 1, wanted a share from 0 up to 1"),
    ],
)
def test_drives_that_cannot_be_are_refused_with_the_option(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check({**PLAIN, **changes})
    assert str(refused.value).startswith(message)
