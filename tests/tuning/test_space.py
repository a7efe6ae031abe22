"""A study's factors as axes: what may be tried between the levels that are listed, and what the command line names."""

from __future__ import annotations

from typing import Any

import pytest

from ioassay.errors import StudyError, UsageError
from ioassay.study.model import Study, make_study
from ioassay.tuning.axis import MAX_LEVELS, Axis
from ioassay.tuning.space import axes, points

from ..corpora import cases


def study(factors: dict[str, list[Any]], **more: Any) -> Study:
    return make_study({"name": "s", "title": "S", "driver": "null", "factors": factors, **more}, "s.toml")


def axis(levels: list[Any], **how: Any) -> Axis:
    (found,) = axes(study({"x": levels}), **how)
    return found


def named(text: str) -> Axis:
    return axes(study({"y": [1, 2]}), ranges={"x": text})[-1]


def test_integers_become_every_integer_and_doublings_a_logarithmic_axis() -> None:
    found = axis([1, 2, 4, 8, 16])
    assert found.levels == tuple(range(1, 17))
    assert found.numbers == tuple(float(number) for number in range(1, 17))
    assert found.log
    assert not axis([0, 12, 25, 38, 50]).log
    assert not axis([1, 2, 4, 6, 8]).log
    assert not axis([1, 2, 4, 8, 128]).log
    assert axis([1, 3, 10, 30]).log
    assert not axis([10, 12, 14]).log


def test_two_ends_say_nothing_of_a_scale_and_the_word_log_does() -> None:
    assert not axis([1, 1000]).log
    assert not named("1..256").log
    assert named("1..64:*2").log
    assert named("log:1..256").log
    assert named("log:1..256").levels == named("1..256").levels
    assert named("log:4KiB,12KiB,1MiB").log
    assert len([level for level in named("log:1..1000000").levels if int(level) <= 1000]) > MAX_LEVELS // 4


def test_sizes_stay_multiples_of_the_smallest_and_are_spelled_like_the_others() -> None:
    found = axis(["4KiB", "16KiB", "1MiB"])
    assert found.levels[:3] == ("4KiB", "8KiB", "12KiB")
    assert found.levels[-2:] == ("1020KiB", "1MiB")
    assert found.numbers is not None
    assert {number % 4096 for number in found.numbers} == {0}
    assert axis([512, 4096, 8192]).levels == tuple(range(512, 8193, 512))
    assert axis(["500kB", "2MB"]).levels == ("500kB", "1MB", "1500kB", "2MB")


@cases("tuning", "levels")
def test_levels_between_those_that_are_listed_and_of_ranges(case: dict[str, Any]) -> None:
    if "listed" in case:
        assert axis(case["listed"]).levels == tuple(case["levels"])
    elif "levels" in case:
        assert named(case["range"]).levels == tuple(case["levels"])
    else:
        with pytest.raises(UsageError, match=r"range of x is .*wanted") as caught:
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
        with pytest.raises(UsageError, match=f"range of x is '{text}', wanted each level once; {same}"):
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
