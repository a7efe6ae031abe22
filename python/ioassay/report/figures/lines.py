"""A metric against a factor in small panels: one line a level of a second factor, one panel a level of a third.

Conditions that saturated have no steady value; they are crosses at the upper edge and no points of a line. Levels that
lie over each other stay apart: each has a shape of its own, drawn hollow, the first largest, and lines take turns in
their dashes. Where levels of x are words, marks stand side by side, without lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from ioassay.factors import Design, factor_label, level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart, level_marks, metric_view, selection
from ioassay.report.figures.chart import VegaView, pl
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

SATURATED = "sim.saturated"
_CROSS = "M-.7,-.7L.7,.7M-.7,.7L.7,-.7"
_DASHES = ([1, 0], [7, 4], [2, 3])
_LARGEST, _SMALLEST = 150.0, 22.0
"""Areas of the marks of the first and the last level, in square pixels; a mark is seen around those drawn over it."""
_ROW_PX = 9
"""Between crosses of several lines at one place."""


class Spec(FigureSpec):
    """Keys of lines in panels. `width` and `height` are those of one panel."""

    x: str
    y: str
    color: str
    panel: str | None = None
    columns: Annotated[int, Field(ge=1, le=8)] = 3
    log_x: bool = False
    log_y: bool | None = None
    width: Annotated[int, Field(ge=100, le=2000)] = 205
    height: Annotated[int, Field(ge=80, le=2000)] = 165

    def panel_of(self, point: Mapping[str, Scalar]) -> str:
        """The title of the panel that shows a point."""
        return level_label(self.panel, point[self.panel]) if self.panel else ""


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Panels beside and below each other, each with its own metric axis in one unit."""
    split = [name for name in (spec.x, spec.color, spec.panel) if name is not None]
    trials = selection.select(records, study, spec.where)  # says why where nothing went well
    for name in split:
        selection.require_factor(study, name)
    crossed = _saturated(study, trials, spec)
    try:
        cells = selection.measured(records, study, spec.where, spec.y)
    except NoData:
        if not crossed:
            raise
        cells = []
    points = [*(cell.point for cell in cells), *crossed]
    levels = {name: study.design.in_order(name, [point[name] for point in points]) for name in split}
    titles = [level_label(spec.panel, level) for level in levels[spec.panel]] if spec.panel else [""]
    own = {name: [cell for cell in cells if spec.panel_of(cell.point) == name] for name in titles}
    found = {name: metric_view.conditions(part, study, spec.y, spec.x, spec.color) for name, part in own.items()}
    conditions = [one for part in found.values() for one in part]
    axis = axes.level_axis(spec.x, levels[spec.x], spec.log_x)
    unit = axes.unit_for(spec.y, metric_view.measured_values(conditions))
    ask = metric_view.Ask(spec.y, spec.color)
    rows = {name: metric_view.point_rows(part, axis, ask, unit) for name, part in found.items()}
    crosses: dict[str, list[VegaLite]] = {name: [] for name in titles}
    for point in crossed:
        place = metric_view.place(point[spec.x], point[spec.color], axis, spec.color)
        crosses[spec.panel_of(point)].append({**place, "mean_text": "saturated"})
    marks = level_marks.of(records, study, spec.color, levels[spec.color])
    crossing = {row["group"] for part in crosses.values() for row in part}
    heights = {group: 5 + _ROW_PX * at for at, group in enumerate(one for one in marks.shown if one in crossing)}
    aside = {} if axis.numbers is not None else {"xOffset": marks.offset()}
    places = {"x": axis.encoding(spec.width), **marks.color(), **aside}
    tooltip = chart.point_tooltip(spec.color, "none", metric_view.centre(conditions))
    panels = []
    for name in titles:
        layers = []
        if values := [row["y"] * unit.divisor for row in rows[name]]:
            y = axes.metric_axis(spec.y, values, spec.log_y, unit).encoding(zero=False)
            base = chart.base(rows[name]).encode(y=y, tooltip=tooltip, **places)
            layers = _points(base, marks, axis.numbers is not None)
        panels.append(chart.panel(layers + _crosses(crosses[name], heights, places), spec.width, spec.height, name))
    counts = [row["n"] for part in rows.values() for row in part]
    notes = [
        selection.repetitions_text(counts) if max(counts, default=1) > 1 else "each point one simulation or trial",
        "axes of the metric do not begin at zero",
        "× at the upper edge: saturated, no steady value" if crossed else "",
        _absent(study, spec, levels),
        selection.pooled(points, *split),
    ]
    told = [
        {**row, "group": f"{name}, {row['group']}" if name else row["group"]}
        for part in (rows, crosses)
        for name in titles
        for row in part[name]
    ]
    title = f"{selection.metric_label(spec.y)} against {factor_label(spec.x)}"
    whole, width = chart.grid(panels, spec.columns), spec.columns * (spec.width + 50)
    return chart.figure(whole, spec, study, title, notes, told, width)


def _saturated(study: Study, trials: pl.DataFrame, spec: Spec) -> list[dict[str, Scalar]]:
    """The conditions that saturated and therefore lack the metric."""
    if SATURATED not in trials.columns:
        return []
    lacking = trials.filter(pl.col(SATURATED) > 0)
    if spec.y in trials.columns:
        lacking = lacking.filter(pl.col(spec.y).is_null())
    return sorted(selection.points_of(study, lacking), key=study.design.place)


def _absent(study: Study, spec: Spec, levels: Mapping[str, Sequence[Scalar]]) -> str:
    """Panels that the study plans and that have nothing to show."""
    if spec.panel is None or spec.panel in spec.where:
        return ""
    shown = Design({spec.panel: levels[spec.panel]})
    absent = [str(level) for level in study.levels[spec.panel] if not shown.lists(spec.panel, level)]
    return f"not here: {', '.join(absent)}" if absent else ""


def _points(base: VegaView, marks: level_marks.LevelMarks, joined: bool) -> list[Any]:
    """The marks of one panel over its rows, with one legend for colour, shape and size, since they say the same."""
    every = len(marks.every)
    step = (_SMALLEST / _LARGEST) ** (1 / max(every - 1, 1))
    size = marks.channel([round(_LARGEST * step**place, 1) for place in range(every)])
    hollow = base.mark("point", style="mark", filled=False, strokeWidth=1.5)
    hollow = hollow.encode(shape=marks.channel(level_marks.SHAPES), size=size)
    line = base.mark("line", style="mark", strokeWidth=1.5, opacity=0.8).encode(strokeDash=marks.dash(_DASHES))
    return [line, hollow] if joined else [hollow]


def _crosses(rows: chart.Rows, heights: Mapping[str, int], places: VegaLite) -> list[Any]:
    """Crosses of one panel, those of one group at one height."""
    tooltip = chart.tips({"level:N": "", "group:N": "", "mean_text:N": ""})
    marks = [chart.base([row]).mark("point", style="mark", shape=_CROSS, size=60, strokeWidth=2) for row in rows]
    found = zip(rows, marks, strict=True)
    return [mark.encode(y={"value": heights[row["group"]]}, tooltip=tooltip, **places) for row, mark in found]
