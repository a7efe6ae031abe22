"""What do all hosts do together? Rates summed within a repetition and latencies of all requests, beside each host's.

Only where the hosts started at one instant (`run.together`), since rates of different times have no sum, and only of
repetitions in which every host succeeded. Percentiles come from merged histograms and are never averaged. Fairness is
Jain's index: R. Jain, D. Chiu and W. Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC Technical
Report 301 (1984).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements import merged_histograms
from ioassay.analysis.measurements.cells import plausible
from ioassay.factors import HOST, Design
from ioassay.records.record import OK, Scalar
from ioassay.stats.result import Floats, Interval, Undefined, mean_of
from ioassay.stats.sample import mean_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

LEAST_OVERLAP = 0.9
"""Share of the longest trial in which all hosts must have run, so that their rates are of one time."""
LATE, UNCERTAINTY = "start.late", "start.uncertainty"
_NS = 1e9

_Trials = Mapping[str, Mapping[str, Any]]
"""Host -> its trial of one point and repetition."""


@dataclass(frozen=True)
class Estimate:
    """A mean over repetitions, of a percentile that of all requests, with Student's interval."""

    value: float
    interval: Interval | Undefined


@dataclass(frozen=True)
class Client:
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
    uncertainty_ns: float | None


@dataclass(frozen=True)
class PointTotals:
    """One point of the other factors. `total` is None where no repetition has all hosts.

    `left_out`: repetitions in which a host has no good trial. `overlap`: the smallest share of the longest trial in
    which all hosts ran, None where starts were not recorded.
    """

    point: Mapping[str, Scalar]
    clients: tuple[Client, ...]
    total: Client | None
    left_out: int
    fairness: Mapping[str, Fairness]
    overlap: float | None


@dataclass(frozen=True)
class ClientTotals:
    """All points of a study in its order; `responses` are those that any row has."""

    study: str
    hosts: tuple[str, ...]
    confidence: float
    responses: tuple[str, ...]
    points: tuple[PointTotals, ...]
    starts: Starts | None

    @property
    def overlap(self) -> float | None:
        """The smallest of all points."""
        return min((one.overlap for one in self.points if one.overlap is not None), default=None)


