"""How conditions are written in a study: what is accepted, in which spelling it is kept, what a mistake is told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ioassay import units
from ioassay.errors import StudyError
from ioassay.study import plan, run_conditions
from ioassay.study.model import Study, make_study


def make(**changes: Any) -> Study:
    return make_study({"name": "s", "title": "S", "driver": "null", **changes}, "s.toml")


@pytest.mark.parametrize(
    ("parse", "value", "kept"),
    [
        (run_conditions.scheduler, "fifo:99", "fifo:99"),
        (run_conditions.scheduler, " RR:01 ", "rr:1"),
        (run_conditions.scheduler, "idle", "idle"),
        (run_conditions.affinity, 2, "2"),
        (run_conditions.affinity, "0, 1,2 ,5", "0-2,5"),
        (run_conditions.affinity, "3-4,0-3", "0-4"),
        (run_conditions.nice, -20, -20),
        (run_conditions.cores, "150%", 1.5),
        (run_conditions.cores, 2, 2.0),
        (run_conditions.cores, "1.5", 1.5),
        (run_conditions.memory_bytes, "1GiB", 2**30),
    ],
)
def test_a_condition_is_kept_in_one_spelling(parse: Callable[[Any], Any], value: Any, kept: Any) -> None:
    assert parse(value) == kept
    assert parse(kept) == kept


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"scheduler": "fifo"}, "run.scheduler: wanted 'fifo:<priority>'.*found 'fifo'"),
        ({"scheduler": "fifo:0"}, "run.scheduler: .*priority from 1 to 99.*found 'fifo:0'"),
        ({"scheduler": "rr:100"}, "run.scheduler: .*found 'rr:100'"),
        ({"scheduler": "batch:1"}, "run.scheduler: .*found 'batch:1'"),
        ({"scheduler": "deadline:1ms/2ms/2ms"}, "run.scheduler: .*may not start others"),
        ({"affinity": "2-1"}, "run.affinity: wanted a list of processors such as '0-2,5'; found '2-1'"),
        ({"affinity": "0-9999999"}, "run.affinity: wanted a list"),
        ({"affinity": ""}, "run.affinity: wanted a list"),
        ({"affinity": True}, "run.affinity: wanted a list.*found true"),
        ({"affinity": "a"}, "run.affinity: wanted a list"),
        ({"nice": 20}, "run.nice: wanted a whole number from -20 to 19; found 20"),
        ({"nice": "10"}, "run.nice: wanted a whole number"),
        ({"nice": True}, "run.nice: wanted a whole number"),
        ({"cpu_limit": 0}, "run.cpu_limit: wanted a share of one processor such as '150%'.*found 0"),
        ({"cpu_limit": "half"}, "run.cpu_limit: wanted a share"),
        ({"cpu_limit": "nan"}, "run.cpu_limit: wanted a share"),
        ({"memory_limit": "1k"}, "run.memory_limit: wanted 1MiB or more"),
        ({"memory_limit": "much"}, "run.memory_limit: 'much' is not a size"),
    ],
)
def test_a_mistake_is_named_with_key_and_value(run: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        make(run=run)
    ((key, level),) = run.items()
    with pytest.raises(StudyError, match=f"factors.run.{key}: "):
        make(factors={f"run.{key}": [level]})


def test_levels_of_conditions_reach_their_trials_in_one_spelling() -> None:
    study = make(factors={"run.cpu_limit": ["50%", 2], "run.affinity": ["0,1", 2]})
    trials = [plan.make_trial(study, point, 0, 0) for point in plan.points(study)]
    assert [(trial.run["cpu_limit"], trial.run["affinity"]) for trial in trials] == [
        (0.5, "0-1"),
        (0.5, "2"),
        (2.0, "0-1"),
        (2.0, "2"),
    ]


def test_a_trial_without_conditions_does_not_speak_of_them() -> None:
    trial = plan.make_trial(make(), {}, 0, 0)
    assert not set(run_conditions.KEYS) & set(trial.run)
    assert not run_conditions.Conditions.of(trial.run)


def test_a_list_of_processors_is_read_as_it_was_written(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        numbers = frozenset(chance.sample(range(64), chance.randint(1, 20)))
        assert units.parse_processors(units.format_processors(numbers)) == numbers
