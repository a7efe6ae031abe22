"""Moments, intervals and outliers of one sample: published results, properties, coverage in simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ioassay.stats.result import Interval, Undefined
from ioassay.stats.sample import SEED, bca_intervals, moments, outliers, t_interval

SAMPLES = st.lists(st.floats(1.0, 1e9), min_size=3, max_size=20)


def interval(found: Interval | Undefined) -> Interval:
    assert isinstance(found, Interval)
    return found


def test_student_s_own_interval() -> None:
    """Additional hours of sleep: Student (1908); R's t.test(sleep$extra[1:10])$conf.int gives -0.530, 2.030."""
    found = interval(t_interval([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], 0.95))
    assert (found.low, found.high) == pytest.approx((-0.5297804, 2.0297804), abs=1e-6)


def test_bca_meets_the_published_interval_of_efron_and_tibshirani() -> None:
    """Spatial test data, variance with divisor n, 90 %: (115.8, 259.6) in "An Introduction to the Bootstrap", 14.3.

    Published from 2000 resamples, whose own noise is a few units.
    """
    a = [48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41]
    values = np.array(a, dtype=np.float64)
    assert np.var(values) == pytest.approx(171.5, abs=0.05)
    found = interval(bca_intervals([values], 0.90, statistic=np.var, resamples=9999)[0])
    assert found.low == pytest.approx(115.8, abs=3)
    assert found.high == pytest.approx(259.6, abs=5)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("statistic", [np.mean, np.median, np.var])
def test_bca_intervals_are_scipy_s_from_the_same_resamples(statistic: Any, confidence: float) -> None:
    for size in (5, 12):
        # Whole numbers, whose sums are exact: scipy compares means that differ by rounding.
        values = np.sort(np.random.default_rng(size).lognormal(20, 0.5, size).round())
        found = interval(bca_intervals([values], confidence, statistic=statistic, resamples=400)[0])
        wanted = stats.bootstrap(
            (values,), statistic, confidence_level=confidence, n_resamples=400, method="BCa",
            rng=np.random.default_rng(SEED),
        ).confidence_interval  # fmt: skip
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-6)


def test_a_batch_gives_what_each_sample_alone_gives() -> None:
    rng = np.random.default_rng(7)
    samples = [rng.normal(50, 5, size) for size in (10, 3, 10, 7, 10)]
    together = bca_intervals(samples, 0.95)
    assert together == [bca_intervals([sample], 0.95)[0] for sample in samples]


@given(SAMPLES, st.randoms())
def test_order_of_values_changes_nothing(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert moments(shuffled).mean == pytest.approx(moments(values).mean, rel=1e-12)
    first, second = (bca_intervals([np.array(one)], 0.95, resamples=200)[0] for one in (values, shuffled))
    assert first == second


@given(SAMPLES, st.sampled_from([1e-9, 1e-3, 1024.0, 1e12]))
def test_another_unit_only_scales(values: list[float], factor: float) -> None:
    array = np.array(values)
    plain, scaled = interval(t_interval(array, 0.95)), interval(t_interval(array * factor, 0.95))
    slack = 1e-9 * float(np.abs(array).max())
    assert (scaled.low / factor, scaled.high / factor) == pytest.approx((plain.low, plain.high), rel=1e-9, abs=slack)
    if array.min() < array.max() * (1 - 1e-9):
        plain, scaled = (interval(bca_intervals([one], 0.95, resamples=200)[0]) for one in (array, array * factor))
        assert (scaled.low / factor, scaled.high / factor) == pytest.approx((plain.low, plain.high), rel=1e-6)


def test_a_single_value_has_no_interval_and_says_why() -> None:
    assert t_interval([5.0], 0.95) == Undefined("1 repetition; an interval needs at least 2")
    assert moments([5.0]).stddev is None
    assert moments([5.0]).cv is None


def test_two_values_have_a_t_interval_but_no_bootstrap() -> None:
    assert isinstance(t_interval([1.0, 2.0], 0.95), Interval)
    assert isinstance(bca_intervals([np.array([1.0, 2.0])], 0.95)[0], Undefined)


def test_two_of_three_equal_values_have_an_interval_with_width() -> None:
    for values in ([1.0, 1.0, 2.0], [1.0, 2.0, 2.0]):
        found = bca_intervals([np.array(values)], 0.5)[0]
        assert not isinstance(found, Interval) or found.low < found.high


def test_equal_values_have_an_interval_without_width() -> None:
    for found in (t_interval([0.1] * 3, 0.95), bca_intervals([np.array([0.1] * 3)], 0.95)[0]):
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
    hits = 0
    for sample in rng.normal(100, 8, (2000, 5)):
        found = interval(t_interval(sample, 0.95))
        hits += found.low <= 100 <= found.high
    # 2000 trials: a standard error of half a percentage point.
    assert hits / 2000 == pytest.approx(0.95, abs=0.015)


def test_bca_covers_less_often_than_it_says_when_repetitions_are_few() -> None:
    """Why the t interval is the one to quote below ten repetitions."""
    rng = np.random.default_rng(5)

    def coverage(size: int) -> float:
        found = bca_intervals(list(rng.normal(100, 8, (600, size))), 0.95, resamples=1000)
        return float(np.mean([interval(one).low <= 100 <= interval(one).high for one in found]))

    assert coverage(4) < 0.90
    assert coverage(30) > 0.91


def test_the_t_quantile_is_scipy_s() -> None:
    found = interval(t_interval([1.0, 2.0, 4.0, 7.0], 0.9))
    wanted = stats.t.interval(0.9, 3, loc=3.5, scale=stats.sem([1.0, 2.0, 4.0, 7.0]))
    assert (found.low, found.high) == pytest.approx(wanted)
