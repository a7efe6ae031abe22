"""The simulator against a second drive, written apart from it (`reference_drive`): random drives under random loads."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.simulator import simulate

from .reference_drive import Geometry, ReferenceDrive, Request

DRIVES = 500 if os.environ.get("IOASSAY_THOROUGH") else 60
DRAWS = range(0, DRIVES, 20)


def draw(chance: random.Random) -> tuple[Geometry, dict[str, Any], list[Request]]:
    """A drive with so little room that most of them clean, its options, and requests for it."""
    rows = chance.randint(12, 40)
    min_free = chance.choice((0.1, 0.15, 0.2))
    reserve = chance.choice([share for share in (0.3, 0.4, 0.5) if int(share * rows) >= int(min_free * rows) + 2])
    geometry = Geometry(
        planes=chance.randint(1, 8), rows=rows, pages=chance.randint(4, 16), usable=rows - int(reserve * rows),
        low=int(min_free * rows),
    )  # fmt: skip
    options = {
        "elements": chance.choice((1, 2, 3, 8, 48)), "dies": 1, "planes": geometry.planes, "blocks": rows,
        "pages_per_block": geometry.pages, "reserve": reserve, "min_free": min_free, "endurance": 0,
        "window": chance.choice((None, None, 1, 4, 20)), "driver": chance.choice(("clook", "fcfs")),
        "max_outstanding": 1_000_000,
    }  # fmt: skip
    return geometry, options, load(chance, options["elements"], geometry.exported)


def load(chance: random.Random, elements: int, exported: int) -> list[Request]:
    """Requests at 10 to 150 % of what the elements can do, alone or in bursts, some to a few hot pages."""
    pages = elements * exported
    largest, read_share = min(chance.choice((1, 1, 4, 16)), pages), chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
    gap_ns = 300_000 * (1 + largest) / 2 / min(elements, 40) / chance.uniform(0.1, 1.5)
    burst, hot = chance.choice((1, 1, 7)), chance.choice((pages, pages, max(pages // 50, largest)))
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
        geometry, options, requests = draw(random.Random(f"{seed}.{number}"))
        trace = lines(*((f"{each.at_ps / 1e9:.6f}", each.sector, each.sectors, int(each.is_read)) for each in requests))
        reference = ReferenceDrive(
            options["elements"], geometry, options["window"], in_order=options["driver"] == "fcfs"
        )
        responses_ps = reference.run(requests)
        found = simulate(trace, format="disksim", **options).summary
        case = (seed, number, options)
        flashes = [element.flash for element in reference.elements]
        assert found["cleanings"] == sum(flash.cleaned for flash in flashes), case
        assert found["moved_pages"] == sum(flash.moved for flash in flashes), case
        assert found["requests"] == len(requests), case
        assert found["mean_response_ms"] == pytest.approx(sum(responses_ps) / len(requests) / 1e9, rel=1e-9), case
        assert found["max_ms"] == pytest.approx(max(responses_ps) / 1e9, abs=1e-6), case
