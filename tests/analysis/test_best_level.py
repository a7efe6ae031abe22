"""Best level, knee and laws of scaling against published values, known truths and how often they are right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from ioassay.stats.best_level import BestLevel, NotWorse, bootstrap_best, exactly_best, not_worse
from ioassay.stats.ratio_of_means import TwoSample, welch_t
from ioassay.stats.result import Undefined
from ioassay.stats.saturation import Knee, knee
from ioassay.stats.scalability import Law, amdahl, preferred, usl

SDM91_LOAD = np.array([1, 18, 36, 72, 108, 144, 216.0])
SDM91_THROUGHPUT = np.array([64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2])
"""SPEC SDM91, a SPARCcenter 2000 (1995), as analysed in Gunther, "Guerrilla Capacity Planning" (2007), chapter 5."""
WORKERS = np.array([1, 2, 3, 4, 5, 6, 8, 12, 16.0])
SWEEPS = 200


def repeated(values: np.ndarray, repetitions: int) -> np.ndarray:
    return np.repeat(values, repetitions)


# Laws


def test_the_universal_law_is_that_of_the_published_fit() -> None:
    """Estimates and standard errors as the R package usl 3.0 prints them for the same data."""
    found = usl(SDM91_LOAD, SDM91_THROUGHPUT, 0.95)
    assert isinstance(found, Law) and found.beta_interval is not None and found.df == 4
    quantile = 2.7764451  # of Student's t, 97.5 %, 4 degrees of freedom
    for estimate, bounds, value, error in (
        (found.alpha, found.alpha_interval, 0.0277285, 0.0091217),
        (found.beta, found.beta_interval, 0.0001044, 0.0000199),
        (found.gamma, found.gamma_interval, 89.9952330, 14.2134894),
    ):
        assert estimate == pytest.approx(value, rel=5e-4)
        assert (bounds.high - bounds.low) / 2 / quantile == pytest.approx(error, rel=3e-3)
    assert found.peak == pytest.approx(96.5, abs=0.1)
    assert found.peak_interval is not None and found.peak_interval.low < 96.5 < found.peak_interval.high
    assert found.lack_p is None, "one value a level: nothing says how repetitions scatter"


def test_parameters_and_their_errors_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    x = repeated(WORKERS, 3)
    y = 100 * x / (1 + 0.05 * (x - 1) + 0.01 * x * (x - 1)) + rng.normal(0, 5, x.size)

    def law(n: np.ndarray, g: float, a: float, b: float) -> np.ndarray:
        return g * n / (1 + a * (n - 1) + b * n * (n - 1))

    for free, fit in ((3, usl), (2, amdahl)):
        shape = law if free == 3 else (lambda n, g, a: law(n, g, a, 0.0))
        wanted, covariance = optimize.curve_fit(shape, x, y, p0=[90, 0.1, 0.02][:free])
        found = fit(x, y, 0.95)
        assert isinstance(found, Law)
        assert [found.gamma, found.alpha, found.beta][:free] == pytest.approx(list(wanted), rel=1e-4)
        ratio = (found.alpha_interval.high - found.alpha) / np.sqrt(covariance[1, 1])
        assert ratio == pytest.approx((found.gamma_interval.high - found.gamma) / np.sqrt(covariance[0, 0]), rel=1e-3)


def test_exact_data_give_their_parameters() -> None:
    y = 7e8 * WORKERS / (1 + 0.03 * (WORKERS - 1))
    found = amdahl(repeated(WORKERS, 2), repeated(y, 2), 0.95)
    assert isinstance(found, Law)
    assert (found.gamma, found.alpha, found.r2) == pytest.approx((7e8, 0.03, 1.0))
    assert found.limit == pytest.approx(7e8 / 0.03)
    assert found.at(4) == pytest.approx(y[3]) and found.worst == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 2, 4], [1, 2, 3.5], "3 levels; a law needs at least 4"),
        ([1, 2, 4, 8], [1, 2, 3.5, 6], "4 values for 3 parameters"),
        ([0, 1, 2, 4, 8], [1, 2, 3, 4, 5], "must be above 0"),
        ([1, 2, 3, 4, 5, 6], [5, 9, 2, 8, 1, 9], "unexplained"),
        ([1, 2, 3, 4, 5, 6], [3, 3, 3, 3, 3, 3.0], ""),
    ],
    ids=["three levels", "too few values", "nothing", "up and down", "flat"],
)
def test_a_fit_that_means_nothing_is_refused_with_the_reason(x: list[float], y: list[float], reason: str) -> None:
    fit = amdahl if reason == "unexplained" else usl
    found = fit(np.array(x, dtype=float), np.array(y, dtype=float), 0.95)
    assert isinstance(found, Undefined) or not reason
    if isinstance(found, Undefined):
        assert reason in found.reason


def test_without_coherency_it_is_amdahls_law_that_is_told() -> None:
    rng = np.random.default_rng(2)
    x = repeated(WORKERS, 4)
    y = 100 * x / (1 + 0.1 * (x - 1)) + rng.normal(0, 3, x.size)
    found = preferred(usl(x, y, 0.95), amdahl(x, y, 0.95))
    assert found is not None and found.kind == "amdahl" and found.peak is None
    assert preferred(Undefined("a"), Undefined("b")) is None


@pytest.mark.parametrize("repetitions", [1, 3, 5])
@pytest.mark.parametrize("proportional", [False, True])
def test_intervals_of_the_law_hold_as_often_as_they_say(repetitions: int, proportional: bool) -> None:
    rng = np.random.default_rng(repetitions)
    x = repeated(WORKERS, repetitions)
    truth = 100 * x / (1 + 0.05 * (x - 1) + 0.01 * x * (x - 1))
    held = np.zeros(4)
    for _ in range(SWEEPS):
        y = truth * (1 + rng.normal(0, 0.03, x.size)) if proportional else truth + rng.normal(0, 8, x.size)
        found = usl(x, y, 0.95)
        assert isinstance(found, Law) and found.beta_interval is not None and found.peak_interval is not None
        bounds = (found.gamma_interval, found.alpha_interval, found.beta_interval, found.peak_interval)
        held += [
            one.low <= value <= one.high for one, value in zip(bounds, (100, 0.05, 0.01, np.sqrt(95)), strict=True)
        ]
    # 2.5 standard errors of the share below the nominal one; unequal scatter costs some more.
    assert held.min() / SWEEPS >= (0.85 if proportional else 0.91), held / SWEEPS


# Best level


def test_levels_that_differ_clearly_leave_the_best_alone() -> None:
    rng = np.random.default_rng(3)
    groups = [rng.normal(mean, 1, 6) for mean in (10, 20, 30)]
    found, likely = not_worse(groups, 0.95), bootstrap_best(groups, 0.95, 1)
    assert isinstance(found, NotWorse) and found.members == (2,) and found.p[2] == 1
    assert isinstance(likely, BestLevel) and likely.probability == (0, 0, 1) and (likely.low, likely.high) == (2, 2)
    turned = not_worse(groups, 0.95, lower=True)
    assert isinstance(turned, NotWorse) and turned.members == (0,)


def test_of_two_levels_it_is_welchs_test() -> None:
    rng = np.random.default_rng(4)
    groups = [rng.normal(10, 1, 5), rng.normal(11, 3, 8)]
    found, wanted = not_worse(groups, 0.95), welch_t(*groups)
    assert isinstance(found, NotWorse) and isinstance(wanted, TwoSample)
    assert min(found.p) == pytest.approx(wanted.p)


def test_equal_levels_share_the_first_place() -> None:
    same = np.array([1.0, 2.0, 3.0])
    likely = bootstrap_best([same, same, np.zeros(3)], 0.95, 1)
    assert isinstance(likely, BestLevel)
    assert likely.probability[0] == pytest.approx(0.5, abs=0.05) and likely.probability[2] == 0
    constant = not_worse([np.full(3, 2.0), np.full(3, 2.0), np.full(3, 1.0)], 0.95)
    assert isinstance(constant, NotWorse) and constant.members == (0, 1)
    assert exactly_best([np.array([5.0]), np.array([5.0]), np.array([4.0])]).members == (0, 1)


def test_the_bootstrap_depends_on_its_seed_alone() -> None:
    rng = np.random.default_rng(5)
    groups = [rng.normal(10 + i / 5, 1, 5) for i in range(4)]
    turned = [group[::-1] for group in groups]
    assert bootstrap_best(groups, 0.95, 7) == bootstrap_best(turned, 0.95, 7)
    assert bootstrap_best(groups, 0.95, 7) != bootstrap_best(groups, 0.95, 8)


def test_one_repetition_has_no_interval_and_excludes_nobody() -> None:
    alone = [np.array([1.0]), np.array([2.0])]
    assert isinstance(bootstrap_best(alone, 0.95, 1), Undefined) and isinstance(not_worse(alone, 0.95), Undefined)
    mixed = not_worse([np.array([1.0]), np.array([8.0, 8.1, 8.2]), np.array([20.0, 20.1, 20.2])], 0.95)
    assert isinstance(mixed, NotWorse) and mixed.members == (0, 2) and mixed.unjudged == (0,)


@pytest.mark.parametrize(("repetitions", "spread"), [(3, 0.0), (5, 0.0), (5, 2.0)])
def test_levels_as_good_as_the_best_are_left_out_as_rarely_as_promised(repetitions: int, spread: float) -> None:
    """Six equal levels above two worse ones: in at most 5 % of sweeps any of the six is missing."""
    rng = np.random.default_rng(repetitions)
    deviations = 1 + spread * np.arange(8) / 8
    missing = 0
    for _ in range(SWEEPS):
        means = [0, 4, *[8] * 6]
        found = not_worse([rng.normal(m, s, repetitions) for m, s in zip(means, deviations, strict=True)], 0.95)
        assert isinstance(found, NotWorse)
        missing += not set(range(2, 8)) <= set(found.members)
    assert missing / SWEEPS <= 0.09  # 2.5 standard errors above 5 %


@pytest.mark.parametrize("repetitions", [3, 5, 10])
def test_the_best_level_lies_in_its_interval(repetitions: int) -> None:
    rng = np.random.default_rng(repetitions)
    held = 0
    for _ in range(SWEEPS):
        found = bootstrap_best([rng.normal(m, 0.1, repetitions) for m in (1, 2, 3, 3.9, 4, 3.9, 3.8)], 0.95, 1)
        assert isinstance(found, BestLevel)
        held += found.low <= 4 <= found.high
    assert held / SWEEPS >= 0.95


# Knee


def test_a_knee_is_found_where_two_lines_meet() -> None:
    found = knee(repeated(WORKERS, 2), np.minimum(repeated(WORKERS, 2), 4.5) * 1e8, 0.95)
    assert isinstance(found, Knee) and found.scale == "linear"
    assert found.x == pytest.approx(4.5, abs=0.02) and found.before == pytest.approx(1e8, rel=0.01)
    assert abs(found.after) < 1e6 and found.p < 1e-9


def test_sizes_that_double_have_their_knee_on_the_logarithm() -> None:
    sizes = 2.0 ** np.arange(12, 22)
    found = knee(repeated(sizes, 2), np.minimum(np.log2(repeated(sizes, 2)), 16.0), 0.95)
    assert isinstance(found, Knee) and found.scale == "log2"
    assert found.x == pytest.approx(2**16, rel=0.02)


def test_what_falls_first_gains_where_lower_is_better() -> None:
    y = np.maximum(10 - repeated(WORKERS, 2), 5)
    assert isinstance(knee(repeated(WORKERS, 2), y, 0.95), Undefined)
    found = knee(repeated(WORKERS, 2), y, 0.95, lower=True)
    assert isinstance(found, Knee) and found.x == pytest.approx(5, abs=0.05)


@pytest.mark.parametrize("slope", [0.0, 1.0, -1.0])
def test_a_straight_line_has_no_knee(slope: float) -> None:
    rng = np.random.default_rng(6)
    x = repeated(WORKERS, 5)
    found = sum(isinstance(knee(x, slope * x + rng.normal(0, 0.3, x.size), 0.95), Knee) for _ in range(SWEEPS))
    assert found / SWEEPS <= 0.1
    assert isinstance(knee(np.array([1, 2, 4.0]), np.array([1, 2, 3.0]), 0.95), Undefined)


@pytest.mark.parametrize("noise", [0.003, 0.03])
@pytest.mark.parametrize("proportional", [False, True])
def test_the_knee_lies_in_its_interval(proportional: bool, noise: float) -> None:
    rng = np.random.default_rng(7)
    x = repeated(WORKERS, 4)
    held = 0
    for _ in range(SWEEPS):
        y = np.minimum(x, 4.5)
        errors = rng.normal(0, noise, x.size)
        found = knee(x, y * (1 + errors) if proportional else y + 3 * errors, 0.95)
        held += isinstance(found, Knee) and found.interval.low <= 4.5 <= found.interval.high
    assert held / SWEEPS >= 0.91
