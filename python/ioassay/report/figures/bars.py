"""Bars and boxes, by case or level: kinds `bar`, `box`, `latency_bar`, `path_costs` and `calls`.

A logarithmic axis has no zero, so there the means are points: the length of a bar would depend on where the axis ends.
If all means have room for it next to their error bars, they are numbers as well: paper has no tooltips. Of system calls
the most frequent have names, the rest is 'other'. Their counts are those of the trials that counted (`watch.calls`), or
of all where each was watched at level syscalls; how long the calls took is not here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from ioassay._core import percentile
from ioassay.analysis import path_of
from ioassay.analysis.measurements.cells import Cell
from ioassay.factors import CASE, factor_label, level_label, level_phrase
from ioassay.metrics import format_metric
from ioassay.narrative.explanation_text import part_name
from ioassay.narrative.say import sentence
from ioassay.records.observation import PARTS
from ioassay.records.record import Scalar
from ioassay.report.figures import Kind, axes, chart, metric_view, selection
from ioassay.report.figures.chart import Rows, channel, concat, pl, vconcat
from ioassay.report.figures.metric_view import MetricSpec, View
from ioassay.report.figures.spec import Direction, ErrorBar, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns, format_percent
from ioassay.verify.latency_parts import ENGINES, ENTRY_EXIT, PREPARATION, TOOL

_GAP_PX = 8
"""Between a mean and its error bar."""
_SHARE = 0.75
"""What a bar takes of the room of its condition."""
FEWEST_FOR_A_BOX = 5
"""Quartiles of fewer repetitions say less than the repetitions themselves."""
_REACH = 1.5
"""Whiskers reach the furthest value within this many interquartile ranges of the box (Tukey 1977)."""


class BoxSpec(MetricSpec):
    x: str | None = None


class BarSpec(BoxSpec):
    error: ErrorBar = "ci"
    repetitions: bool = True


def draw_bars(records: Dataset, study: Study, spec: BarSpec) -> Any:
    """Bars from zero, error bars, every repetition as a dot."""
    view, pooled = metric_view.over_levels(records, study, spec, spec.error)
    single = view.single() if spec.repetitions else []
    title = f"{selection.metric_label(spec.y)} by {factor_label(view.axis.factor)}"
    dots_text = "○ one repetition" if single else ""
    notes = [view.mean_name, dots_text, view.counted, pooled, view.metric_axis.note]
    return chart.layered(_bars(view, single), spec, study, title, notes, points=view.points)


def _bars(view: View, single: Rows = ()) -> list[Any]:
    """Bars with error bars, those of `single` repetitions as dots, and the means as numbers where all have room."""
    y, places, log = view.y, view.places(), view.metric_axis.log
    base, width = chart.base(view.points).encode(y=y, **places), 0.9 if view.marks.factor else 0.62
    bars = base.mark("bar", style="bar", width={"band": width}).encode(**view.marks.color())
    means = base.mark("point", **chart.MEAN).encode(**view.marks.points()) if log else bars
    drawn = chart.error_bars(view.points, y, **places)
    if single:
        dots = chart.base(single).mark("point", style="dot", filled=True, size=20, xOffset=view.offset_px(0.15))
        drawn.append(dots.encode(y=y, tooltip=chart.tips({"value:N": metric_view.REPETITION}), **places))
    means = means.encode(tooltip=view.tooltip)
    layers = [*drawn, means] if log else [means, *drawn]
    longest_px = max(len(row["mean_text"]) for row in view.points) * chart.CHARACTER_PX
    if longest_px <= view.offset_px(0.5) - _GAP_PX:
        # Over the left half of the bars.
        text = base.mark("text", style="value", align="right", dx=-_GAP_PX, dy=-7)
        layers.append(text.encode(text="mean_text:N"))
    elif longest_px <= view.offset_px(_SHARE) and not single:
        tops = chart.base([{**row, "top": row.get("high", row["y"])} for row in view.points])
        text = tops.mark("text", style="value", dy=-7)
        layers.append(text.encode(y=chart.on(y, "top"), text="mean_text:N", **places))
    return layers


def draw_boxes(records: Dataset, study: Study, spec: BoxSpec) -> Any:
    """How the repetitions of each level are distributed: Tukey's boxes, every repetition beside them."""
    view, pooled = metric_view.over_levels(records, study, spec, "none", zero=False)
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
        told = chart.tips({"level:N": "", "quartiles:N": sentence("figures.half_of_repetitions")})
        layers.append(whisker.encode(y=chart.on(y, "low"), y2="high:Q"))
        layers.append(box.encode(y=y, y2="upper:Q", tooltip=told, **view.marks.color()))
    tick = chart.base(view.points).mark("tick", style="deviation", orient="horizontal", width=width, thickness=2)
    told = chart.point_tooltip(None, "none")
    layers.append(tick.encode(y=chart.on(y, "median"), tooltip=told, **places))
    aside_px = view.offset_px(0.2 if spec.color else 0.32)
    for rows, style in ((inside, "dot"), (outliers, "outlier")):
        # Without boxes, the repetitions themselves have the colours.
        own = view.marks.points() if not boxes and style == "dot" else {}
        look: VegaLite = {"style": "mark", "size": 34} if own else {"style": style, "size": 18}
        if rows:
            mark = chart.base(rows).mark("point", filled=True, xOffset=aside_px, **look)
            layers.append(mark.encode(y=y, tooltip=chart.tips({"value:N": metric_view.REPETITION}), **places, **own))
    notes = [
        sentence("figures.boxes") if boxes else "line: median",
        "○ one repetition" if boxes or not spec.color else sentence("figures.marks"),
        "● beyond the whiskers" if outliers else "",
        view.counted,
        pooled,
        view.metric_axis.note,
    ]
    title = f"Repetitions of {selection.metric_phrase(spec.y)} by {factor_label(view.axis.factor)}"
    return chart.layered(layers, spec, study, title, notes, points=view.points)


