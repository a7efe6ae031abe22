"""Trends: the drawn numbers are those of the analyses, whatever the factor looks like."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
import synthetic
from charts import layers, mark, rows, styled, subtitle

from ioassay.report import figures
from ioassay.report.figures import metric_view
from ioassay.stats.sample import mean_interval
from ioassay.store.dataset import Dataset


def draw(records: Dataset, study: int, **keys: object) -> figures.Drawn:
    table = {"kind": "trend", "name": "a", "x": "bs", "y": "read.bw", **keys}
    return synthetic.draw(records, records.studies[study], table)


def values_at(records: Dataset, bs: str) -> list[float]:
    return records.trials.filter(pl.col("bs") == bs)["read.bw"].to_list()


def means(drawn: figures.Drawn) -> list[dict]:
    return [row for layer in points(drawn) for row in rows(layer)]


def points(drawn: figures.Drawn) -> list[Any]:
    """The layers of means, one a line."""
    return [layer for layer in styled(drawn.spec, "mean") if mark(layer)["type"] == "point"]


def with_values(records: Dataset, **columns: list[float] | float) -> Dataset:
    wanted = [
        pl.lit(found, pl.Float64).alias(name) if isinstance(found, float) else pl.Series(name, found, pl.Float64)
        for name, found in columns.items()
    ]
    return replace(records, trials=records.trials.with_columns(wanted))


def test_mean_median_and_deviation_of_the_repetitions_are_drawn(suite: Dataset) -> None:
    row = means(draw(suite, 1))[2]
    values = values_at(suite, "4KiB")
    assert row["level"] == "4 KiB"
    assert row["n"] == 5
    assert row["y"] * 1e6 == pytest.approx(statistics.fmean(values))
    assert row["median"] * 1e6 == pytest.approx(statistics.median(values))
    (row,) = [row for row in means(draw(suite, 1, error="sd")) if row["level"] == "4 KiB"]
    assert (row["high"] - row["y"]) * 1e6 == pytest.approx(statistics.stdev(values), rel=1e-4)


def test_error_bars_can_be_the_interval_of_the_mean(suite: Dataset) -> None:
    row = means(draw(suite, 1, error="ci"))[2]
    interval = mean_interval(values_at(suite, "4KiB"), 0.95)
    assert (row["low"] * 1e6, row["high"] * 1e6) == pytest.approx((interval.low, interval.high))


def test_every_repetition_is_drawn(suite: Dataset) -> None:
    drawn = rows(styled(draw(suite, 1).spec, "repetition")[0])
    assert len(drawn) == 55
    assert sorted(row["y"] for row in drawn if row["x"] == 4096) == pytest.approx(
        sorted(value / 1e6 for value in values_at(suite, "4KiB"))
    )


@pytest.mark.parametrize("kind", ["trend", "bar", "box", "scaling"])
def test_thousands_of_repetitions_are_no_marks(suite: Dataset, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(metric_view, "MOST_REPETITIONS", 10)
    table = {"kind": kind, "name": "a", "x": "numjobs", "y": "read.bw"}
    drawn = synthetic.draw(suite, suite.studies[3], table)
    assert drawn.problem == ""
    assert not list(styled(drawn.spec, "repetition")) and not list(styled(drawn.spec, "dot"))
    assert not any(rows(layer) == [] for layer in layers(drawn.spec))


def test_the_regression_line_is_fitted_to_all_repetitions(suite: Dataset) -> None:
    sizes = [int(level.removesuffix("KiB")) * 1024 for level in suite.trials["bs"].drop_nulls()]
    in_study = suite.trials.filter(pl.col("study") == "block-size").height
    before = suite.trials["bs"].to_list().index(suite.trials["bs"].drop_nulls()[0])
    column = [1.0] * before + [3e6 * math.log2(size) - 2e7 for size in sizes]
    column += [1.0] * (suite.trials.height - before - in_study)
    drawn = draw(with_values(suite, **{"read.bw": column}), 1, log_x=True)
    assert "regression +3 MB/s per doubling, R² = 1.000" in subtitle(drawn.spec)
    for row in rows(styled(drawn.spec, "fit")[0]):
        assert row["y"] == pytest.approx(3 * math.log2(row["x"]) - 20, abs=1e-4)


def test_sizes_are_labelled_in_kib_at_the_levels_of_a_logarithmic_axis(suite: Dataset) -> None:
    axis = next(layers(draw(suite, 1, log_x=True).spec))["encoding"]["x"]
    assert axis["scale"]["type"] == "log"
    assert axis["axis"]["values"] == [1024 * 2**power for power in range(11)]
    assert '"65536": "64 KiB"' in axis["axis"]["labelExpr"]


def test_a_zero_level_makes_the_axis_linear_and_says_so(suite: Dataset) -> None:
    drawn = draw(suite, 0, x="rwmixwrite", where={"rw": "rw"}, log_x=True)
    assert "linear axis: a level is zero" in subtitle(drawn.spec)
    assert next(layers(drawn.spec))["encoding"]["x"]["scale"].get("type") is None


def test_words_are_categories_without_line_or_regression() -> None:
    study = synthetic.study("engines", "Engines", {"ioengine": ["psync", "libaio", "io_uring"]}, [], rw="randrw")
    drawn = draw(synthetic.run(synthetic.Path("."), [study], 3), 0, x="ioengine")
    assert next(layers(drawn.spec))["encoding"]["x"]["type"] == "nominal"
    assert not styled(drawn.spec, "fit")
    assert not [layer for layer in styled(drawn.spec, "mean") if mark(layer)["type"] == "line"]


def test_long_levels_are_slanted_in_lines_that_keep_parentheses_whole() -> None:
    policies = ["batch", "fifo:99", "idle", "other", "rr:99"]
    study = synthetic.study("policies", "Policies", {"run.scheduler": policies}, [], rw="randrw")
    drawn = draw(synthetic.run(synthetic.Path("."), [study], 2), 0, x="run.scheduler", width=200)
    axis = next(layers(drawn.spec))["encoding"]["x"]["axis"]
    assert axis["labelAngle"] == -35
    assert '["fifo", "(priority\\u00a099)"]' in axis["labelExpr"]


def test_a_colour_factor_gives_one_line_a_level(suite: Dataset) -> None:
    drawn = draw(suite, 0, x="rwmixwrite", color="rw")
    assert {row["group"] for row in means(drawn)} == {"rw", "randrw"}
    assert "all levels" not in subtitle(drawn.spec)
    assert "all levels of access pattern together" in subtitle(draw(suite, 0, x="rwmixwrite").spec)


def test_bars_of_several_lines_have_their_colours_and_stand_side_by_side(suite: Dataset) -> None:
    drawn = draw(suite, 0, x="rwmixwrite", color="rw")
    (both,) = points(drawn)
    aside = {row["group"]: row["aside"] for row in rows(both)}
    assert aside["rw"] == -aside["randrw"] < 0
    bars = styled(drawn.spec, "deviation")
    assert all(layer["encoding"]["color"]["field"] == "group" for layer in bars)
    assert {(row["group"], row["aside"]) for layer in bars for row in rows(layer)} == set(aside.items())
    assert {str(mark(layer)["xOffset"]) for layer in (both, *bars)} == {"{'expr': 'datum.aside'}"}
    (alone,) = points(draw(suite, 1))
    assert "xOffset" not in mark(alone)


def test_a_deviation_below_zero_ends_at_the_axis_without_a_cap(suite: Dataset) -> None:
    wild = [1e6 if order % 7 else 1e9 for order in range(suite.trials.height)]
    drawn = draw(with_values(suite, **{"read.bw": wild}), 1, log_y=False, error="sd")
    rule = next(layer for layer in styled(drawn.spec, "deviation") if mark(layer)["type"] == "rule")
    assert min(row["low"] for row in rows(rule)) == 0
    assert any(row.get("cut") == ["low"] for row in rows(rule))


def test_bars_that_all_end_at_the_axis_leave_no_empty_layer(suite: Dataset) -> None:
    wild = [1e9 if repetition == 0 else 0.0 for repetition in suite.trials["repetition"].to_list()]
    drawn = draw(with_values(suite, **{"read.bw": wild}), 1)
    assert all(rows(layer) for layer in layers(drawn.spec))


def test_only_zeros_lie_on_the_bottom_of_an_axis(suite: Dataset) -> None:
    drawn = draw(with_values(suite, **{"read.bw": 0.0}), 1)
    assert next(layers(drawn.spec))["encoding"]["y"]["scale"]["domain"] == [0, 1]
    assert drawn.problem == ""


def test_a_logarithmic_metric_axis_needs_positive_values(suite: Dataset) -> None:
    assert next(layers(draw(suite, 1, log_y=True).spec))["encoding"]["y"]["scale"]["type"] == "log"
    drawn = draw(with_values(suite, **{"read.bw": 0.0}), 1, log_y=True)
    assert "linear metric axis" in subtitle(drawn.spec)


def test_a_metric_that_spans_decades_has_a_logarithmic_axis_unless_refused(suite: Dataset) -> None:
    def y(largest: float, **keys: object) -> Any:
        far = [1e6 if place % 2 else largest for place in range(suite.trials.height)]
        return next(layers(draw(with_values(suite, **{"read.bw": far}), 1, **keys).spec))["encoding"]["y"]

    assert y(30e6)["scale"]["type"] == "log" and y(30e6)["title"].endswith("(MB/s), logarithmic")
    assert y(30e6, log_y=False)["scale"].get("type") is None
    assert y(10e6)["scale"].get("type") is None


def test_shares_of_a_whole_stay_linear(suite: Dataset) -> None:
    far = [0.5 if place % 2 else 90.0 for place in range(suite.trials.height)]
    drawn = draw(with_values(suite, **{"cpu.usr": far}), 1, y="cpu.usr")
    assert next(layers(drawn.spec))["encoding"]["y"]["scale"].get("type") is None


def test_error_bars_end_within_a_logarithmic_axis(suite: Dataset) -> None:
    wild = [1e6 if order % 7 else 1e9 for order in range(suite.trials.height)]
    drawn = draw(with_values(suite, **{"read.bw": wild}), 1)
    scale = next(layers(drawn.spec))["encoding"]["y"]["scale"]
    rule = next(layer for layer in styled(drawn.spec, "deviation") if mark(layer)["type"] == "rule")
    assert scale["type"] == "log"
    assert all(scale["domain"][0] <= row["low"] and row["high"] <= scale["domain"][1] for row in rows(rule))


def test_a_straight_line_is_a_curve_on_a_logarithmic_axis_and_ends_above_zero(suite: Dataset) -> None:
    steep = [1e6 + 1e9 * (place % 11) for place in range(suite.trials.height)]
    assert not styled(draw(with_values(suite, **{"read.bw": steep}), 1).spec, "fit")
    drawn = draw(with_values(suite, **{"read.bw": steep}), 1, log_x=True, regression=True)
    (fit,) = styled(drawn.spec, "fit")
    assert all(row["y"] > 0 for row in rows(fit)) and len(rows(fit)) > 2
    assert "straight on a linear axis" in subtitle(drawn.spec)


def test_one_repetition_has_no_error_bar(tmp_path: synthetic.Path) -> None:
    records = synthetic.run(tmp_path, [synthetic.block_size()], 1)
    drawn = draw(records, 0)
    assert not styled(drawn.spec, "deviation")
    assert subtitle(drawn.spec).startswith("n = 1 ·")
