"""Log samples of trials: job logs put together, rounds for steady state."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ioassay.analysis.measurements.log_samples import Samples, rounds, samples


def with_jobs(lab: Any, jobs: dict[int, list[float]], jitter_s: float = 0.002) -> Any:
    study = lab.study(responses=["read.bw"])
    rows = lab.run(study, lambda *_: {"read.bw": 1.0}, 1)
    key = {"study": "study", "trial": "study-0"}
    rows.extra["series"] = [
        {**key, "metric": metric, "job": job, "time_s": 0.1 * (i + 1) + jitter_s * job, "value": value}
        for job, values in jobs.items()
        for metric in ("read.bw", "read.lat.mean")
        for i, value in enumerate(values)
    ]
    return study, lab.records(rows)


def test_rates_of_jobs_are_added_and_latencies_averaged(lab: Any) -> None:
    study, records = with_jobs(lab, {0: [1.0, 2.0, 3.0], 1: [10.0, 20.0, 30.0]})
    assert list(samples(records, study, "read.bw")["study-0"].value) == [11.0, 22.0, 33.0]
    assert list(samples(records, study, "read.lat.mean")["study-0"].value) == [5.5, 11.0, 16.5]


def test_a_window_that_one_job_lacks_is_left_out_instead_of_looking_like_a_dip(lab: Any) -> None:
    study, records = with_jobs(lab, {0: [1.0, 2.0, 3.0], 1: [10.0, 20.0]})
    assert list(samples(records, study, "read.bw")["study-0"].value) == [11.0, 22.0]


def test_a_merged_log_goes_before_job_logs(lab: Any) -> None:
    study, records = with_jobs(lab, {-1: [5.0, 6.0], 0: [1.0, 2.0]}, jitter_s=0)
    assert list(samples(records, study, "read.bw")["study-0"].value) == [5.0, 6.0]


def test_no_log_is_no_samples(lab: Any) -> None:
    study, records = with_jobs(lab, {})
    assert samples(records, study, "read.bw") == {}
    assert records.series.schema["value"] == pl.Float64


def test_rounds_average_equal_spans() -> None:
    """A stamp ends its span: 0.5 and 1.0 make the first second, however late the stamps are."""
    found = rounds(Samples(np.arange(0.5, 10.1, 0.5) + 0.002, np.arange(20.0)))
    assert found.values == pytest.approx(np.arange(0.5, 20.0, 2.0))
    assert (found.start_s, found.round_s) == pytest.approx((0.002, 1.0))


def test_a_short_trial_is_cut_into_five_rounds_and_a_long_one_into_twenty_five() -> None:
    assert rounds(Samples(np.linspace(0, 1, 20), np.ones(20))).values.size == 5
    assert rounds(Samples(np.linspace(0, 600, 5000), np.ones(5000))).values.size == 25


def test_too_few_samples_make_no_rounds() -> None:
    assert rounds(Samples(np.arange(4.0), np.ones(4))).values.size == 0
    assert rounds(Samples(np.zeros(9), np.ones(9))).values.size == 0
    assert rounds(Samples(np.array([0.0, 0.1, 0.2, 0.3, 9.0]), np.ones(5))).values.size == 0
