"""The description of conditions, the headline rows, and what adaptive repetition waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ioassay.analysis import descriptive
from ioassay.analysis.descriptive import relative_half_width
from ioassay.stats.result import Interval, Undefined

VALUES = {"4KiB": [100e6, 101e6, 102e6, 99e6, 98e6], "1MiB": [500e6, 510e6, 490e6, 505e6, 200e6]}


def block_size(lab: Any, repetitions: int = 5) -> Any:
    study = lab.study(factors={"bs": list(VALUES)})
    return study, lab.records(lab.run(study, lambda p, r: {"read.bw": VALUES[p["bs"]][r]}, repetitions))


def bounds(values: list[float], confidence: float) -> tuple[float, float]:
    """Of the mean, on the logarithmic scale."""
    mean = float(np.mean(values))
    factor = np.exp(stats.t.ppf((1 + confidence) / 2, len(values) - 1) * stats.sem(values) / mean)
    return mean / factor, mean * factor


def test_every_condition_is_described_with_its_interval(lab: Any) -> None:
    study, records = block_size(lab)
    (answer,) = descriptive.analyse(records, study)
    first, _ = answer.conditions
    assert (first.point, first.moments.n, first.moments.mean, first.moments.median) == ({"bs": "4KiB"}, 5, 100e6, 100e6)
    assert first.moments.stddev == pytest.approx(np.std(VALUES["4KiB"], ddof=1))
    assert isinstance(first.interval, Interval)
    assert (first.interval.low, first.interval.high) == pytest.approx(bounds(VALUES["4KiB"], 0.95))


def test_an_outlier_is_flagged_and_kept(lab: Any) -> None:
    study, records = block_size(lab)
    summary = descriptive.analyse(records, study)[0].conditions[1]
    assert summary.moments.mean == pytest.approx(441e6)
    assert [(flagged.value, flagged.repetition) for flagged in summary.outliers] == [(200e6, 4)]


def test_one_repetition_has_values_and_no_interval(lab: Any) -> None:
    study, records = block_size(lab, repetitions=1)
    (answer,) = descriptive.analyse(records, study)
    first = answer.conditions[0]
    assert (first.moments.n, first.moments.stddev, first.moments.cv) == (1, None, None)
    assert isinstance(first.interval, Undefined)


def test_the_study_s_confidence_is_used(lab: Any) -> None:
    study = lab.study(factors={"bs": list(VALUES)}, confidence=0.8)
    records = lab.records(lab.run(study, lambda p, r: {"read.bw": VALUES[p["bs"]][r]}, 5))
    interval = descriptive.analyse(records, study)[0].conditions[0].interval
    assert isinstance(interval, Interval)
    assert (interval.low, interval.high) == pytest.approx(bounds(VALUES["4KiB"], 0.8))


def test_headline_rows_are_conditions_by_responses(lab: Any) -> None:
    study = lab.study(case=[{"name": "reads"}, {"name": "writes"}], responses=["write.iops", "read.iops"])
    rows = lab.run(study, lambda p, r: {f"{p['case'][:-1]}.iops": 1000.0 + r}, 3)
    found = descriptive.headline(lab.records(rows), [study])
    assert [(row.workload, row.metric, row.unit) for row in found] == [
        ("reads", "read.iops", "IOPS"),
        ("writes", "write.iops", "IOPS"),
    ]
    assert found[0].repetitions == 3 and found[0].mean == found[0].median == 1001.0
    assert found[0].ci95[0] < 1001.0 < found[0].ci95[1]


def test_headline_of_one_repetition_has_no_interval(lab: Any) -> None:
    study = lab.study()
    found = descriptive.headline(lab.records(lab.run(study, lambda *_: {"read.bw": 5.0}, 1)), [study])
    assert (found[0].ci95, found[0].workload) == (None, "all trials")


def test_stopping_at_a_narrow_interval_costs_a_little_coverage() -> None:
    """As docs/METHOD.md says: where repetitions vary by 8 %, intervals of 95 % hold in about 91 of 100 cases."""
    rng = np.random.default_rng(61)
    hits = 0
    for draws in rng.normal(1, 0.08, (500, 30)):
        n = next((n for n in range(3, 30) if relative_half_width(draws[:n]) <= 0.05), 30)
        hits += abs(draws[:n].mean() - 1) <= relative_half_width(draws[:n]) * draws[:n].mean()
    assert 0.87 < hits / 500 < 0.945


def test_relative_half_width_is_that_of_the_interval() -> None:
    values = [10.0, 11.0, 12.0]
    low, high = bounds(values, 0.95)
    assert relative_half_width(values) == pytest.approx((high - low) / 2 / 11)
    assert relative_half_width([3.0]) == relative_half_width([]) == relative_half_width([-1.0, 1.0]) == float("inf")
    assert relative_half_width([4.0, 4.0, 4.0]) == 0.0
