"""SNIA's steady state criterion."""

from __future__ import annotations

import numpy as np
import pytest

from ioassay.stats.result import Undefined
from ioassay.stats.sample import SteadyState, steady_state


def judged(values: list[float]) -> SteadyState:
    found = steady_state(np.array(values))
    assert isinstance(found, SteadyState)
    return found


def test_five_rounds_within_both_limits_are_steady() -> None:
    found = judged([100, 102, 99, 101, 100])
    assert found.attained and found.since == 0
    assert found.final.range == pytest.approx(3 / 100.4)


def test_a_scatter_above_a_fifth_of_the_average_is_not_steady() -> None:
    assert judged([100, 112, 90, 111, 100]).attained is False
    # Exactly a fifth still is.
    assert judged([90, 110, 100, 110, 90]).attained


def test_a_slope_above_a_tenth_of_the_average_is_not_steady() -> None:
    """The values stay within a fifth; the line through them moves by 12 %."""
    found = judged([94, 97, 100, 103, 106])
    assert found.final.range == pytest.approx(0.12)
    assert found.final.slope == pytest.approx(0.12)
    assert not found.attained


def test_a_fresh_drive_settles_and_the_round_is_named() -> None:
    found = judged([400, 300, 220, 160, 120, 101, 100, 99, 100, 101, 100])
    assert found.attained
    assert found.since is not None and 4 <= found.since <= 5
    assert found.rounds == 11


def test_a_late_cliff_is_seen() -> None:
    found = judged([100] * 8 + [40])
    assert not found.attained and found.since is None


def test_fewer_than_five_rounds_are_not_judged() -> None:
    found = steady_state(np.array([1.0, 2.0, 3.0, 4.0]))
    assert isinstance(found, Undefined) and "5" in found.reason


def test_zero_throughput_is_steady_and_zero_average_with_scatter_is_not() -> None:
    assert judged([0.0] * 5).attained
    assert not judged([-1.0, 1.0, 0.0, -1.0, 1.0]).attained
