"""Interactions read from condition means: Student's contrast where there is one, false claims, equivalence."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.linear_models import Interaction, interaction
from ioassay.stats.result import Floats

GRID = {place: index for index, place in enumerate(itertools.product(range(3), range(4)))}
SQUARE = {(0, 0): 0, (0, 1): 1, (1, 0): 2, (1, 1): 3}


def crossed(groups: list[Floats], grid: dict[tuple[int, int], int], *, exact: bool = False) -> Interaction | None:
    means = fit(groups, exact=exact)
    assert isinstance(means, ConditionMeans)
    return interaction(means, grid, 0.95)


def test_two_by_two_is_the_contrast_of_four_means() -> None:
    """Equal deviations as shares of the means, so that the model pools them."""
    spread = np.array([-0.02, 0.0, 0.02])
    logs = np.array([0.0, 0.1, 0.2, 0.5])
    found = crossed([np.exp(log) * (1 + spread) for log in logs], SQUARE)
    assert found is not None and found.present and not found.absent
    half = stats.t.ppf(0.975, 8) * 0.02 * np.sqrt(4 / 3)
    assert found.levels == ((0, 1), (0, 1)) and found.pair.estimate == pytest.approx(np.exp(0.2))
    assert (found.pair.interval.low, found.pair.interval.high) == pytest.approx(
        (np.exp(0.2 - half), np.exp(0.2 + half))
    )
    assert found.pair.p == pytest.approx(2 * stats.t.sf(0.2 / (0.02 * np.sqrt(4 / 3)), 8))


def test_ratios_that_agree_are_no_interaction() -> None:
    """Both factors multiply: 3 × 4 means that differ by decades, in 5 % of studies at most told to interact."""
    random, false, absent = np.random.default_rng(2), 0, 0
    means = np.outer([1, 10, 300], [1, 2, 4, 7]).ravel()
    for number in range(300):
        noise = 0.1 if number % 2 else 0.003
        found = crossed([mean * (1 + noise * random.standard_normal(4)) for mean in means], GRID)
        assert found is not None
        false += found.present
        absent += found.absent
    assert false <= 15 and absent > 100


def test_needs_four_conditions_of_two_levels_each() -> None:
    groups = [np.array([1.0, 1.1]), np.array([2.0, 2.1]), np.array([3.0, 3.1])]
    assert crossed(groups, {(0, 0): 0, (0, 1): 1, (1, 0): 2}) is None


def test_exact_means_have_exact_ratios() -> None:
    alike, other = (
        crossed([np.array([value]) for value in (1.0, 2.0, 10.0, last)], SQUARE, exact=True) for last in (20.0, 30.0)
    )
    assert alike is not None and (alike.present, alike.absent, alike.needed) == (False, True, None)
    assert other is not None and (other.present, other.absent, other.pair.p) == (True, False, 0.0)


def test_more_repetitions_show_it() -> None:
    random = np.random.default_rng(5)
    few = crossed([1 + 0.1 * random.standard_normal(3) for _ in GRID], GRID)
    assert few is not None and few.needed is not None and not few.present
    many = crossed([1 + 0.1 * random.standard_normal(few.needed) for _ in GRID], GRID)
    assert many is not None and many.absent


def test_means_at_the_ends_of_the_range_have_a_bounded_ratio() -> None:
    found = crossed([np.array([value, value * 1.01]) for value in (1e100, 1e-100, 1e-100, 1e100)], SQUARE)
    assert found is not None and found.present and np.isfinite(found.pair.interval.high)
