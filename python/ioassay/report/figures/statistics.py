"""The statistics that figures show, all taken from `stats`: this module defines none of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioassay.report.figures.spec import ErrorBar

if TYPE_CHECKING:
    from ioassay.analysis.measurements.cells import Cell
    from ioassay.stats.least_squares import Line


@dataclass(frozen=True)
class Summary:
    """Repetitions of one condition. `low` and `high` end its error bar; None where there is none (one repetition)."""

    n: int
    mean: float
    median: float
    low: float | None
    high: float | None


def summarise(metric: str, cell: Cell, error: ErrorBar = "none", confidence: float = 0.95) -> Summary:
    """Value and interval of one condition; median and deviation of what its repetitions measured."""
    from ioassay.analysis.measurements import cells
    from ioassay.stats import sample
    from ioassay.stats.result import Undefined

    mean, found = sample.moments(cell.values).mean, sample.moments(cell.measured)
    ends: tuple[float | None, float | None] = (None, None)
    if error == "sd" and found.stddev is not None:
        ends = mean - found.stddev, mean + found.stddev
    elif error == "ci" and (interval := cells.interval(metric, cell, confidence)):
        ends = (None, None) if isinstance(interval, Undefined) else (interval.low, interval.high)
    return Summary(found.n, mean, found.median, *ends)


def fit_line(x: Sequence[float], y: Sequence[float], confidence: float) -> Line | None:
    """Least squares over all points; None where a line cannot be fitted."""
    import numpy as np

    from ioassay.stats import least_squares
    from ioassay.stats.result import Undefined

    line = least_squares.fit_line(np.asarray(x, dtype=float), np.asarray(y, dtype=float), confidence)
    return None if isinstance(line, Undefined) else line


def error_text(error: ErrorBar, confidence: float, centre: str = "mean") -> str:
    """What the error bars are, for a legend: `mean ± standard deviation`."""
    shown = {"sd": " ± standard deviation", "ci": f" with {confidence * 100:g} % interval", "none": ""}
    return centre + shown[error]
