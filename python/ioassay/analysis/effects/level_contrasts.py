"""The conditions of one factor against each other: which is best, which worst, and by how much.

Best and worst are picked after the fact, so their ratio's interval holds for all pairs at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.stats import studentized_range
from ioassay.stats.ratio_of_means import Ratio, ratio_of_means
from ioassay.stats.result import Interval, Undefined, mean_of


@dataclass(frozen=True)
class Extremes:
    """`best` and `worst` by mean, in the response's better direction (higher where it has none).

    `ratio`: larger mean divided by the smaller; `interval` is simultaneous over all pairs; None where unknown.
    """

    best: Cell
    worst: Cell
    ratio: float | None
    interval: Interval | None


def lower_is_better(response: str) -> bool:
    """Whether small values of the response are good."""
    return metrics.metric(response).better == "lower"


def extremes(found: Cells, confidence: float) -> Extremes:
    """Best and worst of at least one condition."""
    ranked = sorted(found.cells, key=lambda cell: mean_of(cell.values))
    low, high = ranked[0], ranked[-1]
    best, worst = (low, high) if lower_is_better(found.response) else (high, low)
    ratio = ratio_of_means(high.values, low.values, confidence)
    if isinstance(ratio, Undefined):
        small = mean_of(low.values)
        return Extremes(best, worst, mean_of(high.values) / small if small > 0 else None, None)
    return Extremes(best, worst, ratio.ratio, simultaneous(ratio, len(found.cells), confidence))


def simultaneous(ratio: Ratio, conditions: int, confidence: float) -> Interval:
    """The ratio's interval, widened so that it holds for every pair of `conditions` at once.

    As Games and Howell widen differences: the studentized range's quantile over the square root of 2 instead of t's.
    """
    if ratio.se == 0:
        return ratio.interval
    quantile = float(studentized_range.quantile(confidence, max(conditions, 2), np.array([ratio.df]))[0])
    half = quantile / np.sqrt(2) * ratio.se
    log_ratio = np.log(ratio.ratio)
    return Interval(
        float(np.exp(log_ratio - half)), float(np.exp(log_ratio + half)), confidence, "log ratio, all pairs"
    )
