"""The description of conditions, the headline rows, and what adaptive repetition waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ioassay.analysis import headline
from ioassay.analysis.effects import descriptive
from ioassay.analysis.effects.descriptive import relative_half_width

VALUES = {"4KiB": [100e6, 101e6, 102e6, 99e6, 98e6], "1MiB": [500e6, 510e6, 490e6, 505e6, 200e6]}


def block_size(lab: Any, repetitions: int = 5) -> Any:
    study = lab.study(factors={"bs": list(VALUES)})
    return study, lab.records(lab.run(study, lambda p, r: {"read.bw": VALUES[p["bs"]][r]}, repetitions))


def test_every_condition_is_described_with_both_intervals(lab: Any) -> None:
    study, records = block_size(lab)
    (finding,) = descriptive.analyse(records, study)
    first, second = finding.statistics["points"]
    assert (first["label"], first["n"], first["mean"], first["median"]) == ("bs=4KiB", 5, 100e6, 100e6)
    assert first["stddev"] == pytest.approx(np.std(VALUES["4KiB"], ddof=1))
    assert first["ci"] == pytest.approx(stats.t.interval(0.95, 4, 100e6, stats.sem(VALUES["4KiB"])))
    assert first["ci_bca"][0] > first["ci"][0] and first["ci_bca"][1] < first["ci"][1]
    assert "100 MB/s" in finding.statement and "at bs=4KiB" in finding.statement
    assert second["outliers"][0]["value"] == 200e6


def test_an_outlier_is_flagged_and_kept(lab: Any) -> None:
    study, records = block_size(lab)
    (finding,) = descriptive.analyse(records, study)
    assert finding.statistics["points"][1]["mean"] == pytest.approx(441e6)
    assert any("kept" in caveat and "200 MB/s" in caveat for caveat in finding.caveats)


def test_one_repetition_has_values_and_no_interval(lab: Any) -> None:
    study, records = block_size(lab, repetitions=1)
    (finding,) = descriptive.analyse(records, study)
    point = finding.statistics["points"][0]
    assert (point["n"], point["stddev"], point["cv"], point["ci"], point["ci_bca"]) == (1, None, None, None, None)
    assert "100 MB/s (1 repetition)" in finding.statement
    assert any("single repetition" in caveat for caveat in finding.caveats)


def test_two_repetitions_have_a_t_interval_only(lab: Any) -> None:
    study, records = block_size(lab, repetitions=2)
    point = descriptive.analyse(records, study)[0].statistics["points"][0]
    assert point["ci"] is not None and point["ci_bca"] is None


def test_the_table_names_the_metric_of_each_column(lab: Any) -> None:
    study, records = block_size(lab)
    table = descriptive.analyse(records, study)[0].tables[0]
    assert len(table.columns) == len(table.metrics) == len(table.rows[0])
    assert table.metrics[table.columns.index("mean")] == "read.bw"
    assert table.rows[0][0] == "4KiB"


def test_the_asked_confidence_is_used_and_named(lab: Any) -> None:
    study = lab.study(factors={"bs": list(VALUES)}, confidence=0.8)
    records = lab.records(lab.run(study, lambda p, r: {"read.bw": VALUES[p["bs"]][r]}, 5))
    (finding,) = descriptive.analyse(records, study)
    assert "80 % interval" in finding.statement
    assert finding.statistics["points"][0]["ci"] == pytest.approx(
        stats.t.interval(0.8, 4, 100e6, stats.sem(VALUES["4KiB"]))
    )


def test_headline_rows_are_conditions_by_responses(lab: Any) -> None:
    study = lab.study(case=[{"name": "reads"}, {"name": "writes"}], responses=["write.iops", "read.iops"])
    rows = lab.run(study, lambda p, r: {f"{p['case'][:-1]}.iops": 1000.0 + r}, 3)
    found = headline.headline(lab.records(rows), [study])
    assert [(row["workload"], row["metric"], row["unit"]) for row in found] == [
        ("reads", "read.iops", "IOPS"),
        ("writes", "write.iops", "IOPS"),
    ]
    assert found[0]["repetitions"] == 3 and found[0]["mean"] == found[0]["median"] == 1001.0
    assert found[0]["ci95"][0] < 1001.0 < found[0]["ci95"][1]


def test_headline_of_one_repetition_has_no_interval(lab: Any) -> None:
    study = lab.study()
    found = headline.headline(lab.records(lab.run(study, lambda *_: {"read.bw": 5.0}, 1)), [study])
    assert (found[0]["ci95"], found[0]["workload"]) == (None, "all trials")


def test_stopping_at_a_narrow_interval_costs_a_little_coverage() -> None:
    """As docs/METHOD.md says: where repetitions vary by 8 %, intervals of 95 % hold in about 91 of 100 cases."""
    rng = np.random.default_rng(61)
    hits = 0
    for draws in rng.normal(1, 0.08, (500, 30)):
        n = next((n for n in range(3, 30) if relative_half_width(draws[:n]) <= 0.05), 30)
        hits += abs(draws[:n].mean() - 1) <= relative_half_width(draws[:n]) * draws[:n].mean()
    assert 0.87 < hits / 500 < 0.945


def test_relative_half_width_is_that_of_the_t_interval() -> None:
    values = [10.0, 11.0, 12.0]
    low, high = stats.t.interval(0.95, 2, 11.0, stats.sem(values))
    assert relative_half_width(values) == pytest.approx((high - low) / 2 / 11)
    assert relative_half_width([3.0]) == relative_half_width([]) == relative_half_width([-1.0, 1.0]) == float("inf")
    assert relative_half_width([4.0, 4.0, 4.0]) == 0.0
