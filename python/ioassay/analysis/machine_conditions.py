"""Was the machine quiet enough for a study's numbers? Grades every trial by what else used the machine meanwhile.

The limits were set by measurement: benches/conditions.py loads a machine in six strengths beside three tools, and says
how far the results of each grade are from those of the quiet machine. The trial's own load is not held against it: it
may fill all processors and the whole device.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from ioassay.analysis.measurements.memo import memoized
from ioassay.factors import HOST
from ioassay.records.environment import Environment
from ioassay.records.record import OK
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


class Grade(IntEnum):
    """How far a trial's, or a study's, numbers can be relied on; ordered."""

    FIT = 0
    DOUBTFUL = 1
    UNFIT = 2


class Disturbance(StrEnum):
    """What disturbs measurements; in the order in which a reason is chosen among equal grades."""

    PROGRAMS = "other-programs"
    STEAL = "steal"
    DEVICE = "shared-device"
    MEMORY = "memory-pressure"
    THROTTLED = "throttled"
    CLOCK = "slow-clock"


LIMITS: dict[Disturbance, tuple[float, float]] = {
    Disturbance.PROGRAMS: (0.05, 0.15),
    Disturbance.STEAL: (0.02, 0.10),
    Disturbance.DEVICE: (0.10, 0.33),
    Disturbance.MEMORY: (0.05, 0.25),
    Disturbance.THROTTLED: (1.0, float("inf")),
}
"""From which value on a trial is doubtful, and from which on unfit."""
CLOCK_RATIOS = (0.8, 0.5)
"""Below which share of the highest frequency a trial is doubtful, and unfit."""
FREE = 0.05
"""Other programs make a trial doubtful at most where so much of the processors' time was left over: it could have run
there."""
MOST_PROGRAMS = 2
FEW = 0.05
"""A study whose unfit trials are fewer than this share is doubtful only: its means hardly move."""


@dataclass(frozen=True)
class Reason:
    """One disturbance of one trial: a share, except of THROTTLED, a count, and CLOCK, a ratio of frequencies."""

    grade: Grade
    disturbance: Disturbance
    value: float


@dataclass(frozen=True)
class Conditions:
    """What a study, or a run, ran under. `disturbance` is what most of the worst trials suffered from, and `value` its
    median there.
    """

    study: str
    grade: Grade
    trials: int
    doubtful: int
    unfit: int
    others_share: float
    """Median share of the processors' time that other programs used."""
    disturbance: Disturbance | None = None
    value: float = 0.0
    programs: Sequence[str] = ()
    """Names of the busiest other programs, busiest first."""
    devices: Sequence[str] = ()
    """Devices that others used as well."""
    hosts: Sequence[str] = ()
    """Where several hosts measured: those of the worst grade, unless that are all."""


def reasons(environment: Environment) -> list[Reason]:
    """Everything that disturbed a trial, worst first."""
    values = {
        Disturbance.PROGRAMS: environment.others_share,
        Disturbance.STEAL: environment.steal_share,
        Disturbance.DEVICE: max(environment.devices.values(), default=0.0),
        Disturbance.MEMORY: environment.pressure.get("memory", 0.0),
        Disturbance.THROTTLED: float(environment.throttled),
    }
    grades = {name: _grade(value, *LIMITS[name]) for name, value in values.items()}
    if environment.idle_share is not None and environment.idle_share >= FREE:
        grades[Disturbance.PROGRAMS] = min(grades[Disturbance.PROGRAMS], Grade.DOUBTFUL)
    found = [Reason(grades[name], name, value) for name, value in values.items()]
    if (ratio := environment.clock_ratio) is not None:
        found.append(Reason(_grade(-ratio, *(-limit for limit in CLOCK_RATIOS)), Disturbance.CLOCK, ratio))
    order = list(Disturbance)
    return sorted(
        (reason for reason in found if reason.grade), key=lambda one: (-one.grade, order.index(one.disturbance))
    )


def grade(environment: Environment) -> Grade:
    """Whether a trial's numbers can be relied on."""
    return max((reason.grade for reason in reasons(environment)), default=Grade.FIT)


def contended(environment: Environment | None) -> bool:
    """Return True if the trial's processes had to share the processors with others, or with other guests."""
    return environment is not None and any(
        reason.disturbance in (Disturbance.PROGRAMS, Disturbance.STEAL) for reason in reasons(environment)
    )


