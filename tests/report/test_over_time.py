"""Time series of logs, and what the monitors saw."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from charts import mark, rows, styled, subtitle

from ioassay.report import figures
from ioassay.store.dataset import Dataset

from ..corpora import cases

JOBS = 3


def draw(records: Dataset, **table: object) -> figures.Drawn:
    return synthetic.draw(records, records.studies[JOBS], {"name": "a", **table})


def test_a_series_shows_the_mean_in_front_of_its_trials(suite: Dataset) -> None:
    drawn = draw(suite, kind="series", y="read.bw", where={"numjobs": 2})
    means, each = rows(styled(drawn.spec, "curve")[0]), rows(styled(drawn.spec, "repetition")[0])
    assert len({row["trial"] for row in each}) == 5
    at = [row["y"] for row in each if row["x"] == means[5]["x"]]
    assert means[5]["y"] == pytest.approx(sum(at) / 5, rel=1e-6)
    assert means[0]["x"] == 0.25


def test_the_steady_part_is_shaded(suite: Dataset) -> None:
    drawn = draw(suite, kind="series", y="read.bw", where={"numjobs": 2})
    window = rows(styled(drawn.spec, "window")[0])[0]
    assert 0 < window["x"] < window["x2"] == 10
    assert "5 of 5 ended in steady state" in subtitle(drawn.spec)


def test_levels_are_told_apart_by_colour_without_single_trials_where_there_are_many(suite: Dataset) -> None:
    drawn = draw(suite, kind="series", y="read.bw", color="numjobs", trials=False)
    assert {row["group"] for row in rows(styled(drawn.spec, "curve")[0])} == {"1", "2", "4", "6", "8"}
    assert not styled(drawn.spec, "repetition")
    assert not styled(drawn.spec, "window")


def test_a_missing_log_is_told_with_what_asks_for_it(suite: Dataset) -> None:
    assert 'logs = ["bw"]' in draw(suite, kind="series", y="write.lat.mean").problem


def test_cpu_shares_are_stacked_and_never_pass_100_percent(suite: Dataset) -> None:
    drawn = draw(suite, kind="monitors", monitor="cpu", where={"numjobs": 4}, repetition=2)
    (layer,) = styled(drawn.spec, "band")
    assert mark(layer)["type"] == "area"
    assert 0 < max(row["y2"] for row in rows(layer)) <= 100.0001
    assert "repetition 3" in subtitle(drawn.spec)


def test_cpu_shares_can_be_shown_over_a_factor(suite: Dataset) -> None:
    drawn = draw(suite, kind="monitors", monitor="cpu", x="numjobs")
    assert drawn.spec == draw(suite, kind="stack", x="numjobs").spec
    (layer,) = styled(drawn.spec, "band")
    assert {row["x"] for row in rows(layer)} == {"1", "2", "4", "6", "8"}


def test_disk_rates_are_those_of_the_disk_not_of_its_partition_too(suite: Dataset) -> None:
    drawn = draw(suite, kind="monitors", monitor="disk", where={"numjobs": 1})
    assert "device sda" in subtitle(drawn.spec)
    expected = suite.trials.filter(numjobs=1, repetition=0)["read.bw"][0] / 1e6
    read = [row["y"] for row in rows(styled(drawn.spec, "curve")[0]) if row["line"] == "read"]
    assert sum(read) / len(read) == pytest.approx(expected, rel=0.1)


@cases("monitors", "figures")
def test_what_a_monitor_cannot_show_is_told(suite: Dataset, case: dict[str, Any]) -> None:
    assert case["reason"] in draw(suite, kind="monitors", **case["table"]).problem
