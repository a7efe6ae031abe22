"""The ratio of two means of a fitted model, and equivalence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.contrasts import Contrasts, Ratio, equivalence, ratio_interval
from ioassay.stats.result import Undefined

# Rounded: values that differ in their last bit only have a deviation that is rounding, which a unit changes.
SAMPLE = st.lists(st.floats(50.0, 150.0).map(lambda value: round(value, 6)), min_size=2, max_size=12)


def ratio(first: list[float] | np.ndarray, second: list[float] | np.ndarray) -> Ratio:
    model = fit([np.array(first), np.array(second)])
    if isinstance(model, Undefined):  # values in two modes
        assume(False)
    assert isinstance(model, ConditionMeans)
    return Contrasts(model, 0.95).ratio(0, 1)


def test_two_one_sided_tests_of_a_published_example() -> None:
    """Lakens, "Equivalence tests" (Social Psychological and Personality Science 8, 2017), example of TOSTER's TOSTtwo:
    means 5.25 and 5.22, deviations 0.95 and 0.83, n = 95 and 89, bounds d = ±0.43: t(182) = -2.69, p = 0.004.
    """
    squares = np.array([0.95**2 / 95, 0.83**2 / 89])
    se = float(np.sqrt(squares.sum()))
    df = float(squares.sum() ** 2 / np.sum(squares**2 / np.array([94, 88])))
    bound = 0.43 * math.sqrt((0.95**2 + 0.83**2) / 2)
    # The example is on differences; a ratio is judged by its logarithm, so its difference becomes our log ratio.
    difference = Ratio(math.exp(0.03), ratio_interval(0.03, se, df, 0.95), se, df, 1.0)
    found = equivalence(difference, math.expm1(bound), 0.05)
    assert (0.03 - bound) / se == pytest.approx(-2.69, abs=0.005)
    assert found.p == pytest.approx(0.004, abs=5e-4)
    assert found.equivalent


@given(SAMPLE, SAMPLE)
def test_swapping_the_samples_inverts_the_ratio_and_its_interval(first: list[float], second: list[float]) -> None:
    forth, back = ratio(first, second), ratio(second, first)
    inverse = back.interval.inverse()
    assert forth.ratio == pytest.approx(1 / back.ratio)
    assert (forth.interval.low, forth.interval.high) == pytest.approx((inverse.low, inverse.high))
    assert forth.p == pytest.approx(back.p, abs=1e-12)


@given(SAMPLE, SAMPLE, st.sampled_from([1e-9, 1024.0]))
def test_units_cancel(first: list[float], second: list[float], unit: float) -> None:
    plain, scaled = ratio(first, second), ratio(np.array(first) * unit, np.array(second) * unit)
    assert (scaled.ratio, scaled.interval.low, scaled.p) == pytest.approx(
        (plain.ratio, plain.interval.low, plain.p), rel=1e-6, abs=1e-9
    )


def test_ratio_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(43)
    hits = 0
    for _ in range(2000):
        found = ratio(rng.normal(120, 10, 5), rng.normal(100, 4, 8))
        hits += found.interval.low <= 1.2 <= found.interval.high
    assert hits / 2000 == pytest.approx(0.95, abs=0.017)


def test_equivalence_is_rarely_claimed_at_the_margin() -> None:
    rng = np.random.default_rng(47)
    claimed = sum(
        equivalence(ratio(rng.normal(105, 3, 8), rng.normal(100, 3, 8)), 0.05, 0.05).equivalent for _ in range(1000)
    )
    assert claimed / 1000 < 0.075


@given(SAMPLE, SAMPLE)
def test_equivalence_holds_exactly_when_its_interval_lies_within_the_margin(
    first: list[float], second: list[float]
) -> None:
    found = equivalence(ratio(first, second), 0.1, 0.05)
    inside = found.interval.low >= 1 / 1.1 and found.interval.high <= 1.1
    assert found.equivalent == inside or abs(found.p - 0.05) < 1e-9


def test_identical_repetitions_compare_exactly() -> None:
    same, other = ratio([3.0, 3.0], [3.0, 3.0]), ratio([4.0, 4.0], [2.0, 2.0])
    assert (same.ratio, same.p, other.ratio, other.p) == (1.0, 1.0, 2.0, 0.0)
    assert (other.interval.low, other.interval.high) == (2.0, 2.0)
    assert equivalence(same, 0.05, 0.05).equivalent
    assert not equivalence(other, 0.05, 0.05).equivalent
