"""Dependent log samples: what the naive analysis of variance makes of them, in simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from ioassay.stats.linear_models import Dependence, OneWay, corrected, dependence, one_way
from ioassay.stats.result import Undefined


def autoregressive(rng: np.random.Generator, runs: int, size: int, phi: float) -> list[np.ndarray]:
    """Runs of a first-order autoregressive process with unit variance, mean 100; its time is (1 + phi) / (1 - phi)."""
    noise = rng.normal(0, np.sqrt(1 - phi**2), (runs, size + 200))
    return list(100 + lfilter([1.0], [1.0, -phi], noise, axis=1)[:, 200:])


def known(found: Dependence | Undefined) -> Dependence:
    assert isinstance(found, Dependence)
    return found


@pytest.mark.parametrize(("phi", "time"), [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)])
def test_effective_samples_of_a_known_process(phi: float, time: float) -> None:
    found = known(dependence(autoregressive(np.random.default_rng(9), 20, 2000, phi)))
    assert found.lag1 == pytest.approx(phi, abs=0.03)
    assert found.time == pytest.approx(time, rel=0.15)
    assert found.effective == pytest.approx(found.samples / found.time)


def test_the_naive_analysis_cries_wolf_and_the_others_do_not() -> None:
    """Repetitions that do not differ, samples that resemble their neighbours: the flaw, and its correction."""
    rng = np.random.default_rng(13)
    naive = fixed = 0
    for _ in range(200):
        runs = autoregressive(rng, 10, 400, 0.8)
        anova = one_way(runs)
        assert isinstance(anova, OneWay)
        naive += anova.p < 0.05
        fixed += corrected(anova, known(dependence(runs))).p < 0.05
    assert naive / 200 > 0.95
    assert fixed / 200 < 0.15


def test_over_repetitions_the_analysis_keeps_its_error_rate() -> None:
    """Two conditions without a difference, ten repetitions each, dependent samples inside: the repetition as unit."""
    rng = np.random.default_rng(19)
    naive = proper = 0
    for _ in range(400):
        runs = [np.stack(autoregressive(rng, 10, 60, 0.8)) for _ in range(2)]
        pooled, means = one_way([part.ravel() for part in runs]), one_way([part.mean(axis=1) for part in runs])
        assert isinstance(pooled, OneWay) and isinstance(means, OneWay)
        naive += pooled.p < 0.05
        proper += means.p < 0.05
    assert naive / 400 > 0.3
    assert proper / 400 == pytest.approx(0.05, abs=0.03)


def test_a_real_difference_survives_the_correction() -> None:
    rng = np.random.default_rng(29)
    runs = [run + shift for run, shift in zip(autoregressive(rng, 10, 400, 0.8), range(10), strict=True)]
    anova = one_way(runs)
    assert isinstance(anova, OneWay)
    assert corrected(anova, known(dependence(runs))).p < 1e-6


def test_alternating_samples_count_once_each() -> None:
    found = known(dependence([np.tile([1.0, -1.0], 50)]))
    assert found.lag1 < -0.9
    assert found.effective == found.samples == 100


def test_constant_and_short_runs_are_named() -> None:
    assert isinstance(dependence([np.ones(50)]), Undefined)
    assert isinstance(dependence([np.array([1.0, 2.0, 3.0])]), Undefined)
