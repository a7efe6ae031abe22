"""A metric as the colour of cells over two factors: one panel, or one for each level of one or two further factors.

Sizes lie on logarithmic axes to base 2, so that a cell is as wide as its step. All panels share one colour scale and
one grid: a cell that was not measured stays empty with a dashed edge, one whose trials failed has a cross.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from ioassay.factors import factor_label, level_label, same_level
from ioassay.metrics import format_metric
from ioassay.records.record import FAILED, OK, Scalar
from ioassay.report.figures import chart_marks, condition_rows, heatmap_bands, scales, selection, statistics, titles
from ioassay.report.figures.spec import FigureSpec, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_DARK_UNTIL = 0.38
"""Up to this share of the colour scale white is read better on a cell than black (contrast by WCAG 2.1)."""
_CROSS = "M-.6,-.6L.6,.6M-.6,.6L.6,-.6"
_CHARACTER_PX = 6.0
_LINE_PX = 13
_LEGEND_PX = 220
_MOST_TICKS = 8

Key = tuple[str, str]


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


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Panels beside and below each other, with one legend."""
    import altair as alt

    view = _View.of(records, study, spec)
    wide = spec.columns if spec.row is None else len({one.column for one in view.panels})
    rows = [view.panels[start : start + wide] for start in range(0, len(view.panels), wide)]
    across = f"{factor_label(spec.x)} and {factor_label(spec.y)}"
    title = f"{selection.metric_label(spec.value)} over {across}"
    whole = spec.model_copy(update={"width": len(rows[0]) * (spec.width + 60)})
    drawn = [alt.hconcat(*(_chart(view, panel) for panel in row), spacing=18) for row in rows]
    return alt.vconcat(*drawn, spacing=18).properties(
        title=titles.head(whole, study, title, view.notes()),
        description=titles.description(whole, study, title, view.told()),
    )


@dataclass(frozen=True)
class _Panel:
    """One grid of cells: `title` over it, its place by the levels of the two panel factors."""

    title: str
    column: str
    cells: Sequence[VegaLite]
    empty: Sequence[VegaLite]
    failed: Sequence[VegaLite]


@dataclass(frozen=True)
class _View:
    """What is drawn."""

    spec: Spec
    x: heatmap_bands.Bands
    y: heatmap_bands.Bands
    unit: scales.Unit
    domain: tuple[float, float]
    log: bool
    panels: Sequence[_Panel]
    pooled: str
    centre: str

    @classmethod
    def of(cls, records: Dataset, study: Study, spec: Spec) -> _View:
        """Collect the cells of all panels; NoData where there is none."""
        split = [name for name in (spec.x, spec.y, spec.panel, spec.row) if name is not None]
        cells = selection.measured(records, study, spec.where, spec.value, *split)
        lost = _failed(records, study, spec)
        points = [*(cell.point for cell in cells), *lost]
        levels = {name: study.design.in_order(name, [point[name] for point in points]) for name in split}
        x, y = heatmap_bands.bands(spec.x, levels[spec.x]), heatmap_bands.bands(spec.y, levels[spec.y])
        values = [float(value) for cell in cells for value in cell.measured]
        unit = scales.unit_for(spec.value, values)
        panels = []
        for row in levels.get(spec.row or "", [None]):
            for column in levels.get(spec.panel or "", [None]):
                own = [cell for cell in cells if _within(spec, cell.point, column, row)]
                missing = [point for point in lost if _within(spec, point, column, row)]
                if own or missing:
                    found = condition_rows.of(own, study, spec.value, spec.x, spec.y)
                    panels.append(_panel(spec, (column, row), found, missing, (x, y), unit))
        shown = [cell["value"] for panel in panels for cell in panel.cells]
        log = spec.log and min(shown) > 0
        pooled = selection.pooled([cell.point for cell in cells], *split)
        centre = condition_rows.centre(condition_rows.of(cells, study, spec.value, spec.x, spec.y))
        return cls(spec, x, y, unit, (min(shown), max(shown)), log, panels, pooled, centre)

    def share(self, value: float) -> float:
        """Where a value lies on the colour scale, from 0 to 1."""
        low, high = self.domain
        if high <= low:
            return 1.0
        if self.log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    def notes(self) -> list[str]:
        """What the reader has to know."""
        cells = [cell for panel in self.panels for cell in panel.cells]
        return [
            f"{self.centre} of repetitions" if max(cell["n"] for cell in cells) > 1 else "one repetition",
            selection.repetitions_text([cell["n"] for cell in cells]),
            "logarithmic colours" if self.log else "",
            "linear colours: a value is zero or less" if self.spec.log and not self.log else "",
            "dashed: not run" if any(panel.empty for panel in self.panels) else "",
            "× failed" if any(panel.failed for panel in self.panels) else "",
            self.pooled,
        ]

    def told(self) -> list[VegaLite]:
        """The cells for the description."""
        return [
            {**cell, "group": f"{cell['group']}, {panel.title}" if panel.title else cell["group"]}
            for panel in self.panels
            for cell in [*panel.cells, *panel.failed]
        ]


