"""The shape of a response over an ordered factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corpora import cases
from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.one_factor import Shape, level_families, shape
from ioassay.stats.shapes import ShapeKind

LEVELS = [1, 2, 4, 6, 8]


def found(lab: Any, means: list[float], noise: float = 0.01, levels: list[Any] | None = None, n: int = 8) -> Shape:
    rng = np.random.default_rng(1)
    levels = levels or LEVELS
    study = lab.study(factors={"numjobs": levels})
    by_level = dict(zip(levels, means, strict=True))
    rows = lab.run(study, lambda p, _: {"read.bw": by_level[p["numjobs"]] * rng.lognormal(0, noise)}, n)
    (family,) = level_families(cells(lab.records(rows), study, "read.bw"), "numjobs", 0.95)
    curve = shape(family)
    assert curve is not None
    return curve


@cases("contradictions", "shapes")
def test_shapes_are_told_apart(lab: Any, case: dict[str, Any]) -> None:
    assert found(lab, case["means"]).kind == case["kind"]


def test_noise_hides_a_shape_and_that_is_said(lab: Any) -> None:
    assert found(lab, [1.0, 1.01, 1.02, 1.0, 1.03], noise=0.3, n=4).kind == ShapeKind.UNCLEAR


def test_many_levels_together_show_a_tendency_that_no_pair_does(lab: Any) -> None:
    levels = list(range(1, 10))
    curve = found(lab, [1 + 0.05 * level for level in levels], noise=0.1, levels=levels, n=3)
    assert curve.kind == ShapeKind.UP and curve.tendency is not None and curve.tendency < 0.05
    assert curve.change.interval.low < 1
    assert curve.plateau is None


def test_a_rise_begins_at_the_lowest_level_where_the_curve_falls_first(lab: Any) -> None:
    curve = found(lab, [118, 76, 150, 900, 8720], noise=0.3, n=4)
    assert curve.kind == ShapeKind.UP
    assert (curve.start.point, curve.end.point) == ({"numjobs": 2}, {"numjobs": 8})
    assert curve.change.estimate > 50


def test_means_that_go_back_by_all_of_their_gain_have_no_direction(lab: Any) -> None:
    assert found(lab, [100, 160, 100, 104, 150], noise=0.3, n=3).kind == ShapeKind.UNCLEAR


def test_a_rise_needs_no_certain_ends_and_is_said_between_those_that_are(lab: Any) -> None:
    curve = found(lab, [103, 100, 106, 110, 106], noise=0.03, n=8)
    assert curve.kind == ShapeKind.UP
    assert (curve.start, curve.end) == (curve.lowest, curve.highest)
    assert curve.change.interval.low > 1


def test_saturation_is_where_later_levels_gain_no_more(lab: Any) -> None:
    curve = found(lab, [100, 190, 360, 365, 362])
    assert curve.kind == ShapeKind.UP
    assert curve.plateau is not None and curve.plateau.point == {"numjobs": 4}


def test_a_curve_that_still_grows_has_no_plateau(lab: Any) -> None:
    assert found(lab, [100, 200, 300, 400, 500]).plateau is None
    # Nor one whose last steps only look small beside the first.
    assert found(lab, [100, 103, 106, 109, 112], noise=0.001).plateau is None


def test_the_change_is_last_over_first_with_its_interval(lab: Any) -> None:
    curve = found(lab, [100, 200, 300, 400, 500])
    assert curve.change.estimate == pytest.approx(5, rel=0.03)
    assert curve.change.interval.low < 5 < curve.change.interval.high


def test_levels_are_ordered_by_their_numbers_not_by_the_study(lab: Any) -> None:
    curve = found(lab, [3, 1, 2], levels=[4, 1, 2])
    assert curve.kind == ShapeKind.UP
    assert (curve.start.point, curve.end.point) == ({"numjobs": 1}, {"numjobs": 4})


def test_single_repetitions_and_values_at_zero_have_no_shape(lab: Any) -> None:
    study = lab.study(factors={"numjobs": [1, 2, 4]})
    for rows in (
        lab.run(study, lambda p, _: {"read.bw": float(p["numjobs"])}, 1),
        lab.run(study, lambda p, r: {"read.bw": float(r - 1), "read.ios": 5.0}, 3),
    ):
        (family,) = level_families(cells(lab.records(rows), study, "read.bw"), "numjobs", 0.95)
        assert shape(family) is None
