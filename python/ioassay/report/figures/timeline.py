"""What the machine did over one trial or over all of them: processor, disk, network and memory, one panel each.

Trials stand one after the other as if nothing had been between them, with their boundaries marked, so a run that was
resumed days later is as long as its loads. A value is drawn over the interval that it is the mean of.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ioassay.factors import factor_label, level_label
from ioassay.report.figures import chart_marks, scales, selection, titles
from ioassay.report.figures.monitor_lines import BANDS, MonitorLines, monitor_lines
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

Panel = Literal["cpu", "disk", "net", "memory", "pressure"]
_MOST_POINTS = 500
"""Of one line, over all trials."""
_GAP = 0.004
"""Between two trials, as a share of the whole time line."""
_LABEL_PX = 5.5
"""Mean width of a character of a trial's label."""
_LABEL_MOST_PX = 150
_MOST_LABELS = 60


class Spec(FigureSpec):
    """Keys of a time line. `width` and `height` are those of one panel; `repetition` keeps one of each point."""

    panels: Annotated[tuple[Panel, ...], Field(min_length=1)] = ("cpu", "disk", "net", "memory")
    trials: Literal["all", "one"] = "all"
    order: Literal["run", "levels"] = "run"
    repetition: Annotated[int, Field(ge=0)] | None = None
    height: Annotated[int, Field(ge=60, le=2000)] = 110


