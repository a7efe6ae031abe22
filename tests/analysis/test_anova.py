"""Analyses of variance: published results, properties, error rates in simulation. NIST's data are in test_nist.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay.stats.linear_models import (
    OneWay,
    one_way,
)
from ioassay.stats.result import Undefined

PLANT_GROWTH = [
    [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
    [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
    [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
]
"""Dobson, "An Introduction to Statistical Modelling" (1983), table 7.1; R's PlantGrowth."""
MUCOCILIARY = [[2.9, 3.0, 2.5, 2.6, 3.2], [3.8, 2.7, 4.0, 2.4], [2.8, 3.4, 3.7, 2.2, 2.0]]
"""Hollander and Wolfe, "Nonparametric Statistical Methods" (1973), page 116."""


def arrays(groups: list[list[float]]) -> list[np.ndarray]:
    return [np.array(group) for group in groups]


def test_classic_analysis_of_plant_growth() -> None:
    """R: anova(lm(weight ~ group, PlantGrowth)): F = 4.8461 on 2 and 27, p = 0.01591."""
    found = one_way(arrays(PLANT_GROWTH))
    assert isinstance(found, OneWay)
    assert (found.df_between, found.df_within) == (2, 27)
    assert found.f == pytest.approx(4.8461, abs=5e-5)
    assert found.p == pytest.approx(0.01591, abs=5e-6)
    assert found.ss_between == pytest.approx(3.76634, abs=5e-6)
    assert found.ss_within == pytest.approx(10.49209, abs=5e-6)


def test_effect_sizes_follow_from_the_sums_of_squares() -> None:
    found = one_way(arrays(PLANT_GROWTH))
    assert isinstance(found, OneWay)
    assert found.eta2 == pytest.approx(3.76634 / (3.76634 + 10.49209), abs=1e-5)
    assert found.omega2 == pytest.approx((3.76634 - 2 * 0.38860) / (14.25843 + 0.38860), abs=1e-5)


GROUPS = st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=6), min_size=2, max_size=5)


@given(GROUPS, st.randoms(), st.sampled_from([1e-6, 3.0, 1e9]))
def test_neither_order_nor_unit_changes_a_test(groups: list[list[float]], random: object, unit: float) -> None:
    first = one_way(arrays(groups))
    shuffled = [list(group) for group in groups]
    for group in shuffled:
        random.shuffle(group)  # type: ignore[attr-defined]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    second = one_way([np.array(group) * unit for group in shuffled])
    if isinstance(first, Undefined) or isinstance(second, Undefined) or first.eta2 > 1 - 1e-9:
        return
    assert second.f == pytest.approx(first.f, rel=1e-6, abs=1e-9)
    assert second.p == pytest.approx(first.p, rel=1e-5, abs=1e-9)


def test_identical_repetitions_are_named_instead_of_an_infinite_f() -> None:
    found = one_way(arrays([[1.0, 1.0], [2.0, 2.0]]))
    assert isinstance(found, Undefined)
    assert "identical" in found.reason


def test_single_repetitions_and_single_conditions_are_named() -> None:
    assert isinstance(one_way(arrays([[1.0], [2.0]])), Undefined)
    assert isinstance(one_way(arrays([[1.0, 2.0]])), Undefined)
    assert not isinstance(one_way(arrays([[1.0, 2.0], [2.0, 4.0]])), Undefined)


def test_an_empty_condition_is_ignored() -> None:
    assert one_way(arrays([*PLANT_GROWTH, []])) == one_way(arrays(PLANT_GROWTH))
