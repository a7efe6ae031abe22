"""How the repetitions of each level are distributed: Tukey's boxes, every repetition beside them."""

from __future__ import annotations

from typing import Any

from ioassay._core import percentile
from ioassay.factors import factor_label
from ioassay.metrics import format_metric
from ioassay.report.figures import chart, condition_rows, metric_view, selection
from ioassay.report.figures.chart import Rows
from ioassay.report.figures.metric_view import View
from ioassay.report.figures.spec import FigureSpec, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

FEWEST_FOR_A_BOX = 5
"""Quartiles of fewer repetitions say less than the repetitions themselves."""
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
    view, pooled = metric_view.over_categories(records, study, spec, zero=False)
    y, places = view.y, view.places()
    boxes, dots = _boxes(view), view.single()
    ends = {(box["x"], box.get("group")): (box["low"], box["high"]) for box in boxes}
    inside, outliers = list[VegaLite](), list[VegaLite]()
    for row in dots:
        low, high = ends.get((row["x"], row.get("group")), (row["y"], row["y"]))
        (inside if low <= row["y"] <= high else outliers).append(row)
    width = {"band": 0.9 if spec.color else 0.5}
    layers = []
    if boxes:
        base = chart.base(boxes).encode(**places)
        whisker = base.mark("rule", style="deviation", strokeWidth=1.2)
        box = base.mark("bar", style="bar", width=width, fillOpacity=0.45, stroke=None)
        told = chart.tips({"level:N": "", "quartiles:N": "half of the repetitions"})
        layers.append(whisker.encode(y=chart.on(y, "low"), y2="high:Q"))
        layers.append(box.encode(y=y, y2="upper:Q", tooltip=told, **view.color))
    tick = chart.base(view.points).mark("tick", style="deviation", orient="horizontal", width=width, thickness=2)
    told = chart.point_tooltip(None, "none")
    layers.append(tick.encode(y=chart.on(y, "median"), tooltip=told, **places))
    aside_px = chart.offset_px(spec.width, view.conditions, 0.2 if spec.color else 0.32)
    for rows, style in ((inside, "dot"), (outliers, "outlier")):
        # Without boxes, the repetitions themselves have the colours.
        own = view.pointed if not boxes and style == "dot" else {}
        look: VegaLite = {"style": "mark", "size": 34} if own else {"style": style, "size": 18}
        if rows:
            mark = chart.base(rows).mark("point", filled=True, xOffset=aside_px, **look)
            layers.append(mark.encode(y=y, tooltip=chart.tips({"value:N": metric_view.REPETITION}), **places, **own))
    notes = [
        "box: quartiles and median, whiskers: 1.5 interquartile ranges" if boxes else "line: median",
        "○ one repetition" if boxes or not spec.color else "marks: one repetition each",
        "● beyond the whiskers" if outliers else "",
        view.counted,
        pooled,
        view.metric_axis.note,
    ]
    title = f"Repetitions of {selection.metric_phrase(spec.y)} by {factor_label(view.axis.factor)}"
    return chart.layered(layers, spec, study, title, notes, points=view.points)


def _boxes(view: View) -> Rows:
    """Quartiles (type 7, as everywhere) and whisker ends of each condition that has enough repetitions."""
    name, scale, rows = view.ask.metric, view.metric_axis.unit.scale, list[VegaLite]()
    for one in view.conditions:
        values = one.measured
        if len(values) >= FEWEST_FOR_A_BOX:
            lower, upper = (percentile(values, share) for share in (0.25, 0.75))
            reach = _REACH * (upper - lower)
            inside = [value for value in values if lower - reach <= value <= upper + reach]
            ends = {"low": min(inside), "y": lower, "upper": upper, "high": max(inside)}
            row = condition_rows.place(one.level, one.group, view.axis, view.ask.color)
            row |= {end: scale(value) for end, value in ends.items()}
            rows.append({**row, "quartiles": f"{format_metric(name, lower)} to {format_metric(name, upper)}"})
    return rows