def _boxes(view: View) -> Rows:
    """Quartiles (type 7, as everywhere) and whisker ends of each condition that has enough repetitions."""
    name, scale, rows = view.metric_axis.name, view.metric_axis.unit.scale, list[VegaLite]()
    for one in view.conditions:
        values = one.measured
        if len(values) >= FEWEST_FOR_A_BOX:
            lower, upper = (percentile(values, share) for share in (0.25, 0.75))
            reach = _REACH * (upper - lower)
            inside = [value for value in values if lower - reach <= value <= upper + reach]
            ends = {"low": min(inside), "y": lower, "upper": upper, "high": max(inside)}
            row = metric_view.place(one.level, one.group, view.axis, view.marks.factor)
            row |= {end: scale(value) for end, value in ends.items()}
            rows.append({**row, "quartiles": f"{format_metric(name, lower)} to {format_metric(name, upper)}"})
    return rows


_LATENCY_NAMES: dict[str, str] = {"lat": "total (lat)", "clat": "completion (clat)", "slat": "submission (slat)"}


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
        found: list[metric_view.Condition] = []
        points, decades = list[Mapping[str, Scalar]](), False
        for kind in spec.latencies:
            name = f"{direction}.{kind}.mean"
            with suppress(NoData):  # a kind or a direction that does not occur
                cells = selection.measured(records, study, spec.where, name, factor)
                own = metric_view.conditions(cells, study, name, factor)
                found += [replace(one, group=_LATENCY_NAMES[kind]) for one in own]
                points += [cell.point for cell in cells]
                # Submission is a small part of any total latency: that alone is no reason for a logarithmic axis.
                decades = decades or axes.metric_axis(name, metric_view.measured_values(own)).log
        if not found:
            missing.append(sentence("figures.no_latency", direction=direction))
            continue
        axis = axes.LevelAxis(factor, study.design.in_order(factor, metric_view.levels_of(found)))
        log_y = decades if spec.log_y is None else spec.log_y
        name = f"{direction}.lat.mean"
        view = metric_view.of(records, study, found, name, axis, spec.width, "latency", spec.error, log_y)
        title = view.metric_axis.unit.titled(f"{direction.capitalize()} latency")
        view = replace(view, y=view.y | {"title": f"{title}, logarithmic" if view.metric_axis.log else title})
        panels.append(chart.panel(_bars(view), spec.width, spec.height))
        drawn.append(direction)
        rows += view.points
        noted += [selection.pooled(points, factor), view.metric_axis.note]
    if not panels:
        trials = selection.select(records, study, spec.where)
        raise NoData(f"none of the {trials.height} trials that went well has a mean latency")
    title = f"{' and '.join(drawn).capitalize()} latency by {factor_label(factor)}"
    error = metric_view.error_text(spec.error, study.analysis.confidence)
    notes = [error, selection.repetitions_text([row["n"] for row in rows]), *missing, *dict.fromkeys(noted)]
    return chart.figure(vconcat(*panels, spacing=18), spec, study, title, notes, rows)


