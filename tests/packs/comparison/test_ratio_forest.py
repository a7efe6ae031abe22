"""The picture of ratios: which rows it shows, in what order and look, and that it stays readable."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from ioassay.analysis.condition_comparison import Verdict
from ioassay.packs.comparison import comparison_charts
from ioassay.report.figures.spec import NoData

from ...report import charts
from . import compared_runs
from .compared_runs import comparison, row

EVERY = (
    row(1, 1.01, Verdict.SAME, width=1.02),
    row(2, 0.97),
    row(3, 1.3, Verdict.FASTER),
    row(4, 0.5, Verdict.SLOWER),
    row(5, 1.5, Verdict.SLOWER, "read.lat.p99"),
    row(6, 2.0, Verdict.CHANGED, "cpu.usr"),
    row(7, 0.7, Verdict.DIFFERS),
)


def declared(*rows: Any) -> Any:
    return comparison_charts.forest(comparison(*rows))


def marks(spec: Any, kind: str) -> list[Any]:
    return [layer for layer in charts.layers(spec) if charts.mark(layer)["type"] == kind]


def shown(spec: Any) -> list[dict[str, Any]]:
    """The rows of the picture, from top to bottom."""
    (points,) = (layer for layer in marks(spec, "point") if "shape" in layer["encoding"])
    return sorted(charts.rows(points), key=lambda one: one["place"])


def test_it_is_valid_by_the_schema_of_vega_lite() -> None:
    charts.check(declared(*EVERY))


def test_rows_are_worst_first_and_each_verdict_has_its_colour_and_shape() -> None:
    spec = declared(*EVERY)
    assert [(one["condition"], one["verdict"]) for one in shown(spec)] == [
        ("bs=4", "slower"),
        ("bs=5", "slower"),
        ("bs=7", "differs"),
        ("bs=3", "faster"),
        ("bs=6", "changed"),
        ("bs=2", "undecided"),
        ("bs=1", "same"),
    ]
    (points,) = (layer for layer in marks(spec, "point") if "shape" in layer["encoding"])
    color, shape = (points["encoding"][name] for name in ("color", "shape"))
    assert color["scale"]["domain"] == shape["scale"]["domain"]  # else the legend shows them apart
    looks = dict(zip(shape["scale"]["domain"], shape["scale"]["range"], strict=True))
    assert len({looks[verdict] for verdict in Verdict}) == len(Verdict)
    assert (
        color["legend"]["values"]
        == shape["legend"]["values"]
        == [one.value for one in Verdict if one != Verdict.WITHHELD]
    )


def test_the_axis_is_logarithmic_with_a_line_at_1_and_the_band_of_the_margin() -> None:
    spec = declared(*EVERY)
    (interval,) = (layer for layer in marks(spec, "rule") if "x2" in layer["encoding"])
    x = interval["encoding"]["x"]
    assert x["scale"]["type"] == "log" and 1 in x["axis"]["values"]
    (line,) = (layer for layer in marks(spec, "rule") if "x2" not in layer["encoding"])
    assert charts.rows(line) == [{"ratio": 1}]
    (band,) = charts.styled(spec, "window")
    assert charts.rows(band) == [{"low": 1 / 1.05, "high": 1.05}]


def test_rows_that_restate_each_other_share_one() -> None:
    spec = declared(row(1, 0.8, Verdict.SLOWER), row(1, 0.8, Verdict.SLOWER, "read.iops"), row(2, 0.8, Verdict.SLOWER))
    assert [one["metric"] for one in shown(spec)] == ["read bandwidth and read IOPS", "read bandwidth"]
    assert "share a row" in charts.subtitle(spec)


def test_of_many_rows_the_worst_are_shown_and_counted() -> None:
    spec = declared(*(row(number, 1 / (1.1 + number / 1000), Verdict.SLOWER) for number in range(3000)))
    assert [one["condition"] for one in shown(spec)[:2]] == ["bs=2999", "bs=2998"]
    assert len(shown(spec)) == comparison_charts.MOST_ROWS
    assert f"{comparison_charts.MOST_ROWS} of 3000 rows" in charts.subtitle(spec)


def test_an_interval_that_would_squeeze_the_others_is_cut_with_an_arrow() -> None:
    spec = declared(row(1, 1.1, width=1e6), row(2, 0.9, Verdict.SLOWER, width=1.01))
    (interval,) = (layer for layer in marks(spec, "rule") if "x2" in layer["encoding"])
    low, high = interval["encoding"]["x"]["scale"]["domain"]
    assert low > 0.5 and high < 2
    arrows = [charts.mark(layer)["shape"] for layer in marks(spec, "point") if "shape" not in layer["encoding"]]
    assert arrows == ["triangle-left", "triangle-right"]
    assert {one["condition"]: one["change"] for one in shown(spec)}["bs=1"] == "+10 % (beyond a factor of 10)"


@pytest.mark.parametrize("ratio", [1e-80, 1e-3, 0.999, 1.0, 1.2, 40.0, 1e80])
def test_every_ratio_has_an_axis_with_few_ticks_of_which_1_is_one(ratio: float) -> None:
    spec = declared(row(1, ratio), row(2, None))
    (interval,) = (layer for layer in marks(spec, "rule") if "x2" in layer["encoding"])
    x = interval["encoding"]["x"]
    assert 1 in x["axis"]["values"] and len(x["axis"]["values"]) <= 100
    assert all(math.isfinite(end) and end > 0 for end in x["scale"]["domain"])


def test_labels_of_the_axis_have_room() -> None:
    x = next(layer for layer in marks(declared(row(1, 0.5), row(2, 2.0)), "rule") if "x2" in layer["encoding"])
    ticks, (low, high) = x["encoding"]["x"]["axis"]["values"], x["encoding"]["x"]["scale"]["domain"]
    apart = [math.log(after / before) / math.log(high / low) for before, after in pairwise(ticks)]
    assert 1 in ticks and len(ticks) >= 6 and min(apart) * 330 >= 24


def test_without_a_ratio_there_is_no_picture() -> None:
    with pytest.raises(NoData, match="no condition has a ratio"):
        declared(row(1, None))


def test_bars_lie_where_the_picture_has_them() -> None:
    found = comparison_charts.bars(comparison(*EVERY), 4)
    shown, (bottom, top) = found["rows"], found["band"]
    assert [one["verdict"] for one in shown] == [Verdict.SLOWER, Verdict.SLOWER, Verdict.DIFFERS, Verdict.FASTER]
    assert bottom < found["one"] < top
    assert shown[0]["low"] < shown[0]["ratio"] < shown[0]["high"] < found["one"] < shown[3]["low"]
    assert all(0 <= one[place] <= 100 for one in shown for place in ("low", "ratio", "high"))


def test_the_description_tells_the_verdict_and_the_rows() -> None:
    described = declared(*EVERY)["description"]
    assert described.startswith("B is slower than A in 2 of 7 comparisons and faster in 1.")
    assert "bs=4, read bandwidth: −50 % (−55 to −45 %), slower" in described


def test_made_up_runs_have_one_row_a_result(tmp_path: Any) -> None:
    from ioassay.packs.comparison import run_comparison

    a, b = compared_runs.runs(tmp_path)
    found = run_comparison.compare(a, b)
    names = {one["condition"] for one in shown(comparison_charts.forest(found))}
    assert all(name.startswith("block-size: ") for name in sorted(names)[:1])
