"""Two runs against each other: the forest of ratios, and the curves or distributions of both over each other.

In the forest, colour and shape both say the verdict; the band is the margin within which a difference counts as none.
Of curves, there is one chart a response, with a panel for each combination of the factors that are not on its axis.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay.analysis.condition_comparison import Row, Verdict
from ioassay.analysis.measurements.cells import (
    Cell,
    Key,
    by_key,
    label,
    point_key,
    that_count,
    trial_histograms,
)
from ioassay.factors import axis_title, level_axis_numbers, level_key
from ioassay.metrics import DIRECTIONS
from ioassay.narrative import phrases
from ioassay.narrative.say import sentence
from ioassay.packs.comparison import comparison_text
from ioassay.packs.comparison.run_comparison import Comparison
from ioassay.records.record import OK
from ioassay.report.figures import axes, chart, metric_view, selection
from ioassay.report.figures.chart import channel, concat, layer
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.stats.contrasts import Ratio
from ioassay.stats.percentiles import merge_histograms
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_ns

if TYPE_CHECKING:
    from ioassay._core import Histogram

MOST_ROWS = 30
"""What a screen shows and an eye compares; the others are in the page's table."""
_VERDICT_SHAPES: dict[str, str] = {
    Verdict.FASTER: "triangle-up",
    Verdict.SLOWER: "triangle-down",
    Verdict.SAME: "circle",
    Verdict.CHANGED: "diamond",
    Verdict.DIFFERS: "cross",
    "5": "circle",
    Verdict.WITHHELD: "stroke",
    Verdict.UNDECIDED: "square",
}
"""A verdict at the place of its colour in the theme's categories: blue, vermilion, green, purple, amber, and grey."""
_ROW_PX, _WIDTH_PX = 23, 330
_CHANGE_PX, _GAP_PX = 195, 10
_LINE_CHARACTERS, _MOST_LINES = 44, 3
"""Of the words for a row: what tells two apart often stands at their ends."""
_BEYOND = 1.6
"""Intervals are cut at this factor beyond the outermost ratios."""
_ROOM = 0.03
"""Share of the axis beyond the outermost mark."""
_STEPS = (0.01, 0.02, 0.05, 0.1)
_MOST_TICKS, _TICK_PX = 9, 24
"""How many even steps an axis has at most, and how far apart others are at least, so that no label is dropped."""
_TICKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4, 5, 7, 10)


def bars(comparison: Comparison, most: int) -> VegaLite:
    """The rows that `forest` begins with, for screens that are too narrow for it: places in percent of its axis.

    `band` are the ends of the margin's, `one` is the place of the ratio 1.
    """
    rows, (low, high), _ = _forest_rows(comparison)

    def place(ratio: float) -> float:
        return round(100 * min(max(math.log(ratio / low) / math.log(high / low), 0), 1), 2)

    shown = [{**row, **{name: place(row[name]) for name in ("low", "ratio", "high")}} for row in rows[:most]]
    margin = 1 + comparison.margin
    return {"rows": shown, "band": (place(1 / margin), place(margin)), "one": place(1.0)}


