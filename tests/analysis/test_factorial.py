"""Several factors at once: published results, and for unbalanced data those of statsmodels."""

from __future__ import annotations

import numpy as np
import pytest

from ioassay.stats import linear_models
from ioassay.stats.linear_models import BLOCK, Effect, Factorial, factorial
from ioassay.stats.result import Undefined


def effect(found: Factorial | Undefined, term: str) -> Effect:
    assert isinstance(found, Factorial)
    line = found.effect(term)
    assert line is not None
    return line


def tooth(data: dict[tuple[str, float], list[float]]) -> tuple[np.ndarray, dict[str, list[object]]]:
    rows = [(supplement, dose, value) for (supplement, dose), values in data.items() for value in values]
    columns: dict[str, list[object]] = {"supp": [row[0] for row in rows], "dose": [row[1] for row in rows]}
    return np.array([row[2] for row in rows]), columns


def test_two_way_analysis_of_tooth_growth(tooth_growth: dict[tuple[str, float], list[float]]) -> None:
    """R: anova(lm(len ~ supp * factor(dose), ToothGrowth)); balanced, so all types agree."""
    found = factorial(*tooth(tooth_growth))
    table = {
        "supp": (1, 205.35, 15.572, 0.0002312),
        "dose": (2, 2426.43, 92.000, 4.046e-18),
        "supp × dose": (2, 108.32, 4.107, 0.0218603),
    }
    for term, (df, ss, f, p) in table.items():
        line = effect(found, term)
        assert line.df == df
        assert line.ss == pytest.approx(ss, abs=0.006)
        assert line.f == pytest.approx(f, abs=6e-4)
        assert line.p == pytest.approx(p, rel=2e-3)
    assert isinstance(found, Factorial)
    assert (found.df_residual, found.ss_residual) == (54, pytest.approx(712.11, abs=0.006))


@pytest.mark.parametrize("offset", [0.0, 1e13])
def test_randomised_complete_blocks_of_the_penicillin_experiment(offset: float) -> None:
    """Box, Hunter and Hunter, "Statistics for Experimenters", section 4.2: treatments F = 1.24, blends F = 3.50."""
    yields = [[89, 88, 97, 94], [84, 77, 92, 79], [81, 87, 87, 85], [87, 92, 89, 84], [79, 81, 80, 88]]
    values = offset + np.array(yields, dtype=np.float64).ravel()
    blends, treatments = np.repeat(np.arange(5), 4).tolist(), list("ABCD") * 5
    found = factorial(values, {"treatment": treatments}, block=blends, interactions=False)
    treatment, blend = effect(found, "treatment"), effect(found, BLOCK)
    assert (treatment.df, treatment.ss, treatment.f) == (3, pytest.approx(70), pytest.approx(1.24, abs=0.005))
    assert (blend.df, blend.ss, blend.f) == (4, pytest.approx(264), pytest.approx(3.50, abs=0.006))
    assert isinstance(found, Factorial) and found.ss_residual == pytest.approx(226)


# Sum of squares and F of each term by anova_lm of statsmodels 0.15.0, from ols("y ~ C(a, Sum) * C(b, Sum)").
STATSMODELS = {
    "a": (69.47653301978505, 36.83258318626063),
    "b": (135.50231234097484, 143.67153841163466),
    "a × b": (7.697846598650199, 4.080968967163556),
}


def test_unbalanced_sums_of_squares_are_those_of_statsmodels() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 3, 60), rng.integers(0, 2, 60)
    y = 5.0 + a + 2 * b + a * b + rng.normal(0, 1, 60)
    found = factorial(y, {"a": a.tolist(), "b": b.tolist()})
    for term, wanted in STATSMODELS.items():
        line = effect(found, term)
        assert (line.ss, line.f) == pytest.approx(wanted, rel=1e-9)


def test_a_missing_combination_leaves_the_main_effects() -> None:
    rng = np.random.default_rng(6)
    rows = [(a, b) for a in "xy" for b in "12" for _ in range(4) if (a, b) != ("y", "2")]
    columns: dict[str, list[object]] = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    values = rng.normal(10, 1, len(rows))
    second = factorial(values, columns)
    assert isinstance(second, Factorial)
    assert second.effect("a") is not None and second.effect("a × b") is None


def test_without_repetitions_there_is_no_interaction() -> None:
    columns: dict[str, list[object]] = {"a": [1, 1, 2, 2, 3, 3], "b": [1, 2, 1, 2, 1, 2]}
    values = np.array([1.0, 2.1, 2.9, 4.2, 5.1, 5.8])
    assert isinstance(factorial(values, columns), Undefined)
    found = factorial(values, columns, interactions=False)
    assert effect(found, "a").p < 0.05


def test_blocks_take_out_what_drifts() -> None:
    rng = np.random.default_rng(8)
    condition, block = np.tile(np.arange(3), 8), np.repeat(np.arange(8), 3)
    values = 100 + condition + 20.0 * block + rng.normal(0, 0.5, 24)
    with_blocks = factorial(values, {"c": condition.tolist()}, block=block.tolist(), interactions=False)
    without = factorial(values, {"c": condition.tolist()}, interactions=False)
    assert effect(with_blocks, "c").p < 0.01 < 0.5 < effect(without, "c").p


def test_identical_repetitions_are_named() -> None:
    found = factorial(np.array([1.0, 1.0, 2.0, 2.0]), {"a": [1, 1, 2, 2]})
    assert isinstance(found, Undefined)
    assert isinstance(factorial(np.array([1.0, 2.0]), {"a": [1, 1]}), Undefined)


@pytest.mark.parametrize("holes", [0, 3])
def test_large_designs_give_what_small_ones_do(monkeypatch: pytest.MonkeyPatch, holes: int) -> None:
    random = np.random.default_rng(holes)
    levels = {name: random.integers(0, count, 900) for name, count in (("a", 8), ("b", 6), ("c", 4))}
    kept = ~((levels["a"] == 7) & (levels["b"] >= 6 - holes))
    factors = {name: [str(level) for level in column[kept]] for name, column in levels.items()}
    y = 1e4 + levels["a"][kept] ** 2 * 30.0 + levels["b"][kept] * 5 + random.normal(size=int(kept.sum()))
    usual = factorial(y, factors)
    monkeypatch.setattr(linear_models, "_LARGE", 0)
    other = factorial(y, factors)
    assert isinstance(usual, Factorial) and isinstance(other, Factorial)
    assert other.df_residual == usual.df_residual
    assert [effect.df for effect in other.effects] == [effect.df for effect in usual.effects]
    for effect, wanted in zip(other.effects, usual.effects, strict=True):
        assert effect.ss == pytest.approx(wanted.ss, rel=1e-8, abs=1e-8)
