"""How large is every condition, and how well is that known? Means of responses and percentiles of latencies.

The repetition is the unit: n is the number of trials, never of log samples. Outliers are flagged, not removed.
A percentile is that of all repetitions' requests together (`merged_histograms`), and its interval is over repetitions.
The binomial interval inside the merged histogram is given too, labelled naive: it counts every request as independent.
No condition is compared with another here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements import merged_histograms
from ioassay.analysis.measurements.cells import Cell, Cells, cells, interval, that_count
from ioassay.metrics import PERCENTILES
from ioassay.records.record import OK, Scalar
from ioassay.stats.result import Floats, Interval, Undefined, mean_of
from ioassay.stats.sample import Moments, mean_interval, moments, outliers
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay._core import Histogram

FEW_BEYOND = 10
"""Requests that must lie beyond a percentile before it means anything: below, single requests decide it."""


@dataclass(frozen=True)
class Flagged:
    """What one repetition measured, an outlier `score` deviations away."""

    trial: str
    repetition: int
    value: float
    score: float


@dataclass(frozen=True)
class Summary:
    """One condition described; `interval` is that of its value.

    `moments` has that mean, which may be a percentile of all requests; the others are of what repetitions measured.
    """

    point: Mapping[str, Scalar]
    moments: Moments
    interval: Interval | Undefined
    outliers: tuple[Flagged, ...]


@dataclass(frozen=True)
class Description:
    """All conditions of one response, in the study's order."""

    cells: Cells
    conditions: tuple[Summary, ...]

    def is_of(self, direction: str, kind: str) -> bool:
        """Whether it describes one of the percentiles of all requests that a distribution of these latencies has."""
        found = metrics.latency_percentile(self.cells.response) if self.cells.merged else None
        return found is not None and found.percent in PERCENTILES and (found.direction, found.kind) == (direction, kind)


@dataclass(frozen=True)
class ConditionMean:
    """One response of one condition, in the metric's unit: its mean, of a percentile that of all its requests."""

    study: str
    workload: str
    """The condition in words."""
    point: Mapping[str, Scalar]
    metric: str
    unit: str
    mean: float
    median: float
    """Of the repetitions."""
    ci95: tuple[float, float] | None
    """Always of 95 %; None for one repetition."""
    repetitions: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Percentile:
    """One percentile in ns. `value` of all requests; `interval` over repetitions; `naive` binomial.

    `beyond` is the number of requests expected above it.
    """

    percent: float
    value: float
    interval: Interval | Undefined
    naive: Interval | Undefined
    beyond: float

    @property
    def sparse(self) -> bool:
        """Return True where single requests decide the value."""
        return self.beyond < FEW_BEYOND


@dataclass(frozen=True)
class Latencies:
    """One condition: its merged requests, and each percentile of PERCENTILES."""

    point: Mapping[str, Scalar]
    repetitions: int
    requests: int
    mean_ns: float
    percentiles: tuple[Percentile, ...]

    def at(self, percent: float) -> Percentile:
        """One of PERCENTILES."""
        return self.percentiles[PERCENTILES.index(percent)]


@dataclass(frozen=True)
class Distribution:
    """Latencies of one direction and kind, of all conditions in the study's order.

    `responses`: the study's responses that are percentiles of it.
    """

    study: str
    direction: str
    kind: str
    conditions: tuple[Latencies, ...]
    responses: tuple[Description, ...]


def analyse(records: Dataset, study: Study) -> list[Description | Distribution]:
    """One description for each response that has values, then each direction and kind of latency that was recorded.

    A percentile of all requests is described with its distribution.
    """
    confidence = study.analysis.confidence
    collected = [cells(records, study, response) for response in records.responses(study)]
    described = [
        Description(part, tuple(_summary(part.response, cell, confidence) for cell in part.cells))
        for part in collected
        if part.cells
    ]
    distributions = [
        Distribution(
            study.name, direction, kind, conditions, tuple(one for one in described if one.is_of(direction, kind))
        )
        for direction in metrics.DIRECTIONS
        for kind in reversed(metrics.LATENCY_KINDS)
        if (conditions := _latencies(records, study, direction, kind))
    ]
    with_others = [id(one) for part in distributions for one in part.responses]
    return [*(one for one in described if id(one) not in with_others), *distributions]


