"""Conclusions: the shapes that a study came to, computed and put in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import conclusion, optimum
from ioassay.analysis.conclusion import Conclusion, Mean
from ioassay.analysis.one_factor import AverageChange, Effect, Outcome
from ioassay.narrative import conclude_text
from ioassay.stats.result import Interval
from ioassay.stats.shapes import ShapeKind


def concluded(lab: Any, study: Any, measure: Any, repetitions: int = 8) -> Conclusion:
    (answer,) = conclusion.analyse(lab.records(lab.run(study, measure, repetitions)), study)
    return answer


def changes(answer: Conclusion) -> list[Effect]:
    return [part for part in answer.parts if isinstance(part, Effect)]


def test_growth_that_saturates(lab: Any) -> None:
    rng = np.random.default_rng(2)
    study = lab.study(factors={"numjobs": [1, 2, 4, 6, 8]})
    answer = concluded(lab, study, lambda p, _: {"read.bw": 1e8 * min(p["numjobs"], 4) * rng.lognormal(0, 0.01)})
    (change,) = changes(answer)
    curve = change.shape
    assert curve is not None and curve.kind == ShapeKind.UP and change.outcome != Outcome.UNDECIDED
    assert curve.plateau is not None and curve.plateau.point == {"numjobs": 4}
    assert curve.change.estimate == pytest.approx(4, rel=0.03)
    assert curve.change.interval.low < 4 < curve.change.interval.high
    assert change.line is not None and change.line.factor == "numjobs"


def test_the_shape_levels_off_where_the_plateau_of_the_peak_begins(lab: Any) -> None:
    rng = np.random.default_rng(8)
    means = {1: 1.0, 2: 2.0, 4: 3.95, 6: 4.0, 8: 4.0}
    study = lab.study(factors={"numjobs": list(means)})
    records = lab.records(
        lab.run(study, lambda p, _: {"read.bw": 1e8 * means[p["numjobs"]] * rng.lognormal(0, 0.01)}, 6)
    )
    (change,) = changes(conclusion.analyse(records, study)[0])
    (peak,), curve = optimum.measured(records, study, "read.bw")["numjobs"], change.shape
    assert peak.plateau is not None and curve is not None
    assert curve.plateau is peak.cells[peak.plateau.first]


def test_sequential_falls_and_random_rises_with_the_share_of_writes(lab: Any) -> None:
    rng = np.random.default_rng(3)
    study = lab.study(factors={"rw": ["rw", "randrw"], "rwmixwrite": [0, 25, 50, 75, 100]}, responses=["total.bw"])

    def measure(point: Any, _: int) -> dict[str, float]:
        share = point["rwmixwrite"] / 100
        level = 5e8 * (1 - 0.5 * share) if point["rw"] == "rw" else 1e8 * (1 + share)
        return {"total.bw": level * rng.lognormal(0, 0.01)}

    answer = concluded(lab, study, measure)
    assert isinstance(answer.parts[0], AverageChange) and answer.parts[0].ratio.ratio < 0.5
    kinds = {part.cells.where()["rw"]: part.shape.kind for part in changes(answer) if part.shape}
    assert kinds == {"rw": ShapeKind.DOWN, "randrw": ShapeKind.UP}


def test_cases_that_are_no_mix_have_best_and_worst(lab: Any) -> None:
    study = lab.study(case=[{"name": "depth 1", "iodepth": 1}, {"name": "depth 32", "iodepth": 32}])
    rng = np.random.default_rng(4)
    answer = concluded(lab, study, lambda p, _: {"read.bw": (1 if p["case"] == "depth 1" else 9) * rng.normal(100, 1)})
    (change,) = changes(answer)
    assert change.best.label == "depth 32" and change.line is None


def test_what_shows_no_difference_is_quiet(lab: Any) -> None:
    rng = np.random.default_rng(5)
    study = lab.study(factors={"numjobs": [1, 2, 4]}, responses=["read.bw", "write.bw"])
    answer = concluded(lab, study, lambda *_: {"read.bw": rng.normal(100, 20), "write.bw": rng.normal(100, 20)})
    assert [part.outcome == Outcome.UNDECIDED for part in changes(answer)] == [True, True]


def test_the_only_condition_is_a_mean_with_its_interval(lab: Any) -> None:
    (part,) = concluded(lab, lab.study(), lambda p, r: {"read.bw": 1e8 + 1e6 * r}, 5).parts
    assert isinstance(part, Mean) and part.mean == 1.02e8
    assert isinstance(part.interval, Interval) and part.interval.low < 1.02e8 < part.interval.high


def test_one_repetition_has_means_without_a_shape(lab: Any) -> None:
    study = lab.study(factors={"numjobs": [1, 2, 4]})
    (change,) = changes(concluded(lab, study, lambda p, _: {"read.bw": p["numjobs"] * 1e8}, 1))
    assert change.outcome == Outcome.NOT_TESTED and change.outcome != Outcome.UNDECIDED
    assert change.shape is None


def test_a_summary_is_short(lab: Any) -> None:
    rng = np.random.default_rng(7)
    responses = ["read.bw", "write.bw", "read.iops", "read.lat.p99", "read.slat.p99", "read.clat.p99", "read.lat.mean"]
    study = lab.study(factors={"numjobs": [1, 2, 4]}, responses=responses)
    answer = concluded(
        lab, study, lambda p, _: {name: p["numjobs"] * 1e6 * rng.lognormal(0, 0.01) for name in responses}
    )
    (found,) = conclude_text.findings([answer])
    assert len(found.statements) == conclude_text.MOST
    assert len(found.statements) + len(found.details) == len(responses)


def test_many_combinations_are_counted_in_one_sentence(lab: Any) -> None:
    rng = np.random.default_rng(8)
    sizes = [f"{size}KiB" for size in (4, 8, 16, 32, 64, 128)]
    study = lab.study(factors={"numjobs": [1, 2, 4], "bs": sizes})

    def measure(point: Any, _: int) -> Any:
        grows = point["numjobs"] if point["bs"] != "4KiB" else 1
        return {"read.bw": grows * 1e8 * rng.lognormal(0, 0.005)}

    (found,) = conclude_text.findings([concluded(lab, study, measure)])
    counted = next(sentence for sentence in map(str, found.statements) if "in 5 and" in sentence)
    assert counted.startswith("Read bandwidth rises with the number of jobs in 5 and")
    assert "stays within 5 % over the number of jobs in 1 of 6 levels of block size." in counted


def test_nothing_measured_has_its_reason(lab: Any) -> None:
    study = lab.study(factors={"numjobs": [1, 2]})
    (group,) = concluded(lab, study, lambda *_: None, 2).missing
    assert group.all_conditions and (group.trials, group.reason) == (4, "the tool crashed")
    assert group.points == [{"numjobs": 1}, {"numjobs": 2}]


def test_a_level_that_is_missing_everywhere_is_named_by_its_factor(lab: Any) -> None:
    study = lab.study(factors={"rw": ["rw", "randrw"], "run.scheduler": ["other", "fifo:99", "idle"]})

    def measure(point: Any, repetition: int) -> Any:
        return None if point["run.scheduler"] == "fifo:99" else {"read.bw": 1e8 + repetition}

    (group,) = concluded(lab, study, measure, 2).missing
    assert (group.factor, group.trials, group.all_conditions) == ("run.scheduler", 4, False)


def test_values_at_zero_conclude_nothing(lab: Any) -> None:
    study = lab.study(factors={"numjobs": [1, 2, 4]})
    answer = concluded(lab, study, lambda p, r: {"read.bw": float(r % 2 and p["numjobs"] > 2) - 1.0}, 4)
    assert changes(answer)[0].shape is None
    assert conclude_text.findings([answer]) == [] or changes(answer)[0].outcome == Outcome.UNDECIDED
