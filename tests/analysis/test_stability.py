"""Stability: variation, the labelled naive analysis, drift, steady state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.measurements.log_samples import Samples
from ioassay.analysis.stability import PASS, TRIAL, DriftOutcome, Stability, analyse, drift, within_trial
from ioassay.stats.linear_models import Dependence, Effect
from ioassay.stats.result import Undefined
from ioassay.stats.sample import Kendall


def dependent(rng: np.random.Generator, mean: float, size: int = 200, phi: float = 0.8) -> np.ndarray:
    noise = rng.normal(0, 0.03 * mean * np.sqrt(1 - phi**2), size + 100)
    return mean + lfilter([1.0], [1.0, -phi], noise)[100:]


def answer(lab: Any, measure: Any, repetitions: int = 10) -> Stability:
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]})
    (found,) = analyse(lab.records(lab.run(study, measure, repetitions)), study)
    return found


def test_variation_is_that_of_repetitions_and_names_the_worst(lab: Any) -> None:
    rng = np.random.default_rng(1)
    spread = {"4KiB": 0.01, "64KiB": 0.15}
    variation = answer(lab, lambda p, _: {"read.bw": 1e8 * rng.lognormal(0, spread[p["bs"]])}).variation
    assert variation is not None and [*variation.unstable] == ["bs=64KiB"] == [variation.worst.label]
    assert 0.005 < variation.cvs[0] < 0.02


def test_a_steady_response_is_stable(lab: Any) -> None:
    rng = np.random.default_rng(2)
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]})
    rows = lab.run(study, lambda *_: {"read.bw": 1e8 * rng.lognormal(0, 0.01)})
    (found,) = analyse(lab.records(rows), study)
    assert found.variation is not None and found.variation.unstable == {}
    assert found.drift is not None and found.drift.outcome != DriftOutcome.DRIFT and not found.drift.notable
    assert found.steadiness is not None and found.steadiness.attained


def test_values_of_zero_have_a_variation_and_no_effect_of_passes(lab: Any) -> None:
    variation = answer(lab, lambda p, repetition: {"read.bw": float(repetition)}, 3).variation
    assert variation is not None and isinstance(variation.blocks, Undefined)
    assert variation.cvs == [1.0, 1.0]


def test_the_naive_analysis_is_corrected(lab: Any) -> None:
    """Repetitions that do not differ: the naive analysis says they do, the corrected one does not."""
    rng = np.random.default_rng(3)

    def measure(point: Any, _: int) -> dict[str, Any]:
        values = dependent(rng, 1e8)
        return {"read.bw": values.mean(), "_series": {"read.bw": values}}

    compared = answer(lab, measure).samples
    assert compared is not None
    assert (compared.naive_different, compared.corrected_different, compared.shortest) == (2, 0, 200)
    first = compared.conditions[0]
    assert first.naive.df_within == 1990
    assert isinstance(first.dependence, Dependence) and first.dependence.effective < 500


def test_real_differences_between_repetitions_are_found(lab: Any) -> None:
    rng = np.random.default_rng(4)

    def measure(point: Any, _: int) -> dict[str, Any]:
        values = dependent(rng, 1e8 * rng.lognormal(0, 0.1))
        return {"read.bw": values.mean(), "_series": {"read.bw": values}}

    compared = answer(lab, measure).samples
    assert compared is not None and compared.corrected_different == 2


def test_no_logs_no_naive_analysis(lab: Any) -> None:
    assert answer(lab, lambda p, r: {"read.bw": 1e8 + r}).samples is None


def test_a_drive_that_slows_down_over_the_run_drifts_through_shuffled_conditions(lab: Any) -> None:
    rng = np.random.default_rng(5)
    level, clock = {"4KiB": 1e7, "64KiB": 1e9}, iter(range(1000))

    def measure(point: Any, _: int) -> dict[str, float]:
        return {"read.bw": level[point["bs"]] * (1 - 0.01 * next(clock)) * rng.lognormal(0, 0.01)}

    run = answer(lab, measure).drift
    assert run is not None and run.outcome == DriftOutcome.DRIFT and run.notable
    assert run.change == pytest.approx(-0.19, abs=0.04)
    assert run.interval.high < 0
    assert (run.unit, run.units) == (PASS, 10) and run.rank_p is not None


def test_passes_that_differ_without_a_direction_are_no_drift(lab: Any) -> None:
    """What a whole pass shares counts once; with every trial counted, half of such runs would seem to drift."""
    study = lab.study(factors={"bs": [f"{2**power}KiB" for power in range(12)]})
    claimed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        shared = rng.lognormal(0, 0.1, 10)
        rows = lab.run(study, lambda _, r, s=shared, g=rng: {"read.bw": 1e8 * s[r] * g.lognormal(0, 0.05)}, seed=seed)
        found = drift(cells(lab.records(rows), study, "read.bw"), 0.95)
        assert found is not None and found.unit == PASS
        claimed += found.outcome == DriftOutcome.DRIFT
    assert claimed <= 12


def test_conditions_that_did_not_take_turns_are_judged_by_their_trials(lab: Any) -> None:
    rows = lab.run(lab.study(factors={"numjobs": [1, 2]}), lambda p, r: {"read.bw": 1e8 * (1 + 0.1 * r)}, 6)
    for row in rows.trials:
        row["order"] = (row["numjobs"] - 1) * 6 + row["repetition"]
    found = drift(cells(lab.records(rows), rows.study, "read.bw"), 0.95)
    assert found is not None and found.unit == TRIAL
    assert isinstance(found.kendall, Kendall) and found.kendall.strata == 2


def test_whole_passes_that_differ_are_noticed(lab: Any) -> None:
    rng = np.random.default_rng(6)

    def measure(_: Any, repetition: int) -> dict[str, float]:
        return {"read.bw": (1.2 if repetition % 2 else 1.0) * 1e8 * rng.lognormal(0, 0.005)}

    variation = answer(lab, measure).variation
    assert variation is not None and isinstance(variation.blocks, Effect) and variation.blocks.p < 0.05
    assert isinstance(variation.blocks, Effect) and variation.blocks.p < 1e-6


def test_repetitions_that_are_not_steady_are_named(lab: Any) -> None:
    steady = answer(lab, lambda p, r: {"read.bw": 1e8 if p["bs"] == "4KiB" else 1e8 * 0.8**r}).steadiness
    assert steady is not None
    assert (steady.attained, steady.unsteady) == (False, ["bs=64KiB"])


def test_a_trial_that_settles_is_steady_from_there_on() -> None:
    time_s = np.arange(0.1, 20.05, 0.1)
    found = within_trial(Samples(time_s, 100 + 300 * np.exp(-time_s)))
    assert found is not None
    assert found.state.attained and found.since_s is not None and 2 < found.since_s < 6
    falling = within_trial(Samples(time_s, 400 - 15 * time_s))
    assert falling is not None and falling.since_s is None


def test_identical_repetitions_are_stable(lab: Any) -> None:
    variation = answer(lab, lambda p, r: {"read.bw": 5.0}, 5).variation
    assert variation is not None
    assert (variation.cvs, variation.unstable) == ([0] * len(variation.cvs), {})


def test_one_repetition_has_no_stability(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]})
    assert analyse(lab.records(lab.run(study, lambda *_: {"read.bw": 5.0}, 1)), study) == []
