"""A metric along a factor of numbers, or along the order of trials: kinds `trend`, `scaling`, `lines` and `order`.

The kind `multiples` has one small panel a study, each over what it sweeps, with its own axes and units: the response,
the best level and those that are as good. A study of which nothing went well keeps its panel, which says why.

Numbers of scaling are those of the question `peak` (`analysis/optimum.py`); where it tells no law, none is
drawn. Of lines in panels, conditions that saturated have no steady value; they are crosses at the upper edge and no
points of a line. Lines that lie over each other stay apart: each level has a shape of its own, drawn hollow, the first
largest, and lines take turns in their dashes. Where levels of x are words, marks stand side by side, without lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ioassay import factors, metrics, units
from ioassay.factors import (
    factor_label,
    is_percent,
    is_size,
    level_label,
    level_number,
    level_phrase,
    level_text,
    same_level,
    step_label,
)
from ioassay.metrics import format_metric, metric
from ioassay.narrative.say import sentence
from ioassay.records.record import Scalar
from ioassay.report.figures import Kind, axes, chart, metric_view, selection
from ioassay.report.figures.chart import channel, concat, layer, pl
from ioassay.report.figures.metric_view import REPETITION, MetricSpec, View
from ioassay.report.figures.spec import ErrorBar, FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.optimum import Peak
    from ioassay.stats.linear_models import Line
    from ioassay.stats.scalability import Law

MEDIAN = "median"
FIT = "regression"
_FIT_STEPS = 40
"""Segments of a regression line: enough for a smooth curve where one of the axes is logarithmic."""


class TrendSpec(MetricSpec):
    x: str
    log_x: bool = False
    error: ErrorBar = "ci"
    regression: bool | None = None
    repetitions: bool = True


def draw_trend(records: Dataset, study: Study, spec: TrendSpec) -> Any:
    """The mean against a factor with error bars, medians, every repetition, and a regression line."""
    view, pooled = metric_view.over_levels(records, study, spec, spec.error, spec.log_x)
    # As asked for; otherwise of one line only, and not where a straight line would be a curve.
    wanted = spec.color is None and not view.metric_axis.log if spec.regression is None else spec.regression
    slope, fitted = "", list[VegaLite]()
    if wanted and view.axis.numbers is not None and selection.is_conclusive(records, study):
        slope, fitted = _fitted(view)
    single = view.single() if spec.repetitions else []
    shapes = {view.mean_name: "circle", MEDIAN: chart.DIAMOND}
    shapes |= {REPETITION: chart.BAR} if single else {}
    # A line between words would suggest an order; between colours it shows the interaction.
    joined: VegaLite = {"style": "mean", "strokeWidth": 1.6} if view.axis.numbers is not None or spec.color else {}
    drawn = [*view.repetitions(single, shapes), *view.curve(FIT, fitted, "fit", [6, 4]), *view.means(shapes, **joined)]
    if spec.color is None:
        median = view.symbols(view.points, MEDIAN, shapes).mark("point", style="median", filled=True, size=95)
        drawn.append(median.encode(y=chart.on(view.y, "median"), tooltip=view.tooltip))
    notes = [
        # Where the legend has the colours, and where error bars are not what they usually are.
        view.mean_name if spec.color or spec.error == "sd" else "",
        "dash: one repetition" if spec.color and single else "",
        view.counted,
        slope,
        view.axis.note,
        view.metric_axis.note,
        pooled,
    ]
    title = f"{selection.metric_label(spec.y)} against {factor_label(spec.x)}"
    return chart.layered(drawn, spec, study, title, notes, points=view.points)


def _fitted(view: View) -> tuple[str, list[VegaLite]]:
    """The line of each colour group that has one, over all repetitions and linear in x or log2 x, as points.

    The line of a figure without colours also in words: `regression: +12.1 MB/s per doubling, R² = 0.98`.
    """
    axis, color, rows, text = view.axis, view.marks.factor, list[VegaLite](), ""
    along = math.log2 if axis.log else float
    for group in dict.fromkeys(one.group for one in view.conditions):
        own = [one for one in view.conditions if one.group == group]
        x = [along(float(axis.position(one.level))) for one in own for _ in one.measured]
        line = fit_line(x, metric_view.measured_values(own), view.confidence)
        if line is None:
            continue
        named = {} if color is None or group is None else {"group": level_label(color, group)}

        def height(at: float, line: Line = line) -> float:
            return line.at(along(at))

        rows += [{**row, **named} for row in view.along(height, axis.places(_FIT_STEPS))]
        if color is None and line.slope:
            step, per = 1.0, "percentage point" if is_percent(axis.factor) else step_label(axis.factor)
            if axis.log:
                per = "doubling"
            elif is_size(axis.factor):
                step, per = 1024.0, "KiB"
            slope = metric(view.metric_axis.name).format(abs(line.slope) * step)
            curved = sentence("figures.straight_on_linear") if view.metric_axis.log else ""
            text = f"regression {'−' if line.slope < 0 else '+'}{slope} per {per}, R² = {line.r2:.3f}{curved}"
    return text, rows


def fit_line(x: Sequence[float], y: Sequence[float], confidence: float) -> Line | None:
    """Least squares over all points; None where a line cannot be fitted."""
    import numpy as np

    from ioassay.stats import linear_models

    line = linear_models.fit_line(np.asarray(x, dtype=float), np.asarray(y, dtype=float), confidence)
    return line if isinstance(line, linear_models.Line) else None


IDEAL = "perfect scaling"
BEST = "best level"
LAWS = {"usl": "universal scalability law", "amdahl": "Amdahl's law"}
_LAW_STEPS = 80
_HEADROOM = 1.08
"""The line of perfect scaling ends this much above the highest value."""


class ScalingSpec(FigureSpec):
    x: str
    y: str
    log_x: bool = False
    log_y: bool | None = None
    error: ErrorBar = "ci"
    ideal: bool = True
    law: bool = True
    plateau: bool = True
    repetitions: bool = True
    threads: bool = True


def draw_scaling(records: Dataset, study: Study, spec: ScalingSpec) -> Any:
    """The layered chart; of an unfit machine without best level, plateau and law."""
    from ioassay.stats.result import mean_of

    found = _measured(records, study, spec)
    # The levels in ascending order, as the analysis has them.
    shown = metric_view.conditions(found.cells, study, spec.y, spec.x)
    shown.sort(key=lambda one: level_number(spec.x, one.level) or 0.0)
    levels = metric_view.levels_of(shown)
    # Perfect scaling is a straight line where both axes are linear or both logarithmic.
    log_y = axes.metric_axis(spec.y, metric_view.measured_values(shown), spec.log_y).log
    axis = axes.level_axis(spec.x, levels, spec.log_x or (log_y and axes.geometric(spec.x, levels)))
    view = metric_view.of(records, study, shown, spec.y, axis, spec.width, None, spec.error, spec.log_y)
    conclusive = selection.is_conclusive(records, study)
    numbers, ends, marked = found.numbers or (), found.plateau, conclusive and not found.indistinct
    law = found.law if spec.law and conclusive else None
    # The law of the levels up to the plateau, where all together follow none.
    growth = found.growth if spec.law and conclusive and ends and not law else None
    single = view.single() if spec.repetitions else []
    shapes = {view.mean_name: "circle", **({REPETITION: chart.BAR} if single else {})}
    shapes |= {BEST: chart.RING} if marked else {}
    banded = bool(spec.plateau and marked and ends and ends.first != ends.last)
    layers = [view.band(numbers[ends.first], numbers[ends.last])] if banded and ends else []
    if spec.threads:
        layers += view.hardware_threads(records.machine(study))
    if spec.ideal and found.scaling is not None:
        # It soon leaves what is measured.
        first, start = mean_of(found.cells[0].values), numbers[0]
        top = max(metric_view.measured_values(view.conditions)) * _HEADROOM
        places = view.axis.places(_LAW_STEPS, start, min(numbers[-1], top / first * start))
        layers += view.curve(IDEAL, view.along(lambda x: first * x / start, places), "reference", [2, 4])
    if curve := law or growth:
        last = numbers[ends.first] if ends and curve is growth else numbers[-1]
        rows = view.along(curve.at, view.axis.places(_LAW_STEPS, numbers[0], last))
        layers += view.curve(LAWS[curve.kind], rows, "fit", [7, 3])
    layers += _peak(view, law, numbers, spec.height) if law else []
    # A law's curve leads the eye already.
    joined: VegaLite = {} if law else {"style": "joined", "strokeWidth": 1.3}
    layers += [*view.repetitions(single, shapes), *view.means(shapes, **joined)]
    if marked:
        ring = view.symbols([view.points[found.best]], BEST, shapes).mark("point", style="best", filled=True, size=230)
        layers.append(ring.encode(tooltip=view.tooltip))
    title = f"{selection.metric_label(spec.y)} over {factor_label(spec.x)}: scaling"
    said = [sentence("figures.indistinct")] if conclusive else [selection.UNFIT]
    if marked:
        said = _notes(found, law, growth, banded, spec.law)
    deviation = view.mean_name if spec.error == "sd" else ""
    notes = [deviation, view.counted, *said, view.axis.note, view.metric_axis.note]
    whole = chart.layered(layers, spec, study, title, notes, points=view.points)
    # A legend that all lines shared would show them in the colour of one.
    return {**whole, "resolve": {"scale": {"strokeDash": "independent"}}}


def _measured(records: Dataset, study: Study, spec: ScalingSpec) -> Peak:
    """The peak's analysis of what the figure shows; NoData where that is not one row of numbers."""
    from ioassay.analysis import optimum
    from ioassay.analysis.one_factor import families

    selection.measured(records, study, spec.where, spec.y, spec.x)  # says why where there is nothing
    groups = families(records, study, spec.y).get(spec.x, [])
    parts = [family for family in groups if is_of(family.cells[0].point, spec.where, spec.x)]
    if len(parts) > 1:
        free = [name for name in study.levels if name != spec.x and name not in spec.where]
        raise NoData(f"{' and '.join(free)} vary as well; choose one level of each with `where`")
    if not parts:
        raise NoData(f"only one level of {spec.x} has values; scaling needs two")
    found = optimum.measure(records, study, parts[0], workers=True)
    if found.numbers is None:
        raise NoData(f"levels of {spec.x} are words; scaling needs numbers")
    return found


