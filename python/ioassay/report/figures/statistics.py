"""The statistics that figures show, all taken from `stats`: this module defines none of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ioassay.report.figures.spec import ErrorBar

if TYPE_CHECKING:
    from ioassay.stats.least_squares import Line


@dataclass(frozen=True)
class Summary:
    """Repetitions of one condition. `low` and `high` end its error bar; None where there is none (one repetition)."""

    n: int
    mean: float
    median: float
    low: float | None
    high: float | None


def summarise(
    values: Sequence[float], error: ErrorBar, confidence: float, measured: Sequence[float] | None = None
) -> Summary:
    """Mean and interval of the values of one condition; median and deviation of what repetitions `measured`."""
    from ioassay.stats import sample

    mean = sample.moments(values).mean
    found = replace(sample.moments(values if measured is None else measured), mean=mean)
    ends = _error_bar(values, found, error, confidence)
    low, high = ends if ends is not None else (None, None)
    return Summary(found.n, mean, found.median, low, high)


def _error_bar(values: Sequence[float], found: Any, error: ErrorBar, confidence: float) -> tuple[float, float] | None:
    from ioassay.stats import sample
    from ioassay.stats.result import Undefined

    if error == "sd" and found.stddev is not None:
        return found.mean - found.stddev, found.mean + found.stddev
    if error == "ci":
        interval = sample.t_interval(values, confidence)
        return None if isinstance(interval, Undefined) else (interval.low, interval.high)
    return None


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