def _failed(records: Dataset, study: Study, spec: Spec) -> list[dict[str, Scalar]]:
    """Points of which no trial went well."""
    import polars as pl

    trials = records.trials_of(study)
    for factor, level in spec.where.items():
        trials = trials.filter([same_level(factor, level, other) for other in trials[factor].to_list()])
    good = {_key(point) for point in selection.points_of(study, trials.filter(pl.col("status") == OK))}
    bad = selection.points_of(study, trials.filter(pl.col("status") == FAILED))
    return [point for point in bad if _key(point) not in good and {spec.x, spec.y} <= point.keys()]


def _key(point: Mapping[str, Scalar]) -> tuple[tuple[str, Scalar], ...]:
    return tuple(sorted(point.items()))


def _within(spec: Spec, point: Mapping[str, Scalar], column: Scalar | None, row: Scalar | None) -> bool:
    wanted = ((spec.panel, column), (spec.row, row))
    return all(name is None or level is None or point.get(name) == level for name, level in wanted)


def _panel(
    spec: Spec,
    place: tuple[Scalar | None, Scalar | None],
    found: Sequence[condition_rows.Condition],
    lost: Sequence[Mapping[str, Scalar]],
    bands: tuple[heatmap_bands.Bands, heatmap_bands.Bands],
    unit: scales.Unit,
) -> _Panel:
    names = [
        level_label(name, level)
        for name, level in zip((spec.panel, spec.row), place, strict=True)
        if name is not None and level is not None
    ]
    cells = [_cell(spec, one, bands, unit) for one in found]
    failed = [
        {**_place(point[spec.x], point[spec.y], bands), "mean_text": "failed", "n": 0}
        for point in lost
        if not any((one.level, one.group) == (point[spec.x], point[spec.y]) for one in found)
    ]
    taken = {(cell["level"], cell["group"]) for cell in [*cells, *failed]}
    everywhere = [_place(x, y, bands) for x in bands[0].levels for y in bands[1].levels]
    empty = [one for one in everywhere if (one["level"], one["group"]) not in taken]
    return _Panel(", ".join(names), str(place[0]), cells, empty, failed)


def _cell(
    spec: Spec, one: condition_rows.Condition, bands: tuple[heatmap_bands.Bands, heatmap_bands.Bands], unit: scales.Unit
) -> VegaLite:
    assert one.group is not None
    found = statistics.summarise(spec.value, one.cell)
    value = unit.scale(found.mean)
    texts = {
        "mean_text": format_metric(spec.value, found.mean),
        "median_text": format_metric(spec.value, found.median),
        "text": _short(value),
    }
    return {**_place(one.level, one.group, bands), "n": found.n, "value": value, **texts}


def _place(x: Scalar, y: Scalar, bands: tuple[heatmap_bands.Bands, heatmap_bands.Bands]) -> VegaLite:
    across, down = bands
    return {
        "level": level_label(across.factor, x),
        "group": level_label(down.factor, y),
        **across.place(x, "x"),
        **down.place(y, "y"),
    }