def is_of(point: Mapping[str, Scalar], where: Mapping[str, Scalar], x: str) -> bool:
    """Whether a point matches a restriction, whatever its level of `x`."""
    return all(same_level(name, level, point[name]) for name, level in where.items() if name != x)


def _peak(view: View, law: Law, numbers: Sequence[float], height: int) -> list[Any]:
    """The law's peak with its interval, where it lies within what was measured."""
    if law.peak is None or law.peak_interval is None or not numbers[0] <= law.peak <= numbers[-1]:
        return []
    row = {"x": float(f"{law.peak:.7g}"), "y": view.metric_axis.unit.scale(law.at(law.peak)), "peak": f"{law.peak:.3g}"}
    row |= {"from": max(law.peak_interval.low, numbers[0]), "to": min(law.peak_interval.high, numbers[-1])}
    base, tooltip = (
        chart.base([row]).encode(x=view.x, y=view.y),
        chart.tips({"peak:N": sentence("figures.peak_of_law")}),
    )
    across = base.mark("rule", style="fit", strokeWidth=5, opacity=0.45).encode(x=chart.on(view.x, "from"), x2="to:Q")
    return [across, base.mark("rule", style="fit", strokeWidth=1.2).encode(y2={"value": height}, tooltip=tooltip)]


def _notes(found: Peak, law: Law | None, growth: Law | None, banded: bool, laws: bool) -> list[str]:
    """The band, the law and what it predicts, or where the curve bends, in words."""
    from ioassay.narrative import peak_text
    from ioassay.stats.scalability import Knee

    said = [f"shaded: {metric_view.as_good()}"] if banded else []
    if found.plateau is None and found.no_plateau:
        said.append(f"no plateau: {found.no_plateau}")
    if law is None and isinstance(found.knee, Knee):
        low, high = (peak_text.place(found, end) for end in (found.knee.interval.low, found.knee.interval.high))
        said.append(f"bends near {peak_text.place_text(found, found.knee.x)} ({low} to {high})")
    shown = law or growth
    if shown is None:
        return [*said, sentence("figures.no_law")] if laws else said
    told = sentence("figures.serial_share", share=units.format_percent(shown.alpha))
    if shown.peak is not None and shown.peak_interval is not None:
        told += f", peak at {shown.peak:.3g} ({shown.peak_interval.low:.3g} to {shown.peak_interval.high:.3g})"
    return [*said, f"{'' if law else sentence('figures.up_to_plateau')}{told}, R² = {shown.r2:.3f}"]


