"""Latency histograms: the drawn steps hold all requests, and only supported percentiles are marked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
import synthetic
from charts import mark, rows, styled, subtitle
from hypothesis import given
from hypothesis import strategies as st

from ioassay._core import Histogram
from ioassay.errors import StudyError
from ioassay.report import figures
from ioassay.report.figures import latency_distributions
from ioassay.store.dataset import Dataset

MIXED_SIZES = 2
CASES = ["mixed", "4k", "16k", "64k"]


def draw(records: Dataset, **keys: Any) -> figures.Drawn:
    table = {"kind": "latency_histogram", "direction": "read", "latency": "lat", **keys}
    return synthetic.draw(records, records.studies[MIXED_SIZES], table)


def areas(drawn: figures.Drawn) -> list[dict[str, Any]]:
    (layer,) = [layer for layer in styled(drawn.spec, "mark") if mark(layer)["type"] == "area"]
    return rows(layer)


def test_each_level_has_a_row_in_the_order_of_the_study_up_to_its_own_peak(suite: Dataset) -> None:
    drawn = draw(suite)
    assert list(dict.fromkeys(row["group"] for row in areas(drawn))) == CASES
    assert [max(row["base"] for row in areas(drawn) if row["group"] == case) for case in CASES] == [3, 2, 1, 0]
    assert all(max(row["height"] for row in areas(drawn) if row["group"] == case) == 1 for case in CASES)
    assert drawn.spec["height"] == 4 * 52


def test_percentiles_are_those_of_the_merged_requests(suite: Dataset) -> None:
    drawn = draw(suite)
    (ticks,) = [rows(layer) for layer in styled(drawn.spec, "deviation")]
    trials = suite.trials.filter((pl.col("study") == "mixed-sizes") & (pl.col("case") == "4k"))["trial"].to_list()
    bins = suite.hist.filter(pl.col("trial").is_in(trials), direction="read", kind="lat")
    merged = Histogram.from_buckets(bins["value_ns"].to_list(), bins["count"].to_list())
    found = {row["percentile"]: row["x"] for row in ticks if row["group"] == "4k"}
    assert found == {
        name: pytest.approx(merged.quantile(share), rel=1e-6)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    }


def test_a_percentile_without_ten_slower_requests_is_a_dash(suite: Dataset) -> None:
    drawn = draw(replace(suite, trials=suite.trials.filter(pl.col("repetition") == 0)))
    (ticks,) = [rows(layer) for layer in styled(drawn.spec, "deviation")]
    assert {row["percentile"] for row in ticks} == {"p50", "p99"}
    assert all(row["text"].endswith(", –") for row in rows(styled(drawn.spec, "note")[0]))
    assert "–: fewer than 10 requests are slower" in subtitle(drawn.spec)


def test_one_condition_has_one_row_without_a_name(suite: Dataset) -> None:
    study = synthetic.study("one", "One", {}, [], rw="randrw")
    records = synthetic.run(suite.root, [study], 5)
    drawn = synthetic.draw(records, study, {"kind": "latency_histogram", "direction": "read", "latency": "lat"})
    assert drawn.problem == "" and all("group" not in row for row in areas(drawn))


def test_latencies_that_were_not_recorded_and_too_few_are_told(suite: Dataset) -> None:
    assert draw(suite, direction="trim").problem == "no trim lat histogram was recorded"
    few = suite.hist.group_by(["study", "trial", "direction", "kind"]).head(1).with_columns(count=1)
    few = few.select(suite.hist.columns).cast(dict(suite.hist.schema))
    assert "a median needs 20" in draw(replace(suite, hist=few)).problem


def test_more_than_four_percentiles_are_refused() -> None:
    table = {"kind": "latency_histogram", "name": "a", "direction": "read", "latency": "lat", "marks": [1, 2, 3, 4, 5]}
    with pytest.raises(StudyError, match=r"figures\.a\.marks"):
        figures.check(synthetic.study("s", "S", {}, [table]))


@given(st.dictionaries(st.integers(1, 10**10), st.integers(1, 10**6), min_size=1, max_size=300))
def test_steps_are_within_the_axis_and_end_at_zero(buckets: dict[int, int]) -> None:
    merged = Histogram.from_buckets(list(buckets), list(buckets.values()))
    low, high = float(min(buckets)) / 1.1, float(max(buckets)) * 1.1
    steps = latency_distributions._steps(merged, low, high, {})
    assert len(steps) <= latency_distributions._HISTOGRAM_STEPS + 1
    assert steps[-1]["height"] == 0 and max(step["height"] for step in steps) == 1
    assert steps[0]["x"] == pytest.approx(low, rel=1e-5) and steps[-1]["x"] == pytest.approx(high, rel=1e-5)
