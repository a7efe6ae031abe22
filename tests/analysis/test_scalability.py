"""Laws of scalability: fits and intervals against scipy's least squares, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from ioassay.stats.result import Interval, Undefined
from ioassay.stats.scalability import AMDAHL, USL, Law, preferred, scaling_law

WORKERS = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 3)


def law(x: np.ndarray, gamma: float, alpha: float, beta: float = 0.0) -> np.ndarray:
    return gamma * x / (1 + alpha * (x - 1) + beta * x * (x - 1))


def measured(alpha: float, beta: float, scatter: float = 0.02, workers: np.ndarray = WORKERS) -> np.ndarray:
    return law(workers, 1e8, alpha, beta) * np.random.default_rng(4).lognormal(0, scatter, workers.size)


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


@pytest.mark.parametrize("free", [2, 3])
def test_a_fit_is_the_least_squares_of_scipy(free: int) -> None:
    y = measured(0.05, 1e-3 if free == 3 else 0.0)
    fit = scaling_law(WORKERS, y, 0.9, USL if free == 3 else AMDAHL)
    assert isinstance(fit, Law)
    start = [1e8, 0.05, 1e-3][:free]
    values, covariance = optimize.curve_fit(law, WORKERS, y, start, x_scale=start, method="trf", xtol=1e-14, ftol=1e-14)
    half = stats.t.ppf(0.95, y.size - free) * np.sqrt(np.diag(covariance))
    assert (fit.gamma, fit.alpha, fit.beta)[:free] == pytest.approx(values, rel=1e-5)
    assert ends(fit.gamma_interval) == pytest.approx((values[0] - half[0], values[0] + half[0]), rel=1e-4)
    assert ends(fit.alpha_interval) == pytest.approx((values[1] - half[1], values[1] + half[1]), rel=1e-4)
    residual = y - law(WORKERS, *values)
    assert fit.r2 == pytest.approx(1 - np.sum(residual**2) / np.sum((y - y.mean()) ** 2))
    assert (fit.n, fit.df) == (18, 18 - free)
    levels = np.unique(WORKERS)
    means = np.array([y[level == WORKERS].mean() for level in levels])
    assert fit.worst == pytest.approx(np.max(np.abs(means / law(levels, *values) - 1)), rel=1e-4)
    pure = sum(float(np.sum((y[level == WORKERS] - mean) ** 2)) for level, mean in zip(levels, means, strict=True))
    f = (np.sum(residual**2) - pure) / (6 - free) / (pure / 12)
    assert fit.lack_p == pytest.approx(stats.f.sf(f, 6 - free, 12), rel=1e-4)
    assert fit.at(5) == pytest.approx(law(np.array([5.0]), *values)[0], rel=1e-6)
    if free == 2:
        assert (fit.beta_interval, fit.peak, fit.peak_interval) == (None, None, None)
        assert fit.limit == pytest.approx(values[0] / values[1], rel=1e-5)
        return
    assert ends(fit.beta_interval) == pytest.approx((values[2] - half[2], values[2] + half[2]), rel=1e-4)
    assert fit.limit is None and fit.peak == pytest.approx(np.sqrt((1 - values[1]) / values[2]), rel=1e-5)
    # The delta method on the logarithm of the peak, by differences.
    steps = 1e-6 * values
    slopes = [
        (np.log((1 - up[1]) / up[2]) - np.log((1 - down[1]) / down[2])) / 2 / (2 * step)
        for up, down, step in ((values + at, values - at, at.max()) for at in np.diag(steps))
    ]
    width = stats.t.ppf(0.95, 15) * np.sqrt(slopes @ covariance @ slopes)
    assert ends(fit.peak_interval) == pytest.approx((fit.peak * np.exp(-width), fit.peak * np.exp(width)), rel=1e-3)


def test_amdahl_s_limit_needs_a_contention_above_zero() -> None:
    fit = scaling_law(WORKERS, measured(0.0, 0.0), 0.95, AMDAHL)
    assert isinstance(fit, Law) and fit.alpha_interval.low <= 0 and fit.limit is None


def test_the_universal_law_is_preferred_where_its_coherency_is_sure() -> None:
    sure, straight = measured(0.05, 1e-3), measured(0.05, 0.0)
    both = scaling_law(WORKERS, sure, 0.95, USL), scaling_law(WORKERS, sure, 0.95, AMDAHL)
    assert preferred(*both) is both[0] and preferred(None, both[1]) is both[1]
    assert preferred(Undefined("no"), Undefined("no")) is None and preferred(both[0], None) is both[0]
    unsure = scaling_law(WORKERS, straight, 0.95, USL), scaling_law(WORKERS, straight, 0.95, AMDAHL)
    assert preferred(*unsure) is unsure[1] and preferred(unsure[0], None) is None


def test_a_coherency_that_may_be_zero_gives_no_peak() -> None:
    fit = scaling_law(WORKERS, measured(0.05, 1e-4, 0.03), 0.95, USL)
    assert isinstance(fit, Law) and fit.beta > 0
    assert fit.beta_interval is not None and fit.beta_interval.low <= 0
    assert (fit.peak, fit.peak_interval) == (None, None)


def test_what_the_law_cannot_say_is_refused() -> None:
    def refused(workers: np.ndarray, y: np.ndarray) -> str:
        fit = scaling_law(workers, y, 0.95, USL)
        return fit.reason if isinstance(fit, Undefined) else ""

    few = np.array([1.0, 2.0, 4.0, 8.0])
    assert refused(WORKERS, measured(0.05, 1e-3)) == ""
    assert "above 0" in refused(WORKERS - 1, measured(0.05, 1e-3))
    assert "above 0" in refused(WORKERS, np.where(WORKERS == 1, 0.0, 1e8))
    assert refused(few[:3].repeat(3), measured(0.05, 1e-3, workers=few[:3].repeat(3))).startswith("3 levels")
    assert refused(few, measured(0.05, 1e-2, workers=few)).startswith("4 values for 3 parameters")
    five = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    assert refused(five, measured(0.05, 1e-2, 0.001, five)) == ""
    assert "negative" in refused(WORKERS, law(WORKERS, 1e8, 0.05, -1e-4))
    assert "grows faster" in refused(WORKERS, 1e8 * WORKERS**3)
    noise = np.random.default_rng(1).lognormal(0, 1, WORKERS.size)
    assert "unexplained" in refused(WORKERS, 1e8 * noise) or "negative" in refused(WORKERS, 1e8 * noise)
