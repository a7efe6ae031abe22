"""Throughput against latency: the drawn numbers are those of the trials, in the order of the load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import synthetic
from charts import mark, rows, styled, subtitle

from ioassay.errors import StudyError
from ioassay.records.record import Environment
from ioassay.report import figures
from ioassay.report.figures import default_figures, latency_distributions
from ioassay.store.dataset import Dataset

RATES = [1000, 2000, 4000, 8000, 16000]
MOST = 7000.0


def swept(factors: dict[str, list[Any]], iops: Callable[[dict[str, Any]], float], **params: Any) -> Dataset:
    """Three repetitions 1 % apart, whose latencies grow with the load; without histograms."""
    study = synthetic.study("sweep", "Sweep", factors, [], **{"rw": "randread", **params})
    records = synthetic.run(Path(), [study], 3)
    found = []
    for row in records.trials.to_dicts():
        noise = 1 + 0.01 * (row["repetition"] - 1)
        rate = iops(row) * noise
        load = row[next(iter(factors))]
        latencies = {f"read.lat.p{name}": 1e5 * factor * (1 + load / 1e4) for name, factor in LATENCIES.items()}
        found.append({**row, "read.iops": rate, "read.bw": 4096 * rate, **latencies})
    return replace(records, trials=pl.DataFrame(found, infer_schema_length=None), hist=records.hist.clear())


LATENCIES = {"50": 1.0, "99": 10.0, "99.9": 50.0}


@pytest.fixture
def sweep() -> Dataset:
    """Achieves what is offered, up to 7000 requests a second."""
    return swept({"rate_iops": RATES}, lambda row: min(row["rate_iops"], MOST))


def draw(records: Dataset, **keys: Any) -> figures.Drawn:
    return synthetic.draw(records, records.studies[0], {"kind": "throughput_latency", **keys})


def points(drawn: figures.Drawn, filled: bool) -> list[dict[str, Any]]:
    return [row for layer in styled(drawn.spec, "mark") if mark(layer)["filled"] is filled for row in rows(layer)]


def test_a_line_a_percentile_joins_the_levels_in_the_order_of_the_load(sweep: Dataset) -> None:
    (line,) = styled(draw(sweep).spec, "curve")
    assert line["encoding"]["order"]["field"] == "load"
    assert [row["load"] for row in rows(line) if row["percentile"] == "p99"] == RATES
    row = next(row for row in rows(line) if (row["load"], row["percentile"]) == (4000, "p99.9"))
    assert row["x"] == pytest.approx(4.0) and row["y"] == pytest.approx(5e6 * 1.4)
    assert line["encoding"]["y"]["scale"]["type"] == "log"


def test_levels_that_achieve_less_than_is_offered_are_hollow(sweep: Dataset) -> None:
    drawn = draw(sweep)
    assert {row["load"] for row in points(drawn, filled=True)} == {1000, 2000, 4000}
    assert {row["load"] for row in points(drawn, filled=False)} == {8000, 16000}
    assert "less than 95 % of the offered rate, first of 8 k" in subtitle(drawn.spec)
    assert rows(styled(drawn.spec, "reference")[0])[0]["x"] == pytest.approx(MOST / 1000)


def test_an_unfit_machine_has_no_limit(sweep: Dataset) -> None:
    busy = Environment(1.0, 2, own_share=0.1, others_share=0.9, kernel_share=0.0, steal_share=0.0, idle_share=0.0)
    drawn = draw(replace(sweep, environments=dict.fromkeys(sweep.trials["trial"], busy)))
    assert points(drawn, filled=False) and not styled(drawn.spec, "reference")
    assert "first of" not in subtitle(drawn.spec) and "no conclusion" in subtitle(drawn.spec)


def test_the_offered_rate_is_that_of_all_jobs() -> None:
    records = swept({"rate_iops": RATES}, lambda row: 2 * min(row["rate_iops"], MOST), numjobs=2)
    assert {row["load"] for row in points(draw(records), filled=False)} == {8000, 16000}
    by_jobs = swept({"rate_iops": RATES, "numjobs": [1, 2]}, lambda row: row["numjobs"] * row["rate_iops"])
    assert not points(draw(by_jobs, color="numjobs"), filled=False)


def test_a_queue_depth_offers_no_rate() -> None:
    records = swept({"iodepth": [1, 2, 4, 8]}, lambda row: 1000.0 * row["iodepth"])
    drawn = draw(records)
    assert not points(drawn, filled=False) and not styled(drawn.spec, "reference")
    assert "numbers: queue depth" in subtitle(drawn.spec)


def test_both_have_intervals_which_stay_in_the_plot(sweep: Dataset) -> None:
    drawn = draw(sweep)
    rules = [layer for layer in drawn.spec["layer"] if "x2" in layer["encoding"] or "y2" in layer["encoding"]]
    across = next(layer for layer in rules if "x2" in layer["encoding"])
    assert [row["percentile"] for row in rows(across)] == ["p50"] * len(RATES)
    assert all(row["x_low"] < row["x"] < row["x_high"] for row in rows(across))
    low, high = across["encoding"]["y"]["scale"]["domain"]
    up = next(layer for layer in rules if "y2" in layer["encoding"])
    assert all(low <= row["y_low"] <= row["y"] <= row["y_high"] <= high for row in rows(up))


def test_one_repetition_has_no_interval(sweep: Dataset) -> None:
    drawn = draw(replace(sweep, trials=sweep.trials.filter(pl.col("repetition") == 0)))
    assert not [layer for layer in drawn.spec["layer"] if {"x2", "y2"} & layer["encoding"].keys()]


def test_a_second_factor_has_colours_and_percentiles_have_dashes() -> None:
    records = swept({"iodepth": [1, 2, 4], "ioengine": ["libaio", "io_uring"]}, lambda row: 1000.0 * row["iodepth"])
    (line,) = styled(draw(records, color="ioengine").spec, "curve")
    assert line["encoding"]["color"]["field"] == "group" and line["encoding"]["strokeDash"]["field"] == "percentile"
    assert "all levels of I/O engine together" in subtitle(draw(records).spec)


def test_a_percentile_ends_where_too_few_requests_lie_beyond_it(suite: Dataset) -> None:
    """2000 requests a trial: five trials have 10 beyond the 99.9th percentile, four have 8."""
    table = {"kind": "throughput_latency", "direction": "read", "load": "numjobs"}

    def drawn_of(repetitions: int) -> figures.Drawn:
        trials = suite.trials.filter(pl.col("repetition") < repetitions)
        return synthetic.draw(synthetic.with_percentiles(replace(suite, trials=trials)), suite.studies[3], table)

    shown = [{row["percentile"] for row in rows(styled(drawn_of(count).spec, "curve")[0])} for count in (5, 4)]
    assert shown == [{"p50", "p99", "p99.9"}, {"p50", "p99"}]
    assert "no p99.9 with fewer than 10 requests beyond" in subtitle(drawn_of(4).spec)


def test_labels_that_would_touch_are_left_out(sweep: Dataset) -> None:
    texts = [row["text"] for layer in styled(draw(sweep).spec, "value") for row in rows(layer)]
    assert {"1 k", "16 k"} <= set(texts)
    crowded = draw(sweep, width=200, height=120)
    assert len([row for layer in styled(crowded.spec, "value") for row in rows(layer)]) < len(texts)


def test_a_study_without_a_load_and_one_of_words_are_told(suite: Dataset) -> None:
    table = {"kind": "throughput_latency"}
    problem = synthetic.draw(suite, suite.studies[1], table).problem
    assert "varies no load; expected three levels of a rate, a depth or a number of jobs" in problem
    words = synthetic.draw(suite, suite.studies[2], {**table, "load": "case"}).problem
    assert words == "levels of case are words; a load needs numbers"
    assert "has no factor 'iodepth'" in synthetic.draw(suite, suite.studies[1], {**table, "load": "iodepth"}).problem


def test_latencies_that_were_not_recorded_are_told(sweep: Dataset) -> None:
    assert "has the metric 'read.clat.p50'" in draw(sweep, latency="clat").problem


def test_a_percentile_that_no_trial_has_is_refused() -> None:
    table = {"kind": "throughput_latency", "name": "a", "percentiles": [50, 97]}
    with pytest.raises(StudyError, match=r"figures\.a\.percentiles\.1: .*97 is not recorded; expected some of 50, 90"):
        figures.check(synthetic.study("s", "S", {}, [table]))


def test_it_comes_first_where_a_rate_or_a_depth_is_swept(sweep: Dataset, suite: Dataset) -> None:
    first = default_figures.of_study(sweep, sweep.studies[0])[0]
    assert (first.kind, first.name) == ("throughput_latency", "read_throughput_latency")
    assert figures.draw(sweep, sweep.studies[0], first).problem == ""
    assert latency_distributions.load_factor(suite.studies[3]) == "numjobs"
    assert default_figures.of_study(suite, suite.studies[3])[0].kind == "scaling"