class CostSpec(FigureSpec):
    """Keys of a chart of costs. `where` leaves one condition of each level of `x`, or their mean is shown."""

    x: str = CASE


def draw_costs(records: Dataset, study: Study, spec: CostSpec) -> Any:
    """One bar a level, in the study's order."""
    cells = selection.measured(records, study, spec.where, "total.iops", spec.x)
    if study.may_explain:
        costs, why = _explained(records, cells), sentence("figures.not_explained")
        order = [part_name(part, engine) for part in (*PARTS, ENTRY_EXIT, PREPARATION, TOOL) for engine in ENGINES]
    else:
        path, why = path_of(study), sentence("figures.not_counted")
        counted = path.bars(records, study, cells) if path else []
        costs = [(point, n, {name: (ns, "") for name, ns in parts.items()}) for point, n, parts in counted]
        order = list(path.NAMES.values()) if costs else []
    if not costs:
        raise NoData(f"no condition {why}")
    axis = axes.LevelAxis(spec.x, study.design.in_order(spec.x, [point[spec.x] for point, _, _ in costs]))
    unit = axes.unit_for("read.lat.mean", [sum(ns for ns, _ in parts.values()) for _, _, parts in costs])
    names = [name for name in dict.fromkeys(order) if any(name in parts for _, _, parts in costs)]
    rows, told = list[VegaLite](), list[VegaLite]()
    for level in axis.levels:
        own = [parts for point, _, parts in costs if point[spec.x] == level]
        stack = []
        for name in (name for name in names if any(name in parts for parts in own)):
            mean_ns = sum(parts[name][0] for parts in own if name in parts) / len(own)
            text = format_ns(mean_ns) + (own[0][name][1] if len(own) == 1 else "")
            stack.append((name, unit.scale(mean_ns), text))
        rows += chart.stack(axis.position(level), stack)
        told.append(
            {"level": axis.position(level), "mean_text": ", ".join(f"{name} {text}" for name, _, text in stack)}
        )
    pooled = selection.pooled([point for point, _, _ in costs], spec.x)
    shown = f"{len(costs)} of {len(cells)} conditions" if len(costs) < len(cells) else ""
    notes = [shown, "means over trials", selection.repetitions_text([trials for _, trials, _ in costs]), pooled]
    y = channel("y:Q", title=unit.titled("Mean latency"))
    legend = {"symbolType": "square", "orient": "top", "columns": 3}
    color = channel("part:N", title=None, sort=names, legend=legend)
    tooltip = chart.tips({"x:N": factor_label(spec.x), "part:N": "", "text:N": "mean"})
    bars = chart.base(rows).mark("bar", style="band", width={"band": 0.72})
    bars = bars.encode(x=axis.encoding(spec.width), y=y, y2="y2:Q", color=color, tooltip=tooltip)
    title = sentence("figures.costs_title", factor=factor_label(spec.x))
    return chart.layered([bars], spec, study, title, notes, points=told)


def _explained(records: Dataset, cells: Sequence[Cell]) -> list[tuple[Mapping[str, Scalar], int, dict[str, Any]]]:
    """Of each condition its trials, and by the name of each part its mean in ns and what else is known of it.

    By the witness, of the operations that took most of the time.
    """
    from ioassay.analysis import latency_shares

    costs = []
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


