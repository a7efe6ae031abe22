"""Two modes of a response: found where they are, not where a condition only scatters, and never compared too early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis.one_factor import Outcome, effects
from ioassay.analysis.threats import Code, analyse
from ioassay.narrative.pipeline import analyse_all
from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.modes import modes
from ioassay.stats.result import Floats, Undefined

FLAT, RISING = np.ones(8), np.arange(1.0, 9.0)


def halved(
    truth: Floats, n: int, random: np.random.Generator, share: float = 0.3, scatter: float = 0.02
) -> list[Floats]:
    slow = random.random((truth.size, n)) < share
    values = truth[:, None] * (1 - 0.5 * slow) * (1 + scatter * random.standard_normal(slow.shape))
    return list(values)


@pytest.mark.parametrize("truth", [FLAT, RISING])
@pytest.mark.parametrize("n", [3, 5])
def test_halved_repetitions_are_two_modes(truth: Floats, n: int) -> None:
    random, found = np.random.default_rng(1), 0
    for _ in range(50):
        known = modes(halved(truth, n, random))
        found += known is not None and abs(known.ratio - 2) < 0.1
    assert found >= 49


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize(
    "error",
    [
        lambda random, n: 0.05 * random.standard_normal((8, n)),
        lambda random, n: np.expm1(0.5 * random.standard_normal((8, n))),
        lambda random, n: 0.05 * np.clip(random.standard_t(2.5, (8, n)), -8, 8),
        lambda random, n: np.geomspace(0.01, 0.1, 8)[:, None] * random.standard_normal((8, n)),
    ],
    ids=["normal", "lognormal", "heavy tails", "unequal scatter"],
)
def test_scatter_is_seldom_taken_for_two_modes(error: Any, n: int) -> None:
    random = np.random.default_rng(2)
    assert sum(modes(list(RISING[:, None] * (1 + error(random, n)))) is not None for _ in range(300)) <= 6


def test_levels_that_differ_by_a_factor_of_two_are_no_modes() -> None:
    random = np.random.default_rng(3)
    groups = [mean * (1 + 0.02 * random.standard_normal(3)) for mean in (1, 2, 1, 2, 1, 2)]
    assert modes(groups) is None and isinstance(fit(groups), ConditionMeans)


def test_few_repetitions_in_two_modes_are_not_compared_and_many_are_in_the_usual_mode() -> None:
    random = np.random.default_rng(4)
    refused = fit(halved(RISING, 3, random))
    assert isinstance(refused, Undefined) and "two modes" in refused.reason
    model = fit(halved(RISING, 20, random))
    assert isinstance(model, ConditionMeans)
    assert model.means == pytest.approx(RISING, rel=0.02)


def test_repetitions_that_stay_in_a_mode_need_more_of_them() -> None:
    apart = [np.array([1.0, 0.5, 1.01, 0.99, 0.505, 1.0])] * 6
    together = [np.array([1.0, 1.01, 0.99, 1.0, 0.5, 0.505]), np.array([0.5, 0.505, 1.01, 0.99, 1.0, 1.0])] * 3
    first, second = modes(apart), modes(together)
    assert first is not None and second is not None
    assert second.needed > first.needed and first.mistaken([6] * 6) > first.mistaken([12] * 6)


def test_shares_of_the_rarer_mode_that_differ_are_seen() -> None:
    random = np.random.default_rng(5)
    alike = modes(halved(FLAT, 20, random))
    apart = modes(halved(FLAT[:4], 20, random, 0.05) + halved(FLAT[:4], 20, random, 0.45))
    assert alike is not None and apart is not None
    assert alike.p_of_shares > 0.05 > apart.p_of_shares


@pytest.mark.parametrize(
    ("n", "outcome", "said"), [(3, Outcome.NOT_TESTED, "not_compared"), (20, Outcome.EQUIVALENT, "compared")]
)
def test_findings_say_what_two_modes_allow(lab: Any, n: int, outcome: Outcome, said: str) -> None:
    random = np.random.default_rng(6)
    study = lab.study("gc", factors={"iodepth": [1, 2, 4, 8, 16, 32]})
    slow = iter(random.random(1000) < 0.3)
    records = lab.records(
        lab.run(study, lambda *_: {"read.bw": (5e7 if next(slow) else 1e8) * (1 + 0.01 * random.standard_normal())}, n)
    )
    (factor,) = effects(records, study, "read.bw")
    assert [one.outcome for one in factor.effects] == [outcome]
    findings = analyse_all(records)
    codes = [statement.code for one in findings for statement in one.statements]
    assert f"threats.two-modes_{said}" in codes


def test_trials_that_switch_between_two_speeds_are_seen_in_their_logs(lab: Any) -> None:
    random = np.random.default_rng(7)

    def measure(point: Any, repetition: int) -> dict[str, Any]:
        series = np.where(np.arange(80) % 40 < 10, 5e7, 1e8) * (1 + 0.01 * random.standard_normal(80))
        return {"read.bw": float(series.mean()), "_series": {"read.bw": series}}

    study = lab.study("gc", factors={"iodepth": [1, 2, 4]})
    (threat,) = [one for one in analyse(lab.records(lab.run(study, measure, 3)), study) if one.code == Code.TWO_MODES]
    assert (threat.severity, threat.evidence["modes"]) == ("info", {})
    assert threat.evidence["inside"]["read.bw"] == pytest.approx({"ratio": 2, "share": 0.25}, rel=0.1)
