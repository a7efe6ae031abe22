"""How long do requests take? Percentiles of merged histograms, with intervals over repetitions.

The point estimate is the percentile of all repetitions' requests together; percentiles are never averaged into one.
Its interval comes from the repetitions' own percentiles (Student's t and BCa). The binomial interval inside the
merged histogram is given too, labelled naive: it counts every request as independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements.cells import label
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import OK, Scalar
from ioassay.stats.result import Interval, Undefined
from ioassay.stats.sample import bca_intervals, t_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay._core import Histogram

PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
MERGED = -1
FEW_BEYOND = 10
"""Requests that must lie beyond a percentile before it means anything: below, single requests decide it."""
NAIVE = "naive: counts every request of all repetitions as independent"


@dataclass(frozen=True)
class Percentile:
    """One percentile in ns. `value` of all requests; `interval` and `bca` over repetitions; `naive` binomial.

    `beyond` is the number of requests expected above it.
    """

    percent: float
    value: float
    interval: Interval | Undefined
    bca: Interval | Undefined
    naive: Interval | Undefined
    beyond: float


@dataclass(frozen=True)
class Latencies:
    """One condition: its merged requests, and each percentile of PERCENTS."""

    point: Mapping[str, Scalar]
    repetitions: int
    requests: int
    mean_ns: float
    percentiles: tuple[Percentile, ...]

    def at(self, percent: float) -> Percentile:
        """One of PERCENTS."""
        return self.percentiles[PERCENTS.index(percent)]


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for each direction and kind of latency that was recorded."""
    confidence = study.analysis.confidence
    findings = []
    for direction in metrics.DIRECTIONS:
        for kind in reversed(metrics.LATENCY_KINDS):
            described = latencies(records, study, direction, kind, confidence)
            if described:
                findings.append(_finding(study, direction, kind, described, confidence))
    return findings


def latencies(records: Dataset, study: Study, direction: str, kind: str, confidence: float) -> list[Latencies]:
    """Every condition that has histograms of this direction and kind, in the study's order."""
    grouped = _by_condition(records, study, _histograms(records, study, direction, kind))
    if not grouped:
        return []
    quantiles = [percent / 100 for percent in PERCENTS]
    own = [np.array([one.quantiles(quantiles) for one in parts]).T for _, parts in grouped]
    bootstrapped = iter(bca_intervals([row for rows in own for row in rows], confidence))
    return [
        _condition(point, parts, rows, [next(bootstrapped) for _ in PERCENTS], confidence)
        for (point, parts), rows in zip(grouped, own, strict=True)
    ]


def _histograms(records: Dataset, study: Study, direction: str, kind: str) -> dict[str, Histogram]:
    """Trial -> the histogram of all its jobs."""
    import polars as pl

    from ioassay._core import Histogram

    rows = records.hist.filter(
        (pl.col("study") == study.name) & (pl.col("direction") == direction) & (pl.col("kind") == kind)
    )
    merged = rows.filter(pl.col("job") == MERGED)
    apart = rows.filter(~pl.col("trial").is_in(merged["trial"].unique().to_list()))
    found = {
        str(trial): Histogram.from_buckets(part["value_ns"].to_numpy(), part["count"].to_numpy())
        for (trial,), part in pl.concat([merged, apart]).partition_by("trial", as_dict=True).items()
    }
    return {trial: one for trial, one in found.items() if one.count > 0}


