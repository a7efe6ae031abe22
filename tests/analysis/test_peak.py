"""The question `peak` in words: best levels, plateaus, knees and laws, and what is said where data are poor."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ioassay.analysis.optimum import optimum
from ioassay.narrative.finding import Finding

WORKERS = [1, 2, 3, 4, 5, 6, 8, 12, 16]


def findings(lab: Any, study: Any, measure: Any, repetitions: int = 5) -> list[Finding]:
    return optimum.analyse(lab.records(lab.run(study, measure, repetitions)), study)


def plateau(cores: int, seed: int = 1, noise: float = 0.02) -> Any:
    rng = np.random.default_rng(seed)
    return lambda p, _: {"read.bw": 1e8 * min(p["workers"], cores) * rng.lognormal(0, noise)}


def test_a_plateau_at_the_number_of_cores_is_told_with_its_beginning(lab: Any) -> None:
    (found,) = findings(lab, lab.study(factors={"workers": WORKERS}), plateau(4))
    assert found.statistics["plateau"] == [4, 16]
    assert set(found.statistics["not_worse"]) == {4, 5, 6, 8, 12, 16}
    assert "The plateau begins at 4 workers: from there on nothing is gained." in found.statement
    assert "highest at" in found.statement and "MB/s (95 % interval" in found.statement
    bounds = found.statistics["best_interval"]
    assert bounds["low"] <= found.statistics["best"] <= bounds["high"]
    assert sum(found.statistics["probability_of_being_best"]) == pytest.approx(1)
    assert found.statistics["knee"]["x"] == pytest.approx(4, abs=0.3)
    assert "The curve bends near 4" in found.statement and "gains less after it" in found.statement
    assert found.statistics["law"] is None, "no law is told of a curve with a corner"
    assert found.statistics["growth"]["kind"] == "amdahl" and "Up to 4 workers it follows a law" in found.statement
    assert any("follows no law of scaling" in caveat for caveat in found.caveats)


def test_levels_are_put_in_order_whatever_the_study_does(lab: Any) -> None:
    (found,) = findings(lab, lab.study(factors={"workers": [8, 1, 4, 2, 16]}), plateau(4))
    assert found.statistics["levels"] == [1, 2, 4, 8, 16] and found.statistics["plateau"] == [4, 16]


def test_scaling_that_falls_back_has_a_peak_by_the_universal_law(lab: Any) -> None:
    rng = np.random.default_rng(2)
    study = lab.study(factors={"workers": WORKERS})

    def measure(p: Any, _: int) -> dict[str, float]:
        n = p["workers"]
        return {"read.bw": 1e8 * n / (1 + 0.05 * (n - 1) + 0.01 * n * (n - 1)) * rng.lognormal(0, 0.02)}

    (found,) = findings(lab, study, measure)
    law = found.statistics["usl"]
    assert found.statistics["law"] == "usl"
    assert law["peak_interval"]["low"] < np.sqrt(95) < law["peak_interval"]["high"]
    assert law["alpha_interval"]["low"] < 0.05 < law["alpha_interval"]["high"]
    assert "By the universal scalability law" in found.statement and "within what was tested" in found.statement
    last = found.statistics["scaling"][-1]
    assert last["efficiency"] == pytest.approx(last["speedup"] / 16)
    assert last["interval"]["low"] < last["efficiency"] < last["interval"]["high"]
    assert found.tables[1].rows[0][0] == "universal scalability"


def test_a_share_that_cannot_run_in_parallel_is_amdahls_and_the_best_may_lie_beyond(lab: Any) -> None:
    rng = np.random.default_rng(3)
    study = lab.study(factors={"numjobs": WORKERS})
    (found,) = findings(
        lab,
        study,
        lambda p, _: {"read.bw": 1e8 * p["numjobs"] / (1 + 0.1 * (p["numjobs"] - 1)) * rng.lognormal(0, 0.01)},
    )
    assert found.statistics["law"] == "amdahl" and "which limits it to" in found.statement
    assert "It is the last level that was tested: the best may lie beyond." in found.statement


def test_lower_is_better_for_latencies_and_they_follow_no_law(lab: Any) -> None:
    rng = np.random.default_rng(4)
    study = lab.study(factors={"numjobs": [1, 2, 4, 8, 16]}, responses=["read.lat.p99"])
    (found,) = findings(lab, study, lambda p, _: {"read.lat.p99": 1e5 * max(p["numjobs"], 4) * rng.lognormal(0, 0.01)})
    assert found.statistics["plateau"] == [1, 4]
    assert "is lowest, which is best, at" in found.statement
    assert (
        "The plateau ends at 4 jobs: up to there all are as good within noise or 5 %, beyond it is worse."
        in found.statement
    )
    assert found.statistics["usl"] is None and found.statistics["scaling"] is None


def test_words_have_a_best_level_and_its_equals_but_no_curve(lab: Any) -> None:
    rng = np.random.default_rng(5)
    study = lab.study(factors={"scheduler": ["other", "batch", "fifo", "idle"]})
    level = {"other": 4e8, "batch": 4e8, "fifo": 3e8, "idle": 1e8}
    (found,) = findings(lab, study, lambda p, _: {"read.bw": level[p["scheduler"]] * rng.lognormal(0, 0.02)})
    assert set(found.statistics["not_worse"]) == {"other", "batch"}
    assert (
        "Not worse within noise: scheduler = " in found.statement and "Worse: scheduler = fifo and" in found.statement
    )
    assert "of resamples" in found.statement
    assert found.statistics["knee"] is None and found.statistics["plateau"] is None


def test_one_repetition_says_so(lab: Any) -> None:
    (found,) = findings(lab, lab.study(factors={"workers": WORKERS}), plateau(4), 1)
    assert found.statistics["best_interval"] is None and found.statistics["not_worse"] is None
    assert (
        "With one repetition of each level nothing says whether another is as good: 3 are the least" in found.statement
    )
    assert any("fewer than 5 repetitions" in caveat for caveat in found.caveats)


def test_few_repetitions_are_wide_and_said(lab: Any) -> None:
    (two,) = findings(lab, lab.study(factors={"workers": WORKERS}), plateau(4, noise=0.1), 2)
    (ten,) = findings(lab, lab.study(factors={"workers": WORKERS}), plateau(4, noise=0.1), 10)
    assert len(two.statistics["not_worse"]) > len(ten.statistics["not_worse"]) >= 6
    assert any("fewer than 5" in caveat for caveat in two.caveats)
    assert not any("fewer than 5" in caveat for caveat in ten.caveats)


def test_noise_alone_has_no_best_level(lab: Any) -> None:
    (found,) = findings(lab, lab.study(factors={"workers": WORKERS}), plateau(1, noise=0.1))
    assert "No best number of workers for read bandwidth can be told: all 9 levels" in found.statement
    assert "each level needs about " in found.statement and " repetitions instead of 5." in found.statement
    assert found.statistics["repetitions_needed"] > 5 and found.statistics["best_can_be_told"] is False
    assert (found.statistics["plateau"], found.statistics["plateau_reason"]) == (
        None,
        "no level can be told from another",
    )
    assert "law" not in found.statement and "grows" not in found.statement
    assert found.statistics["knee"]["reason"] == "no level can be told from another"


def test_a_simulation_is_exact_with_one_repetition(lab: Any) -> None:
    study = lab.study(factors={"buffer": [1, 2, 3, 4, 5, 6]}, driver="simulate", responses=["sim.hit_ratio"])
    (found,) = findings(lab, study, lambda p, _: {"sim.hit_ratio": min(p["buffer"], 4) / 8}, 1)
    assert "The plateau begins at a buffer of 4" in found.statement and found.caveats == []


def test_failed_levels_are_left_out_and_counted(lab: Any) -> None:
    measure = plateau(4)
    study = lab.study(factors={"workers": [1, 2, 4, 8, 16]})
    (found,) = findings(lab, study, lambda p, r: None if p["workers"] == 16 else measure(p, r))
    assert found.statistics["levels"] == [1, 2, 4, 8]
    assert "No trial went well at workers=16." in found.caveats


def test_sizes_are_told_as_sizes_and_have_no_law(lab: Any) -> None:
    rng = np.random.default_rng(6)
    sizes = [f"{2**power}KiB" for power in range(2, 11)]
    study = lab.study(factors={"bs": sizes})
    level = {size: min(power, 5) for power, size in enumerate(sizes)}
    (found,) = findings(lab, study, lambda p, _: {"read.bw": 1e8 * (1 + level[p["bs"]]) * rng.lognormal(0, 0.01)})
    assert "The plateau begins at 128 KiB" in found.statement and "The curve bends near 130 KiB" in found.statement
    assert found.statistics["law"] is None and found.statistics["knee"]["scale"] == "log2"


def test_each_place_has_its_own_best_and_many_share_a_finding(lab: Any) -> None:
    rng = np.random.default_rng(7)
    study = lab.study(factors={"rw": ["rw", "randrw"], "workers": [1, 2, 4, 6, 8]})
    found = findings(lab, study, lambda p, _: {"read.bw": 1e8 * p["workers"] * rng.lognormal(0, 0.01)})
    assert [dict(one.where) for one in found if "workers" in one.title] == [{"rw": "rw"}, {"rw": "randrw"}]
    (shared,) = [one for one in found if "access pattern" in one.title]
    assert len(shared.statistics["slices"]) == 5 and "of 5 places" in shared.statement
    json.dumps([one.as_dict() for one in found], allow_nan=False)


def test_a_response_without_a_direction_says_what_is_taken(lab: Any) -> None:
    study = lab.study(factors={"workers": [1, 2]}, responses=["strange"])
    (found,) = findings(lab, study, lambda p, r: {"strange": p["workers"] + 0.01 * r})
    assert any("more is taken to be" in caveat for caveat in found.caveats)


def test_the_bootstrap_is_seeded_by_the_study(lab: Any) -> None:
    def chances(seed: int) -> Any:
        study = lab.study(factors={"workers": WORKERS}, seed=seed)
        return findings(lab, study, plateau(4))[0].statistics["probability_of_being_best"]

    assert chances(1) == chances(1) != chances(2)


def test_growth_beyond_proportion_follows_no_law(lab: Any) -> None:
    rng = np.random.default_rng(8)
    study = lab.study(factors={"workers": [1, 2, 3, 4, 6, 8]})
    (found,) = findings(lab, study, lambda p, _: {"read.bw": 1e7 * p["workers"] ** 1.4 * rng.lognormal(0, 0.01)})
    assert found.statistics["law"] is None and "law" not in found.statement
    assert any("law of scaling" in caveat for caveat in found.caveats)


@pytest.mark.parametrize(("factor", "levels"), [("rwmixwrite", [0, 25, 50, 75]), ("rwmixread", [25, 50, 75, 100])])
def test_nothing_lies_beyond_none_and_all(lab: Any, factor: str, levels: list[int]) -> None:
    rng = np.random.default_rng(9)
    study = lab.study(factors={factor: levels})
    best = 100 if 100 in levels else 0
    (found,) = findings(lab, study, lambda p, _: {"read.bw": (300 - abs(best - p[factor])) * rng.lognormal(0, 0.002)})
    assert found.statistics["best"] == best and "may lie beyond" not in found.statement


CORES = {"cpu": {"cpus": 4}}


def on_cores(lab: Any, study: Any, measure: Any, repetitions: int = 5) -> list[Finding]:
    return optimum.analyse(lab.records(lab.run(study, measure, repetitions), host=CORES), study)


def test_a_plateau_at_the_number_of_processors_says_so_and_growth_up_to_it_follows_a_law(lab: Any) -> None:
    rng = np.random.default_rng(11)
    study = lab.study(factors={"workers": [1, 2, 3, 4, 5, 6, 7, 8]}, responses=["bogo_ops_real_rate"])
    (found,) = on_cores(
        lab, study, lambda p, _: {"bogo_ops_real_rate": 2700 * min(p["workers"], 4) * rng.lognormal(0, 0.03)}
    )
    assert found.statistics["plateau"] == [4, 8] and found.statistics["plateau_at_processors"] is True
    told = "The plateau begins at 4 workers, the number of this machine's processors: from there on nothing is gained."
    assert told in found.statement
    assert found.statistics["growth"]["kind"] == "amdahl" and "Up to 4 workers it follows a law" in found.statement
    assert "From 1 worker to 4 workers it grows" in found.statement


def test_a_plateau_elsewhere_and_requests_in_flight_say_nothing_of_processors(lab: Any) -> None:
    (three,) = on_cores(lab, lab.study(factors={"workers": WORKERS}), plateau(3))
    depth = lab.study(factors={"iodepth": [1, 2, 4, 8, 16]})
    (flight,) = on_cores(lab, depth, lambda p, r: {"read.bw": 1e8 * min(p["iodepth"], 4) * (1 + 0.01 * r)})
    assert "begins at 3 workers: " in three.statement and "processors" not in three.statement
    assert flight.statistics["plateau"] == [4, 16] and "processors" not in flight.statement


def test_a_straight_rise_has_no_plateau_though_its_last_levels_are_alike(lab: Any) -> None:
    rng = np.random.default_rng(12)
    study = lab.study(factors={"workers": list(range(10, 31))})
    (found,) = findings(lab, study, lambda p, _: {"read.bw": 1e7 * p["workers"] * rng.lognormal(0, 0.01)})
    assert found.statistics["plateau"] is None
    assert found.statistics["plateau_reason"] in ("it still gains at the last level", "every other level is worse")


def test_levels_that_are_hardly_worse_for_sure_are_on_the_plateau(lab: Any) -> None:
    rng = np.random.default_rng(13)
    study = lab.study(factors={"workers": [1, 2, 4, 6, 8]})
    level = {1: 1.0, 2: 2.0, 4: 3.95, 6: 3.98, 8: 4.0}
    (found,) = findings(lab, study, lambda p, _: {"read.bw": 1e8 * level[p["workers"]] * rng.lognormal(0, 0.0005)})
    assert found.statistics["not_worse"] == [8], "noise is smaller than what matters"
    assert found.statistics["plateau"] == [4, 8]


@pytest.mark.parametrize("response", ["cpu_used", "extra.cache_ops_per_second", "bogo_ops_cpu_rate"])
def test_what_one_worker_does_follows_no_law_of_scaling(lab: Any, response: str) -> None:
    rng = np.random.default_rng(14)
    study = lab.study(factors={"workers": WORKERS}, responses=[response])
    for found in findings(lab, study, lambda p, _: {response: 100 / p["workers"] * rng.lognormal(0, 0.01)}):
        assert found.statistics["scaling"] is None and found.statistics["law"] is None
        assert "law" not in found.statement and "scaling" not in found.statement


def test_levels_that_could_not_be_measured_stand_with_the_best_and_their_reason(lab: Any) -> None:
    rng = np.random.default_rng(15)
    policies = ["batch", "fifo:99", "idle", "other"]
    study = lab.study(factors={"run.scheduler": policies})
    level = {"batch": 4e8, "idle": 1e8, "other": 4e8}
    (found,) = findings(
        lab,
        study,
        lambda p, _: (
            {"read.bw": level[str(p["run.scheduler"])] * rng.lognormal(0, 0.02)}
            if p["run.scheduler"] in level
            else None
        ),
    )
    (missing,) = found.statistics["not_measured"]
    assert missing["points"] == [{"run.scheduler": "fifo:99"}] and missing["reason"] == "the tool crashed"
    assert "under batch" in found.statement or "under other" in found.statement
    assert "Worse: idle." in found.statement


def test_percentages_and_times_are_levels_with_an_order(lab: Any) -> None:
    rng = np.random.default_rng(16)
    for levels, first in ((["10%", "25%", "50%", "75%", "90%"], "50 %"), (["1ms", "10ms", "1s", "2s", "4s"], "1 s")):
        study = lab.study(factors={"load": levels})
        (found,) = findings(lab, study, _rising_to(levels, 2, rng))
        assert found.statistics["plateau"] == [levels[2], levels[4]] and f"load = {first}: from" in found.statement


def _rising_to(levels: list[str], last: int, rng: np.random.Generator) -> Any:
    return lambda p, _: {"read.bw": 1e8 * (1 + min(levels.index(p["load"]), last)) * rng.lognormal(0, 0.01)}


def test_a_plateau_that_noise_makes_says_how_far_its_first_level_lies_below(lab: Any) -> None:
    level, spread = {1: 1.0, 2: 3.0, 4: 3.6, 8: 3.6}, [-0.3, 0.0, 0.3]
    study = lab.study(factors={"workers": [1, 2, 4, 8]})
    (found,) = findings(lab, study, lambda p, r: {"read.bw": 1e8 * (level[p["workers"]] + spread[r])}, 3)
    assert found.statistics["plateau"] == [2, 8]
    told = (
        "The plateau begins at 2 workers: from there on nothing can be told from noise, though the mean there is 17 %"
    )
    assert told in found.statement and "more repetitions may move it" in found.statement
