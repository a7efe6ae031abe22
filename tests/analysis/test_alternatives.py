"""Which case is best, when, and is that real? On numbers whose truth is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ioassay.analysis import alternatives, conclusion, optimum
from ioassay.analysis.alternatives import Outcome
from ioassay.narrative import choice_text, conclude_text
from ioassay.stats.contrasts import Pair

SPEED = {"psync": 1.0, "libaio": 1.0, "io_uring": 1.3, "nbd": 2.0}
NAMED = tuple(SPEED)


def study(lab: Any, name: str = "paths", names: tuple[str, ...] = NAMED, lead: str = "choice", **keys: Any) -> Any:
    cases = [{"name": one, "target.ways": ["nbd" if one == "nbd" else "fuse"]} for one in names]
    keys = {"factors": {"rw": ["randread", "randwrite"], "numjobs": [1, 4]}, "responses": ["total.iops"], **keys}
    return lab.study(name, case=cases, lead=lead, **keys)


def measured(lab: Any, made: Any, scatter: float = 0.02, repetitions: int = 3, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)

    def measure(point: Any, _: int) -> Any:
        speed = SPEED[point["case"]] * point.get("numjobs", 1) * rng.lognormal(0, scatter)
        return {"total.iops": 1e4 * speed, "read.lat.mean": 1e5 / speed}

    return lab.run(made, measure, repetitions)


def the(lab: Any, made: Any, response: str = "total.iops", **how: Any) -> alternatives.Choice:
    found = alternatives.choice(lab.records(measured(lab, made, **how)), made, response)
    assert found is not None
    return found


def test_the_best_has_its_ratio_and_interval_everywhere(lab: Any) -> None:
    one = the(lab, study(lab))
    assert one.average.best == "nbd" and one.average.outcome == Outcome.BEST and one.statistics()["pairs"] == 6
    assert [standing.best for standing in one.places] == ["nbd"] * 4 and all(
        place.outcome == Outcome.BEST for place in one.places
    )
    duel = one.average.duels["io_uring"]
    assert isinstance(duel, Pair) and duel.interval.low < 2 / 1.3 < duel.interval.high
    assert duel.interval.low > 1


def test_equal_cases_are_equivalent(lab: Any) -> None:
    one = the(lab, study(lab, names=("psync", "libaio")))
    assert one.average.outcome == Outcome.EQUIVALENT and one.average.near == ["libaio"]


def test_cases_on_one_target_are_compared_among_themselves(lab: Any) -> None:
    one = the(lab, study(lab))
    assert one.alike is not None
    assert set(one.alike.average.options) == {"psync", "libaio", "io_uring"}
    assert one.alike.average.best == "io_uring" and one.alike.average.outcome == Outcome.BEST


def test_a_time_is_best_where_it_is_lowest(lab: Any) -> None:
    one = the(lab, study(lab, responses=["read.lat.mean"]), "read.lat.mean")
    assert one.lower and one.average.best == "nbd" and one.average.outcome == Outcome.BEST
    duel = one.average.duels["psync"]
    assert isinstance(duel, Pair) and duel.estimate == pytest.approx(2.0, rel=0.1)


def test_scatter_hides_differences(lab: Any) -> None:
    made = study(lab)
    one = the(lab, made, scatter=0.9)
    assert not any(place.outcome == Outcome.BEST for place in one.places)


def test_true_ties_are_torn_apart_no_more_often_than_the_risk(lab: Any) -> None:
    made, torn = study(lab, names=("psync", "libaio"), factors={"rw": ["randread", "randwrite"]}), 0
    for seed in range(60):
        one = the(lab, made, scatter=0.1, seed=seed)
        torn += one.average.outcome == Outcome.BEST
        torn += any(place.outcome == Outcome.BEST for place in one.places)
    assert torn <= 2 * 60 * 0.05 * 1.5


def test_an_interval_excludes_one_exactly_where_p_is_below_the_risk(lab: Any) -> None:
    one = the(lab, study(lab), scatter=0.2)
    for standing in (one.average, *one.places):
        for duel in standing.duels.values():
            assert isinstance(duel, Pair)
            assert (duel.interval.low > 1) == (duel.p < 0.05)


def test_a_case_that_is_wild_in_one_place_is_still_known_in_the_others(lab: Any) -> None:
    rng = np.random.default_rng(9)
    made = study(lab, names=("psync", "io_uring", "nbd"), factors={"numjobs": [1, 2, 4, 8]})

    def measure(point: Any, repetition: int) -> Any:
        if point["case"] == "psync" and point["numjobs"] == 8:
            return {"total.iops": 1e4 * (1.0, 30.0, 0.1, 9.0)[repetition]}
        return {"total.iops": 1e4 * SPEED[point["case"]] * rng.lognormal(0, 0.01)}

    one = alternatives.choice(lab.records(lab.run(made, measure, 4)), made, "total.iops")
    assert one is not None
    assert [place.outcome == Outcome.BEST for place in one.places] == [True, True, True, False]


def test_single_runs_have_no_interval_and_no_outcome(lab: Any) -> None:
    made = study(lab)
    one = the(lab, made, repetitions=1)
    assert isinstance(one.average.duels["psync"], float) and one.average.outcome == Outcome.UNREPEATED


def test_a_case_that_failed_somewhere_is_left_out_of_the_average_alone(lab: Any) -> None:
    made = study(lab)
    rows = measured(lab, made)
    for row in rows.trials:
        if row["case"] == "nbd" and row["numjobs"] == 4:
            row["status"], row["total.iops"] = "failed", None
    one = alternatives.choice(lab.records(rows), made, "total.iops")
    assert one is not None and "nbd" not in one.average.options
    assert {standing.where["numjobs"]: standing.best for standing in one.places} == {1: "nbd", 4: "io_uring"}


def test_zero_and_a_single_case_have_no_choice(lab: Any) -> None:
    made = study(lab)
    rows = lab.run(made, lambda *_: {"total.iops": 0.0}, 2)
    assert alternatives.choice(lab.records(rows), made, "total.iops") is None
    alone = study(lab, names=("nbd",))
    assert alternatives.choice(lab.records(measured(lab, alone)), alone, "total.iops") is None


def test_the_summary_begins_with_the_choice_and_then_the_depth(lab: Any) -> None:
    rng = np.random.default_rng(2)
    made = study(lab, factors={"iodepth": [1, 8, 32, 128]}, responses=["read.iops", "read.lat.p99"])

    def measure(point: Any, _: int) -> Any:
        speed = SPEED[point["case"]] * min(point["iodepth"], 32) * rng.lognormal(0, 0.01)
        return {"read.iops": 1e4 * speed, "read.lat.p99": 1e6 * rng.lognormal(0, 0.3)}

    records = lab.records(lab.run(made, measure, 3))
    focus = conclusion.focus(records, made)
    assert focus is not None and focus.choices[0].average.best == "nbd" and focus.choices[0].alike is not None
    assert {one.outcome for one in focus.peaks["iodepth"]} == {optimum.Outcome.SATURATES}
    (found,) = conclude_text.findings(conclusion.analyse(records, made))
    assert [*map(str, found.statements[:3])] == [*map(str, conclude_text.opening(focus)[:3])]
    json.dumps(found.as_dict(), allow_nan=False)


def test_published_paths_stand_in_the_table_with_their_source(lab: Any) -> None:
    made = study(lab, "access-paths-jobs")
    (found,) = choice_text.findings(alternatives.together(lab.records(measured(lab, made))))
    assert found.tables[1].rows == [
        ["spdk, random reads, 1 job", "586 k IOPS", "–", "1.44 µs", "–"],
        ["spdk, random reads, 4 jobs", "1.06 M IOPS", "–", "3.4 µs", "–"],
        ["libaio, random reads, 1 job", "thousands of IOPS", "9.96 k IOPS", "–", "–"],
        ["io_uring, random reads, 1 job", "thousands of IOPS", "13.2 k IOPS", "–", "–"],
    ], "also what was not measured here"
    assert "a course project of 2025" in found.statement and "Nothing verified that" in found.statement
    assert found.statistics["studies"][0]["average"]["best"] == "nbd"
    json.dumps(found.as_dict(), allow_nan=False)


def test_studies_of_something_else_have_neither(lab: Any) -> None:
    made = study(lab, lead="shape")
    records = lab.records(measured(lab, made))
    assert alternatives.analyse(records, made) == [] and alternatives.together(records) == []
