"""What the analyses of stability say, in one golden text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import golden
from ioassay.analysis import stability
from ioassay.narrative import stability_text

RNG = np.random.default_rng(1)


def logged(values: Any) -> dict[str, Any]:
    return {"read.bw": 1e8 * values.mean(), "_series": {"read.bw": 1e8 * values}}


def falling(point: Any, repetition: int) -> Any:
    """Log samples that are level, but fall until the end in a single trial."""
    first = point["bs"] == "4KiB" and repetition == 0
    return 1.5 + (np.linspace(0.25, -0.25, 60) if first else RNG.normal(0, 0.01, 60))


MEASURES: list[tuple[Callable[[Any, int], dict[str, Any]], int]] = [
    (lambda *_: {"read.bw": 1e8 * RNG.lognormal(0, 0.01)}, 10),
    (lambda _, repetition: {"read.bw": 1e8 * (1 + 0.1 * repetition) * RNG.lognormal(0, 0.01)}, 6),
    (lambda _, repetition: {"read.bw": 1e8 * [1, 1.01, 1.02, 1.03, 1.04, 2.0, 1.06][repetition]}, 7),
    (lambda point, repetition: {"read.bw": 1e8 * (1.2 if point["bs"] == "4KiB" and repetition == 1 else 1)}, 3),
    (lambda *_: logged(1 + np.cumsum(RNG.normal(0, 0.006, 60))), 3),
    (lambda point, repetition: logged(falling(point, repetition)), 6),
]


def test_stability(lab: Any) -> None:
    study, answers, found = lab.study(factors={"bs": ["4KiB", "64KiB"]}), [], []
    for measure, repetitions in MEASURES:
        own = stability.analyse(lab.records(lab.run(study, measure, repetitions)), study)
        answers, found = [*answers, *own], [*found, *stability_text.findings(own)]
    golden.check("stability", found)
    assert {answer.drift.outcome for answer in answers if answer.drift} == {*stability.DriftOutcome}
    assert {answer.steadiness.attained for answer in answers if answer.steadiness} == {True, False}
