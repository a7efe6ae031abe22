"""How long do requests take? Percentiles of merged histograms, with intervals over repetitions.

The point estimate is the percentile of all repetitions' requests together; percentiles are never averaged into one.
Its interval is over repetitions (`merged_histograms`). The binomial interval inside the merged histogram is given too,
labelled naive: it counts every request as independent.
No condition is compared with another here: as a response, a percentile is compared by the one model of its means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements import merged_histograms
from ioassay.analysis.measurements.cells import that_count
from ioassay.metrics import PERCENTILES
from ioassay.records.record import OK, Scalar
from ioassay.stats.result import Interval, Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay._core import Histogram

FEW_BEYOND = 10
"""Requests that must lie beyond a percentile before it means anything: below, single requests decide it."""


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
    """Latencies of one direction and kind, of all conditions in the study's order."""

    study: str
    direction: str
    kind: str
    confidence: float
    conditions: tuple[Latencies, ...]


def analyse(records: Dataset, study: Study) -> list[Distribution]:
    """One distribution for each direction and kind of latency that was recorded."""
    confidence = study.analysis.confidence
    return [
        Distribution(study.name, direction, kind, confidence, tuple(conditions))
        for direction in metrics.DIRECTIONS
        for kind in reversed(metrics.LATENCY_KINDS)
        if (conditions := latencies(records, study, direction, kind, confidence))
    ]


def latencies(records: Dataset, study: Study, direction: str, kind: str, confidence: float) -> list[Latencies]:
    """Every condition that has histograms of this direction and kind, in the study's order."""
    grouped = _by_condition(records, study, merged_histograms.of_trials(records, study, direction, kind))
    return [_condition(point, parts, confidence) for point, parts in grouped]


def _by_condition(
    records: Dataset, study: Study, found: Mapping[str, Histogram]
) -> list[tuple[dict[str, Scalar], list[Histogram]]]:
    design = study.design
    grouped: dict[tuple[str, ...], tuple[dict[str, Scalar], list[Histogram]]] = {}
    for row in that_count(records.trials_of(study)).iter_rows(named=True):
        if row["status"] != OK or row["trial"] not in found:
            continue
        grouped.setdefault(design.key(row), (design.point(row), []))[1].append(found[row["trial"]])
    return sorted(grouped.values(), key=lambda condition: design.place(condition[0]))


def _condition(point: Mapping[str, Scalar], parts: Sequence[Histogram], confidence: float) -> Latencies:
    merged = merged_histograms.merged(parts)
    found = merged_histograms.intervals(merged_histograms.pseudo_values(parts, PERCENTILES), confidence)
    percentiles = tuple(
        Percentile(
            percent=percent,
            value=merged.quantile(percent / 100),
            interval=interval,
            naive=_binomial(merged, percent / 100, confidence),
            beyond=merged.count * (1 - percent / 100),
        )
        for percent, interval in zip(PERCENTILES, found, strict=True)
    )
    return Latencies(point, len(parts), merged.count, merged.mean or 0.0, percentiles)


def _binomial(merged: Histogram, quantile: float, confidence: float) -> Interval | Undefined:
    low, high = merged.quantile_interval(quantile, confidence)
    if not (np.isfinite(low) and np.isfinite(high)):
        return Undefined("too few requests to bound this percentile on both sides")
    return Interval(low, high, confidence, "binomial")
