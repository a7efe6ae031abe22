"""A metric as the colour of cells over two factors: one panel, or one for each level of one or two further factors.

Sizes lie on logarithmic axes to base 2, so that a cell is as wide as its step. All panels share one colour scale and
one grid: a cell that was not measured stays empty with a dashed edge, one whose trials failed has a cross.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from ioassay.factors import axis_title, factor_label, is_size, level_axis_numbers, level_label, same_level
from ioassay.metrics import format_metric
from ioassay.records.record import FAILED, OK, Scalar
from ioassay.report.figures import chart, condition_rows, scales, selection, statistics
from ioassay.report.figures.chart import alt, pl
from ioassay.report.figures.spec import FigureSpec, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_DARK_UNTIL = 0.38
"""Up to this share of the colour scale white is read better on a cell than black (contrast by WCAG 2.1)."""
_CROSS = "M-.6,-.6L.6,.6M-.6,.6L.6,-.6"
_CHARACTER_PX = 7.2
_LINE_PX = 15
_LABEL_PX = 68
"""Room that a horizontal label of a size takes."""
_MOST_TICKS = 8


class Spec(FigureSpec):
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


class _Bands:
    """Levels side by side in one direction, `name` is 'x' or 'y': sizes ascend on a log2 axis, others are categories.

    The edge between two sizes is their geometric middle; the ends are as far out as the next edge is in.
    """

    def __init__(self, name: str, factor: str, levels: Sequence[Scalar], length_px: int) -> None:
        self.name, self.factor, self.levels = name, factor, levels
        numbers = level_axis_numbers(factor, levels) if is_size(factor) else None
        kind, title = (alt.X if name == "x" else alt.Y), axis_title(factor)
        if numbers is None or min(numbers) <= 0:
            self.edges: list[float] = []
            labels = [level_label(factor, level) for level in levels]
            long = max(map(len, labels)) * _CHARACTER_PX > length_px / len(labels)
            axis = alt.Axis(grid=False, domain=False, ticks=False, labelAngle=-40 if name == "x" and long else 0)
            self.middle: VegaLite = {name: kind(f"{name}:N", title=title, sort=labels, axis=axis)}
            self.ends = self.middle
            return
        ranked = sorted(zip(numbers, levels, strict=True), key=lambda pair: pair[0])
        self.levels, numbers = [level for _, level in ranked], [number for number, _ in ranked]
        inner = [math.sqrt(one * other) for one, other in itertools.pairwise(numbers)]
        outer = (inner[0], inner[-1]) if inner else (numbers[0] * math.sqrt(2), numbers[0] / math.sqrt(2))
        self.edges = [numbers[0] ** 2 / outer[0], *inner, numbers[-1] ** 2 / outer[1]]
        shown = scales.level_labels(factor, self.levels, numbers)
        slanted = {"labelAngle": -40} if name == "x" and length_px / len(numbers) < _LABEL_PX else {}
        look = {"grid": False, "domain": False, "labelOverlap": False, **slanted}
        axis = alt.Axis(values=list(shown), labelExpr=scales.labels_at(shown), **look)
        scale = alt.Scale(type="log", base=2, domain=[self.edges[0], self.edges[-1]], nice=False)
        self.ends = {name: kind(f"{name}:Q", title=title, axis=axis, scale=scale), f"{name}2": f"{name}2:Q"}
        self.middle = {name: kind(f"{name}_middle:Q", title=title, axis=axis, scale=scale)}

    def place(self, level: Scalar) -> VegaLite:
        """The fields of a level: `<name>` and `<name>2` its edges, `<name>_middle`, `<name>_share` of the axis."""
        name = self.name
        if not self.edges:
            return {name: level_label(self.factor, level), f"{name}_share": 1 / len(self.levels)}
        low, high = self.edges[(at := self.levels.index(level)) : at + 2]
        share = math.log2(high / low) / math.log2(self.edges[-1] / self.edges[0])
        return {name: low, f"{name}2": high, f"{name}_middle": math.sqrt(low * high), f"{name}_share": share}


@dataclass(frozen=True)
class _Panel:
    """One grid of cells, with its place by the levels of the two panel factors."""

    title: str
    column: Scalar | None
    cells: Sequence[VegaLite]
    failed: Sequence[VegaLite]
    empty: Sequence[VegaLite]


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Panels beside and below each other, with one legend; NoData where there is no cell."""
    split = [name for name in (spec.x, spec.y, spec.panel, spec.row) if name is not None]
    cells = selection.measured(records, study, spec.where, spec.value, *split)
    lost = _failed(records, study, spec)
    points = [*(cell.point for cell in cells), *lost]
    levels = {name: study.design.in_order(name, [point[name] for point in points]) for name in split}
    x = _Bands("x", spec.x, levels[spec.x], spec.width)
    y = _Bands("y", spec.y, levels[spec.y], spec.height)
    unit = scales.unit_for(spec.value, [float(value) for cell in cells for value in cell.measured])
    found = condition_rows.of(cells, study, spec.value, spec.x, spec.y)
    panels = []
    for row, column in itertools.product(levels.get(spec.row or "", [None]), levels.get(spec.panel or "", [None])):
        place = {name: level for name, level in ((spec.panel, column), (spec.row, row)) if name is not None}
        own = [cell for cell in cells if place.items() <= cell.point.items()]
        missing = [point for point in lost if place.items() <= point.items()]
        if own or missing:
            shown = condition_rows.of(own, study, spec.value, spec.x, spec.y)
            title = ", ".join(level_label(name, level) for name, level in place.items())
            panels.append(_Panel(title, column, *_cells(shown, missing, spec, (x, y), unit)))
    every = [cell for panel in panels for cell in panel.cells]
    centre = condition_rows.centre(found)
    colours = _Colours.over([cell["value"] for cell in every], spec.log)
    label = unit.titled(selection.metric_label(spec.value))
    drawn = [_chart(panel, (x, y), spec, colours, label, centre) for panel in panels]
    notes = [
        f"{centre} of repetitions" if max(cell["n"] for cell in every) > 1 else "one repetition",
        selection.repetitions_text([cell["n"] for cell in every]),
        "logarithmic colours" if colours.log else "",
        "linear colours: a value is zero or less" if spec.log and not colours.log else "",
        "dashed: not run" if any(panel.empty for panel in panels) else "",
        "× failed" if any(panel.failed for panel in panels) else "",
        selection.pooled([cell.point for cell in cells], *split),
    ]
    told = [
        {**cell, "group": f"{cell['group']}, {panel.title}" if panel.title else cell["group"]}
        for panel in panels
        for cell in [*panel.cells, *panel.failed]
    ]
    columns = spec.columns if spec.row is None else len({panel.column for panel in panels})
    title = f"{selection.metric_label(spec.value)} over {factor_label(spec.x)} and {factor_label(spec.y)}"
    width = min(columns, len(panels)) * (spec.width + 60)
    return chart.figure(chart.grid(drawn, columns, 18), spec, study, title, notes, told, width)