class OrderSpec(MetricSpec):
    relative: bool = True


def draw_order(records: Dataset, study: Study, spec: OrderSpec) -> Any:
    """Every trial as a point, and a line fitted to all where they are relative: own values would mean nothing."""
    cells = selection.measured(records, study, spec.where, spec.y, spec.color)
    label = selection.metric_label(spec.y)
    if spec.relative:
        unit, note = axes.Unit(1.0, "%"), sentence("figures.relative")
        # Linear: shares of one mean lie close together.
        scale = {"zero": False, "nice": 6, "padding": 8}
        y = channel("y:Q", title=sentence("figures.relative_axis", metric=label), scale=scale, axis={"tickCount": 6})
    else:
        axis = axes.metric_axis(spec.y, metric_view.measured_values(cells), spec.log_y)
        unit, note, y = axis.unit, axis.note, axis.encoding(zero=False)
    rows: list[VegaLite] = []
    for cell in cells:
        mean = float(cell.measured.mean()) if spec.relative else 100.0
        group = {} if spec.color is None else {"group": level_label(spec.color, cell.point[spec.color])}
        for order, repetition, value in zip(cell.order, cell.repetition, map(float, cell.measured), strict=True):
            if mean:
                row = {"x": int(order), "y": unit.scale(value * (100 / mean)), "condition": cell.label, **group}
                rows.append({**row, "value": format_metric(spec.y, value), "repetition": int(repetition) + 1})
    rows.sort(key=lambda row: row["x"])
    scale = {"zero": False, "nice": False, "padding": 12}
    x = channel("x:Q", title="Run order", scale=scale, axis={"tickMinStep": 1})
    groups = [cell.point[spec.color] for cell in cells] if spec.color else []
    color = chart.level_marks(records, study, spec.color, groups).points()
    tooltip = chart.tips({"condition:N": "", "value:N": "", "repetition:N": ""})
    dots = chart.base(rows).mark("point", style="mark", filled=True, size=30, fillOpacity=0.75)
    drawn = [dots.encode(x=x, y=y, tooltip=tooltip, **color)]
    notes = [f"{len(rows)} trials", note]
    if spec.relative:
        drawn.insert(0, chart.base([{"y": 100}]).mark("rule", style="reference", strokeWidth=1).encode(y=y))
        at = [row["x"] for row in rows]
        if line := fit_line(at, [row["y"] for row in rows], study.analysis.confidence):
            fit = chart.base([{"x": end, "y": unit.scale(line.at(end))} for end in (at[0], at[-1])])
            drawn.append(fit.mark("line", style="fit", strokeWidth=1.8, strokeDash=[6, 4]).encode(x=x, y=y))
            notes.append(sentence("figures.line_over_order", change=f"{line.slope * (at[-1] - at[0]):+.2g}"))
    return chart.layered(drawn, spec, study, f"{label} over run order", notes)


