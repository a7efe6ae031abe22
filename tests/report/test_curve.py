"""Cumulative curves: few points, exact marks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay._core import Histogram
from ioassay.report.figures import latency_distributions

MARKS = (10, 25, 50, 75, 90, 99)
BUCKETS = st.dictionaries(st.integers(1, 10**10), st.integers(1, 10**6), min_size=1, max_size=900)


def histogram(buckets: dict[int, int]) -> Histogram:
    return Histogram.from_buckets(list(buckets), list(buckets.values()))


@given(BUCKETS)
def test_every_mark_is_a_point_of_the_curve_at_the_percentile_of_the_histogram(buckets: dict[int, int]) -> None:
    merged = histogram(buckets)
    points = latency_distributions.curve_points(merged, MARKS, 99.9)
    assert all((merged.quantile(share / 100), share) in points for share in MARKS)


@given(BUCKETS, st.sampled_from([50.0, 99.5, 99.999]))
def test_the_curve_only_rises_up_to_its_last_share_in_few_points(buckets: dict[int, int], last: float) -> None:
    merged = histogram(buckets)
    points = latency_distributions.curve_points(merged, (50,), last)
    assert len(points) <= 123
    assert points[0] == (merged.quantile(0), 0) and points[-1] == (merged.quantile(last / 100), last)
    assert all(left[0] <= right[0] and left[1] < right[1] for left, right in itertools.pairwise(points))


def test_the_tail_keeps_its_shape_on_an_axis_of_nines() -> None:
    merged = histogram(
        {1000 + number: 1000 for number in range(5000)} | {10**6 * number: 1 for number in range(1, 400)}
    )
    assert sum(share > 99 for _, share in latency_distributions.curve_points(merged, (), 99.999)) > 30


def test_a_bucket_with_many_requests_is_drawn_as_a_step() -> None:
    points = latency_distributions.curve_points(histogram({1000: 500, 2000: 501}), (), 99)
    assert [x for x, _ in points] == [1000, 1000, 2000, 2000]
    assert [y for _, y in points] == pytest.approx([0, 49.9, 50, 99], abs=2)


def test_a_single_value_makes_a_step_to_the_last_share() -> None:
    assert latency_distributions.curve_points(histogram({4096: 99}), (50,), 90) == [(4096, 0), (4096, 50), (4096, 90)]
