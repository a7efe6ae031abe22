"""Cumulative curves: few points, exact marks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay._core import Histogram
from ioassay.report.figures import cdf

MARKS = (10, 25, 50, 75, 90, 99)
BUCKETS = st.dictionaries(st.integers(1, 10**10), st.integers(1, 10**6), min_size=1, max_size=900)


def histogram(buckets: dict[int, int]) -> Histogram:
    return Histogram.from_buckets(list(buckets), list(buckets.values()))


@given(BUCKETS)
def test_every_mark_is_a_point_of_the_curve_at_the_percentile_of_the_histogram(buckets: dict[int, int]) -> None:
    merged = histogram(buckets)
    points = cdf.curve_points(merged, MARKS)
    assert all((merged.quantile(share / 100), share) in points for share in MARKS)


@given(BUCKETS)
def test_the_curve_only_rises_from_0_to_100_percent_in_few_points(buckets: dict[int, int]) -> None:
    points = cdf.curve_points(histogram(buckets), MARKS)
    assert len(points) <= cdf.MAX_POINTS
    assert points[0][1] == 0
    assert points[-1][1] == 100
    assert all(left[0] <= right[0] and left[1] <= right[1] for left, right in itertools.pairwise(points))


@given(BUCKETS)
def test_on_an_axis_of_nines_the_curve_ends_at_its_last_share(buckets: dict[int, int]) -> None:
    merged = histogram(buckets)
    shares = cdf.Shares(nines=True, last=99.5)
    points = cdf.curve_points(merged, MARKS, shares)
    assert len(points) <= cdf.MAX_POINTS
    assert points[-1] == (merged.quantile(0.995), 99.5)
    assert all(left[0] <= right[0] and left[1] <= right[1] for left, right in itertools.pairwise(points))


def test_the_tail_keeps_its_shape_on_an_axis_of_nines() -> None:
    merged = histogram(
        {1000 + number: 1000 for number in range(5000)} | {10**6 * number: 1 for number in range(1, 400)}
    )
    shares = cdf.Shares(nines=True, last=99.999)
    points = cdf.curve_points(merged, (), shares, 60)
    assert sum(share > 99 for _, share in points) > 20
    assert sum(share > 99 for _, share in cdf.curve_points(merged, (), most=60)) < 35


def test_thinning_does_not_move_the_marks() -> None:
    merged = histogram({1000 + 37 * number: 1 + number % 7 for number in range(5000)})
    points = cdf.curve_points(merged, MARKS, most=60)
    assert len(points) <= 60
    assert [point for point in points if point[1] in MARKS] == [(merged.quantile(one / 100), one) for one in MARKS]


def test_a_bucket_with_many_requests_is_drawn_as_a_step() -> None:
    points = cdf.curve_points(histogram({1000: 500, 2000: 501}), ())
    assert [x for x, _ in points] == [1000, 1000, 2000, 2000]
    assert [y for _, y in points] == pytest.approx([0, 49.9, 50, 100])


def test_a_single_request_makes_a_step_from_0_to_100_percent() -> None:
    assert cdf.curve_points(histogram({4096: 1}), (50,)) == [(4096, 0), (4096, 50), (4096, 100)]


def test_thinned_points_spread_along_the_drawn_line() -> None:
    flat_tail = [(float(10**6 + number), 100 * number / 9999) for number in range(10000)] + [(1e9, 100.0)]
    kept = cdf.thinned(flat_tail, 50, cdf.Shares())
    assert kept[0] == flat_tail[0]
    assert kept[-1] == flat_tail[-1]
    assert len(kept) <= 50
    assert max(after[1] - before[1] for before, after in itertools.pairwise(kept)) < 8
