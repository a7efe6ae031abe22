"""A metric over run order: whether the machine drifted while the study ran."""

from __future__ import annotations

from typing import Any

from ioassay.factors import level_label
from ioassay.metrics import format_metric
from ioassay.report.figures import axes, chart, condition_rows, level_marks, scales, selection
from ioassay.report.figures.spec import FigureSpec, VegaLite
from ioassay.report.figures.vega_lite import channel
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


class Spec(FigureSpec):
    """Keys of a chart over run order."""

    y: str
    color: str | None = None
    relative: bool = True
    log_y: bool | None = None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Every trial as a point, and a line fitted to all where they are relative: own values would mean nothing."""
    cells = selection.measured(records, study, spec.where, spec.y, spec.color)
    label = selection.metric_label(spec.y)
    if spec.relative:
        unit, note = scales.Unit(1.0, "%"), "each as a share of the mean of its own condition"
        # Linear: shares of one mean lie close together.
        scale = {"zero": False, "nice": 6, "padding": 8}
        y = channel("y:Q", title=f"{label} (% of its condition's mean)", scale=scale, axis={"tickCount": 6})
    else:
        axis = axes.metric_axis(spec.y, [float(value) for cell in cells for value in cell.measured], spec.log_y)
        unit, note, y = axis.unit, axis.note, axis.encoding(zero=False)
    rows: list[VegaLite] = []
    for cell in cells:
        mean = float(cell.measured.mean()) if spec.relative else 100.0
        if mean == 0:
            continue
        share = 100 / mean
        group = {} if spec.color is None else {"group": level_label(spec.color, cell.point[spec.color])}
        for order, repetition, value in zip(cell.order, cell.repetition, cell.measured, strict=True):
            row = {"x": int(order), "y": unit.scale(float(value) * share), "condition": cell.label, **group}
            rows.append({**row, "value": format_metric(spec.y, float(value)), "repetition": int(repetition) + 1})
    rows.sort(key=lambda row: row["x"])
    scale = {"zero": False, "nice": False, "padding": 12}
    x = channel("x:Q", title="Run order", scale=scale, axis={"tickMinStep": 1})
    groups = [cell.point[spec.color] for cell in cells] if spec.color else []
    color = level_marks.of(records, study, spec.color, groups).points() if spec.color else {}
    tooltip = chart.tips({"condition:N": "", "value:N": "", "repetition:N": ""})
    dots = chart.base(rows).mark("point", style="mark", filled=True, size=30, fillOpacity=0.75)
    drawn = [dots.encode(x=x, y=y, tooltip=tooltip, **color)]
    notes = [f"{len(rows)} trials", note]
    if spec.relative:
        drawn.insert(0, chart.base([{"y": 100}]).mark("rule", style="reference", strokeWidth=1).encode(y=y))
        at = [row["x"] for row in rows]
        if line := condition_rows.fit_line(at, [row["y"] for row in rows], study.analysis.confidence):
            fit = chart.base([{"x": end, "y": unit.scale(line.at(end))} for end in (at[0], at[-1])])
            drawn.append(fit.mark("line", style="fit", strokeWidth=1.8, strokeDash=[6, 4]).encode(x=x, y=y))
            notes.append(f"line: {line.slope * (at[-1] - at[0]):+.2g} % from first to last")
    return chart.layered(drawn, spec, study, f"{label} over run order", notes)
