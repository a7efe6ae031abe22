"""Bars, latency bars, boxes and run order."""

from __future__ import annotations

import dataclasses
import statistics

import numpy as np
import polars as pl
import pytest
import synthetic
from charts import layers, mark, rows, styled, subtitle

from ioassay.report import figures
from ioassay.store.dataset import Dataset


def draw(records: Dataset, study: int, **table: object) -> figures.Drawn:
    return synthetic.draw(records, records.studies[study], {"name": "a", **table})


def test_bars_compare_cases_in_the_order_of_the_study(suite: Dataset) -> None:
    drawn = draw(suite, 2, kind="bar", y="read.bw")
    bars = rows(styled(drawn.spec, "bar")[0])
    assert [row["x"] for row in bars] == ["mixed", "4k", "16k", "64k"]
    assert styled(drawn.spec, "bar")[0]["encoding"]["x"]["sort"] == ["mixed", "4k", "16k", "64k"]
    assert len(rows(styled(drawn.spec, "dot")[0])) == 20


def test_bars_of_conditions_without_the_metric_are_absent(suite: Dataset) -> None:
    drawn = draw(suite, 2, kind="bar", y="write.bw", where={"rw": "randread"})
    assert "none of the 20 trials that went well has the metric 'write.bw'" in drawn.problem


def test_long_names_are_broken_but_numbers_keep_their_units() -> None:
    cases = [{"name": f"random read 4 KiB, depth {depth}"} for depth in (1, 2, 4, 8, 16, 32)]
    study = synthetic.mixed_sizes().model_copy(update={"factors": {}, "case": cases})
    drawn = draw(synthetic.run(synthetic.Path("."), [study], 2), 0, kind="bar", y="read.bw")
    labels = styled(drawn.spec, "bar")[0]["encoding"]["x"]["axis"]["labelExpr"]
    assert '["random read", "4\\u00a0KiB, depth 1"]' in labels


def test_latency_bars_show_total_completion_and_submission_for_each_direction(suite: Dataset) -> None:
    drawn = draw(suite, 2, kind="latency_bar", error="sd")
    panels = [rows(layer) for layer in styled(drawn.spec, "bar")]
    assert [len(panel) for panel in panels] == [12, 12]
    row = next(row for row in panels[1] if row["x"] == "64k" and row["group"] == "submission (slat)")
    here = (pl.col("case") == "64k") & (pl.col("rw") == "randwrite")
    values = suite.trials.filter(here)["write.slat.mean"].to_list()
    assert row["mean_text"] == figures_text(statistics.fmean(values))
    assert (row["high"] - row["y"]) / row["y"] == pytest.approx(
        statistics.stdev(values) / statistics.fmean(values), rel=1e-4
    )


def figures_text(mean_ns: float) -> str:
    from ioassay.units import format_ns

    return format_ns(mean_ns)


def test_a_direction_without_latencies_is_told_not_drawn(suite: Dataset) -> None:
    drawn = draw(suite, 2, kind="latency_bar", where={"rw": "randread"})
    assert len(styled(drawn.spec, "bar")) == 1
    assert "no write latency was recorded" in subtitle(drawn.spec)


def test_boxes_show_quartiles_and_whiskers_of_repetitions(suite: Dataset) -> None:
    drawn = draw(suite, 3, kind="box", y="read.bw")
    box = rows(styled(drawn.spec, "bar")[0])[0]
    values = suite.trials.filter(pl.col("numjobs") == 1)["read.bw"].to_numpy() / 1e6
    assert (box["y"], box["upper"]) == pytest.approx(tuple(np.quantile(values, [0.25, 0.75])))
    assert box["low"] >= values.min() * (1 - 1e-6)
    assert box["high"] <= values.max() * (1 + 1e-6)


def test_repetitions_beyond_the_whiskers_are_outliers(suite: Dataset) -> None:
    first = (pl.col("study") == "jobs") & (pl.col("numjobs") == 1) & (pl.col("repetition") == 0)
    bandwidth = pl.when(first).then(1e6).otherwise(pl.col("read.bw")).alias("read.bw")
    drawn = draw(dataclasses.replace(suite, trials=suite.trials.with_columns(bandwidth)), 3, kind="box", y="read.bw")
    outliers, dots = (rows(styled(drawn.spec, style)[0]) for style in ("outlier", "dot"))
    assert min(row["y"] for row in outliers) == pytest.approx(1)
    assert len(outliers) + len(dots) == 5 * len(synthetic.JOBS)
    assert "● beyond the whiskers" in subtitle(drawn.spec)


def test_bars_with_room_have_their_means_as_numbers(suite: Dataset) -> None:
    (means,) = styled(draw(suite, 2, kind="bar", y="read.bw").spec, "value")
    assert means["encoding"]["text"]["field"] == "mean_text" and len(rows(means)) == 4
    assert not styled(draw(suite, 2, kind="bar", y="read.bw", width=200).spec, "value")


def test_narrow_bars_have_them_over_their_intervals(suite: Dataset) -> None:
    means, _ = styled(draw(suite, 2, kind="latency_bar", width=800).spec, "value")
    assert all(row["top"] == row["high"] for row in rows(means))
    assert not styled(draw(suite, 2, kind="latency_bar", width=300).spec, "value")


