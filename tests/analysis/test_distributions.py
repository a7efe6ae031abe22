"""Distributions are scipy's, which only the tests need."""

import math

import pytest
from scipy import stats

from ioassay.stats import distributions

FREEDOMS = (1, 1.7, 2, 3, 5, 9.3, 30, 100, 1234.5, 1e5, 1e7)
PRECISE = 2e-10


@pytest.mark.parametrize("df", FREEDOMS)
def test_student_s_distribution_and_its_quantiles(df: float) -> None:
    for t in (-30, -2, -0.1, 0, 1e-6, 0.3, 1, 2.5, 8, 40, 300):
        assert distributions.t_sf(t, df) == pytest.approx(stats.t.sf(t, df), rel=PRECISE, abs=1e-290)
    for p in (0.01, 0.4, 0.5, 0.5001, 0.75, 0.9, 0.975, 0.9999, 1 - 1e-9):
        assert distributions.t_ppf(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-8, abs=1e-12)
        assert distributions.t_sf(distributions.t_ppf(p, df), df) == pytest.approx(1 - p, rel=1e-10)


@pytest.mark.parametrize("df", FREEDOMS)
@pytest.mark.parametrize("df_one", [1, 2, 4, 17.5, 200])
def test_the_f_distribution(df_one: float, df: float) -> None:
    for f in (0, 1e-4, 0.1, 0.9, 1, 1.5, 4, 30, 1000):
        assert distributions.f_sf(f, df_one, df) == pytest.approx(stats.f.sf(f, df_one, df), rel=1e-8, abs=1e-290)


def test_the_normal_distribution() -> None:
    for p in (0.0, 1e-12, 0.3, 0.5, 0.999, 1.0):
        assert distributions.normal_ppf(p) == pytest.approx(stats.norm.ppf(p), rel=1e-12)


def test_what_has_no_answer_is_not_a_number() -> None:
    assert math.isnan(distributions.t_sf(math.nan, 3))
    assert math.isnan(distributions.t_sf(1.0, 0))
    assert math.isnan(distributions.t_ppf(1.0, 3))
    assert all(math.isnan(distributions.t_ppf(p, 3)) for p in (-0.1, 0, 1, 1.5))
    assert distributions.t_ppf(0.999, 3) > distributions.t_ppf(0.001, 3)
    for df_one, df_two in ((0, 3), (2, 0), (2, -1)):
        assert math.isnan(distributions.f_sf(1.0, df_one, df_two))
    assert math.isnan(distributions.f_sf(math.nan, 2, 3))
    assert math.isnan(distributions.normal_ppf(1.5))
    assert distributions.f_sf(math.inf, 2, 3) == 0
