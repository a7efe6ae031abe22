"""A metric against a factor: mean with error bars, medians, every repetition, regression line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay.factors import factor_label, is_percent, is_size, level_label, step_label
from ioassay.metrics import metric
from ioassay.records.record import Scalar
from ioassay.report.figures import (
    axes,
    chart_marks,
    condition_rows,
    level_marks,
    scales,
    selection,
    statistics,
    titles,
)
from ioassay.report.figures.axes import LevelAxis
from ioassay.report.figures.chart_marks import Rows
from ioassay.report.figures.condition_rows import Condition
from ioassay.report.figures.spec import ErrorBar, FigureSpec, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.stats.least_squares import Line

MEDIAN = "median"
REPETITION = "one repetition"
FIT = "regression"
_MEAN_PX2 = 44
"""Area of a mean's mark."""


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
    import altair as alt

    cells = selection.measured(records, study, spec.where, spec.y, spec.x, spec.color)
    found = condition_rows.of(cells, study, spec.y, spec.x, spec.color)
    axis = axes.level_axis(spec.x, condition_rows.levels_of(found), spec.log_x)
    look = _Look(records, study, spec, axis, found)
    wanted = _wants_regression(spec, look.metric_axis) and selection.is_conclusive(records, study)
    fits = _fits(found, axis, look.ask.confidence) if wanted else {}
    drawn = [
        *look.repetitions(),
        *look.fits(_line_rows(fits, axis, look.unit, spec.color, look.metric_axis.floor)),
        *look.means(),
    ]
    title = f"{selection.metric_label(spec.y)} against {factor_label(spec.x)}"
    notes = [
        *look.symbols(),
        selection.repetitions_text([row["n"] for row in look.points]),
        _slope_text(fits, axis, spec.y, look.metric_axis.log),
        axis.note,
        look.metric_axis.note,
        selection.pooled([cell.point for cell in cells], spec.x, spec.color),
    ]
    return alt.layer(*drawn).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.description(spec, study, title, look.points),
    )


def _wants_regression(spec: Spec, y: axes.MetricAxis) -> bool:
    """As asked for; otherwise of one line only, and not where a straight line would be a curve."""
    return spec.regression if spec.regression is not None else spec.color is None and not y.log


class _Look:
    """The layers of one trend, with the channels that they share."""

    def __init__(
        self, records: Dataset, study: Study, spec: Spec, axis: axes.LevelAxis, found: Sequence[Condition]
    ) -> None:
        values = condition_rows.measured_values(found)
        self.spec = spec
        self.ask = condition_rows.Ask(spec.y, spec.color, spec.error, study.analysis.confidence)
        self.metric_axis = axes.metric_axis(spec.y, values, spec.log_y)
        self.unit = self.metric_axis.unit
        rows = condition_rows.point_rows(found, axis, self.ask, self.unit)
        self.metric_axis, self.points = self.metric_axis.holding(rows)
        single = condition_rows.repetition_rows(found, axis, self.ask, self.unit)
        self.single = single if spec.repetitions else []
        self.centre = condition_rows.centre(found)
        self.mean_name = statistics.error_text(spec.error, self.ask.confidence, self.centre)
        # A line between words would suggest an order; between colours it shows the interaction.
        self.joined = axis.numbers is not None or spec.color is not None
        self.x = axis.encoding(spec.width)
        self.y = self.metric_axis.encoding()
        groups = [condition.group for condition in found]
        marks = level_marks.of(records, study, spec.color, groups) if spec.color else None
        self.color: VegaLite = marks.color() if marks else {}
        self.marks: VegaLite = marks.points() if marks else {}

    def repetitions(self) -> list[Any]:
        import altair as alt

        tooltip = [alt.Tooltip("level:N"), alt.Tooltip("value:N", title=REPETITION)]
        rows, aside = chart_marks.side_by_side(self.single)
        if not rows:
            return []
        data, shape = self._role(rows, REPETITION)
        marks = alt.Chart(data).mark_point(style="repetition", filled=True, size=60, **aside)
        return [marks.encode(x=self.x, y=self.y, tooltip=tooltip, **shape, **self.color)]

    def fits(self, rows: Rows) -> list[Any]:
        import altair as alt

        if not rows:
            return []
        scale = alt.Scale(domain=[FIT], range=[[6, 4]])
        legend = alt.Legend(symbolType=chart_marks.DASH, symbolStrokeWidth=1.8, labelOffset=8)
        dash = alt.StrokeDash("role:N", scale=scale, title=None, legend=legend)
        marks = alt.Chart(chart_marks.with_role(rows, FIT)).mark_line(style="fit", strokeWidth=1.8)
        return [marks.encode(x=self.x, y=self.y, strokeDash=dash, **self.color)]

    def means(self) -> list[Any]:
        """The means with their error bars, those of several lines aside of each other; medians of a single line."""
        import altair as alt

        points, aside = chart_marks.side_by_side(self.points)
        channels = {"x": self.x, "tooltip": chart_marks.point_tooltip(self.spec.color, self.spec.error, self.centre)}
        means, marks = self._role(points, self.mean_name)
        mean = alt.Chart(means).encode(y=self.y, **channels)
        joined = alt.Chart(means).mark_line(style="mean", strokeWidth=1.6, aria=False, **aside)
        line = [joined.encode(x=self.x, y=self.y, **self.color)] if self.joined else []
        drawn = [
            *line,
            *chart_marks.error_bars(points, self.y, aside=aside, x=self.x, **self.color),
            mean.mark_point(style="mean", filled=True, size=_MEAN_PX2, **aside).encode(**(self.marks or marks)),
        ]
        if self.spec.color is None:
            medians, shape = self._role(points, MEDIAN)
            median = alt.Chart(medians).mark_point(style="median", filled=True, size=95, **aside)
            drawn.append(median.encode(y=chart_marks.on(self.y, "median"), **channels, **shape))
        return drawn

    def _role(self, rows: Rows, name: str) -> tuple[Any, VegaLite]:
        """Rows that know what they are, and the channel that gives it its symbol and, without colours, its legend."""
        import altair as alt

        shapes = {self.mean_name: "circle", MEDIAN: chart_marks.DIAMOND, REPETITION: chart_marks.BAR}
        if not self.spec.repetitions:
            del shapes[REPETITION]
        if self.spec.color is not None:
            return chart_marks.data(rows), {"shape": alt.value(shapes[name])}
        scale = alt.Scale(domain=list(shapes), range=list(shapes.values()))
        return chart_marks.with_role(rows, name), {"shape": alt.Shape("role:N", scale=scale, title=None)}

    def symbols(self) -> list[str]:
        """What the symbols are, where no legend says it."""
        if self.spec.color is None:
            return []
        return [self.mean_name, *(["dash: one repetition"] if self.single else [])]


