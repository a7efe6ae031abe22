"""Sentences about latency distributions: median and 99th percentile, and which percentiles to trust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis.measurements.cells import label
from ioassay.analysis.storage.latency import FEW_BEYOND, Distribution, Latencies
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import Interval

HALF_AND_TAIL = "half of the {direction}s take at most {half}, and 99 % take at most {tail}{within}"
NAIVE = "naive: counts every request of all repetitions as independent"
NAIVE_INTERVAL = (
    "The naive interval treats every request as independent, but neighbours in a queue are not. "
    "Quote the interval over repetitions."
)
SPARSE = (
    f"Fewer than {FEW_BEYOND} requests lie beyond {{percentiles}} in at least one condition: "
    "single requests decide the value there."
)
ONE_REPETITION = "A condition with one repetition has no interval over repetitions."
CLOSED_LOOP = (
    "The load waits for its own requests (closed loop): a stall delays later requests, and their latency omits it. "
    "Under a steady arrival of requests the tails are longer."
)


def findings(answers: Sequence[Distribution]) -> list[Finding]:
    """One finding for each direction and kind of latency."""
    return [_finding(distribution) for distribution in answers]


def _finding(distribution: Distribution) -> Finding:
    direction, kind, conditions = distribution.direction, distribution.kind, distribution.conditions
    response = f"{direction}.{kind}.p99"
    return Finding(
        study=distribution.study,
        question="latency",
        response=response,
        title=f"Distribution of {phrases.inside(f'{direction}.{kind}.mean').removeprefix('mean ')}",
        statements=_statement(direction, conditions),
        statistics={"naive_label": NAIVE, "points": [_numbers(condition) for condition in conditions]},
        tables=[_overview(response, conditions), _intervals(response, distribution)],
        caveats=_caveats(kind, conditions),
    )


def _statement(direction: str, conditions: Sequence[Latencies]) -> str:
    if len(conditions) == 1:
        return f"{phrases.capital(_half_and_tail(direction, conditions[0]))}."
    ranked = sorted(conditions, key=lambda condition: condition.at(99.0).value)
    return " ".join(
        f"At {label(condition.point)}, {_half_and_tail(direction, condition)}." for condition in (ranked[0], ranked[-1])
    )


def _half_and_tail(direction: str, condition: Latencies) -> str:
    half, tail = condition.at(50.0), condition.at(99.0)
    interval = tail.interval
    return HALF_AND_TAIL.format(
        direction=direction,
        half=metrics.format_metric("read.lat.p99", half.value),
        tail=metrics.format_metric("read.lat.p99", tail.value),
        within=f" ({phrases.interval('read.lat.p99', interval)})" if isinstance(interval, Interval) else "",
    )


def _numbers(condition: Latencies) -> dict[str, Any]:
    return {
        "point": dict(condition.point),
        "label": label(condition.point),
        "repetitions": condition.repetitions,
        "requests": condition.requests,
        "mean_ns": condition.mean_ns,
        "percentiles": {
            percentile_name(percentile.percent): {
                "value_ns": percentile.value,
                "ci_ns": phrases.ends(percentile.interval),
                "naive_ci_ns": phrases.ends(percentile.naive),
                "requests_beyond": percentile.beyond,
            }
            for percentile in condition.percentiles
        },
    }


def _overview(response: str, conditions: Sequence[Latencies]) -> Table:
    factors = list(conditions[0].point)
    columns = [*factors, "repetitions", "requests", "mean", *map(percentile_name, PERCENTILES)]
    rows = [
        [
            *condition.point.values(),
            condition.repetitions,
            condition.requests,
            condition.mean_ns,
            *(percentile.value for percentile in condition.percentiles),
        ]
        for condition in conditions
    ]
    return Table(columns, rows, [*("" for _ in factors), "", "", *[response] * (1 + len(PERCENTILES))])


def _intervals(response: str, distribution: Distribution) -> Table:
    factors, level = list(distribution.conditions[0].point), phrases.level(distribution.confidence)
    columns = [*factors, "percentile", "all requests", f"{level} interval, low", "high"]
    columns += [f"{level} naive, low", "high"]
    rows = [
        [
            *condition.point.values(),
            percentile_name(percentile.percent),
            percentile.value,
            *(phrases.ends(percentile.interval) or (None, None)),
            *(phrases.ends(percentile.naive) or (None, None)),
        ]
        for condition in distribution.conditions
        for percentile in condition.percentiles
    ]
    return Table(columns, rows, [*("" for _ in factors), "", *[response] * 5])


def _caveats(kind: str, conditions: Sequence[Latencies]) -> list[str]:
    caveats = [NAIVE_INTERVAL]
    few = (percent for percent in PERCENTILES if any(condition.at(percent).sparse for condition in conditions))
    sparse = [percentile_name(percent) for percent in few]
    if sparse:
        caveats.append(SPARSE.format(percentiles=phrases.listed(sparse)))
    if min(condition.repetitions for condition in conditions) < 2:
        caveats.append(ONE_REPETITION)
    return [*caveats, CLOSED_LOOP] if kind == "lat" else caveats
