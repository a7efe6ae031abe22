"""Moments, intervals and outliers of one sample: published results, properties, coverage in simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ioassay.stats.result import Interval, Undefined
from ioassay.stats.sample import VAGUEST, mean_interval, moments, outliers, t_interval

SAMPLES = st.lists(st.floats(1.0, 1e9), min_size=3, max_size=20)


def interval(found: Interval | Undefined) -> Interval:
    assert isinstance(found, Interval)
    return found


def test_student_s_own_interval() -> None:
    """Additional hours of sleep: Student (1908); R's t.test(sleep$extra[1:10])$conf.int gives -0.530, 2.030."""
    found = interval(t_interval([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], 0.95))
    assert (found.low, found.high) == pytest.approx((-0.5297804, 2.0297804), abs=1e-6)


@given(SAMPLES, st.randoms())
def test_order_of_values_changes_nothing(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert moments(shuffled).mean == pytest.approx(moments(values).mean, rel=1e-12)
    first, second = (interval(mean_interval(one, 0.95)) for one in (values, shuffled))
    assert (first.low, first.high) == pytest.approx((second.low, second.high), rel=1e-9)


@given(SAMPLES, st.sampled_from([1e-9, 1e-3, 1024.0, 1e12]))
def test_another_unit_only_scales(values: list[float], factor: float) -> None:
    array = np.array(values)
    slack = 1e-9 * float(np.abs(array).max())
    for made in (t_interval, mean_interval):
        plain, scaled = interval(made(array, 0.95)), interval(made(array * factor, 0.95))
        ends = (scaled.low / factor, scaled.high / factor)
        assert ends == pytest.approx((plain.low, plain.high), rel=1e-9, abs=slack)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=9), st.sampled_from([1.0, 1e9]), st.floats(0.5, 0.999))
def test_no_interval_leaves_what_the_quantity_can_be(shares: list[float], unit: float, confidence: float) -> None:
    for bounds, scale in (((0.0, 1.0), 1.0), ((0.0, np.inf), unit)):
        values = np.array(shares) * scale
        found = interval(mean_interval(values, confidence, bounds))
        mean = moments(values).mean
        slack = 1e-9 * scale
        assert bounds[0] <= found.low <= mean + slack and mean - slack <= found.high <= bounds[1]
        assert mean == 0 or found.high <= max(VAGUEST * mean, found.low) * (1 + 1e-9)


def test_a_positive_mean_has_its_interval_on_the_logarithmic_scale() -> None:
    """ln(mean) with the variation over the root of n as its error: a factor of exp(t * cv / sqrt(n)) to both sides."""
    values = [370e3, 410e3, 2.9e6]
    found, mean = interval(mean_interval(values, 0.95, (0.0, np.inf))), float(np.mean(values))
    factor = np.exp(stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / mean / np.sqrt(3))
    assert (found.low, found.high) == pytest.approx((mean / factor, mean * factor))
    assert interval(t_interval(values, 0.95)).low < 0 < found.low
    narrow = [1e8, 1.01e8, 0.99e8]
    assert interval(mean_interval(narrow, 0.95)).low == pytest.approx(interval(t_interval(narrow, 0.95)).low, rel=1e-3)
    assert mean_interval([-1.0, 3.0, 4.0], 0.95) == t_interval([-1.0, 3.0, 4.0], 0.95)


def test_a_single_value_has_no_interval_and_says_why() -> None:
    assert t_interval([5.0], 0.95) == Undefined("1 repetition; an interval needs at least 2")
    assert moments([5.0]).stddev is None
    assert moments([5.0]).cv is None


def test_equal_values_have_an_interval_without_width() -> None:
    for found in (t_interval([0.1] * 3, 0.95), mean_interval([0.1] * 3, 0.95)):
        assert (interval(found).low, interval(found).high) == (0.1, 0.1)
    assert moments([0.1] * 3).stddev == 0.0


def test_a_missing_value_is_refused_rather_than_averaged() -> None:
    with pytest.raises(ValueError, match="NaN"):
        moments([1.0, float("nan")])


def test_moments_keep_their_digits_on_a_large_offset() -> None:
    values = 1e12 + np.array([0.0, 1.0, 2.0])
    assert moments(values).stddev == 1.0


def test_outliers_of_rosner_s_example() -> None:
    """54 values with three outliers at 5 %: Rosner (1983); NIST/SEMATECH e-Handbook, 1.3.5.17.3."""
    text = """-0.25 0.68 0.94 1.15 1.20 1.26 1.26 1.34 1.38 1.43 1.49 1.49 1.55 1.56 1.58 1.65 1.69 1.70 1.76 1.77 1.81
    1.91 1.94 1.96 1.99 2.06 2.09 2.10 2.14 2.15 2.23 2.24 2.26 2.35 2.37 2.40 2.47 2.54 2.62 2.64 2.90 2.92 2.92 2.93
    3.21 3.26 3.30 3.59 3.68 4.30 4.64 5.34 5.42 6.01"""
    values = [float(word) for word in text.split()]
    found = outliers(values, risk=0.05)
    assert [values[outlier.index] for outlier in found] == [6.01, 5.42, 5.34]
    assert [round(outlier.score, 3) for outlier in found] == [3.119, 2.943, 3.179]


def test_clean_samples_of_ten_are_rarely_flagged() -> None:
    rng = np.random.default_rng(11)
    flagged = sum(bool(outliers(sample)) for sample in rng.normal(100, 5, (2000, 10)))
    assert flagged / 2000 < 0.025


def test_one_wild_repetition_is_flagged() -> None:
    values = [100.0, 101.0, 99.5, 100.4, 99.8, 55.0, 100.1, 100.3]
    assert [outlier.index for outlier in outliers(values)] == [5]


def test_few_or_equal_values_flag_nothing() -> None:
    assert outliers([1.0, 1.0, 50.0]) == []
    assert outliers([3.0] * 10) == []
    assert outliers([1.0, 1.01, 1.02, 90.0]) == []
    assert [outlier.index for outlier in outliers([1.0, 1.01, 1.02, 1.03, 90.0])] == [4]


def test_t_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    for made in (t_interval, mean_interval):
        found = [interval(made(sample, 0.95)) for sample in rng.normal(100, 8, (2000, 5))]
        # 2000 trials: a standard error of half a percentage point.
        assert np.mean([one.low <= 100 <= one.high for one in found]) == pytest.approx(0.95, abs=0.015)


def test_the_t_quantile_is_scipy_s() -> None:
    found = interval(t_interval([1.0, 2.0, 4.0, 7.0], 0.9))
    wanted = stats.t.interval(0.9, 3, loc=3.5, scale=stats.sem([1.0, 2.0, 4.0, 7.0]))
    assert (found.low, found.high) == pytest.approx(wanted)
