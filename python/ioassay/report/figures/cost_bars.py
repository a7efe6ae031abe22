"""A request's mean latency by access path, as a bar of its parts: submission, drive, transport, completion."""

from __future__ import annotations

from typing import Any

from ioassay.factors import CASE, factor_label
from ioassay.report.figures import axes, chart_marks, scales, selection, titles
from ioassay.report.figures.chart_marks import Rows
from ioassay.report.figures.spec import FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_ns

NAMES = {
    "submission": "submission",
    "device": "drive",
    "transport": "transport",
    "completion": "completion and waiting",
}


class Spec(FigureSpec):
    """Keys of a chart of costs. `where` leaves one condition of each level of `x`, or their mean is shown."""

    x: str = CASE


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One bar a level, in the study's order."""
    import altair as alt

    from ioassay.analysis.storage import path_costs

    cells = selection.measured(records, study, spec.where, "total.iops", spec.x)
    costs, _ = path_costs.costs_of(records, study, cells)
    if not costs:
        raise NoData("no condition has a drive that counted the tool's requests")
    levels = study.design.in_order(spec.x, list(dict.fromkeys(cost.point[spec.x] for cost in costs)))
    axis = axes.category_axis(spec.x, levels)
    unit = scales.unit_for("read.lat.mean", [cost.total_ns for cost in costs])
    rows: list[dict[str, Any]] = []
    for level in levels:
        own = [cost for cost in costs if cost.point[spec.x] == level]
        low = 0.0
        for part, name in NAMES.items():
            mean_ns = sum(cost.parts().get(part, 0.0) for cost in own) / len(own)
            high = low + unit.scale(mean_ns)
            shown = {"x": axis.position(level), "part": name, "y": round(low, 4), "y2": round(high, 4)}
            rows.append({**shown, "mean_text": format_ns(mean_ns)})
            low = high
    names = list(NAMES.values())
    points = [cost.point for cost in costs]
    notes = [
        "means over trials",
        selection.repetitions_text([cost.trials for cost in costs]),
        selection.pooled(points, spec.x),
    ]
    chart = alt.Chart(chart_marks.data(rows)).mark_bar(style="band", width=alt.RelativeBandSize(0.72))
    tooltip = [
        alt.Tooltip("x:N", title=factor_label(spec.x)),
        alt.Tooltip("part:N"),
        alt.Tooltip("mean_text:N", title="mean"),
    ]
    title = f"Mean latency of a request by part, by {factor_label(spec.x)}"
    return chart.encode(
        x=axis.encoding(spec.width),
        y=alt.Y("y:Q", title=unit.titled("Mean latency")),
        y2="y2:Q",
        color=alt.Color("part:N", title=None, sort=names, legend=alt.Legend(symbolType="square")),
        tooltip=tooltip,
    ).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.description(spec, study, title, _told(rows)),
    )


def _told(rows: Rows) -> Rows:
    """The parts of each case in one text."""
    found: dict[Any, list[str]] = {}
    for row in rows:
        found.setdefault(row["x"], []).append(f"{row['part']} {row['mean_text']}")
    return [{"level": case, "mean_text": ", ".join(parts)} for case, parts in found.items()]
