"""A metric against a factor in small panels: one line a level of a second factor, one panel a level of a third.

Conditions that saturated have no steady value; they are crosses at the upper edge and no points of a line. Levels that
lie over each other stay apart: each has a shape of its own, drawn hollow, the first largest, and lines take turns in
their dashes. Where levels of x are words, marks stand side by side, without lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from ioassay.factors import Design, factor_label, level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart_marks, condition_rows, level_marks, scales, selection, titles
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


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Panels beside and below each other, each with its own metric axis in one unit."""
    import altair as alt

    view = _View.of(records, study, spec)
    panels = [_chart(view, panel) for panel in view.panels if view.rows_of(panel) or view.crosses_of(panel)]
    rows = [panels[start : start + spec.columns] for start in range(0, len(panels), spec.columns)]
    title = f"{selection.metric_label(spec.y)} against {factor_label(spec.x)}"
    counts = [row["n"] for row in view.rows]
    notes = [
        selection.repetitions_text(counts) if max(counts, default=1) > 1 else "each point one simulation or trial",
        "axes of the metric do not begin at zero",
        "× at the upper edge: saturated, no steady value" if view.crosses else "",
        view.absent,
        selection.pooled(view.points, spec.x, spec.color, spec.panel),
    ]
    whole = spec.model_copy(update={"width": spec.columns * (spec.width + 50)})
    return alt.vconcat(*(alt.hconcat(*row, spacing=14) for row in rows), spacing=16).properties(
        title=titles.head(whole, study, title, notes),
        description=titles.description(whole, study, title, view.told()),
    )


@dataclass(frozen=True)
class _View:
    """What is drawn: a row for each point and for each cross, with the panel it belongs to."""

    spec: Spec
    panels: Sequence[str]
    axis: axes.LevelAxis
    unit: scales.Unit
    marks: level_marks.LevelMarks
    rows: chart_marks.Rows
    crosses: chart_marks.Rows
    points: Sequence[Mapping[str, Scalar]]
    absent: str
    centre: str

    @classmethod
    def of(cls, records: Dataset, study: Study, spec: Spec) -> _View:
        """Collect points and crosses; NoData where there are neither."""
        cells = _measured(records, study, spec)
        crossed = _saturated(records, study, spec)
        if not cells and not crossed:
            raise NoData(f"no trial that went well has the metric '{spec.y}'")
        points = [*(cell.point for cell in cells), *crossed]
        levels = {name: study.design.in_order(name, [point[name] for point in points]) for name in _split(spec)}
        axis = axes.level_axis(spec.x, levels[spec.x], spec.log_x)
        found = {
            panel: condition_rows.of(
                [cell for cell in cells if _panel(spec, cell.point) == panel], study, spec.y, spec.x, spec.color
            )
            for panel in _panels(spec, points, levels)
        }
        everything = [condition for part in found.values() for condition in part]
        unit = scales.unit_for(spec.y, condition_rows.measured_values(everything))
        ask = condition_rows.Ask(spec.y, spec.color)
        rows = [
            {**row, "panel": panel}
            for panel, part in found.items()
            for row in condition_rows.point_rows(part, axis, ask, unit)
        ]
        marks = [
            {
                **condition_rows.place(point[spec.x], point[spec.color], axis, spec.color),
                "panel": _panel(spec, point),
                "mean_text": "saturated",
            }
            for point in crossed
        ]
        looks = level_marks.of(records, study, spec.color, levels[spec.color])
        absent = _absent(study, spec, levels)
        centre = condition_rows.centre(everything)
        return cls(spec, list(found), axis, unit, looks, rows, marks, points, absent, centre)

    def rows_of(self, panel: str) -> chart_marks.Rows:
        """The points of one panel."""
        return [row for row in self.rows if row["panel"] == panel]

    def crosses_of(self, panel: str) -> chart_marks.Rows:
        """The crosses of one panel."""
        return [row for row in self.crosses if row["panel"] == panel]

    def told(self) -> list[VegaLite]:
        """Points and crosses for the description, with their panel."""
        return [
            {**row, "group": f"{row['panel']}, {row['group']}" if row["panel"] else row["group"]}
            for row in [*self.rows, *self.crosses]
        ]


