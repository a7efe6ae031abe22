"""Regression of a response on a numeric factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis import one_factor
from ioassay.analysis.one_factor import LINEAR, LOGARITHMIC, LineOutcome, Regression
from ioassay.stats.linear_models import LackOfFit


def lines(lab: Any, study: Any, measure: Any, repetitions: int) -> list[Regression]:
    groups = one_factor.effects(lab.records(lab.run(study, measure, repetitions)), study, "read.bw")
    return [effect.line for group in groups for effect in group.effects if effect.line]


def fitted(lab: Any, levels: list[Any], measure: Any, name: str = "numjobs", repetitions: int = 6) -> Regression:
    study = lab.study(factors={name: levels})
    (answer,) = lines(lab, study, measure, repetitions)
    return answer


def test_a_linear_response_prefers_the_linear_model(lab: Any) -> None:
    rng = np.random.default_rng(1)
    answer = fitted(lab, [1, 2, 4, 8, 16], lambda p, _: {"read.bw": 1e8 + 1e7 * p["numjobs"] + rng.normal(0, 1e6)})
    line, lack = answer.line, answer.lack
    assert (answer.better, answer.outcome) == (LINEAR, LineOutcome.STRAIGHT)
    assert line.slope_interval.low < 1e7 < line.slope_interval.high
    assert line.intercept == pytest.approx(1e8, rel=0.02)
    assert isinstance(lack, LackOfFit) and lack.p > 0.01


def test_sizes_are_read_and_a_logarithmic_response_prefers_doublings(lab: Any) -> None:
    rng = np.random.default_rng(2)
    sizes = ["1KiB", "4KiB", "16KiB", "64KiB", "256KiB"]
    answer = fitted(
        lab, sizes, lambda p, _: {"read.bw": 5e7 + 2e7 * np.log2(int(p["bs"][:-3])) + rng.normal(0, 1e6)}, name="bs"
    )
    assert (answer.better, answer.outcome) == (LOGARITHMIC, LineOutcome.STRAIGHT)
    assert answer.line.slope == pytest.approx(2e7, rel=0.02)


def test_a_level_of_zero_leaves_only_the_linear_model(lab: Any) -> None:
    rng = np.random.default_rng(3)
    answer = fitted(
        lab, [0, 25, 50], lambda p, _: {"read.bw": 1e8 - 1e5 * p["rwmixwrite"] + rng.normal(0, 1e5)}, "rwmixwrite"
    )
    assert (answer.kind, answer.better) == (LINEAR, LINEAR)


def test_a_curve_that_no_line_fits_is_curved(lab: Any) -> None:
    rng = np.random.default_rng(4)
    steep = fitted(lab, [1, 2, 4, 8, 16], lambda p, _: {"read.bw": 1e8 * p["numjobs"] ** 3 + rng.normal(0, 1e5)})
    assert steep.outcome == LineOutcome.CURVED
    peak = fitted(lab, [1, 2, 4, 8, 16], lambda p, _: {"read.bw": 1e8 * (1 + (p["numjobs"] == 4)) + rng.normal(0, 1e5)})
    assert isinstance(peak.lack, LackOfFit) and peak.lack.p < 0.05


def test_noise_has_no_slope(lab: Any) -> None:
    rng = np.random.default_rng(5)
    assert fitted(lab, [1, 2, 4], lambda p, _: {"read.bw": rng.normal(1e8, 1e6)}).outcome == LineOutcome.NO_SLOPE


def test_words_and_two_levels_have_no_regression(lab: Any) -> None:
    for levels in (["rw", "randrw", "read"], [1, 2]):
        study = lab.study(factors={"x": levels})
        assert lines(lab, study, lambda *_: {"read.bw": 1.0}, 3) == []


def test_identical_repetitions_on_a_line_fit_exactly(lab: Any) -> None:
    answer = fitted(lab, [1, 2, 4], lambda p, _: {"read.bw": 10.0 * p["numjobs"]}, repetitions=3)
    assert answer.better == LINEAR
    assert answer.line.aic is None
    assert answer.line.r2 == pytest.approx(1.0)


def test_other_factors_give_a_line_each(lab: Any) -> None:
    study = lab.study(factors={"rw": ["rw", "randrw"], "numjobs": [1, 2, 4]})
    rng = np.random.default_rng(6)
    answers = lines(lab, study, lambda p, _: {"read.bw": rng.normal(100, 1)}, 4)
    assert [answer.cells.where() for answer in answers] == [{"rw": "rw"}, {"rw": "randrw"}]