def forest(comparison: Comparison) -> Any:
    """The worst rows; NoData where no row has a ratio."""
    rows, (low, high), known = _forest_rows(comparison)
    margin, whole_px = comparison.margin, _WIDTH_PX + _CHANGE_PX
    lines = {row["place"]: textwrap.wrap(row["name"], _LINE_CHARACTERS, max_lines=_MOST_LINES) for row in rows}
    names = {"labelExpr": f"({json.dumps(lines)})[datum.value]", "labelLimit": 0, "labelLineHeight": chart.LINE_PX}
    scale: VegaLite = {"paddingInner": 0, "paddingOuter": 0}
    y = channel("place:N", title=None, axis={**names, "ticks": False, "domain": False}, scale=scale)
    ticks = {"values": _ticks(low, high), "format": "~g", "grid": True, "labelOverlap": "greedy", "labelSeparation": 5}
    scale = {"type": "log", "domain": [_digits(low), _digits(high)], "nice": False}
    x = channel("low:Q", title="B / A, logarithmic", scale=scale, axis=ticks)
    # A stripe behind every second row, the band of the margin, and the line at 1.
    stripes = chart.base([{"place": row["place"]} for row in rows[::2]]).mark("rect", style="frame")
    band = chart.base([{"low": 1 / (1 + margin), "high": 1 + margin}]).mark("rect", style="window")
    line = chart.base([{"ratio": 1}]).mark("rule", style="reference", strokeWidth=1.5)
    layers = [stripes.encode(x={"value": 0}, x2={"value": whole_px + _GAP_PX}, y=y)]
    layers += [band.encode(x="low:Q", x2="high:Q"), line.encode(x="ratio:Q")]
    present = {row["verdict"] for row in rows}
    legend = {"values": [verdict.value for verdict in Verdict if verdict.value in present]}
    looks = chart.looks("verdict", _VERDICT_SHAPES, legend, color=None, shape=list(_VERDICT_SHAPES.values()))
    words = chart.base(rows).encode(y=y)
    base = words.encode(color=looks["color"])
    layers.append(base.mark("rule", strokeWidth=2, opacity=0.85).encode(x=x, x2="high:Q"))
    for side, end, shape in ((0, "low", "triangle-left"), (1, "high", "triangle-right")):
        if beyond := [row for row in rows if row["cut"][side]]:
            arrow = chart.base(beyond).mark("point", filled=True, shape=shape, size=40, opacity=1)
            layers.append(arrow.encode(x=f"{end}:Q", color=looks["color"], y=y))
    tooltip = chart.tips({f"{name}:N": "" for name in ("condition", "metric", "change", "verdict", "repetitions")})
    point = base.mark("point", filled=True, size=85, opacity=1)
    layers.append(point.encode(x="ratio:Q", shape=looks["shape"], tooltip=tooltip))
    words = words.mark("text", style="value", align="left", limit=_CHANGE_PX)
    layers.append(words.encode(text="change:N", x={"value": _WIDTH_PX + _GAP_PX}))
    notes = [
        sentence("comparison.chart_intervals", level=phrases.level(comparison.confidence)),
        sentence("comparison.chart_shaded", margin=phrases.percent(margin)),
        f"{len(rows)} of {len(known)} rows" if len(rows) < len(known) else "",
        sentence("comparison.chart_shared_row") if len(comparison.rows) > len(comparison.results) else "",
    ]
    left_px = int(chart.CHARACTER_PX * max(len(text) for own in lines.values() for text in own))
    described = "; ".join(
        f"{group[0].study}, {group[0].label}, {row['metric']}: {row['change']}, {row['verdict']}"
        for group, row in zip(known, rows, strict=False)
    )
    return layer(
        *layers,
        width=_WIDTH_PX,
        height=max(_ROW_PX, chart.LINE_PX * max(map(len, lines.values())) + 4) * len(rows),
        title={
            "text": sentence("comparison.chart_ratio"),
            "frame": "bounds",
            "subtitle": chart.broken(" · ".join(filter(None, notes)), left_px + whole_px),
        },
        description=f"{comparison_text.headline(comparison)} {described}.",
    )


def _forest_rows(comparison: Comparison) -> tuple[list[VegaLite], tuple[float, float], Sequence[Sequence[Row]]]:
    """The rows of the picture, the ends of its axis, and all results with a ratio; NoData without one."""
    known = [group for group in comparison.results if isinstance(group[0].ratio, Ratio)]
    if not known:
        raise NoData("no condition has a ratio: each needs two repetitions or more in both runs, and means above 0")
    shown = list(zip(comparison_text.lines(comparison, known[:MOST_ROWS]), known, strict=False))
    # The ends of the ratio axis: all ratios, and of their intervals what does not squeeze them.
    margin = 1 + comparison.margin
    ratios = [line.row.ratio.ratio for line, _ in shown if isinstance(line.row.ratio, Ratio)]
    intervals = [line.row.interval for line, _ in shown if line.row.interval]
    low = min(max(min(ends.low for ends in intervals), min(*ratios, 1.0) / _BEYOND), 1 / margin)
    high = max(min(max(ends.high for ends in intervals), max(*ratios, 1.0) * _BEYOND), margin)
    low, high = low / (high / low) ** _ROOM, high * (high / low) ** _ROOM
    rows = []
    for place, ((line, group), ratio, ends) in enumerate(zip(shown, ratios, intervals, strict=True)):
        row, metric = line.row, comparison_text.responses(group)
        rows.append(
            {
                "place": f"{place:04}",
                "condition": line.condition,
                "metric": metric,
                "name": f"{line.condition}, {metric}",
                "verdict": row.verdict.value,
                "change": line.change,
                "low": _digits(max(ends.low, low)),
                "high": _digits(min(ends.high, high)),
                "ratio": _digits(ratio),
                "repetitions": f"{row.n_a} and {row.n_b}",
                "cut": [ends.low < low, ends.high > high],
            }
        )
    return rows, (low, high), known


