"""What do all hosts do together? Rates summed within a repetition and latencies of all requests, and each host's.

Only where the hosts started at one instant (`run.together`), since rates of different times have no sum, and only of
repetitions in which every host succeeded. Percentiles come from merged histograms and are never averaged. Fairness is
Jain's index: R. Jain, D. Chiu and W. Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC Technical
Report 301 (1984).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements.cells import cells
from ioassay.factors import HOST, LevelIndex
from ioassay.records.record import OK, Scalar
from ioassay.stats.contrasts import best
from ioassay.stats.percentiles import merge_histograms, pseudo_values
from ioassay.stats.result import Interval, Undefined, mean_of
from ioassay.stats.sample import mean_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

LEAST_OVERLAP = 0.9
"""Share of the longest trial in which all hosts must have run, so that their rates are of one time."""
LATE, UNCERTAINTY = "start.late", "start.uncertainty"
_NS = 1e9

_Instant = Mapping[str, Mapping[str, Any]]
"""Host -> its trial, of those of one point and repetition that succeeded."""
_Known = Mapping[str, Mapping[str, Any]]
"""Response -> trial -> what it measured: a rate, or the latencies of its requests."""


@dataclass(frozen=True)
class Estimate:
    """A mean over repetitions, of a percentile that of all requests, with Student's interval."""

    value: float
    interval: Interval | Undefined


@dataclass(frozen=True)
class HostMeans:
    """One host, or all where `host` is ''. A response that it does not have is missing."""

    host: str
    repetitions: int
    values: Mapping[str, Estimate]


@dataclass(frozen=True)
class Fairness:
    """How evenly a rate is shared: Jain's index, 1 where all are equal; the slowest host and its share of the sum."""

    index: float
    slowest: str
    share: float


@dataclass(frozen=True)
class Starts:
    """How far the hosts' first instructions lay apart, at most, and what the comparison of clocks may be wrong by."""

    apart_ns: float
    uncertainty_ns: float


@dataclass(frozen=True)
class PointTotals:
    """One point of the other factors. `all` is None where no repetition has all hosts.

    `left_out`: repetitions in which a host has no good trial. `overlap`: the smallest share of the longest trial in
    which all hosts ran, None where starts were not recorded.
    """

    point: Mapping[str, Scalar]
    clients: tuple[HostMeans, ...]
    all: HostMeans | None
    left_out: int
    fairness: Mapping[str, Fairness]
    overlap: float | None


@dataclass(frozen=True)
class HostTotals:
    """All points of a study in its order; `responses` are those that any row has."""

    hosts: tuple[str, ...]
    responses: tuple[str, ...]
    points: tuple[PointTotals, ...]
    starts: Starts | None

    @property
    def overlap(self) -> float | None:
        return min((one.overlap for one in self.points if one.overlap is not None), default=None)


def totals(records: Dataset, study: Study) -> HostTotals | None:
    """The totals of a study whose hosts measured together; None where nothing of it can be summed or merged."""
    if not study.run.together:
        return None
    design = LevelIndex({name: levels for name, levels in study.levels.items() if name != HOST})
    points: dict[tuple[str, ...], dict[str, Scalar]] = {}
    found: dict[tuple[str, ...], dict[int, dict[str, Mapping[str, Any]]]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        key = design.key(row)
        points.setdefault(key, design.point(row))
        instant = found.setdefault(key, {}).setdefault(row["repetition"], {})
        if row["status"] == OK:
            instant[str(row[HOST])] = row
    known = {response: _known(records, study, response) for response in records.responses(study)}
    order = sorted(points, key=lambda key: design.place(points[key]))
    each = tuple(
        _point(study, points[key], [found[key][number] for number in sorted(found[key])], known) for key in order
    )
    present = tuple(name for name in known if any(name in one.values for part in each for one in part.clients))
    instants = [instant for key in order for instant in found[key].values() if len(instant) == len(study.hosts)]
    starts = None
    if _are_timed(instants):
        late = [[row[LATE] for row in instant.values()] for instant in instants]
        uncertain = max(row[UNCERTAINTY] for instant in instants for row in instant.values())
        starts = Starts(max(max(one) - min(one) for one in late), uncertain)
    return HostTotals(study.hosts, present, each, starts) if present else None


def _known(records: Dataset, study: Study, response: str) -> dict[str, Any]:
    """Trial -> its rate, or the latencies of its requests, and its condition's value; of what hosts have together."""
    percentile = metrics.latency_percentile(response)
    if percentile is None and metrics.metric(response).kind != metrics.RATE:
        return {}
    measured = cells(records, study, response)
    if percentile and not measured.merged:
        return {}
    return {
        trial: (value, cell.mean)
        for cell in measured.cells
        for trial, value in zip(cell.trials, cell.histograms if percentile else cell.measured, strict=True)
    }


def _point(study: Study, point: Mapping[str, Scalar], instants: Sequence[_Instant], known: _Known) -> PointTotals:
    complete = [instant for instant in instants if len(instant) == len(study.hosts)]
    groups = {host: [[one[host]["trial"]] for one in instants if host in one] for host in study.hosts}
    together = [[instant[host]["trial"] for host in study.hosts] for instant in complete]
    each = [_means(host, own, known, study.analysis.confidence) for host, own in groups.items()]
    total = _means("", together, known, study.analysis.confidence)
    rates = [name for name in total.values if metrics.latency_percentile(name) is None]
    fairness = {}
    for name in rates:  # of the hosts' means over the repetitions that have all of them
        means = np.mean([[known[name][trial][0] for trial in group] for group in together], axis=0)
        whole, slowest = float(means.sum()), best(means, lower=True)
        if whole > 0:
            index = whole**2 / (means.size * float(np.sum(means**2)))
            fairness[name] = Fairness(index, study.hosts[slowest], float(means[slowest]) / whole)
    overlaps = []
    for instant in complete if _are_timed(complete) else ():  # the time in which all ran, as a share of the longest
        begins = [row[LATE] / _NS for row in instant.values()]
        lengths = [row["duration_s"] for row in instant.values()]
        ends = map(sum, zip(begins, lengths, strict=True))
        overlaps.append(max(min(ends) - max(begins), 0.0) / max(lengths) if max(lengths) else 0.0)
    return PointTotals(
        point,
        tuple(each),
        total if complete else None,
        len(instants) - len(complete),
        fairness,
        min(overlaps, default=None),
    )


def _means(host: str, groups: Sequence[Sequence[str]], known: _Known, confidence: float) -> HostMeans:
    """Of repetitions, each with its trials together; without responses that a trial has no value of."""
    found = {}
    for response, values in known.items():
        if groups and all(trial in values for group in groups for trial in group):
            own = [[values[trial][0] for trial in group] for group in groups]
            if percentile := metrics.latency_percentile(response):
                merged = [merge_histograms(group) for group in own]
                each = pseudo_values(merged, [percentile.percent]).ravel()
            else:
                each = np.array([sum(group) for group in own])
            bounds = metrics.metric(response).bounds
            is_bound = any(isinstance(values[trial][1], metrics.LowerBound) for group in groups for trial in group)
            mean = metrics.LowerBound(mean_of(each)) if is_bound else mean_of(each)
            found[response] = Estimate(mean, mean_interval(each, confidence, bounds))
    return HostMeans(host, len(groups), found)


def _are_timed(instants: Sequence[_Instant]) -> bool:
    return bool(instants) and all(row.get(LATE) is not None for instant in instants for row in instant.values())
