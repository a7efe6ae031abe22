"""Which host is slow? Each against the mean of those that agree, over the points of a study, by analysis of means.

One model of all conditions (`stats/condition_means.py`) gives the mean of each host over the points. What passes differ
by is taken out, and where hosts measured together what each instant differs by. Responses that have a better direction
share the risk: of equal hosts one is called slow or fast in at most 5 % of runs (`deviations`).
What hosts do together that measured together is `host_totals.py`.

The analysis of means sets each condition against the mean of all, on the family of contrasts of one fitted model:
Ott, "Analysis of Means", Industrial Quality Control 24 (1967); Nelson, Wludyka and Copeland, "The Analysis of Means"
(2005). The critical value is that of the studentized maximum modulus, which holds whatever the correlations of the
contrasts are, and so for unequal variances and repetitions as well (Šidák, Journal of the American Statistical
Association 62, 1967; L. S. Nelson, Journal of Quality Technology 15, 1983, for unequal sizes). Of
equal variances it is above the exact value by 2.5 % for three conditions, and by less than 0.3 % from ten on.

One condition far from all others draws the mean, so that the others deviate from it as well. So the clearest one is
taken out of the mean and the rest compared anew, until the rest agrees (as outliers are: Rosner, Technometrics 25,
1983). Of equal conditions any is taken out at the risk of the family. Where no more than half agree, it is the mean of
all. Of two conditions each is against the other: both deviations from their mean are one comparison.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np

from ioassay import metrics
from ioassay.analysis import machine_conditions
from ioassay.analysis.machine_conditions import Conditions
from ioassay.analysis.measurements import memoized
from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.analysis.one_factor import lower_is_better
from ioassay.factors import HOST, level_key
from ioassay.packs.hosts.questions.host_totals import HostTotals, totals
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.stats import distributions
from ioassay.stats.condition_means import Ints, Scale, average, fit
from ioassay.stats.contrasts import POWER, Bools, Contrasts, Pair, bounded_exp, by_df, grid_df
from ioassay.stats.modes import LEAST_RATIO
from ioassay.stats.result import Floats, Interval, Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

FEWEST_TRIALS = 5
"""Trials below which no host is called slow or fast by a ratio that two modes may have.

Where 10 % of trials are in a state that the next keeps with chance 0.8, of twenty equal hosts some are in it throughout
and none in part in 36, 16, 7 and 3 % of runs with 2, 3, 4 and 5 trials each: nothing tells those from slow hosts.
"""
_TIE = 1e-12
"""Deviations below this are rounding's, and none."""


class Deviations:
    """The contrasts of k conditions, two or more, with the mean of some of them; arrays have the shape (k,).

    `reference`: indices of the conditions whose mean it is. `reach`: half the widths of the simultaneous intervals, the
    decision limits lie so far from the mean. `direction`: 1 where a condition is certainly above the mean, -1 below it,
    else 0. `near`: whether it is certainly within the margin of the mean.
    """

    def __init__(self, family: Contrasts, reference: tuple[int, ...]) -> None:
        self.family, self.reference = family, reference
        means, level = family.means, 1 - family.risk
        k = means.estimates.size
        self._comparisons = int(k) if k > 2 else 1  # the two of two conditions are one
        weights = np.array([[1.0, -1.0], [-1.0, 1.0]]) if k == 2 else np.eye(k)
        if k > 2:
            weights[:, reference] -= 1 / len(reference)
        self.estimates: Floats = weights @ means.estimates
        size = 1.0 if means.scale == Scale.LOG else float(np.abs(means.estimates).max())
        self.estimates[np.abs(self.estimates) <= _TIE * size] = 0.0
        parts = np.asarray(weights**2 * means.squared_errors[None, :])  # of each condition in each contrast's variance
        self.errors: Floats = np.sqrt(parts.sum(axis=1))
        self.df = means.df_of_sums(parts, np.tile(np.arange(k), (k, 1)))
        self.reach = self.errors * by_df(self.df, lambda df: modulus_quantile(level, self._comparisons, df))
        self.direction: Ints = np.sign(self.estimates).astype(np.int64) * (np.abs(self.estimates) > self.reach)
        # Two one-sided t tests at the risk of the family.
        tolerance = self.errors * by_df(self.df, lambda df: distributions.t_ppf(level, df))
        self.near: Bools = np.abs(self.estimates) + tolerance <= family.bound

    @property
    def detectable(self) -> float:
        """The deviation that would be seen with POWER where the scatter is largest, a share where the scale is LOG."""
        beyond = self.errors * by_df(self.df, lambda df: distributions.t_ppf(POWER, df))
        most = float((self.reach + beyond).max())
        return bounded_exp(most) - 1 if self.family.means.scale == Scale.LOG else most

    def pair(self, index: int) -> Pair:
        """One condition against the mean: a ratio, or on the raw scale a difference."""
        return self.family.as_pair(self.estimates[index], self.reach[index], self.p(index))

    def p(self, index: int) -> float:
        """That a condition does not deviate, adjusted for all and for the families that share the risk."""
        estimate, error = abs(float(self.estimates[index])), float(self.errors[index])
        if error == 0:
            return float(estimate == 0)
        below = modulus_cdf(estimate / error, self._comparisons, grid_df(float(self.df[index])))
        return min(1.0, max(1 - below, 0.0) * self.family.share)


