"""A metric over time, from logs: every trial faintly, their mean in front, the steady part shaded."""

from __future__ import annotations

from typing import Any

from ioassay._core import percentile
from ioassay.factors import level_label
from ioassay.metrics import format_metric
from ioassay.report.figures import axes, chart, level_marks, selection
from ioassay.report.figures.chart import pl
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_MOST_POINTS = 160
"""Of one line; a longer log is averaged over equal spans of time."""
_MOST_LINES = 30
"""Of single trials; more would hide each other, and are shown by their mean alone."""


class Spec(FigureSpec):
    """Keys of a time series."""

    y: str
    color: str | None = None
    trials: bool = True


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
    trials = selection.select(records, study, spec.where)
    if spec.color is not None:
        selection.require_factor(study, spec.color)
    frame, since, step_s = _logged(records, study, trials, spec)
    shown = trials.filter(trials["trial"].is_in(frame["trial"].unique().to_list()))
    unit = axes.unit_for(spec.y, frame["value"].to_list())
    end_s = float(frame["span"].to_numpy().max() + 1) * step_s
    y = axes.metric_axis(spec.y, frame["value"].to_list(), False).encoding()
    channels = {"x": chart.seconds(end_s=end_s), "y": y}
    if spec.color is not None:
        marks = level_marks.of(records, study, spec.color, shown[spec.color].to_list())
        channels |= marks.color(symbolType=chart.DASH, symbolStrokeWidth=2, labelOffset=8)
        frame = frame.with_columns(pl.col("group").cast(pl.Enum(marks.shown), strict=False))
    # A mean where all trials of a group have a value.
    members = frame.drop_nulls("group").group_by("group").agg(members=pl.col("trial").n_unique())
    means = frame.group_by("group", "span").agg(pl.col("value").mean(), trials=pl.len()).join(members, "group")
    means = means.filter(pl.col("trials") == pl.col("members")).sort("group", "span")

    def rows(of: pl.DataFrame, *names: str) -> list[VegaLite]:
        at = ((float(f"{(row['span'] + 0.5) * step_s:.5g}"), row) for row in of.iter_rows(named=True))
        return [{"x": x, "y": unit.scale(row["value"]), **{name: row[name] for name in names}} for x, row in at]

    group = [] if spec.color is None else ["group"]
    text = means.with_columns(text=pl.Series([format_metric(spec.y, value) for value in means["value"]]))
    mean = chart.base(rows(text, "text", *group)).mark("line", style="curve", strokeWidth=2)
    tooltip = chart.tips({"x:Q": "time (s)", "text:N": "mean"})
    drawn = [mean.encode(tooltip=tooltip, **channels).zoomable()]
    faint = spec.trials and 1 < shown.height <= _MOST_LINES
    if faint:
        each = chart.base(rows(frame, "trial", *group)).mark("line", style="repetition", strokeWidth=0.8)
        drawn.insert(0, each.encode(detail="trial:N", **channels))
    steady = "no trial ended in steady state"
    if since:
        half_s = percentile(sorted(since), 0.5)
        told = f"{len(since)} of {shown.height} ended in steady state"
        steady = f"{told}, half of them since {half_s:.2g} s or earlier"
        if spec.color is None:
            window = chart.base([{"x": half_s, "x2": end_s}]).mark("rect", style="window")
            drawn.insert(0, window.encode(x=channels["x"], x2="x2:Q"))
    notes = [
        f"mean of {shown.height} trials" if shown.height > 1 else "one trial",
        "each trial faint" if faint else "",
        f"averages over {step_s:.3g} s",
        steady,
        selection.pooled(selection.points_of(study, shown), spec.color),
    ]
    return chart.layered(drawn, spec, study, f"{selection.metric_label(spec.y)} over time", notes)


def _logged(
    records: Dataset, study: Study, trials: pl.DataFrame, spec: Spec
) -> tuple[pl.DataFrame, list[float], float]:
    """What the trials logged, as means over spans of one length; when the steady parts began; and that length.

    It is the longest of the logs' own intervals and what the figure can show. Columns: group, trial, span, value.
    """
    from ioassay.analysis.measurements.log_samples import samples
    from ioassay.analysis.stability import within_trial

    logged = samples(records, study, spec.y)
    known = [row for row in trials.iter_rows(named=True) if row["trial"] in logged]
    if not known:
        raise NoData(f"no trial kept a log of '{spec.y}'; the parameter logs asks fio for one: logs = [\"bw\"]")
    parts, since, steps_s = [], [], [0.0]
    for row in known:
        found = logged[row["trial"]]
        level = row.get(spec.color) if spec.color else None
        group = level_label(spec.color, level) if spec.color and level is not None else ""
        named = {"group": pl.lit(group), "trial": pl.lit(row["trial"])}
        parts.append(pl.DataFrame({"time_s": found.time_s, "value": found.value}).sort("time_s").with_columns(**named))
        last_s = float(found.time_s[-1])
        intervals = found.time_s.size - 1
        steps_s += [last_s / _MOST_POINTS, float(last_s - found.time_s[0]) / intervals if intervals else 0.0]
        judged = within_trial(found)
        if judged is not None and judged.since_s is not None:
            since.append(judged.since_s)
    step_s = max(steps_s) or 1.0
    span = (pl.col("time_s") / step_s).floor().clip(0).cast(pl.Int64)
    spans = pl.concat(parts).group_by("group", "trial", span.alias("span"), maintain_order=True)
    return spans.agg(pl.col("value").mean()), since, step_s
