"""How large is it, and how well is that known? Mean, median, deviation and intervals of every condition.

The repetition is the unit: n is the number of trials, never of log samples. Outliers are flagged, not removed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import Floats, Interval, Undefined, plain
from ioassay.stats.sample import Moments, Outlier, bca_intervals, moments, outliers, t_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

FEW_FOR_BOOTSTRAP = 10


@dataclass(frozen=True)
class Summary:
    """One condition described. `interval` is Student's, `bca` the bootstrap's; both of the mean."""

    cell: Cell
    moments: Moments
    interval: Interval | Undefined
    bca: Interval | Undefined
    outliers: tuple[Outlier, ...]


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for each response, with a row for each condition."""
    collected = [cells(records, study, response) for response in records.responses(study)]
    confidence = study.analysis.confidence
    return [_finding(found, summaries(found, confidence)) for found in collected if found.cells]


def summaries(found: Cells, confidence: float) -> list[Summary]:
    """Every condition described, in the order of `found`."""
    bootstrapped = bca_intervals(found.groups, confidence)
    return [
        Summary(cell, moments(cell.values), t_interval(cell.values, confidence), bca, tuple(outliers(cell.values)))
        for cell, bca in zip(found.cells, bootstrapped, strict=True)
    ]


def relative_half_width(values: Sequence[float] | Floats, confidence: float = 0.95) -> float:
    """Half the width of the t interval as a share of the mean: what adaptive repetition waits for.

    Infinite where there is no interval (fewer than two values) or the mean is 0.
    """
    found = t_interval(values, confidence)
    mean = moments(values).mean if len(values) else 0.0
    if isinstance(found, Undefined) or mean == 0:
        return float("inf")
    return (found.high - found.low) / 2 / abs(mean)


def _finding(found: Cells, described: Sequence[Summary]) -> Finding:
    return Finding(
        study=found.study,
        question="describe",
        response=found.response,
        title=f"{phrases.name(found.response)} of each condition",
        statement=_statement(found.response, described),
        statistics={"unit": "repetition", "points": [_numbers(summary) for summary in described]},
        tables=[_table(found, described)],
        caveats=[*found.caveats(), *_caveats(found.response, described)],
    )


def _statement(response: str, described: Sequence[Summary]) -> str:
    if len(described) == 1:
        return f"{phrases.name(response)} is {_known(response, described[0])}."
    low = min(described, key=lambda summary: summary.moments.mean)
    high = max(described, key=lambda summary: summary.moments.mean)
    return (
        f"{phrases.name(response)} lies between {_known(response, low)} at {low.cell.label} "
        f"and {_known(response, high)} at {high.cell.label}."
    )


def _known(response: str, summary: Summary) -> str:
    shown = phrases.value(response, summary.moments.mean)
    if isinstance(summary.interval, Undefined):
        return f"{shown} ({phrases.count(summary.moments.n, 'repetition')})"
    return f"{shown} ({phrases.interval(response, summary.interval)}, n = {summary.moments.n})"


def _numbers(summary: Summary) -> dict[str, Any]:
    return {
        "point": dict(summary.cell.point),
        "label": summary.cell.label,
        **plain(summary.moments),
        "ci": _bounds(summary.interval),
        "ci_bca": _bounds(summary.bca),
        "outliers": [
            {
                "repetition": int(summary.cell.repetition[outlier.index]),
                "trial": summary.cell.trials[outlier.index],
                "value": float(summary.cell.values[outlier.index]),
                "score": outlier.score,
            }
            for outlier in summary.outliers
        ],
    }


def _bounds(found: Interval | Undefined) -> list[float] | None:
    return None if isinstance(found, Undefined) else [found.low, found.high]


def _shown(response: str, found: Interval | Undefined) -> tuple[float | None, float | None]:
    return (None, None) if isinstance(found, Undefined) else (phrases.lowest(response, found.low), found.high)


def _table(found: Cells, described: Sequence[Summary]) -> Table:
    factors = list(found.factors)
    intervals = [summary.interval for summary in described if isinstance(summary.interval, Interval)]
    shown = phrases.level(intervals[0].confidence) if intervals else "95 %"
    columns = ["n", "mean", "median", "deviation", "variation (%)", "minimum", "maximum"]
    columns += [f"{shown} t, low", "high", f"{shown} BCa, low", "high", "outliers"]
    unit = found.response
    formats = [*("" for _ in factors), "", unit, unit, unit, "", unit, unit, unit, unit, unit, unit, ""]
    return Table([*factors, *columns], [_row(unit, factors, summary) for summary in described], formats)


def _row(response: str, factors: Sequence[str], summary: Summary) -> list[Any]:
    found = summary.moments
    return [
        *(summary.cell.point[factor] for factor in factors),
        found.n,
        found.mean,
        found.median,
        found.stddev,
        phrases.in_percent(found.cv),
        found.minimum,
        found.maximum,
        *_shown(response, summary.interval),
        *(_bounds(summary.bca) or (None, None)),
        len(summary.outliers),
    ]


def _caveats(response: str, described: Sequence[Summary]) -> list[str]:
    said = [_outlying(response, described)] if any(summary.outliers for summary in described) else []
    if re.search(r"\.p[0-9.]+$", response):
        said.append(
            "Means are over the percentiles of single repetitions; the percentile of all requests together is among "
            "the latency distributions."
        )
    fewest = min(summary.moments.n for summary in described)
    if fewest < 2:
        said.append("A single repetition has no interval: how far the next one would lie is unknown.")
    elif fewest < FEW_FOR_BOOTSTRAP:
        said.append(
            f"With {fewest} repetitions the bootstrap interval is too narrow more often than it says; "
            "the t interval is the one to quote."
        )
    return said


def _outlying(response: str, described: Sequence[Summary]) -> str:
    found = [
        f"{phrases.value(response, float(summary.cell.values[outlier.index]))} at {summary.cell.label} "
        f"(median {phrases.value(response, summary.moments.median)})"
        for summary in described
        for outlier in summary.outliers
    ]
    return f"Flagged as outliers and kept: {'; '.join(found)}."