# Regression lines: fitted to all repetitions, linear in x or in log2 x as the axis is

_STEPS = 40
"""Segments of a drawn line: enough for a smooth curve where one of the axes is logarithmic."""


def _fits(conditions: Sequence[Condition], axis: LevelAxis, confidence: float) -> dict[Scalar | None, Line]:
    """The line of each colour group that has one; none for levels that are words."""
    found = {}
    for group in dict.fromkeys(condition.group for condition in conditions):
        members = [condition for condition in conditions if condition.group == group]
        pairs = [(_regressor(axis, member.level), value) for member in members for value in member.measured]
        known = [(x, y) for x, y in pairs if x is not None]
        if line := statistics.fit_line([x for x, _ in known], [y for _, y in known], confidence):
            found[group] = line
    return found


def _regressor(axis: LevelAxis, level: Scalar) -> float | None:
    if axis.numbers is None:
        return None
    number = axis.numbers[axis.levels.index(level)]
    return math.log2(number) if axis.log else number


def _line_rows(
    found: Mapping[Scalar | None, Line], axis: LevelAxis, unit: scales.Unit, color: str | None, floor: float
) -> list[VegaLite]:
    """Points along each line over the levels' range, where it is not below `floor` (in `unit`), the axis's end."""
    if axis.numbers is None:
        return []
    low, high = (math.log2(end) if axis.log else end for end in (min(axis.numbers), max(axis.numbers)))
    drawn = []
    for group, line in found.items():
        named = {} if color is None or group is None else {"group": level_label(color, group)}
        for step in range(_STEPS + 1):
            x = low + (high - low) * step / _STEPS
            y = unit.scale(line.at(x))
            if y >= floor:
                drawn.append({"x": float(f"{2**x if axis.log else x:.7g}"), "y": y, **named})
    return drawn


def _slope_text(found: Mapping[Scalar | None, Line], axis: LevelAxis, name: str, log_y: bool) -> str:
    """The line of a figure without colours in words: `regression: +12.1 MB/s per doubling, R² = 0.98`."""
    line = found.get(None)
    if line is None or line.slope == 0:
        return ""
    slope = metric(name).format(abs(line.slope) * _step(axis)[0])
    curved = ", straight on a linear axis" if log_y else ""
    return f"regression {'−' if line.slope < 0 else '+'}{slope} {_step(axis)[1]}, R² = {line.r2:.3f}{curved}"


def _step(axis: LevelAxis) -> tuple[float, str]:
    """The step of x that a slope is told for, and its name."""

    if axis.log:
        return 1.0, "per doubling"
    if is_size(axis.factor):
        return 1024.0, "per KiB"
    return 1.0, "per percentage point" if is_percent(axis.factor) else f"per {step_label(axis.factor)}"