def headline(records: Dataset, studies: Sequence[Study]) -> list[ConditionMean]:
    """The rows that a person wants to see first, one for each study, condition and response, conditions outermost."""
    return [row for study in studies for row in _means(records, study)]


def _means(records: Dataset, study: Study) -> list[ConditionMean]:
    found, design = [cells(records, study, response) for response in records.responses(study)], study.design
    rows = [_condition_mean(part, cell) for part in found for cell in part.cells]
    return sorted(rows, key=lambda row: design.place(row.point))


def _condition_mean(found: Cells, cell: Cell) -> ConditionMean:
    known = interval(found.response, cell)
    return ConditionMean(
        study=found.study,
        workload=cell.label,
        point=dict(cell.point),
        metric=found.response,
        unit=metrics.metric(found.response).unit,
        mean=mean_of(cell.values),
        median=moments(cell.measured).median,
        ci95=None if isinstance(known, Undefined) else (known.low, known.high),
        repetitions=int(cell.values.size),
    )


def relative_half_width(values: Sequence[float] | Floats, confidence: float = 0.95) -> float:
    """Half the width of the interval as a share of the mean: what adaptive repetition waits for.

    Infinite where there is no interval (fewer than two values) or the mean is 0.
    """
    found = mean_interval(values, confidence)
    mean = moments(values).mean if len(values) else 0.0
    if isinstance(found, Undefined) or mean == 0:
        return float("inf")
    return (found.high - found.low) / 2 / abs(mean)


def _summary(response: str, cell: Cell, confidence: float) -> Summary:
    flagged = tuple(
        Flagged(cell.trials[one.index], int(cell.repetition[one.index]), float(cell.measured[one.index]), one.score)
        for one in outliers(cell.measured)
    )
    described = replace(moments(cell.measured), mean=mean_of(cell.values))
    return Summary(cell.point, described, interval(response, cell, confidence), flagged)


def _latencies(records: Dataset, study: Study, direction: str, kind: str) -> tuple[Latencies, ...]:
    """Every condition that has histograms of this direction and kind, in the study's order."""
    known, design = merged_histograms.of_trials(records, study, direction, kind), study.design
    grouped: dict[tuple[str, ...], tuple[dict[str, Scalar], list[Histogram]]] = {}
    for row in that_count(records.trials_of(study)).iter_rows(named=True):
        if row["status"] == OK and row["trial"] in known:
            grouped.setdefault(design.key(row), (design.point(row), []))[1].append(known[row["trial"]])
    ordered = sorted(grouped.values(), key=lambda condition: design.place(condition[0]))
    return tuple(_condition(point, parts, study.analysis.confidence) for point, parts in ordered)


def _condition(point: Mapping[str, Scalar], parts: Sequence[Histogram], confidence: float) -> Latencies:
    merged = merged_histograms.merged(parts)
    found = merged_histograms.intervals(merged_histograms.pseudo_values(parts, PERCENTILES), confidence)
    percentiles = tuple(
        Percentile(
            percent=percent,
            value=merged.quantile(percent / 100),
            interval=bounds,
            naive=_binomial(merged, percent / 100, confidence),
            beyond=merged.count * (1 - percent / 100),
        )
        for percent, bounds in zip(PERCENTILES, found, strict=True)
    )
    return Latencies(point, len(parts), merged.count, merged.mean or 0.0, percentiles)


def _binomial(merged: Histogram, quantile: float, confidence: float) -> Interval | Undefined:
    low, high = merged.quantile_interval(quantile, confidence)
    if not (np.isfinite(low) and np.isfinite(high)):
        return Undefined("too few requests to bound this percentile on both sides")
    return Interval(low, high, confidence, "binomial")
