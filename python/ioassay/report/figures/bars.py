"""A metric by case or level in bars or boxes: kinds `bar`, `box`, `latency_bar` and `path_costs`.

A logarithmic axis has no zero, so there the means are points: the length of a bar would depend on where the axis ends.
If all means have room for it next to their error bars, they are numbers as well: paper has no tooltips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from pydantic import Field

from ioassay._core import percentile
from ioassay.analysis import path_of
from ioassay.analysis.measurements.cells import Cell
from ioassay.factors import CASE, factor_label
from ioassay.metrics import format_metric
from ioassay.narrative.explanation_text import part_name
from ioassay.records.observation import PARTS
from ioassay.records.record import Scalar
from ioassay.report.figures import Kind, axes, chart, metric_view, selection
from ioassay.report.figures.chart import Rows, channel, vconcat
from ioassay.report.figures.metric_view import View
from ioassay.report.figures.spec import Direction, ErrorBar, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_ns, format_percent
from ioassay.verify.latency_parts import ENGINES, TOOL

_CHARACTER_PX = 6.9
_GAP_PX = 8
"""Between a mean and its error bar."""


class BarSpec(FigureSpec):
    """Keys of a bar chart."""

    y: str
    x: str | None = None
    color: str | None = None
    error: ErrorBar = "ci"
    repetitions: bool = True
    log_y: bool | None = None


def draw_bars(records: Dataset, study: Study, spec: BarSpec) -> Any:
    """Bars from zero, error bars, every repetition as a dot."""
    view, pooled = metric_view.over_categories(records, study, spec, spec.error)
    y, places, log = view.y, view.places(), view.metric_axis.log
    width = {"band": 0.9 if spec.color else 0.62}
    bars = chart.base(view.points).mark("bar", style="bar", width=width)
    means = (
        chart.base(view.points).mark("point", **chart.MEAN).encode(**view.pointed) if log else bars.encode(**view.color)
    )
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


FEWEST_FOR_A_BOX = 5
"""Quartiles of fewer repetitions say less than the repetitions themselves."""
_REACH = 1.5
"""Whiskers reach the furthest value within this many interquartile ranges of the box (Tukey 1977)."""


class BoxSpec(FigureSpec):
    """Keys of a box plot."""

    y: str
    x: str | None = None
    color: str | None = None
    log_y: bool | None = None


def draw_boxes(records: Dataset, study: Study, spec: BoxSpec) -> Any:
    """How the repetitions of each level are distributed: Tukey's boxes, every repetition beside them."""
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
            row = metric_view.place(one.level, one.group, view.axis, view.ask.color)
            row |= {end: scale(value) for end, value in ends.items()}
            rows.append({**row, "quartiles": f"{format_metric(name, lower)} to {format_metric(name, upper)}"})
    return rows


_LATENCY_NAMES: dict[str, str] = {"lat": "total (lat)", "clat": "completion (clat)", "slat": "submission (slat)"}
_LABEL_PX = 45
"""Room that a value needs over its bar; narrower bars stay without."""


class LatencyBarSpec(FigureSpec):
    """Keys of a latency bar chart. `height` is that of one panel."""

    x: str | None = None
    directions: Annotated[tuple[Direction, ...], Field(min_length=1)] = ("read", "write")
    latencies: Annotated[tuple[Latency, ...], Field(min_length=1)] = ("lat", "clat", "slat")
    error: ErrorBar = "ci"
    log_y: bool | None = None
    height: Annotated[int, Field(ge=80, le=2000)] = 210


def draw_latency_bars(records: Dataset, study: Study, spec: LatencyBarSpec) -> Any:
    """Panels below each other, each with its own axis: reads and writes may differ by orders of magnitude."""
    factor = selection.main_factor(study, spec.x, spec.where)
    panels, rows = list[Any](), list[VegaLite]()
    drawn, missing, noted = list[str](), list[str](), list[str]()
    for direction in spec.directions:
        found: dict[str, list[metric_view.Condition]] = {}
        points: list[Mapping[str, Scalar]] = []
        for kind in spec.latencies:
            name = f"{direction}.{kind}.mean"
            with suppress(NoData):  # a kind or a direction that does not occur
                cells = selection.measured(records, study, spec.where, name, factor)
                found[name] = metric_view.conditions(cells, study, name, factor)
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
    error = metric_view.error_text(spec.error, study.analysis.confidence)
    notes = [error, selection.repetitions_text([row["n"] for row in rows]), *missing, *dict.fromkeys(noted)]
    return chart.figure(vconcat(*panels, spacing=18), spec, study, title, notes, rows)


