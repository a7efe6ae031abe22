"""A metric by case or level: bars from zero (or on a logarithmic axis), error bars, every repetition as a dot.

If all bars have room for it next to their error bars, their means are numbers as well: paper has no tooltips.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ioassay.factors import factor_label
from ioassay.report.figures import axes, chart_marks, condition_rows, level_marks, selection, statistics, titles
from ioassay.report.figures.chart_marks import Rows
from ioassay.report.figures.spec import ErrorBar, FigureSpec
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_CHARACTER_PX = 5.4
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
    points = chart_marks.cut_at(condition_rows.point_rows(found, axis, ask, unit), metric_axis.floor)
    y, base = metric_axis.holding(points).bars()
    channels = {"x": axis.encoding(spec.width)}
    if spec.color is not None:
        marks = level_marks.of(records, study, spec.color, [condition.group for condition in found])
        channels |= {**marks.color(), "xOffset": marks.offset()}
    dots = condition_rows.repetition_rows(found, axis, ask, unit) if spec.repetitions else []
    title = f"{selection.metric_label(spec.y)} by {factor_label(factor)}"
    notes = [
        statistics.error_text(spec.error, ask.confidence, condition_rows.centre(found)),
        "○ one repetition" if dots else "",
        selection.repetitions_text([row["n"] for row in points]),
        selection.pooled([cell.point for cell in cells], factor, spec.color),
        metric_axis.note,
    ]
    channels |= base
    tooltip = chart_marks.point_tooltip(spec.color, spec.error, condition_rows.centre(found))
    layers = _layers(points, dots, channels, y, tooltip, chart_marks.offset_px(spec.width, found, 0.15))
    room_px = chart_marks.offset_px(spec.width, found, 0.5) - _GAP_PX
    if all(len(row["mean_text"]) * _CHARACTER_PX <= room_px for row in points):
        layers.append(_means(points, channels, y))
    return alt.layer(*layers).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.description(spec, study, title, points),
    )


def _layers(
    points: Rows, dots: Rows, channels: Mapping[str, Any], y: Any, tooltip: list[Any], beside_px: float
) -> list[Any]:
    import altair as alt

    places = _places(channels)
    width = alt.RelativeBandSize(0.9 if "color" in channels else 0.62)
    bars = (
        alt.Chart(chart_marks.data(points)).mark_bar(style="bar", width=width).encode(y=y, tooltip=tooltip, **channels)
    )
    drawn = [bars, *chart_marks.error_bars(points, y, **places)]
    if dots:
        base = alt.Chart(chart_marks.data(dots)).mark_point(style="dot", filled=True, size=20, xOffset=beside_px)
        drawn.append(base.encode(y=y, tooltip=[alt.Tooltip("value:N", title="one repetition")], **places))
    return drawn


def _means(points: Rows, channels: Mapping[str, Any], y: Any) -> Any:
    """The mean of each bar, over its left half."""
    import altair as alt

    text = alt.Chart(chart_marks.data(points)).mark_text(style="value", align="right", dx=-_GAP_PX, dy=-7)
    return text.encode(y=y, text="mean_text:N", **_places(channels))


def _places(channels: Mapping[str, Any]) -> dict[str, Any]:
    """The channels of marks that stand at a bar and are none."""
    return {key: channel for key, channel in channels.items() if key not in ("color", "y2")}