def deviations(family: Contrasts) -> Deviations:
    """Each condition against the mean of those that agree, where these are more than half; else of all."""
    k = int(family.means.estimates.size)
    reference = tuple(range(k))
    while 2 * len(reference) > k:
        found = Deviations(family, reference)
        outside = [index for index in reference if found.direction[index] and not found.near[index]]
        if not outside:
            return found
        widths = np.abs(found.estimates) / np.maximum(found.reach, _TIE)
        clearest = max(outside, key=lambda index: float(widths[index]))
        reference = tuple(index for index in reference if index != clearest)
    return Deviations(family, tuple(range(k)))


def modulus_cdf(value: float, comparisons: int, df: float) -> float:
    """P(largest of `comparisons` independent |Z| / estimated deviation <= value): the studentized maximum modulus."""
    deviation, mass = distributions.deviation_nodes(np.array([df]))
    inside = 2 * distributions.normal_cdfs(value * deviation) - 1
    return float(np.sum(mass * inside**comparisons))


@lru_cache(maxsize=1024)
def modulus_quantile(level: float, comparisons: int, df: float) -> float:
    """The value whose `modulus_cdf` is `level`, by halving."""
    low, high = 0.0, 1.0
    while modulus_cdf(high, comparisons, df) < level and high < 1e6:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if modulus_cdf(middle, comparisons, df) < level else (low, middle)
    return high


_UNIT_ROUNDING = 1e-3
"""Tools round rates: a response whose ratio to another varies by less is the same."""


class Standing(StrEnum):
    """What the data show of one host against the mean, or of two hosts against each other."""

    SLOW = "slow"
    """Certainly worse, and not certainly by less than the margin."""
    FAST = "fast"
    EQUAL = "equal"
    """Certainly within the margin."""
    APART = "apart"
    """Certainly worse or better, which a state of its drive may be that lasted through all its trials."""
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
    values at some of them. `trials`: fewest of a host. `detectable`: the deviation that would have been seen, a share
    on the logarithmic scale.
    """

    response: str
    points: int
    lacking: tuple[str, ...]
    trials: int = 0
    scale: Scale = Scale.LOG
    hosts: tuple[HostDeviation, ...] = ()
    reference: tuple[str, ...] = ()
    detectable: float = 0.0
    undefined: Undefined | None = None

    @property
    def lower(self) -> bool:
        return lower_is_better(self.response)

    def of(self, standing: Standing) -> list[HostDeviation]:
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
        return self.trials - self.ok - self.failed - self.skipped

    @property
    def complete(self) -> bool:
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
    found = replace(found, trials=int(model.sizes[rows].sum(axis=1).min()))
    return _compared(found, complete, deviations(family))


def _others(measured: Cells) -> list[tuple[str, ...]]:
    """The levels of each condition but its host."""
    names = [name for name in measured.factors if name != HOST]
    return [tuple(level_key(name, cell.point[name]) for name in names) for cell in measured.cells]


def standings(found: Deviations, trials: int, *, lower: bool = False) -> list[Standing]:
    """What is said of each condition; `trials` is the least number of trials that one has."""
    means = found.family.means
    few = trials < FEWEST_TRIALS and means.scale == Scale.LOG and not means.exact
    apart = few & (np.abs(found.estimates) >= math.log(LEAST_RATIO))
    cases = [found.near, found.direction == 0, apart, (found.direction > 0) == lower]
    said = [Standing.EQUAL, Standing.UNDECIDED, Standing.APART, Standing.SLOW]
    return [next(itertools.compress(said, row), Standing.FAST) for row in zip(*cases, strict=True)]


def _compared(response: ResponseComparison, hosts: Sequence[str], found: Deviations) -> ResponseComparison:
    scale, lower = found.family.means.scale, response.lower
    each = []
    for index, (host, standing) in enumerate(zip(hosts, standings(found, response.trials, lower=lower), strict=True)):
        reach, distance = float(found.reach[index]), abs(float(found.estimates[index]))
        limits = (float(np.exp(-reach)), float(np.exp(reach))) if scale == Scale.LOG else (-reach, reach)
        clarity = distance / reach if reach else math.inf if distance else 0.0
        pair = found.pair(index)
        each.append(HostDeviation(host, pair.estimate, pair.interval, pair.p, standing, limits, clarity))
    worst_first = np.argsort(-found.estimates if lower else found.estimates, kind="stable")
    return replace(
        response,
        scale=scale,
        hosts=tuple(each[index] for index in worst_first),
        reference=tuple(hosts[index] for index in found.reference),
        detectable=found.detectable,
    )