def _digits(number: float) -> float:
    return float(f"{number:.5g}")


def _ticks(low: float, high: float) -> list[float]:
    """Round ratios, 1 among them: even steps where the axis is short, then wider ones, then decades."""
    for step in _STEPS:
        first, last = int(low / step) + 1, int(high / step)
        if last - first < _MOST_TICKS:
            return [round(step * number, 10) for number in range(first, last + 1)]
    if not _TICKS[0] <= low < high <= _TICKS[-1]:
        return axes.log_ticks(low, high)
    least = _TICK_PX * math.log(high / low) / _WIDTH_PX
    ticks = [1.0]
    for tick in sorted(_TICKS, key=lambda tick: abs(math.log(tick))):
        if low <= tick <= high and all(abs(math.log(tick / other)) >= least for other in ticks):
            ticks.append(tick)
    return sorted(ticks)


MOST_PANELS = 12
_COLUMNS, _PANEL_PX, _HEIGHT_PX = 3, 230, 150
_LEAST_HEAD_PX = 340
_SPAN_OF_LOG = 10.0
"""Ratio of largest to smallest value of a panel from which on all are logarithmic."""
_RUNS = chart.LevelMarks(
    "run",
    ("B", "1", "2", "3", "4", "5", "6", "A"),
    ("A", "B"),
    legend={"labelExpr": "datum.label == 'A' ? 'A, the baseline' : 'B'"},
)
"""The runs at the places of their colours in the theme's categories: blue, and grey for the baseline."""
_POINTS = 60
_NINES = {0.0: "0", 0.30103: "50", 1.0: "90", 2.0: "99", 3.0: "99.9", 4.0: "99.99"}
"""Number of nines -> the percentage: one is 90 %, three are 99.9 %."""


@dataclass(frozen=True)
class Pair:
    """One study in both runs: the records, and the study as each run has it."""

    a: Dataset
    study_a: Study
    b: Dataset
    study_b: Study

    def cells(self, response: str) -> dict[str, dict[Key, Cell]]:
        """Run -> condition -> its cell, of conditions that both runs have; the order is that of B."""
        a, b = by_key(self.a, self.study_a, response), by_key(self.b, self.study_b, response)
        return {"A": {key: a[key] for key in b if key in a}, "B": {key: b[key] for key in b if key in a}}

    def distributions(self) -> dict[tuple[str, str], dict[str, Histogram]]:
        """(condition, direction) -> run -> its latencies, of conditions that both runs have them of."""
        known: dict[tuple[str, str], dict[str, Histogram]] = {}
        for direction in DIRECTIONS:
            a, b = _latencies(self.a, self.study_a, direction), _latencies(self.b, self.study_b, direction)
            known |= {(name, direction): {"A": a[key][1], "B": of_b} for key, (name, of_b) in b.items() if key in a}
        return known


def _latencies(records: Dataset, study: Study, direction: str) -> dict[Key, tuple[str, Histogram]]:
    """Condition -> its name and total latencies, all its trials merged, in the order of the study."""
    known, design = trial_histograms(records, study, direction, "lat"), study.design
    found: dict[Key, tuple[str, list[Histogram]]] = {}
    for row in sorted(that_count(records, study).filter(status=OK).iter_rows(named=True), key=design.place):
        if row["trial"] in known:
            point = design.point(row)
            found.setdefault(point_key(point), (label(point), []))[1].append(known[row["trial"]])
    return {key: (name, merge_histograms(parts)) for key, (name, parts) in found.items()}


