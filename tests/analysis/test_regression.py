"""Regression of a response on a numeric factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioassay.analysis.effects import regression
from ioassay.narrative.finding import Finding


def one(lab: Any, levels: list[Any], measure: Any, name: str = "numjobs", repetitions: int = 6) -> Finding:
    study = lab.study(factors={name: levels})
    (found,) = regression.analyse(lab.records(lab.run(study, measure, repetitions)), study)
    return found


def test_a_linear_response_prefers_the_linear_model(lab: Any) -> None:
    rng = np.random.default_rng(1)
    found = one(lab, [1, 2, 4, 8, 16], lambda p, _: {"read.bw": 1e8 + 1e7 * p["numjobs"] + rng.normal(0, 1e6)})
    line = found.statistics["linear"]
    assert found.statistics["better"] == "linear"
    assert line["slope_interval"]["low"] < 1e7 < line["slope_interval"]["high"]
    assert line["intercept"] == pytest.approx(1e8, rel=0.02)
    assert line["lack_of_fit"]["p"] > 0.01
    assert "grows with number of jobs: +10" in found.statement


def test_sizes_are_read_and_a_logarithmic_response_prefers_doublings(lab: Any) -> None:
    rng = np.random.default_rng(2)
    sizes = ["1KiB", "4KiB", "16KiB", "64KiB", "256KiB"]
    found = one(
        lab, sizes, lambda p, _: {"read.bw": 5e7 + 2e7 * np.log2(int(p["bs"][:-3])) + rng.normal(0, 1e6)}, name="bs"
    )
    assert found.statistics["better"] == "log2"
    assert found.statistics["log2"]["slope"] == pytest.approx(2e7, rel=0.02)
    assert "per doubling of block size" in found.statement


def test_a_level_of_zero_leaves_only_the_linear_model(lab: Any) -> None:
    rng = np.random.default_rng(3)
    found = one(
        lab, [0, 25, 50], lambda p, _: {"read.bw": 1e8 - 1e5 * p["rwmixwrite"] + rng.normal(0, 1e5)}, "rwmixwrite"
    )
    assert "log2" not in found.statistics
    assert any("is 0" in caveat for caveat in found.caveats)


def test_a_curve_that_no_line_fits_says_so(lab: Any) -> None:
    rng = np.random.default_rng(4)
    found = one(lab, [1, 2, 4, 8, 16], lambda p, _: {"read.bw": 1e8 * (1 + (p["numjobs"] == 4)) + rng.normal(0, 1e5)})
    assert any("Neither model" in caveat for caveat in found.caveats)


def test_no_slope_is_said_plainly(lab: Any) -> None:
    rng = np.random.default_rng(5)
    found = one(lab, [1, 2, 4], lambda p, _: {"read.bw": rng.normal(1e8, 1e6)})
    assert "no visible slope" in found.statement


def test_words_and_two_levels_have_no_regression(lab: Any) -> None:
    for levels in (["rw", "randrw", "read"], [1, 2]):
        study = lab.study(factors={"x": levels})
        assert regression.analyse(lab.records(lab.run(study, lambda *_: {"read.bw": 1.0}, 3)), study) == []


def test_identical_repetitions_on_a_line_fit_exactly(lab: Any) -> None:
    found = one(lab, [1, 2, 4], lambda p, _: {"read.bw": 10.0 * p["numjobs"]}, repetitions=3)
    assert found.statistics["better"] == "linear"
    assert found.statistics["linear"]["aic"] is None
    assert found.statistics["linear"]["r2"] == pytest.approx(1.0)


def test_other_factors_give_a_line_each(lab: Any) -> None:
    study = lab.study(factors={"rw": ["rw", "randrw"], "numjobs": [1, 2, 4]})
    rng = np.random.default_rng(6)
    found = regression.analyse(lab.records(lab.run(study, lambda p, _: {"read.bw": rng.normal(100, 1)}, 4)), study)
    assert [dict(finding.where) for finding in found] == [{"rw": "rw"}, {"rw": "randrw"}]
