"""`simulate --lifetime`: write amplification times endurance by theory, intervals, the first dead block, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from scipy.optimize import brentq

from ioassay.errors import UsageError
from ioassay.packs.ssd.commands import simulate as command
from ioassay.packs.ssd.simulator import check, lifetime, simulate
from ioassay.simulation import traces

from ...cli.conftest import Ask
from ...corpora import cases

PAGES, KEPT = 64, 4
"""Of a block of an element; superblocks that no data fill: free ones, the open one, the one that is collected."""
DRIVE: dict[str, Any] = {
    "elements": 4, "dies": 1, "planes": 1, "blocks": 512, "pages_per_block": PAGES,
    "write_cache": "1MiB", "read_us": 5, "program_us": 20, "erase_us": 100, "link_mb_s": 3200, "min_free": 0.004,
    "endurance": 0, "precondition": 1, "window": None,
}  # fmt: skip
SMALL = {**DRIVE, "blocks": 64, "min_free": 0.032, "reserve": 0.2}


def workload(options: dict[str, Any], drive_writes: float, **more: Any) -> traces.Trace:
    size = check(options)["capacity_bytes"]
    requests = int(size // 4096 * drive_writes)
    return traces.recipe(requests=requests, **{"arrivals": "poisson:1000", "range": size, **more})


def amplification(space: float, exported: float, hot_space: float, hot_writes: float) -> float:
    """Of a log of `space` whose oldest block is collected. A page of type i with the share p of the writes and f of
    the pages is written again within a turn of the log with probability q = 1 - exp(-turn p / (f exported)), so it is
    put into the log p / q times for each write (P. Desnoyers, SYSTOR 2012; B. Van Houdt, SIGMETRICS 2013). The greedy
    choice comes to the same where blocks are large.
    """

    def placed(turn: float) -> float:
        types = ((hot_space, hot_writes), (1 - hot_space, 1 - hot_writes))
        return sum(writes / -math.expm1(-turn * writes / (pages * exported)) for pages, writes in types)

    turn = brentq(lambda turn: placed(turn) * turn - space, 1e-9 * space, space)
    return placed(turn)


@cases("simulator", "lifetimes")
def test_uniform_and_hot_and_cold_writes_last_as_long_as_theory_says(case: dict[str, Any]) -> None:
    options = {**DRIVE, "reserve": case["reserve"]}
    writes = workload(options, 12, addresses=f"hot-cold:{case['writes']}:{case['space']}")
    lasts = lifetime(simulate(writes, **options), endurance=3000)
    superblock = DRIVE["elements"] * PAGES
    expected = amplification(
        (DRIVE["blocks"] - KEPT) * superblock, lasts.capacity_bytes / 4096, case["space"], case["writes"]
    )
    assert lasts.write_amplification == pytest.approx(expected, rel=0.03)
    assert lasts.written_bytes == pytest.approx(3000 * DRIVE["blocks"] * superblock * 4096 / expected, rel=0.03)
    assert lasts.daily_bytes == pytest.approx(1000 * 4096 * 86_400, rel=0.02)
    assert lasts.years == pytest.approx(lasts.written_bytes / lasts.daily_bytes / 365.25)
    assert lasts.drive_writes_per_day * 5 * 365.25 * lasts.capacity_bytes == pytest.approx(lasts.written_bytes)
    low_high = lasts.written_bytes_interval
    assert 0.97 * lasts.written_bytes < low_high.low < lasts.written_bytes < low_high.high < 1.03 * lasts.written_bytes


def test_the_first_block_dies_between_what_the_spread_and_what_even_wear_say() -> None:
    """By a drive that is simulated until then."""
    hot: dict[str, Any] = {"addresses": "hot-cold:0.9:0.1"}
    lasts = lifetime(simulate(workload(SMALL, 6, **hot), **SMALL), endurance=200)
    options = {**SMALL, "endurance": 200, "precondition": 0}
    done = simulate(workload(options, 0.95 * lasts.written_bytes / lasts.capacity_bytes, seed=2, **hot), **options)
    series = done.raw["series"]
    alive = series["dead_blocks"].index(next(filter(None, series["dead_blocks"])))
    written_bytes = sum(series["written_pages"][:alive]) * 4096
    assert lasts.first_dead_years / lasts.years * lasts.written_bytes < written_bytes < lasts.written_bytes
    with pytest.raises(UsageError, match="blocks died in the run"):
        lifetime(done)


def test_what_a_cache_takes_and_what_partial_pages_cost_count_by_bytes_of_the_host() -> None:
    whole = lifetime(simulate(workload(SMALL, 6), **SMALL), endurance=1000)
    halves = lifetime(simulate(workload(SMALL, 6, sizes="2KiB"), **SMALL), endurance=1000)
    assert halves.write_amplification == pytest.approx(2 * whole.write_amplification, rel=0.03)
    assert halves.written_bytes == pytest.approx(whole.written_bytes / 2, rel=0.03)


REFUSED = {
    "endurance is 0": (SMALL, 6, {}, {}),
    "daily-writes is 0": (SMALL, 6, {}, {"endurance": 10, "daily_writes": 0}),
    "daily-writes: '5XB' is not a size": (SMALL, 6, {}, {"endurance": 10, "daily_writes": "5XB"}),
    "warranty is 0 years": (SMALL, 6, {}, {"endurance": 10, "warranty_years": 0}),
    "the run wrote nothing": (SMALL, 1, {"reads": 1.0}, {"endurance": 10}),
    "no steady state is seen: 0 erasures": ({**SMALL, "precondition": 0}, 0.1, {}, {"endurance": 10}),
    "no steady state is seen: write amplification": (SMALL, 1, {"addresses": "hot-cold:0.99:0.1"}, {"endurance": 10}),
    "feed is closed:4, .* --daily-writes 500GB": ({**SMALL, "feed": "closed:4"}, 6, {}, {"endurance": 10}),
    "the trace has no time stamps": (SMALL, 6, {"arrivals": "none"}, {"endurance": 10}),
    "saturated: .* --daily-writes": (SMALL, 6, {"arrivals": "poisson:1000000"}, {"endurance": 10}),
}


def test_the_command_says_it_in_few_lines_and_as_json(ioassay: Ask) -> None:
    """With `endurance` as the rating only: no block dies in the run, and a state keeps its own."""
    drive = [f"--{name.replace('_', '-')}={value}" for name, value in {**SMALL, "window": "none"}.items()]
    made = ("trace", "make", "t.csv", "--requests", 80_000, "--arrivals", "poisson:1000", "--range", "52MiB")
    assert ioassay(*made).code == 0
    rated = ("--lifetime", "--endurance", 20)
    said = ioassay("simulate", "t.csv", *drive, *rated)
    assert said.code == 0 and len(said.out.splitlines()) <= 15
    assert "drive writes a day over 5 years" in said.out
    found = ioassay("simulate", "t.csv", *drive, *rated, "--json").json["lifetime"]
    assert found["years_low"] < found["years"] < found["years_high"] and found["endurance"] == 20
    given = ioassay("simulate", "t.csv", *drive, *rated, "--daily-writes", "1GB", "--json").json["lifetime"]
    assert given["years"] == pytest.approx(found["years"] * found["daily_writes_gb"])
    assert ioassay("simulate", *drive, "--save-state", "worn.state").code == 0
    of_state = ioassay("simulate", "t.csv", "--state", "worn.state", *rated, "--json").json["lifetime"]
    assert of_state["tbw"] == pytest.approx(found["tbw"], rel=1e-9)
    refused = ioassay("simulate", "t.csv", *drive, "--warranty", 3)
    assert refused.code == 2 and "--warranty goes with --lifetime" in refused.err
    refused = ioassay("simulate", "t.csv", *rated[:1], "--set", "endurance=10,20")
    assert refused.code == 2 and "--lifetime takes one --endurance" in refused.err


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_told_is_refused_with_the_remedy(said: str) -> None:
    options, drive_writes, load, terms = REFUSED[said]
    with pytest.raises(UsageError, match=said):
        lifetime(simulate(workload(options, drive_writes, **load), **options), **terms)


def test_an_interrupted_run_that_tells_no_lifetime_yet_is_no_error() -> None:
    done = simulate(workload(SMALL, 0.1), **SMALL)
    given = {"daily_writes": None, "warranty": None}
    with pytest.raises(UsageError, match="no steady state"):
        command._lifetime(done, "", 3000, given)
    interrupted = replace(done, raw={**done.raw, "interrupted": True})
    assert command._lifetime(interrupted, "", 3000, given) is None
