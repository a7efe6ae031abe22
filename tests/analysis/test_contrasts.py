"""The family of contrasts: against scipy where conditions share a variance, and its own coherence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import isotonic_regression

from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.contrasts import (
    LINES_SHARE,
    OVERLAP,
    PAIRS_SHARE,
    Contrasts,
    bend_p,
    best,
    best_level,
    grid_df,
    range_quantile,
    slopes,
)
from ioassay.stats.distributions import two_t_quantile
from ioassay.stats.result import Floats
from ioassay.stats.shapes import MISFIT, misfit_p, monotone


def family(groups: list[Floats], confidence: float = 0.95, **options: float) -> Contrasts:
    means = fit(groups)
    assert isinstance(means, ConditionMeans)
    return Contrasts(means, confidence, **options)  # type: ignore[arg-type]


def alike(n: int = 6) -> list[Floats]:
    """Four groups around 0 with the same variance: on the raw scale, pooled."""
    base = np.linspace(-1, 1, n)
    return [base + shift for shift in (-0.6, 0.1, 0.7, 1.4)]


def test_all_pairs_are_those_of_tukey_where_conditions_share_a_variance() -> None:
    groups = alike()
    found, known = family(groups), stats.tukey_hsd(*groups)
    intervals = known.confidence_interval(0.95)
    for high in range(4):
        for low in range(4):
            if high != low:
                pair = found.pair(high, low)
                assert pair.p == pytest.approx(known.pvalue[high, low], abs=1e-6)
                assert pair.interval.low == pytest.approx(intervals.low[high, low], abs=1e-6)


@pytest.mark.parametrize("df", [0.7, 3.3, 19.9, 20.6, 59.9, 60.0, 69.9, 155.0, 999.0, 1000.0])
def test_critical_values_are_of_a_few_degrees_of_freedom_less_and_never_of_more(df: float) -> None:
    assert 0.7 * df < grid_df(df) <= df and grid_df(df + 1e6) == 1000


def test_the_margin_is_tested_as_two_one_sided_tests() -> None:
    random = np.random.default_rng(1)
    for _ in range(40):
        first, second = (random.normal(0, 1, 8) for _ in range(2))
        second = second - second.mean() + first.mean() + random.uniform(-1, 1)
        second = (second - second.mean()) * (first.std() / second.std()) + second.mean()
        found = family([first, second], margin=1.0)
        below = stats.ttest_ind(first + found.bound, second, alternative="greater").pvalue
        above = stats.ttest_ind(first - found.bound, second, alternative="less").pvalue
        assert found.equivalent == (max(below, above) <= 0.05)


def test_the_slope_is_that_of_least_squares_with_the_variances_of_the_conditions() -> None:
    groups, x = alike(), np.array([1.0, 2.0, 4.0, 8.0])
    found = slopes(family(groups, lines=1), {"linear": x})["linear"]
    known = stats.linregress(np.repeat(x, 6), np.concatenate(groups))
    centred = x - x.mean()
    error = math.sqrt(np.var(groups[0], ddof=1) / 6 / np.sum(centred**2))
    assert found.slope == pytest.approx(known.slope)
    assert found.error == pytest.approx(error)
    assert found.p == pytest.approx(min(1.0, 2 * stats.t.sf(found.slope / error, 20) / LINES_SHARE))


@pytest.mark.parametrize("levels", [3, 5, OVERLAP])
def test_pairs_and_lines_of_equal_levels_together_keep_the_risk(levels: int) -> None:
    random, x = np.random.default_rng(5), np.arange(1.0, levels + 1)
    for df in (levels, 9 * levels):
        z = random.standard_normal((200_000, levels)) / np.sqrt(random.chisquare(df, (200_000, 1)) / df)
        pairs = np.ptp(z, axis=1) > range_quantile(1 - 0.05 * PAIRS_SHARE, levels, df) * math.sqrt(2)
        lines = np.stack([(one - one.mean()) / np.linalg.norm(one - one.mean()) for one in (x, np.log2(x))])
        critical = two_t_quantile(0.05 * LINES_SHARE, df, float(lines[0] @ lines[1]))
        sloped = np.abs(z @ lines.T).max(axis=1) > critical
        assert sloped.mean() == pytest.approx(0.05 * LINES_SHARE, abs=0.001)
        assert (pairs | sloped).mean() <= 0.0515


def test_a_ratio_has_the_reciprocal_interval_the_other_way_round() -> None:
    random = np.random.default_rng(2)
    found = family([random.normal(mean, mean / 10, 5) for mean in (10, 20, 30)])
    up, down = found.pair(2, 0), found.pair(0, 2)
    assert up.estimate == pytest.approx(1 / down.estimate)
    assert up.interval.low == pytest.approx(1 / down.interval.high)


def test_no_pair_is_both_apart_and_equal_in_either_direction() -> None:
    random = np.random.default_rng(3)
    for _ in range(100):
        means = 1 + random.uniform(0, 0.2, 6)
        found = family([mean * (1 + 0.02 * random.standard_normal(5)) for mean in means], lines=2)
        beyond = found.differences - found.reach > found.bound
        assert not (beyond & found.near.T).any()
        assert not (found.above & found.above.T).any()


def test_p_is_below_the_risk_exactly_where_the_interval_excludes_equality() -> None:
    random = np.random.default_rng(4)
    for _ in range(50):
        found = family([mean * (1 + 0.1 * random.standard_normal(4)) for mean in (1, 1.2, 1.5)], lines=2, share=3)
        assert (found.p(2, 0) < found.risk * found.share) == bool(found.above[2, 0] or found.above[0, 2])


def test_exact_results_differ_exactly_or_not_at_all() -> None:
    means = fit([np.array([1.0]), np.array([1.0]), np.array([1.2])], exact=True)
    assert isinstance(means, ConditionMeans)
    found = Contrasts(means, 0.95)
    assert found.above.tolist() == [[False, False, False], [False, False, False], [True, True, False]]
    assert found.near[0, 1]
    assert not found.near[0, 2]


def test_an_interval_over_more_than_a_factor_of_ten_is_vague() -> None:
    wide = family([np.array([1.0, 9.0, 2.0]), np.array([1.0, 2.0, 12.0])])
    assert wide.pair(1, 0).interval.vague
    assert not family([np.array([1.0, 1.1, 1.2]), np.array([2.0, 2.1, 2.2])]).pair(1, 0).interval.vague


def test_families_that_share_the_risk_have_wider_intervals() -> None:
    groups = [np.array([1.0, 1.1, 1.2]), np.array([2.0, 2.1, 2.2])]
    alone, shared = family(groups).pair(1, 0), family(groups, share=5).pair(1, 0)
    assert shared.interval.low < alone.interval.low
    assert shared.p == pytest.approx(5 * alone.p)


def test_a_bend_is_claimed_where_there_is_one_whatever_scatters() -> None:
    """A straight line whose last level scatters 10 times as much, and one that bends at its middle."""
    random, x, false, seen = np.random.default_rng(6), np.arange(1.0, 9.0), 0, 0
    scatter = np.where(x == 8, 0.1, 0.01)
    for _ in range(200):
        noise = [spread * random.standard_normal(3) for spread in scatter]
        straight = family([(10 + place) * (1 + one) for place, one in zip(x, noise, strict=True)])
        bent = family([min(10 + place, 14) * (1 + one) for place, one in zip(x, noise, strict=True)])
        false += bend_p(straight, x) < 0.05
        seen += bend_p(bent, x) < 0.05
        assert bend_p(bent, x, lower=True) > 0.05
    assert false <= 15 and seen > 160


def test_exact_means_bend_exactly() -> None:
    straight, bent = (fit([np.array([one]) for one in values], exact=True) for values in ([1.0, 2, 3], [1.0, 2, 2]))
    assert isinstance(straight, ConditionMeans) and isinstance(bent, ConditionMeans)
    assert [bend_p(Contrasts(means, 0.95), [1, 2, 3]) for means in (straight, bent)] == [1.0, 0.0]


def test_a_misfit_is_that_of_the_nearest_rising_curve() -> None:
    """Of three equal means one level remains in a third of all cases and two in half (Robertson and others, 2.4)."""
    random = np.random.default_rng(4)
    for _ in range(30):
        pair, three = ([random.normal(0, 1, 6) for _ in range(number)] for number in (2, 3))
        scale = math.sqrt(2 * np.mean([np.var(group, ddof=1) for group in pair]) / 6)
        t = (pair[0].mean() - pair[1].mean()) / scale
        found = family(pair)
        if math.isinf(found.means.prior_df):
            assert misfit_p(found, 1) == pytest.approx(stats.t.sf(t, 10) if t > 0 else 1.0, abs=1e-6)
        found = family(three)
        means, weights = found.means.estimates, 1 / found.means.squared_errors
        distance = float(np.sum(weights * (means - isotonic_regression(means, weights=weights).x) ** 2))
        df = found.means.df_of_sums(found.means.squared_errors[None, :], np.arange(3)[None, :])[0]
        known = stats.f.sf(distance, 1, df) / 2 + stats.f.sf(distance / 2, 2, df) / 3
        assert misfit_p(found, 2) == pytest.approx(known if distance else 1.0, abs=1e-6)
        assert misfit_p(found, 2) == pytest.approx(misfit_p(family(three[::-1]), 0))


@pytest.mark.parametrize("turn", [0, 3, 7])
def test_a_shape_is_rejected_for_chance_alone_as_seldom_as_it_says(turn: int) -> None:
    random = np.random.default_rng(5)
    rejected = sum(misfit_p(family(list(random.normal(100, 5, (8, 5)))), turn) < MISFIT for _ in range(600))
    assert 2 <= rejected <= 2 * MISFIT * 600


@pytest.mark.parametrize("saw", [[1, 1.2] * 4, [1, 2] * 3, [1.2, 1] * 4])
def test_a_saw_neither_rises_nor_falls_wherever_it_ends(saw: list[float]) -> None:
    random = np.random.default_rng(6)
    for _ in range(40):
        found = family([mean * random.normal(1, 0.05, 3) for mean in saw])
        assert not monotone(found) and not monotone(found, lower=True)


def test_exact_means_rise_only_without_a_single_fall() -> None:
    groups = [np.full(2, mean) for mean in (1.0, 2.0, 1.9, 3.0)]
    means = fit(groups, exact=True)
    assert isinstance(means, ConditionMeans)
    assert not monotone(Contrasts(means, 0.95)) and monotone(Contrasts(means.part([0, 1, 3]), 0.95))


def test_of_means_that_differ_by_rounding_the_first_is_best_everywhere() -> None:
    one, other = 4015102.999999999, 4015102.999999998
    assert best([5e6, one, other], lower=True) == best([5e6, other, one], lower=True) == 1
    assert best([0.0, 0.0]) == 0 and best([-1.0, -2.0]) == 0 and best([-1.0, -2.0], lower=True) == 1
    for groups in ([[one] * 2, [other] * 2], [[other] * 2, [one] * 2]):
        means = fit([np.array(group) for group in groups], exact=True)
        assert isinstance(means, ConditionMeans)
        found = best_level(Contrasts(means, 0.95), lower=True)
        assert (found.index, found.probability) == (0, (0.5, 0.5))
