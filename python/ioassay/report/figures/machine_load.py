"""What the machine did meanwhile, by one monitor: a time line of one trial, or the means of a factor's levels."""

from __future__ import annotations

from typing import Any

from ioassay.factors import factor_label, is_size
from ioassay.report.figures import axes, chart, scales, selection, stack, timeline
from ioassay.report.figures.chart import pl
from ioassay.report.figures.spec import FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

TIME = "time"


class Spec(FigureSpec):
    """Keys of a chart of a monitor."""

    monitor: timeline.Panel
    fields: tuple[str, ...] = ()
    x: str = TIME
    repetition: int = 0


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One trial over time, or the mean of each level; of processors this is the kind `stack`."""
    trials = selection.select(records, study, spec.where)
    if spec.x != TIME:
        selection.require_factor(study, spec.x)
        if spec.monitor == "cpu":
            keys = spec.model_dump(exclude={"monitor", "fields", "repetition"})
            return stack.draw(records, study, stack.Spec(**keys))
    found = timeline.monitor_lines(records, study, spec.monitor, spec.fields)
    if spec.x == TIME:
        return timeline.draw_trial(trials, spec.monitor, found, study, spec, spec.repetition)
    joined = found.frame.join(trials.select("trial", level=spec.x), on="trial").drop_nulls("level")
    if joined.is_empty():
        raise NoData(f"no trial that went well was watched at a level of '{spec.x}'")
    # The mean of each trial's own mean: a long trial counts as one.
    each = joined.group_by("trial", "level", "line", maintain_order=True).agg(pl.col("value").mean())
    means = each.group_by("level", "line", maintain_order=True).agg(pl.col("value").mean()).sort("line", "level")
    axis = axes.level_axis(spec.x, study.design.in_order(spec.x, means["level"].unique().to_list()), is_size(spec.x))
    unit = scales.best_unit(found.unit, means["value"].to_list())
    rows = [
        {"line": line, "x": axis.position(level), "y": unit.scale(value)}
        for level, line, value in means.select("level", "line", "value").iter_rows()
    ]
    y, color = chart.upwards(unit.titled(found.label)), chart.lines_color(found.lines)
    tooltip = chart.tips({"line:N": "", "x:N": "level", "y:Q": unit.name or "value"})
    curves = chart.base(rows).mark("line", style="curve", point=True)
    curves = curves.encode(x=axis.encoding(spec.width), y=y, color=color, tooltip=tooltip)
    pooled = selection.pooled(selection.points_of(study, trials), spec.x)
    notes = [found.note, f"mean of {trials.height} trials", pooled]
    return chart.layered([curves], spec, study, f"{found.label} against {factor_label(spec.x)}", notes)
