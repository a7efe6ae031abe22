"""What the machine did meanwhile: CPU shares stacked, other rates as lines, over time or over a factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ioassay.factors import factor_label, is_size
from ioassay.report.figures import axes, chart_marks, scales, selection, titles
from ioassay.report.figures.monitor_lines import MonitorLines, monitor_lines
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

TIME = "time"
_MOST_POINTS = 200
"""Of one line."""


class Spec(FigureSpec):
    """Keys of a chart of a monitor."""

    monitor: Literal["cpu", "disk", "memory", "net", "pressure"]
    fields: tuple[str, ...] = ()
    x: str = TIME
    repetition: int = 0


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One trial over time, or the mean of each level."""
    trials = selection.select(records, study, spec.where)
    found = monitor_lines(records, study, spec.monitor, spec.fields)
    if spec.x == TIME:
        return _over_time(trials, found, study, spec)
    selection.require_factor(study, spec.x)
    return _over_levels(trials, found, study, spec)


def _over_time(trials: pl.DataFrame, found: MonitorLines, study: Study, spec: Spec) -> Any:
    import altair as alt

    trial = _chosen(trials, found, spec)
    frame = found.frame.filter(found.frame["trial"] == trial["trial"]).sort("time_s")
    unit = scales.best_unit(found.unit, frame["value"].to_list())
    rows = _time_rows(frame, unit)
    x = alt.X("x:Q", title="Time since the load began (s)", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=8))
    tooltip = [
        alt.Tooltip("line:N"),
        alt.Tooltip("x:Q", title="time (s)"),
        alt.Tooltip("y:Q", title=unit.name or "value"),
    ]
    base = alt.Chart(chart_marks.data(rows)).encode(x=x, color=_line_color(found), tooltip=tooltip)
    if spec.monitor == "cpu":
        chart = base.mark_area(style="band").encode(y=_stacked_axis(found), order=alt.Order("rank:Q"))
    else:
        chart = base.mark_line(style="curve", strokeWidth=1.8).encode(y=_axis(found, unit))
    point = {factor: trial[factor] for factor in study.levels if trial.get(factor) is not None}
    shown = selection.describe_where({key: level for key, level in point.items() if key not in spec.where})
    notes = [found.note, f"repetition {trial['repetition'] + 1}", shown]
    return _finished(chart.add_params(chart_marks.zoom()), f"{found.label} over time", notes, study, spec)


def _chosen(trials: pl.DataFrame, found: MonitorLines, spec: Spec) -> dict[str, Any]:
    """The trial to show: the asked repetition of the first condition that was watched."""
    seen = set(found.frame["trial"].to_list())
    rows = [row for row in trials.sort("order").iter_rows(named=True) if row["trial"] in seen]
    wanted = [row for row in rows if row["repetition"] == spec.repetition]
    if not wanted:
        raise NoData(f"no trial that went well was watched in repetition {spec.repetition}; {len(rows)} were in others")
    return wanted[0]


def _time_rows(frame: pl.DataFrame, unit: scales.Unit) -> list[VegaLite]:
    """One row a reading, thinned by taking means over equal spans of time."""
    import polars as pl

    span_s = max(float(frame["time_s"].max() or 0.0) / _MOST_POINTS, 1e-9)  # type: ignore[arg-type]
    thinned = (
        frame.with_columns(span=(pl.col("time_s") / span_s).floor())
        .group_by("span", "line")
        .agg(pl.col("time_s").mean(), pl.col("value").mean())
        .sort("line", "span")
    )
    return [_row(row["line"], float(f"{row['time_s']:.5g}"), row["value"], unit) for row in thinned.to_dicts()]


def _row(line: str, x: float | str, value: float, unit: scales.Unit) -> VegaLite:
    from ioassay.report.figures.monitor_lines import BANDS

    row = {"line": line, "x": x, "y": unit.scale(value)}
    return {**row, "rank": BANDS.index(line)} if line in BANDS else row


def _over_levels(trials: pl.DataFrame, found: MonitorLines, study: Study, spec: Spec) -> Any:
    import altair as alt

    means = _level_means(trials, found, spec.x)
    levels = study.design.in_order(spec.x, means[spec.x].unique().to_list())
    axis = (
        axes.category_axis(spec.x, levels)
        if spec.monitor == "cpu"
        else axes.level_axis(spec.x, levels, is_size(spec.x))
    )
    unit = scales.best_unit(found.unit, means["value"].to_list())
    rows = [_row(row["line"], axis.position(row[spec.x]), row["value"], unit) for row in means.to_dicts()]
    tooltip = [alt.Tooltip("line:N"), alt.Tooltip("x:N", title="level"), alt.Tooltip("y:Q", title=unit.name or "value")]
    base = alt.Chart(chart_marks.data(rows)).encode(
        x=axis.encoding(spec.width), color=_line_color(found), tooltip=tooltip
    )
    if spec.monitor == "cpu":
        width = alt.RelativeBandSize(0.7)
        chart = base.mark_bar(style="band", width=width).encode(y=_stacked_axis(found), order=alt.Order("rank:Q"))
    else:
        chart = base.mark_line(style="curve", point=True).encode(y=_axis(found, unit))
    notes = [
        found.note,
        f"mean of {trials.height} trials",
        selection.pooled(selection.points_of(study, trials), spec.x),
    ]
    title = f"{found.label} against {factor_label(spec.x)}"
    return _finished(chart, title, notes, study, spec)


def _level_means(trials: pl.DataFrame, found: MonitorLines, factor: str) -> pl.DataFrame:
    """Mean over the trials of a level of each trial's own mean: a long trial counts as one."""
    import polars as pl

    joined = found.frame.join(trials.select("trial", factor), on="trial").drop_nulls(factor)
    if joined.is_empty():
        raise NoData(f"no trial that went well was watched at a level of '{factor}'")
    each = joined.group_by("trial", factor, "line").agg(pl.col("value").mean())
    return each.group_by(factor, "line").agg(pl.col("value").mean()).sort("line", factor)


def _line_color(found: MonitorLines) -> Any:
    import altair as alt

    return alt.Color("line:N", title=None, sort=list(found.lines), scale=alt.Scale(domain=list(found.lines)))


def _stacked_axis(found: MonitorLines) -> Any:
    import altair as alt

    scale = alt.Scale(domain=[0, 100], nice=False)
    return alt.Y("y:Q", title=f"{found.label} (%), idle above", stack="zero", scale=scale)


def _axis(found: MonitorLines, unit: scales.Unit) -> Any:
    import altair as alt

    return alt.Y("y:Q", title=unit.titled(found.label), scale=alt.Scale(zero=True, nice=6), axis=alt.Axis(tickCount=6))


def _finished(chart: Any, title: str, notes: Sequence[str], study: Study, spec: Spec) -> Any:
    return chart.properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.noted(spec, title, notes),
    )
