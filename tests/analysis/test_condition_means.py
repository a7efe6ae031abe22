"""Condition means with moderated variances: against scipy, in limits with known answers, and with passes as blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from ioassay.stats.condition_means import ConditionMeans, Scale, chi2_ppf, fit, polygamma, trigamma_inverse
from ioassay.stats.result import Floats, Undefined


def fitted(*args: object, **options: object) -> ConditionMeans:
    found = fit(*args, **options)  # type: ignore[arg-type]
    assert isinstance(found, ConditionMeans)
    return found


def scattered(seed: int, deviations: list[float], n: int) -> list[Floats]:
    random = np.random.default_rng(seed)
    return [100 * (1 + deviation * random.standard_normal(n)) for deviation in deviations]


@pytest.mark.parametrize("x", [0.1, 0.5, 1.0, 3.3, 20.0, 500.0])
def test_gamma_derivatives_and_quantiles_of_chi_squared_are_those_of_scipy(x: float) -> None:
    assert polygamma(x)[0] == pytest.approx(special.digamma(x), rel=1e-10, abs=1e-10)
    assert polygamma(x)[1] == pytest.approx(special.polygamma(1, x), rel=1e-10)
    assert trigamma_inverse(polygamma(x)[1]) == pytest.approx(x, rel=1e-6)
    assert chi2_ppf(0.2, 2 + x) == pytest.approx(stats.chi2.ppf(0.2, 2 + x), rel=0.02)


def test_positive_means_are_on_the_log_scale_and_others_are_not() -> None:
    assert fitted(scattered(1, [0.1, 0.1], 5)).scale == Scale.LOG
    raw = fitted([np.array([-3.0, 1.0, 1.0]), np.array([3.0, 4.0, 5.5])])
    assert raw.scale == Scale.RAW
    assert raw.estimates == pytest.approx([-1 / 3, 12.5 / 3])


def test_conditions_that_scatter_alike_share_one_variance() -> None:
    values = np.array([[9.0, 10, 11], [90, 100, 110], [900, 1000, 1100]])
    found = fitted(list(values))
    assert math.isinf(found.prior_df)
    assert found.squared_errors == pytest.approx([0.01 / 3] * 3)
    assert found.df == pytest.approx([6.0] * 3)


def test_conditions_that_scatter_differently_keep_most_of_their_own_variance() -> None:
    found = fitted(scattered(2, [0.01, 0.01, 0.01, 0.3, 0.3, 0.3], 20))
    assert found.prior_df < 1
    assert found.squared_errors[3:].min() > 20 * found.squared_errors[:3].max()


def test_a_condition_with_one_repetition_has_the_variance_of_the_others() -> None:
    found = fitted([*scattered(3, [0.1] * 4, 5), np.array([100.0])])
    assert found.squared_errors[4] > found.squared_errors[:4].max()
    assert found.df[4] > 0


def test_the_variance_is_that_of_the_log_of_a_mean() -> None:
    """The delta method for two groups, pooled."""
    first, second = scattered(4, [0.1, 0.1], 8)
    found = fitted([first, second])
    shares = [np.var(group, ddof=1) / np.mean(group) ** 2 for group in (first, second)]
    assert found.squared_errors.sum() == pytest.approx(sum(shares) / 8, rel=1e-9)


def test_passes_that_differ_are_blocks_and_passes_that_do_not_cost_nothing() -> None:
    groups, passes = scattered(5, [0.02] * 5, 6), [np.arange(6)] * 5
    shifts = 50 * np.random.default_rng(6).standard_normal(6)
    shifted = [group + shifts for group in groups]
    blocked, plain = fitted(shifted, passes), fitted(shifted)
    assert blocked.blocked
    assert blocked.squared_errors.max() < plain.squared_errors.min() / 10
    assert not fitted(groups, passes).blocked


def test_incomplete_passes_are_no_blocks() -> None:
    groups = scattered(5, [0.1] * 3, 4)
    assert not fitted([groups[0][:3], *groups[1:]], [np.arange(3), np.arange(4), np.arange(4)]).blocked


def test_blocks_leave_the_residual_variance_of_the_two_way_layout() -> None:
    random = np.random.default_rng(7)
    table = -5 + random.standard_normal((4, 6)) * 0.1 + 3 * random.standard_normal(6)
    found = fitted(list(table), [np.arange(6)] * 4)
    residuals = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    assert found.blocked
    assert float(np.mean(found.squared_errors)) == pytest.approx(np.sum(residuals**2) / 15 / 6, rel=1e-9)


def test_equal_repetitions_are_exact_and_single_ones_have_no_model() -> None:
    assert fitted([np.array([1.0, 1.0]), np.array([2.0, 2.0])]).exact
    assert fitted([np.array([1.0]), np.array([2.0])], exact=True).exact
    assert isinstance(fit([np.array([1.0]), np.array([2.0])]), Undefined)


def test_repetitions_that_agree_are_known_to_the_step_between_others() -> None:
    agree, step = np.array([100.0, 100.0, 100.0]), np.array([200.0, 201.0, 202.0])
    assert fitted([agree, step]).own_errors == pytest.approx([1 / 12 / 100**2 / 3, 1 / 201**2 / 3])


def test_order_and_unit_change_nothing() -> None:
    groups = scattered(8, [0.05, 0.1, 0.2], 5)
    found, other = fitted(groups), fitted([1e6 * group[::-1] for group in groups[::-1]])
    assert other.squared_errors[::-1] == pytest.approx(found.squared_errors)
    assert other.df[::-1] == pytest.approx(found.df)


@pytest.mark.parametrize("deviations", [[0.1] * 8, [0.04] * 4 + [0.2] * 4, [0.04] * 7 + [0.2]])
def test_each_estimate_covers_its_mean_whatever_the_scatter(deviations: list[float]) -> None:
    random, missed = np.random.default_rng(9), 0
    for _ in range(200):
        found = fitted([1 + deviation * random.standard_normal(3) for deviation in deviations])
        t = np.abs(found.estimates) / np.sqrt(found.squared_errors)
        missed += int(np.sum(2 * stats.t.sf(t, found.df) < 0.05))
    assert missed / (200 * len(deviations)) < 0.06


def test_blocks_may_be_of_strata() -> None:
    """Conditions of one stratum share what their passes differ by; with one stratum it is the model of all."""
    rng = np.random.default_rng(9)
    shocks = rng.lognormal(0, 0.3, (2, 8))
    groups = [100 * shocks[place % 2] * rng.lognormal(0, 0.01, 8) for place in range(6)]
    passes = [np.arange(8)] * 6
    whole, same, apart = (fitted(groups, passes, strata=strata) for strata in (None, [0] * 6, [0, 1] * 3))
    assert np.array_equal(whole.squared_errors, same.squared_errors)
    assert apart.blocked and apart.squared_errors.max() < whole.squared_errors.min() / 20
    assert apart.total_df == pytest.approx(2 * 2 * 7)
