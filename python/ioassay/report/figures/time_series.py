"""A metric over time, from logs: every trial faintly, their mean in front, the steady part shaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay.factors import level_label
from ioassay.metrics import format_metric
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart_marks, level_marks, scales, selection, titles
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

    from ioassay.analysis.measurements.log_samples import Samples

_MOST_POINTS = 160
"""Of one line; a longer log is averaged over equal spans of time."""
_MOST_LINES = 30
"""Of single trials; more would hide each other, and are shown by their mean alone."""


class Spec(FigureSpec):
    """Keys of a time series."""

    y: str
    color: str | None = None
    trials: bool = True


@dataclass(frozen=True)
class _Line:
    """One trial: values over spans of one length, by number of the span; `since_s`: start of its steady part."""

    trial: str
    level: Scalar | None
    values: Mapping[int, float]
    since_s: float | None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
    import altair as alt

    trials = selection.select(records, study, spec.where)
    lines, step_s = _lines(records, study, trials, spec)
    shown = trials.filter(trials["trial"].is_in([line.trial for line in lines]))
    unit = scales.unit_for(spec.y, [value for line in lines for value in line.values.values()])
    levels = [] if spec.color is None else study.design.in_order(spec.color, [line.level for line in lines])
    color = level_marks.of(records, study, spec.color, levels).lines() if spec.color else {}
    faint = spec.trials and len(lines) <= _MOST_LINES
    title = f"{selection.metric_label(spec.y)} over time"
    notes = [
        f"mean of {len(lines)} trials" if len(lines) > 1 else "one trial",
        "each trial faint" if faint and len(lines) > 1 else "",
        f"averages over {step_s:.3g} s",
        _steady_text(lines),
        selection.pooled(selection.points_of(study, shown), spec.color),
    ]
    drawn = _layers(lines, levels, step_s, unit, spec, color, faint)
    return alt.layer(*drawn).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.noted(spec, title, notes),
    )


def _lines(records: Dataset, study: Study, trials: pl.DataFrame, spec: Spec) -> tuple[list[_Line], float]:
    """The trials' lines over spans of one length, and that length."""
    from ioassay.analysis.measurements.log_samples import samples

    if spec.color is not None:
        selection.require_factor(study, spec.color)
    logged = samples(records, study, spec.y)
    known = [row for row in trials.iter_rows(named=True) if row["trial"] in logged]
    if not known:
        raise NoData(f"no trial kept a log of '{spec.y}'; the parameter logs asks fio for one: logs = [\"bw\"]")
    step_s = _step_s([logged[row["trial"]] for row in known])
    return [_line(row, logged[row["trial"]], spec, step_s) for row in known], step_s


def _step_s(found: Sequence[Samples]) -> float:
    """The longest of the logs' own intervals and what the figure can show."""
    longest = max(float(one.time_s[-1]) for one in found)
    intervals = [float(one.time_s[-1] - one.time_s[0]) / (one.time_s.size - 1) for one in found if one.time_s.size > 1]
    return max([longest / _MOST_POINTS, *intervals]) or 1.0


def _line(row: Mapping[str, Any], found: Samples, spec: Spec, step_s: float) -> _Line:
    from ioassay.analysis.stability import steadiness

    spans: dict[int, list[float]] = {}
    for time_s, value in zip(found.time_s.tolist(), found.value.tolist(), strict=True):
        spans.setdefault(max(math.floor(time_s / step_s), 0), []).append(value)
    judged = steadiness.within_trial(found)
    values = {number: math.fsum(span) / len(span) for number, span in sorted(spans.items())}
    return _Line(
        trial=row["trial"],
        level=row.get(spec.color) if spec.color else None,
        values=values,
        since_s=judged.since_s if isinstance(judged, steadiness.WithinTrial) else None,
    )


def _steady_text(lines: Sequence[_Line]) -> str:
    since = _since(lines)
    if not since:
        return "no trial ended in steady state"
    return f"{len(since)} of {len(lines)} ended in steady state, half of them since {_median(since):.2g} s or earlier"


def _since(lines: Sequence[_Line]) -> list[float]:
    return sorted(line.since_s for line in lines if line.since_s is not None)


def _median(ordered: Sequence[float]) -> float:
    from ioassay._core import percentile

    return float(percentile(list(ordered), 0.5))


def _layers(
    lines: Sequence[_Line],
    levels: Sequence[Scalar],
    step_s: float,
    unit: scales.Unit,
    spec: Spec,
    color: Mapping[str, Any],
    faint: bool,
) -> list[Any]:
    import altair as alt

    end_s = max(max(line.values) + 1 for line in lines) * step_s
    x = alt.X("x:Q", title="Time (s)", scale=alt.Scale(domain=[0, end_s], nice=False), axis=alt.Axis(tickCount=8))
    y = axes.metric_axis(spec.y, [value for line in lines for value in line.values.values()], False).encoding()
    groups: Sequence[Scalar | None] = levels or [None]
    means = [row for level in groups for row in _mean_rows(lines, level, step_s, unit, spec)]
    tooltip = [alt.Tooltip("x:Q", title="time (s)"), alt.Tooltip("text:N", title="mean")]
    mean = alt.Chart(chart_marks.data(means)).mark_line(style="curve", strokeWidth=2)
    drawn = [mean.encode(x=x, y=y, tooltip=tooltip, **color).add_params(chart_marks.zoom())]
    if faint and len(lines) > 1:
        each = [row for line in lines for row in _rows(line, line.values, step_s, unit, spec)]
        single = alt.Chart(chart_marks.data(each)).mark_line(style="repetition", strokeWidth=0.8)
        drawn.insert(0, single.encode(x=x, y=y, detail="trial:N", **color))
    since = _since(lines)
    if since and spec.color is None:
        window = alt.Chart(chart_marks.data([{"x": _median(since), "x2": end_s}])).mark_rect(style="window")
        drawn.insert(0, window.encode(x=x, x2="x2:Q"))
    return drawn


def _mean_rows(
    lines: Sequence[_Line], level: Scalar | None, step_s: float, unit: scales.Unit, spec: Spec
) -> list[VegaLite]:
    """The mean of a level's trials over each span that all of them cover."""
    members = [line for line in lines if level is None or line.level == level]
    spans = sorted(set.intersection(*(set(line.values) for line in members)))
    means = {span: math.fsum(line.values[span] for line in members) / len(members) for span in spans}
    rows = _rows(members[0], means, step_s, unit, spec)
    return [{**row, "text": format_metric(spec.y, value)} for row, value in zip(rows, means.values(), strict=True)]


def _rows(line: _Line, values: Mapping[int, float], step_s: float, unit: scales.Unit, spec: Spec) -> list[VegaLite]:
    row: VegaLite = {"trial": line.trial}
    if spec.color is not None and line.level is not None:
        row["group"] = level_label(spec.color, line.level)
    return [
        {**row, "x": float(f"{(number + 0.5) * step_s:.5g}"), "y": unit.scale(value)}
        for number, value in values.items()
    ]
