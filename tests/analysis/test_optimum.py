"""The question `peak`: best levels, plateaus, knees and laws, and what poor data allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import conclusion, optimum
from ioassay.analysis.optimum import SEPARATE_SLICES, NoPlateau, Outcome, Peak
from ioassay.stats.contrasts import Plateau

WORKERS = [1, 2, 3, 4, 5, 6, 8, 12, 16]


def peaks(lab: Any, study: Any, measure: Any, repetitions: int = 5, **host: Any) -> list[Peak]:
    answers = optimum.analyse(lab.records(lab.run(study, measure, repetitions), **host), study)
    return [peak for answer in answers for peak in answer.peaks]


def plateau(cores: int, seed: int = 1, noise: float = 0.02) -> Any:
    rng = np.random.default_rng(seed)
    return lambda p, _: {"read.bw": 1e8 * min(p["workers"], cores) * rng.lognormal(0, noise)}


def test_a_plateau_at_the_number_of_cores_has_its_beginning(lab: Any) -> None:
    (found,) = peaks(lab, lab.study(factors={"workers": WORKERS}), plateau(4))
    assert found.statistics()["plateau"] == [4, 16]
    assert set(found.statistics()["not_worse"]) == {4, 5, 6, 8, 12, 16}
    assert found.outcome == Outcome.SATURATES
    bounds = found.statistics()["best_interval"]
    assert bounds["low"] <= found.statistics()["best"] <= bounds["high"]
    assert sum(found.statistics()["probability_of_being_best"]) == pytest.approx(1)
    assert found.statistics()["knee"]["x"] == pytest.approx(4, abs=0.3)
    assert found.statistics()["law"] is None, "no law is told of a curve with a corner"
    assert found.statistics()["growth"]["kind"] == "amdahl"


def test_levels_are_put_in_order_whatever_the_study_does(lab: Any) -> None:
    (found,) = peaks(lab, lab.study(factors={"workers": [8, 1, 4, 2, 16]}), plateau(4))
    assert found.statistics()["levels"] == [1, 2, 4, 8, 16] and found.statistics()["plateau"] == [4, 16]


def test_scaling_that_falls_back_has_a_peak_by_the_universal_law(lab: Any) -> None:
    rng = np.random.default_rng(2)
    study = lab.study(factors={"workers": WORKERS})

    def measure(p: Any, _: int) -> dict[str, float]:
        n = p["workers"]
        return {"read.bw": 1e8 * n / (1 + 0.05 * (n - 1) + 0.01 * n * (n - 1)) * rng.lognormal(0, 0.02)}

    (found,) = peaks(lab, study, measure)
    law = found.statistics()["usl"]
    assert found.statistics()["law"] == "usl"
    assert law["peak_interval"]["low"] < np.sqrt(95) < law["peak_interval"]["high"]
    assert law["alpha_interval"]["low"] < 0.05 < law["alpha_interval"]["high"]
    last = found.statistics()["scaling"][-1]
    assert last["efficiency"] == pytest.approx(last["speedup"] / 16)
    assert last["interval"]["low"] < last["efficiency"] < last["interval"]["high"]


def test_a_share_that_cannot_run_in_parallel_is_amdahls_and_the_best_may_lie_beyond(lab: Any) -> None:
    rng = np.random.default_rng(3)
    study = lab.study(factors={"numjobs": WORKERS})
    (found,) = peaks(
        lab,
        study,
        lambda p, _: {"read.bw": 1e8 * p["numjobs"] / (1 + 0.1 * (p["numjobs"] - 1)) * rng.lognormal(0, 0.01)},
    )
    assert found.statistics()["law"] == "amdahl" and found.law is not None and found.law.limit is not None
    assert found.outcome == Outcome.BEST_AT_LAST


def test_lower_is_better_for_latencies_and_they_follow_no_law(lab: Any) -> None:
    rng = np.random.default_rng(4)
    study = lab.study(factors={"numjobs": [1, 2, 4, 8, 16]}, responses=["read.lat.p99"])
    (found,) = peaks(lab, study, lambda p, _: {"read.lat.p99": 1e5 * max(p["numjobs"], 4) * rng.lognormal(0, 0.01)})
    assert found.statistics()["plateau"] == [1, 4]
    assert found.outcome == Outcome.DECLINES
    assert found.statistics()["usl"] is None and found.statistics()["scaling"] is None


def test_words_have_a_best_level_and_its_equals_but_no_curve(lab: Any) -> None:
    rng = np.random.default_rng(5)
    study = lab.study(factors={"scheduler": ["other", "batch", "fifo", "idle"]})
    level = {"other": 4e8, "batch": 4e8, "fifo": 3e8, "idle": 1e8}
    (found,) = peaks(lab, study, lambda p, _: {"read.bw": level[p["scheduler"]] * rng.lognormal(0, 0.02)})
    assert set(found.statistics()["not_worse"]) == {"other", "batch"}
    assert found.outcome == Outcome.CATEGORIES
    assert found.statistics()["knee"] is None and found.statistics()["plateau"] is None


def test_one_repetition_has_no_equals(lab: Any) -> None:
    (found,) = peaks(lab, lab.study(factors={"workers": WORKERS}), plateau(4), 1)
    assert found.statistics()["best_interval"] is None and found.statistics()["not_worse"] is None
    assert (found.outcome, found.fewest) == (Outcome.UNREPEATED, 1)


def test_few_repetitions_have_more_equals(lab: Any) -> None:
    (two,) = peaks(lab, lab.study(factors={"workers": WORKERS}), plateau(4, noise=0.2), 2)
    (ten,) = peaks(lab, lab.study(factors={"workers": WORKERS}), plateau(4, noise=0.2), 10)
    assert len(two.statistics()["not_worse"]) > len(ten.statistics()["not_worse"]) >= 6
    assert (two.fewest, ten.fewest) == (2, 10)


def test_noise_alone_has_no_best_level(lab: Any) -> None:
    (found,) = peaks(lab, lab.study(factors={"workers": WORKERS}), plateau(1, noise=0.1))
    assert found.outcome == Outcome.UNDECIDED
    assert found.statistics()["repetitions_needed"] > 5 and found.statistics()["best_can_be_told"] is False
    assert (found.statistics()["plateau"], found.statistics()["plateau_reason"]) == (None, NoPlateau.UNDECIDED)
    assert found.law is None and found.growth is None
    assert "not distinguishable" in found.statistics()["knee"]["reason"]


def test_a_simulation_is_exact_with_one_repetition(lab: Any) -> None:
    study = lab.study(factors={"buffer": [1, 2, 3, 4, 5, 6]}, driver="simulate", responses=["sim.hit_ratio"])
    (found,) = peaks(lab, study, lambda p, _: {"sim.hit_ratio": min(p["buffer"], 4) / 8}, 1)
    assert (found.outcome, found.plateau, found.exact) == (Outcome.SATURATES, Plateau(3, 5, 3), True)


def test_failed_levels_are_left_out_and_counted(lab: Any) -> None:
    measure = plateau(4)
    study = lab.study(factors={"workers": [1, 2, 4, 8, 16]})
    (found,) = peaks(lab, study, lambda p, r: None if p["workers"] == 16 else measure(p, r))
    assert found.statistics()["levels"] == [1, 2, 4, 8]
    assert found.part.lost == ("workers=16",)


def test_sizes_have_an_order_and_no_law(lab: Any) -> None:
    rng = np.random.default_rng(6)
    sizes = [f"{2**power}KiB" for power in range(2, 11)]
    study = lab.study(factors={"bs": sizes})
    level = {size: min(power, 5) for power, size in enumerate(sizes)}
    (found,) = peaks(lab, study, lambda p, _: {"read.bw": 1e8 * (1 + level[p["bs"]]) * rng.lognormal(0, 0.01)})
    assert found.statistics()["plateau"] == ["128KiB", "1024KiB"]
    assert found.statistics()["law"] is None and found.statistics()["knee"]["scale"] == "log2"


def test_each_place_has_its_own_best_and_many_share_a_finding(lab: Any) -> None:
    rng = np.random.default_rng(7)
    study = lab.study(factors={"rw": ["rw", "randrw"], "workers": [1, 2, 4, 6, 8]})
    run = lab.run(study, lambda p, _: {"read.bw": 1e8 * p["workers"] * rng.lognormal(0, 0.01)}, 5)
    found = {answer.peaks[0].factor: answer for answer in optimum.analyse(lab.records(run), study)}
    assert [one.part.where() for one in found["workers"].peaks] == [{"rw": "rw"}, {"rw": "randrw"}]
    assert len(found["workers"].peaks) <= SEPARATE_SLICES < len(found["rw"].peaks) == 5


def test_the_probability_of_being_best_is_seeded_by_the_study(lab: Any) -> None:
    def chances(seed: int) -> Any:
        study = lab.study(factors={"workers": WORKERS}, seed=seed)
        return peaks(lab, study, plateau(4))[0].statistics()["probability_of_being_best"]

    assert chances(1) == chances(1) != chances(2)


def test_growth_beyond_proportion_follows_no_law(lab: Any) -> None:
    rng = np.random.default_rng(8)
    study = lab.study(factors={"workers": [1, 2, 3, 4, 6, 8]})
    (found,) = peaks(lab, study, lambda p, _: {"read.bw": 1e7 * p["workers"] ** 1.4 * rng.lognormal(0, 0.01)})
    assert found.statistics()["law"] is None and found.growth is None


@pytest.mark.parametrize(("factor", "levels"), [("rwmixwrite", [0, 25, 50, 75]), ("rwmixread", [25, 50, 75, 100])])
def test_nothing_lies_beyond_none_and_all(lab: Any, factor: str, levels: list[int]) -> None:
    rng = np.random.default_rng(9)
    study = lab.study(factors={factor: levels})
    best = 100 if 100 in levels else 0
    (found,) = peaks(lab, study, lambda p, _: {"read.bw": (300 - abs(best - p[factor])) * rng.lognormal(0, 0.002)})
    assert found.statistics()["best"] == best and found.outcome == Outcome.ISOLATED


CORES = {"cpu": {"cpus": 4}}


def on_cores(lab: Any, study: Any, measure: Any, repetitions: int = 5) -> list[Peak]:
    return peaks(lab, study, measure, repetitions, host=CORES)


def test_a_plateau_at_the_number_of_processors_says_so_and_growth_up_to_it_follows_a_law(lab: Any) -> None:
    rng = np.random.default_rng(11)
    study = lab.study(factors={"workers": [1, 2, 3, 4, 5, 6, 7, 8]}, responses=["bogo_ops_real_rate"])
    (found,) = on_cores(
        lab, study, lambda p, _: {"bogo_ops_real_rate": 2700 * min(p["workers"], 4) * rng.lognormal(0, 0.01)}
    )
    assert found.statistics()["plateau"] == [4, 8] and found.statistics()["plateau_at_processors"] is True
    assert found.statistics()["growth"]["kind"] == "amdahl"


def test_a_plateau_elsewhere_and_requests_in_flight_say_nothing_of_processors(lab: Any) -> None:
    (three,) = on_cores(lab, lab.study(factors={"workers": WORKERS}), plateau(3))
    depth = lab.study(factors={"iodepth": [1, 2, 4, 8, 16]})
    (flight,) = on_cores(lab, depth, lambda p, r: {"read.bw": 1e8 * min(p["iodepth"], 4) * (1 + 0.01 * r)})
    assert three.statistics()["plateau"] == [3, 16] and three.statistics()["plateau_at_processors"] is False
    assert flight.statistics()["plateau"] == [4, 16] and flight.statistics()["plateau_at_processors"] is False


def test_a_straight_rise_has_no_plateau_though_its_last_levels_are_alike(lab: Any) -> None:
    rng = np.random.default_rng(12)
    study = lab.study(factors={"workers": list(range(10, 31))})
    (found,) = peaks(lab, study, lambda p, _: {"read.bw": 1e7 * p["workers"] * rng.lognormal(0, 0.01)})
    assert found.statistics()["plateau"] is None
    assert found.statistics()["plateau_reason"] in (NoPlateau.IMPROVES, NoPlateau.ALONE)


def test_levels_that_are_hardly_worse_for_sure_are_on_the_plateau(lab: Any) -> None:
    rng = np.random.default_rng(13)
    study = lab.study(factors={"workers": [1, 2, 4, 6, 8]})
    level = {1: 1.0, 2: 2.0, 4: 3.95, 6: 3.98, 8: 4.0}
    (found,) = peaks(lab, study, lambda p, _: {"read.bw": 1e8 * level[p["workers"]] * rng.lognormal(0, 0.0005)})
    assert found.statistics()["not_worse"] == [8], "noise is smaller than what matters"
    assert found.statistics()["plateau"] == [4, 8]


@pytest.mark.parametrize("response", ["cpu_used", "extra.cache_ops_per_second", "bogo_ops_cpu_rate"])
def test_what_one_worker_does_follows_no_law_of_scaling(lab: Any, response: str) -> None:
    rng = np.random.default_rng(14)
    study = lab.study(factors={"workers": WORKERS}, responses=[response])
    for found in peaks(lab, study, lambda p, _: {response: 100 / p["workers"] * rng.lognormal(0, 0.01)}):
        assert found.statistics()["scaling"] is None and found.statistics()["law"] is None


def test_levels_that_could_not_be_measured_stand_with_the_best_and_their_reason(lab: Any) -> None:
    rng = np.random.default_rng(15)
    policies = ["batch", "fifo:99", "idle", "other"]
    study = lab.study(factors={"run.scheduler": policies})
    level = {"batch": 4e8, "idle": 1e8, "other": 4e8}

    def measure(p: Any, _: int) -> Any:
        known = level.get(str(p["run.scheduler"]))
        return known and {"read.bw": known * rng.lognormal(0, 0.02)}

    (found,) = optimum.analyse(lab.records(lab.run(study, measure, 5)), study)
    (missing,) = found.missing
    assert missing.points == [{"run.scheduler": "fifo:99"}] and missing.reason == "the tool crashed"
    assert set(found.peaks[0].statistics()["not_worse"]) == {"batch", "other"}


def test_percentages_and_times_are_levels_with_an_order(lab: Any) -> None:
    rng = np.random.default_rng(16)
    for levels in (["10%", "25%", "50%", "75%", "90%"], ["1ms", "10ms", "1s", "2s", "4s"]):
        study = lab.study(factors={"load": levels})
        (found,) = peaks(lab, study, _rising_to(levels, 2, rng))
        assert found.statistics()["plateau"] == [levels[2], levels[4]]


def _rising_to(levels: list[str], last: int, rng: np.random.Generator) -> Any:
    return lambda p, _: {"read.bw": 1e8 * (1 + min(levels.index(p["load"]), last)) * rng.lognormal(0, 0.01)}


def test_a_level_below_the_best_is_on_no_plateau_because_of_noise(lab: Any) -> None:
    level, spread = {1: 1.0, 2: 3.0, 4: 3.6, 8: 3.6}, [-0.3, 0.0, 0.3]
    study = lab.study(factors={"workers": [1, 2, 4, 8]})
    (found,) = peaks(lab, study, lambda p, r: {"read.bw": 1e8 * (level[p["workers"]] + spread[r])}, 3)
    assert found.outcome == Outcome.NARROWED and found.plateau is None
    assert found.statistics()["not_worse"] == [2, 4, 8]


def test_a_second_peak_is_reported(lab: Any) -> None:
    rng = np.random.default_rng(17)
    level = {1: 1.0, 2: 3.0, 4: 1.5, 8: 3.5, 16: 1.0}
    study = lab.study(factors={"workers": list(level)})
    (found,) = peaks(lab, study, lambda p, _: {"read.bw": 1e8 * level[p["workers"]] * rng.lognormal(0, 0.02)})
    assert found.statistics()["best"] == 8 and found.statistics()["second_peaks"] == [2]


def test_operations_that_are_other_work_have_no_best_and_the_bandwidth_leads(lab: Any) -> None:
    """Of a real run: 4 KiB has most operations of `hdd` and the lowest bandwidth."""
    sizes = {"4KiB": (9000.0, 36.0), "64KiB": (3000.0, 190.0), "1MiB": (400.0, 400.0)}
    rates = ["bogo_ops_real_rate", "extra.write_rate_mb_per_s"]
    study = lab.study(
        driver="stress_ng", params={}, factors={"hdd-write-size": list(sizes)}, responses=rates, lead="peak"
    )
    rows = lab.run(study, lambda p, r: dict(zip(rates, (v + r for v in sizes[p["hdd-write-size"]]), strict=True)), 3)
    records = lab.records(rows)
    assert optimum.measured(records, study, rates[0]) == {}
    found = conclusion.focus(records, study)
    assert found is not None and found.response == rates[1]
    assert found.peaks["hdd-write-size"][0].level(found.peaks["hdd-write-size"][0].best) == "1MiB"
