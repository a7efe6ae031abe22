"""Change points: known steps are found, noise that follows itself is not taken for them, sizes are honest.

Rates are bounded, not measured, here: benches/history.py measures them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ioassay.stats.change_points import FEWEST, Changes, change_points
from ioassay.stats.result import Floats, Undefined

GOLDEN = Path(__file__).parent.parent / "golden"


def series(seed: int, n: int = 200, correlation: float = 0.0, steps: dict[int, float] | None = None) -> Floats:
    """Runs about 100 with 2 % scatter, `correlation` between neighbours, and ratios from some runs on."""
    noise = np.random.default_rng([13, seed]).standard_normal(n)
    for at in range(1, n):
        noise[at] = correlation * noise[at - 1] + math.sqrt(1 - correlation**2) * noise[at]
    values = 100 * np.exp(0.02 * noise)
    for at, ratio in (steps or {}).items():
        values[at:] *= ratio
    return values


def found(values: Floats | list[float], **options: float) -> Changes:
    changes = change_points(values, **options)
    assert isinstance(changes, Changes), changes
    return changes


def places(values: Floats | list[float]) -> list[int]:
    return [point.index for point in found(values).points]


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.5, 0.7])
def test_series_without_a_change_have_one_false_point_in_a_thousand_runs_at_most(correlation: float) -> None:
    false = sum(len(places(series(seed, correlation=correlation))) for seed in range(60))
    assert false <= 60 * 200 / 1000


def test_a_step_of_three_percent_is_found_near_its_place() -> None:
    near = [any(abs(at - 120) <= 10 for at in places(series(seed, steps={120: 0.97}))) for seed in range(40)]
    assert sum(near) >= 32


def test_a_step_ten_runs_ago_is_found() -> None:
    near = [any(abs(at - 190) <= 10 for at in places(series(seed, steps={190: 1.04}))) for seed in range(40)]
    assert sum(near) >= 32


def test_places_are_those_of_exact_segmentation_by_ruptures() -> None:
    cases = json.loads((GOLDEN / "ruptures/1.1.10/dynp_l2.json").read_text())["cases"]
    for case in cases:
        # Both maximise a likelihood, of normal scores here; noise may move a place by a run.
        assert places(case["values"]) == pytest.approx(case["cuts"], abs=1), case["cuts"]


def test_intervals_of_sizes_and_places_cover() -> None:
    for correlation, least in ((0.0, 0.85), (0.5, 0.8)):
        points = [
            (point, 60)
            for seed in range(60)
            for point in found(series(seed, 120, correlation, {60: 1.08})).points
            if abs(point.index - 60) <= 10
        ]
        assert np.mean([point.change.low <= 1.08 <= point.change.high for point, _ in points]) >= least
        assert np.mean([point.first <= at <= point.last for point, at in points]) >= 0.9


def test_the_least_step_is_found_in_four_of_five_series() -> None:
    least = found(series(1)).least
    seen = [bool(found(series(seed, steps={100: 1 + least})).points) for seed in range(60)]
    assert 0.65 <= np.mean(seen) <= 0.95


def test_steps_up_and_down_are_not_taken_for_correlated_noise() -> None:
    steps = {30: 1.1, 60: 0.9, 90: 1.1, 120: 0.9, 150: 1.1, 180: 0.9}
    changes = found(series(3, steps=steps))
    assert [point.index for point in changes.points] == pytest.approx(list(steps), abs=2)
    assert changes.correlation < 0.3


@pytest.mark.parametrize("n", [10, 11, 19, 20, 21, 39, 41, 500, 2000])
def test_any_length_has_an_answer(n: int) -> None:
    changes = found(series(n, n))
    assert changes.levels.size == n and changes.least > 0


def test_one_odd_run_is_no_change() -> None:
    values = series(4)
    values[77] *= 3
    assert places(values) == []


def test_what_is_exact_changes_exactly() -> None:
    (point,) = found([5.0] * 30 + [6.0] * 30).points
    assert (point.index, point.first, point.last) == (30, 30, 30)
    assert (point.change.low, point.size, point.change.high) == pytest.approx((1.2, 1.2, 1.2))


def test_rare_odd_values_that_fall_together_by_chance_are_no_change() -> None:
    for seed in range(40):
        odd = np.random.default_rng(seed).random(200) < 0.05
        assert places(np.where(odd, 2.0, 1.0)) == []


def test_a_wider_scatter_is_no_change() -> None:
    false = 0
    for seed in range(40):
        values = np.log(series(seed))
        values[180:] = values[180:].mean() + 4 * (values[180:] - values[180:].mean())
        false += len(places(np.exp(values)))
    assert false <= 12


def test_a_slope_is_a_drift() -> None:
    changes = found(series(5) * np.exp(np.linspace(0, 0.2, 200)))
    assert changes.points == () and changes.drift
    assert changes.drift.change.low < math.exp(0.2) < changes.drift.change.high
    assert changes.drift.size == pytest.approx(changes.levels[-1] / changes.levels[0])


def test_runs_without_a_value_count_in_places_only() -> None:
    values = series(6, steps={120: 1.1})
    values[:10] = values[50:60] = math.nan
    changes = found(values)
    assert [point.index for point in changes.points] == [120]
    assert changes.n == 180 and np.isnan(changes.levels).sum() == 20


def test_the_unit_does_not_matter_and_zero_makes_differences() -> None:
    values = series(7, steps={100: 1.1})
    (one,), (other,) = found(values).points, found(values * 1e-9).points
    assert (one.index, one.size, one.change.low) == pytest.approx((other.index, other.size, other.change.low))
    changes = found(values - 100)
    assert not changes.is_ratio
    (point,) = changes.points
    assert point.size == pytest.approx(point.after - point.before)
    assert point.size == pytest.approx(10, abs=2)


def test_a_stricter_risk_finds_no_more() -> None:
    values = series(8, steps={190: 1.03})
    strict = found(values, risk=1e-6)
    assert {point.index for point in strict.points} <= set(places(values))
    assert strict.least > found(values).least


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], f"0 runs; change points need at least {FEWEST}"),
        ([1.0], f"1 run; change points need at least {FEWEST}"),
        ([math.nan] * 9 + [1.0] * 9, f"9 runs; change points need at least {FEWEST}"),
        ([5.0] * 30, "all runs are equal"),
    ],
)
def test_too_little_says_so(values: list[float], reason: str) -> None:
    assert change_points(values) == Undefined(reason)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="values hold infinity; expected finite numbers"):
        change_points([1.0, math.inf] * 10)
    with pytest.raises(ValueError, match="risk is 0; expected a probability between 0 and 1"):
        change_points([1.0] * 20, risk=0)