def _panel(
    study: Study, spec: LatencyBarSpec, factor: str, direction: str, found: Mapping[str, list[metric_view.Condition]]
) -> tuple[Any, Rows, str]:
    """The panel of one direction, a row for each of its bars, and what the reader has to know of its axis."""
    everything = [condition for members in found.values() for condition in members]
    axis = axes.LevelAxis(factor, study.design.in_order(factor, metric_view.levels_of(everything)))
    values = {name: metric_view.measured_values(members) for name, members in found.items()}
    # Submission is a small part of total latency in any study: that alone is no reason for a logarithmic axis.
    decades = any(axes.metric_axis(name, own).log for name, own in values.items())
    log_y = decades if spec.log_y is None else spec.log_y
    metric = axes.metric_axis(f"{direction}.lat.mean", [value for own in values.values() for value in own], log_y)
    rows = list[VegaLite]()
    for name, members in found.items():
        ask = metric_view.Ask(name, error=spec.error, confidence=study.analysis.confidence)
        group = _LATENCY_NAMES[name.split(".")[1]]
        rows += [{**row, "group": group} for row in metric_view.point_rows(members, axis, ask, metric.unit)]
    metric, rows = metric.holding(rows)
    rows = [{**row, "top": row.get("high", row["y"])} for row in rows]
    names = [_LATENCY_NAMES[kind] for kind in spec.latencies]
    x = axis.encoding(spec.width) | {"scale": {"paddingInner": 0.14, "paddingOuter": 0.07}}
    places = {"x": x, "xOffset": channel("group:N", sort=names)}
    title = metric.unit.titled(f"{direction.capitalize()} latency")
    y = metric.encoding(ticks=5) | {"title": f"{title}, logarithmic" if metric.log else title}
    bars = chart.base(rows).mark("bar", style="bar", width={"band": 0.9})
    means = chart.base(rows).mark("point", **chart.MEAN) if metric.log else bars
    told = chart.point_tooltip("latency", spec.error)
    means = means.encode(y=y, color=channel("group:N", title=None, sort=names), tooltip=told, **places)
    intervals = chart.error_bars(rows, y, cap_px=7, **places)
    layers = [*intervals, means] if metric.log else [means, *intervals]
    if spec.width / max(len(axis.levels), 1) * 0.8 / len(names) >= _LABEL_PX:
        values = chart.base(rows).mark("text", style="value", dy=-7)
        layers.append(values.encode(y=chart.on(y, "top"), text="mean_text:N", **places))
    return chart.panel(layers, spec.width, spec.height), rows, metric.note


_Bar = tuple[Mapping[str, Scalar], int, Mapping[str, tuple[float, str]]]
"""A condition, its trials, and by the name of each part its mean in ns and what else is known of it."""


class CostSpec(FigureSpec):
    """Keys of a chart of costs. `where` leaves one condition of each level of `x`, or their mean is shown."""

    x: str = CASE


def draw_costs(records: Dataset, study: Study, spec: CostSpec) -> Any:
    """One bar a level, in the study's order."""
    cells = selection.measured(records, study, spec.where, "total.iops", spec.x)
    explains = study.may_explain
    costs = _costs(records, study, cells)
    if not costs:
        kept = "was watched at level explain" if explains else "has a drive that counted the tool's requests"
        raise NoData(f"no condition {kept}")
    axis = axes.LevelAxis(spec.x, study.design.in_order(spec.x, [point[spec.x] for point, _, _ in costs]))
    unit = axes.unit_for("read.lat.mean", [sum(ns for ns, _ in parts.values()) for _, _, parts in costs])
    watched = [part_name(part, engine) for part in (*PARTS, TOOL) for engine in ENGINES]
    order = watched if explains else path_of(study).NAMES.values()
    names = [name for name in dict.fromkeys(order) if any(name in parts for _, _, parts in costs)]
    rows, told = list[VegaLite](), list[VegaLite]()
    for level in axis.levels:
        own = [parts for point, _, parts in costs if point[spec.x] == level]
        low, texts = 0.0, []
        for name in (name for name in names if any(name in parts for parts in own)):
            mean_ns = sum(parts[name][0] for parts in own if name in parts) / len(own)
            high, text = low + unit.scale(mean_ns), format_ns(mean_ns)
            text += own[0][name][1] if len(own) == 1 else ""
            ends = {"y": round(low, 4), "y2": round(high, 4)}
            rows.append({"x": axis.position(level), "part": name, **ends, "mean_text": text})
            texts.append(f"{name} {text}")
            low = high
        told.append({"level": axis.position(level), "mean_text": ", ".join(texts)})
    pooled = selection.pooled([point for point, _, _ in costs], spec.x)
    shown = f"{len(costs)} of {len(cells)} conditions" if len(costs) < len(cells) else ""
    notes = [shown, "means over trials", selection.repetitions_text([trials for _, trials, _ in costs]), pooled]
    y = channel("y:Q", title=unit.titled("Mean latency"))
    legend = {"symbolType": "square", "orient": "top", "columns": 3}
    color = channel("part:N", title=None, sort=names, legend=legend)
    tooltip = chart.tips({"x:N": factor_label(spec.x), "part:N": "", "mean_text:N": "mean"})
    bars = chart.base(rows).mark("bar", style="band", width={"band": 0.72})
    bars = bars.encode(x=axis.encoding(spec.width), y=y, y2="y2:Q", color=color, tooltip=tooltip)
    title = f"Mean latency of a request by part, by {factor_label(spec.x)}"
    return chart.layered([bars], spec, study, title, notes, points=told)


def _costs(records: Dataset, study: Study, cells: Sequence[Cell]) -> list[_Bar]:
    """By the witness, of the operations that took most of the time, or by the counts of a drive that a pack makes."""
    if not study.may_explain:
        path = path_of(study)
        counted = path.bars(records, study, cells) if path else []
        return [(point, trials, {name: (ns, "") for name, ns in parts.items()}) for point, trials, parts in counted]
    from ioassay.analysis import latency_shares

    costs: list[_Bar] = []
    for one in latency_shares.shares_of(records, cells):
        for kind in one.kinds[:1]:
            parts = {}
            for part in kind.parts:
                percentiles = (("p50", part.p50_ns), ("p99", part.p99_ns))
                known = [f"{name} {format_ns(ns)}" for name, ns in percentiles if ns is not None]
                text = f" ({', '.join([f'{format_percent(part.share)} %', *known])})"
                parts[part_name(part.name, kind.engine)] = part.mean_ns, text
            costs.append((one.point, one.trials, parts))
    return costs


BAR, BOX = Kind(BarSpec, draw_bars), Kind(BoxSpec, draw_boxes)
LATENCY_BAR, PATH_COSTS = Kind(LatencyBarSpec, draw_latency_bars), Kind(CostSpec, draw_costs)