_WIDE = 50.0
"""Ratio of the highest to the lowest bar from which on they are read on a logarithmic axis only."""
_BAR_PX, _COLUMN_GAP_PX = 18, 14
_NUMBER_PX = 54
"""What a number behind a bar takes."""
_MOST_LEVELS = 8
OTHER = "other"
_COUNTERS = {"bpf": "counted by BPF", "strace": sentence("figures.counted_by_strace")}


class CallsSpec(FigureSpec):
    """Keys of bars of system calls. `width` is that of all panels together; their height follows from `top`."""

    x: str | None = None
    top: Annotated[int, Field(ge=1, le=40)] = 10
    log: bool | None = None
    columns: Annotated[int, Field(ge=1, le=8)] = 4


def draw_calls(records: Dataset, study: Study, spec: CallsSpec) -> Any:
    """Calls a second by name: one panel of bars a level of a factor."""
    selection.select(records, study, spec.where)  # says why where nothing went well
    restricted = {factor: level for factor, level in spec.where.items() if factor in records.calls.columns}
    found = selection.matching(records.calls.filter(study=study.name), restricted)
    if found.is_empty():
        counting = [] if records.counting is None else records.counting.filter(study=study.name)["reason"].to_list()
        if reason := next(filter(None, counting), ""):
            raise NoData(f"no system calls were counted: {reason}")
        raise NoData(f"no trial of the study '{study.name}' counted system calls; it needs watch.calls = true")
    factor = spec.x
    if factor is None:  # the first whose levels differ
        free = [name for name in study.levels if name in found.columns and name not in spec.where]
        factor = next((name for name in free if found[name].n_unique() > 1), None)
    elif factor not in found.columns:
        selection.require_factor(study, factor)
        raise NoData(f"the counts have no column of the factor '{factor}'")
    labelled, every = found.with_columns(level=pl.lit("")), [""]
    if factor is not None:
        known = found.drop_nulls(factor)
        levels = known[factor].to_list()
        labels = pl.Series([level_label(factor, level) for level in levels], dtype=pl.String)
        labelled = known.with_columns(level=labels)
        every = list(dict.fromkeys(level_label(factor, level) for level in study.design.in_order(factor, levels)))
    shown = every
    if len(every) > _MOST_LEVELS:  # evenly among all, first and last with them
        shown = [every[round(place * (len(every) - 1) / (_MOST_LEVELS - 1))] for place in range(_MOST_LEVELS)]
    labelled = labelled.filter(pl.col("level").is_in(shown))
    order, bars = _rates(labelled, shown, spec.top)
    values = [row["x"] for rows in bars.values() for row in rows if row["x"] > 0]
    log = max(values) > _WIDE * min(values) if spec.log is None else spec.log
    trials = labelled.group_by("level").agg(pl.col("trial").n_unique())["trial"].to_list()
    points = found.select([name for name in study.levels if name in found.columns]).unique().to_dicts()
    notes = [
        selection.repetitions_text(trials),
        *(_COUNTERS.get(by, by) for by in found["by"].unique().sort().to_list()),
        "logarithmic axis" if log else "",
        f"{len(shown)} of {len(every)} levels" if len(shown) < len(every) else "",
        selection.pooled(points, factor),
    ]
    texts = {label: ", ".join(f"{row['name']} {row['text']}" for row in rows) for label, rows in bars.items()}
    told = [{"level": label or "all", "mean_text": text} for label, text in texts.items()]
    title = sentence("figures.calls_title") + (f" over {factor_label(factor)}" if factor else "")
    return chart.figure(_panels(bars, order, log, spec, factor), spec, study, title, notes, told)


