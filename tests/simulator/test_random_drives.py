"""The simulator against what second drives answered, written apart from it: random drives under random loads."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ioassay.simulator import simulate

from ..corpora import cases

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
        assert done.raw["buffer"]["write_hits"] == gives.pop("write_hits")
    lookups = gives.pop("lookups", {})
    assert {name: done.raw["controller"][name] for name in lookups} == lookups
    assert {name: found[name] for name in gives} == gives