def _by_condition(
    records: Dataset, study: Study, found: Mapping[str, Histogram]
) -> list[tuple[dict[str, Scalar], list[Histogram]]]:
    design = study.design
    grouped: dict[tuple[str, ...], tuple[dict[str, Scalar], list[Histogram]]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        if row["status"] != OK or row["trial"] not in found:
            continue
        grouped.setdefault(design.key(row), (design.point(row), []))[1].append(found[row["trial"]])
    return sorted(grouped.values(), key=lambda condition: design.place(condition[0]))


def _condition(
    point: Mapping[str, Scalar],
    parts: Sequence[Histogram],
    own: Any,
    bootstrapped: Sequence[Interval | Undefined],
    confidence: float,
) -> Latencies:
    from ioassay._core import Histogram

    merged = Histogram()
    for part in parts:
        merged.merge(part)
    percentiles = tuple(
        Percentile(
            percent=percent,
            value=merged.quantile(percent / 100),
            interval=_not_negative(t_interval(row, confidence)),
            bca=interval,
            naive=_binomial(merged, percent / 100, confidence),
            beyond=merged.count * (1 - percent / 100),
        )
        for percent, row, interval in zip(PERCENTS, own, bootstrapped, strict=True)
    )
    return Latencies(point, len(parts), merged.count, merged.mean or 0.0, percentiles)


def _not_negative(found: Interval | Undefined) -> Interval | Undefined:
    """No request takes less than no time; with few repetitions t would say so."""
    if isinstance(found, Undefined):
        return found
    return Interval(max(found.low, 0.0), found.high, found.confidence, found.method)


def _binomial(merged: Histogram, quantile: float, confidence: float) -> Interval | Undefined:
    low, high = merged.quantile_interval(quantile, confidence)
    if not (np.isfinite(low) and np.isfinite(high)):
        return Undefined("too few requests to bound this percentile on both sides")
    return Interval(low, high, confidence, "binomial")


def _finding(study: Study, direction: str, kind: str, described: Sequence[Latencies], confidence: float) -> Finding:
    response = f"{direction}.{kind}.p99"
    return Finding(
        study=study.name,
        question="latency",
        response=response,
        title=f"Distribution of {phrases.inside(f'{direction}.{kind}.mean').removeprefix('mean ')}",
        statement=_statement(direction, described),
        statistics={"naive_label": NAIVE, "points": [_numbers(one) for one in described]},
        tables=[_overview(response, described), _intervals(response, described, confidence)],
        caveats=_caveats(kind, described),
    )


def _statement(direction: str, described: Sequence[Latencies]) -> str:
    def told(one: Latencies) -> str:
        half, tail = one.at(50.0), one.at(99.0)
        known = tail.interval
        within = f" ({phrases.interval('read.lat.p99', known)})" if isinstance(known, Interval) else ""
        return f"half of the {direction}s take at most {_ns(half.value)} and 99 % at most {_ns(tail.value)}{within}"

    if len(described) == 1:
        return f"{phrases.capital(told(described[0]))}."
    fast = min(described, key=lambda one: one.at(99.0).value)
    slow = max(described, key=lambda one: one.at(99.0).value)
    return f"At {label(fast.point)}, {told(fast)}; at {label(slow.point)}, {told(slow)}."


def _ns(value_ns: float) -> str:
    return metrics.format_metric("read.lat.p99", value_ns)


def _numbers(one: Latencies) -> dict[str, Any]:
    return {
        "point": dict(one.point),
        "label": label(one.point),
        "repetitions": one.repetitions,
        "requests": one.requests,
        "mean_ns": one.mean_ns,
        "percentiles": {
            f"p{found.percent:g}": {
                "value_ns": found.value,
                "ci_ns": _bounds(found.interval),
                "ci_bca_ns": _bounds(found.bca),
                "naive_ci_ns": _bounds(found.naive),
                "requests_beyond": found.beyond,
            }
            for found in one.percentiles
        },
    }


def _bounds(found: Interval | Undefined) -> list[float] | None:
    return None if isinstance(found, Undefined) else [found.low, found.high]


def _overview(response: str, described: Sequence[Latencies]) -> Table:
    factors = list(described[0].point)
    columns = [*factors, "repetitions", "requests", "mean", *(f"p{percent:g}" for percent in PERCENTS)]
    rows = [
        [*one.point.values(), one.repetitions, one.requests, one.mean_ns, *(found.value for found in one.percentiles)]
        for one in described
    ]
    return Table(columns, rows, [*("" for _ in factors), "", "", *[response] * (1 + len(PERCENTS))])


def _intervals(response: str, described: Sequence[Latencies], confidence: float) -> Table:
    factors, level = list(described[0].point), phrases.level(confidence)
    columns = [*factors, "percentile", "all requests", f"{level} t, low", "high", f"{level} BCa, low", "high"]
    columns += [f"{level} naive, low", "high"]
    rows = [
        [
            *one.point.values(),
            f"p{found.percent:g}",
            found.value,
            *(_bounds(found.interval) or (None, None)),
            *(_bounds(found.bca) or (None, None)),
            *(_bounds(found.naive) or (None, None)),
        ]
        for one in described
        for found in one.percentiles
    ]
    return Table(columns, rows, [*("" for _ in factors), "", *[response] * 7])


def _caveats(kind: str, described: Sequence[Latencies]) -> list[str]:
    said = [
        "The naive interval counts every request as independent, which neighbours in a queue are not; "
        "the interval over repetitions is the one to quote."
    ]
    weak = {f"p{found.percent:g}" for one in described for found in one.percentiles if found.beyond < FEW_BEYOND}
    if weak:
        names = [f"p{percent:g}" for percent in PERCENTS if f"p{percent:g}" in weak]
        said.append(
            f"Fewer than {FEW_BEYOND} requests lie beyond {phrases.listed(names)} in at least one condition: "
            "single requests decide it there."
        )
    if min(one.repetitions for one in described) < 2:
        said.append("A condition with one repetition has no interval over repetitions.")
    if kind != "lat":
        return said
    said.append(
        "The load waits for its own requests (closed loop): a stall delays later requests without being counted in "
        "their latency, so tails under a steady arrival of requests are longer."
    )
    return said
