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
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay import traces
from ioassay.drivers.simulate.trace_lookup import NotFound, find
from ioassay.simulator import simulate

from ..corpora import cases

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
