"""Conclusions: the shapes that a study came to, computed and put in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import conclusion
from ioassay.analysis.effects import block_size_mix
from ioassay.analysis.measurements.cells import cells
from ioassay.narrative import summary_sentences
from ioassay.narrative.finding import Finding
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Undefined

CASES = [
    {"name": "mixed", "bssplit": "4KiB/30:16KiB/60:64KiB/10"},
    {"name": "4k", "bs": "4KiB"},
    {"name": "16k", "bs": "16KiB"},
    {"name": "64k", "bs": "64KiB"},
]
ALONE = {"4k": 60e6, "16k": 190e6, "64k": 400e6}


def concluded(lab: Any, study: Any, measure: Any, repetitions: int = 8) -> Finding:
    (found,) = conclusion.analyse(lab.records(lab.run(study, measure, repetitions)), study)
    return found


def predicted() -> float:
    shares = {"4k": (0.3, 4096), "16k": (0.6, 16384), "64k": (0.1, 65536)}
    volume = sum(share * size for share, size in shares.values())
    return volume / sum(share * size / ALONE[name] for name, (share, size) in shares.items())


def mixed_sizes(lab: Any, cost: float, repetitions: int = 8) -> Any:
    rng = np.random.default_rng(1)
    study = lab.study(factors={"rw": ["randread"]}, case=CASES)
    means = {**ALONE, "mixed": predicted() * (1 - cost)}
    return study, lambda p, _: {"read.bw": means[p["case"]] * rng.lognormal(0, 0.01)}


def test_growth_that_saturates(lab: Any) -> None:
    rng = np.random.default_rng(2)
    study = lab.study(factors={"numjobs": [1, 2, 4, 6, 8]}, title="Jobs")
    found = concluded(lab, study, lambda p, _: {"read.bw": 1e8 * min(p["numjobs"], 4) * rng.lognormal(0, 0.01)})
    assert found.title == "Jobs"
    assert "Read bandwidth rises with the number of jobs" in found.statement
    assert "beyond 4 jobs it levels off" in found.statistics["conclusion"][0]
    (fact,) = found.statistics["facts"]
    assert (fact["shape"], fact["best"], fact["plateau"]) == ("up", fact["best"], 4)
    assert fact["change"] == pytest.approx(4, rel=0.03)
    assert fact["interval"]["low"] < 4 < fact["interval"]["high"]


def test_sequential_falls_and_random_rises_with_the_share_of_writes(lab: Any) -> None:
    rng = np.random.default_rng(3)
    study = lab.study(factors={"rw": ["rw", "randrw"], "rwmixwrite": [0, 25, 50, 75, 100]}, responses=["total.bw"])

    def measure(point: Any, _: int) -> dict[str, float]:
        share = point["rwmixwrite"] / 100
        level = 5e8 * (1 - 0.5 * share) if point["rw"] == "rw" else 1e8 * (1 + share)
        return {"total.bw": level * rng.lognormal(0, 0.01)}

    found = concluded(lab, study, measure)
    told = " ".join(found.statistics["conclusion"])
    assert "With sequential access (rw), total bandwidth falls with the write share" in told
    assert "With random access (randrw), total bandwidth rises with the write share" in told
    assert "times as high with sequential access (rw) as with random access (randrw)" in told
    assert found.statement.startswith("Total bandwidth falls with the write share, from 4")
    assert ", but rises with the write share, from " in found.statement
    shapes = {str(fact["where"]): fact["shape"] for fact in found.statistics["facts"] if "shape" in fact}
    assert shapes == {"{'rw': 'rw'}": "down", "{'rw': 'randrw'}": "up"}


def test_a_mix_is_set_against_each_size_and_against_its_parts(lab: Any) -> None:
    study, measure = mixed_sizes(lab, cost=0.22)
    found = concluded(lab, study, measure)
    (fact,) = found.statistics["facts"]
    assert fact["predicted"]["ratio"] == pytest.approx(0.78, abs=0.02)
    assert fact["predicted"]["interval"]["low"] < 0.78 < fact["predicted"]["interval"]["high"]
    assert fact["against"]["64k"]["ratio"] == pytest.approx(0.78 * predicted() / 400e6, rel=0.02)
    assert "mixing itself costs that much" in found.statement
    assert "below 64k" in found.statistics["conclusion"][0]


def test_a_mix_that_costs_nothing_is_not_said_to_cost(lab: Any) -> None:
    study, measure = mixed_sizes(lab, cost=0.0)
    found = concluded(lab, study, measure)
    assert "does not differ visibly from what its parts would give" in found.statement


def test_the_prediction_of_a_mix_covers_as_often_as_it_says(lab: Any) -> None:
    hits = 0
    study, measure = mixed_sizes(lab, cost=0.1)
    for seed in range(80):
        found = cells(lab.records(lab.run(study, measure, 6, seed=seed)), study, "read.bw")
        (one,) = block_size_mix.mixes(found, study, 0.95)
        assert isinstance(one.predicted, Ratio)
        hits += one.predicted.interval.low <= 0.9 <= one.predicted.interval.high
    assert hits >= 70


def test_a_mix_without_its_parts_has_no_prediction(lab: Any) -> None:
    study = lab.study(case=CASES[:3])
    records = lab.records(lab.run(study, lambda p, r: {"read.bw": 100.0 + r}, 4))
    (one,) = block_size_mix.mixes(cells(records, study, "read.bw"), study, 0.95)
    assert isinstance(one.predicted, Undefined)
    assert set(one.against) == {"4k", "16k"}


def test_block_size_splits_are_read_as_fio_reads_them() -> None:
    assert block_size_mix.parse_split("4k/30:16k/60:64k/10") == {4096.0: 0.3, 16384.0: 0.6, 65536.0: 0.1}
    assert block_size_mix.parse_split("4k/50:8k:16k") == {4096.0: 0.5, 8192.0: 0.25, 16384.0: 0.25}
    assert block_size_mix.parse_split("4k/50:8k/50,4k/10:8k/90") == {}


def test_cases_that_are_no_mix_name_best_and_worst(lab: Any) -> None:
    study = lab.study(case=[{"name": "depth 1", "iodepth": 1}, {"name": "depth 32", "iodepth": 32}])
    rng = np.random.default_rng(4)
    found = concluded(lab, study, lambda p, _: {"read.bw": (1 if p["case"] == "depth 1" else 9) * rng.normal(100, 1)})
    assert "Read bandwidth is highest at depth 32, a factor of" in found.statement


def test_what_shows_no_difference_is_said_once_at_the_end(lab: Any) -> None:
    rng = np.random.default_rng(5)
    study = lab.study(factors={"numjobs": [1, 2, 4]}, responses=["read.bw", "write.bw"])
    found = concluded(lab, study, lambda *_: {"read.bw": rng.normal(100, 20), "write.bw": rng.normal(100, 20)})
    assert (
        found.statement == "These repetitions show no effect of number of jobs on read bandwidth and write bandwidth."
    )


def test_the_only_condition_is_told_with_its_interval(lab: Any) -> None:
    found = concluded(lab, lab.study(), lambda p, r: {"read.bw": 1e8 + 1e6 * r}, 5)
    assert "Read bandwidth is 102 MB/s (95 % interval" in found.statement


def test_paragraphs_and_warnings_are_there(lab: Any) -> None:
    rng = np.random.default_rng(6)
    study = lab.study(factors={"numjobs": [1, 2, 4]})
    found = concluded(lab, study, lambda p, _: {"read.bw": p["numjobs"] * 1e8 * rng.lognormal(0, 0.2)})
    assert all(found.statistics[name] for name in ("observation", "statistics", "conclusion"))
    assert "Welch F(2," in found.statistics["statistics"][0]
    assert any("vary" in caveat for caveat in found.caveats)


def test_one_repetition_still_concludes_without_a_test(lab: Any) -> None:
    study = lab.study(factors={"numjobs": [1, 2, 4]})
    found = concluded(lab, study, lambda p, _: {"read.bw": p["numjobs"] * 1e8}, 1)
    assert "rises with the number of jobs" in found.statement
    assert "no test is possible" in found.statistics["statistics"][0]


def test_a_summary_is_short_and_tells_what_behaves_alike_together(lab: Any) -> None:
    rng = np.random.default_rng(7)
    responses = ["read.bw", "write.bw", "read.iops", "read.lat.p99", "read.slat.p99", "read.clat.p99", "read.lat.mean"]
    study = lab.study(factors={"numjobs": [1, 2, 4]}, responses=responses)
    found = concluded(
        lab, study, lambda p, _: {name: p["numjobs"] * 1e6 * rng.lognormal(0, 0.01) for name in responses}
    )
    assert len(found.statistics["conclusion"]) == len(responses)
    assert len(found.statistics["summary"]) == summary_sentences.MOST
    assert "; write bandwidth likewise, from " in found.statistics["summary"][0]
    (table,) = found.tables
    assert [row[0] for row in table.rows][:2] == ["Read bandwidth", "Write bandwidth"]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_nothing_measured_is_said_with_its_reason(lab: Any) -> None:
    study = lab.study(factors={"numjobs": [1, 2]})
    (found,) = conclusion.analyse(lab.records(lab.run(study, lambda *_: None, 2)), study)
    assert found.statement == "Nothing was measured; all 4 trials failed: the tool crashed."
    assert found.statistics["not_measured"][0]["points"] == [{"numjobs": 1}, {"numjobs": 2}]


def test_levels_that_are_missing_stand_in_the_summary(lab: Any) -> None:
    study = lab.study(factors={"rw": ["rw", "randrw"], "run.scheduler": ["other", "fifo:99", "idle"]})

    def measure(point: Any, repetition: int) -> Any:
        return None if point["run.scheduler"] == "fifo:99" else {"read.bw": 1e8 + repetition}

    (found,) = conclusion.analyse(lab.records(lab.run(study, measure, 2)), study)
    said = found.statistics["summary"][-1]
    assert said == "Not measured: fifo (priority 99); 4 trials failed: the tool crashed."
