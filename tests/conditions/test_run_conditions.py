"""How conditions are written in a study: what is accepted, in which spelling it is kept, what a mistake is told."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.corpora import cases

from ioassay import units
from ioassay.errors import StudyError
from ioassay.study import plan, run_conditions
from ioassay.study.model import Study, make_study


def make(**changes: Any) -> Study:
    return make_study({"name": "s", "title": "S", "driver": "null", **changes}, "s.toml")


@cases("conditions", "spellings")
def test_spellings(case: dict[str, Any]) -> None:
    """As a level of a factor they reach the trial in the one spelling; a mistake in one is named as well."""
    key, value = case["key"], case["value"]
    if "says" in case:
        with pytest.raises(StudyError, match=f"run.{key}: {case['says']}"):
            make(run={key: value})
        with pytest.raises(StudyError, match=f"factors.run.{key}: "):
            make(factors={f"run.{key}": [value]})
        return
    for written in (value, case["kept"]):
        study = make(factors={f"run.{key}": [written]})
        assert [plan.make_trial(study, point, 0, 0).run[key] for point in plan.points(study)] == [case["kept"]]


def test_a_trial_without_conditions_does_not_speak_of_them() -> None:
    trial = plan.make_trial(make(), {}, 0, 0)
    assert not set(run_conditions.KEYS) & set(trial.run)
    assert not run_conditions.Conditions.of(trial.run)


def test_a_list_of_processors_is_read_as_it_was_written(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        numbers = frozenset(chance.sample(range(64), chance.randint(1, 20)))
        assert units.parse_processors(units.format_processors(numbers)) == numbers
