"""Drift tests: published results and properties."""

from __future__ import annotations

import numpy as np
import pytest

from ioassay.stats.result import Undefined
from ioassay.stats.sample import Kendall, mann_kendall


def kendall(*sequences: list[float]) -> Kendall:
    found = mann_kendall([np.array(sequence) for sequence in sequences])
    assert isinstance(found, Kendall)
    return found


def test_mann_kendall_with_a_tie_worked_by_hand() -> None:
    """John B. Little, College of the Holy Cross, "A Mann-Kendall example (by hand)": S = 54, Z = 2.9058."""
    found = kendall([12.9, 14.8, 13.2, 15.7, 13.8, 15.6, 12.9, 11.0, 17.3, 15.9, 19.0, 18.3, 20.1, 21.7])
    assert found.s == 54
    assert found.z == pytest.approx(2.9058, abs=5e-5)
    assert found.p / 2 == pytest.approx(0.0018, abs=5e-5)


def test_mann_kendall_counts_pairs_as_kendall_s_tau_does() -> None:
    """Hollander and Wolfe (1973), page 187; R: cor.test(x, y, method = "kendall"): T = 26, tau = 0.4444444."""
    x = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1]
    y = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8]
    found = kendall([value for _, value in sorted(zip(x, y, strict=True))])
    assert found.s == 2 * 26 - 36
    assert found.tau == pytest.approx(0.4444444, abs=5e-8)


def test_strata_add_their_statistics_and_variances() -> None:
    first, second = [1.0, 3.0, 2.0, 5.0], [9.0, 8.0, 7.0, 6.0, 5.0]
    one, two, both = kendall(first), kendall(second), kendall(first, second)
    assert (both.s, both.variance) == (one.s + two.s, pytest.approx(one.variance + two.variance))
    assert both.strata == 2


def test_mann_kendall_keeps_its_error_rate_over_conditions_of_different_size() -> None:
    rng = np.random.default_rng(41)
    false = 0
    for _ in range(1000):
        sequences = [scale * rng.lognormal(0, 0.05, 10) for scale in (1.0, 50.0, 4000.0)]
        false += kendall(*[list(sequence) for sequence in sequences]).p < 0.05
    assert false / 1000 == pytest.approx(0.05, abs=0.025)


def test_three_values_are_the_fewest() -> None:
    assert kendall([1.0, 2.0, 3.0]).s == 3 and kendall([1.0, 2.0, 3.0], [5.0, 4.0]).strata == 1


def test_constant_or_short_sequences_are_named() -> None:
    assert isinstance(mann_kendall([np.array([1.0, 1.0, 1.0])]), Undefined)
    assert isinstance(mann_kendall([np.array([1.0, 2.0])]), Undefined)