SATURATED = "sim.saturated"
_CROSS = "M-.7,-.7L.7,.7M-.7,.7L.7,-.7"
_DASHES = ([1, 0], [7, 4], [2, 3])
_LARGEST, _SMALLEST = 150.0, 22.0
"""Areas of the marks of the first and the last level, in square pixels; a mark is seen around those drawn over it."""
_ROW_PX = 9
"""Between crosses of several lines at one place."""


class LinesSpec(FigureSpec):
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

    def panel_of(self, point: Mapping[str, Scalar]) -> str:
        """The title of the panel that shows a point."""
        return level_label(self.panel, point[self.panel]) if self.panel else ""


def draw_lines(records: Dataset, study: Study, spec: LinesSpec) -> Any:
    """Panels beside and below each other, each with its own metric axis in one unit."""
    split = [name for name in (spec.x, spec.color, spec.panel) if name is not None]
    trials = selection.select(records, study, spec.where)  # says why where nothing went well
    for name in split:
        selection.require_factor(study, name)
    crossed: list[dict[str, Scalar]] = []  # conditions that saturated and therefore lack the metric
    if SATURATED in trials.columns:
        lacking = trials.filter(pl.col(SATURATED) > 0)
        if spec.y in trials.columns:
            lacking = lacking.filter(pl.col(spec.y).is_null())
        crossed = sorted(selection.points_of(study, lacking), key=study.design.place)
    try:
        cells = selection.measured(records, study, spec.where, spec.y)
    except NoData:
        if not crossed:
            raise
        cells = []
    points = [*(cell.point for cell in cells), *crossed]
    levels = {name: study.design.in_order(name, [point[name] for point in points]) for name in split}
    titles = [level_label(spec.panel, level) for level in levels[spec.panel]] if spec.panel else [""]
    axis = axes.level_axis(spec.x, levels[spec.x], spec.log_x)
    unit = axes.unit_for(spec.y, metric_view.measured_values(cells))
    rows: dict[str, list[VegaLite]] = {}
    for name in titles:
        own = [cell for cell in cells if spec.panel_of(cell.point) == name]
        found = metric_view.conditions(own, study, spec.y, spec.x, spec.color)
        rows[name] = metric_view.point_rows(found, spec.y, axis, unit, spec.color)
    crosses: dict[str, list[VegaLite]] = {name: [] for name in titles}
    for point in crossed:
        place = metric_view.place(point[spec.x], point[spec.color], axis, spec.color)
        crosses[spec.panel_of(point)].append({**place, "mean_text": "saturated"})
    marks = chart.level_marks(records, study, spec.color, levels[spec.color])
    crossing = {row["group"] for part in crosses.values() for row in part}
    heights = {group: 5 + _ROW_PX * at for at, group in enumerate(one for one in marks.shown if one in crossing)}
    joined = axis.numbers is not None
    places = {"x": axis.encoding(spec.width), **marks.color(), **({} if joined else marks.aside())}
    tooltip = chart.point_tooltip(spec.color, "none", metric_view.centre(cells))
    saturated = chart.tips({"level:N": "", "group:N": "", "mean_text:N": ""})
    # One legend for colour, shape and size, since they say the same.
    every = len(marks.every)
    step = (_SMALLEST / _LARGEST) ** (1 / max(every - 1, 1))
    size = marks.looks([round(_LARGEST * step**place, 1) for place in range(every)])
    panels = []
    for name in titles:
        layers = []
        if values := [row["y"] * unit.divisor for row in rows[name]]:
            y = axes.metric_axis(spec.y, values, spec.log_y, unit).encoding(zero=False)
            base = chart.base(rows[name]).encode(y=y, tooltip=tooltip, **places)
            line = base.mark("line", style="mark", strokeWidth=1.5, opacity=0.8).encode(strokeDash=marks.dash(_DASHES))
            hollow = base.mark("point", style="mark", filled=False, strokeWidth=1.5)
            hollow = hollow.encode(shape=marks.looks(chart.SHAPES), size=size)
            layers = [line, hollow] if joined else [hollow]
        for row in crosses[name]:
            cross = chart.base([row]).mark("point", style="mark", shape=_CROSS, size=60, strokeWidth=2)
            layers.append(cross.encode(y={"value": heights[row["group"]]}, tooltip=saturated, **places))
        panels.append(chart.panel(layers, spec.width, spec.height, name))
    counts = [row["n"] for part in rows.values() for row in part]
    absent: list[str] = []  # panels that the study plans and that have nothing to show
    if spec.panel is not None and spec.panel not in spec.where:
        here = factors.LevelIndex({spec.panel: levels[spec.panel]})
        absent = [str(level) for level in study.levels[spec.panel] if not here.lists(spec.panel, level)]
    notes = [
        selection.repetitions_text(counts) if max(counts, default=1) > 1 else sentence("figures.points_once"),
        sentence("figures.axes_not_from_zero"),
        sentence("figures.saturated_at_edge") if crossed else "",
        f"not here: {', '.join(absent)}" if absent else "",
        selection.pooled(points, *split),
    ]
    told = [
        {**row, "group": f"{name}, {row['group']}" if name else row["group"]}
        for part in (rows, crosses)
        for name in titles
        for row in part[name]
    ]
    title = f"{selection.metric_label(spec.y)} against {factor_label(spec.x)}"
    whole, width = chart.grid(panels, spec.columns), spec.columns * (spec.width + 50)
    return chart.figure(whole, spec, study, title, notes, told, width)