def test_few_repetitions_have_no_box_only_themselves_and_their_median() -> None:
    records = synthetic.run(synthetic.Path("."), [synthetic.jobs()], 3)
    drawn = draw(records, 0, kind="box", y="read.bw")
    assert not styled(drawn.spec, "bar")
    assert len(rows(styled(drawn.spec, "dot")[0])) == 15
    assert "line: median" in subtitle(drawn.spec)


def test_repetitions_without_boxes_have_the_colours_of_their_levels(suite: Dataset) -> None:
    few = dataclasses.replace(suite, trials=suite.trials.filter(pl.col("repetition") < 3))
    drawn = draw(few, 0, kind="box", y="read.bw", x="rwmixwrite", color="rw")
    (points,) = styled(drawn.spec, "mark")
    assert points["encoding"]["color"]["field"] == points["encoding"]["shape"]["field"] == "group"
    assert (
        "color"
        not in styled(draw(suite, 0, kind="box", y="read.bw", x="rwmixwrite", color="rw").spec, "dot")[0]["encoding"]
    )


def test_run_order_shows_each_trial_relative_to_its_condition(suite: Dataset) -> None:
    drawn = draw(suite, 3, kind="order", y="read.bw")
    points = rows(styled(drawn.spec, "mark")[0])
    assert [row["x"] for row in points] == sorted(row["x"] for row in points)
    assert statistics.fmean(row["y"] for row in points) == pytest.approx(100)
    assert styled(drawn.spec, "fit")


def test_values_of_different_conditions_get_no_common_line(suite: Dataset) -> None:
    drawn = draw(suite, 3, kind="order", y="read.bw", relative=False)
    assert not styled(drawn.spec, "fit")
    assert mark(styled(drawn.spec, "mark")[0])["filled"]


def test_a_logarithmic_axis_has_points_with_intervals_in_the_place_of_bars(suite: Dataset) -> None:
    for kind, of in (("bar", {"y": "read.bw", "error": "ci"}), ("latency_bar", {"error": "ci"})):
        drawn = draw(suite, 2, kind=kind, log_y=True, **of)
        assert not styled(drawn.spec, "bar"), kind
        for layer in styled(drawn.spec, "mean"):
            scale = layer["encoding"]["y"]["scale"]
            low, high = scale["domain"]
            assert scale["type"] == "log" and mark(layer)["type"] == "point"
            assert all(low <= row["low"] <= row["y"] <= row["high"] <= high for row in rows(layer)), kind


def test_points_of_a_second_factor_have_its_colours_and_marks(suite: Dataset) -> None:
    drawn = draw(suite, 0, kind="bar", y="read.bw", x="rwmixwrite", color="rw", log_y=True)
    (points,) = styled(drawn.spec, "mean")
    assert points["encoding"]["color"]["field"] == points["encoding"]["shape"]["field"] == "group"
    assert points["encoding"]["xOffset"]["field"] == "group"


def test_bars_and_boxes_that_span_decades_are_logarithmic_without_being_asked(suite: Dataset) -> None:
    far = suite.trials.with_columns(
        **{"read.bw": pl.when(pl.col("case") == "4k").then(1e5).otherwise(pl.col("read.bw"))}
    )
    records = dataclasses.replace(suite, trials=far)
    for kind in ("bar", "box", "order"):
        table = {"kind": kind, "y": "read.bw", **({"relative": False} if kind == "order" else {})}
        for log_y, expected in ((None, "log"), (False, None)):
            drawn = draw(records, 2, log_y=log_y, **table)
            scales = [layer["encoding"]["y"]["scale"] for layer in layers(drawn.spec) if "y" in layer["encoding"]]
            assert {scale.get("type") for scale in scales} == {expected}, kind


def test_submission_alone_does_not_make_latency_bars_logarithmic(suite: Dataset) -> None:
    short = suite.trials.with_columns(**{"read.slat.mean": pl.col("read.lat.mean") / 100})
    drawn = draw(dataclasses.replace(suite, trials=short), 2, kind="latency_bar", directions=["read"])
    assert "type" not in styled(drawn.spec, "bar")[0]["encoding"]["y"]["scale"]


def test_latency_bars_can_have_a_logarithmic_axis(suite: Dataset) -> None:
    drawn = draw(suite, 2, kind="latency_bar", log_y=True, error="ci")
    assert len(styled(drawn.spec, "mean")) == 2
    for layer in styled(drawn.spec, "mean"):
        scale = layer["encoding"]["y"]["scale"]
        assert scale["type"] == "log" and "logarithmic" in layer["encoding"]["y"]["title"]
        assert all(scale["domain"][0] <= row.get("low", row["y"]) for row in rows(layer))


def test_bars_of_values_that_are_not_positive_stay_linear(suite: Dataset) -> None:
    zero = suite.trials.with_columns(**{"read.bw": pl.col("read.bw") * 0})
    drawn = draw(dataclasses.replace(suite, trials=zero), 2, kind="bar", y="read.bw", log_y=True)
    assert "type" not in styled(drawn.spec, "bar")[0]["encoding"]["y"]["scale"]
    assert "linear metric axis: a value is not positive" in subtitle(drawn.spec)
