"""What the machine did meanwhile: CPU shares stacked, other rates as lines, over time or over a factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ioassay.factors import factor_label, is_size
from ioassay.report.figures import axes, chart, chart_marks, scales, selection
from ioassay.report.figures.chart import alt, pl
from ioassay.report.figures.monitor_lines import BANDS, MonitorLines, monitor_lines
from ioassay.report.figures.spec import FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

TIME = "time"
_MOST_POINTS = 200
"""Of one line."""


class Spec(FigureSpec):
    """Keys of a chart of a monitor."""

    monitor: Literal["cpu", "disk", "memory", "net", "pressure"]
    fields: tuple[str, ...] = ()
    x: str = TIME
    repetition: int = 0


@dataclass(frozen=True)
class _Over:
    """What lies on x: `places` has line, x and value of each mark."""

    places: pl.DataFrame
    x: Any
    title: str
    notes: Sequence[str]


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One trial over time, or the mean of each level."""
    trials = selection.select(records, study, spec.where)
    found = monitor_lines(records, study, spec.monitor, spec.fields)
    over_time, stacked = spec.x == TIME, spec.monitor == "cpu"
    over = (_over_time if over_time else _over_levels)(trials, found, study, spec)
    unit = scales.best_unit(found.unit, over.places["value"].to_list())
    rows = [{"line": line, "x": at, "y": unit.scale(value)} for line, at, value in over.places.iter_rows()]
    if stacked:
        rows = [{**row, "rank": BANDS.index(row["line"])} for row in rows]
        y = chart.percent(f"{found.label} (%), idle above").stack("zero")
    else:
        title = unit.titled(found.label)
        y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=True, nice=6), axis=alt.Axis(tickCount=6))
    lines = list(found.lines)
    color = alt.Color("line:N", title=None, sort=lines, scale=alt.Scale(domain=lines))
    order = {"order": alt.Order("rank:Q")} if stacked else {}
    place = {"x:Q": "time (s)"} if over_time else {"x:N": "level"}
    tooltip = chart.tips({"line:N": "", **place, "y:Q": unit.name or "value"})
    base = chart.base(rows).encode(x=over.x, y=y, color=color, tooltip=tooltip, **order)
    if over_time:
        drawn = base.mark_area(style="band") if stacked else base.mark_line(style="curve", strokeWidth=1.8)
        drawn = drawn.add_params(chart_marks.zoom())
    elif stacked:
        drawn = base.mark_bar(style="band", width=alt.RelativeBandSize(0.7))
    else:
        drawn = base.mark_line(style="curve", point=True)
    sized = drawn.properties(width=spec.width, height=spec.height)
    return chart.figure(sized, spec, study, f"{found.label} {over.title}", [found.note, *over.notes])


def _over_time(trials: pl.DataFrame, found: MonitorLines, study: Study, spec: Spec) -> _Over:
    """The asked repetition of the first condition that was watched, thinned by means over equal spans of time."""
    rows = trials.filter(trials["trial"].is_in(found.frame["trial"].unique().to_list())).sort("order")
    wanted = rows.filter(rows["repetition"] == spec.repetition).to_dicts()
    if not wanted:
        others = f"{rows.height} were in others"
        raise NoData(f"no trial that went well was watched in repetition {spec.repetition}; {others}")
    trial = wanted[0]
    frame = found.frame.filter(found.frame["trial"] == trial["trial"])
    span_s = max(float(frame["time_s"].to_numpy().max()) / _MOST_POINTS, 1e-9)
    thinned = (
        frame.group_by((pl.col("time_s") / span_s).floor().alias("span"), "line")
        .agg(x=pl.col("time_s").mean().round_sig_figs(5), value=pl.col("value").mean())
        .sort("line", "span")
    )
    point = {name: trial[name] for name in study.levels if trial.get(name) is not None and name not in spec.where}
    notes = [f"repetition {trial['repetition'] + 1}", selection.describe_where(point)]
    x = chart.seconds("Time since the load began (s)")
    return _Over(thinned.select("line", "x", "value"), x, "over time", notes)


def _over_levels(trials: pl.DataFrame, found: MonitorLines, study: Study, spec: Spec) -> _Over:
    """Mean over the trials of a level of each trial's own mean: a long trial counts as one."""
    selection.require_factor(study, spec.x)
    joined = found.frame.join(trials.select("trial", level=spec.x), on="trial").drop_nulls("level")
    if joined.is_empty():
        raise NoData(f"no trial that went well was watched at a level of '{spec.x}'")
    each = joined.group_by("trial", "level", "line").agg(pl.col("value").mean())
    means = each.group_by("level", "line").agg(pl.col("value").mean()).sort("line", "level")
    levels = study.design.in_order(spec.x, means["level"].unique().to_list())
    words = spec.monitor == "cpu"
    axis = axes.category_axis(spec.x, levels) if words else axes.level_axis(spec.x, levels, is_size(spec.x))
    places = means.select("line", pl.Series("x", [axis.position(level) for level in means["level"]]), "value")
    pooled = selection.pooled(selection.points_of(study, trials), spec.x)
    notes = [f"mean of {trials.height} trials", pooled]
    return _Over(places, axis.encoding(spec.width), f"against {factor_label(spec.x)}", notes)
