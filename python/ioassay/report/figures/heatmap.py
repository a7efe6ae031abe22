"""Numbers as the colour of cells: a metric over two factors, requests over time and latency.

Kinds `heatmap`, with a panel for each level of one or two further factors, and `latency_heatmap`, where single requests
are visible next to millions, since colours are logarithmic; averages over time are the kind `series`.

All panels share one colour scale and one grid, on which sizes ascend to the right and upwards: a cell that was not
measured stays empty with a dashed edge, one whose trials failed has a cross.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ioassay.analysis.measurements import log_samples
from ioassay.errors import InputError
from ioassay.factors import axis_title, factor_label, is_size, level_axis_numbers, level_label
from ioassay.narrative.say import sentence
from ioassay.records.record import FAILED, OK, Scalar
from ioassay.report.figures import Kind, axes, chart, latency_distributions, metric_view, selection
from ioassay.report.figures.chart import channel, concat
from ioassay.report.figures.spec import Direction, FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

if TYPE_CHECKING:
    from ioassay.records.record import LatencyWindow

_DARK_UNTIL = 0.38
"""Up to this share of the colour scale white is read better on a cell than black (contrast by WCAG 2.1)."""
_CROSS = "M-.6,-.6L.6,.6M-.6,.6L.6,-.6"
_FIELDS = {"x": "level", "y": "group"}
_MOST_TICKS = 8


class HeatmapSpec(FigureSpec):
    """Keys of a heatmap. `width` and `height` are those of one panel."""

    x: str
    y: str
    value: str
    panel: str | None = None
    row: str | None = None
    columns: Annotated[int, Field(ge=1, le=8)] = 2
    log: bool = False
    numbers: bool = True
    width: Annotated[int, Field(ge=100, le=2000)] = 330
    height: Annotated[int, Field(ge=80, le=2000)] = 220


def _side(name: str, factor: str, levels: Sequence[Scalar], length_px: int) -> Any:
    """The channel `name`, 'x' or 'y', of levels side by side over the field that has their labels; sizes ascend."""
    numbers = level_axis_numbers(factor, levels) if is_size(factor) else None
    if numbers is not None:
        ranked = sorted(zip(numbers, levels, strict=True), key=lambda pair: pair[0], reverse=name == "y")
        levels = [level for _, level in ranked]
    labels = [level_label(factor, level) for level in levels]
    long = max(map(len, labels)) * chart.CHARACTER_PX > length_px / len(labels)
    axis = {"grid": False, "domain": False, "ticks": False, "labelAngle": -40 if name == "x" and long else 0}
    return channel(f"{_FIELDS[name]}:N", title=axis_title(factor), sort=labels, axis=axis)


def draw_heatmap(records: Dataset, study: Study, spec: HeatmapSpec) -> Any:
    """Panels beside and below each other, with one legend; NoData where there is no cell."""
    split = [name for name in (spec.x, spec.y, spec.panel, spec.row) if name is not None]
    cells = selection.measured(records, study, spec.where, spec.value, *split)
    trials = selection.matching(records.trials_of(study), spec.where)
    good, bad = (selection.points_of(study, trials.filter(status=status)) for status in (OK, FAILED))
    lost = [point for point in bad if point not in good and {spec.x, spec.y} <= point.keys()]
    points = [*(cell.point for cell in cells), *sorted(lost, key=study.design.place)]
    levels = {name: study.design.in_order(name, [point[name] for point in points]) for name in split}
    places = {"x": _side("x", spec.x, levels[spec.x], spec.width), "y": _side("y", spec.y, levels[spec.y], spec.height)}
    every_place = [*itertools.product(places["x"]["sort"], places["y"]["sort"])]
    unit = axes.unit_for(spec.value, metric_view.measured_values(cells))
    axis = axes.LevelAxis(spec.x, levels[spec.x])
    panels: dict[str, list[VegaLite]] = {}
    for row, column in itertools.product(levels.get(spec.row or "", [None]), levels.get(spec.panel or "", [None])):
        place = {name: level for name, level in ((spec.panel, column), (spec.row, row)) if name and level is not None}
        own = [cell for cell in cells if place.items() <= cell.point.items()]
        failed = [point for point in lost if place.items() <= point.items()]
        if own or failed:
            found = metric_view.conditions(own, study, spec.value, spec.x, spec.y)
            rows = metric_view.point_rows(found, spec.value, axis, unit, spec.y)
            labels = {(level_label(spec.x, point[spec.x]), level_label(spec.y, point[spec.y])) for point in failed}
            title = ", ".join(level_label(name, level) for name, level in place.items())
            panels[title] = [{**row, "value": row["y"], "text": _short(row["y"])} for row in rows]
            known = {(row["level"], row["group"]) for row in rows}
            # Those whose trials all failed have an `n` of 0, those that were not run none.
            for level, group in (one for one in every_place if one not in known):
                end: VegaLite = {"mean_text": "failed", "n": 0} if (level, group) in labels else {}
                panels[title].append({"level": level, "group": group, **end})
    every = [cell for own_cells in panels.values() for cell in own_cells]
    measured = [cell for cell in every if "value" in cell]
    low, high = min(cell["value"] for cell in measured), max(cell["value"] for cell in measured)
    log = spec.log and low > 0
    scaled: Callable[[float], float] = math.log if log else float
    # The value up to which white is read better.
    dark_until = scaled(low) + _DARK_UNTIL * (scaled(high) - scaled(low))
    for cell in measured:
        cell["dark"] = low < high and scaled(cell["value"]) <= dark_until
    centre = metric_view.centre(cells)
    # One scale for all panels; the theme's palette, which is even to the eye and to the colour-blind.
    shown = unit.titled(selection.metric_label(spec.value))
    if log and low < high:
        ticks = axes.log_ticks(low, high)
        decades = [tick for tick in ticks if math.log10(tick).is_integer()]
        apart = ticks if len(ticks) <= _MOST_TICKS or len(decades) < 2 else decades
        color = chart.heat("value", shown, "log", [low, high], values=apart, format="~g")
    else:
        domain = [low, high] if high > low else [min(low, 0.0), max(high, 0.0) or 1.0]
        color = chart.heat("value", shown, "linear", domain, tickCount=5, format="~r")
    drawn = [
        chart.panel(_layers(own_cells, places, spec, color, centre), spec.width, spec.height, title)
        for title, own_cells in panels.items()
    ]
    notes = [
        f"{centre} of repetitions" if max(cell["n"] for cell in measured) > 1 else "one repetition",
        selection.repetitions_text([cell["n"] for cell in measured]),
        "logarithmic colours" if log else "",
        sentence("figures.linear_colours") if spec.log and not log else "",
        "dashed: not run" if any("mean_text" not in cell for cell in every) else "",
        "× failed" if any(cell.get("n") == 0 for cell in every) else "",
        selection.pooled([cell.point for cell in cells], *split),
    ]
    told = [
        {**cell, "group": f"{cell['group']}, {title}" if title else cell["group"]}
        for title, own_cells in panels.items()
        for cell in own_cells
        if "mean_text" in cell
    ]
    columns = len(levels.get(spec.panel or "", [None])) if spec.row else spec.columns
    title = f"{selection.metric_label(spec.value)} over {factor_label(spec.x)} and {factor_label(spec.y)}"
    width = min(columns, len(panels)) * (spec.width + 60)
    return chart.figure(chart.grid(drawn, columns, 18), spec, study, title, notes, told, width)


def _short(number: float) -> str:
    """Three digits, two below 1, or all before the point: `0.041`, `9.00`, `41.2`, `4120`."""
    if abs(number) < 1:
        return f"{number:#.2g}" if number else "0"
    return f"{number:#.3g}".rstrip(".") if abs(number) < 999.5 else f"{number:.0f}"


def _layers(every: chart.Rows, places: VegaLite, spec: HeatmapSpec, color: Any, centre: str) -> list[Any]:
    cells = [cell for cell in every if "value" in cell]
    failed = [cell for cell in every if cell.get("n") == 0]
    empty = [cell for cell in every if "n" not in cell]
    place = {"level:N": factor_label(spec.x), "group:N": factor_label(spec.y)}
    value = {"mean_text:N": centre}
    whole = chart.tips({**place, **value, "median_text:N": "median", "n:Q": "repetitions"})
    drawn = []
    if empty:
        edge = chart.base(empty).mark("rect", style="empty", filled=False, strokeDash=[3, 3])
        drawn.append(edge.encode(**places, tooltip=chart.tips(place)))
    if cells:
        drawn.append(chart.base(cells).mark("rect", style="cell").encode(**places, color=color, tooltip=whole))
    if failed:
        base = chart.base(failed)
        cross = base.mark("point", style="failed", shape=_CROSS, size=220, strokeWidth=2)
        cross = cross.encode(**places, tooltip=chart.tips({**place, **value}))
        drawn += [base.mark("rect", style="empty", filled=False).encode(**places), cross]
    width_px, height_px = spec.width / len(places["x"]["sort"]), spec.height / len(places["y"]["sort"])
    room = (width_px - 4) / chart.CHARACTER_PX if height_px >= chart.LINE_PX else 0
    fitting = [cell for cell in cells if len(cell["text"]) <= room]
    for style, dark in (("on-dark", True), ("on-bright", False)) if spec.numbers else ():
        if own := [cell for cell in fitting if cell["dark"] is dark]:
            text = chart.base(own).mark("text", style=style, align="center", baseline="middle")
            drawn.append(text.encode(**places, text="text:N"))
    return drawn


_MOST_COLUMNS, _MOST_STEPS = 100, 48
"""At most: of time and of latency."""
_FINEST_LOGGED = 2 ** (1 / 16)
"""Ratio of neighbouring bins in the logs: finer steps would have gaps."""
_MOST_PANELS = 12


class LatencyHeatmapSpec(FigureSpec):
    """Keys of a heat map of latencies. `width` and `height` are those of one panel."""

    direction: Direction = "read"
    panel: str | None = None
    repetition: Annotated[int, Field(ge=0)] | None = None
    columns: Annotated[int, Field(ge=1, le=8)] = 1
    height: Annotated[int, Field(ge=80, le=2000)] = 220


def draw_latency_heatmap(records: Dataset, study: Study, spec: LatencyHeatmapSpec) -> Any:
    """One panel a level, with one scale of colours."""
    trials = selection.select(records, study, spec.where)
    if spec.repetition is not None:
        trials = trials.filter(trials["repetition"] == spec.repetition)
        if trials.is_empty():
            raise NoData(f"no trial that went well is repetition {spec.repetition}; the first is 0")
    points = selection.points_of(study, trials)
    varied = (name for name in study.levels if len({point.get(name) for point in points}) > 1)
    factor = spec.panel or next(varied, None)
    if factor:
        selection.require_factor(study, factor)
    try:
        logs = log_samples.latency_windows(records, trials["trial"].to_list(), spec.direction)
    except InputError as error:
        raise NoData(str(error)) from None
    if not logs:
        why = sentence("figures.no_histogram_logs", direction=spec.direction)
        raise NoData(f'{why}; the parameter logs asks fio for them: logs = ["hist"]')
    levels = dict(trials.select("trial", factor).iter_rows()) if factor else dict.fromkeys(logs)
    shown = study.design.in_order(factor, [levels[trial] for trial in logs]) if factor else [None]
    if len(shown) > _MOST_PANELS:
        raise NoData(f"{len(shown)} levels of {factor} have histograms; choose up to {_MOST_PANELS} with `where`")
    titles = {level: level_label(factor, level) if factor and level is not None else "" for level in shown}
    panels, window_s, ratio, (low_ns, high_ns) = _cells({trial: titles[levels[trial]] for trial in logs}, logs)
    told = []
    for title in titles.values():
        slow = max(panels[title], key=lambda row: (row["y"], -row["x"]))
        slowest = sentence("figures.slowest", latency=format_ns(slow["y"]), seconds=f"{slow['x']:.3g}")
        requests = format_count(sum(row["requests"] for row in panels[title]))
        told.append(f"{f'{title}: ' if title else ''}{requests} requests, {slowest}")
    notes = [
        sentence("figures.cells", seconds=f"{window_s:.3g}"),
        f"{len(logs)} trials together" if len(logs) > len(panels) else f"one trial{' in each panel' * (len(logs) > 1)}",
        selection.pooled(points, factor),
    ]
    name = latency_distributions.latency_name(spec.direction, "clat")
    every = [row for rows in panels.values() for row in rows]
    most, last_s = max(row["requests"] for row in every), max(row["x"] for row in every)
    ticks = [tick for tick in axes.log_ticks(1, max(most, 10)) if math.log10(tick).is_integer()]
    color = chart.heat("requests", "Requests", "log", [1, max(most, 2)], values=ticks, format="~s")
    y = axes.latency_axis("y", name, low_ns, high_ns)
    channels = {
        "x": chart.seconds(end_s=round(last_s + window_s, 4)),
        "x2": "end:Q",
        "y": y,
        "y2": "top:Q",
        "color": color,
    }
    tooltip = [
        channel("x:Q", title="from (s)"),
        channel("y:Q", title="latency from (ns)", format="~s"),
        channel("requests:Q", format=","),
    ]
    # Thousands of cells: what follows from a place is computed by the chart.
    computed = {"end": f"datum.x + {window_s:.6g}", "top": f"datum.y * {ratio:.9g}"}
    transform = {"transform": [{"calculate": expression, "as": field} for field, expression in computed.items()]}
    charts = []
    for title in titles.values():
        cells = chart.base(panels[title]).mark("rect", style="band", clip=True).encode(**channels, tooltip=tooltip)
        charts.append(chart.panel([cells | transform], spec.width, spec.height, title))
    width = min(spec.columns, len(panels)) * spec.width
    drawn = concat(*charts, columns=spec.columns, spacing=16)
    return chart.figure(drawn, spec, study, f"{name} over time", notes, width=width, details="; ".join(told))


def _cells(
    panel_of: Mapping[str, str], logs: Mapping[str, Sequence[LatencyWindow]]
) -> tuple[dict[str, chart.Rows], float, float, tuple[float, float]]:
    """Requests of all trials of each panel: from `x` s on in windows of one length, from `y` ns on in steps.

    With the length, the ratio of a step, and the ends of all steps. Windows are those of the logs, joined where they
    are too many.
    """
    # Each trial's windows end a few milliseconds late, by its own; at the next job's log time goes back.
    steps_s = (after.end_s - before.end_s for log in logs.values() for before, after in itertools.pairwise(log))
    forward_s = sorted(step for step in steps_s if step > 0)
    last_s = max(window.end_s for log in logs.values() for window in log)
    interval_s = (round(forward_s[len(forward_s) // 2], 2) if forward_s else 0.0) or last_s
    window_s = interval_s * max(math.ceil(last_s / interval_s / _MOST_COLUMNS), 1)
    values = [value for log in logs.values() for window in log for value in window.values_ns]
    low, high = max(min(values), 1), max(*values, 2)
    steps = max(min(_MOST_STEPS, int(math.log(high / low) / math.log(_FINEST_LOGGED))), 1)
    first_ns, ratio = low / 1.02, (high / low * 1.05) ** (1 / steps)
    edges = [float(f"{first_ns * ratio**step:.5g}") for step in range(steps + 1)]
    counts = {panel: Counter[tuple[int, int]]() for panel in panel_of.values()}
    for trial, log in logs.items():
        for window in log:
            # A window that ends at 107 ms is the one from 0 to 100.
            place = max(math.ceil(window.end_s / window_s - 0.3) - 1, 0)
            for value, count in zip(window.values_ns, window.counts, strict=True):
                step = int(math.log(max(value, 1) / first_ns) / math.log(ratio))
                counts[panel_of[trial]][place, min(max(step, 0), steps - 1)] += count
    panels: dict[str, chart.Rows] = {
        panel: [
            {"x": round(place * window_s, 4), "y": edges[step], "requests": count}
            for (place, step), count in sorted(own.items())
        ]
        for panel, own in counts.items()
    }
    return panels, window_s, ratio, (edges[0], edges[-1])


HEATMAP = Kind(HeatmapSpec, draw_heatmap)
LATENCY_HEATMAP = Kind(LatencyHeatmapSpec, draw_latency_heatmap)