def _rates(labelled: pl.DataFrame, labels: Sequence[str], number: int) -> tuple[list[str], dict[str, Rows]]:
    """The names that occur most in all levels together, and of each level a row a call, others under one name.

    `x` is the mean rate over trials; a trial that made no such call counts as none.
    """
    trials = labelled.group_by("level").agg(trials=pl.col("trial").n_unique())
    sums = (
        labelled.group_by("level", "name").agg(pl.col("per_second", "count", "errors").sum()).join(trials, on="level")
    )
    total: dict[str, float] = {}
    levels: dict[str, dict[str, VegaLite]] = {label: {} for label in labels}
    for row in sums.iter_rows(named=True):
        name, level, rate = row["name"], row["level"], row["per_second"] / row["trials"]
        total[name] = total.get(name, 0.0) + rate
        failed = f"{100 * row['errors'] / max(row['count'], 1):.2g} %"
        levels[level][name] = {"name": name, "x": rate, "level": level or "all", "failed": failed}
    ranked = sorted(total, key=lambda name: (-total[name], name))
    # One that is left over says more by its name.
    order = ranked if len(ranked) <= number + 1 else [*ranked[:number], OTHER]
    for level, own in levels.items():
        if others := [own.pop(name)["x"] for name in ranked if name in own and name not in order]:
            own[OTHER] = {"name": OTHER, "x": sum(others), "level": level or "all", "failed": "–"}
        for row in own.values():
            row |= {"x": float(f"{row['x']:.7g}"), "text": format_count(row["x"])}
    return order, {level: [own[name] for name in order if name in own] for level, own in levels.items()}


def _panels(levels: Mapping[str, Rows], order: Sequence[str], log: bool, spec: CallsSpec, factor: str | None) -> Any:
    """Bars from left to right in one unit, or points on a logarithmic axis; one scale for all panels."""
    # Rows as even as they can be: 3 and 2 rather than 4 and 1.
    columns = math.ceil(len(levels) / math.ceil(len(levels) / spec.columns))
    width = max(int((spec.width - _COLUMN_GAP_PX * (columns - 1)) / columns), 110)
    values = [row["x"] for rows in levels.values() for row in rows if row["x"] > 0]
    unit = axes.Unit(1.0, "") if log else axes.best_unit("IOPS", values)
    # With room for a number behind the longest bar.
    low, high = min(values), max(values)
    floor = 10.0 ** math.floor(math.log10(low) - 0.01)
    if log:
        top = high * (high / floor) ** (_NUMBER_PX / width)
        ticks = [10.0**power for power in range(round(math.log10(floor)), math.ceil(math.log10(top)) + 1)]
        kept = {tick: format_count(tick) for tick in ticks[:: math.ceil(len(ticks) / max(width // 45, 2))]}
        axis = {"values": list(kept), "labelExpr": axes.labels_at(kept), "labelFlush": False}
        scale: VegaLite = {"type": "log", "domain": [floor, top], "nice": False}
    else:
        scale = {"domain": [0, unit.scale(high) * (1 + _NUMBER_PX / width)], "nice": False}
        axis = {"tickCount": max(width // 70, 2)}
    x = channel("x:Q", title=unit.titled("Calls a second"), scale=scale, axis=axis)
    tooltip = chart.tips({"name:N": "call", "text:N": "a second", "failed:N": "of these failed", "level:N": "level"})
    panels = []
    for place, (label, rows) in enumerate(levels.items()):
        first = {"labels": place % columns == 0, "grid": log}
        y = channel("name:N", title=None, sort=order, scale={"domain": order}, axis=first)
        # No mark beyond a logarithmic axis.
        own = [{**row, "x": unit.scale(row["x"])} for row in rows if row["x"] > 0 or not log]
        base = chart.base(own).encode(x=x, y=y, tooltip=tooltip)
        bars = base.mark("bar", style="bar", height={"band": 0.72})
        marks = base.mark("point", style="mean", filled=True, size=60) if log else bars
        text = base.mark("text", style="value", align="left", dx=8 if log else 4).encode(text="text:N")
        panel = chart.panel([marks, text], width, _BAR_PX * len(order))
        if factor:
            total = f"{format_count(sum(row['x'] for row in rows))} in all"
            panel["title"] = {"text": level_phrase(factor, label), "subtitle": total, "fontSize": 13, "offset": 6}
        panels.append(panel)
    return concat(*panels, columns=columns, spacing=_COLUMN_GAP_PX)


BAR, BOX = Kind(BarSpec, draw_bars), Kind(BoxSpec, draw_boxes)
LATENCY_BAR, PATH_COSTS = Kind(LatencyBarSpec, draw_latency_bars), Kind(CostSpec, draw_costs)
CALLS = Kind(CallsSpec, draw_calls)