_TITLES = {"response": sentence("figures.sweeps_title"), "cpu": sentence("figures.sweeps_cpu_title")}
_GAP_PX = 18
_AXIS_PX = 40
"""What an axis takes beside a panel."""
_REASON_LINES = 6
"""Of a reason in a panel."""
_TICKS = 4
_SMALL_LEGEND: VegaLite = {"symbolSize": 36, "symbolStrokeWidth": 1, "offset": 2}
_SMALL_LEGEND |= {"titlePadding": 5, "columnPadding": 8, "labelOffset": 2}
_HEAD: VegaLite = {"fontSize": 13, "subtitleLineHeight": chart.LINE_PX, "subtitlePadding": 3, "offset": 6}


class MultiplesSpec(FigureSpec):
    """Keys of small multiples. `width` and `height` are those of one panel; `studies` leaves those named."""

    show: Literal["response", "cpu"] = "response"
    y: str | None = None
    studies: tuple[str, ...] = ()
    columns: Annotated[int, Field(ge=1, le=8)] = 3
    width: Annotated[int, Field(ge=100, le=2000)] = 190
    height: Annotated[int, Field(ge=80, le=2000)] = 110


def draw_multiples(records: Dataset, _: Study | None, spec: MultiplesSpec) -> Any:
    """The panels in rows; NoData where none has anything to show."""
    named = {study.name: study for study in records.studies}
    if unknown := [name for name in spec.studies if name not in named]:
        raise NoData(f"the run has no study '{unknown[0]}'; it has {', '.join(named)}")
    chosen = [named[name] for name in spec.studies or named]
    shown: list[Any] = []
    told: list[str] = []
    missing: list[str] = []
    for study in chosen:
        title = study.title or study.name
        try:
            layers, notes = _multiple(records, study, spec)
            text = ", ".join(filter(None, notes))
        except NoData as reason:
            text, notes = str(reason), ["nothing to show"]
            missing.append(text)
            layers = chart.blank(text, spec.width - _AXIS_PX, _REASON_LINES)
        told.append(f"{title}: {text}")
        lines = [line for note in notes if note for line in chart.broken(note, spec.width)]
        head = {"text": chart.broken(title, spec.width, chart.CHARACTER_PX), "subtitle": lines, **_HEAD}
        shown.append(layer(*layers, width=spec.width, height=spec.height, title=head))
    if len(missing) == len(chosen):
        raise NoData("; ".join(dict.fromkeys(missing)))
    whole = concat(*shown, columns=spec.columns, spacing=_GAP_PX)
    legend = [sentence("figures.means_of_cores"), "grey: idle"]
    if spec.show == "response":
        whole["resolve"] = {"scale": {"color": "independent", "shape": "independent"}}
        marked = any(selection.is_conclusive(records, study) for study in chosen)
        legend = [
            # That of the first: studies of one suite seldom ask for different ones.
            sentence("figures.means_with_intervals", percent=f"{100 * chosen[0].analysis.confidence:g}"),
            *(["ring: best level", f"shaded: {metric_view.as_good()}"] if marked else []),
            sentence("figures.hardware_threads"),
            sentence("figures.own_units"),
        ]
    number = "1 study" if len(shown) == 1 else f"{len(shown)} studies"
    notes = [number + (f", {len(missing)} without a curve" if missing else ""), *legend]
    wide = spec.columns * (spec.width + _AXIS_PX + _GAP_PX)
    return chart.figure(whole, spec, None, _TITLES[spec.show], notes, width=wide, details="; ".join(told))


