"""Effects of factors: one at a time, together, and the three analyses side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis.effects import anova_findings
from ioassay.narrative.finding import Finding


def findings(lab: Any, study: Any, measure: Any, repetitions: int = 8) -> list[Finding]:
    return anova_findings.analyse(lab.records(lab.run(study, measure, repetitions)), study)


def titled(found: list[Finding], text: str) -> Finding:
    return next(finding for finding in found if text in finding.title)


def test_an_effect_is_told_with_its_size_and_not_only_its_p(lab: Any) -> None:
    rng = np.random.default_rng(1)
    study = lab.study(factors={"bs": ["4KiB", "16KiB", "64KiB"]})
    level = {"4KiB": 1e8, "16KiB": 2e8, "64KiB": 4e8}
    (found,) = findings(lab, study, lambda p, _: {"read.bw": level[p["bs"]] * rng.lognormal(0, 0.02)})
    assert found.statistics["best"] == "64KiB" and found.statistics["worst"] == "4KiB"
    assert found.statistics["ratio"] == pytest.approx(4, rel=0.05)
    bounds = found.statistics["ratio_interval"]
    assert bounds["low"] < 4 < bounds["high"]
    assert found.statistics["p_holm"] < 1e-9
    assert "depends on block size" in found.statement and "a ratio of" in found.statement
    assert [pair["first"] for pair in found.statistics["games_howell"]] == ["4KiB", "4KiB", "16KiB"]


def test_lower_is_better_for_latencies(lab: Any) -> None:
    rng = np.random.default_rng(2)
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]}, responses=["read.lat.p99"])
    level = {"4KiB": 1e5, "64KiB": 4e5}
    (found,) = findings(lab, study, lambda p, _: {"read.lat.p99": level[p["bs"]] * rng.lognormal(0, 0.02)})
    assert found.statistics["best"] == "4KiB"
    assert "It is lowest (best) at 4 KiB (1" in found.statement


def test_no_effect_is_said_with_how_large_it_could_be(lab: Any) -> None:
    rng = np.random.default_rng(3)
    study = lab.study(factors={"bs": ["4KiB", "16KiB", "64KiB"]})
    (found,) = findings(lab, study, lambda p, _: {"read.bw": 1e8 * rng.lognormal(0, 0.02)})
    assert found.statement.startswith("No effect of block size on read bandwidth can be seen")
    assert "interval" in found.statement


def test_the_interval_of_best_against_worst_holds_although_they_were_picked(lab: Any) -> None:
    """Eight equal conditions: the best-to-worst interval must hold 1 in 95 % of cases, however it was picked."""
    from ioassay.analysis.effects.level_contrasts import extremes
    from ioassay.analysis.measurements.cells import cells

    rng = np.random.default_rng(4)
    study = lab.study(factors={"bs": [1, 2, 3, 4, 5, 6, 7, 8]})
    hits = 0
    for _ in range(60):
        records = lab.records(lab.run(study, lambda *_: {"read.bw": 100 * rng.lognormal(0, 0.05)}, 6))
        bounds = extremes(cells(records, study, "read.bw"), 0.95).interval
        assert bounds is not None
        hits += bounds.low <= 1
    assert hits >= 52


def test_two_factors_have_an_interaction_and_slices(lab: Any) -> None:
    rng = np.random.default_rng(5)
    study = lab.study(factors={"rw": ["rw", "randrw"], "rwmixwrite": [10, 50, 90]})

    def measure(point: Any, _: int) -> dict[str, float]:
        slope = -1 if point["rw"] == "rw" else 1
        return {"read.bw": (200 + slope * point["rwmixwrite"]) * 1e6 * rng.lognormal(0, 0.01)}

    found = findings(lab, study, measure)
    together = titled(found, "together")
    terms = {line["term"]: line for line in together.statistics["type_2"]["effects"]}
    assert set(terms) == {"block", "rw", "rwmixwrite", "rw × rwmixwrite"}
    assert terms["rw × rwmixwrite"]["p"] < 1e-9
    assert "interact" in together.statement
    assert together.statistics["type_3"]["kind"] == 3
    wheres = [dict(one.where) for one in found if "effect of write share" in one.title]
    assert wheres == [{"rw": "rw"}, {"rw": "randrw"}]
    assert all("Holm" in caveat for one in found if one.where for caveat in one.caveats if "adjusted" in caveat)


def test_many_slices_share_one_finding(lab: Any) -> None:
    rng = np.random.default_rng(6)
    study = lab.study(factors={"rw": ["rw", "randrw"], "rwmixwrite": [0, 12, 25, 38, 50, 63]})
    found = findings(lab, study, lambda p, _: {"read.bw": (2 if p["rw"] == "rw" else 1) * 1e8 * rng.lognormal(0, 0.01)})
    pattern = titled(found, "effect of access pattern")
    assert pattern.statistics["different"] == len(pattern.statistics["slices"]) == 6
    assert "in 6 of 6 places" in pattern.statement


def test_three_analyses_stand_side_by_side_and_only_repetitions_count(lab: Any) -> None:
    """No real difference between conditions, but repetitions differ: the naive ones find one all the same."""
    rng = np.random.default_rng(7)
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]})

    def measure(point: Any, _: int) -> dict[str, Any]:
        values = 1e8 * rng.lognormal(0, 0.05) * rng.lognormal(0, 0.01, 100)
        return {"read.bw": values.mean(), "_series": {"read.bw": values}}

    found = titled(findings(lab, study, measure, 6), "side by side")
    table = found.statistics
    assert table["all_samples"]["df_within"] == 1198
    assert table["repetitions"]["df_within"] == 10
    assert len(table["per_repetition"]) == 6
    assert table["all_samples"]["p"] < 1e-6 < 0.05 < table["repetitions"]["p"]
    assert table["all_samples"]["label"].startswith("naive")
    assert "Over repetitions, which is the analysis that counts" in found.statement


def test_identical_repetitions_are_compared_without_a_test(lab: Any) -> None:
    study = lab.study(factors={"bs": [1, 2]}, driver="simulate")
    (found,) = findings(lab, study, lambda p, _: {"read.bw": 100.0 * p["bs"]}, 3)
    assert found.statistics["p_holm"] is None
    assert found.statistics["ratio"] == 2.0
    assert "no test" in found.statement


def test_single_repetitions_give_means_without_a_test(lab: Any) -> None:
    study = lab.study(factors={"bs": [1, 2, 4]})
    (found,) = findings(lab, study, lambda p, _: {"read.bw": 100.0 * p["bs"]}, 1)
    assert found.statistics["ratio"] == 4.0 and found.statistics["ratio_interval"] is None
    assert "There is no test" in found.statement


def test_one_identical_condition_leaves_the_classic_analysis_to_decide(lab: Any) -> None:
    rng = np.random.default_rng(8)
    study = lab.study(factors={"bs": [1, 2]})
    (found,) = findings(lab, study, lambda p, _: {"read.bw": 100.0 if p["bs"] == 1 else rng.normal(200, 5)})
    assert "reason" in found.statistics["welch"]
    assert any("classic one decides" in caveat for caveat in found.caveats)


def test_a_study_without_factors_has_no_effects(lab: Any) -> None:
    assert findings(lab, lab.study(), lambda p, r: {"read.bw": 1.0 + r}) == []
