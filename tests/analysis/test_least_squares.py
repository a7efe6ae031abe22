"""Lines and their lack of fit: published results and properties. NIST's data are in test_nist.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ioassay.stats.linear_models import LackOfFit, Line, fit_line, lack_of_fit
from ioassay.stats.result import Undefined

DEPOSIT = np.array([125, 100, 200, 75, 150, 175, 75, 175, 125, 200, 100], dtype=np.float64)
ACCOUNTS = np.array([160, 112, 124, 28, 152, 156, 42, 124, 150, 104, 136], dtype=np.float64)


def line(x: np.ndarray, y: np.ndarray) -> Line:
    found = fit_line(x, y, 0.95)
    assert isinstance(found, Line)
    return found


def test_lack_of_fit_of_the_bank_example() -> None:
    """Kutner, Nachtsheim, Neter and Li, "Applied Linear Statistical Models" (2005), 3.7: F = 14.80, p = .006."""
    found = line(DEPOSIT, ACCOUNTS)
    assert (found.intercept, found.slope) == (pytest.approx(50.7225, abs=5e-5), pytest.approx(0.48670, abs=5e-6))
    assert found.ss_residual == pytest.approx(14741.6, abs=0.05)
    lack = lack_of_fit(DEPOSIT, ACCOUNTS, found.ss_residual)
    assert isinstance(lack, LackOfFit)
    assert (lack.df_lack, lack.df_pure) == (4, 5)
    assert lack.f == pytest.approx(14.80, abs=0.005)
    assert lack.p == pytest.approx(0.006, abs=5e-4)


def test_a_line_is_scipy_s() -> None:
    found, other = line(DEPOSIT, ACCOUNTS), stats.linregress(DEPOSIT, ACCOUNTS)
    assert (found.slope, found.intercept, found.slope_se, found.intercept_se, found.p, found.r2) == pytest.approx(
        (other.slope, other.intercept, other.stderr, other.intercept_stderr, other.pvalue, other.rvalue**2)
    )


def test_the_line_is_that_of_the_cars() -> None:
    """R: predict(lm(dist ~ speed, cars), data.frame(speed = 15))."""
    speed = """4 4 7 7 8 9 10 10 10 11 11 12 12 12 12 13 13 13 13 14 14 14 14 15 15 15 16 16 17 17 17 18 18 18 18 19 19
    19 20 20 20 20 20 22 23 24 24 24 24 25"""
    stop = """2 10 4 22 16 10 18 26 34 17 28 14 20 24 28 26 34 34 46 26 36 60 80 20 26 54 32 40 32 40 50 42 56 76 84 36
    46 68 32 48 52 56 64 66 54 70 92 93 120 85"""
    found = line(*(np.array([float(word) for word in text.split()]) for text in (speed, stop)))
    assert found.at(15.0) == pytest.approx(41.40704, abs=5e-6)


@given(
    st.lists(st.tuples(st.floats(1, 100), st.floats(-1e3, 1e3)), min_size=4, max_size=15),
    st.sampled_from([1e-3, 1024.0]),
    st.randoms(),
)
def test_units_scale_the_slope_and_order_changes_nothing(
    rows: list[tuple[float, float]], unit: float, random: object
) -> None:
    x, y = np.array(rows).T
    if np.ptp(x) < 1e-3 or np.ptp(y) < 1e-3:
        return
    first = line(x, y)
    if first.aic is None or first.r2 > 1 - 1e-9:
        return
    random.shuffle(rows)  # type: ignore[attr-defined]
    x, y = np.array(rows).T
    second = line(x * unit, y)
    assert second.slope * unit == pytest.approx(first.slope, rel=1e-6, abs=1e-9)
    assert (second.r2, second.p) == pytest.approx((first.r2, first.p), rel=1e-6, abs=1e-9)


def test_an_exact_line_has_no_residual_and_no_criterion() -> None:
    x = np.arange(10.0)
    found = line(x, 3 * x + 1)
    assert (found.slope, found.intercept, found.r2) == pytest.approx((3.0, 1.0, 1.0))
    assert found.aic is None and found.f is None and found.p == 0.0


def test_degenerate_lines_are_named() -> None:
    assert isinstance(fit_line(np.ones(5), np.arange(5.0), 0.95), Undefined)
    assert isinstance(fit_line(np.array([1.0, 2.0]), np.array([1.0, 2.0]), 0.95), Undefined)
    flat = line(np.arange(5.0), np.full(5, 7.0))
    assert (flat.slope, flat.p, flat.r2) == (0.0, 1.0, 0.0)


def test_no_lack_of_fit_without_repetitions_or_with_two_levels() -> None:
    x = np.arange(5.0)
    y = x + np.array([0.1, -0.1, 0.2, 0.0, -0.1])
    assert isinstance(lack_of_fit(x, y, line(x, y).ss_residual), Undefined)
    two = np.array([1.0, 1.0, 2.0, 2.0])
    assert isinstance(lack_of_fit(two, y[:4], line(two, y[:4]).ss_residual), Undefined)


def test_slope_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(31)
    x = np.repeat([1.0, 2.0, 4.0, 8.0], 3)
    hits = 0
    for noise in rng.normal(0, 3, (1500, x.size)):
        interval = line(x, 10 + 2 * x + noise).slope_interval
        hits += interval.low <= 2 <= interval.high
    assert hits / 1500 == pytest.approx(0.95, abs=0.018)
