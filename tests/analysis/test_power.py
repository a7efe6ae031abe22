"""How many repetitions a difference needs, against tables and a simulation."""

from __future__ import annotations

import numpy as np
import pytest

from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.contrasts import MARGIN, MOST, POWER, Contrasts, repetitions_for, repetitions_needed


@pytest.mark.parametrize(("effect", "needed"), [(0.2, 394), (0.5, 64), (0.8, 26), (1.0, 17)])
def test_repetitions_are_those_of_cohens_table(effect: float, needed: int) -> None:
    """Cohen, "Statistical Power Analysis" (1988), table 2.4.1: power 0.80, two-sided risk 0.05 (393, 64, 26, 17)."""
    assert repetitions_for(np.log1p(MARGIN) / effect, 2, 0.95) == pytest.approx(needed, abs=1)


def test_more_conditions_share_the_risk_and_need_more() -> None:
    assert repetitions_for(0.1, 8, 0.95) > repetitions_for(0.1, 2, 0.95)
    assert repetitions_for(0.1, 8, 0.95, lines=True) > repetitions_for(0.1, 8, 0.95)


def test_what_never_scatters_needs_two_and_what_always_does_the_most() -> None:
    still = fit([np.full(3, 1.0), np.full(3, 2.0)])
    assert isinstance(still, ConditionMeans)
    assert repetitions_needed(Contrasts(still, 0.95)) == 2
    beside = fit([np.array([0.0, 0.0]), np.array([0.0, 0.0]), np.array([1.0, 3.0])])
    assert isinstance(beside, ConditionMeans)
    assert repetitions_needed(Contrasts(beside.part([0, 1]), 0.95)) == MOST
    assert repetitions_for(10.0, 2, 0.95) == MOST


@pytest.mark.parametrize("conditions", [2, 6])
def test_with_the_repetitions_a_difference_of_the_margin_is_found_as_often_as_the_power_says(conditions: int) -> None:
    n, random, seen = repetitions_for(0.03, conditions, 0.95), np.random.default_rng(1), 0
    means = np.array([1 + MARGIN, *[1.0] * (conditions - 1)])
    for _ in range(200):
        model = fit([mean * (1 + 0.03 * random.standard_normal(n)) for mean in means])
        assert isinstance(model, ConditionMeans)
        seen += bool(Contrasts(model, 0.95).above[0, 1])
    assert seen / 200 == pytest.approx(POWER, abs=0.1)
