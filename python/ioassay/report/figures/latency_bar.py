"""Total, completion and submission latency side by side for each case or level, one panel a direction.

Bars from zero; points on a logarithmic axis, which has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import Field

from ioassay.factors import factor_label
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart, condition_rows, selection
from ioassay.report.figures.chart import Rows
from ioassay.report.figures.spec import Direction, ErrorBar, FigureSpec, Latency, NoData, VegaLite
from ioassay.report.figures.vega_lite import channel, vconcat
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

NAMES: dict[str, str] = {"lat": "total (lat)", "clat": "completion (clat)", "slat": "submission (slat)"}
_LABEL_PX = 45
"""Room that a value needs over its bar; narrower bars stay without."""


class Spec(FigureSpec):
    """Keys of a latency bar chart. `height` is that of one panel."""

    x: str | None = None
    directions: Annotated[tuple[Direction, ...], Field(min_length=1)] = ("read", "write")
    latencies: Annotated[tuple[Latency, ...], Field(min_length=1)] = ("lat", "clat", "slat")
    error: ErrorBar = "ci"
    log_y: bool | None = None
    height: Annotated[int, Field(ge=80, le=2000)] = 210


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Panels below each other, each with its own axis: reads and writes may differ by orders of magnitude."""
    factor = selection.main_factor(study, spec.x, spec.where)
    panels, rows = list[Any](), list[VegaLite]()
    drawn, missing, noted = list[str](), list[str](), list[str]()
    for direction in spec.directions:
        found: dict[str, list[condition_rows.Condition]] = {}
        points: list[Mapping[str, Scalar]] = []
        for kind in spec.latencies:
            name = f"{direction}.{kind}.mean"
            with suppress(NoData):  # a kind or a direction that does not occur
                cells = selection.measured(records, study, spec.where, name, factor)
                found[name] = condition_rows.of(cells, study, name, factor)
                points += [cell.point for cell in cells]
        if not found:
            missing.append(f"no {direction} latency was recorded")
            continue
        shown, own, note = _panel(study, spec, factor, direction, found)
        panels.append(shown)
        drawn.append(direction)
        rows += own
        noted += [selection.pooled(points, factor), note]
    if not panels:
        trials = selection.select(records, study, spec.where)
        raise NoData(f"none of the {trials.height} trials that went well has a mean latency")
    title = f"{' and '.join(drawn).capitalize()} latency by {factor_label(factor)}"
    error = condition_rows.error_text(spec.error, study.analysis.confidence)
    notes = [error, selection.repetitions_text([row["n"] for row in rows]), *missing, *dict.fromkeys(noted)]
    return chart.figure(vconcat(*panels, spacing=18), spec, study, title, notes, rows)


def _panel(
    study: Study, spec: Spec, factor: str, direction: str, found: Mapping[str, list[condition_rows.Condition]]
) -> tuple[Any, Rows, str]:
    """The panel of one direction, a row for each of its bars, and what the reader has to know of its axis."""
    everything = [condition for members in found.values() for condition in members]
    axis = axes.category_axis(factor, study.design.in_order(factor, condition_rows.levels_of(everything)))
    values = {name: condition_rows.measured_values(members) for name, members in found.items()}
    # Submission is a small part of total latency in any study: that alone is no reason for a logarithmic axis.
    decades = any(axes.metric_axis(name, own).log for name, own in values.items())
    log_y = decades if spec.log_y is None else spec.log_y
    metric = axes.metric_axis(f"{direction}.lat.mean", [value for own in values.values() for value in own], log_y)
    rows = list[VegaLite]()
    for name, members in found.items():
        ask = condition_rows.Ask(name, error=spec.error, confidence=study.analysis.confidence)
        group = NAMES[name.split(".")[1]]
        rows += [{**row, "group": group} for row in condition_rows.point_rows(members, axis, ask, metric.unit)]
    metric, rows = metric.holding(rows)
    rows = [{**row, "top": row.get("high", row["y"])} for row in rows]
    names = [NAMES[kind] for kind in spec.latencies]
    x = axis.encoding(spec.width) | {"scale": {"paddingInner": 0.14, "paddingOuter": 0.07}}
    places = {"x": x, "xOffset": channel("group:N", sort=names)}
    title = metric.unit.titled(f"{direction.capitalize()} latency")
    y = metric.encoding(ticks=5) | {"title": f"{title}, logarithmic" if metric.log else title}
    bars = chart.base(rows).mark("bar", style="bar", width={"band": 0.9})
    means = chart.points(rows) if metric.log else bars
    told = chart.point_tooltip("latency", spec.error)
    means = means.encode(y=y, color=channel("group:N", title=None, sort=names), tooltip=told, **places)
    intervals = chart.error_bars(rows, y, cap_px=7, **places)
    layers = [*intervals, means] if metric.log else [means, *intervals]
    if spec.width / max(len(axis.levels), 1) * 0.8 / len(names) >= _LABEL_PX:
        values = chart.base(rows).mark("text", style="value", dy=-7)
        layers.append(values.encode(y=chart.on(y, "top"), text="mean_text:N", **places))
    return chart.panel(layers, spec.width, spec.height), rows, metric.note
