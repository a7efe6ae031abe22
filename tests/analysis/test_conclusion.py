"""Conclusions: the shapes that a study came to, computed and put in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import conclusion, optimum
from ioassay.analysis.conclusion import Conclusion, Mean
from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.one_factor import AverageChange, Effect, Outcome, ShapeKind, level_families
from ioassay.factors import CASE
from ioassay.narrative import conclude_text
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Interval, Undefined

CASES = [
    {"name": "mixed", "bssplit": "4KiB/30:16KiB/60:64KiB/10"},
    {"name": "4k", "bs": "4KiB"},
    {"name": "16k", "bs": "16KiB"},
    {"name": "64k", "bs": "64KiB"},
]
ALONE = {"4k": 60e6, "16k": 190e6, "64k": 400e6}


def concluded(lab: Any, study: Any, measure: Any, repetitions: int = 8) -> Conclusion:
    (answer,) = conclusion.analyse(lab.records(lab.run(study, measure, repetitions)), study)
    return answer


def changes(answer: Conclusion) -> list[Effect]:
    return [part for part in answer.parts if isinstance(part, Effect)]


def predicted() -> float:
    shares = {"4k": (0.3, 4096), "16k": (0.6, 16384), "64k": (0.1, 65536)}
    volume = sum(share * size for share, size in shares.values())
    return volume / sum(share * size / ALONE[name] for name, (share, size) in shares.items())


def mixed_sizes(lab: Any, cost: float, repetitions: int = 8) -> Any:
    rng = np.random.default_rng(1)
    study = lab.study(factors={"rw": ["randread"]}, case=CASES)
    means = {**ALONE, "mixed": predicted() * (1 - cost)}
    return study, lambda p, _: {"read.bw": means[p["case"]] * rng.lognormal(0, 0.01)}


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


def test_a_mix_is_compared_with_each_size_and_with_its_parts(lab: Any) -> None:
    study, measure = mixed_sizes(lab, cost=0.22)
    (part,) = concluded(lab, study, measure).parts
    assert isinstance(part, conclusion.Mix) and isinstance(part.predicted, Ratio)
    predicted_ratio, largest = part.predicted, part.against["64k"]
    assert predicted_ratio.ratio == pytest.approx(0.78, abs=0.02)
    assert predicted_ratio.interval.low < 0.78 < predicted_ratio.interval.high
    assert isinstance(largest, Ratio) and largest.ratio == pytest.approx(0.78 * predicted() / 400e6, rel=0.02)


def test_the_prediction_of_a_mix_covers_as_often_as_it_says(lab: Any) -> None:
    hits = 0
    study, measure = mixed_sizes(lab, cost=0.1)
    for seed in range(80):
        found = cells(lab.records(lab.run(study, measure, 6, seed=seed)), study, "read.bw")
        (one,) = conclusion.mixes(found, level_families(found, CASE, 0.95), study)
        assert isinstance(one.predicted, Ratio)
        hits += one.predicted.interval.low <= 0.9 <= one.predicted.interval.high
    assert hits >= 70


def test_a_mix_without_its_parts_has_no_prediction(lab: Any) -> None:
    study = lab.study(case=CASES[:3])
    records = lab.records(lab.run(study, lambda p, r: {"read.bw": 100.0 + r}, 4))
    found = cells(records, study, "read.bw")
    (one,) = conclusion.mixes(found, level_families(found, CASE, 0.95), study)
    assert isinstance(one.predicted, Undefined)
    assert set(one.against) == {"4k", "16k"}


def test_block_size_splits_are_read_as_fio_reads_them() -> None:
    assert conclusion.parse_split("4k/30:16k/60:64k/10") == {4096.0: 0.3, 16384.0: 0.6, 65536.0: 0.1}
    assert conclusion.parse_split("4k/50:8k:16k") == {4096.0: 0.5, 8192.0: 0.25, 16384.0: 0.25}
    assert conclusion.parse_split("4k/50:8k/50,4k/10:8k/90") == {}


def test_cases_that_are_no_mix_have_best_and_worst(lab: Any) -> None:
    study = lab.study(case=[{"name": "depth 1", "iodepth": 1}, {"name": "depth 32", "iodepth": 32}])
    rng = np.random.default_rng(4)
    answer = concluded(lab, study, lambda p, _: {"read.bw": (1 if p["case"] == "depth 1" else 9) * rng.normal(100, 1)})
    (change,) = changes(answer)
    assert change.extremes.best.label == "depth 32" and change.line is None


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