def _multiple(records: Dataset, study: Study, spec: MultiplesSpec) -> tuple[list[Any], list[str]]:
    """The layers of a study, and what is to stand over them; NoData where there is nothing to show."""
    from ioassay.report.figures import monitors

    if spec.show == "response":
        return _response(records, study, spec)
    trials = selection.select(records, study, spec.where)
    points = selection.points_of(study, trials)
    factor, _ = selection.swept(study, points)
    means, counts = monitors.level_means(records, study, trials, factor)
    axis = axes.LevelAxis(factor, study.design.in_order(factor, list(counts)))
    shares = chart.percent(None, values=[0, 50, 100])
    layers = monitors.stacked_bars(means, axis, axis.encoding(spec.width), shares, every=True)
    busy = {level: 100 - means[level].get("idle", 0.0) for level in axis.levels}
    busiest = max(busy, key=lambda level: busy[level])
    told = f"busiest: {busy[busiest]:.0f} % at {level_phrase(factor, busiest)}"
    return layers, [told, selection.pooled(points, factor)]


def _response(records: Dataset, study: Study, spec: MultiplesSpec) -> tuple[list[Any], list[str]]:
    """The same of a metric, by default of the study's first response."""
    from ioassay.analysis import optimum

    selection.select(records, study, spec.where)  # says why where nothing went well
    if not (responses := [spec.y] if spec.y else records.responses(study)):
        raise NoData(f"no trial of the study '{study.name}' has a metric that it asks for")
    name = responses[0]
    cells = selection.measured(records, study, spec.where, name)
    x, color = selection.swept(study, [cell.point for cell in cells])
    found = metric_view.conditions(cells, study, name, x, color)
    levels = metric_view.levels_of(found)
    axis = axes.level_axis(x, levels, axes.geometric(x, levels))
    view = metric_view.of(records, study, found, name, axis, spec.width, color)
    y = view.metric_axis.encoding(ticks=_TICKS) | {"title": None}
    view = replace(view, marks=replace(view.marks, legend=_SMALL_LEGEND), y=y)
    pooled = selection.pooled([cell.point for cell in cells], x, color)
    conclusive = selection.is_conclusive(records, study)
    peaks: list[Peak] = []
    # Of several conditions taken together, none is best, nor where nothing is better.
    if conclusive and not pooled and not (metrics.known(name) and metrics.metric(name).better == "none"):
        every = optimum.measured(records, study, name).get(x, [])
        peaks = [peak for peak in every if is_of(peak.part.cells[0].point, spec.where, x)]
    distinct = [peak for peak in peaks if not peak.indistinct]
    # The band of levels that are as good as the best, in every line where there are several.
    bands = [(one.numbers, one.plateau) for one in distinct if one.plateau and one.numbers]
    layers: list[Any] = []
    if bands and len(bands) == len(peaks):
        low, high = max(at[ends.first] for at, ends in bands), min(at[ends.last] for at, ends in bands)
        layers += [view.band(low, high)] if low < high else []
    layers += view.hardware_threads(records.machine(study), label=False)  # its name is said once for all panels
    joined: VegaLite = {} if view.axis.numbers is None else {"style": "joined", "strokeWidth": 1.2}
    layers += view.means({}, 22, 5, **joined)
    # A ring around the best mean of each line.
    best = []
    for point in (one.cells[one.best].point for one in distinct):
        place = metric_view.place(point[x], point[color] if color else None, view.axis, color)
        best.append((place["x"], place.get("group")))
    rows, aside = chart.side_by_side(view.points)
    if ringed := [row for row in rows if (row["x"], row.get("group")) in best]:
        ring = chart.base(ringed).mark("point", style="best", filled=False, size=110, **aside)
        layers.append(ring.encode(x=view.x, y=view.y, **view.marks.color()))
    unit = view.metric_axis.unit.titled(selection.metric_label(name))
    scale = f"{unit}, logarithmic" if view.metric_axis.log else unit
    return layers, [scale, _best_text(peaks) if conclusive else selection.UNFIT, pooled]


