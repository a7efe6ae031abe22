"""Units and ticks of axes."""

from __future__ import annotations

from typing import Any

from ioassay.report.figures import axes

from ..corpora import cases


@cases("units", "axes")
def test_an_axis_is_in_the_unit_of_its_largest_number(case: dict[str, Any]) -> None:
    found = axes.unit_for(case["metric"], [0.0, case["largest"]])
    assert (found.name, found.scale(case["largest"])) == (case["unit"], case["shown"])


def test_an_axis_title_names_the_unit_once() -> None:
    assert axes.Unit(1e6, "MB/s").titled("Read bandwidth") == "Read bandwidth (MB/s)"
    assert axes.Unit(1, "").titled("Read IOPS") == "Read IOPS"


def test_logarithmic_ticks_are_decades_where_there_are_many_and_finer_where_few() -> None:
    assert axes.log_ticks(50, 3e7) == [100, 1000, 10000, 100000, 1e6, 1e7]
    assert axes.log_ticks(900, 60000) == [1000, 2000, 5000, 10000, 20000, 50000]


def test_labels_stand_at_their_positions_only() -> None:
    assert axes.labels_at({1024: "1 KiB", 0.5: "half"}) == '({"1024": "1 KiB", "0.5": "half"})[datum.value] || \'\''


def test_a_label_cannot_end_its_expression() -> None:
    hostile = '"})[0]; alert(1); ({"'
    assert '\\"})[0]' in axes.labels_at({1: hostile})