def _failed(records: Dataset, study: Study, spec: Spec) -> list[dict[str, Scalar]]:
    """Points of which no trial went well, in the order of the study."""
    trials = records.trials_of(study)
    for factor, level in spec.where.items():
        trials = trials.filter([same_level(factor, level, other) for other in trials[factor].to_list()])
    good = selection.points_of(study, trials.filter(pl.col("status") == OK))
    bad = selection.points_of(study, trials.filter(pl.col("status") == FAILED))
    failed = [point for point in bad if point not in good and {spec.x, spec.y} <= point.keys()]
    return sorted(failed, key=study.design.place)


def _cells(
    found: Sequence[condition_rows.Condition],
    lost: Sequence[Mapping[str, Scalar]],
    spec: Spec,
    bands: tuple[_Bands, _Bands],
    unit: scales.Unit,
) -> tuple[list[VegaLite], list[VegaLite], list[VegaLite]]:
    """The cells of one panel that were measured, those whose trials all failed, and those that were not run."""
    across, down = bands
    places = {
        (x, y): {
            "level": level_label(spec.x, x),
            "group": level_label(spec.y, y),
            **across.place(x),
            **down.place(y),
        }
        for x in across.levels
        for y in down.levels
    }
    cells = []
    for one in found:
        assert one.group is not None
        summary = statistics.summarise(spec.value, one.cell)
        value = unit.scale(summary.mean)
        mean, median = (format_metric(spec.value, number) for number in (summary.mean, summary.median))
        texts = {"mean_text": mean, "median_text": median, "text": _short(value)}
        cells.append({**places.pop((one.level, one.group)), "n": summary.n, "value": value, **texts})
    dead = [places.pop(at) for at in dict.fromkeys((point[spec.x], point[spec.y]) for point in lost) if at in places]
    return cells, [{**place, "mean_text": "failed", "n": 0} for place in dead], list(places.values())