def overlay(pair: Pair, response: str, labels: Sequence[str]) -> tuple[str, Any]:
    """What is drawn of a response, 'curves' or 'distributions', and the chart; NoData without one.

    Curves over a factor of three numbers or more; else distributions, or the means where no histograms were kept.
    """
    with suppress(NoData):
        points = [cell.point for cell in pair.cells(response)["B"].values()]
        factor, _ = selection.swept(pair.study_b, points)
        levels = pair.study_b.design.in_order(factor, [point[factor] for point in points])
        if len(levels) > 2 and level_axis_numbers(factor, levels) is not None:
            return "curves", curves(pair, response, labels)
    with suppress(NoData):
        return "distributions", distributions(pair, labels)
    return "curves", curves(pair, response, labels)


def curves(pair: Pair, response: str, labels: Sequence[str]) -> Any:
    """The response over its longest factor; of many panels those with the conditions of `labels`, worst first.

    Means of levels that are words are not joined. NoData where there is one condition only.
    """
    found = pair.cells(response)
    points = {key: cell.point for key, cell in found["B"].items()}
    factor, _ = selection.swept(pair.study_b, [*points.values()])
    # A panel for each combination of the levels of all other factors that vary, in words.
    seen = {name: {level_key(name, point[name]) for point in points.values()} for name in pair.study_b.levels}
    varied = [name for name, levels in seen.items() if name != factor and len(levels) > 1]
    parts: dict[str, list[Key]] = {}
    for key, point in points.items():
        parts.setdefault(label({name: point[name] for name in varied}) if varied else "", []).append(key)
    chosen = _chosen({name: [label(points[key]) for key in keys] for name, keys in parts.items()}, labels)
    members = {name: {run: [of[key] for key in parts[name]] for run, of in found.items()} for name in chosen}
    # What repetitions measured, and the value of all together: a percentile of merged histograms is another.
    spans = {
        name: [float(value) for run in of.values() for one in run for value in (*one.measured, one.values.mean())]
        for name, of in members.items()
    }
    unit = axes.unit_for(response, [value for span in spans.values() for value in span])
    is_log = min(map(min, spans.values())) > 0 and any(max(span) > _SPAN_OF_LOG * min(span) for span in spans.values())
    layers = {
        name: _curves(pair.study_b, of, factor, axes.metric_axis(response, spans[name], is_log, unit))
        for name, of in members.items()
    }
    title = f"{unit.titled(phrases.capital(phrases.brief(response)))} over {axis_title(factor).lower()}"
    confidence = f"{100 * pair.study_b.analysis.confidence:g} %"
    notes = [sentence("comparison.chart_values", confidence=confidence), "logarithmic axes" if is_log else ""]
    return _arranged(layers, title, notes, pair, len(parts))


def distributions(pair: Pair, labels: Sequence[str]) -> Any:
    """Latencies of each condition on an axis of nines, all repetitions of a run merged; NoData without histograms."""
    if not (known := pair.distributions()):
        raise NoData(f"the study '{pair.study_b.name}' has kept no latency histograms in both runs")
    conditions = [condition for condition, _ in known]
    named = {f"{place[0]}, {place[1]}" if conditions.count(place[0]) > 1 else place[0]: place for place in known}
    chosen = _chosen({name: [condition] for name, (condition, _) in named.items()}, labels)
    layers = {name: [_distributions(known[named[name]])] for name in chosen}
    notes = [sentence("comparison.chart_latency"), sentence("comparison.chart_better")]
    return _arranged(layers, sentence("comparison.chart_share"), notes, pair, len(named))


def _chosen(conditions: Mapping[str, Sequence[str]], labels: Sequence[str]) -> list[str]:
    """The panels to show, in their order: of too many those whose conditions come first in `labels`."""
    place = {one: number for number, one in reversed(list(enumerate(labels)))}
    ranked = sorted(conditions, key=lambda name: min(place.get(one, len(labels)) for one in conditions[name]))
    kept = set(ranked[:MOST_PANELS])
    return [name for name in conditions if name in kept]