@memoized
def analyse(records: Dataset, study: Study) -> list[Conditions]:
    """What the study ran under; none where nothing was measured: computed trials, or records of older versions."""
    environments = _environments(records, study)
    return [_of_hosts(study.name, environments)] if environments else []


def is_unfit(records: Dataset, study: Study) -> bool:
    """Whether no conclusion is drawn from the study's numbers, in words or in a picture."""
    return any(found.grade == Grade.UNFIT for found in analyse(records, study))


def of_run(records: Dataset) -> Conditions | None:
    """What all studies of a run ran under."""
    found: dict[str, list[Environment]] = {}
    for study in records.studies:
        for host, environments in _environments(records, study).items():
            found.setdefault(host, []).extend(environments)
    return _of_hosts("", found) if found else None


def by_host(records: Dataset, study: Study) -> dict[str, Conditions]:
    """What each host of the study ran under; hosts without records of it are missing."""
    return {host: summary(study.name, found) for host, found in _environments(records, study).items()}


def _environments(records: Dataset, study: Study) -> dict[str, list[Environment]]:
    """Host -> what its good trials ran under; '' is the machine of a study that names no hosts."""
    trials = records.trials_of(study)
    hosts = trials[HOST].cast(str).to_list() if study.hosts and HOST in trials.columns else [""] * trials.height
    found: dict[str, list[Environment]] = {}
    for host, (trial, status) in zip(hosts, trials.select("trial", "status").iter_rows(), strict=True):
        if status == OK and trial in records.environments:
            found.setdefault(host, []).append(records.environments[trial])
    return found


def _of_hosts(study: str, environments: Mapping[str, Sequence[Environment]]) -> Conditions:
    """All hosts together, which are doubtful only where less than half of them are unfit."""
    conditions = summary(study, [one for found in environments.values() for one in found])
    if len(environments) < 2 or conditions.grade == Grade.FIT:
        return conditions
    grades = {host: summary(study, found).grade for host, found in environments.items()}
    unfit = sum(grade == Grade.UNFIT for grade in grades.values())
    worst = [host for host, grade in grades.items() if grade == max(grades.values())]
    if 2 * unfit < len(grades):
        conditions = replace(conditions, grade=min(conditions.grade, Grade.DOUBTFUL))
    return replace(conditions, hosts=worst if len(worst) < len(grades) else ())


def summary(study: str, environments: Sequence[Environment]) -> Conditions:
    """What several trials, at least one, ran under."""
    found = [reasons(environment) for environment in environments]
    grades = [one[0].grade if one else Grade.FIT for one in found]
    unfit, doubtful = grades.count(Grade.UNFIT), grades.count(Grade.DOUBTFUL)
    overall = Grade.UNFIT if unfit >= FEW * len(grades) and unfit else Grade.DOUBTFUL if unfit + doubtful else Grade.FIT
    conditions = Conditions(
        study, overall, len(grades), doubtful, unfit, statistics.median(one.others_share for one in environments)
    )
    if overall == Grade.FIT:
        return conditions
    worst = [one[0] for one in found if one and one[0].grade == max(grades)]
    named = [reason.disturbance for reason in worst]
    cause = max(Disturbance, key=named.count)
    return replace(
        conditions,
        disturbance=cause,
        value=statistics.median(reason.value for reason in worst if reason.disturbance == cause),
        programs=_busiest(environments),
        devices=_shared(environments),
    )


def _busiest(environments: Sequence[Environment]) -> list[str]:
    shares: dict[str, float] = {}
    for environment in environments:
        for program in environment.programs:
            shares[program.name] = shares.get(program.name, 0.0) + program.share
    return sorted(shares, key=lambda name: -shares[name])[:MOST_PROGRAMS]


def _shared(environments: Sequence[Environment]) -> list[str]:
    limit = LIMITS[Disturbance.DEVICE][0]
    return sorted({name for one in environments for name, share in one.devices.items() if share >= limit})


def _grade(value: float, doubtful: float, unfit: float) -> Grade:
    return Grade.UNFIT if value >= unfit else Grade.DOUBTFUL if value >= doubtful else Grade.FIT