@dataclass(frozen=True)
class _Span:
    """One trial on the time line, from `begin_s` to `end_s`."""

    trial: str
    begin_s: float
    end_s: float
    label: str


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The panels below each other over one time axis."""
    import altair as alt

    trials = selection.select(records, study, spec.where)
    found, absent = _found(_of_repetition(records, trials, spec.repetition), study, spec.panels)
    rows = _chosen(trials, found, study, spec)
    spans = _spans(rows, found, study, spec)
    named = 1 < len(spans) <= _MOST_LABELS
    places = range(len(found))
    panels = [
        _panel(panel, one, spans, spec, named=named and place == 0, last=place == places[-1])
        for place, (panel, one) in zip(places, found.items(), strict=True)
    ]
    notes = [
        f"{len(spans)} trials, one after the other{_labelled(study, spec)}"
        if len(spans) > 1
        else f"repetition {rows[0]['repetition'] + 1}",
        *dict.fromkeys(one.note for one in found.values()),
        f"not watched: {', '.join(absent)}" if absent else "",
        "" if len(spans) > 1 else spans[0].label,
    ]
    title = "What the machine did meanwhile"
    described = [f"{one.label} ({', '.join(one.lines)})" for one in found.values()]
    return (
        alt.vconcat(*panels, spacing=6)
        .resolve_scale(color="independent")
        .properties(
            title=titles.head(spec, study, title, notes),
            description=f"{titles.text(spec, title)}: {'; '.join(described)}. {'. '.join(filter(None, notes))}.",
        )
    )


def _of_repetition(records: Dataset, trials: pl.DataFrame, repetition: int | None) -> Dataset:
    """Without the samples of other repetitions: rates of those need not be derived. All, where it has none."""
    wanted = trials.filter(trials["repetition"] == repetition)["trial"].to_list() if repetition is not None else []
    if not wanted:
        return records
    return replace(records, samples=records.samples.filter(records.samples["trial"].is_in(wanted)))


def _found(records: Dataset, study: Study, panels: Sequence[Panel]) -> tuple[dict[str, MonitorLines], list[str]]:
    """What each panel shows, and the panels that nothing was recorded for; NoData when that is all of them."""
    found: dict[str, MonitorLines] = {}
    absent: list[str] = []
    for panel in dict.fromkeys(panels):
        try:
            found[panel] = monitor_lines(records, study, panel, ())
        except NoData:
            absent.append(panel)
    if not found:
        listed = ", ".join(f'"{panel}"' for panel in panels)
        raise NoData(f"no monitor watched the study '{study.name}'; it needs watch.monitors = [{listed}]")
    return found, absent


def _chosen(trials: pl.DataFrame, found: Mapping[str, MonitorLines], study: Study, spec: Spec) -> list[dict[str, Any]]:
    """The trials to show, in the order to show them in."""
    seen = {trial for one in found.values() for trial in one.frame["trial"].unique().to_list()}
    repetition = 0 if spec.trials == "one" and spec.repetition is None else spec.repetition
    rows = [
        row
        for row in trials.sort("order").iter_rows(named=True)
        if row["trial"] in seen and repetition in (None, row["repetition"])
    ]
    if not rows:
        asked = "" if repetition is None else f" in repetition {repetition}"
        raise NoData(f"no trial that went well was watched{asked}")
    if spec.order == "levels":
        known = {name: study.design.in_order(name, trials[name].to_list()) for name in _factors(study, trials)}
        rows.sort(key=lambda row: [levels.index(row[name]) for name, levels in known.items() if row[name] is not None])
    return rows[:1] if spec.trials == "one" else rows


def _factors(study: Study, trials: pl.DataFrame) -> list[str]:
    return [name for name in study.levels if name in trials.columns]


def _spans(
    rows: Sequence[Mapping[str, Any]], found: Mapping[str, MonitorLines], study: Study, spec: Spec
) -> list[_Span]:
    """Where each trial lies: as long as it was, or as the last reading that was taken of it."""
    lengths = [max(float(row["duration_s"] or 0.0), _last_s(found, row["trial"])) for row in rows]
    gap_s = _GAP * sum(lengths)
    begins = [0.0, *itertools.accumulate(length + gap_s for length in lengths)]
    varied = [name for name in study.levels if name not in spec.where]
    spans = []
    for row, begin_s, length in zip(rows, begins, lengths, strict=False):
        point = {name: row[name] for name in varied if row.get(name) is not None}
        told = selection.describe_where(point)
        if len(rows) > 1:
            told = ", ".join(level_label(name, level) for name, level in point.items())
        spans.append(_Span(row["trial"], begin_s, begin_s + length, told))
    return spans


def _labelled(study: Study, spec: Spec) -> str:
    """What the labels over the panels are levels of."""
    varied = [factor_label(name) for name in study.levels if name not in spec.where]
    return f", by {', '.join(varied)}" if varied else ""


def _last_s(found: Mapping[str, MonitorLines], trial: str) -> float:
    import polars as pl

    times = [one.frame.filter(pl.col("trial") == trial)["time_s"].max() for one in found.values()]
    return max((float(time_s) for time_s in times if time_s is not None), default=0.0)  # type: ignore[arg-type]


def _panel(name: str, found: MonitorLines, spans: Sequence[_Span], spec: Spec, named: bool, last: bool) -> Any:
    """One panel; the trials' names stand over one that is `named`, the time axis below the `last`."""
    import altair as alt

    stacked = name == "cpu"
    means = _intervals(found, spans)
    unit = scales.best_unit(found.unit, means["value"].to_list())
    rows = _rows(means, found.lines, unit, stacked)
    x = _time_axis(spans, shown=last)
    titled = "CPU (%)" if stacked else unit.titled(found.label)
    scale = alt.Scale(domain=[0, 100], nice=False) if stacked else _from_zero(rows)
    y = alt.Y("y:Q", title=titled, scale=scale, axis=alt.Axis(tickCount=3))
    domain = list(BANDS if stacked else found.lines)
    labels, height_px = _labels(spans, spec) if named else ([], 0)
    legend = alt.Legend(offset=2 + height_px, symbolType="square" if stacked else "stroke")
    color = alt.Color("line:N", title=None, sort=domain, scale=alt.Scale(domain=domain), legend=legend)
    shown = [alt.Tooltip("line:N"), alt.Tooltip("x:Q", title="time (s)"), alt.Tooltip("value:Q", title=unit.name)]
    base = alt.Chart(chart_marks.data(rows)).encode(x=x, y=y, color=color, detail="trial:N", tooltip=shown)
    if stacked:
        marks = base.mark_area(style="band", interpolate="step-before").encode(y2="y2:Q")
    else:
        marks = base.mark_line(style="curve", strokeWidth=1.5, interpolate="step-before")
    still = [] if any(row["value"] for row in rows) else [_still()]
    drawn = [*_boundaries(spans, x), marks, *still, *labels]
    return alt.layer(*drawn).properties(width=spec.width, height=spec.height)


def _still() -> Any:
    """What stands in a panel whose lines lie on the axis."""
    import altair as alt

    text = alt.Chart(chart_marks.data([{"text": "nothing the whole time"}])).mark_text(
        style="note", align="right", dy=-7
    )
    return text.encode(x=alt.value("width"), y=alt.value("height"), text="text:N")


