"""The trials of a search: what each was for, the best so far, the default, the confirmation, and each axis."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ioassay.packs.tuning.questions import tuned
from ioassay.report import figures
from ioassay.report.figures import selection
from ioassay.store.dataset import Dataset

from ...report import synthetic
from ...report.charts import layers, mark, rows, styled, subtitle

JOBS = 3


def draw(records: Dataset, **keys: Any) -> figures.Drawn:
    return synthetic.draw(records, records.studies[JOBS], {"kind": "search", "name": "a", **keys})


def parts(drawn: figures.Drawn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The chart over trials, and the panels of the axes."""
    row, *below = drawn.spec["vconcat"]
    return row["hconcat"][0], [panel for line in below for panel in line["hconcat"]]


def points(chart: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for layer in styled(chart, "mark") for row in rows(layer)]


def test_every_trial_of_the_search_is_a_point_that_says_what_it_was_for(suite: Dataset) -> None:
    drawn = draw(synthetic.as_search(suite))
    assert drawn.problem == "" and drawn.title == "Read bandwidth over the trials of the search"
    shown = points(parts(drawn)[0])
    assert sorted({row["kind"] for row in shown}) == ["default", "explore", "pruned", "refine", "repeat"]
    assert [row["x"] for row in shown] == list(range(1, 19))  # without confirmation and first parts of others
    legend = styled(drawn.spec, "mark")[0]["encoding"]["shape"]["legend"]["values"]
    assert legend == ["default", "explore", "refine", "repeat", "pruned"]
    assert "winner: 8 jobs" in subtitle(drawn.spec)


def test_the_line_is_the_mean_of_the_best_point_so_far(suite: Dataset) -> None:
    records = synthetic.as_search(suite)
    (steps,) = [rows(layer) for layer in layers(parts(draw(records))[0]) if mark(layer).get("interpolate")]
    of = records.trials.filter((pl.col("study") == "jobs") & pl.col("search").is_in(["default", "explore"]))
    values = of.sort("order")["read.bw"].to_list()
    assert [row["y"] * 1e6 for row in steps[:5]] == pytest.approx([max(values[: n + 1]) for n in range(5)])
    whole = records.trials.filter((pl.col("study") == "jobs") & (pl.col("repetition") < 3))
    assert steps[-1]["y"] * 1e6 == pytest.approx(
        whole.group_by("numjobs").agg(pl.col("read.bw").mean())["read.bw"].max()
    )


def test_trials_that_break_a_constraint_are_hollow_and_no_point_of_the_line(suite: Dataset) -> None:
    limit = suite.trials.filter((pl.col("study") == "jobs") & (pl.col("numjobs") == 4))["write.bw"].min()
    constraint = {"metric": "write.bw", "sense": "<", "bound": limit, "text": "write.bw < some"}
    drawn = draw(synthetic.as_search(suite, constraint))
    chart, _ = parts(drawn)
    filled = {mark(layer)["filled"]: rows(layer) for layer in styled(chart, "mark")}
    assert {row["point"] for row in filled[False]} == {"4 jobs", "6 jobs", "8 jobs"}
    assert all(row["constraints"] == "kept" for row in filled[True])
    (steps,) = [rows(layer) for layer in layers(chart) if mark(layer).get("interpolate")]
    assert max(row["y"] for row in steps) < min(row["y"] for row in filled[False])
    assert "hollow: breaks write.bw < some" in subtitle(drawn.spec)


def test_the_confirmation_has_the_intervals_of_its_analysis_on_the_same_scale(suite: Dataset) -> None:
    records = synthetic.as_search(suite)
    drawn = draw(records)
    found = tuned.measure(records, records.studies[JOBS])
    means = {row["x"]: row for layer in styled(drawn.spec, "mean") for row in rows(layer)}
    assert found.winner is not None and found.winner.interval is not None
    assert means["winner"]["y"] * 1e6 == pytest.approx(found.winner.mean)
    assert means["winner"]["low"] * 1e6 == pytest.approx(found.winner.interval.low)
    scales = [
        layer["encoding"]["y"]["scale"]["domain"]
        for layer in [*styled(drawn.spec, "mean"), *styled(drawn.spec, "mark")]
    ]
    assert all(scale == scales[0] for scale in scales)


def test_an_interval_of_what_cannot_be_negative_is_above_zero(suite: Dataset) -> None:
    records = synthetic.as_search(suite)
    wide = pl.when(pl.col("repetition") % 2 == 0).then(1e9).otherwise(1e6)
    drawn = draw(replace(records, trials=records.trials.with_columns(wide.alias("read.bw"))))
    means = [row for layer in styled(drawn.spec, "mean") for row in rows(layer)]
    assert all(row["low"] > 0 for row in means if "low" in row)
    assert styled(drawn.spec, "mean")[0]["encoding"]["y"]["scale"]["domain"][0] < 1


def test_each_axis_has_a_panel_with_the_winner_marked(suite: Dataset) -> None:
    _, (panel,) = parts(draw(synthetic.as_search(suite)))
    assert {row["x"] for row in points(panel)} == {1, 2, 4, 6, 8}
    assert [row["x"] for row in rows(styled(panel, "fit")[0])] == [8]
    assert len(draw(synthetic.as_search(suite), axes=False).spec["vconcat"]) == 1


def test_a_search_on_an_unfit_machine_marks_no_point_as_better(suite: Dataset) -> None:
    drawn = draw(synthetic.as_search(synthetic.unfit(suite)))
    assert {row["x"] for row in rows(styled(drawn.spec, "mean")[0])} == {"default", "candidate"}
    assert not styled(drawn.spec, "fit") and not any(mark(layer).get("interpolate") for layer in layers(drawn.spec))
    assert len(points(drawn.spec["vconcat"][1])) == 18
    assert not re.search("winner|best", json.dumps(drawn.spec)) and selection.UNFIT in subtitle(drawn.spec)


def test_failed_trials_are_crosses_at_the_edge(suite: Dataset) -> None:
    of = (pl.col("study") == "jobs") & (pl.col("numjobs") == 4) & (pl.col("repetition") == 0)
    failed = suite.trials.with_columns(status=pl.when(of).then(pl.lit("failed")).otherwise("status"))
    drawn = draw(synthetic.as_search(replace(suite, trials=failed)))
    assert [row["x"] for row in rows(styled(drawn.spec, "failed")[0])] == [3]
    assert "× failed: 1" in subtitle(drawn.spec)


def test_a_search_that_was_stopped_shows_what_there_is(suite: Dataset) -> None:
    records = synthetic.as_search(suite)
    tuning = {key: value for key, value in (records.tuning or {}).items() if key != "found"}
    early = records.trials.filter((pl.col("study") != "jobs") | (pl.col("repetition") == 0))
    drawn = draw(replace(records, trials=early, tuning=tuning))
    assert drawn.problem == "" and "not confirmed" in subtitle(drawn.spec)
    assert styled(drawn.spec, "mean") == []


def test_a_run_that_is_no_search_says_so(suite: Dataset) -> None:
    assert "is no search; `ioassay tune` makes one" in draw(suite).problem