def analyse(records: Dataset, study: Study) -> list[ClientTotals]:
    """The totals of a study whose hosts measured together; none where nothing of it can be summed or merged."""
    if not study.run.together or len(study.hosts) < 2:
        return []
    design = Design({name: levels for name, levels in study.levels.items() if name != HOST})
    found: dict[tuple[str, ...], dict[int, dict[str, Mapping[str, Any]]]] = {}
    points: dict[tuple[str, ...], dict[str, Scalar]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        key = design.key(row)
        points.setdefault(key, design.point(row))
        found.setdefault(key, {}).setdefault(row["repetition"], {})[str(row[HOST])] = row
    responses = [name for name in records.responses(study) if _is_combined(name)]
    values = {response: _values_of(records, study, response) for response in responses}
    order = sorted(found, key=lambda key: design.place(points[key]))
    each = tuple(_point(study, points[key], found[key], values) for key in order)
    present = tuple(name for name in responses if any(name in one.values for part in each for one in part.clients))
    if not present:
        return []
    instants = [trials for key in order for trials in found[key].values() if _is_complete(study, trials)]
    return [ClientTotals(study.name, study.hosts, study.analysis.confidence, present, each, _starts(instants))]


def _is_combined(response: str) -> bool:
    """Whether hosts have the response together: the sum of rates, the percentile of all requests."""
    return metrics.latency_percentile(response) is not None or metrics.metric(response).kind == metrics.RATE


class _Values:
    """What trials measured of one response, and what several of them come to."""

    def __init__(self, response: str, known: Mapping[str, Any], percent: float | None) -> None:
        self.response, self.known, self.percent = response, known, percent

    def estimate(self, groups: Sequence[Sequence[str]], confidence: float) -> Estimate | None:
        """Of repetitions, each with its trials together; None where a trial has no value."""
        if not groups or not all(trial in self.known for group in groups for trial in group):
            return None
        each = self._repetitions(groups)
        return Estimate(mean_of(each), mean_interval(each, confidence, metrics.metric(self.response).bounds))

    def _repetitions(self, groups: Sequence[Sequence[str]]) -> Floats:
        if self.percent is None:
            return np.array([sum(self.known[trial] for trial in group) for group in groups], dtype=np.float64)
        merged = [merged_histograms.merged([self.known[trial] for trial in group]) for group in groups]
        return merged_histograms.pseudo_values(merged, [self.percent]).ravel()


def _values_of(records: Dataset, study: Study, response: str) -> _Values:
    if percentile := metrics.latency_percentile(response):
        known = merged_histograms.of_trials(records, study, percentile.direction, percentile.kind)
        return _Values(response, known, percentile.percent)
    rows = records.trials_of(study).select("trial", response).iter_rows()
    performed = _performed(records, study, response)
    return _Values(response, {trial: value for trial, value in rows if plausible(value) and trial in performed}, None)


def _performed(records: Dataset, study: Study, response: str) -> set[str]:
    """_Trials with a request of the response's direction: a direction without one has no rate, even where it is 0."""
    trials, requests = records.trials_of(study), f"{response.partition('.')[0]}.ios"
    if requests not in trials.columns:
        return set(trials["trial"].to_list())
    return {trial for trial, number in trials.select("trial", requests).iter_rows() if number != 0}


def _is_complete(study: Study, trials: _Trials) -> bool:
    return all(host in trials and trials[host]["status"] == OK for host in study.hosts)


def _point(
    study: Study, point: Mapping[str, Scalar], repetitions: Mapping[int, _Trials], values: Mapping[str, _Values]
) -> PointTotals:
    confidence = study.analysis.confidence
    complete = [trials for _, trials in sorted(repetitions.items()) if _is_complete(study, trials)]
    clients = []
    for host in study.hosts:
        good = [trials[host] for trials in repetitions.values() if host in trials and trials[host]["status"] == OK]
        clients.append(_client(host, [[row["trial"]] for row in good], values, confidence))
    everyone = [[trials[host]["trial"] for host in study.hosts] for trials in complete]
    return PointTotals(
        point,
        tuple(clients),
        _client("", everyone, values, confidence) if everyone else None,
        len(repetitions) - len(complete),
        _fairness(study, everyone, values) if everyone else {},
        min(_overlap(trials.values()) for trials in complete) if _are_timed(complete) else None,
    )


def _client(host: str, groups: Sequence[Sequence[str]], values: Mapping[str, _Values], confidence: float) -> Client:
    estimates = {response: known.estimate(groups, confidence) for response, known in values.items()}
    return Client(host, len(groups), {name: one for name, one in estimates.items() if one is not None})


def _fairness(study: Study, everyone: Sequence[Sequence[str]], values: Mapping[str, _Values]) -> dict[str, Fairness]:
    """Of the hosts' means over the repetitions that have all of them."""
    found = {}
    for response, known in values.items():
        if known.percent is not None or known.estimate(everyone, 0.95) is None:
            continue
        means = np.array([[known.known[trial] for trial in group] for group in everyone]).mean(axis=0)
        whole, slowest = float(means.sum()), int(means.argmin())
        if whole > 0:
            index = whole**2 / (means.size * float(np.sum(means**2)))
            found[response] = Fairness(index, study.hosts[slowest], float(means[slowest]) / whole)
    return found


def _are_timed(instants: Sequence[_Trials]) -> bool:
    return bool(instants) and all(row.get(LATE) is not None for trials in instants for row in trials.values())


def _starts(instants: Sequence[_Trials]) -> Starts | None:
    if not _are_timed(instants):
        return None
    late = [[row[LATE] for row in trials.values()] for trials in instants]
    known = [row.get(UNCERTAINTY) for trials in instants for row in trials.values()]
    uncertain = [one for one in known if one is not None]
    return Starts(max(max(one) - min(one) for one in late), max(uncertain) if len(uncertain) == len(known) else None)


def _overlap(rows: Collection[Mapping[str, Any]]) -> float:
    """The time in which all ran, as a share of the longest."""
    begins = [row[LATE] / _NS for row in rows]
    ends = [begin + row["duration_s"] for begin, row in zip(begins, rows, strict=True)]
    longest = max(row["duration_s"] for row in rows)
    return max(min(ends) - max(begins), 0.0) / longest if longest else 0.0