def _short(number: float) -> str:
    """Three digits, two below 1, or all before the point: `0.041`, `9.00`, `41.2`, `4120`."""
    if abs(number) < 1:
        return f"{number:#.2g}" if number else "0"
    return f"{number:#.3g}".rstrip(".") if abs(number) < 999.5 else f"{number:.0f}"


def _chart(view: _View, panel: _Panel) -> Any:
    import altair as alt

    spec = view.spec
    x, y = view.x.channels("x", spec.width), view.y.channels("y", spec.height)
    places, middles = {**x.edges, **y.edges}, {**x.middle, **y.middle}
    tooltip = _tooltip(view)
    drawn = []
    if panel.empty:
        edge = alt.Chart(chart_marks.data(panel.empty)).mark_rect(style="empty", filled=False, strokeDash=[3, 3])
        drawn.append(edge.encode(**places, tooltip=tooltip[:2]))
    if panel.cells:
        fill = alt.Chart(chart_marks.data(panel.cells)).mark_rect(style="cell")
        drawn.append(fill.encode(**places, color=_color(view), tooltip=tooltip))
    if panel.failed:
        edge = alt.Chart(chart_marks.data(panel.failed)).mark_rect(style="empty", filled=False)
        cross = alt.Chart(chart_marks.data(panel.failed)).mark_point(
            style="failed", shape=_CROSS, size=220, strokeWidth=2
        )
        drawn += [edge.encode(**places), cross.encode(**middles, tooltip=[*tooltip[:2], tooltip[2]])]
    if spec.numbers:
        drawn += _numbers(view, panel, middles)
    title = {"title": {"text": panel.title, "fontSize": 12, "offset": 6}} if panel.title else {}
    return alt.layer(*drawn).properties(width=spec.width, height=spec.height, **title)


def _numbers(view: _View, panel: _Panel, middles: Mapping[str, Any]) -> list[Any]:
    """The number of each cell that has the room, white on dark ones."""
    import altair as alt

    spec, drawn = view.spec, []
    fitting = [
        cell
        for cell in panel.cells
        if len(cell["text"]) * _CHARACTER_PX + 4 <= cell["x_share"] * spec.width
        and cell["y_share"] * spec.height >= _LINE_PX
    ]
    for style, dark in (("on-dark", True), ("on-bright", False)):
        if own := [cell for cell in fitting if (view.share(cell["value"]) <= _DARK_UNTIL) == dark]:
            text = alt.Chart(chart_marks.data(own)).mark_text(style=style, align="center", baseline="middle")
            drawn.append(text.encode(**middles, text=alt.Text("text:N")))
    return drawn


def _tooltip(view: _View) -> list[Any]:
    import altair as alt

    spec = view.spec
    return [
        alt.Tooltip("level:N", title=factor_label(spec.x)),
        alt.Tooltip("group:N", title=factor_label(spec.y)),
        alt.Tooltip("mean_text:N", title=view.centre),
        alt.Tooltip("median_text:N", title="median"),
        alt.Tooltip("n:Q", title="repetitions"),
    ]


def _color(view: _View) -> Any:
    """One scale for all panels; the theme's palette, which is even to the eye and to the colour-blind."""
    import altair as alt

    low, high = view.domain
    domain = [low, high] if high > low else [min(low, 0.0), max(high, 0.0) or 1.0]
    scale = alt.Scale(type="log" if view.log and high > low else "linear", domain=domain, nice=False)
    ticks: VegaLite = {"tickCount": 5, "format": "~r"}
    if view.log and high > low:
        ticks = {"values": _apart(scales.log_ticks(low, high)), "format": "~g"}
    legend = alt.Legend(gradientLength=_LEGEND_PX, gradientThickness=12, **ticks)
    label = view.unit.titled(selection.metric_label(view.spec.value))
    return alt.Color("value:Q", title=label, scale=scale, legend=legend)


def _apart(ticks: Sequence[float]) -> Sequence[float]:
    """Ticks that do not touch on the legend: decades alone where there are many."""
    decades = [tick for tick in ticks if math.log10(tick).is_integer()]
    return ticks if len(ticks) <= _MOST_TICKS or len(decades) < 2 else decades
