"""What the machine did over one trial or over all of them: processor, disk, network and memory, one panel each.

Trials stand one after the other as if nothing had been between them, with their boundaries marked, so a run that was
resumed days later is as long as its loads. A value is drawn over the interval that it is the mean of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from ioassay.factors import factor_label, level_label
from ioassay.report.figures import chart, scales, selection
from ioassay.report.figures.chart import pl
from ioassay.report.figures.monitor_lines import BANDS, MonitorLines, monitor_lines
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.report.figures.vega_lite import channel, vconcat
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

Panel = Literal["cpu", "disk", "net", "memory", "pressure"]
_MOST_POINTS = 500
"""Of one line, over all trials."""
_GAP = 0.004
"""Between two trials, as a share of the whole time line."""
_LABEL_PX = 6.5
"""Mean width of a character of a trial's label."""
_LABEL_MOST_PX = 150
_MOST_LABELS = 60
_HIGH_PX = 200
"""A panel from this height on has twice as many ticks."""


class Spec(FigureSpec):
    """Keys of a time line. `width` and `height` are those of one panel; `repetition` keeps one of each point."""

    panels: Annotated[tuple[Panel, ...], Field(min_length=1)] = ("cpu", "disk", "net", "memory")
    trials: Literal["all", "one"] = "all"
    order: Literal["run", "levels"] = "run"
    repetition: Annotated[int, Field(ge=0)] | None = None
    height: Annotated[int, Field(ge=60, le=2000)] = 110


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The panels below each other over one time axis."""
    trials = selection.select(records, study, spec.where)
    if wanted := trials.filter(pl.col("repetition") == pl.lit(spec.repetition))["trial"].to_list():
        # Rates of other repetitions need not be derived.
        records = replace(records, samples=records.samples.filter(records.samples["trial"].is_in(wanted)))
    found, absent = _found(records, study, spec.panels)
    repetition = 0 if spec.trials == "one" and spec.repetition is None else spec.repetition
    rows = _watched(trials, found.values(), repetition)
    if spec.order == "levels":
        rows.sort(key=study.design.place)
    varied = [name for name in study.levels if name not in spec.where]
    spans = _spans(rows[:1] if spec.trials == "one" else rows, found.values(), varied)
    several, names = len(spans) > 1, list(found)
    panels = [
        _panel(name, one, spans, spec, labelled=several and name == names[0], last=name == names[-1])
        for name, one in found.items()
    ]
    by = f", by {', '.join(map(factor_label, varied))}" if varied else ""
    notes = [
        f"{len(spans)} trials, one after the other{by}" if several else f"repetition {rows[0]['repetition'] + 1}",
        *dict.fromkeys(one.note for one in found.values()),
        f"not watched: {', '.join(absent)}" if absent else "",
        "" if several else spans[0]["label"],
    ]
    details = "; ".join(f"{one.label} ({', '.join(one.lines)})" for one in found.values())
    whole = vconcat(*panels, spacing=6, resolve={"scale": {"color": "independent"}})
    return chart.figure(whole, spec, study, "What the machine did meanwhile", notes, details=details)


def single(
    trials: pl.DataFrame, monitor: str, found: MonitorLines, study: Study, spec: FigureSpec, repetition: int
) -> tuple[Any, list[str]]:
    """The panel of one monitor during the first trial of a repetition, and notes of what it shows."""
    rows = _watched(trials, [found], repetition)[:1]
    spans = _spans(rows, [found], [name for name in study.levels if name not in spec.where])
    drawn = _panel(monitor, found, spans, spec, zoom=True)
    return drawn, [found.note, f"repetition {repetition + 1}", spans[0]["label"]]


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


def _watched(trials: pl.DataFrame, found: Iterable[MonitorLines], repetition: int | None) -> list[dict[str, Any]]:
    """The trials that a monitor watched, of one repetition or of all (None), in the order they ran."""
    seen = {trial for one in found for trial in one.frame["trial"].unique().to_list()}
    every = [row for row in trials.sort("order").iter_rows(named=True) if row["trial"] in seen]
    rows = [row for row in every if repetition in (None, row["repetition"])]
    if not rows:
        asked = "" if repetition is None else f" in repetition {repetition}"
        others = f"; {len(every)} were in others" if every else ""
        raise NoData(f"no trial that went well was watched{asked}{others}")
    return rows


def _spans(rows: Sequence[Mapping[str, Any]], found: Iterable[MonitorLines], varied: Sequence[str]) -> chart.Rows:
    """A row a trial, from `x` to `x2` on the time line: as long as it was, or as the last reading that was taken."""
    readings = pl.concat([one.frame.select("trial", "time_s") for one in found])
    last_s = dict(readings.group_by("trial").agg(pl.col("time_s").max()).iter_rows())
    lengths = [max(float(row["duration_s"] or 0.0), last_s[row["trial"]]) for row in rows]
    gap_s = _GAP * sum(lengths)
    begins = [0.0, *itertools.accumulate(length + gap_s for length in lengths)]
    spans = []
    for row, begin_s, length in zip(rows, begins, lengths, strict=False):
        point = {name: row[name] for name in varied if row.get(name) is not None}
        short = ", ".join(level_label(name, level) for name, level in point.items())
        label = short if len(rows) > 1 else selection.describe_where(point)
        spans.append({"trial": row["trial"], "x": begin_s, "x2": begin_s + length, "label": label})
    return spans


def _panel(
    name: str,
    found: MonitorLines,
    spans: chart.Rows,
    spec: FigureSpec,
    labelled: bool = False,
    last: bool = True,
    zoom: bool = False,
) -> Any:
    """One panel; the trials' levels stand over one that is `labelled`, the time axis below the `last`.

    Only one panel of a chart can `zoom`.
    """
    stacked, ticks = name == "cpu", 3 if spec.height < _HIGH_PX else 6
    means = _intervals(found, spans)
    unit = scales.best_unit(found.unit, means["value"].to_list())
    rows = _rows(means, found.lines, unit, stacked)
    x = chart.seconds("Time under load (s)" if last else None, spans[-1]["x2"], labels=last)
    if stacked:
        y = chart.percent("CPU (%)", tickCount=ticks)
    else:
        # Upwards also where nothing was to be seen.
        scale = {"zero": True, "nice": ticks} if any(row["y"] for row in rows) else {"domain": [0, 1]}
        y = channel("y:Q", title=unit.titled(found.label), scale=scale, axis={"tickCount": ticks})
    labels, height_px = _labels(spans, spec, x) if labelled and len(spans) <= _MOST_LABELS else ([], 0)
    domain = list(BANDS if stacked else found.lines)
    legend = {"offset": 2 + height_px, "symbolType": "square" if stacked else "stroke"}
    color = channel("line:N", title=None, sort=domain, scale={"domain": domain}, legend=legend)
    tooltip = chart.tips({"line:N": "", "x:Q": "time (s)", "value:Q": unit.name})
    base = chart.base(rows).encode(x=x, y=y, color=color, detail="trial:N", tooltip=tooltip)
    if stacked:
        marks = base.mark("area", style="band", interpolate="step-before").encode(y2="y2:Q")
    else:
        marks = base.mark("line", style="curve", strokeWidth=1.5, interpolate="step-before")
    drawn = [*_boundaries(spans, x), marks.zoomable() if zoom else marks, *labels]
    if not any(row["value"] for row in rows):
        still = chart.base([{"text": "nothing the whole time"}]).mark("text", style="note", align="right", dy=-7)
        drawn.append(still.encode(x={"value": "width"}, y={"value": "height"}, text="text:N"))
    return chart.panel(drawn, spec.width, spec.height)


def _intervals(found: MonitorLines, spans: chart.Rows) -> pl.DataFrame:
    """Means over equal parts of the time line: trial, line, time_s (of the end, on the time line), value."""
    places = pl.DataFrame(spans).select("trial", begin_s="x")
    step_s = max(spans[-1]["x2"] / _MOST_POINTS, 1e-9)
    placed = found.frame.join(places, on="trial").with_columns(part=(pl.col("time_s") / step_s).floor())
    return (
        placed.group_by("trial", "begin_s", "line", "part")
        .agg(time_s=pl.col("time_s").max() + pl.col("begin_s").first(), value=pl.col("value").mean())
        .sort("time_s", "line")
    )


def _rows(means: pl.DataFrame, lines: Sequence[str], unit: scales.Unit, stacked: bool) -> list[VegaLite]:
    """The ends of the intervals, and the beginning of the first of each trial; `y` to `y2` where they are stacked."""
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
        for line in (line for line in lines if line in values):
            value = unit.scale(values[line])
            row = {"trial": numbers[trial], "line": line, "x": x, "value": float(f"{value:.4g}")}
            rows.append({**row, "y": round(low, 4), "y2": round(low + value, 4)} if stacked else {**row, "y": value})
            low += value
    return rows


def _boundaries(spans: chart.Rows, x: Any) -> list[Any]:
    """A line where one trial ends and the next begins, or at the end of the only one; every second trial shaded."""
    ends = [(one["x2"] + other["x"]) / 2 for one, other in itertools.pairwise(spans)] or [spans[0]["x2"]]
    rule = chart.base([{"x": end} for end in ends]).mark("rule", style="reference", strokeDash=[3, 3]).encode(x=x)
    if len(spans) < 2:
        return [rule]
    frame = chart.base(spans[1::2]).mark("rect", style="frame")
    return [frame.encode(x=x, x2="x2:Q", tooltip=chart.tips({"label:N": "trial"})), rule]


def _labels(spans: chart.Rows, spec: FigureSpec, x: Any) -> tuple[list[Any], int]:
    """The trials' levels over the first panel, upright where they would run into each other, and their height in px."""
    longest = max(len(span["label"]) for span in spans) * _LABEL_PX
    upright = longest > spec.width / len(spans)
    height = min(int(longest) + 6, _LABEL_MOST_PX) if upright else 18
    rows = [{"x": (span["x"] + span["x2"]) / 2, "label": span["label"]} for span in spans]
    level: VegaLite = {"align": "center", "baseline": "bottom"}
    style = {"angle": 270, "align": "left", "baseline": "middle"} if upright else level
    text = chart.base(rows).mark("text", style="note", limit=_LABEL_MOST_PX, **style)
    return [text.encode(x=x, y={"value": -4}, text="label:N")], height
