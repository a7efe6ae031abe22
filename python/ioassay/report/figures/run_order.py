"""A metric over run order: whether the machine drifted while the study ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay.factors import level_label
from ioassay.metrics import format_metric
from ioassay.report.figures import axes, chart_marks, level_marks, scales, selection, statistics, titles
from ioassay.report.figures.chart_marks import Rows
from ioassay.report.figures.spec import FigureSpec, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.measurements.cells import Cell
    from ioassay.stats.least_squares import Line


class Spec(FigureSpec):
    """Keys of a chart over run order."""

    y: str
    color: str | None = None
    relative: bool = True
    log_y: bool | None = None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Every trial as a point, and a line fitted to all."""
    import altair as alt

    cells = selection.measured(records, study, spec.where, spec.y, spec.color)
    values = [float(value) for cell in cells for value in cell.measured]
    axis = axes.metric_axis(spec.y, values, spec.log_y)
    unit = scales.Unit(1.0, "%") if spec.relative else axis.unit
    rows = _rows(cells, spec, unit)
    color = {}
    if spec.color is not None:
        levels = [cell.point[spec.color] for cell in cells]
        color = level_marks.of(records, study, spec.color, levels).points()
    line = _fitted(rows, study) if spec.relative else None
    title = f"{selection.metric_label(spec.y)} over run order"
    notes = [
        f"{len(rows)} trials",
        "each as a share of the mean of its own condition" if spec.relative else "",
        _line_text(line, rows),
        "" if spec.relative else axis.note,
    ]
    y = _share_axis(spec) if spec.relative else axis.encoding(zero=False)
    return alt.layer(*_layers(rows, line, unit, spec, y, color)).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.noted(spec, title, notes),
    )


def _rows(cells: Sequence[Cell], spec: Spec, unit: scales.Unit) -> list[VegaLite]:
    """One row a trial, in run order."""
    rows = []
    for cell in cells:
        mean = float(cell.measured.mean())
        if spec.relative and mean == 0:
            continue
        group = {} if spec.color is None else {"group": level_label(spec.color, cell.point[spec.color])}
        for order, repetition, value in zip(cell.order, cell.repetition, cell.measured, strict=True):
            row: VegaLite = {
                "x": int(order),
                "y": unit.scale(float(value) * (100 / mean if spec.relative else 1.0)),
            }
            row |= {"condition": cell.label, "value": format_metric(spec.y, float(value))}
            rows.append({**row, "repetition": int(repetition) + 1, **group})
    return sorted(rows, key=lambda row: row["x"])


def _fitted(rows: Rows, study: Study) -> Line | None:
    """The line through relative values; through different conditions' own values it would mean nothing."""
    return statistics.fit_line([row["x"] for row in rows], [row["y"] for row in rows], study.analysis.confidence)


def _line_text(line: Line | None, rows: Rows) -> str:
    if line is None:
        return ""
    change = line.slope * (rows[-1]["x"] - rows[0]["x"])
    return f"line: {change:+.2g} % from first to last"


def _share_axis(spec: Spec) -> Any:
    """Linear: shares of one mean lie close together."""
    import altair as alt

    title = f"{selection.metric_label(spec.y)} (% of its condition's mean)"
    return alt.Y("y:Q", title=title, scale=alt.Scale(zero=False, nice=6, padding=8), axis=alt.Axis(tickCount=6))


def _layers(
    rows: Rows, line: Line | None, unit: scales.Unit, spec: Spec, y: Any, color: Mapping[str, Any]
) -> list[Any]:
    import altair as alt

    x = alt.X(
        "x:Q", title="Run order", scale=alt.Scale(zero=False, nice=False, padding=12), axis=alt.Axis(tickMinStep=1)
    )
    shown = ("condition", "value", "repetition")
    tooltip = [alt.Tooltip(f"{name}:N") for name in shown]
    dots = alt.Chart(chart_marks.data(rows)).mark_point(style="mark", filled=True, size=30, fillOpacity=0.75)
    drawn = [dots.encode(x=x, y=y, tooltip=tooltip, **color)]
    if spec.relative:
        rule = alt.Chart(chart_marks.data([{"y": 100}])).mark_rule(style="reference", strokeWidth=1)
        drawn.insert(0, rule.encode(y=y))
    if line is not None:
        ends = [{"x": at, "y": unit.scale(line.at(at))} for at in (rows[0]["x"], rows[-1]["x"])]
        fit = alt.Chart(chart_marks.data(ends)).mark_line(style="fit", strokeWidth=1.8, strokeDash=[6, 4])
        drawn.append(fit.encode(x=x, y=y))
    return drawn
