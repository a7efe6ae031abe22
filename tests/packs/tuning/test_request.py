"""What a search is asked: its goal, its default, how it is stored, and what may be tried between a study's levels."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from ioassay.errors import InputError, StudyError, UsageError
from ioassay.packs.tuning.search import campaign, request
from ioassay.packs.tuning.search.request import Request, make_goal, parse_constraint
from ioassay.packs.tuning.search.space import MAX_LEVELS, Axis, axes, points
from ioassay.study import catalog
from ioassay.study.model import Study, make_study

from ...corpora import cases, has


def asked(study: Any, ranges: dict[str, str] | None = None, defaults: dict[str, Any] | None = None) -> Request:
    axes, default = request.space(study, ranges or {}, defaults or {}, listed=not ranges)
    return Request(request.make_goal("value", None, ("value < 5",)), axes, default, trials=9, seed=1, confirm=5)


@cases("tuning", "defaults")
def test_where_the_default_comes_from(searches: Any, case: dict[str, Any]) -> None:
    of = {name: case[name] for name in ("params", "factors") if name in case}
    made = asked(searches.study(**of), case.get("ranges"), case.get("defaults"))
    assert has(made.default, case["default"])
    assert set(made.default) == set(case["default"]) or "ranges" in case
    levels = {axis.name: (list(axis.levels), list(axis.numbers or ())) for axis in made.axes}
    for name, wanted in case.get("levels", {}).items():
        assert levels[name] == (wanted, case.get("numbers", wanted))


def test_what_a_job_file_fixes_is_the_default_unless_the_user_says_another(searches: Any) -> None:
    study, ranges = searches.study(factors={"y": [1, 2]}), {"iodepth": "1..8"}

    def stated(params: Any, name: str) -> str | None:
        return "4" if name == "iodepth" else None

    assert request.space(study, ranges, {}, listed=False, stated=stated)[1] == {"y": 1, "iodepth": 4}
    assert request.space(study, ranges, {"iodepth": 2}, listed=False, stated=stated)[1]["iodepth"] == 2


@pytest.mark.parametrize("defaults", [{"z": 1}, {"x": "word"}])
def test_a_default_that_cannot_be_is_refused(searches: Any, defaults: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--default"):
        asked(searches.study(), defaults=defaults)


def test_a_space_beyond_counting_is_refused_with_a_way_out(searches: Any) -> None:
    with pytest.raises(UsageError, match="give --range a step"):
        asked(searches.study(), {"a": "1..1000", "b": "1..1000", "c": "1..1000"})


def test_what_was_asked_comes_back_as_it_was_stored(searches: Any) -> None:
    made = asked(searches.study(), {"d": "0.1..0.9:0.1"})
    assert request.from_table(made.as_table(), "tune.json") == made


@pytest.mark.parametrize("change", [{"schema": 99}, {"axes": None}, {"trials": ...}])
def test_what_no_search_can_have_been_asked_is_refused(searches: Any, change: dict[str, Any]) -> None:
    store = searches.begin(searches.study(), asked(searches.study()))
    table = {**asked(searches.study()).as_table(), **change}
    (store.root / "tune.json").write_text(json.dumps({key: one for key, one in table.items() if one is not ...}))
    with pytest.raises(InputError, match=r"tune\.json"):
        campaign.resumed(store)


def test_the_study_of_a_search_has_the_axes_as_factors_and_asks_what_a_search_can_answer(searches: Any) -> None:
    study = searches.study(
        repetitions=None,
        until={"metric": "value"},
        watch={"witness": "block", "twins": True, "monitors": ["cpu"], "calls": {"x": [1]}},
        analysis={"questions": ["peak"], "confidence": 0.9},
    )
    made = asked(study, {"x": "1..9", "z": "1..3"})
    found = request.searched(study, made)
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
    searched = request.searched(study, made)
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


# A study's factors as axes: what may be tried between the levels that are listed, and what the command line names


def study(factors: dict[str, list[Any]], **more: Any) -> Study:
    return make_study({"name": "s", "title": "S", "driver": "null", "factors": factors, **more}, "s.toml")


def axis(levels: list[Any], **how: Any) -> Axis:
    (found,) = axes(study({"x": levels}), **how)
    return found


def named(text: str) -> Axis:
    return axes(study({"y": [1, 2]}), ranges={"x": text})[-1]


@cases("tuning", "scales")
def test_doublings_are_a_logarithmic_axis_and_two_ends_say_nothing(case: dict[str, Any]) -> None:
    assert (axis(case["listed"]) if "listed" in case else named(case["range"])).log == case["log"]


def test_levels_are_every_number_between_and_sizes_stay_multiples_of_the_smallest() -> None:
    found = axis([1, 2, 4, 8, 16])
    assert (found.levels, found.numbers) == (tuple(range(1, 17)), tuple(map(float, range(1, 17))))
    assert named("log:1..256").levels == named("1..256").levels
    assert len([level for level in named("log:1..1000000").levels if int(level) <= 1000]) > MAX_LEVELS // 4
    found = axis(["4KiB", "16KiB", "1MiB"])
    assert (found.levels[:3], found.levels[-2:]) == (("4KiB", "8KiB", "12KiB"), ("1020KiB", "1MiB"))
    assert {number % 4096 for number in found.numbers or (1,)} == {0}
    assert axis([512, 4096, 8192]).levels == tuple(range(512, 8193, 512))


@cases("tuning", "levels")
def test_levels_between_those_that_are_listed_and_of_ranges(case: dict[str, Any]) -> None:
    if "listed" in case:
        assert axis(case["listed"]).levels == tuple(case["levels"])
    elif "levels" in case:
        assert named(case["range"]).levels == tuple(case["levels"])
    else:
        with pytest.raises(UsageError, match=r"range of x is .*expected") as caught:
            named(case["range"])
        assert repr(case["range"]) in str(caught.value)


def test_long_axes_are_thinned_and_keep_the_listed_levels() -> None:
    found = axis(["4KiB", "12KiB", "64KiB", "1GiB"])
    assert 500 < len(found.levels) <= MAX_LEVELS
    assert {"4KiB", "12KiB", "64KiB", "1GiB"} <= set(found.levels)
    assert found.numbers is not None
    assert list(found.numbers) == sorted(set(found.numbers))


def test_listed_levels_only_when_asked_for() -> None:
    assert axis([8, 1, 64], listed=True).levels == (1, 8, 64)


def test_cases_are_an_axis_and_single_levels_are_none() -> None:
    cases = [{"name": "a", "rw": "read"}, {"name": "b", "rw": "write"}]
    found = axes(study({"x": [1, 2], "one": [7]}, case=cases))
    assert [axis.name for axis in found] == ["case", "x"]
    assert found[0].levels == ("a", "b")
    assert points(found) == 4


def test_a_range_that_lists_one_level_twice_names_both_spellings() -> None:
    for text, same in (("4k,8k,4KiB", "'4k' and '4KiB' both mean 4096"), ("1,2,1.0", "1 and 1.0 both mean 1")):
        with pytest.raises(UsageError, match=f"range of x is '{text}', expected each level once; {same}"):
            named(text)
    assert named("Fast,fast").levels == ("Fast", "fast")


def test_a_range_of_a_metric_of_an_unknown_case_or_of_a_cases_own_parameter_is_refused() -> None:
    cases = [{"name": "a", "rw": "read"}, {"name": "b", "rw": "write"}]
    with pytest.raises(UsageError, match="metric"):
        axes(study({"x": [1, 2]}), ranges={"bogo_ops": "1..4"})
    with pytest.raises(UsageError, match="no case is called 'c'"):
        axes(study({}, case=cases), ranges={"case": "a,c"})
    with pytest.raises(UsageError, match="case 'a' sets it"):
        axes(study({}, case=cases), ranges={"rw": "read,write"})
    with pytest.raises(UsageError, match="not a factor name"):
        axes(study({"x": [1, 2]}), ranges={"a b": "1..4"})


def test_a_study_without_anything_to_vary_is_refused_with_the_remedy() -> None:
    with pytest.raises(StudyError, match=r"nothing to search.*--range"):
        axes(study({"x": [1]}))
