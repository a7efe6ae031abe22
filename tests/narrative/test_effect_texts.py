"""What the analyses of effects say, one golden text a question."""

from __future__ import annotations

from typing import Any

import numpy as np

import golden
from ioassay.analysis.effects import descriptive, regression
from ioassay.analysis.effects.regression import Outcome
from ioassay.narrative import describe_text, regression_text


def test_describe(lab: Any) -> None:
    values = {"4KiB": [100.0, 101, 102, 99, 98], "1MiB": [500.0, 510, 490, 505, 200]}
    study = lab.study(factors={"bs": list(values)}, responses=["read.bw", "read.lat.p99"], confidence=0.8)
    alone = lab.study()

    def measure(point: Any, repetition: int) -> dict[str, float]:
        return dict.fromkeys(study.analysis.responses, 1e6 * values[point.get("bs", "4KiB")][repetition])

    answers = []
    for part, repetitions in ((study, 5), (study, 1), (alone, 3)):
        rows = lab.run(part, measure, repetitions)
        answers += descriptive.analyse(lab.records(rows), part)
    found = describe_text.findings(answers)
    golden.check("describe", found)
    table = found[0].tables[0]
    assert len(table.columns) == len(table.metrics) == len(table.rows[0])
    assert (table.metrics[table.columns.index("mean")], table.rows[0][0]) == ("read.bw", "4KiB")


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
