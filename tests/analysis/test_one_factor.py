"""Effects of factors: one at a time, together, and the three analyses side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import factor_effects, one_factor
from ioassay.analysis.factor_effects import InteractionOutcome as Joint
from ioassay.analysis.factor_effects import JointEffects
from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.one_factor import Effect, FactorEffects, Outcome, level_families
from ioassay.stats.contrasts import Contrasts


def answers(lab: Any, study: Any, measure: Any, repetitions: int = 8) -> list[factor_effects.Answer]:
    return factor_effects.analyse(lab.records(lab.run(study, measure, repetitions)), study)


def only_effect(lab: Any, study: Any, measure: Any, repetitions: int = 8) -> Effect:
    (answer,) = answers(lab, study, measure, repetitions)
    assert isinstance(answer, FactorEffects)
    (effect,) = answer.effects
    return effect


def test_an_effect_has_a_size_and_not_only_a_p(lab: Any) -> None:
    rng = np.random.default_rng(1)
    study = lab.study(factors={"bs": ["4KiB", "16KiB", "64KiB"]})
    level = {"4KiB": 1e8, "16KiB": 2e8, "64KiB": 4e8}
    effect = only_effect(lab, study, lambda p, _: {"read.bw": level[p["bs"]] * rng.lognormal(0, 0.02)})
    assert effect.outcome == Outcome.DIFFERENCE and effect.p is not None and effect.p < 1e-6
    assert (effect.best.point, effect.worst.point) == ({"bs": "64KiB"}, {"bs": "4KiB"})
    assert effect.ratio == pytest.approx(4, rel=0.05)
    assert effect.pair is not None and effect.pair.interval.low < 4 < effect.pair.interval.high


def test_lower_is_better_for_latencies(lab: Any) -> None:
    rng = np.random.default_rng(2)
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]}, responses=["read.lat.p99"])
    level = {"4KiB": 1e5, "64KiB": 4e5}
    effect = only_effect(lab, study, lambda p, _: {"read.lat.p99": level[p["bs"]] * rng.lognormal(0, 0.02)})
    assert effect.best.point == {"bs": "4KiB"}


def test_noise_has_no_effect_and_an_interval(lab: Any) -> None:
    rng = np.random.default_rng(3)
    study = lab.study(factors={"bs": ["4KiB", "16KiB", "64KiB"]})
    effect = only_effect(lab, study, lambda p, _: {"read.bw": 1e8 * rng.lognormal(0, 0.1)})
    assert effect.outcome == Outcome.UNDECIDED
    assert effect.pair is not None and effect.pair.interval.low < 1
    assert effect.needed is not None and effect.needed > 8


@pytest.mark.parametrize(
    ("means", "noise", "outcome"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], 0.01, Outcome.DIFFERENCE),
        ([1, 1.02, 1, 1.02, 1, 1.02, 1, 1.02, 1], 0.002, Outcome.EQUIVALENT),
        ([1, 1.3, 1, 1.3, 0.75, 1.3, 1, 1.3, 1], 0.05, Outcome.NO_DIRECTION),
        ([1.04, 1.08, 1.12, 1.16, 1.2, 1.24, 1.28, 1.32, 1.36], 0.18, Outcome.TREND),
        ([1, 1.01, 1.02, 1, 1.03, 1, 1, 1.01, 1], 0.3, Outcome.UNDECIDED),
    ],
)
def test_contrasts_and_shape_decide(lab: Any, means: list[float], noise: float, outcome: Outcome) -> None:
    rng = np.random.default_rng(9)
    study = lab.study(factors={"numjobs": list(range(1, 10))})
    effect = only_effect(lab, study, lambda p, _: {"read.bw": means[p["numjobs"] - 1] * rng.lognormal(0, noise)}, 8)
    assert effect.outcome == outcome


def test_the_interval_of_best_against_worst_holds_although_they_were_picked(lab: Any) -> None:
    """Eight equal conditions: the best-to-worst interval must hold 1 in 95 % of cases, however it was picked."""
    rng = np.random.default_rng(4)
    study = lab.study(factors={"bs": [1, 2, 3, 4, 5, 6, 7, 8]})
    hits = 0
    for _ in range(60):
        records = lab.records(lab.run(study, lambda *_: {"read.bw": 100 * rng.lognormal(0, 0.05)}, 6))
        (family,) = level_families(cells(records, study, "read.bw"), "bs", 0.95)
        pair = one_factor.effect(family, 0.95).pair
        assert pair is not None
        hits += pair.interval.low <= 1
    assert hits >= 52


def test_two_factors_have_an_interaction_and_slices(lab: Any) -> None:
    rng = np.random.default_rng(5)
    study = lab.study(factors={"rw": ["rw", "randrw"], "rwmixwrite": [10, 50, 90]})

    def measure(point: Any, _: int) -> dict[str, float]:
        slope = -1 if point["rw"] == "rw" else 1
        return {"read.bw": (200 + slope * point["rwmixwrite"]) * 1e6 * rng.lognormal(0, 0.01)}

    _, by_share, together = answers(lab, study, measure)
    assert isinstance(together, JointEffects) and isinstance(by_share, FactorEffects)
    terms = {effect.term: effect for effect in together.sums.effects}
    assert set(terms) == {"block", "rw", "rwmixwrite", "rw × rwmixwrite"}
    (crossed,) = together.pairs
    assert together.outcome == crossed.outcome == Joint.PRESENT and crossed.interaction.pair.p < 1e-9
    assert crossed.levels == (("rw", "randrw"), (10, 90))
    assert crossed.interaction.pair.estimate == pytest.approx(290 / 110 * 190 / 210, rel=0.05)
    assert [effect.cells.where() for effect in by_share.effects] == [{"rw": "rw"}, {"rw": "randrw"}]
    shares = [effect.family.contrasts for effect in by_share.effects]
    assert [isinstance(one, Contrasts) and one.share for one in shares] == [2, 2]


def test_single_repetitions_estimate_no_interaction(lab: Any) -> None:
    study = lab.study(factors={"rw": ["rw", "randrw"], "rwmixwrite": [10, 50, 90]})
    rows = lab.run(study, lambda p, _: {"read.bw": 1.0 + p["rwmixwrite"] * (2 if p["rw"] == "rw" else 3)}, 1)
    together = factor_effects.joint_effects(cells(lab.records(rows), study, "read.bw"), 0.95)
    assert together is not None and together.pairs == ()


def test_a_factor_is_tested_in_every_place(lab: Any) -> None:
    rng = np.random.default_rng(6)
    study = lab.study(factors={"rw": ["rw", "randrw"], "rwmixwrite": [0, 12, 25, 38, 50, 63]})
    found = answers(lab, study, lambda p, _: {"read.bw": (2 if p["rw"] == "rw" else 1) * 1e8 * rng.lognormal(0, 0.01)})
    pattern = found[0]
    assert isinstance(pattern, FactorEffects) and pattern.factor == "rw"
    assert [one.outcome for one in pattern.effects] == [Outcome.DIFFERENCE] * 6


def test_identical_repetitions_differ_exactly(lab: Any) -> None:
    study = lab.study(factors={"bs": [1, 2]}, driver="simulate")
    effect = only_effect(lab, study, lambda p, _: {"read.bw": 100.0 * p["bs"]}, 3)
    assert (effect.outcome, effect.p, effect.ratio) == (Outcome.DIFFERENCE, 0.0, 2.0)


def test_single_repetitions_give_means_without_a_test(lab: Any) -> None:
    study = lab.study(factors={"bs": [1, 2, 4]})
    effect = only_effect(lab, study, lambda p, _: {"read.bw": 100.0 * p["bs"]}, 1)
    assert (effect.outcome, effect.ratio, effect.pair) == (Outcome.NOT_TESTED, 4.0, None)


def test_a_study_without_factors_has_no_effects(lab: Any) -> None:
    assert answers(lab, lab.study(), lambda p, r: {"read.bw": 1.0 + r}) == []
