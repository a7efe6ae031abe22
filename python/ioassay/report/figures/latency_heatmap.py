"""Latency over time: how many requests of each latency completed when, as colour, from histogram logs.

Single requests are visible next to millions, since colours are logarithmic. Averages over time are the kind `series`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ioassay.factors import level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart_marks, latency_levels, scales, selection, titles
from ioassay.report.figures.spec import Direction, FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

if TYPE_CHECKING:
    import polars as pl

    from ioassay.records.record import LatencyWindow

_COLUMNS, _STEPS = 100, 48
"""At most: of time and of latency."""
_FINEST = 2 ** (1 / 16)
"""Ratio of neighbouring bins in the logs: finer steps would have gaps."""
_MOST_PANELS = 12
_LEGEND_PX = 220


class Spec(FigureSpec):
    """Keys of a heat map of latencies. `width` and `height` are those of one panel."""

    direction: Direction = "read"
    panel: str | None = None
    repetition: Annotated[int, Field(ge=0)] | None = None
    columns: Annotated[int, Field(ge=1, le=8)] = 1
    height: Annotated[int, Field(ge=80, le=2000)] = 220


@dataclass(frozen=True)
class _Panel:
    """One level: the requests by window (from 0) and latency."""

    title: str
    trials: int
    counts: Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class _Grid:
    """Windows of one length, and the range of all latencies."""

    window_s: float
    low_ns: float
    ratio: float
    steps: int

    def step(self, latency_ns: float) -> int:
        """The step of a latency, from 0."""
        place = int(math.log(max(latency_ns, 1) / self.low_ns) / math.log(self.ratio))
        return min(max(place, 0), self.steps - 1)

    def edge(self, step: int) -> float:
        """Where a step begins."""
        return float(f"{self.low_ns * self.ratio**step:.5g}")


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One panel a level, with one scale of colours."""
    import altair as alt

    trials = _trials(records, study, spec)
    panels, grid = _panels(records, study, trials, spec)
    most = max(max(panel.counts.values()) for panel in panels)
    end_s = (max(window for panel in panels for window, _ in panel.counts) + 1) * grid.window_s
    charts = [_chart(spec, panel, grid, end_s, most) for panel in panels]
    name = latency_levels.latency_name(spec.direction, "clat")
    kept = sum(panel.trials for panel in panels)
    points = selection.points_of(study, trials)
    notes = [
        f"requests of {grid.window_s:.3g} s in each cell (logarithmic colours)",
        f"{kept} trials together" if kept > len(panels) else "one trial" if kept == 1 else "one trial in each panel",
        selection.pooled(points, _panel_factor(study, points, spec)),
    ]
    title = f"{name} over time"
    whole = spec.model_copy(update={"width": min(spec.columns, len(panels)) * spec.width})
    return alt.concat(*charts, columns=spec.columns, spacing=16).properties(
        title=titles.head(whole, study, title, notes),
        description=f"{titles.noted(spec, title, notes)} {_told(panels, grid)}.",
    )


def _trials(records: Dataset, study: Study, spec: Spec) -> pl.DataFrame:
    """Those that the figure asks for; NoData where there are none."""
    trials = selection.select(records, study, spec.where)
    if spec.repetition is None:
        return trials
    kept = trials.filter(trials["repetition"] == spec.repetition)
    if kept.is_empty():
        raise NoData(f"no trial that went well is repetition {spec.repetition}; the first is 0")
    return kept


def _panel_factor(study: Study, points: Sequence[Mapping[str, Scalar]], spec: Spec) -> str | None:
    """The factor asked for, or the first that varies."""
    if spec.panel is not None:
        selection.require_factor(study, spec.panel)
        return spec.panel
    return next((name for name in study.levels if len({point.get(name) for point in points}) > 1), None)


def _panels(records: Dataset, study: Study, trials: pl.DataFrame, spec: Spec) -> tuple[list[_Panel], _Grid]:
    """The requests of each level in one grid; NoData where no trial kept a histogram log."""
    from ioassay.analysis.measurements import latency_windows
    from ioassay.errors import InputError

    try:
        found = latency_windows.of_trials(records, trials["trial"].to_list(), spec.direction)
    except InputError as error:
        raise NoData(str(error)) from None
    if not found:
        raise NoData(
            f"no trial kept histograms of {spec.direction} latencies over time; "
            'the parameter logs asks fio for them: logs = ["hist"]'
        )
    factor = _panel_factor(study, selection.points_of(study, trials), spec)
    levels: dict[str, Scalar | None] = dict(
        zip(trials["trial"].to_list(), trials[factor].to_list() if factor else [None] * trials.height, strict=True)
    )
    shown = study.design.in_order(factor, [levels[trial] for trial in found]) if factor else [None]
    if len(shown) > _MOST_PANELS:
        raise NoData(f"{len(shown)} levels of {factor} have histograms; choose up to {_MOST_PANELS} with `where`")
    grid = _grid(found.values())
    panels = []
    for level in shown:
        members = [windows for trial, windows in found.items() if levels[trial] == level]
        title = level_label(factor, level) if factor and level is not None else ""
        panels.append(_Panel(title, len(members), _counts(members, grid)))
    return panels, grid


