"""Latency over time: all requests of the logs are in the cells, and what is missing is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import synthetic
from charts import layers, rows, subtitle

from ioassay.report import figures
from ioassay.report.figures import default_figures
from ioassay.store.dataset import Dataset


@pytest.fixture
def logged(tmp_path: Path) -> Dataset:
    """Five levels, two repetitions, each 20 windows of 100 ms."""
    return synthetic.with_histogram_logs(synthetic.run(tmp_path, [synthetic.jobs()], 2), "jobs")


def draw(records: Dataset, **keys: Any) -> figures.Drawn:
    return synthetic.draw(records, records.studies[0], {"kind": "latency_heatmap", **keys})


def cells(drawn: figures.Drawn) -> list[list[dict[str, Any]]]:
    return [rows(layer) for layer in layers(drawn.spec)]


def test_each_level_has_a_panel_with_all_its_requests(logged: Dataset) -> None:
    drawn = draw(logged)
    assert [panel["title"]["text"] for panel in drawn.spec["concat"]] == ["1", "2", "4", "6", "8"]
    assert [sum(row["requests"] for row in panel) for panel in cells(drawn)] == [2 * 2001] * 5
    assert "10 trials together" in subtitle(drawn.spec)


def test_a_window_lies_where_it_began_whatever_the_delay_of_its_stamp(logged: Dataset) -> None:
    (panel,) = cells(draw(logged, where={"numjobs": 1}, repetition=0))
    assert sorted({row["x"] for row in panel}) == pytest.approx([0.1 * place for place in range(20)])
    slow = max(panel, key=lambda row: row["y"])
    assert (slow["x"], slow["requests"]) == (pytest.approx(0.2), 1)


def test_all_panels_share_one_logarithmic_scale_of_colours_and_one_of_latencies(logged: Dataset) -> None:
    drawn = draw(logged)
    encodings = [layer["encoding"] for layer in layers(drawn.spec)]
    assert {tuple(one["color"]["scale"]["domain"]) for one in encodings} == {(1, 200)}
    assert (
        {one["color"]["scale"]["type"] for one in encodings}
        == {one["y"]["scale"]["type"] for one in encodings}
        == {"log"}
    )
    assert len({tuple(one["y"]["scale"]["domain"]) for one in encodings}) == 1


def test_long_logs_are_joined_into_at_most_a_hundred_columns(tmp_path: Path) -> None:
    records = synthetic.with_histogram_logs(synthetic.run(tmp_path, [synthetic.jobs()], 1), "jobs", windows=350)
    drawn = draw(records, where={"numjobs": 1})
    (panel,) = cells(drawn)
    assert len({row["x"] for row in panel}) <= 100
    assert sum(row["requests"] for row in panel) == 35001
    assert "requests of 0.4 s in each cell" in subtitle(drawn.spec)


def test_the_description_says_when_the_slowest_completed(logged: Dataset) -> None:
    assert "4 k requests, the slowest over" in draw(logged).description
    assert "at 0.2 s" in draw(logged).description


def test_a_run_without_histograms_over_time_says_how_to_record_them(suite: Dataset) -> None:
    problem = synthetic.draw(suite, suite.studies[0], {"kind": "latency_heatmap"}).problem
    assert problem == (
        'no trial kept histograms of read latencies over time; the parameter logs asks fio for them: logs = ["hist"]'
    )
    assert (
        "histograms of write latencies"
        in synthetic.draw(suite, suite.studies[0], {"kind": "latency_heatmap", "direction": "write"}).problem
    )


def test_it_is_among_the_default_figures_where_histograms_were_kept(logged: Dataset, suite: Dataset) -> None:
    def kinds(records: Dataset) -> list[str]:
        return [figure.name for figure in default_figures.of_study(records, records.studies[0])]

    assert {"read_lat_over_time", "write_lat_over_time"} <= set(kinds(logged))
    assert "read_lat_over_time" not in kinds(suite)


def test_a_broken_log_and_an_unknown_repetition_are_told(logged: Dataset) -> None:
    assert draw(logged, repetition=9).problem == "no trial that went well is repetition 9; the first is 0"
    assert "has no factor 'bs'" in draw(logged, panel="bs").problem
    trial = logged.trials["trial"][0]
    (logged.root / "trials" / trial / "raw" / "log_clat_hist.1.log").write_text("nonsense\n")
    assert "log_clat_hist.1.log" in draw(logged).problem


def test_too_many_panels_are_refused(tmp_path: Path) -> None:
    study = synthetic.study("many", "Many", {"numjobs": list(range(1, 15))}, [], rw="randread")
    records = synthetic.with_histogram_logs(synthetic.run(tmp_path, [study], 1), "many", windows=2)
    assert "14 levels of numjobs have histograms; choose up to 12 with `where`" in draw(records).problem
