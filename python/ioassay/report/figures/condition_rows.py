"""The repetitions of each condition of a figure, and the rows that charts are drawn from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioassay.factors import level_label
from ioassay.metrics import format_metric
from ioassay.records.record import Scalar
from ioassay.report.figures import scales
from ioassay.report.figures.axes import LevelAxis
from ioassay.report.figures.spec import ErrorBar, VegaLite
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.measurements.cells import Cell
    from ioassay.stats.least_squares import Line


MOST_REPETITIONS = 1000
"""Beyond, a figure shows means and their intervals only."""


@dataclass(frozen=True)
class Ask:
    """Which metric is shown, by which colour factor, with which error bar and level of confidence."""

    metric: str
    color: str | None = None
    error: ErrorBar = "none"
    confidence: float = 0.95


@dataclass(frozen=True)
class Condition:
    """One level of the x factor (and of the colour factor), with its repetitions in run order.

    `cell` has them; cells of several conditions are joined.
    """

    level: Scalar
    group: Scalar | None
    cell: Cell

    @property
    def measured(self) -> list[float]:
        """What each repetition measured by itself."""
        return [float(value) for value in self.cell.measured]

    @property
    def merged(self) -> bool:
        """Whether its value is a percentile of merged histograms."""
        return bool(self.cell.histograms)


def of(cells: Sequence[Cell], study: Study, metric: str, x: str, color: str | None = None) -> list[Condition]:
    """The conditions that occur, by colour and then by level, each in the order of its factor.

    Cells that differ only in other factors are put together; `selection.pooled` says so on the figure.
    """
    from ioassay.analysis.measurements.cells import pooled

    found: dict[tuple[Scalar | None, Scalar], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.point[color] if color else None, cell.point[x]), []).append(cell)
    groups = [None] if color is None else study.design.in_order(color, [group for group, _ in found])
    levels = study.design.in_order(x, [level for _, level in found])
    known = [place for place in itertools.product(groups, levels) if place in found]
    return [Condition(level, group, pooled(found[group, level], metric)) for group, level in known]


def as_good() -> str:
    """What levels are called that are as good as the best."""
    from ioassay.stats.contrasts import MARGIN

    return f"within {100 * MARGIN:g} % of the best"


def levels_of(conditions: Sequence[Condition]) -> list[Scalar]:
    """The levels of x, each once."""
    return list(dict.fromkeys(condition.level for condition in conditions))


def measured_values(conditions: Sequence[Condition]) -> list[float]:
    """What every repetition measured."""
    return [value for condition in conditions for value in condition.measured]


def centre(conditions: Sequence[Condition]) -> str:
    """What the mark of a condition stands for."""
    from ioassay.narrative import phrases

    return phrases.centre(any(condition.merged for condition in conditions))


def point_rows(conditions: Sequence[Condition], axis: LevelAxis, ask: Ask, unit: scales.Unit) -> list[VegaLite]:
    """One row a condition: x, y (mean), median, low, high in `unit`, and the same as text for tooltips."""
    rows = []
    for condition in conditions:
        found = summarise(ask.metric, condition.cell, ask.error, ask.confidence)
        known = {"y": found.mean, "median": found.median, "low": found.low, "high": found.high}
        numbers = {name: value for name, value in known.items() if value is not None}
        texts = {name: format_metric(ask.metric, value) for name, value in numbers.items()}
        row = {**place(condition.level, condition.group, axis, ask.color), "n": found.n}
        row |= {name: unit.scale(value) for name, value in numbers.items()}
        row |= {"mean_text": texts["y"], "median_text": texts["median"]}
        error = {"error_text": f"{texts['low']} to {texts['high']}"} if "low" in texts and "high" in texts else {}
        rows.append({**row, **error})
    return rows


def repetition_rows(conditions: Sequence[Condition], axis: LevelAxis, ask: Ask, unit: scales.Unit) -> list[VegaLite]:
    """One row a repetition; none where so many marks would be a smear, and take the page a second."""
    if sum(len(condition.measured) for condition in conditions) > MOST_REPETITIONS:
        return []
    return [
        {**place(condition.level, condition.group, axis, ask.color), "y": unit.scale(value)}
        | {"value": format_metric(ask.metric, value)}
        for condition in conditions
        for value in condition.measured
    ]


def place(level: Scalar, group: Scalar | None, axis: LevelAxis, color: str | None) -> VegaLite:
    """Where a condition is: x, level and, with a colour factor, group."""
    row = {"x": axis.position(level), "level": level_label(axis.factor, level)}
    return row if color is None or group is None else {**row, "group": level_label(color, group)}


# Statistics: all are taken from `stats`


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
    elif error == "ci":
        interval = cells.interval(metric, cell, confidence)
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