def _arranged(layers: Mapping[str, Sequence[Any]], title: str, notes: Sequence[str], pair: Pair, every: int) -> Any:
    """The panels, of `every` that there are, in rows as even as they can be: four are two and two.

    The name of a panel is a mark: titles stand at different heights where axis labels do.
    """
    look = {"align": "left", "fontSize": 13, "fontWeight": "bold", "lineHeight": chart.LINE_PX}
    charts = []
    for name, drawn in layers.items():
        lines = chart.broken(name, _PANEL_PX, chart.CHARACTER_PX)
        text = chart.base([{"text": lines}]).mark("text", style="value", **look)
        head = text.encode(text="text:N", x={"value": 0}, y={"value": -12 - chart.LINE_PX * (len(lines) - 1)})
        charts.append(chart.panel([*drawn, *([head] if name else [])], _PANEL_PX, _HEIGHT_PX))
    columns = math.ceil(len(charts) / math.ceil(len(charts) / _COLUMNS))
    omitted = sentence("comparison.chart_worst", shown=len(charts), every=every) if every > len(charts) else ""
    spec = FigureSpec(kind="overlay", name="overlay", width=max(columns * (_PANEL_PX + 55), _LEAST_HEAD_PX))
    details = f"Both runs of {pair.study_b.title or pair.study_b.name}"
    whole = concat(*charts, columns=columns, spacing=18)
    return chart.figure(whole, spec, None, title, [*notes, omitted], details=details)


def _curves(study: Study, found: Mapping[str, Sequence[Cell]], factor: str, metric_axis: axes.MetricAxis) -> list[Any]:
    levels = study.design.in_order(factor, [cell.point[factor] for cell in found["B"]])
    spelled = {level_key(factor, level): level for level in levels}
    axis = axes.level_axis(factor, levels, axes.geometric(factor, levels))
    conditions = [
        metric_view.Condition(spelled[level_key(factor, cell.point[factor])], run, cell)
        for run, of in found.items()
        for cell in of
    ]
    confidence, unit = study.analysis.confidence, metric_axis.unit
    points = metric_view.point_rows(conditions, metric_axis.name, axis, unit, "run", "ci", confidence)
    metric_axis, points = metric_axis.holding(points)
    x, y = axis.encoding(_PANEL_PX), metric_axis.encoding() | {"title": None}
    view = metric_view.View(conditions, axis, metric_axis, points, _RUNS, x, y, _PANEL_PX, "ci", confidence)
    joined: VegaLite = {} if axis.numbers is None else {"style": "joined", "strokeWidth": 1.6}
    return view.means({}, 38, 5, **joined)


def _distributions(found: Mapping[str, Histogram]) -> Any:
    """Both distributions; the axis ends where the run with fewer requests has a last nine."""
    most = min(max(_NINES), *(math.log10(max(one.count, 10)) for one in found.values()))
    places = [most * step / (_POINTS - 1) for step in range(_POINTS)]
    shares = [1 - 10**-place for place in places]
    rows: list[VegaLite] = [
        {"group": run, "x": float(f"{max(at, 1.0):.5g}"), "y": round(place, 4)}
        | {"share": f"{100 * share:.5g}", "time": format_ns(at)}
        for run, one in found.items()
        for place, share, at in zip(places, shares, one.quantiles(shares), strict=True)
    ]
    x = axes.latency_axis("x", "", min(row["x"] for row in rows), max(row["x"] for row in rows)) | {"title": None}
    nines = {place: text for place, text in _NINES.items() if place <= most}
    axis = {"values": list(nines), "labelExpr": axes.labels_at(nines)}
    y = channel("y:Q", title="% of requests", scale={"domain": [0, most], "nice": False}, axis=axis)
    color = _RUNS.color(symbolType=chart.DASH, symbolSize=120, labelOffset=9)
    dash = _RUNS.dash([*[[1, 0]] * (len(_RUNS.every) - 1), [5, 3]])
    tooltip = chart.tips({"group:N": "run", "share:N": "% at most", "time:N": "latency"})
    line = chart.base(rows).mark("line", strokeWidth=1.8)
    return line.encode(x=x, y=y, tooltip=tooltip, strokeDash=dash, **color)
