"""The sentences of best levels, one answer for each outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import golden
from ioassay.analysis import optimum
from ioassay.analysis.optimum import Optimum, Outcome
from ioassay.narrative import peak_text
from ioassay.stats.scalability import USL

SPREAD = (-1.0, -0.5, 0.0, 0.5, 1.0)


def answer(
    lab: Any,
    levels: Mapping[Any, float],
    factor: str = "workers",
    noise: float = 0.01,
    repetitions: int = 5,
    response: str = "read.bw",
    **keys: Any,
) -> Optimum:
    """Repetitions of each level lie evenly within its mean times `noise`, in another order at each level."""
    host, places = {"cpu": {"cpus": 4}}, keys.pop("places", {})
    study = lab.study(factors={**places, factor: list(levels)}, responses=[response], **keys)

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        turn = (repetition + 2 * list(levels).index(point[factor])) % 5
        return {response: 1e8 * levels[point[factor]] * (1 + noise * SPREAD[turn])}

    found: Sequence[Optimum] = optimum.analyse(lab.records(lab.run(study, measure, repetitions), host=host), study)
    return next(one for one in found if one.peaks[0].factor == factor)


def usl(n: int) -> float:
    return n / (1 + 0.05 * (n - 1) + 0.01 * n * (n - 1))


SIX = (1, 2, 4, 6, 8, 12)
CASES: list[tuple[Outcome, Mapping[Any, float], dict[str, Any]]] = [
    (Outcome.EQUAL, dict.fromkeys((1, 2, 4), 1.0), {"noise": 0.0}),
    (Outcome.UNDECIDED, dict.fromkeys((1, 2, 4), 1.0), {"noise": 0.2}),
    (Outcome.EQUIVALENT, dict.fromkeys((1, 2), 1.0), {"noise": 0.01, "response": "read.lat.p99"}),
    (Outcome.UNREPEATED, {n: min(n, 4) for n in SIX}, {"repetitions": 1}),
    (Outcome.CATEGORIES, {"other": 4, "batch": 4, "fifo": 3, "idle": 1}, {"factor": "scheduler"}),
    (Outcome.CATEGORIES, {"other": 4, "batch": 3.9, "idle": 1}, {"factor": "scheduler", "noise": 0.06}),
    (Outcome.CATEGORIES, {"other": 4, "idle": 1}, {"factor": "scheduler"}),
    (Outcome.EQUIVALENT, {1: 1.0, 2: 1.01, 4: 1.03}, {"noise": 0.001}),
    (Outcome.SATURATES, {n: min(n, 4) for n in SIX}, {}),
    (Outcome.SATURATES, {1: 1, 2: 3.78, 4: 3.95, 8: 4, 12: 4}, {"noise": 0.02}),
    (Outcome.NARROWED, {1: 1, 2: 3, 4: 3.6, 8: 3.6}, {"noise": 0.15, "repetitions": 3}),
    (Outcome.SATURATES, {n: max(1 / n, 1 / 4) for n in SIX}, {"response": "read.lat.p99"}),
    (Outcome.SATURATES, {n: min(n, 4) for n in SIX}, {"driver": "simulate", "noise": 0.0, "repetitions": 1}),
    (Outcome.DECLINES, {n: max(n, 4) for n in SIX}, {"response": "read.lat.p99"}),
    (Outcome.INNER_PLATEAU, {1: 1, 2: 2, 4: 4, 6: 4, 8: 2}, {}),
    (Outcome.INNER_PLATEAU, {1: 3.5, 2: 2, 4: 4, 6: 4, 8: 2}, {}),
    (Outcome.STILL_IMPROVES, {n: n for n in range(20, 31)}, {"noise": 0.005}),
    (Outcome.BEST_AT_FIRST, {2: 4, 4: 2, 8: 1}, {"factor": "iodepth"}),
    (Outcome.BEST_AT_LAST, {n: n / (1 + 0.1 * (n - 1)) for n in SIX}, {}),
    (Outcome.ISOLATED, {n: usl(n) for n in (1, 2, 4, 10, 30)}, {"noise": 0.001}),
]


@pytest.fixture(scope="module")
def answers(lab: Any) -> list[Optimum]:
    return [answer(lab, levels, **keys) for _, levels, keys in CASES]


def test_there_is_an_answer_for_every_outcome(answers: list[Optimum]) -> None:
    assert [one.peaks[0].outcome for one in answers] == [outcome for outcome, *_ in CASES]
    assert {outcome for outcome, *_ in CASES} == set(Outcome)


def test_sentences(answers: list[Optimum]) -> None:
    golden.check("peak", peak_text.findings(answers))


def test_a_law_that_fits_is_named_in_the_table_and_statistics_are_json(lab: Any, answers: list[Optimum]) -> None:
    (law,) = [one for one in answers if one.peaks[0].outcome == Outcome.ISOLATED]
    (found,) = peak_text.findings([law])
    assert found.statistics["law"] == USL and found.tables[1].rows[0][0] == "universal scalability"
    json.dumps([one.as_dict() for one in peak_text.findings(answers)], allow_nan=False)


def test_many_places_share_a_finding_and_a_paragraph(lab: Any) -> None:
    levels = {"slow": 1.0, "fast": 3.0, "also": 2.99}
    shared = answer(lab, levels, "path", places={"place": [f"p{number}" for number in range(6)]})
    golden.check("peak_places", peak_text.findings([shared]))


def test_levels_that_may_be_best_are_a_range_only_without_a_worse_one_between(lab: Any) -> None:
    for middle, words in ((1e3, "(8 and 32 with 95 % confidence)"), (1e8, "(8 to 32 with 95 % confidence)")):
        found = answer(lab, {1: 1e7, 2: 2e7, 8: 1e8, 16: middle, 32: 1e8}, noise=0.1)
        assert words in str(peak_text.in_brief(found.peaks[0])[0])
