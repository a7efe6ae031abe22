"""Miss ratio curves: what the simulated buffers say of the same trace, and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay import traces
from ioassay.report import miss_ratio_chart
from ioassay.report.miss_ratio_chart import Curve

RECIPE = traces.recipe(requests=20_000, reads=0.4, addresses="zipf:0.9", sizes="4KiB:3,16KiB:1", range="64MiB", seed=2)


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


@pytest.fixture(scope="module")
def sampled_curve() -> dict[str, Any]:
    return traces.mrc(RECIPE, of="writes", sample=0.5, exact=True, points=9)


def test_a_curve_is_drawn_with_its_errors(sampled_curve: dict[str, Any]) -> None:
    chart = miss_ratio_chart.chart("made", "writes", Curve.of(sampled_curve))
    rows = chart["data"]["values"]
    sample = [row for row in rows if row["curve"] == "sample"]
    assert [row["ratio"] for row in sample] == sampled_curve["miss_ratio"]
    for row, error in zip(sample, sampled_curve["error"], strict=True):
        assert (row["low"], row["high"]) == (max(0, row["ratio"] - error), min(1, row["ratio"] + error))
    assert [row["ratio"] for row in rows if row["curve"] == "exact"] == sampled_curve["exact_miss_ratio"]
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["area", "line"]
    exact = miss_ratio_chart.chart("made", "both", Curve.of(traces.mrc(RECIPE, points=5)))
    assert [layer["mark"]["type"] for layer in exact["layer"]] == ["line"]


@pytest.mark.parametrize(("ending", "begin"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".html", b"<!doctype html>")])
def test_a_picture_is_of_the_kind_that_its_name_tells(
    ending: str, begin: bytes, sampled_curve: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / f"curve{ending}"
    miss_ratio_chart.write(path, miss_ratio_chart.chart("<made> & more", "writes", Curve.of(sampled_curve)), ending)
    content = path.read_bytes()
    assert content.startswith(begin)
    if ending != ".png":
        assert (
            b"&lt;made&gt; &amp; more" in content
            and b"95 % confidence" in content
            and b"http" not in content.replace(b"http://www.w3.org", b"")
        )