def _from_zero(rows: chart_marks.Rows) -> Any:
    """A scale from zero, upwards also where nothing was to be seen."""
    import altair as alt

    return alt.Scale(zero=True, nice=3) if any(row["y"] for row in rows) else alt.Scale(domain=[0, 1])


def _intervals(found: MonitorLines, spans: Sequence[_Span]) -> pl.DataFrame:
    """Means over equal parts of the time line: trial, line, time_s (of the end, on the time line), value."""
    import polars as pl

    places = pl.DataFrame({"trial": [span.trial for span in spans], "begin_s": [span.begin_s for span in spans]})
    step_s = max(spans[-1].end_s / _MOST_POINTS, 1e-9)
    placed = found.frame.join(places, on="trial").with_columns(part=(pl.col("time_s") / step_s).floor())
    return (
        placed.group_by("trial", "begin_s", "line", "part")
        .agg(time_s=pl.col("time_s").max() + pl.col("begin_s").first(), value=pl.col("value").mean())
        .sort("time_s", "line")
    )


def _rows(means: pl.DataFrame, lines: Sequence[str], unit: scales.Unit, stacked: bool) -> list[VegaLite]:
    """The ends of the intervals, and the beginning of the first of each trial; `y` to `y2` where they are stacked."""
    import polars as pl

    first = means.group_by("trial", "line", maintain_order=True).first().with_columns(time_s=pl.col("begin_s"))
    both = pl.concat([first.select(means.columns), means]).sort("time_s", maintain_order=True)
    places: dict[tuple[str, float], dict[str, float]] = {}
    for trial, time_s, line, value in both.select("trial", "time_s", "line", "value").iter_rows():
        places.setdefault((trial, time_s), {})[line] = value
    # Their numbers keep lines of different trials apart as well as their ids would, in a smaller page.
    numbers = {trial: number for number, trial in enumerate(dict.fromkeys(trial for trial, _ in places))}
    rows: list[VegaLite] = []
    for (trial, time_s), values in places.items():
        x, low = float(f"{time_s:.6g}"), 0.0
        for line in lines:
            if line not in values:
                continue
            value = unit.scale(values[line])
            row = {"trial": numbers[trial], "line": line, "x": x, "value": float(f"{value:.4g}")}
            rows.append({**row, "y": round(low, 4), "y2": round(low + value, 4)} if stacked else {**row, "y": value})
            low += value
    return rows


def _time_axis(spans: Sequence[_Span], shown: bool) -> Any:
    import altair as alt

    axis = alt.Axis(tickCount=8) if shown else alt.Axis(labels=False, ticks=False, tickCount=8)
    scale = alt.Scale(domain=[0, spans[-1].end_s], nice=False)
    title = "Time under load (s)" if shown else None
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def _boundaries(spans: Sequence[_Span], x: Any) -> list[Any]:
    """A line where one trial ends and the next begins, or at the end of the only one; every second trial shaded."""
    import altair as alt

    ends = [(one.end_s + other.begin_s) / 2 for one, other in itertools.pairwise(spans)] or [spans[0].end_s]
    rule = alt.Chart(chart_marks.data([{"x": end} for end in ends])).mark_rule(style="reference", strokeDash=[3, 3])
    shaded = [{"x": span.begin_s, "x2": span.end_s, "label": span.label} for span in spans[1::2]]
    marks = [rule.encode(x=x)]
    if shaded:
        frame = alt.Chart(chart_marks.data(shaded)).mark_rect(style="frame")
        marks.insert(0, frame.encode(x=x, x2="x2:Q", tooltip=[alt.Tooltip("label:N", title="trial")]))
    return marks


def _labels(spans: Sequence[_Span], spec: Spec) -> tuple[list[Any], int]:
    """The trials' levels over the first panel, upright where they would run into each other, and their height in px."""
    import altair as alt

    longest = max((len(span.label) for span in spans), default=0) * _LABEL_PX
    upright = longest > spec.width / len(spans)
    height = min(int(longest) + 6, _LABEL_MOST_PX) if upright else 16
    rows = [{"x": (span.begin_s + span.end_s) / 2, "label": span.label} for span in spans]
    style = (
        {"angle": 270, "align": "left", "baseline": "middle"} if upright else {"align": "center", "baseline": "bottom"}
    )
    text = alt.Chart(chart_marks.data(rows)).mark_text(style="note", limit=_LABEL_MOST_PX, **style)
    return [text.encode(x=_time_axis(spans, shown=False), y=alt.value(-4), text="label:N")], height
