"""What the analyses of effects say, one golden text a question."""

from __future__ import annotations

from typing import Any

import numpy as np

import golden
from ioassay.analysis import descriptive, factor_effects, one_factor
from ioassay.analysis.factor_effects import InteractionOutcome as Joint
from ioassay.analysis.factor_effects import JointEffects
from ioassay.analysis.one_factor import FactorEffects
from ioassay.narrative import describe_text, effect_text


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
    rng = np.random.default_rng(1)
    deep = lab.study(factors={"iodepth": [1, 32]}, responses=["read.lat.p99"])

    def timed(point: Any, _: int) -> dict[str, Any]:
        median_ns = 1e5 * point.get("iodepth", 1) * rng.lognormal(0, 0.05)
        values_ns = np.round(rng.lognormal(np.log(median_ns), 0.3, 300), -2).astype(int)
        return {"read.lat.p99": 1e5, "_hist": [("read", "lat", *np.unique(values_ns, return_counts=True))]}

    for part, repetitions in ((deep, 8), (alone, 1)):
        answers += descriptive.analyse(lab.records(lab.run(part, timed, repetitions)), part)
    found = describe_text.findings(answers)
    golden.check("describe", found)
    assert "percentile" in found[5].tables[0].columns and "naive, to" in found[5].tables[0].columns
    table = found[0].tables[0]
    assert len(table.columns) == len(table.metrics) == len(table.rows[0])
    assert (table.metrics[table.columns.index("mean")], table.rows[0][0]) == ("read.bw", "4KiB")


def test_effect(lab: Any) -> None:
    """One factor in all its outcomes, two factors with and without an interaction, log samples."""
    rng = np.random.default_rng(2)
    sizes = lab.study(factors={"bs": ["4KiB", "16KiB", "64KiB"]})
    jobs = lab.study(factors={"numjobs": list(range(1, 10))})
    crossed = lab.study(factors={"rw": ["rw", "randrw"], "rwmixwrite": [0, 25, 50, 75, 100]})
    latency = lab.study(factors={"engine": ["sync", "io_uring"]}, responses=["read.lat.p99"])

    def logged(_: Any, __: int) -> dict[str, Any]:
        values = 1e8 * rng.lognormal(0, 0.05) * rng.lognormal(0, 0.01, 100)
        return {"read.bw": values.mean(), "_series": {"read.bw": values}}

    cases: list[tuple[Any, Any, int]] = [
        (jobs, lambda p, _: 1e8 * p["numjobs"] * rng.lognormal(0, 0.01), 8),
        (jobs, lambda p, _: 1e8 * (1 + 0.02 * (p["numjobs"] % 2)) * rng.lognormal(0, 0.002), 5),
        (
            jobs,
            lambda p, _: (
                1e8 * (1 + 0.3 * (p["numjobs"] % 4 == 2) - 0.2 * (p["numjobs"] % 4 == 0)) * rng.lognormal(0, 0.02)
            ),
            8,
        ),
        (jobs, lambda p, _: 1e8 * (1 + 0.05 * p["numjobs"]) * rng.lognormal(0, 0.3), 8),
        (sizes, lambda p, _: 1e8 * rng.lognormal(0, 0.1), 3),
        (sizes, lambda p, _: 1e8, 1),
        (latency, lambda p, _: 1e5 if p["engine"] == "sync" else 1e4 * rng.lognormal(0, 0.9), 8),
        (crossed, lambda p, _: 1e8 * (1 + (p["rw"] == "rw") * p["rwmixwrite"] / 100) * rng.lognormal(0, 0.01), 4),
        (crossed, lambda p, _: 1e8 * rng.lognormal(0, 0.1), 4),
        (crossed, lambda p, _: 1e8 * (1 + p["rwmixwrite"] / 100) * rng.lognormal(0, 0.002), 4),
        (crossed, lambda p, _: 1e8 + 1e6 * p["rwmixwrite"] * (2 if p["rw"] == "rw" else 3), 1),
    ]
    answers = []
    for study, value, repetitions in cases:
        response = study.analysis.responses[0]
        rows = lab.run(study, lambda p, r, v=value, name=response: {name: v(p, r)}, repetitions)
        answers += factor_effects.analyse(lab.records(rows), study)
    answers += factor_effects.analyse(lab.records(lab.run(sizes, logged, 6)), sizes)[-1:]
    golden.check("effect", effect_text.findings(answers))
    outcomes = {effect.outcome for part in answers if isinstance(part, FactorEffects) for effect in part.effects}
    assert outcomes == set(factor_effects.one_factor.Outcome)
    assert {part.outcome for part in answers if isinstance(part, JointEffects)} == set(Joint)


def test_regression(lab: Any) -> None:
    rng = np.random.default_rng(1)
    factors = {"rw": ["read", "randread", "randrw", "randwrite"], "numjobs": [1, 2, 4, 8]}
    curve = {"read": lambda _: 5.0, "randread": lambda jobs: 1.0 + jobs, "randrw": lambda jobs: 8.0 * min(jobs, 2)}
    curve["randwrite"] = lambda jobs: 2.0 if jobs in (2, 8) else 1.0

    def measure(point: Any, _: int) -> dict[str, float]:
        return {"read.bw": 1e8 * curve[point.get("rw", "randread")](point.get("numjobs", 1)) + rng.normal(0, 1e6)}

    answers = []
    for study in (lab.study(factors=factors), lab.study(factors={"rwmixwrite": [0, 25, 50]})):
        answers += one_factor.effects(lab.records(lab.run(study, measure, 6)), study, "read.bw")
    lines = [effect.line for answer in answers for effect in answer.effects if effect.line]
    assert {line.outcome for line in lines} == set(one_factor.LineOutcome)
    found = effect_text.findings(answers)
    assert [finding.tables[0].columns.count("slope") for finding in found] == [0, 1, 1]
    golden.check("regression", found)
