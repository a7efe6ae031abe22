"""A metric over time, from logs: every trial faintly, their mean in front, the steady part shaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.factors import level_label
from ioassay.metrics import format_metric
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart, chart_marks, level_marks, scales, selection
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


@dataclass(frozen=True)
class _Line:
    """One trial: values over spans of one length, by number of the span; `since_s`: start of its steady part."""

    trial: str
    level: Scalar | None
    values: Mapping[int, float]
    since_s: float | None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
    trials = selection.select(records, study, spec.where)
    lines, step_s = _lines(records, study, trials, spec)
    values = [value for line in lines for value in line.values.values()]
    unit = scales.unit_for(spec.y, values)
    levels = [] if spec.color is None else study.design.in_order(spec.color, [line.level for line in lines])
    end_s = max(max(line.values) + 1 for line in lines) * step_s
    channels = {
        "x": chart.seconds(end_s=end_s),
        "y": axes.metric_axis(spec.y, values, False).encoding(),
        **(level_marks.of(records, study, spec.color, levels).lines() if spec.color else {}),
    }

    def rows(line: _Line, values: Mapping[int, float]) -> list[VegaLite]:
        group = {} if spec.color is None or line.level is None else {"group": level_label(spec.color, line.level)}
        at = ((float(f"{(number + 0.5) * step_s:.5g}"), value) for number, value in values.items())
        return [{"trial": line.trial, **group, "x": x, "y": unit.scale(value)} for x, value in at]

    means: list[VegaLite] = []
    for level in levels or [None]:
        members = [line for line in lines if level is None or line.level == level]
        mean = _mean(members)
        texts = [format_metric(spec.y, value) for value in mean.values()]
        means += [{**row, "text": text} for row, text in zip(rows(members[0], mean), texts, strict=True)]
    tooltip = chart.tips({"x:Q": "time (s)", "text:N": "mean"})
    drawn = [chart.base(means).mark_line(style="curve", strokeWidth=2).encode(tooltip=tooltip, **channels)]
    drawn[0] = drawn[0].add_params(chart_marks.zoom())
    faint = spec.trials and 1 < len(lines) <= _MOST_LINES
    if faint:
        each = chart.base([row for line in lines for row in rows(line, line.values)])
        drawn.insert(0, each.mark_line(style="repetition", strokeWidth=0.8).encode(detail="trial:N", **channels))
    since = sorted(line.since_s for line in lines if line.since_s is not None)
    if since and spec.color is None:
        window = chart.base([{"x": _median(since), "x2": end_s}]).mark_rect(style="window")
        drawn.insert(0, window.encode(x=channels["x"], x2="x2:Q"))
    shown = trials.filter(trials["trial"].is_in([line.trial for line in lines]))
    notes = [
        f"mean of {len(lines)} trials" if len(lines) > 1 else "one trial",
        "each trial faint" if faint else "",
        f"averages over {step_s:.3g} s",
        _steady_text(since, len(lines)),
        selection.pooled(selection.points_of(study, shown), spec.color),
    ]
    return chart.layered(drawn, spec, study, f"{selection.metric_label(spec.y)} over time", notes)


def _lines(records: Dataset, study: Study, trials: pl.DataFrame, spec: Spec) -> tuple[list[_Line], float]:
    """The trials' lines over spans of one length, and that length: the longest interval of a log, or more."""
    from ioassay.analysis.measurements.log_samples import samples
    from ioassay.analysis.stability import steadiness

    if spec.color is not None:
        selection.require_factor(study, spec.color)
    logged = samples(records, study, spec.y)
    known = [row for row in trials.iter_rows(named=True) if row["trial"] in logged]
    if not known:
        raise NoData(f"no trial kept a log of '{spec.y}'; the parameter logs asks fio for one: logs = [\"bw\"]")
    times = [logged[row["trial"]].time_s for row in known]
    intervals = [float(time_s[-1] - time_s[0]) / (time_s.size - 1) for time_s in times if time_s.size > 1]
    step_s = max([max(float(time_s[-1]) for time_s in times) / _MOST_POINTS, *intervals]) or 1.0
    lines = []
    for row in known:
        found = logged[row["trial"]]
        spans: dict[int, list[float]] = {}
        for time_s, value in zip(found.time_s.tolist(), found.value.tolist(), strict=True):
            spans.setdefault(max(math.floor(time_s / step_s), 0), []).append(value)
        values = {number: math.fsum(span) / len(span) for number, span in sorted(spans.items())}
        judged = steadiness.within_trial(found)
        since_s = judged.since_s if isinstance(judged, steadiness.WithinTrial) else None
        lines.append(_Line(row["trial"], row.get(spec.color) if spec.color else None, values, since_s))
    return lines, step_s


def _mean(members: Sequence[_Line]) -> dict[int, float]:
    """The mean of trials over each span that all of them cover."""
    spans = sorted(set.intersection(*(set(line.values) for line in members)))
    return {span: math.fsum(line.values[span] for line in members) / len(members) for span in spans}


def _steady_text(since: Sequence[float], trials: int) -> str:
    if not since:
        return "no trial ended in steady state"
    return f"{len(since)} of {trials} ended in steady state, half of them since {_median(since):.2g} s or earlier"


def _median(ordered: Sequence[float]) -> float:
    from ioassay._core import percentile

    return float(percentile(list(ordered), 0.5))
