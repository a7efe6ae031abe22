"""The scatter from run to run: known values, what conditions share, and how often equal runs differ."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ioassay.stats import run_scatter
from ioassay.stats.contrasts import Ratio
from ioassay.stats.run_scatter import Series, run_ratios, turn_ratios

SEED = 1


def series(means: Any, spread: float = 0.0, n: int = 1, spans: Any = None) -> Series:
    means = np.asarray(means, dtype=float)
    variances = np.full(means.size, spread**2 if n > 1 else np.nan)
    of_last = [*np.zeros(means.size - 1, dtype=int), 1] if spans is None else spans
    return Series(means, variances, np.full(means.size, n), np.asarray(of_last))


def known(found: list[Ratio | None]) -> list[Ratio]:
    assert all(found)
    return [one for one in found if one]


def test_independent_runs_have_the_interval_of_a_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_scatter, "STRONGEST", 0.0)
    logs = np.random.default_rng(SEED).normal(0, 0.02, 9)
    (found,) = known(run_ratios([series(np.exp(logs))]))
    deviation = logs[:-1].std(ddof=1)
    assert found.ratio == pytest.approx(math.exp(logs[-1] - logs[:-1].mean()))
    assert found.se == pytest.approx(deviation * math.sqrt(1 + 1 / 8)) and found.df == pytest.approx(7)


def test_independent_turns_have_students_test_of_their_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_scatter, "_OF_TURNS", 0.0)
    monkeypatch.setattr(run_scatter, "_MOST_POOLED", 0.0)
    random = np.random.default_rng(SEED)
    a, b = 100 + random.normal(0, 1, 8), 97 + random.normal(0, 1, 8)
    (found,) = known(turn_ratios([(a, b)]))
    assert found.p == pytest.approx(stats.ttest_1samp(b / b.mean() - a / a.mean() + math.log(found.ratio), 0).pvalue)


def test_sums_of_pairs_tell_the_variance_unless_turns_follow_each_other() -> None:
    random = np.random.default_rng(SEED)
    a, b = random.normal(100, 1, (2, 8))
    waves = 20 * np.sin(np.arange(8.0))
    (calm,), (moving,) = known(turn_ratios([(a, b)])), known(turn_ratios([(a + waves, b + waves)]))
    assert calm.df > 12 and moving.df < 8
    assert moving.se < 0.02


def test_repetitions_explain_their_part_and_a_run_of_few_is_less_certain() -> None:
    means = np.exp(np.random.default_rng(SEED).normal(0, 0.02, 12))
    many = series(means, spread=0.03, n=10)
    few = Series(many.means, many.variances, np.array([*many.sizes[:-1], 2]), many.spans)
    (first,), (second,) = known(run_ratios([many])), known(run_ratios([few]))
    assert second.se**2 - first.se**2 == pytest.approx(0.03**2 * (1 / 2 - 1 / 10))


def test_the_scatter_is_never_below_that_of_repetitions() -> None:
    (found,) = known(run_ratios([series(np.ones(8), spread=0.03, n=9)]))
    assert found.se == pytest.approx(0.01 * math.sqrt(1 + 1 / 7))


@pytest.mark.parametrize(("runs", "is_known"), [(5, False), (6, True)])
def test_five_runs_before_it_are_the_fewest(runs: int, is_known: bool) -> None:
    assert (run_ratios([series(np.linspace(1, 1.01, runs))])[0] is not None) == is_known


def test_a_change_is_no_scatter_and_the_mean_is_that_since_it() -> None:
    old, new = np.exp(np.random.default_rng(SEED).normal(0, 0.01, (2, 10)))
    spans = [*[0] * 10, *[1] * 9, 2]
    (found,) = known(run_ratios([series([*old, *(2 * new)], spans=spans)]))
    assert found.ratio == pytest.approx(1, abs=0.05) and found.se < 0.03


def test_conditions_that_move_together_know_no_more_than_one() -> None:
    random = np.random.default_rng(SEED)
    logs = random.normal(0, 0.02, (6, 20))
    apart = known(run_ratios([series(np.exp(own)) for own in logs]))
    together = known(run_ratios([series(np.exp(logs[0])) for _ in range(6)]))
    alone = known(run_ratios([series(np.exp(logs[0]))]))
    assert together[0].df == pytest.approx(alone[0].df)
    assert apart[0].df > 2 * alone[0].df


def test_missing_values_are_left_out() -> None:
    logs = np.random.default_rng(SEED).normal(0, 0.02, 10)
    gap = np.exp(np.insert(logs, 4, np.nan))
    (found,) = known(run_ratios([series(gap)]))
    assert found.ratio == pytest.approx(math.exp(logs[-1] - logs[:-1].mean()))
    assert run_ratios([series([*np.exp(logs), np.nan])]) == [None]
    a = np.array([1.0, np.nan, 1.01, 1.0, 1.02])
    assert known(turn_ratios([(a, np.ones(5)), (a[::-1], np.ones(5))]))[0].ratio == pytest.approx(1 / np.nanmean(a))
    assert turn_ratios([(a[:3], np.ones(3))]) == [None]


@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("is_common", [False, True])
def test_equal_runs_rarely_differ(correlation: float, is_common: bool) -> None:
    """Six conditions after ten runs; bars and more kinds are in benches/history.py."""
    random, false = np.random.default_rng(SEED), 0
    for _ in range(200):
        noise = random.standard_normal((11, 1 if is_common else 6)).repeat(6 if is_common else 1, axis=1)
        for run in range(1, 11):
            noise[run] = correlation * noise[run - 1] + math.sqrt(1 - correlation**2) * noise[run]
        found = known(run_ratios([series(np.exp(0.02 * own)) for own in noise.T]))
        false += any(one.p < 0.05 / 6 for one in found)
    assert false <= 18  # 10 are allowed; 18 or more of 200 have a chance of 1 % at 5 %
