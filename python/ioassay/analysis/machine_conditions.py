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
from typing import TYPE_CHECKING

from ioassay.analysis.measurements import memoized
from ioassay.factors import HOST
from ioassay.records.record import OK, Environment

if TYPE_CHECKING:
    from ioassay.store.dataset import Dataset
    from ioassay.study.model import Study


class Grade(IntEnum):
    """How far a trial's, or a study's, numbers can be relied on; ordered."""

    FIT = 0
    DOUBTFUL = 1
    UNFIT = 2


class Disturbance(StrEnum):
    """What disturbs measurements; `reasons` and causes of equal weight come in this order."""

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
    Disturbance.CLOCK: (0.8, 0.5),
}
"""From which value on a trial is doubtful, and from which on unfit; of clocks down to which."""
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
    if environment.clock_ratio is not None:
        values[Disturbance.CLOCK] = environment.clock_ratio
    grades = {}
    for name, value in values.items():
        doubtful, unfit = LIMITS[name]
        sign = -1 if unfit < doubtful else 1  # of clocks, small values are bad
        grades[name] = Grade(sum(sign * value >= sign * limit for limit in (doubtful, unfit)))
    if environment.idle_share is not None and environment.idle_share >= FREE:
        grades[Disturbance.PROGRAMS] = min(grades[Disturbance.PROGRAMS], Grade.DOUBTFUL)
    found = [Reason(grades[name], name, value) for name, value in values.items() if grades[name]]
    return sorted(found, key=lambda reason: -reason.grade)


def grade(environment: Environment) -> Grade:
    return max((reason.grade for reason in reasons(environment)), default=Grade.FIT)


def contended(environment: Environment | None) -> bool:
    """Return True if the trial's processes had to share the processors with others, or with other guests."""
    found = reasons(environment) if environment is not None else ()
    return any(reason.disturbance in (Disturbance.PROGRAMS, Disturbance.STEAL) for reason in found)


@memoized
def analyse(records: Dataset, study: Study) -> list[Conditions]:
    """What the study ran under; none where nothing was measured: computed trials, or records of older versions."""
    environments = _environments(records, study)
    return [_of_hosts(study.name, environments)] if environments else []


def is_unfit(records: Dataset, study: Study) -> bool:
    """Whether no conclusion is drawn from the study's numbers, in words or in a picture."""
    return any(found.grade == Grade.UNFIT for found in analyse(records, study))


def of_run(records: Dataset) -> Conditions | None:
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
    found = [one[0] for environment in environments if (one := reasons(environment))]
    grades, trials = [reason.grade for reason in found], len(environments)
    unfit, doubtful = grades.count(Grade.UNFIT), grades.count(Grade.DOUBTFUL)
    others_share = statistics.median(one.others_share for one in environments)
    if not found:
        return Conditions(study, Grade.FIT, trials, 0, 0, others_share)
    worst = [reason for reason in found if reason.grade == max(grades)]
    named = [reason.disturbance for reason in worst]
    cause = max(Disturbance, key=named.count)
    shares: dict[str, float] = {}
    for program in (program for one in environments for program in one.programs):
        shares[program.name] = shares.get(program.name, 0.0) + program.share
    shared = LIMITS[Disturbance.DEVICE][0]
    return Conditions(
        study,
        Grade.UNFIT if unfit and unfit >= FEW * trials else Grade.DOUBTFUL,
        trials,
        doubtful,
        unfit,
        others_share,
        disturbance=cause,
        value=statistics.median(reason.value for reason in worst if reason.disturbance == cause),
        programs=sorted(shares, key=shares.__getitem__, reverse=True)[:MOST_PROGRAMS],
        devices=sorted({name for one in environments for name, share in one.devices.items() if share >= shared}),
    )
