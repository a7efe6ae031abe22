"""How many repetitions a difference needs, against the tables that everybody uses."""

from __future__ import annotations

import numpy as np
import pytest

from ioassay.stats.power import MOST, repetitions_needed
from ioassay.stats.result import Undefined


def scattered(deviation: float, groups: int = 2, size: int = 9) -> list[np.ndarray]:
    """Groups of exactly this standard deviation."""
    shape = np.linspace(-1, 1, size)
    return [10 * group + shape * deviation / shape.std(ddof=1) for group in range(groups)]


@pytest.mark.parametrize(("effect", "needed"), [(0.2, 394), (0.5, 64), (0.8, 26), (1.0, 17)])
def test_repetitions_are_those_of_cohens_table(effect: float, needed: int) -> None:
    """Cohen, "Statistical Power Analysis" (1988), table 2.4.1: power 0.80, two-sided risk 0.05 (393, 64, 26, 17)."""
    assert repetitions_needed(scattered(1.0), effect, 0.95) == pytest.approx(needed, abs=1)


def test_more_pairs_share_the_risk_and_need_more() -> None:
    groups = scattered(1.0, 4)
    assert repetitions_needed(groups, 0.5, 0.95, 6) > repetitions_needed(groups, 0.5, 0.95, 1)


def test_what_never_scatters_needs_two_and_what_always_does_the_most() -> None:
    still = [np.full(3, 1.0), np.full(3, 2.0)]
    assert repetitions_needed(still, 0.1, 0.95) == 2
    assert repetitions_needed(scattered(1e6), 1e-3, 0.95) == MOST


def test_single_repetitions_say_nothing_of_chance() -> None:
    assert isinstance(repetitions_needed([np.array([1.0]), np.array([2.0])], 0.1, 0.95), Undefined)
