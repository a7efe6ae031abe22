"""From records to the repetitions of each condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from ioassay.analysis.measurements.cells import cells
from ioassay.narrative import finding, pipeline
from ioassay.packs.comparison import run_comparison


def shares(lab: Any, repetitions: int = 2) -> Any:
    study = lab.study("share", factors={"rw": ["rw", "randrw"], "mix": [0, 50, 100]}, responses=["read.bw"])

    def measure(point: Any, repetition: int) -> dict[str, float]:
        reads = {} if point["mix"] == 100 else {"read.bw": 100.0 + point["mix"] + repetition}
        return {**reads, "read.ios": 0.0 if point["mix"] == 100 else 9.0}

    return study, lab.run(study, measure, repetitions)


def test_conditions_come_in_the_study_s_order_whatever_the_order_they_ran_in(lab: Any) -> None:
    study, rows = shares(lab)
    found = cells(lab.records(rows), study, "read.bw")
    assert [cell.label for cell in found.cells] == [
        "rw=rw mix=0",
        "rw=rw mix=50",
        "rw=randrw mix=0",
        "rw=randrw mix=50",
    ]
    assert [list(cell.values) for cell in found.cells] == [[100, 101], [150, 151]] * 2
    assert all((np.diff(cell.order) > 0).all() for cell in found.cells)


def test_a_condition_without_the_response_is_absent_and_named(lab: Any) -> None:
    study, rows = shares(lab)
    found = cells(lab.records(rows), study, "read.bw")
    assert found.absent == ("rw=rw mix=100", "rw=randrw mix=100")
    assert found.factors["mix"] == (0, 50)
    assert "Read bandwidth does not occur at rw=rw mix=100" in str(finding.left_out(found)[0])


def test_a_rate_of_zero_requests_counts_as_absent(lab: Any) -> None:
    study = lab.study(factors={"mix": [0, 100]})
    rows = lab.run(
        study, lambda point, _: {"read.bw": 0.0 if point["mix"] else 7.0, "read.ios": float(not point["mix"])}
    )
    assert cells(lab.records(rows), study, "read.bw").absent == ("mix=100",)


def test_failed_trials_are_left_out_and_counted(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4k", "8k"]})
    rows = lab.run(
        study, lambda point, repetition: None if point["bs"] == "8k" or repetition == 1 else {"read.bw": 5.0}, 3
    )
    found = cells(lab.records(rows), study, "read.bw")
    assert found.failed == 4
    assert found.lost == ("bs=8k",)
    assert [cell.values.size for cell in found.cells] == [2]
    assert [*map(str, finding.left_out(found)[:2])] == ["Left out: 4 failed trials.", "No trial succeeded at bs=8k."]


def test_values_that_are_no_measurement_are_left_out_and_counted(lab: Any) -> None:
    study = lab.study()
    bad = [float("nan"), float("inf"), 1e300, 5.0]
    found = cells(lab.records(lab.run(study, lambda _, r: {"read.bw": bad[r]}, 4)), study, "read.bw")
    assert list(found.cells[0].values) == [5.0]
    assert [*map(str, finding.left_out(found))] == ["Left out: 3 values, not finite or not of a plausible size."]


def test_numbers_that_a_frame_turned_into_text_find_their_level(lab: Any) -> None:
    """A suite whose studies share a factor name has one column for both; text where one of them has words."""
    first = lab.study("a", factors={"bs": [4096, 8192]})
    second = lab.study("b", factors={"bs": ["4KiB"]})
    records = lab.records(
        lab.run(first, lambda *_: {"read.bw": 1.0}, 1), lab.run(second, lambda *_: {"read.bw": 2.0}, 1)
    )
    assert [cell.point for cell in cells(records, first, "read.bw").cells] == [{"bs": 4096}, {"bs": 8192}]
    assert [cell.point for cell in cells(records, second, "read.bw").cells] == [{"bs": "4KiB"}]


def test_levels_that_an_old_run_has_twice_are_one_condition(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4k", "8k", "4KiB"], "rw": ["read", "write"]})
    records = lab.records(lab.run(study, lambda point, repetition: {"read.bw": 1.0 + repetition + len(point["rw"])}, 3))
    found = cells(records, study, "read.bw")
    assert found.factors["bs"] == ("4k", "8k") == study.levels["bs"]
    assert [(cell.point["bs"], cell.values.size) for cell in found.cells[:2]] == [("4k", 6), ("4k", 6)]
    assert {finding.question for finding in pipeline.analyse_study(records, study)} >= {"describe", "effect"}


def test_conditions_match_between_runs_that_spell_a_level_differently(lab: Any) -> None:
    ours, theirs = (lab.study(factors={"bs": [size, "64k"]}) for size in ("4k", "4KiB"))
    a, b = (lab.records(lab.run(study, lambda *_: {"read.bw": 1.0}, 3)) for study in (ours, theirs))
    compared = run_comparison.compare(a, b)
    assert [row.point["bs"] for row in compared.rows] == ["4KiB", "64k"]
    assert not any("factors" in difference.name for difference in compared.differences)


def test_slices_fix_all_other_factors(lab: Any) -> None:
    study, rows = shares(lab)
    parts = cells(lab.records(rows), study, "read.bw").slices("mix")
    assert [part.where() for part in parts] == [{"rw": "rw"}, {"rw": "randrw"}]
    assert [part.varying() for part in parts] == [["mix"], ["mix"]]


def test_a_response_that_no_trial_has_is_not_asked_for(lab: Any) -> None:
    study = lab.study(responses=["read.bw", "trim.bw"])
    records = lab.records(lab.run(study, lambda *_: {"read.bw": 1.0}, 1))
    assert records.responses(study) == ["read.bw"]
    assert records.responses(lab.study(responses=[])) == ["read.bw"]


def test_settings_of_a_point_merge_parameters_case_and_factors(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4k"]}, case=[{"name": "fast", "iodepth": 32}])
    assert study.params_at({"case": "fast", "bs": "4k"}) == {"direct": 1, "iodepth": 32, "bs": "4k"}
