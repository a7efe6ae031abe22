"""Grades of what else used the machine: each disturbance at its limits, and what a study's trials come to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioassay.analysis import machine_conditions
from ioassay.analysis.machine_conditions import LIMITS, Disturbance, Grade, grade, reasons
from ioassay.narrative.pipeline import analyse_all
from ioassay.records.record import Environment, Program
from ioassay.store.dataset import Dataset

QUIET = Environment(seconds=1.0, processors=2, own_share=0.9, others_share=0.01, kernel_share=0.05, steal_share=0.0)
LOADED = replace(QUIET, others_share=0.6, programs=[Program("make", 0.4), Program("rustc", 0.2)])
SLOWED = replace(QUIET, others_share=LIMITS[Disturbance.PROGRAMS][0])


def with_value(disturbance: Disturbance, value: float) -> Environment:
    match disturbance:
        case Disturbance.PROGRAMS:
            return replace(QUIET, others_share=value)
        case Disturbance.STEAL:
            return replace(QUIET, steal_share=value)
        case Disturbance.DEVICE:
            return replace(QUIET, devices={"sda": value, "sdb": 0.0})
        case Disturbance.MEMORY:
            return replace(QUIET, pressure={"memory": value, "cpu": 1.0, "io": 1.0})
        case Disturbance.THROTTLED:
            return replace(QUIET, throttled=int(value))
        case Disturbance.CLOCK:
            return replace(QUIET, clock_ratio=value)


@pytest.mark.parametrize("disturbance", list(LIMITS)[:4])
def test_a_grade_begins_at_its_limit(disturbance: Disturbance) -> None:
    doubtful, unfit = LIMITS[disturbance]
    grades = [grade(with_value(disturbance, value)) for value in (0.99 * doubtful, doubtful, 0.99 * unfit, unfit, 1.0)]
    assert grades == [Grade.FIT, Grade.DOUBTFUL, Grade.DOUBTFUL, Grade.UNFIT, Grade.UNFIT]
    assert [reason.disturbance for reason in reasons(with_value(disturbance, unfit))] == [disturbance]


def test_heat_and_slow_clocks_are_graded() -> None:
    assert [grade(with_value(Disturbance.THROTTLED, value)) for value in (0, 1, 50)] == [0, 1, 1]
    assert [grade(with_value(Disturbance.CLOCK, value)) for value in (1.0, 0.81, 0.8, 0.5)] == [0, 0, 1, 2]


def test_other_programs_beside_free_processors_leave_doubt_only() -> None:
    beside = replace(QUIET, own_share=0.25, others_share=0.5)
    assert [grade(replace(beside, idle_share=idle)) for idle in (0.25, 0.05, 0.049, 0.0, None)] == [1, 1, 2, 2, 2]


def test_a_trial_may_fill_the_machine_itself() -> None:
    full = replace(QUIET, own_share=0.97, kernel_share=0.03, pressure={"cpu": 1.0, "io": 1.0, "memory": 0.0})
    assert grade(full) == Grade.FIT


def test_the_worst_reason_comes_first() -> None:
    found = reasons(replace(LOADED, steal_share=0.05, devices={"sda": 1.0}))
    assert [(reason.disturbance, reason.grade) for reason in found] == [
        (Disturbance.PROGRAMS, Grade.UNFIT),
        (Disturbance.DEVICE, Grade.UNFIT),
        (Disturbance.STEAL, Grade.DOUBTFUL),
    ]


def measured(lab: Any, environments: list[Environment | None], **keys: Any) -> Dataset:
    study = lab.study(factors={"bs": ["4KiB", "8KiB"]}, **keys)
    given = iter(environments)

    def measure(point: Any, repetition: int) -> dict[str, Any]:
        value = (1.0 if point["bs"] == "4KiB" else 2.0) * (1 + 0.01 * repetition)
        return {"read.bw": 1e8 * value, "_environment": next(given)}

    return lab.records(lab.run(study, measure, len(environments) // 2))


@pytest.mark.parametrize(
    ("environments", "expected"),
    [
        ([QUIET] * 20, Grade.FIT),
        ([QUIET] * 19 + [SLOWED], Grade.DOUBTFUL),
        ([QUIET] * 39 + [LOADED], Grade.DOUBTFUL),  # too few to move a mean
        ([QUIET] * 38 + [LOADED] * 2, Grade.UNFIT),
        ([LOADED] * 20, Grade.UNFIT),
    ],
)
def test_a_study_is_what_its_trials_are(lab: Any, environments: list[Environment], expected: Grade) -> None:
    records = measured(lab, environments)
    (found,) = machine_conditions.analyse(records, records.studies[0])
    assert found.grade == expected
    assert found.unfit == environments.count(LOADED) and found.doubtful == environments.count(SLOWED)
    assert (found.disturbance == Disturbance.PROGRAMS) == (expected > Grade.FIT)
    assert list(found.programs) == (["make", "rustc"] if LOADED in environments else [])
    assert machine_conditions.of_run(records) == replace(found, study="")


def test_records_of_older_versions_are_not_judged(lab: Any) -> None:
    records = measured(lab, [None] * 4)
    assert machine_conditions.analyse(records, records.studies[0]) == []
    assert machine_conditions.of_run(records) is None


def test_an_unfit_study_keeps_its_numbers_and_draws_no_conclusion(lab: Any) -> None:
    quiet, loaded = (analyse_all(measured(lab, [each] * 8)) for each in (QUIET, LOADED))
    by_question = {finding.question: finding for finding in loaded}
    assert by_question["conditions"].severity == "warning"
    concluded = by_question["conclude"]
    assert concluded.withheld == concluded.statement
    assert not concluded.details and not concluded.statistics and not concluded.omissions
    (reference,) = (finding for finding in quiet if finding.question == "conclude")
    assert not reference.withheld
    assert reference.statements and reference.statistics
    assert by_question["effect"].statement == concluded.statement
    assert by_question["describe"].tables == next(one for one in quiet if one.question == "describe").tables


def test_what_was_not_measured_is_no_conclusion_and_stays(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4KiB", "8KiB", "16KiB"]})

    def measure(point: Any, repetition: int) -> dict[str, Any] | None:
        return None if point["bs"] == "16KiB" else {"read.bw": 1e8 + repetition, "_environment": LOADED}

    (concluded,) = (one for one in analyse_all(lab.records(lab.run(study, measure, 4))) if one.question == "conclude")
    assert concluded.withheld
    assert list(concluded.statements[1:]) == list(concluded.omissions) != []