def _grid(found: Iterable[Sequence[LatencyWindow]]) -> _Grid:
    """Windows of the logs' own length, joined where they are too many, and steps over the range of all latencies."""
    logs = list(found)
    # Each trial's windows end a few milliseconds late, by its own; at the next job's log time goes back.
    steps_s = [after.end_s - before.end_s for log in logs for before, after in itertools.pairwise(log)]
    steps_s = sorted(step for step in steps_s if step > 0)
    last_s = max(window.end_s for log in logs for window in log)
    interval_s = round(steps_s[len(steps_s) // 2], 2) if steps_s else 0.0
    interval_s = interval_s or last_s
    joined = max(math.ceil(last_s / interval_s / _COLUMNS), 1)
    values = [value for log in logs for window in log for value in window.values_ns]
    low, high = max(min(values), 1), max(*values, 2)
    steps = max(min(_STEPS, int(math.log(high / low) / math.log(_FINEST))), 1)
    return _Grid(interval_s * joined, low / 1.02, (high / low * 1.05) ** (1 / steps), steps)


def _counts(members: Iterable[Sequence[LatencyWindow]], grid: _Grid) -> Mapping[tuple[int, int], int]:
    """Requests by window and step, of several trials together."""
    counts: Counter[tuple[int, int]] = Counter()
    for windows in members:
        for window in windows:
            # A window that ends at 107 ms is the one from 0 to 100.
            place = max(math.ceil(window.end_s / grid.window_s - 0.3) - 1, 0)
            for value, count in zip(window.values_ns, window.counts, strict=True):
                counts[place, grid.step(value)] += count
    return counts


def _chart(spec: Spec, panel: _Panel, grid: _Grid, end_s: float, most: int) -> Any:
    import altair as alt

    rows = [
        {"x": round(window * grid.window_s, 4), "y": grid.edge(step), "requests": count}
        for (window, step), count in sorted(panel.counts.items())
    ]
    x = alt.X("x:Q", title="Time (s)", scale=alt.Scale(domain=[0, end_s], nice=False), axis=alt.Axis(tickCount=8))
    name = latency_levels.latency_name(spec.direction, "clat")
    y = axes.latency_axis("y", name, grid.edge(0), grid.edge(grid.steps))
    ticks = [tick for tick in scales.log_ticks(1, max(most, 10)) if math.log10(tick).is_integer()]
    color = alt.Color(
        "requests:Q",
        title="Requests",
        scale=alt.Scale(type="log", domain=[1, max(most, 2)], nice=False),
        legend=alt.Legend(gradientLength=_LEGEND_PX, gradientThickness=12, values=ticks, format="~s"),
    )
    tooltip = [
        alt.Tooltip("x:Q", title="from (s)"),
        alt.Tooltip("y:Q", title="latency from (ns)", format="~s"),
        alt.Tooltip("requests:Q", format=","),
    ]
    # Thousands of cells: what follows from a place is computed by the chart.
    ends = {"end": f"datum.x + {grid.window_s:.6g}", "top": f"datum.y * {grid.ratio:.9g}"}
    cells = alt.Chart(chart_marks.data(rows)).mark_rect(style="band", clip=True).transform_calculate(**ends)
    title = {"title": {"text": panel.title, "fontSize": 12, "offset": 6}} if panel.title else {}
    chart = cells.encode(x=x, x2="end:Q", y=y, y2="top:Q", color=color, tooltip=tooltip)
    return chart.properties(width=spec.width, height=spec.height, **title)


def _told(panels: Sequence[_Panel], grid: _Grid) -> str:
    """The requests of each panel and when its slowest completed."""
    told = []
    for panel in panels:
        window, step = max(panel.counts, key=lambda place: (place[1], -place[0]))
        requests = format_count(sum(panel.counts.values()))
        slowest = f"the slowest over {format_ns(grid.edge(step))} at {window * grid.window_s:.3g} s"
        told.append(f"{f'{panel.title}: ' if panel.title else ''}{requests} requests, {slowest}")
    return "; ".join(told)
