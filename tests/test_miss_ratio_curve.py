"""Miss ratio curves: what the simulated buffers say of the same trace, and the command."""

from __future__ import annotations

from typing import Any

import pytest

import ioassay
from ioassay import traces
from ioassay.errors import UsageError

RECIPE = traces.recipe(requests=60_000, reads=0.4, addresses="zipf:0.9", sizes="4KiB:3,16KiB:1", range="64MiB", seed=2)


def test_the_curve_of_writes_has_the_hits_of_simulated_lru_buffers() -> None:
    curve = traces.mrc(RECIPE, of="writes", points=12)
    for pages, ratio in list(zip(curve["size_pages"], curve["miss_ratio"], strict=True))[1:]:
        done = ioassay.simulate(RECIPE, elements=4, policy="lru", buffer=pages * 4096, feed="closed:8", window=None)
        assert done.summary["hit_ratio"] == pytest.approx(1 - ratio, abs=1e-12), pages


def test_a_shipped_trace_sampled_and_compared() -> None:
    whole = traces.mrc("oltp", of="both")
    half = traces.mrc("oltp", of="both", sample=0.5, exact=True)
    assert half["exact_miss_ratio"] == whole["miss_ratio"]
    assert whole["error"] == [None] * len(whole["error"])
    assert half["sampled"] < whole["sampled"] == whole["references"] == half["references"]
    inside = [
        abs(ratio - exact) <= error
        for ratio, exact, error in zip(half["miss_ratio"], whole["miss_ratio"], half["error"], strict=True)
    ]
    assert sum(inside) >= 0.8 * len(inside)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sample": 0.1, "sample_pages": 100}, "sample and sample-pages are given"),
        ({"sample": 2.0}, "sample is 2, wanted a rate above 0"),
        ({"sample_pages": 3}, "sample-pages is 3, wanted at least 64 pages"),
        ({"of": "all"}, "of is all, wanted reads, writes or both"),
        ({"page": "0"}, "page is 0, wanted at least 1 byte"),
        ({"points": 1}, "points is 1, wanted at least 2"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        traces.mrc(RECIPE, **options)
