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
    from ioassay.stats import sample

    mean, found = sample.moments(cell.values).mean, sample.moments(cell.measured)
    low, high = _error_bar(metric, cell, error, confidence) or (None, None)
    return Summary(found.n, mean, found.median, low, high)


def _error_bar(metric: str, cell: Cell, error: ErrorBar, confidence: float) -> tuple[float, float] | None:
    from ioassay.analysis.measurements import cells
    from ioassay.stats import sample
    from ioassay.stats.result import Undefined

    if error == "sd":
        found = sample.moments(cell.measured)
        mean = sample.moments(cell.values).mean
        return None if found.stddev is None else (mean - found.stddev, mean + found.stddev)
    interval = cells.interval(metric, cell, confidence) if error == "ci" else None
    return (interval.low, interval.high) if interval and not isinstance(interval, Undefined) else None


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
