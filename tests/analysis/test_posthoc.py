"""Pairs of groups and multiple tests: published results, the studentized range against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ioassay.stats import studentized_range
from ioassay.stats.posthoc import PairDifference, benjamini_hochberg, games_howell, games_howell_from_moments, holm
from ioassay.stats.ratio_of_means import TwoSample, welch_t
from ioassay.stats.result import Undefined


def pairs(found: list[PairDifference] | Undefined) -> list[PairDifference]:
    assert isinstance(found, list)
    return found


def test_games_howell_of_tooth_growth(tooth_growth: dict[tuple[str, float], list[float]]) -> None:
    """rstatix: games_howell_test(ToothGrowth, len ~ dose): 9.13 (5.69, 12.6), 15.5 (12.3, 18.7), 6.37 (3.19, 9.54)."""
    groups = [np.array(tooth_growth["VC", dose] + tooth_growth["OJ", dose]) for dose in (0.5, 1.0, 2.0)]
    found = pairs(games_howell(groups, 0.95))
    assert [round(pair.difference, 3) for pair in found] == [9.13, 15.495, 6.365]
    bounds = [(pair.low, pair.high) for pair in found]
    wanted = [(5.69, 12.6), (12.3, 18.7), (3.19, 9.54)]
    for got, published in zip(bounds, wanted, strict=True):
        assert got == pytest.approx(published, abs=0.06)


def test_games_howell_of_penguins() -> None:
    """pingouin's documentation, body mass of penguins by species (Gorman, Williams and Fraser, PLoS ONE 9, 2014)."""
    sizes, means = np.array([151.0, 68.0, 123.0]), np.array([3700.662, 3733.088, 5076.016])
    found = pairs(games_howell_from_moments(sizes, means, np.array([458.566, 384.335, 504.116]) ** 2, 0.95))
    first = found[0]
    assert (first.first, first.second) == (0, 1)
    assert first.t == pytest.approx(0.543, abs=5e-4)
    assert first.df == pytest.approx(152.455, abs=5e-3)
    # pingouin 0.3.x used an approximation of the range: 0.834; the exact value is scipy's.
    exact = stats.studentized_range.sf(abs(first.t) * np.sqrt(2), 3, first.df)
    assert first.p == pytest.approx(exact, abs=1e-8)
    assert first.p == pytest.approx(0.85, abs=0.02)
    assert [round(pair.df, 2) for pair in found[1:]] == [
        pytest.approx(249.64, abs=0.02),
        pytest.approx(170.40, abs=0.02),
    ]


def test_games_howell_of_two_groups_is_welch_s_t_test() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(10, 1, 6), rng.normal(11, 3, 9)
    (pair,), t = pairs(games_howell([first, second], 0.95)), welch_t(second, first)
    assert isinstance(t, TwoSample)
    assert (pair.t, pair.df, pair.p) == pytest.approx((t.statistic, t.df, t.p), abs=1e-7)


def test_groups_without_spread_are_named() -> None:
    assert isinstance(games_howell([np.array([1.0, 1.0]), np.array([2.0, 2.0])], 0.95), Undefined)
    assert isinstance(games_howell([np.array([1.0]), np.array([2.0, 3.0])], 0.95), Undefined)


@pytest.mark.parametrize("means", [2, 3, 11, 40])
def test_the_studentized_range_is_scipy_s(means: int) -> None:
    q, df = np.array([0.5, 2.0, 3.5, 5.0, 9.0]), np.array([1.0, 2.5, 9.0, 18.3, 200.0])
    wanted = stats.studentized_range.cdf(q, means, df)
    assert studentized_range.cdf(q, means, df) == pytest.approx(wanted, abs=1e-8)


def test_quantiles_of_the_studentized_range_are_the_tabulated_ones() -> None:
    """Pearson and Hartley, "Biometrika Tables for Statisticians", table 29: upper 5 % points."""
    table = {(2, 10): 3.15, (3, 10): 3.88, (10, 10): 5.60, (5, 20): 4.23, (3, 5): 4.60}
    for (means, df), wanted in table.items():
        found = studentized_range.quantile(0.95, means, np.array([float(df)]))[0]
        assert found == pytest.approx(wanted, abs=0.0051)


def test_games_howell_bounds_all_pairs_at_once() -> None:
    rng = np.random.default_rng(23)
    false = 0
    for _ in range(400):
        groups = [rng.normal(100, sd, 10) for sd in (1.0, 2.0, 4.0, 8.0)]
        false += any(pair.p < 0.05 for pair in pairs(games_howell(groups, 0.95)))
    assert false / 400 == pytest.approx(0.05, abs=0.03)


def test_holm_s_example() -> None:
    """R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")."""
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_benjamini_hochberg_is_scipy_s(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(list(stats.false_discovery_control(p_values)), abs=1e-12)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_adjusting_never_lowers_a_p_value_and_holm_is_the_stricter(p_values: list[float]) -> None:
    strict, loose = holm(p_values), benjamini_hochberg(p_values)
    for raw, first, second in zip(p_values, strict, loose, strict=True):
        assert raw <= second + 1e-12 and second <= first + 1e-12 and first <= 1