def _split(spec: Spec) -> list[str]:
    return [name for name in (spec.x, spec.color, spec.panel) if name is not None]


def _measured(records: Dataset, study: Study, spec: Spec) -> Sequence[Any]:
    selection.select(records, study, spec.where)  # says why where nothing went well
    try:
        return selection.measured(records, study, spec.where, spec.y, *_split(spec))
    except NoData:
        for name in _split(spec):
            selection.require_factor(study, name)
        return []


def _saturated(records: Dataset, study: Study, spec: Spec) -> list[dict[str, Scalar]]:
    """The conditions that saturated and therefore lack the metric."""
    import polars as pl

    trials = selection.select(records, study, spec.where)
    if SATURATED not in trials.columns:
        return []
    lacking = trials.filter(pl.col(SATURATED) > 0)
    if spec.y in trials.columns:
        lacking = lacking.filter(pl.col(spec.y).is_null())
    return selection.points_of(study, lacking)


def _panel(spec: Spec, point: Mapping[str, Scalar]) -> str:
    return level_label(spec.panel, point[spec.panel]) if spec.panel else ""


def _panels(spec: Spec, points: Sequence[Mapping[str, Scalar]], levels: Mapping[str, Sequence[Scalar]]) -> list[str]:
    return [level_label(spec.panel, level) for level in levels[spec.panel]] if spec.panel else [""]


def _absent(study: Study, spec: Spec, levels: Mapping[str, Sequence[Scalar]]) -> str:
    """Panels that the study plans and that have nothing to show."""

    if spec.panel is None or spec.panel in spec.where:
        return ""
    shown = Design({spec.panel: levels[spec.panel]})
    absent = [str(level) for level in study.levels[spec.panel] if not shown.lists(spec.panel, level)]
    return f"not here: {', '.join(absent)}" if absent else ""


def _chart(view: _View, panel: str) -> Any:
    import altair as alt

    rows, spec = view.rows_of(panel), view.spec
    x, marks = view.axis.encoding(spec.width), _marks(view)
    words = view.axis.numbers is None
    beside = {"xOffset": view.marks.offset()} if words else {}
    drawn = []
    if rows:
        y, tooltip = _metric_axis(view, rows), chart_marks.point_tooltip(spec.color, "none", view.centre)
        base = alt.Chart(chart_marks.data(rows)).encode(x=x, y=y, color=marks["color"], tooltip=tooltip, **beside)
        if not words:
            drawn.append(base.mark_line(style="mark", strokeWidth=1.5, opacity=0.8).encode(strokeDash=marks["dash"]))
        pointed = {name: marks[name] for name in ("color", "shape", "size")}
        drawn.append(base.mark_point(style="mark", filled=False, strokeWidth=1.5).encode(**pointed))
    crossing = [group for group in view.marks.shown if any(row["group"] == group for row in view.crosses)]
    for row in view.crosses_of(panel):
        mark = alt.Chart(chart_marks.data([row])).mark_point(style="mark", shape=_CROSS, size=60, strokeWidth=2)
        height = alt.value(5 + _ROW_PX * crossing.index(row["group"]))
        shown = [alt.Tooltip(f"{name}:N") for name in ("level", "group", "mean_text")]
        drawn.append(mark.encode(x=x, y=height, color=marks["color"], tooltip=shown, **beside))
    title = {"title": {"text": panel, "fontSize": 12, "offset": 6}} if panel else {}
    return alt.layer(*drawn).properties(width=spec.width, height=spec.height, **title)


def _metric_axis(view: _View, rows: chart_marks.Rows) -> Any:
    """That of one panel; it does not begin at zero."""
    values = [row["y"] * view.unit.divisor for row in rows]
    return axes.metric_axis(view.spec.y, values, view.spec.log_y, view.unit).encoding(zero=False)


def _marks(view: _View) -> VegaLite:
    """Colour, shape, size and dash of a level; one legend for the marks, since they say the same."""
    marks = view.marks
    step = (_SMALLEST / _LARGEST) ** (1 / max(len(marks.every) - 1, 1))
    sizes = [round(_LARGEST * step**place, 1) for place in range(len(marks.every))]
    return {**marks.color(), "shape": marks.shape(), "size": marks.size(sizes), "dash": marks.dash(_DASHES)}
