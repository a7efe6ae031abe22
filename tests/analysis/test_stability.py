"""Stability: variation, the labelled naive analysis, drift, steady state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.measurements.log_samples import Samples
from ioassay.analysis.stability import drift, stability
from ioassay.analysis.stability.steady_state_findings import WithinTrial, within_trial
from ioassay.narrative.finding import Finding


def dependent(rng: np.random.Generator, mean: float, size: int = 200, phi: float = 0.8) -> np.ndarray:
    noise = rng.normal(0, 0.03 * mean * np.sqrt(1 - phi**2), size + 100)
    return mean + lfilter([1.0], [1.0, -phi], noise)[100:]


def findings(lab: Any, measure: Any, repetitions: int = 10, **keys: Any) -> dict[str, Finding]:
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]}, **keys)
    records = lab.records(lab.run(study, measure, repetitions))
    return {finding.title.partition(": ")[2]: finding for finding in stability.analyse(records, study)}


def test_variation_is_that_of_repetitions_and_names_the_worst(lab: Any) -> None:
    rng = np.random.default_rng(1)
    spread = {"4KiB": 0.01, "64KiB": 0.15}
    found = findings(lab, lambda p, _: {"read.bw": 1e8 * rng.lognormal(0, spread[p["bs"]])})
    variation = found["variation between repetitions"]
    assert variation.severity == "warning"
    assert variation.statistics["unstable"] == ["bs=64KiB"]
    assert 0.005 < variation.statistics["points"][0]["cv"] < 0.02
    assert "at bs=64KiB" in variation.statement


def test_a_steady_response_is_called_stable(lab: Any) -> None:
    rng = np.random.default_rng(2)
    found = findings(lab, lambda p, _: {"read.bw": 1e8 * rng.lognormal(0, 0.01)})
    assert found["variation between repetitions"].severity == "info"
    assert found["drift over the run"].statistics["drifts"] is False
    assert found["steady state"].statistics["attained"] is True


def test_the_naive_analysis_is_labelled_and_set_right(lab: Any) -> None:
    """Repetitions that do not differ: the naive analysis says they do, the corrected one does not."""
    rng = np.random.default_rng(3)

    def measure(point: Any, _: int) -> dict[str, Any]:
        values = dependent(rng, 1e8)
        return {"read.bw": values.mean(), "_series": {"read.bw": values}}

    found = findings(lab, measure)["repetitions compared by their log samples (naive)"]
    assert found.statistics["naive_different"] == 2
    assert found.statistics["corrected_different"] == 0
    assert found.statistics["label"].startswith("naive")
    assert "naive" in found.statement and "corrected" in found.statement
    assert any("The repetition is the unit" in caveat for caveat in found.caveats)
    point = found.statistics["points"][0]
    assert point["naive"]["df_within"] == 1990
    assert point["dependence"]["effective"] < 500
    assert point["between_share"] < 0.05


def test_real_differences_between_repetitions_are_found_with_their_share(lab: Any) -> None:
    rng = np.random.default_rng(4)

    def measure(point: Any, _: int) -> dict[str, Any]:
        values = dependent(rng, 1e8 * rng.lognormal(0, 0.1))
        return {"read.bw": values.mean(), "_series": {"read.bw": values}}

    found = findings(lab, measure)["repetitions compared by their log samples (naive)"]
    assert found.statistics["corrected_different"] == 2
    assert min(point["between_share"] for point in found.statistics["points"]) > 0.5


def test_no_logs_no_naive_analysis(lab: Any) -> None:
    found = findings(lab, lambda p, r: {"read.bw": 1e8 + r})
    assert not any("naive" in title for title in found)


def test_a_drive_that_slows_down_over_the_run_is_seen_through_shuffled_conditions(lab: Any) -> None:
    rng = np.random.default_rng(5)
    level, clock = {"4KiB": 1e7, "64KiB": 1e9}, iter(range(1000))

    def measure(point: Any, _: int) -> dict[str, float]:
        return {"read.bw": level[point["bs"]] * (1 - 0.01 * next(clock)) * rng.lognormal(0, 0.01)}

    found = findings(lab, measure)["drift over the run"]
    assert found.statistics["drifts"] and found.severity == "warning"
    assert found.statistics["change"] == pytest.approx(-0.19, abs=0.04)
    assert found.statistics["interval"]["high"] < 0
    assert (found.statistics["unit"], found.statistics["units"]) == ("pass", 10)
    assert "falls over the run" in found.statement


def test_passes_that_differ_without_a_direction_are_no_drift(lab: Any) -> None:
    """What a whole pass shares counts once; with every trial counted, half of such runs would seem to drift."""
    study = lab.study(factors={"bs": [f"{2**power}KiB" for power in range(12)]})
    claimed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        shared = rng.lognormal(0, 0.1, 10)
        rows = lab.run(study, lambda _, r, s=shared, g=rng: {"read.bw": 1e8 * s[r] * g.lognormal(0, 0.05)}, seed=seed)
        found = drift.over_run(cells(lab.records(rows), study, "read.bw"), 0.95)
        assert found is not None and found.statistics["unit"] == "pass"
        claimed += found.statistics["drifts"]
    assert claimed <= 12


def test_conditions_that_did_not_take_turns_are_judged_by_their_trials(lab: Any) -> None:
    rows = lab.run(lab.study(factors={"numjobs": [1, 2]}), lambda p, r: {"read.bw": 1e8 * (1 + 0.1 * r)}, 6)
    for row in rows.trials:
        row["order"] = (row["numjobs"] - 1) * 6 + row["repetition"]
    found = drift.over_run(cells(lab.records(rows), rows.study, "read.bw"), 0.95)
    assert found is not None and found.statistics["unit"] == "trial"
    assert found.statistics["kendall"]["strata"] == 2


def test_whole_passes_that_differ_are_named(lab: Any) -> None:
    rng = np.random.default_rng(6)
    found = findings(lab, lambda p, r: {"read.bw": (1.2 if r % 2 else 1.0) * 1e8 * rng.lognormal(0, 0.005)})
    variation = found["variation between repetitions"]
    assert variation.statistics["block_effect"]["p"] < 1e-6
    assert any("Whole passes" in caveat for caveat in variation.caveats)


def test_repetitions_that_are_not_steady_are_named(lab: Any) -> None:
    found = findings(lab, lambda p, r: {"read.bw": 1e8 if p["bs"] == "4KiB" else 1e8 * 0.8**r})
    steady = found["steady state"]
    assert steady.statistics["unsteady"] == ["bs=64KiB"]
    assert steady.severity == "warning"


def test_a_trial_that_settles_is_steady_from_there_on() -> None:
    time_s = np.arange(0.1, 20.05, 0.1)
    found = within_trial(Samples(time_s, 100 + 300 * np.exp(-time_s)))
    assert isinstance(found, WithinTrial)
    assert found.state.attained and found.since_s is not None and 2 < found.since_s < 6
    falling = within_trial(Samples(time_s, 400 - 15 * time_s))
    assert isinstance(falling, WithinTrial) and falling.since_s is None


def test_identical_repetitions_are_stable_without_a_warning(lab: Any) -> None:
    found = findings(lab, lambda p, r: {"read.bw": 5.0}, 5)
    assert found["variation between repetitions"].statistics["max_cv"] == 0
    assert "undefined" not in str(found["steady state"].statement)


def test_one_repetition_says_nothing_of_stability(lab: Any) -> None:
    assert findings(lab, lambda p, r: {"read.bw": 5.0}, 1) == {}