def _best_text(peaks: Sequence[Peak]) -> str:
    """The best level in words, of each combination of other factors where they differ."""
    from ioassay.narrative import peak_text, phrases
    from ioassay.stats.contrasts import BestLevel

    seen = [one for one in peaks if not one.indistinct]
    if not seen:
        return sentence("figures.indistinct") if peaks else ""
    best = {peak_text.level_at(one, one.best) for one in seen}
    if len(seen) < len(peaks) or len(best) > 1:
        named = [(one.part.where(), peak_text.level_at(one, one.best) if one in seen else "none") for one in peaks]
        told = [f"{', '.join(level_text(*level) for level in where.items())}: {text}" for where, text in named]
        return f"best of {'; '.join(told)}" if len(told) < 4 else f"best: {len(best)} different levels"
    text, one = f"best: {best.pop()}", seen[0]
    if len(peaks) > 1:
        return text
    # The levels that are as good: a span of numbers, or why there is none, or a list of words.
    if one.plateau is not None:
        return f"{text}, as good: {peak_text.span(one, one.plateau.first, one.plateau.last)}"
    if one.numbers is not None:
        return f"{text}; {one.no_plateau}"
    others = [place for place in one.levels.as_good if place != one.best] if isinstance(one.levels, BestLevel) else []
    named_levels = phrases.listed([peak_text.level_at(one, place) for place in others])
    return f"{text}, as good: {named_levels}" if others else text


TREND, SCALING = Kind(TrendSpec, draw_trend), Kind(ScalingSpec, draw_scaling)
LINES, ORDER = Kind(LinesSpec, draw_lines), Kind(OrderSpec, draw_order)
MULTIPLES = Kind(MultiplesSpec, draw_multiples)
