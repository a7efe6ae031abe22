"""The sentences of choices, one answer for each outcome, and of all choices of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import golden
from ioassay.analysis import alternatives, conclusion
from ioassay.analysis.alternatives import Choice, Outcome
from ioassay.narrative import choice_text, conclude_text
from ioassay.store.dataset import Dataset

SPREAD = (-1.0, 0.3, 0.7)
SPEED = {"libaio": 1.0, "io_uring": 1.3, "nbd": 2.0}


def records(
    lab: Any, speed: Mapping[str, float], *, noise: float = 0.02, repetitions: int = 3, name: str = "paths", **keys: Any
) -> Dataset:
    cases = [{"name": case, "target.ways": ["nbd" if case == "nbd" else "fuse"]} for case in speed]
    keys = {"factors": {"numjobs": [1, 4, 8]}, "responses": ["total.iops", "read.lat.mean"], **keys}
    study = lab.study(name, case=cases, lead="choice", **keys)

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        turn = (repetition + list(speed).index(point["case"])) % 3
        value = speed[point["case"]] * min(point.get("numjobs", 1), 4) * (1 + noise * SPREAD[turn])
        return {"total.iops": 1e4 * value, "read.lat.mean": 1e5 / value}

    made: Dataset = lab.records(lab.run(study, measure, repetitions))
    return made


def choices(made: Dataset) -> list[Choice]:
    return alternatives.analyse(made, made.studies[0])


@pytest.fixture(scope="module")
def answers(lab: Any) -> list[Choice]:
    return [
        *choices(records(lab, SPEED)),
        choices(records(lab, {"libaio": 1.0, "io_uring": 1.0, "psync": 0.5}))[0],
        choices(records(lab, {"libaio": 1.0, "io_uring": 1.01}, noise=0.2))[0],
        choices(records(lab, SPEED, repetitions=1, factors={}))[0],
        choices(records(lab, {"libaio": 1.0, "io_uring": 1.005}, noise=0.005))[0],
    ]


def test_there_is_an_answer_for_every_outcome(answers: list[Choice]) -> None:
    outcomes = [one.average.outcome for one in answers]
    assert outcomes == [
        Outcome.BEST,
        Outcome.BEST,
        Outcome.SHARED,
        Outcome.UNDECIDED,
        Outcome.UNREPEATED,
        Outcome.EQUIVALENT,
    ]


def test_sentences(answers: list[Choice]) -> None:
    golden.check("choice", choice_text.findings(answers))


def test_sentences_about_all_choices(lab: Any) -> None:
    runs = [records(lab, SPEED, name="access-paths-jobs"), records(lab, {"libaio": 1.0, "io_uring": 1.0})]
    golden.check(
        "choices",
        [finding for made in runs for finding in choice_text.findings(alternatives.together(made))],
    )


def test_the_summary_opens_with_the_choice_the_other_responses_and_the_plateau(lab: Any) -> None:
    made = records(lab, SPEED)
    focus = conclusion.focus(made, made.studies[0])
    assert focus is not None
    *_, others, plateau = conclude_text.opening(focus)
    assert str(others) == "On average, nbd has the lowest mean read total latency."
    assert (
        str(plateau)
        == "Total IOPS gains at most 5 % beyond 4 jobs with libaio, 4 jobs with io_uring and 4 jobs with nbd."
    )
