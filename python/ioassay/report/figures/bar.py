"""A metric by case or level: bars from zero, error bars, every repetition as a dot.

A logarithmic axis has no zero, so there the means are points: the length of a bar would depend on where the axis ends.
If all means have room for it next to their error bars, they are numbers as well: paper has no tooltips.
"""

from __future__ import annotations

from typing import Any

from ioassay.factors import factor_label
from ioassay.report.figures import chart, metric_view, selection
from ioassay.report.figures.spec import ErrorBar, FigureSpec
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_CHARACTER_PX = 6.9
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
    view, pooled = metric_view.over_categories(records, study, spec, spec.error)
    y, places, log = view.y, view.places(), view.metric_axis.log
    width = {"band": 0.9 if spec.color else 0.62}
    bars = chart.base(view.points).mark("bar", style="bar", width=width)
    means = chart.points(view.points).encode(**view.pointed) if log else bars.encode(**view.color)
    means = means.encode(y=y, tooltip=view.tooltip, **places)
    drawn = chart.error_bars(view.points, y, **places)
    single = view.single() if spec.repetitions else []
    if single:
        aside_px = chart.offset_px(spec.width, view.conditions, 0.15)
        dots = chart.base(single).mark("point", style="dot", filled=True, size=20, xOffset=aside_px)
        drawn.append(dots.encode(y=y, tooltip=chart.tips({"value:N": metric_view.REPETITION}), **places))
    layers = [*drawn, means] if log else [means, *drawn]
    room_px = chart.offset_px(spec.width, view.conditions, 0.5) - _GAP_PX
    if all(len(row["mean_text"]) * _CHARACTER_PX <= room_px for row in view.points):
        # Over the left half of the bars.
        text = chart.base(view.points).mark("text", style="value", align="right", dx=-_GAP_PX, dy=-7)
        layers.append(text.encode(y=y, text="mean_text:N", **places))
    title = f"{selection.metric_label(spec.y)} by {factor_label(view.axis.factor)}"
    dots_text = "○ one repetition" if single else ""
    notes = [view.mean_name, dots_text, view.counted, pooled, view.metric_axis.note]
    return chart.layered(layers, spec, study, title, notes, points=view.points)
