"""A metric against a factor: mean with error bars, medians, every repetition, regression line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ioassay.factors import factor_label, is_percent, is_size, level_label, step_label
from ioassay.metrics import metric
from ioassay.records.record import Scalar
from ioassay.report.figures import chart, condition_rows, metric_view, selection
from ioassay.report.figures.metric_view import REPETITION, View
from ioassay.report.figures.spec import ErrorBar, FigureSpec, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.stats.least_squares import Line

MEDIAN = "median"
FIT = "regression"
_STEPS = 40
"""Segments of a regression line: enough for a smooth curve where one of the axes is logarithmic."""


class Spec(FigureSpec):
    """Keys of a trend."""

    x: str
    y: str
    color: str | None = None
    log_x: bool = False
    log_y: bool | None = None
    error: ErrorBar = "ci"
    regression: bool | None = None
    repetitions: bool = True


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
    view, pooled = metric_view.over_levels(records, study, spec, spec.x, spec.error, spec.log_x)
    # As asked for; otherwise of one line only, and not where a straight line would be a curve.
    wanted = spec.color is None and not view.metric_axis.log if spec.regression is None else spec.regression
    fits = _fits(view) if wanted and selection.is_conclusive(records, study) else {}
    fitted = [row for group, line in fits.items() for row in _line(view, group, line)]
    single = view.single() if spec.repetitions else []
    shapes = {view.mean_name: "circle", MEDIAN: chart.DIAMOND}
    shapes |= {REPETITION: chart.BAR} if single else {}
    # A line between words would suggest an order; between colours it shows the interaction.
    joined: VegaLite = {"style": "mean", "strokeWidth": 1.6} if view.axis.numbers is not None or spec.color else {}
    drawn = [*view.repetitions(single, shapes), *view.curve(FIT, fitted, "fit", [6, 4]), *view.means(shapes, **joined)]
    if spec.color is None:
        median = view.symbols(view.points, MEDIAN, shapes).mark("point", style="median", filled=True, size=95)
        drawn.append(median.encode(y=chart.on(view.y, "median"), tooltip=view.tooltip))
    notes = [
        # Where the legend has the colours, and where error bars are not what they usually are.
        view.mean_name if spec.color or spec.error == "sd" else "",
        "dash: one repetition" if spec.color and single else "",
        view.counted,
        _slope_text(view, fits),
        view.axis.note,
        view.metric_axis.note,
        pooled,
    ]
    title = f"{selection.metric_label(spec.y)} against {factor_label(spec.x)}"
    return chart.layered(drawn, spec, study, title, notes, points=view.points)


def _fits(view: View) -> dict[Scalar | None, Line]:
    """The line of each colour group that has one, over all repetitions and linear in x or log2 x; none over words."""
    axis, found = view.axis, dict[Scalar | None, "Line"]()
    if axis.numbers is None:
        return found
    at = [math.log2(number) if axis.log else number for number in axis.numbers]
    for group in dict.fromkeys(one.group for one in view.conditions):
        own = [one for one in view.conditions if one.group == group]
        x = [at[axis.levels.index(one.level)] for one in own for _ in one.measured]
        if line := condition_rows.fit_line(x, condition_rows.measured_values(own), view.ask.confidence):
            found[group] = line
    return found


def _line(view: View, group: Scalar | None, line: Line) -> list[VegaLite]:
    """A line over the levels' range."""
    color, log = view.ask.color, view.axis.log
    named = {} if color is None or group is None else {"group": level_label(color, group)}
    rows = view.along(lambda x: line.at(math.log2(x) if log else x), view.axis.places(_STEPS))
    return [{**row, **named} for row in rows]


def _slope_text(view: View, fits: Mapping[Scalar | None, Line]) -> str:
    """The line of a figure without colours in words: `regression: +12.1 MB/s per doubling, R² = 0.98`."""
    line = fits.get(None)
    if line is None or line.slope == 0:
        return ""
    factor, step = view.axis.factor, 1.0
    if view.axis.log:
        per = "doubling"
    elif is_size(factor):
        step, per = 1024.0, "KiB"
    else:
        per = "percentage point" if is_percent(factor) else step_label(factor)
    slope = metric(view.ask.metric).format(abs(line.slope) * step)
    curved = ", straight on a linear axis" if view.metric_axis.log else ""
    return f"regression {'−' if line.slope < 0 else '+'}{slope} per {per}, R² = {line.r2:.3f}{curved}"
