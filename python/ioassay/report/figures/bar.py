"""A metric by case or level: bars from zero, error bars, every repetition as a dot.

A logarithmic axis has no zero, so there the means are points: the length of a bar would depend on where the axis ends.
If all means have room for it next to their error bars, they are numbers as well: paper has no tooltips.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ioassay.factors import factor_label
from ioassay.report.figures import axes, chart_marks, condition_rows, level_marks, selection, statistics, titles
from ioassay.report.figures.chart_marks import Rows
from ioassay.report.figures.spec import ErrorBar, FigureSpec, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_CHARACTER_PX = 5.8
_GAP_PX = 8
"""Between a mean and its error bar."""


class Spec(FigureSpec):
    """Keys of a bar chart."""

    y: str
    x: str | None = None
    color: str | None = None
    error: ErrorBar = "ci"
    repetitions: bool = True
    log_y: bool | None = None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
    import altair as alt

    factor = selection.main_factor(study, spec.x, spec.where)
    cells = selection.measured(records, study, spec.where, spec.y, factor, spec.color)
    found = condition_rows.of(cells, study, spec.y, factor, spec.color)
    axis = axes.category_axis(factor, condition_rows.levels_of(found))
    values = condition_rows.measured_values(found)
    metric_axis = axes.metric_axis(spec.y, values, spec.log_y)
    unit = metric_axis.unit
    ask = condition_rows.Ask(spec.y, spec.color, spec.error, study.analysis.confidence)
    metric_axis, points = metric_axis.holding(condition_rows.point_rows(found, axis, ask, unit))
    y = metric_axis.encoding()
    channels = {"x": axis.encoding(spec.width)}
    if spec.color is not None:
        marks = level_marks.of(records, study, spec.color, [condition.group for condition in found])
        channels |= {**(marks.points() if metric_axis.log else marks.color()), "xOffset": marks.offset()}
    dots = condition_rows.repetition_rows(found, axis, ask, unit) if spec.repetitions else []
    title = f"{selection.metric_label(spec.y)} by {factor_label(factor)}"
    notes = [
        statistics.error_text(spec.error, ask.confidence, condition_rows.centre(found)),
        "○ one repetition" if dots else "",
        selection.repetitions_text([row["n"] for row in points]),
        selection.pooled([cell.point for cell in cells], factor, spec.color),
        metric_axis.note,
    ]
    tooltip = chart_marks.point_tooltip(spec.color, spec.error, condition_rows.centre(found))
    means = chart_marks.points(points) if metric_axis.log else _bars(points, grouped=spec.color is not None)
    means = means.encode(y=y, tooltip=tooltip, **channels)
    places: VegaLite = {key: channels[key] for key in ("x", "xOffset") if key in channels}
    drawn = [
        *chart_marks.error_bars(points, y, **places),
        *_dots(dots, y, places, chart_marks.offset_px(spec.width, found, 0.15)),
    ]
    layers = [*drawn, means] if metric_axis.log else [means, *drawn]
    room_px = chart_marks.offset_px(spec.width, found, 0.5) - _GAP_PX
    if all(len(row["mean_text"]) * _CHARACTER_PX <= room_px for row in points):
        layers.append(_numbers(points, y, places))
    return alt.layer(*layers).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.description(spec, study, title, points),
    )


def _bars(points: Rows, *, grouped: bool) -> Any:
    import altair as alt

    width = alt.RelativeBandSize(0.9 if grouped else 0.62)
    return alt.Chart(chart_marks.data(points)).mark_bar(style="bar", width=width)


def _dots(dots: Rows, y: Any, places: Mapping[str, Any], aside_px: float) -> list[Any]:
    """The repetitions, aside of the error bars."""
    import altair as alt

    if not dots:
        return []
    base = alt.Chart(chart_marks.data(dots)).mark_point(style="dot", filled=True, size=20, xOffset=aside_px)
    return [base.encode(y=y, tooltip=[alt.Tooltip("value:N", title="one repetition")], **places)]


def _numbers(points: Rows, y: Any, places: Mapping[str, Any]) -> Any:
    """The means as numbers, over the left half of their bars."""
    import altair as alt

    text = alt.Chart(chart_marks.data(points)).mark_text(style="value", align="right", dx=-_GAP_PX, dy=-7)
    return text.encode(y=y, text="mean_text:N", **places)
