"""How the repetitions of each level are distributed: Tukey's boxes, every repetition beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.factors import factor_label
from ioassay.metrics import format_metric
from ioassay.report.figures import axes, chart_marks, condition_rows, level_marks, scales, selection, titles
from ioassay.report.figures.chart_marks import Rows
from ioassay.report.figures.condition_rows import Ask, Condition
from ioassay.report.figures.spec import FigureSpec, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

FEWEST_FOR_A_BOX = 5
"""Quartiles of fewer repetitions say less than the repetitions themselves."""
_WIDE, _NARROW = 0.9, 0.5
_REACH = 1.5
"""Whiskers reach the furthest value within this many interquartile ranges of the box (Tukey 1977)."""


class Spec(FigureSpec):
    """Keys of a box plot."""

    y: str
    x: str | None = None
    color: str | None = None
    log_y: bool | None = None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
    import altair as alt

    factor = selection.main_factor(study, spec.x, spec.where)
    cells = selection.measured(records, study, spec.where, spec.y, factor, spec.color)
    found = condition_rows.of(cells, study, spec.y, factor, spec.color)
    axis = axes.category_axis(factor, condition_rows.levels_of(found))
    metric_axis = axes.metric_axis(spec.y, condition_rows.measured_values(found), spec.log_y)
    unit = metric_axis.unit
    ask = Ask(spec.y, spec.color)
    places = {"x": axis.encoding(spec.width)}
    color, points_of = dict[str, Any](), dict[str, Any]()
    if spec.color is not None:
        marks = level_marks.of(records, study, spec.color, [condition.group for condition in found])
        color, points_of, places["xOffset"] = marks.color(), marks.points(), marks.offset()
    y = metric_axis.encoding(zero=False)
    boxes = [_box(condition, axis, ask, unit) for condition in found if len(condition.measured) >= FEWEST_FOR_A_BOX]
    points = condition_rows.point_rows(found, axis, ask, unit)
    dots = condition_rows.repetition_rows(found, axis, ask, unit)
    outliers = _outliers(dots, boxes)
    title = f"Repetitions of {selection.metric_phrase(spec.y)} by {factor_label(factor)}"
    notes = [
        "box: quartiles and median, whiskers: 1.5 interquartile ranges" if boxes else "line: median",
        "○ one repetition" if boxes or not color else "marks: one repetition each",
        "● beyond the whiskers" if outliers else "",
        selection.repetitions_text([row["n"] for row in points]),
        selection.pooled([cell.point for cell in cells], factor, spec.color),
        metric_axis.note,
    ]
    aside_px = chart_marks.offset_px(spec.width, found, 0.2 if color else 0.32)
    drawn = [
        *_boxes(boxes, y, places, color),
        *_medians(points, y, places, _WIDE if color else _NARROW),
        # Without boxes, the repetitions themselves have the colours.
        *_dots([row for row in dots if row not in outliers], y, {**places, **({} if boxes else points_of)}, aside_px),
        *_dots(outliers, y, places, aside_px, "outlier"),
    ]
    return alt.layer(*drawn).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.description(spec, study, title, points),
    )


def _box(condition: Condition, axis: axes.LevelAxis, ask: Ask, unit: scales.Unit) -> VegaLite:
    """Quartiles (type 7, as everywhere) and whisker ends of one condition."""
    lower, upper = quartiles(condition.measured)
    reach = _REACH * (upper - lower)
    inside = [value for value in condition.measured if lower - reach <= value <= upper + reach]
    ends = {"low": min(inside), "y": lower, "upper": upper, "high": max(inside)}
    shown = f"{format_metric(ask.metric, lower)} to {format_metric(ask.metric, upper)}"
    row = condition_rows.place(condition.level, condition.group, axis, ask.color)
    return {**row, **{name: unit.scale(value) for name, value in ends.items()}, "quartiles": shown}


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third."""
    from ioassay._core import percentile

    return percentile(list(values), 0.25), percentile(list(values), 0.75)


def _boxes(rows: Rows, y: Any, places: Mapping[str, Any], color: Mapping[str, Any]) -> list[Any]:
    import altair as alt

    if not rows:
        return []
    whisker = alt.Chart(chart_marks.data(rows)).mark_rule(style="deviation", strokeWidth=1.2)
    width = alt.RelativeBandSize(_WIDE if color else _NARROW)
    box = alt.Chart(chart_marks.data(rows)).mark_bar(style="bar", width=width, fillOpacity=0.45, stroke=None)
    tooltip = [alt.Tooltip("level:N"), alt.Tooltip("quartiles:N", title="half of the repetitions")]
    return [
        whisker.encode(y=chart_marks.on(y, "low"), y2="high:Q", **places),
        box.encode(y=y, y2="upper:Q", tooltip=tooltip, **places, **color),
    ]


def _medians(rows: Rows, y: Any, places: Mapping[str, Any], width: float) -> list[Any]:
    import altair as alt

    tick = alt.Chart(chart_marks.data(rows)).mark_tick(
        style="deviation", orient="horizontal", width=alt.RelativeBandSize(width), thickness=2
    )
    return [tick.encode(y=chart_marks.on(y, "median"), tooltip=chart_marks.point_tooltip(None, "none"), **places)]


def _outliers(dots: Rows, boxes: Rows) -> list[VegaLite]:
    """The repetitions beyond the whiskers of their box."""
    ends = {(box["x"], box.get("group")): (box["low"], box["high"]) for box in boxes}
    reach = [ends.get((row["x"], row.get("group")), (row["y"], row["y"])) for row in dots]
    return [row for row, (low, high) in zip(dots, reach, strict=True) if not low <= row["y"] <= high]


def _dots(rows: Rows, y: Any, places: Mapping[str, Any], beside_px: float, style: str = "dot") -> list[Any]:
    import altair as alt

    if not rows:
        return []
    look: VegaLite = {"style": "mark", "size": 34} if "color" in places else {"style": style, "size": 18}
    dots = alt.Chart(chart_marks.data(rows)).mark_point(filled=True, xOffset=beside_px, **look)
    return [dots.encode(y=y, tooltip=[alt.Tooltip("value:N", title="one repetition")], **places)]
