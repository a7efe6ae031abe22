"""Latency distributions: percentiles of merged histograms, intervals over repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ioassay.analysis import descriptive
from ioassay.analysis.descriptive import Distribution
from ioassay.metrics import PERCENTILES
from ioassay.stats.result import Interval, Undefined


def histogram(rng: np.random.Generator, median_ns: float, requests: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    values = np.round(rng.lognormal(np.log(median_ns), 0.3, requests), -2).astype(int)
    return np.unique(values, return_counts=True)


def measured(lab: Any, repetitions: int = 8, requests: int = 5000, spread: float = 0.05) -> Any:
    rng = np.random.default_rng(1)
    study = lab.study(factors={"iodepth": [1, 32]})

    def measure(point: Any, _: int) -> dict[str, Any]:
        median = (1e5 if point["iodepth"] == 1 else 2e6) * rng.lognormal(0, spread)
        return {"read.bw": 1.0, "_hist": [("read", "lat", *histogram(rng, median, requests))]}

    return study, lab.records(lab.run(study, measure, repetitions))


def latencies(records: Any, study: Any) -> Distribution:
    (found,) = (one for one in descriptive.analyse(records, study) if isinstance(one, Distribution))
    return found


def test_the_point_estimate_is_the_percentile_of_all_requests_together(lab: Any) -> None:
    study, records = measured(lab)
    found = latencies(records, study).conditions
    import polars as pl

    trials = records.trials_of(study).filter(pl.col("iodepth") == 1)["trial"].to_list()
    rows = records.hist.filter(pl.col("trial").is_in(trials))
    everything = np.repeat(rows["value_ns"].to_numpy(), rows["count"].to_numpy())
    assert found[0].requests == everything.size == 8 * 5000
    for percent in PERCENTILES[:4]:
        assert found[0].at(percent).value == pytest.approx(np.percentile(everything, percent), rel=0.001)


def test_the_interval_is_that_of_the_jackknife_over_repetitions(lab: Any) -> None:
    study, records = measured(lab)
    found = latencies(records, study).conditions[0].at(99.0)
    samples = []
    for trial in records.trials_of(study).filter(records.trials["iodepth"] == 1)["trial"]:
        rows = records.hist.filter(records.hist["trial"] == trial)
        samples.append(np.repeat(rows["value_ns"].to_numpy(), rows["count"].to_numpy()))
    whole = np.percentile(np.concatenate(samples), 99)
    without = [np.log(np.percentile(np.concatenate(samples[:one] + samples[one + 1 :]), 99)) for one in range(8)]
    error = np.sqrt(7 / 8 * np.sum((without - np.mean(without)) ** 2))  # Efron and Tibshirani 1993, equation 11.5
    assert isinstance(found.interval, Interval)
    wanted = np.exp(stats.t.interval(0.95, 7, np.log(whole), error))
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(wanted), rel=0.002)


def width(interval: Interval | Undefined) -> float:
    assert isinstance(interval, Interval)
    return interval.high - interval.low


def test_the_naive_interval_is_far_narrower(lab: Any) -> None:
    study, records = measured(lab)
    answer = latencies(records, study)
    median = answer.conditions[0].at(50.0)
    assert width(median.naive) < width(median.interval) / 3


def test_few_requests_beyond_a_percentile_make_it_sparse(lab: Any) -> None:
    study, records = measured(lab, requests=300)
    answer = latencies(records, study)
    assert [percentile.percent for percentile in answer.conditions[0].percentiles if percentile.sparse] == [99.9, 99.99]
    assert isinstance(answer.conditions[0].at(99.99).naive, Undefined)


def test_one_repetition_has_percentiles_and_no_interval(lab: Any) -> None:
    study, records = measured(lab, repetitions=1)
    answer = latencies(records, study)
    tail = answer.conditions[0].at(99.0)
    assert tail.value > 0 and isinstance(tail.interval, Undefined)


def test_jobs_are_merged_where_only_they_were_recorded(lab: Any) -> None:
    study = lab.study()
    rows = lab.run(study, lambda *_: {"read.bw": 1.0}, 1)
    rows.extra["hist"] = [
        {
            "study": "study",
            "trial": "study-0",
            "direction": "write",
            "kind": "clat",
            "job": job,
            "value_ns": v,
            "count": 1,
        }
        for job, v in ((0, 100), (1, 200), (2, 300))
    ]
    (found,) = latencies(lab.records(rows), study).conditions
    assert (found.requests, found.at(50.0).value, found.mean_ns) == (3, 200.0, 200.0)
