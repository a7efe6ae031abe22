"""The simulated drive gives the numbers of DiskSim 4.0 with its SSD extension, measured on a build of it.

The rows are in tests/corpus/simulator/disksim.toml. The reference program stops when the last request is issued and
does not count what is then in flight (`end="last-issued"`), and gives up at 10,000 outstanding requests. Where a late
last request was added to its input, everything counts (`end="drained"`, the default). A window of 1000 requests never
filled there, so no window is the same. Means are in milliseconds, rounded to the digits that are written there.

The reference's times are floating point, so events that are simultaneous here may be apart there. With reads that moves
the mean of one row by 3 ns; a second drive gave the reference's digits where it computed in floats.

Where the host's queue is long, events at the same instant (a page's end and a transfer's end) decide which request is
next, and the reference's order of equals follows from its event queue. Any rule is as right as another, and the mean
depends on it: such rows are held within the band that rules for equals span, and the reference lies in it.

A write buffer holds 2048 pages, and what is evicted bears the time of the write that made it go. The reference's LRU
and EPO evict what ours do. Its BPLRU was a prototype of which some choices are unknown (docs/policies.md names ours),
and its padded blocks were written without reading what was missing. The real trace has the first 10,000 requests of an
OLTP trace of the Storage Performance Council (UMass), in SSDSim's format.

Two second drives, one of them with a controller, were written apart from the simulator. What they answered of random
small drives under random loads is in tests/corpus/simulator/reference_drives.toml and controller_drives.toml.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ioassay.packs.ssd.simulator import simulate
from ioassay.simulation import traces
from ioassay.simulation.trace_parameters import NotFound, find

from ...corpora import cases

WRITTEN = 0.6e-6
"""Half of the last digit that the reference printed, and a little."""

Make = Callable[..., Path]


def source(case: dict[str, Any], poisson: Make, mixed: Make, lines: Make) -> dict[str, Any]:
    """The trace of a row, and how it is read."""
    if "financial" in case:
        try:
            trace = find(["financial1-head.ssdsim"])
        except NotFound as error:
            pytest.skip(str(error))
        scale = float(case["financial"])
        prepare = traces.preparation(keep="writes", sizes="cut", devices="ignore", time_scale=scale)
        return {"trace": trace, "format": "ssdsim", "prepare": prepare}
    if "at_once" in case:
        made = lines(*((0, page * 8, 8) for page in range(*case["at_once"])))
    elif "lines" in case:
        made = lines(*case["lines"])
    else:
        made = mixed(*case["mixed"]) if "mixed" in case else poisson(*case["writes"])
    return {"trace": made, "format": "disksim"}


@cases("simulator", "disksim")
def test_numbers_are_those_of_disksim(case: dict[str, Any], poisson: Make, mixed: Make, lines: Make) -> None:
    given = source(case, poisson, mixed, lines)
    wanted = case.get("means", {None: case.get("mean")})
    for policy, mean in wanted.items():
        chosen = {} if policy is None else {"policy": policy}
        found = simulate(**given, **{"max_outstanding": 10_000, **case["options"], **chosen}).summary
        if "band" in case:
            lowest, highest = case["band"]
            assert lowest < found["mean_response_ms"] < highest and lowest < mean < highest
        elif mean is not None:
            bounds = {"rel": case["relative"]} if "relative" in case else {"abs": case["within"]}
            assert found["mean_response_ms"] == pytest.approx(mean, **bounds), policy
        if "longest" in case:
            assert found["max_ms"] == pytest.approx(case["longest"], abs=WRITTEN)
        if "iops" in case:
            assert found["iops"] == pytest.approx(case["iops"], rel=2e-3)
        least, most = case.get("cleanings_about", (0, found["cleanings"]))
        assert least <= found["cleanings"] <= most
        assert {name: found[name] for name in case.get("counts", {})} == case.get("counts", {})


# Second drives


FIXED = {"dies": 1, "endurance": 0, "max_outstanding": 1_000_000}
CONTROLLER = {**FIXED, "driver": "fcfs"}


def load(seed: int, pages: int, largest: int, gap_ns: int) -> Iterator[tuple[str, int, int, int]]:
    """Requests of up to `largest` pages, alone or in bursts, some to a few hot pages only."""
    chance = random.Random(f"load {seed}")
    read_share = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
    burst, hot = chance.choice((1, 1, 7)), chance.choice((pages, pages, max(pages // 30, largest)))
    at_ns = 0.0
    for number in range(chance.randint(200, 1500)):
        if number % burst == 0:
            at_ns += chance.expovariate(1 / (burst * gap_ns))
        size = chance.randint(1, largest)
        first = chance.randrange(hot - size + 1) * 8
        cut = chance.randrange(8) if chance.random() < 0.2 else 0
        yield f"{round(at_ns) / 1e6:.6f}", first + cut, size * 8 - cut, int(chance.random() < read_share)


@cases("simulator", "reference_drives", "controller_drives")
def test_drives_answer_as_those_that_were_written_apart(lines: Callable[..., Path], case: dict[str, Any]) -> None:
    requests = list(load(**case["load"]))
    fixed = FIXED if "driver" in case["options"] else CONTROLLER
    done = simulate(lines(*requests), format="disksim", **{**fixed, **case["options"]})
    gives, found = {**case["gives"]}, done.summary
    assert found["requests"] == len(requests)
    assert found["mean_response_ms"] == pytest.approx(gives.pop("sum_ps") / len(requests) / 1e9, rel=1e-9)
    assert found["max_ms"] == pytest.approx(gives.pop("longest_ps") / 1e9, abs=1e-6)
    if "busy_ps" in gives:
        assert list(done.raw["elements"]["busy_ps"]) == gives.pop("busy_ps")
        assert done.raw["tally"]["write_hits"] == gives.pop("write_hits")
    lookups = gives.pop("lookups", {})
    assert {name: done.raw["tally"][name] for name in lookups} == lookups
    assert {name: found[name] for name in gives} == gives
