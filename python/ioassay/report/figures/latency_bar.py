"""Total, completion and submission latency side by side for each case or level, one panel a direction.

Bars from zero; points on a logarithmic axis, which has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from ioassay.factors import factor_label
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart_marks, condition_rows, selection, statistics, titles
from ioassay.report.figures.chart_marks import Rows
from ioassay.report.figures.spec import Direction, ErrorBar, FigureSpec, Latency, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

NAMES: dict[str, str] = {"lat": "total (lat)", "clat": "completion (clat)", "slat": "submission (slat)"}
_LABEL_PX = 38
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
    import altair as alt

    factor = selection.main_factor(study, spec.x, spec.where)
    panels = [_Panel.of(records, study, spec, factor, direction) for direction in spec.directions]
    drawn = [panel for panel in panels if panel.rows]
    if not drawn:
        trials = selection.select(records, study, spec.where)
        raise NoData(f"none of the {trials.height} trials that went well has a mean latency")
    rows = [row for panel in drawn for row in panel.rows]
    title = f"{' and '.join(panel.direction for panel in drawn).capitalize()} latency by {factor_label(factor)}"
    notes = [
        statistics.error_text(spec.error, study.analysis.confidence),
        selection.repetitions_text([row["n"] for row in rows]),
        *(f"no {panel.direction} latency was recorded" for panel in panels if not panel.rows),
        *dict.fromkeys(panel.pooled for panel in drawn),
        *dict.fromkeys(panel.y.note for panel in drawn),
    ]
    return alt.vconcat(*(_chart(panel, spec) for panel in drawn), spacing=18).properties(
        title=titles.head(spec, study, title, notes),
        description=titles.description(spec, study, title, rows),
    )


@dataclass(frozen=True)
class _Panel:
    """One direction: a row for each bar, none where no trial has such a latency."""

    direction: str
    rows: Rows
    axis: axes.LevelAxis
    y: axes.MetricAxis
    pooled: str
    """What lies together in one bar, '' for nothing."""

    @classmethod
    def of(cls, records: Dataset, study: Study, spec: Spec, factor: str, direction: str) -> _Panel:
        """Collect the panel's bars."""
        found: dict[str, list[condition_rows.Condition]] = {}
        points: list[Mapping[str, Scalar]] = []
        for kind in spec.latencies:
            name = f"{direction}.{kind}.mean"
            with suppress(NoData):  # a kind or a direction that does not occur; draw() says what is missing
                cells = selection.measured(records, study, spec.where, name, factor)
                found[name] = condition_rows.of(cells, study, name, factor)
                points += [cell.point for cell in cells]
        everything = [condition for members in found.values() for condition in members]
        axis = axes.category_axis(factor, study.design.in_order(factor, condition_rows.levels_of(everything)))
        values = condition_rows.measured_values(everything) if everything else []
        # Submission is a small part of total latency in any study: that alone is no reason for a logarithmic axis.
        decades = any(
            axes.metric_axis(name, condition_rows.measured_values(members)).log for name, members in found.items()
        )
        y = axes.metric_axis(f"{direction}.lat.mean", values, decades if spec.log_y is None else spec.log_y)
        rows = []
        for name, members in found.items():
            ask = condition_rows.Ask(name, error=spec.error, confidence=study.analysis.confidence)
            group = NAMES[name.split(".")[1]]
            rows += [{**row, "group": group} for row in condition_rows.point_rows(members, axis, ask, y.unit)]
        y, rows = y.holding(rows) if rows else (y, rows)
        rows = [{**row, "top": row.get("high", row["y"])} for row in rows]
        return cls(direction, rows, axis, y, selection.pooled(points, factor))

    def channel(self) -> Any:
        """The y axis."""
        title = self.y.unit.titled(f"{self.direction.capitalize()} latency")
        return self.y.encoding(ticks=5).title(f"{title}, logarithmic" if self.y.log else title)


def _chart(panel: _Panel, spec: Spec) -> Any:
    import altair as alt

    names = [NAMES[kind] for kind in spec.latencies]
    color = alt.Color("group:N", title=None, sort=names)
    x = panel.axis.encoding(spec.width).scale(paddingInner=0.14, paddingOuter=0.07)
    places = {"x": x, "xOffset": alt.XOffset("group:N", sort=names)}
    y = panel.channel()
    bars = alt.Chart(chart_marks.data(panel.rows)).mark_bar(style="bar", width=alt.RelativeBandSize(0.9))
    means = chart_marks.points(panel.rows) if panel.y.log else bars
    means = means.encode(y=y, color=color, tooltip=chart_marks.point_tooltip("latency", spec.error), **places)
    intervals = chart_marks.error_bars(panel.rows, y, cap_px=7, **places)
    drawn = [*intervals, means] if panel.y.log else [means, *intervals]
    if spec.width / max(len(panel.axis.levels), 1) * 0.8 / len(names) >= _LABEL_PX:
        values = alt.Chart(chart_marks.data(panel.rows)).mark_text(style="value", dy=-7)
        drawn.append(values.encode(y=chart_marks.on(y, "top"), text="mean_text:N", **places))
    return alt.layer(*drawn).properties(width=spec.width, height=spec.height)
