"""What the analyses of effects say, one golden text a question."""

from __future__ import annotations

from typing import Any

import numpy as np

import golden
from ioassay.analysis.effects import regression
from ioassay.analysis.effects.regression import Outcome
from ioassay.narrative import regression_text


def test_regression(lab: Any) -> None:
    rng = np.random.default_rng(1)
    factors = {"rw": ["read", "randread", "randrw"], "numjobs": [1, 2, 4, 8]}
    curve = {"read": lambda _: 5.0, "randread": lambda jobs: 1.0 + jobs, "randrw": lambda jobs: 8.0 * min(jobs, 2)}

    def measure(point: Any, _: int) -> dict[str, float]:
        return {"read.bw": 1e8 * curve[point.get("rw", "randread")](point.get("numjobs", 1)) + rng.normal(0, 1e6)}

    answers = []
    for study in (lab.study(factors=factors), lab.study(factors={"rwmixwrite": [0, 25, 50]})):
        answers += regression.analyse(lab.records(lab.run(study, measure, 6)), study)
    assert {answer.outcome for answer in answers} == set(Outcome)
    golden.check("regression", regression_text.findings(answers))
