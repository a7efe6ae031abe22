"""A request's mean latency by access path, as a bar of its parts: submission, drive, transport, completion."""

from __future__ import annotations

from typing import Any

from ioassay.factors import CASE, factor_label
from ioassay.report.figures import axes, chart, scales, selection
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.report.figures.vega_lite import channel
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
    from ioassay.analysis.storage import path_costs

    cells = selection.measured(records, study, spec.where, "total.iops", spec.x)
    costs, _ = path_costs.costs_of(records, study, cells)
    if not costs:
        raise NoData("no condition has a drive that counted the tool's requests")
    axis = axes.category_axis(spec.x, study.design.in_order(spec.x, [cost.point[spec.x] for cost in costs]))
    unit = scales.unit_for("read.lat.mean", [cost.total_ns for cost in costs])
    rows, told = list[VegaLite](), list[VegaLite]()
    for level in axis.levels:
        own = [cost.parts() for cost in costs if cost.point[spec.x] == level]
        low, texts = 0.0, []
        for part, name in NAMES.items():
            mean_ns = sum(parts.get(part, 0.0) for parts in own) / len(own)
            high, text = low + unit.scale(mean_ns), format_ns(mean_ns)
            ends = {"y": round(low, 4), "y2": round(high, 4)}
            rows.append({"x": axis.position(level), "part": name, **ends, "mean_text": text})
            texts.append(f"{name} {text}")
            low = high
        told.append({"level": axis.position(level), "mean_text": ", ".join(texts)})
    pooled = selection.pooled([cost.point for cost in costs], spec.x)
    notes = ["means over trials", selection.repetitions_text([cost.trials for cost in costs]), pooled]
    y = channel("y:Q", title=unit.titled("Mean latency"))
    color = channel("part:N", title=None, sort=list(NAMES.values()), legend={"symbolType": "square"})
    tooltip = chart.tips({"x:N": factor_label(spec.x), "part:N": "", "mean_text:N": "mean"})
    bars = chart.base(rows).mark("bar", style="band", width={"band": 0.72})
    bars = bars.encode(x=axis.encoding(spec.width), y=y, y2="y2:Q", color=color, tooltip=tooltip)
    title = f"Mean latency of a request by part, by {factor_label(spec.x)}"
    return chart.layered([bars], spec, study, title, notes, points=told)
