"""The simulator against second drives, written apart from it: random drives under random loads.

With a controller, that drive is `controller_drive`. What one without answered is a table: its rules are DiskSim's,
whose own numbers are in `test_reference_points`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioassay.simulator import Simulation, check, simulate

from ..corpora import THOROUGH, cases
from .controller_drive import ControllerDrive, MappedDrive
from .controller_superblocks import Controller, Request, Slc

DRIVES = 500 if THOROUGH else 25
US = 1_000_000


def draw_controller(chance: random.Random) -> tuple[Controller, dict[str, Any]]:
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


def load(chance: random.Random, pages: int, largest: int, gap_ns: float) -> list[Request]:
    """Requests of up to `largest` pages, alone or in bursts, some to a few hot pages only."""
    read_share = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
    burst, hot = chance.choice((1, 1, 7)), chance.choice((pages, pages, max(pages // 30, largest)))
    at_ns, requests = 0.0, []
    for number in range(chance.randint(200, 1500)):
        if number % burst == 0:
            at_ns += chance.expovariate(1 / (burst * gap_ns))
        size = chance.randint(1, largest)
        first = chance.randrange(hot - size + 1) * 8
        cut = chance.randrange(8) if chance.random() < 0.2 else 0
        requests.append(Request(round(at_ns) * 1000, first + cut, size * 8 - cut, chance.random() < read_share))
    return requests


def simulated(lines: Callable[..., Path], requests: list[Request], options: dict[str, Any]) -> Simulation:
    trace = lines(*((f"{each.at_ps / 1e9:.6f}", each.sector, each.sectors, int(each.is_read)) for each in requests))
    return simulate(trace, format="disksim", **options)


@cases("simulator", "second_drive")
def test_reference_drives_answer_as_one_that_was_written_apart(
    lines: Callable[..., Path], case: dict[str, Any]
) -> None:
    of = {**case["load"]}
    requests = load(random.Random(f"load {of.pop('seed')}"), **of)
    fixed = {"dies": 1, "endurance": 0, "max_outstanding": 1_000_000}
    found, gives = simulated(lines, requests, {**fixed, **case["options"]}).summary, case["gives"]
    assert (found["requests"], found["cleanings"]) == (len(requests), gives["cleanings"])
    assert found["moved_pages"] == gives["moved_pages"]
    assert found["mean_response_ms"] == pytest.approx(gives["sum_ps"] / len(requests) / 1e9, rel=1e-9)
    assert found["max_ms"] == pytest.approx(gives["longest_ps"] / 1e9, abs=1e-6)


def test_random_controllers_under_random_loads(seed: int, lines: Callable[..., Path]) -> None:
    for number in range(DRIVES):
        chance = random.Random(f"{seed}.{number}")
        spec, options = draw_controller(chance)
        pages = check(options)["pages"]
        largest = min(chance.choice((1, 1, 4, 24)), pages // 2)
        requests = load(chance, pages, largest, chance.choice((5_000, 40_000, 400_000)) * (1 + largest) / 2)
        reference = drive(spec, options)
        responses_ps = reference.run(requests)
        done = simulated(lines, requests, options)
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
