"""Cumulative distributions: the marks lie on the drawn curve."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
import synthetic
from charts import rows, styled, subtitle

from ioassay._core import Histogram
from ioassay.report import figures
from ioassay.store.dataset import Dataset

MIXED_SIZES = 2


def draw(records: Dataset, **keys: object) -> figures.Drawn:
    table = {"kind": "cdf", "name": "a", "direction": "read", "latency": "clat", "color": "case", **keys}
    return synthetic.draw(records, records.studies[MIXED_SIZES], table)


@pytest.mark.parametrize("latency", ["lat", "clat", "slat"])
@pytest.mark.parametrize("direction", ["read", "write"])
def test_marks_lie_on_the_drawn_curve_at_the_merged_percentiles(suite: Dataset, direction: str, latency: str) -> None:
    drawn = draw(suite, direction=direction, latency=latency, marks=[10, 25, 50, 75, 90, 99])
    lines, marks = rows(styled(drawn.spec, "curve")[0]), rows(styled(drawn.spec, "mark")[0])
    assert len(marks) == 4 * 6
    for case in ("mixed", "4k", "16k", "64k"):
        merged = merged_histogram(suite, case, direction, latency)
        for share in (10, 25, 50, 75, 90, 99):
            mark = next(row for row in marks if row["group"] == case and row["y"] == share)
            assert mark["x"] == pytest.approx(merged.quantile(share / 100), rel=1e-6)
            assert (mark["x"], mark["y"]) in {(row["x"], row["y"]) for row in lines if row["group"] == case}


def merged_histogram(records: Dataset, case: str, direction: str, latency: str) -> Histogram:
    trials = records.trials.filter((pl.col("study") == "mixed-sizes") & (pl.col("case") == case))["trial"].to_list()
    merged = Histogram()
    for trial in trials:
        bins = records.hist.filter(
            (pl.col("trial") == trial) & (pl.col("direction") == direction) & (pl.col("kind") == latency)
        )
        merged.merge(Histogram.from_buckets(bins["value_ns"].to_list(), bins["count"].to_list()))
    return merged


def test_each_curve_is_small(suite: Dataset) -> None:
    lines = rows(styled(draw(suite).spec, "curve")[0])
    assert max(sum(row["group"] == case for row in lines) for case in ("mixed", "4k")) <= 400


def test_a_single_curve_tells_its_percentiles_in_the_plot(suite: Dataset) -> None:
    drawn = draw(suite, where={"case": "4k", "rw": "randread"}, color=None)
    assert [row["text"] for row in rows(styled(drawn.spec, "value")[0])] == [
        row["text"] for row in rows(styled(drawn.spec, "mark")[0])
    ]


def test_marks_can_be_chosen(suite: Dataset) -> None:
    marks = rows(styled(draw(suite, marks=[50, 99.9]).spec, "mark")[0])
    assert {row["y"] for row in marks} == {50, 99.9}


def test_shares_have_a_decade_of_slower_requests_in_each_step(suite: Dataset) -> None:
    (curve,) = styled(draw(suite).spec, "curve")
    y = curve["encoding"]["y"]
    assert y["scale"]["type"] == "log" and y["scale"]["domain"][0] == 100 > y["scale"]["domain"][1]
    assert '"0.1": "99.9", "0.01": "99.99"' in y["axis"]["labelExpr"]
    assert all(row["slower"] == pytest.approx(100 - row["y"], rel=1e-5, abs=1e-6) for row in rows(curve))


def test_a_curve_ends_where_ten_requests_are_slower(suite: Dataset) -> None:
    """2000 requests of five trials: 99.9 %; of one trial 99.5 %, so that 99.9 has no mark."""
    for trials, end in ((5, 99.9), (1, 99.5)):
        kept = replace(suite, trials=suite.trials.filter(pl.col("repetition") < trials))
        drawn = draw(kept)
        assert max(row["y"] for row in rows(styled(drawn.spec, "curve")[0])) == pytest.approx(end)
        assert max(row["y"] for row in rows(styled(drawn.spec, "mark")[0])) == (99.9 if trials == 5 else 99)
        assert "a curve ends where fewer than 10 requests are slower" in subtitle(drawn.spec)


def test_a_handful_of_requests_is_no_curve(suite: Dataset) -> None:
    few = replace(
        suite, hist=suite.hist.group_by(["study", "trial", "direction", "kind"]).head(1).with_columns(count=1)
    )
    few = replace(few, hist=few.hist.select(suite.hist.columns).cast(dict(suite.hist.schema)))
    assert "no level has more than 5 requests; a median needs 20" in draw(few).problem


def test_trials_that_kept_only_their_jobs_are_merged_from_these(suite: Dataset) -> None:
    apart = replace(suite, hist=suite.hist.with_columns(job=pl.lit(0, pl.Int64)))
    assert rows(styled(draw(apart).spec, "mark")[0]) == rows(styled(draw(suite).spec, "mark")[0])


def test_the_subtitle_counts_requests_and_trials(suite: Dataset) -> None:
    assert subtitle(draw(suite).spec).startswith("40 k requests of 20 trials")


def test_no_histogram_of_that_kind_is_told(suite: Dataset) -> None:
    drawn = draw(suite, direction="trim")
    assert drawn.problem == "no trim clat histogram was recorded"


def test_times_of_zero_are_drawn_at_one_nanosecond(suite: Dataset) -> None:
    drawn = draw(replace(suite, hist=suite.hist.with_columns(value_ns=pl.lit(0, pl.Int64))))
    assert {row["x"] for row in rows(styled(drawn.spec, "mark")[0])} == {1.0}
