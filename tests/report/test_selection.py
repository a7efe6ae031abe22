"""Which conditions a figure shows, and what its reader is told about them."""

from __future__ import annotations

import pytest

from ioassay import factors
from ioassay.report.figures import chart, selection
from ioassay.report.figures.spec import FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


def test_levels_come_in_the_order_of_the_study(suite: Dataset) -> None:
    study = suite.studies[1]
    found = ["1024KiB", "2KiB", "512KiB", None, "1KiB", "3KiB"]
    assert study.design.in_order("bs", found) == ["1KiB", "2KiB", "512KiB", "1024KiB", "3KiB"]


@pytest.mark.parametrize(
    ("level", "shown"), [("4KiB", "4 KiB"), (512, "512 B"), ("1024KiB", "1024 KiB"), ("2MiB", "2 MiB")]
)
def test_request_sizes_are_shown_in_kib(level: object, shown: str) -> None:
    assert factors.level_label("bs", level) == shown


def test_whole_numbers_have_no_point() -> None:
    assert factors.level_label("numjobs", 4.0) == "4"


def test_where_keeps_matching_trials(suite: Dataset) -> None:
    trials = selection.select(suite, suite.studies[0], {"rw": "rw", "rwmixwrite": "25"})
    assert trials.height == 5
    assert set(trials["rwmixwrite"]) == {25}


def test_trials_that_all_failed_are_told_with_their_reason(lost: Dataset) -> None:
    with pytest.raises(NoData, match=r"none of the 11 trials went well: fio did no I/O"):
        selection.select(lost, lost.studies[1], {})


def test_a_condition_that_was_never_run_is_named(suite: Dataset) -> None:
    with pytest.raises(NoData, match=r"no trial of the study 'block-size' with bs = 3 KiB was recorded"):
        selection.select(suite, suite.studies[1], {"bs": "3KiB"})


def test_an_unknown_factor_is_named_with_those_that_exist(suite: Dataset) -> None:
    with pytest.raises(NoData, match=r"'write-share' has no factor 'iodepth'; it has rw, rwmixwrite"):
        selection.measured(suite, suite.studies[0], {}, "read.bw", "iodepth")


def test_a_metric_that_no_trial_has_is_named(suite: Dataset) -> None:
    with pytest.raises(NoData, match=r"none of the 55 trials that went well has the metric 'trim.bw'"):
        selection.measured(suite, suite.studies[1], {}, "trim.bw", "bs")


def test_conditions_without_the_metric_are_left_out(suite: Dataset) -> None:
    cells = selection.measured(suite, suite.studies[0], {"rw": "rw"}, "read.bw", "rwmixwrite")
    assert [cell.point["rwmixwrite"] for cell in cells] == [0, 12, 25, 38, 50, 63, 75, 88]


def test_conditions_that_lie_in_one_mark_are_told() -> None:
    points = [{"bs": "4k", "numjobs": 1}, {"bs": "4k", "numjobs": 2}, {"bs": "8k", "numjobs": 1}]
    assert selection.pooled(points, "bs") == "all levels of number of jobs together"
    assert selection.pooled(points, "bs", "numjobs") == ""


def test_the_subtitle_names_what_is_fixed(suite: Dataset) -> None:
    shown = selection.conditions(suite.studies[1], FigureSpec(kind="trend", name="x"))
    assert shown == "rw = randrw, ioengine = libaio, iodepth = 16, direct = 1"


def test_the_title_names_the_restriction() -> None:
    spec = FigureSpec(kind="trend", name="x", where={"rw": "randrw", "numjobs": 4})
    assert chart.titled(spec, "Read bandwidth") == "Read bandwidth (randrw, numjobs = 4)"
    study = Study(name="s", title="S", driver="fio", params={"direct": 1})
    own = chart.figure({}, spec.model_copy(update={"title": "Mine"}), study, "Read bandwidth", ["n = 3"])["title"]
    assert own["text"] == ["Mine"]
    assert " ".join(own["subtitle"]).replace("\u00a0", " ") == "rw = randrw, numjobs = 4 · n = 3 · direct = 1"
