"""The figure path_costs: the parts of a request stacked by case, and what it says without a drive that counts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # importmode=importlib leaves it out

from ioassay.records.record import Scalar
from ioassay.report.figures import FIGURES, bars
from ioassay.report.figures.spec import NoData
from ioassay.study.model import Study
from lab import Lab

CASES = [
    {"name": "libaio", "ioengine": "libaio", "target.form": "kernel"},
    {"name": "spdk", "ioengine": "spdk_bdev", "target.ways": ["nvme-tcp"]},
]


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


def study(lab: Any) -> Study:
    target = {"kind": "virtual", "size": 2**28}
    made: Study = lab.study("paths", case=CASES, factors={"numjobs": [1, 4]}, target=target)
    return made


def measured(point: dict[str, Any], repetition: int) -> dict[str, float]:
    slat, drive, floor, lat = (2e3, 3e3, 9e3, 36e3) if point["case"] == "libaio" else (0.5e3, 2e3, 10e3, 14e3)
    return {
        "total.iops": 1e9 / lat,
        "read.ios": 1000.0,
        "drive.read.ios": 1000.0,
        "read.lat.mean": lat * point["numjobs"],
        "read.slat.mean": slat,
        "drive.read.lat.mean": drive,
        "drive.floor": floor,
        "drive.block_device": 0.0,
    }


def bar_parts(lab: Any, measure: Any = measured, **where: Scalar) -> dict[tuple[str, str], tuple[float, float]]:
    of = study(lab)
    spec = bars.CostSpec(kind="path_costs", name="costs", where=where)
    chart = bars.draw_costs(lab.records(lab.run(of, measure, 2)), of, spec)
    rows = chart["data"]["values"]
    return {(row["x"], row["part"]): (row["y"], row["y2"]) for row in rows}


def test_the_parts_of_each_case_lie_on_each_other_up_to_the_latency(lab: Any) -> None:
    found = bar_parts(lab, numjobs=1)
    assert found["libaio", "submission"] == (0.0, 2.0) and found["libaio", "drive"] == (2.0, 5.0)
    assert found["libaio", "transport"] == (5.0, 14.0) and found["libaio", "completion and waiting"] == (14.0, 36.0)
    assert found["spdk", "completion and waiting"] == (12.5, 14.0)


def test_without_a_restriction_a_bar_is_the_mean_of_its_conditions(lab: Any) -> None:
    assert bar_parts(lab)["libaio", "completion and waiting"] == (14.0, 90.0)


def test_a_drive_that_counted_nothing_has_no_figure(lab: Any) -> None:
    def other(point: dict[str, Any], repetition: int) -> dict[str, float]:
        return {**measured(point, repetition), "drive.read.ios": 500.0}

    with pytest.raises(NoData, match="a drive that counted the tool's requests"):
        bar_parts(lab, other)
    assert FIGURES["path_costs"].endswith("bars:PATH_COSTS")
