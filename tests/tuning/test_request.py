"""What a search is asked: its goal, where the default comes from, what is looked at first, and how it is stored."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ioassay.errors import InputError, UsageError
from ioassay.study import catalog
from ioassay.study.model import make_study
from ioassay.tuning import objective, request
from ioassay.tuning.objective import make_goal, parse_constraint
from ioassay.tuning.request import Request

from ..corpora import cases


def asked(study: Any, ranges: dict[str, str] | None = None, defaults: dict[str, Any] | None = None) -> Request:
    axes, default = request.space(study, ranges or {}, defaults or {}, listed=not ranges)
    return Request(objective.make_goal("value", None, ("value < 5",)), axes, default, trials=9, seed=1, confirm=5)


def test_the_default_is_the_first_level_as_the_study_lists_them(lab: Any) -> None:
    study = lab.study(factors={"x": [4, 1, 2], "y": ["b", "a"]})
    assert asked(study).default == {"x": 4, "y": "b"}


def test_a_fixed_parameter_of_the_study_is_the_default_before_a_level_is(lab: Any) -> None:
    study = lab.study(params={"x": 2}, factors={"x": [4, 1, 2]})
    assert asked(study).default == {"x": 2}
    depth = lab.study(params={"depth": 6})
    assert asked(depth, {"depth": "1..8"}).default["depth"] == 6


def test_what_a_job_file_fixes_is_the_default_unless_the_user_says_another(lab: Any) -> None:
    study, ranges = lab.study(factors={"y": [1, 2]}), {"iodepth": "1..8"}

    def fixed(name: str) -> str | None:
        return "4" if name == "iodepth" else None

    assert request.space(study, ranges, {}, listed=False, fixed=fixed)[1] == {"y": 1, "iodepth": 4}
    assert request.space(study, ranges, {"iodepth": 2}, listed=False, fixed=fixed)[1]["iodepth"] == 2


def test_the_user_says_the_default_in_any_spelling(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4KiB", "64KiB"], "x": [1, 2]})
    assert asked(study, defaults={"bs": 65536}).default == {"bs": "64KiB", "x": 1}
    assert asked(study, defaults={"bs": "64k", "x": "2"}).default == {"bs": "64KiB", "x": 2}


def test_a_default_of_an_axis_of_times_is_a_time(lab: Any) -> None:
    study = lab.study(factors={"x": [1, 2]})
    axes, default = request.space(study, {"runtime": "30s,90s,300s"}, {"runtime": "2m"}, listed=False)
    times = next(axis for axis in axes if axis.name == "runtime")
    assert (times.levels, times.numbers) == (("30s", "90s", "2m", "300s"), (30, 90, 120, 300))
    assert default["runtime"] == "2m"


def test_a_default_beside_the_range_is_tried_all_the_same(lab: Any) -> None:
    made = asked(lab.study(params={"x": 3}, factors={"y": ["a", "b"]}), {"x": "4..8"})
    (axis,) = (axis for axis in made.axes if axis.name == "x")
    assert axis.levels == (3, 4, 5, 6, 7, 8)
    assert axis.numbers == (3, 4, 5, 6, 7, 8)
    assert made.default["x"] == 3


@pytest.mark.parametrize("defaults", [{"z": 1}, {"x": "word"}])
def test_a_default_that_cannot_be_is_refused(lab: Any, defaults: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--default"):
        asked(lab.study(), defaults=defaults)


def test_a_space_beyond_counting_is_refused_with_a_way_out(lab: Any) -> None:
    with pytest.raises(UsageError, match="give --range a step"):
        asked(lab.study(), {"a": "1..1000", "b": "1..1000", "c": "1..1000"})


def test_what_was_asked_comes_back_as_it_was_stored(lab: Any) -> None:
    made = asked(lab.study(), {"d": "0.1..0.9:0.1"})
    assert request.from_table(made.as_table(), "tune.json") == made


@pytest.mark.parametrize("change", [{"schema": 99}, {"axes": None}, {"trials": ...}])
def test_what_no_search_can_have_been_asked_is_refused(lab: Any, change: dict[str, Any]) -> None:
    table = {**asked(lab.study()).as_table(), **change}
    with pytest.raises(InputError, match=r"tune\.json"):
        request.from_table({key: value for key, value in table.items() if value is not ...}, "tune.json")


def test_the_study_of_a_search_has_the_axes_as_factors_and_asks_what_a_search_can_answer(lab: Any) -> None:
    study = lab.study(
        repetitions=None,
        until={"metric": "value"},
        watch={"witness": "block", "twins": True, "monitors": ["cpu"], "calls": {"x": [1]}},
        analysis={"questions": ["peak"], "confidence": 0.9},
    )
    made = asked(study, {"x": "1..9", "z": "1..3"})
    found = request.searched(study, made.goal, made.axes)
    assert found.factors == {"x": list(range(1, 10)), "y": ["a", "b", "c"], "z": [1, 2, 3]}
    assert found.until is None and found.max_repetitions == 1
    assert not found.watch.twins and not found.watch.calls and found.watch.witness == "block"
    assert found.analysis.questions == list(request.QUESTIONS)
    assert found.analysis.confidence == 0.9
    assert found.analysis.responses == ["value"]


def test_one_case_is_no_axis_and_yet_the_one_that_is_run() -> None:
    study = catalog.load("write-buffer-size").studies[0]
    one, rest = request.with_cases(study, {"case": "Poisson, normal", "buffer": "4MiB..8MiB"})
    assert [case["name"] for case in one.case] == ["Poisson, normal"]
    assert rest == {"buffer": "4MiB..8MiB"}
    assert request.with_cases(study, {"buffer": "4MiB..8MiB"})[0] == study


def test_of_many_points_the_outer_ones_are_examined_and_of_targets_all() -> None:
    table = {
        "name": "s",
        "title": "S",
        "driver": "null",
        "target": {"kind": "null"},
        "factors": {"x": [1, 2], "y": [1, 2], "target.size": [1, 2]},
    }
    study = make_study(table, "s.toml")
    made = asked(study, {"x": "1..100", "y": "1..100", "target.size": "1..50"}, {"x": 37})
    searched = request.searched(study, made.goal, made.axes)
    factors = request.examined(searched, made).factors
    assert math.prod(map(len, factors.values())) <= request.MOST_EXAMINED
    assert {1, 37, 100} <= set(factors["x"])
    assert len(factors["target.size"]) == 50
    small = asked(study)
    assert request.examined(study, small) == study


# The goal


@cases("tuning", "constraints")
def test_a_bound_is_read_in_the_unit_of_its_metric_or_refused(case: dict[str, Any]) -> None:
    if "bound" in case:
        assert parse_constraint(case["text"]).bound == pytest.approx(case["bound"])
    else:
        with pytest.raises(UsageError, match=case["wanted"]):
            parse_constraint(case["text"])


def test_violations_are_shares_of_the_bound_on_either_side() -> None:
    below, above = parse_constraint("write.lat.p99 < 5ms"), parse_constraint("read.iops >= 1000")
    assert below.violation(6e6) == pytest.approx(0.2)
    assert below.violation(4e6) == pytest.approx(-0.2)
    assert above.violation(800) == pytest.approx(0.2)
    assert above.violation(1000) == 0
    assert below.violation(5e6) > 0, "less, not equal"
    assert below.violation(math.nan) == below.violation(None) == math.inf


def test_constraints_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        make_goal("read.bw", None, ["read.iops < 10", "read.iops > 20"])
    make_goal("read.bw", None, ["read.iops < 20", "read.iops > 10"])


def test_a_goal_wants_one_direction_and_warns_of_the_wrong_one() -> None:
    with pytest.raises(UsageError, match="both"):
        make_goal("read.bw", "write.bw")
    with pytest.raises(UsageError, match="neither"):
        make_goal(None, None)
    with pytest.raises(UsageError, match="did you mean 'read.bw'"):
        make_goal("read.bww", None)
    assert "lower is better" in (make_goal("read.lat.p99", None).warning or "")
    assert make_goal(None, "read.lat.p99").warning is None
    assert make_goal("bogo_ops", None).warning is None