def _short(number: float) -> str:
    """Three digits, two below 1, or all before the point: `0.041`, `9.00`, `41.2`, `4120`."""
    if abs(number) < 1:
        return f"{number:#.2g}" if number else "0"
    return f"{number:#.3g}".rstrip(".") if abs(number) < 999.5 else f"{number:.0f}"


@dataclass(frozen=True)
class _Colours:
    """One scale for all panels; the theme's palette, which is even to the eye and to the colour-blind."""

    low: float
    high: float
    log: bool

    @classmethod
    def over(cls, values: Sequence[float], log: bool) -> _Colours:
        """From the lowest to the highest; logarithmic where that is asked for and all are positive."""
        return cls(min(values), max(values), log and min(values) > 0)

    def is_dark(self, value: float) -> bool:
        """Whether white is read better than black on the colour of a value."""
        low, high = self.low, self.high
        if high <= low:
            return False
        share = math.log(value / low) / math.log(high / low) if self.log else (value - low) / (high - low)
        return share <= _DARK_UNTIL

    def channel(self, title: str) -> Any:
        """The colour over the field `value`."""
        low, high = self.low, self.high
        if self.log and high > low:
            ticks = scales.log_ticks(low, high)
            decades = [tick for tick in ticks if math.log10(tick).is_integer()]
            apart = ticks if len(ticks) <= _MOST_TICKS or len(decades) < 2 else decades
            return chart.heat("value", title, "log", [low, high], values=apart, format="~g")
        domain = [low, high] if high > low else [min(low, 0.0), max(high, 0.0) or 1.0]
        return chart.heat("value", title, "linear", domain, tickCount=5, format="~r")


def _chart(panel: _Panel, bands: tuple[_Bands, _Bands], spec: Spec, colours: _Colours, label: str, centre: str) -> Any:
    ends, middle = ({**getattr(bands[0], part), **getattr(bands[1], part)} for part in ("ends", "middle"))
    place = {"level:N": factor_label(spec.x), "group:N": factor_label(spec.y)}
    value = {"mean_text:N": centre}
    whole = chart.tips({**place, **value, "median_text:N": "median", "n:Q": "repetitions"})
    drawn = []
    if panel.empty:
        edge = chart.base(panel.empty).mark_rect(style="empty", filled=False, strokeDash=[3, 3])
        drawn.append(edge.encode(**ends, tooltip=chart.tips(place)))
    if panel.cells:
        fill = chart.base(panel.cells).mark_rect(style="cell")
        drawn.append(fill.encode(**ends, color=colours.channel(label), tooltip=whole))
    if panel.failed:
        base = chart.base(panel.failed)
        cross = base.mark_point(style="failed", shape=_CROSS, size=220, strokeWidth=2)
        cross = cross.encode(**middle, tooltip=chart.tips({**place, **value}))
        drawn += [base.mark_rect(style="empty", filled=False).encode(**ends), cross]
    fitting = [
        cell
        for cell in panel.cells
        if len(cell["text"]) * _CHARACTER_PX + 4 <= cell["x_share"] * spec.width
        and cell["y_share"] * spec.height >= _LINE_PX
    ]
    for style, dark in (("on-dark", True), ("on-bright", False)) if spec.numbers else ():
        if own := [cell for cell in fitting if colours.is_dark(cell["value"]) == dark]:
            text = chart.base(own).mark_text(style=style, align="center", baseline="middle")
            drawn.append(text.encode(**middle, text="text:N"))
    return chart.panel(drawn, spec.width, spec.height, panel.title)
