"""Two options in several places: what the pairs of options are worth, computed by scipy from the definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from ioassay.stats.paired_comparison import Duel, contest

Option = Sequence[np.ndarray]
"""The repetitions in each place."""


def option(seed: int, scatter: Sequence[float], sizes: Sequence[int], mean: float) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [mean * rng.lognormal(0, sigma, size) for sigma, size in zip(scatter, sizes, strict=True)]


def errors(places: Option) -> tuple[list[tuple[float, float]], bool]:
    """Squared relative error of the mean and degrees of freedom in each place, and whether the places share them."""
    relative = [place / place.mean() for place in places]
    repeated = [place for place in relative if place.size > 1]
    shared = len(repeated) < 2 or stats.bartlett(*repeated).pvalue >= 0.05
    df = sum(place.size - 1 for place in repeated)
    pooled = sum((place.size - 1) * place.var(ddof=1) for place in repeated) / df
    own = [(place.var(ddof=1) / place.size, place.size - 1) for place in relative] if not shared else []
    return own or [(pooled / place.size, df) for place in relative], shared


def welch(difference: float, parts: Sequence[tuple[float, float]], share: int) -> tuple[float, float, float]:
    """The p of a difference of logarithms, and the interval of the ratio, at the share of a risk of 5 %."""
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / df for part, df in parts)
    t = abs(difference) / np.sqrt(variance)
    half = stats.t.ppf(1 - 0.025 / share, df) * np.sqrt(variance)
    p = min(1.0, 2 * share * stats.t.sf(t, df))
    return p, float(np.exp(abs(difference) - half)), float(np.exp(abs(difference) + half))


def told(duel: Duel) -> tuple[float, float, float]:
    assert duel.interval is not None and duel.p is not None
    return duel.p, duel.interval.low, duel.interval.high


@pytest.mark.parametrize(
    ("scatter", "sizes", "shared"),
    [
        ((0.05, 0.05, 0.05), (4, 4, 4), True),
        ((0.05, 0.05, 0.05), (3, 5, 8), True),
        ((0.05, 0.05, 0.05), (5, 1, 2), True),
        ((0.01, 0.01, 0.6), (5, 5, 5), False),
        ((0.01, 0.6), (6, 4), False),
    ],
)
def test_two_options_differ_as_welch_s_test_of_their_logarithms_says(
    scatter: Sequence[float], sizes: Sequence[int], shared: bool
) -> None:
    first = option(1, scatter, sizes, 100.0)
    second = option(2, (0.03,) * len(sizes), [4] * len(sizes), 104.0)
    judged = contest(list(zip(first, second, strict=True)), 0.95)
    (one, alike), (two, both) = errors(first), errors(second)
    assert (alike, both) == (shared, True)
    gaps = [float(np.log(a.mean() / b.mean())) for a, b in zip(first, second, strict=True)]
    for gap, left, right, (duel,) in zip(gaps, one, two, judged.places, strict=True):
        assert (duel.high, duel.low) == ((0, 1) if gap >= 0 else (1, 0))
        assert duel.ratio == pytest.approx(np.exp(abs(gap)))
        assert told(duel) == pytest.approx(welch(gap, [left, right], len(sizes)), rel=1e-5, abs=1e-9)
    whole = []
    for each, together in ((one, alike), (two, both)):
        variance = sum(part for part, _ in each)
        df = each[0][1] if together else variance**2 / sum(part**2 / df for part, df in each)
        whole.append((variance / len(sizes) ** 2, df))
    assert told(judged.average[0]) == pytest.approx(welch(float(np.mean(gaps)), whole, 1), rel=1e-5, abs=1e-9)


def test_places_share_their_scatter_where_bartlett_s_test_finds_no_difference() -> None:
    decided = set()
    for seed in range(30):
        first, second = option(seed, (0.02, 0.05, 0.08), (4, 4, 4), 100.0), option(99, (0.03,) * 3, (4, 4, 4), 104.0)
        (one, shared), (two, _) = errors(first), errors(second)
        gap = float(np.log(first[0].mean() / second[0].mean()))
        (duel,) = contest(list(zip(first, second, strict=True)), 0.95).places[0]
        assert told(duel) == pytest.approx(welch(gap, [one[0], two[0]], 3), rel=1e-5, abs=1e-9), seed
        decided.add(shared)
    assert decided == {False, True}


def test_an_option_without_repetitions_has_a_ratio_alone() -> None:
    (duel,) = contest([[np.array([2.0]), np.array([3.0, 3.1])]], 0.95).average
    assert (duel.high, duel.low, duel.interval, duel.p) == (1, 0, None, None)
    assert duel.ratio == pytest.approx(3.05 / 2)


def test_an_option_counts_on_average_where_it_has_values_everywhere() -> None:
    values = [np.array([1.0, 1.1]), np.array([2.0, 2.1]), np.array([4.0, 4.1])]
    judged = contest([values, [values[0], values[1], np.empty(0)]], 0.95)
    assert [[(duel.high, duel.low) for duel in place] for place in judged.places] == [
        [(1, 0), (2, 0), (2, 1)],
        [(1, 0)],
    ]
    assert [(duel.high, duel.low) for duel in judged.average] == [(1, 0)]


def test_identical_repetitions_differ_exactly_or_not_at_all() -> None:
    same, other = np.array([2.0, 2.0]), np.array([3.0, 3.0])
    assert [duel.p for duel in contest([[same, same]], 0.95).average] == [1.0]
    assert [duel.p for duel in contest([[same, other]], 0.95).average] == [0.0]
