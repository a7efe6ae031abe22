"""The ratio of watched to unwatched runs, and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from ioassay.verify.observer_effect import Effect, Twins, effect

from .conftest import table

TRACED = [0.0, 8.0, 5.0, 7.0, 6.0, 9.0, 4.0]
UNTRACED = [10.0, 12.0, 11.0, 10.5]


def variance_of_median(values: Sequence[float]) -> float:
    """Price and Bonett (2002), equation 2: from the ranks a = (n + 1) / 2 - sqrt(n) and n - a + 1."""
    ordered = np.sort(np.log(values))
    a = max(1, round((ordered.size + 1) / 2 - math.sqrt(ordered.size)))
    tail = stats.binom.cdf(a - 1, ordered.size, 0.5)
    return float((ordered[-a] - ordered[a - 1]) / (2 * stats.norm.isf(tail))) ** 2


def test_the_ratio_of_the_medians_has_the_interval_of_price_and_bonett() -> None:
    probed = effect(Twins("x", TRACED, UNTRACED))
    positive = TRACED[1:]
    ratio = math.sqrt(6.0 * 7.0) / math.sqrt(10.5 * 11.0)
    half = stats.t.ppf(0.975, 8) * math.sqrt(variance_of_median(positive) + variance_of_median(UNTRACED))
    assert probed is not None and probed.low is not None and probed.high is not None
    assert (probed.ratio, probed.runs) == (pytest.approx(ratio), 4)
    assert (probed.low, probed.high) == pytest.approx((ratio * math.exp(-half), ratio * math.exp(half)))
    many = np.exp(np.linspace(0, 1, 25))
    wide = effect(Twins("x", list(many), [1.0, 1.0, 1.0]))
    assert wide is not None and wide.high is not None
    assert math.log(wide.high / wide.ratio) == pytest.approx(
        stats.t.ppf(0.975, 26) * math.sqrt(variance_of_median(list(many)))
    )


def test_three_runs_of_each_have_an_interval() -> None:
    two, three = effect(Twins("x", [1.0, 2.0], [1.0, 2.0, 3.0])), effect(Twins("x", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]))
    assert two is not None and (two.low, two.high, two.runs) == (None, None, 2)
    assert three is not None and three.low is not None and three.runs == 3
    assert effect(Twins("x", [0.0], [1.0])) is None


@table("observer_effect", "an_effect_beyond_chance_and_three_percent_perturbs")
def test_an_effect_beyond_chance_and_three_percent_perturbs(
    ratio: float, low: float | None, high: float | None, perturbed: bool
) -> None:
    assert Effect("x", ratio, low, high, 5).perturbed() == perturbed
