"""Which host is slow? Each against the mean of those that agree, over the points of a study, by analysis of means.

One model of all conditions (`stats/condition_means.py`) gives the mean of each host over the points. What passes differ
by is taken out, and where hosts measured together what each instant differs by. Responses that have a better direction
share the risk: of equal hosts one is called slow or fast in at most 5 % of runs (`analysis_of_means.py`).
What hosts do together that measured together is `host_totals.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ioassay import metrics
from ioassay.analysis import machine_conditions
from ioassay.analysis.effects.level_contrasts import lower_is_better
from ioassay.analysis.machine_conditions import Conditions
from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.analysis.measurements.memo import memoized
from ioassay.factors import HOST, level_key
from ioassay.packs.hosts.analysis_of_means import Deviations, deviations
from ioassay.packs.hosts.questions.host_totals import HostTotals, totals
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.stats.condition_means import Scale, average, fit
from ioassay.stats.contrasts import Contrasts
from ioassay.stats.result import Interval, Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_UNIT_ROUNDING = 1e-3
"""Tools round rates: a response whose ratio to another varies by less is the same."""


class Standing(StrEnum):
    """What the data show of one host against the mean, or of two hosts against each other."""

    SLOW = "slow"
    """Certainly worse, and not certainly by less than the margin."""
    FAST = "fast"
    EQUAL = "equal"
    """Certainly within the margin."""
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class HostDeviation:
    """One host: `estimate` is the ratio to the mean of the reference (of two hosts, to the other), or the difference.

    `interval` and `p` hold for all hosts and responses at once. `limits`: the decision limits, in the unit of
    `estimate`. `clarity`: the deviation in half-widths of the interval on the scale of the model; beyond 1 certainly.
    """

    host: str
    estimate: float
    interval: Interval
    p: float
    standing: Standing
    limits: tuple[float, float]
    clarity: float


@dataclass(frozen=True)
class ResponseComparison:
    """All hosts in one response, worst first. `hosts` is empty where `undefined` says why nothing is compared.

    `reference`: the hosts that agree, where these are more than half, else all: a host is compared with their mean.
    `points`: how many conditions each host is averaged over; `lacking`: hosts that are left out, since they have no
    values at some of them. `detectable`: the deviation that would have been seen, a share on the logarithmic scale.
    """

    response: str
    points: int
    lacking: tuple[str, ...]
    scale: Scale = Scale.LOG
    hosts: tuple[HostDeviation, ...] = ()
    reference: tuple[str, ...] = ()
    detectable: float = 0.0
    undefined: Undefined | None = None

    @property
    def lower(self) -> bool:
        """True if small values are good."""
        return lower_is_better(self.response)

    def of(self, standing: Standing) -> list[HostDeviation]:
        """The hosts of this standing, worst first."""
        return [one for one in self.hosts if one.standing == standing]


@dataclass(frozen=True)
class HostTally:
    """How the trials of one host ended, and what its machine was like; `planned` is None where it is not known.

    `ended`: from some trial on, and that is not the first, all failed.
    """

    host: str
    ok: int
    failed: int
    skipped: int
    ended: bool
    planned: int | None
    conditions: Conditions | None

    @property
    def trials(self) -> int:
        """How many were planned, or ran where that is not known."""
        return max(self.planned or 0, self.ok + self.failed + self.skipped)

    @property
    def missing(self) -> int:
        """How many have no record."""
        return self.trials - self.ok - self.failed - self.skipped

    @property
    def complete(self) -> bool:
        """Whether all of its trials went well."""
        return self.ok == self.trials


@dataclass(frozen=True)
class HostComparison:
    """All hosts of one study: `responses` in the study's order, those with a better direction only.

    `repetitions`: fewest good trials of a condition. `totals`: what hosts come to that measured together.
    """

    study: str
    confidence: float
    hosts: tuple[HostTally, ...]
    responses: tuple[ResponseComparison, ...]
    repetitions: int
    totals: HostTotals | None

    @property
    def compared(self) -> list[ResponseComparison]:
        """The responses in which something is compared."""
        return [one for one in self.responses if one.undefined is None]


@memoized
def comparison(records: Dataset, study: Study) -> HostComparison:
    """Compare the hosts of a study in every response that has a better direction."""
    measured = [cells(records, study, response) for response in records.responses(study)]
    judged: list[Cells] = []
    for part in measured:
        has_better = part.cells and metrics.metric(part.response).better != "none"
        if has_better and not any(_restates(part, other) for other in judged):
            judged.append(part)
    return HostComparison(
        study.name,
        study.analysis.confidence,
        _tallies(records, study),
        tuple(_response(records, study, part, len(judged)) for part in judged),
        min((cell.values.size for part in judged for cell in part.cells), default=0),
        totals(records, study),
    )


def _restates(part: Cells, other: Cells) -> bool:
    """Whether it says the same in another unit, as IOPS and bandwidth do at one block size."""
    if [cell.trials for cell in part.cells] != [cell.trials for cell in other.cells]:
        return False
    units: dict[tuple[str, ...], list[float]] = {}
    for key, first, second in zip(_others(part), part.cells, other.cells, strict=True):
        if not second.values.all():
            return False
        units.setdefault(key, []).extend(first.values / second.values)
    return all(np.ptp(one) <= _UNIT_ROUNDING * abs(np.mean(one)) for one in units.values())


def _tallies(records: Dataset, study: Study) -> tuple[HostTally, ...]:
    ended: dict[str, list[str]] = {host: [] for host in study.hosts}
    for row in records.trials_of(study).iter_rows(named=True):
        ended.setdefault(str(row[HOST]), []).append(row["status"])
    points = math.prod(len(levels) for name, levels in study.levels.items() if name != HOST)
    planned = None if study.until else points * (study.repetitions or 1)
    conditions = machine_conditions.by_host(records, study)
    return tuple(
        HostTally(
            host,
            ok=statuses.count(OK),
            failed=statuses.count(FAILED),
            skipped=statuses.count(SKIPPED),
            ended=FAILED in statuses and set(statuses[statuses.index(FAILED) :]) == {FAILED} and OK in statuses,
            planned=planned,
            conditions=conditions.get(host),
        )
        for host, statuses in ended.items()
    )


def _response(records: Dataset, study: Study, measured: Cells, share: int) -> ResponseComparison:
    by_host: dict[str, dict[tuple[str, ...], Cell]] = {}
    for key, cell in zip(_others(measured), measured.cells, strict=True):
        by_host.setdefault(str(cell.point[HOST]), {})[key] = cell
    points = sorted({key for own in by_host.values() for key in own})
    complete = [host for host, own in by_host.items() if len(own) == len(points)]
    lacking = tuple(host for host in by_host if host not in complete)
    found = ResponseComparison(measured.response, len(points), lacking)
    if len(complete) < 2:
        why = Undefined(f"{len(complete)} of {len(study.hosts)} hosts measured all conditions, and two are needed")
        return replace(found, undefined=why)
    chosen = [by_host[host][key] for host in complete for key in points]
    model = fit(
        [cell.values for cell in chosen],
        [cell.repetition for cell in chosen],
        exact=not records.is_measured(study),
        strata=[*range(len(points))] * len(complete) if study.run.together else None,
    )
    if isinstance(model, Undefined):
        return replace(found, undefined=model)
    rows = np.arange(len(chosen)).reshape(len(complete), len(points)).tolist()
    family = Contrasts(average(model, rows), study.analysis.confidence, share=share)
    return _compared(found, complete, deviations(family))


def _others(measured: Cells) -> list[tuple[str, ...]]:
    """The levels of each condition but its host."""
    names = [name for name in measured.factors if name != HOST]
    return [tuple(level_key(name, cell.point[name]) for name in names) for cell in measured.cells]


def _compared(response: ResponseComparison, hosts: Sequence[str], found: Deviations) -> ResponseComparison:
    scale, lower = found.family.means.scale, response.lower
    each = []
    for index, host in enumerate(hosts):
        reach, distance = float(found.reach[index]), abs(float(found.estimates[index]))
        limits = (float(np.exp(-reach)), float(np.exp(reach))) if scale == Scale.LOG else (-reach, reach)
        clarity = distance / reach if reach else math.inf if distance else 0.0
        pair, standing = found.pair(index), _standing(found, index, lower)
        each.append(HostDeviation(host, pair.estimate, pair.interval, pair.p, standing, limits, clarity))
    worst_first = np.argsort(-found.estimates if lower else found.estimates, kind="stable")
    return replace(
        response,
        scale=scale,
        hosts=tuple(each[index] for index in worst_first),
        reference=tuple(hosts[index] for index in found.reference),
        detectable=found.detectable,
    )


def _standing(found: Deviations, index: int, lower: bool) -> Standing:
    if found.near[index]:
        return Standing.EQUAL
    direction = int(found.direction[index])
    if not direction:
        return Standing.UNDECIDED
    return Standing.SLOW if (direction > 0) == lower else Standing.FAST
