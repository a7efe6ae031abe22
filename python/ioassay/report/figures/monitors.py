"""What happened over time, and what the machine did meanwhile: kinds `series`, `timeline`, `monitors` and `stack`.

Trials stand one after the other as if nothing had been between them, with their boundaries marked, so a run that was
resumed days later is as long as its loads. A value is drawn over the interval that it is the mean of. Rates come from
`analysis.measurements.monitor_rates`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from ioassay._core import percentile
from ioassay.analysis.measurements import monitor_rates
from ioassay.factors import factor_label, is_size, level_label
from ioassay.metrics import format_metric
from ioassay.narrative.say import sentence
from ioassay.report.figures import Kind, axes, chart, selection
from ioassay.report.figures.chart import channel, pl, vconcat
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

Panel = Literal["cpu", "disk", "net", "memory", "pressure"]
_MOST_POINTS = 500
"""Of one line, over all trials."""
_GAP = 0.004
"""Between two trials, as a share of the whole time line."""
_LABEL_MOST_PX = 150
_MOST_LABELS = 60
_HIGH_PX = 200
"""A panel from this height on has twice as many ticks."""
_NAMES = {
    "user": "user",
    "nice": "user",
    "system": "kernel",
    "iowait": "waiting for I/O",
    "irq": "interrupts",
    "softirq": "interrupts",
    "steal": sentence("figures.stolen"),
    "read_bw": "read",
    "write_bw": "written",
    "read_iops": "reads",
    "write_iops": "writes",
    "read_await": "time of a read",
    "write_await": "time of a write",
    "rx_bytes": "received",
    "tx_bytes": "sent",
    **{
        f"{resource}.{field}": f"{resource}, {scope} tasks"
        for resource in ("cpu", "memory", "io", "irq")
        for field, scope in (("some_total", "some"), ("full_total", "all"))
    },
}
"""What a field's line or band is called; others by their names. Of CPU states idle is what is left to 100 %."""
_DEFAULTS = {
    "cpu": ("user", "nice", "system", "iowait", "irq", "softirq", "steal"),
    "disk": ("read_bw", "write_bw"),
    "memory": ("free_bytes", "cached_bytes", "dirty_bytes"),
    "net": ("rx_bytes", "tx_bytes"),
    "pressure": ("some_total", "full_total"),
}
_BANDS = list(dict.fromkeys(map(_NAMES.__getitem__, _DEFAULTS["cpu"])))
_DEVICES = {"disk": "device", "net": "interface"}
_UNITS = {"net": ("packets/s", "bytes/s"), "memory": ("per second", "bytes")}
"""Of fields that count, and of those that count bytes."""
_LABELS = {
    "cpu": sentence("figures.cpu_of_all"),
    "pressure": "Time spent waiting",
    "memory": "Memory",
    "net": "Network",
    "bytes/s": "Disk bandwidth",
    "requests/s": "Disk requests",
    "ms": "Disk waiting time",
}
"""Of a monitor, and of a disk's units."""


class TimelineSpec(FigureSpec):
    """Keys of a time line. `width` and `height` are those of one panel; `repetition` keeps one of each point."""

    panels: Annotated[tuple[Panel, ...], Field(min_length=1)] = ("cpu", "disk", "net", "memory")
    trials: Literal["all", "one"] = "all"
    order: Literal["run", "levels"] = "run"
    repetition: Annotated[int, Field(ge=0)] | None = None
    height: Annotated[int, Field(ge=60, le=2000)] = 110


def draw_timeline(records: Dataset, study: Study, spec: TimelineSpec, fields: Sequence[str] = ()) -> Any:
    """The panels below each other over one time axis; `fields` of a single one."""
    trials = selection.select(records, study, spec.where)
    if wanted := trials.filter(pl.col("repetition") == pl.lit(spec.repetition))["trial"].to_list():
        # Rates of other repetitions need not be derived.
        records = replace(records, samples=records.samples.filter(records.samples["trial"].is_in(wanted)))
    found: dict[str, MonitorLines] = {}
    absent: dict[str, NoData] = {}
    for panel in dict.fromkeys(spec.panels):
        try:
            found[panel] = monitor_lines(records, study, panel, fields)
        except NoData as reason:
            absent[panel] = reason
    if not found:
        listed = ", ".join(f'"{panel}"' for panel in absent)
        several = NoData(f"no monitor watched the study '{study.name}'; it needs watch.monitors = [{listed}]")
        raise several if len(absent) > 1 else absent[panel]
    readings = pl.concat([lines.frame.select("trial", "time_s") for lines in found.values()])
    last_s = dict(readings.group_by("trial").agg(pl.col("time_s").max()).iter_rows())
    every = [row for row in trials.sort("order").iter_rows(named=True) if row["trial"] in last_s]
    one = spec.trials == "one"
    repetition = 0 if one and spec.repetition is None else spec.repetition
    rows = [row for row in every if repetition in (None, row["repetition"])]
    if not rows:
        asked = "" if repetition is None else f" in repetition {repetition}"
        others = f"; {len(every)} were in others" if every else ""
        raise NoData(f"no trial that went well was watched{asked}{others}")
    if spec.order == "levels":
        rows.sort(key=study.design.place)
    # A row a trial, from `x` to `x2`: as long as it was, or as the last reading that was taken.
    rows, varied = rows[:1] if one else rows, [name for name in study.levels if name not in spec.where]
    lengths = [max(float(row["duration_s"] or 0.0), last_s[row["trial"]]) for row in rows]
    points = [{name: row[name] for name in varied if row.get(name) is not None} for row in rows]
    gap_s, begin_s, spans = _GAP * sum(lengths), 0.0, list[VegaLite]()
    for row, length, point in zip(rows, lengths, points, strict=True):
        label = ", ".join(level_label(name, level) for name, level in point.items())
        spans.append({"trial": row["trial"], "x": begin_s, "x2": begin_s + length, "label": label})
        begin_s += length + gap_s
    by = f", by {', '.join(map(factor_label, varied))}" if varied else ""
    notes = [
        sentence("figures.trials_in_turn", number=len(rows), by=by)
        if rows[1:]
        else f"repetition {rows[0]['repetition'] + 1}",
        *dict.fromkeys(lines.note for lines in found.values()),
        f"not watched: {', '.join(absent)}" if absent else "",
        "" if rows[1:] else selection.describe_where(points[0]),
    ]
    panels = [_panel(name, spans, spec, found) for name in found]
    details = "; ".join(f"{lines.label} ({', '.join(lines.lines)})" for lines in found.values())
    whole = vconcat(*panels, spacing=6, resolve={"scale": {"color": "independent"}}) if panels[1:] else panels[0]
    title = sentence("figures.machine_title") if spec.panels[1:] else f"{found[panel].label} over time"
    return chart.figure(whole, spec, study, title, notes, details=details)


def _panel(name: str, spans: chart.Rows, spec: FigureSpec, every: Mapping[str, MonitorLines]) -> Any:
    """One panel; the trials' levels stand over the first of `every`, the time axis below the last.

    Only where there is one can it zoom.
    """
    found, (first, *_, last) = every[name], (*every, *every)
    stacked, ticks, end_s = name == "cpu", 3 if spec.height < _HIGH_PX else 6, spans[-1]["x2"]
    # Means over equal parts of the time line, at their ends.
    part = (pl.col("time_s") / max(end_s / _MOST_POINTS, 1e-9)).floor().alias("part")
    placed = found.frame.join(pl.DataFrame(spans).select("trial", begin_s="x"), on="trial")
    means = placed.group_by("trial", "begin_s", "line", part).agg(
        time_s=pl.col("time_s").max() + pl.col("begin_s").first(), value=pl.col("value").mean()
    )
    means = means.sort("time_s", "line")
    unit = axes.best_unit(found.unit, means["value"].to_list())
    rows = _interval_rows(means, found.lines, unit, stacked)
    x = chart.seconds("Time under load (s)" if name == last else None, end_s, labels=name == last)
    labels, height_px = list[Any](), 0
    if name == first and 1 < len(spans) <= _MOST_LABELS:
        # The trials' levels, upright where they would run into each other.
        longest = max(len(span["label"]) for span in spans) * chart.CHARACTER_PX
        upright = longest > spec.width / len(spans)
        height_px = min(int(longest) + 6, _LABEL_MOST_PX) if upright else 18
        middles = [{"x": (span["x"] + span["x2"]) / 2, "label": span["label"]} for span in spans]
        level: VegaLite = {"align": "center", "baseline": "bottom"}
        style = {"angle": 270, "align": "left", "baseline": "middle"} if upright else level
        text = chart.base(middles).mark("text", style="note", limit=_LABEL_MOST_PX, **style)
        labels = [text.encode(x=x, y={"value": -4}, text="label:N")]
    legend = {"offset": 2 + height_px, "symbolType": "square" if stacked else "stroke"}
    tooltip = chart.tips({"line:N": "", "x:Q": "time (s)", "value:Q": unit.name})
    base = chart.base(rows).encode(x=x, detail="trial:N", tooltip=tooltip)
    color = _lines_color(_BANDS if stacked else found.lines, legend=legend)
    if stacked:
        marks = base.mark("area", style="band", interpolate="step-before")
        marks = marks.encode(y=chart.percent("CPU (%)", tickCount=ticks), y2="y2:Q", color=color)
    else:
        # Upwards also where nothing was to be seen.
        y = _upwards(unit.titled(found.label), ticks, any(row["y"] for row in rows))
        marks = base.mark("line", style="curve", strokeWidth=1.5, interpolate="step-before").encode(y=y, color=color)
    # A line where one trial ends and the next begins, or at the end of the only one; every second trial shaded.
    ends = [(one["x2"] + other["x"]) / 2 for one, other in itertools.pairwise(spans)] or [end_s]
    rule = chart.base([{"x": end} for end in ends]).mark("rule", style="reference", strokeDash=[3, 3]).encode(x=x)
    frame = chart.base(spans[1::2]).mark("rect", style="frame")
    shaded = [frame.encode(x=x, x2="x2:Q", tooltip=chart.tips({"label:N": "trial"}))] if len(spans) > 1 else []
    drawn = [*shaded, rule, marks if len(every) > 1 else marks.zoomable(), *labels]
    if not any(row["value"] for row in rows):
        still = chart.base([{"text": sentence("figures.nothing_all_the_time")}]).mark(
            "text", style="note", align="right", dy=-7
        )
        drawn.append(still.encode(x={"value": "width"}, y={"value": "height"}, text="text:N"))
    return chart.panel(drawn, spec.width, spec.height)


def _upwards(title: str, ticks: int = 6, seen: bool = True) -> Any:
    """The y channel of amounts from zero on; `seen` is whether any is above it."""
    scale = {"zero": True, "nice": ticks} if seen else {"domain": [0, 1]}
    return channel("y:Q", title=title, scale=scale, axis={"tickCount": ticks})


def _lines_color(lines: Sequence[str], **look: Any) -> Any:
    return channel("line:N", title=None, sort=list(lines), scale={"domain": list(lines)}, **look)


def _interval_rows(means: pl.DataFrame, lines: Sequence[str], unit: axes.Unit, stacked: bool) -> list[VegaLite]:
    """The ends of the intervals, and the beginning of the first of each trial; `y` to `y2` where they are stacked."""
    first = means.group_by("trial", "line", maintain_order=True).first().with_columns(time_s=pl.col("begin_s"))
    both = pl.concat([first.select(means.columns), means]).with_columns(pl.col("line").cast(pl.Enum(lines)))
    both = both.unique(["trial", "time_s", "line"]).sort("time_s", "line")
    # Their numbers keep lines of different trials apart as well as their ids would, in a smaller page.
    numbers = {trial: number for number, trial in enumerate(both["trial"].unique(maintain_order=True))}
    rows: list[VegaLite] = []
    tops: dict[tuple[str, float], float] = {}
    for trial, time_s, line, value in both.select("trial", "time_s", "line", "value").iter_rows():
        scaled, low = unit.scale(value), tops.get((trial, time_s), 0.0)
        tops[trial, time_s] = low + scaled
        row = {"trial": numbers[trial], "line": line, "x": float(f"{time_s:.6g}"), "value": float(f"{scaled:.4g}")}
        rows.append({**row, **({"y": round(low, 4), "y2": round(low + scaled, 4)} if stacked else {"y": scaled})})
    return rows


# What a monitor saw, as named lines over time in one unit


@dataclass(frozen=True)
class MonitorLines:
    """Long frame of one monitor: trial, time_s, line, value (all in `unit`). `lines` in order; `label` for the axis."""

    frame: pl.DataFrame
    lines: Sequence[str]
    unit: str
    label: str
    note: str


def monitor_lines(records: Dataset, study: Study, monitor: str, fields: Sequence[str] = ()) -> MonitorLines:
    """What `monitor` saw during the load of every trial; NoData when it was not asked to watch."""
    shown, unit, note = fields or _DEFAULTS[monitor], "%", ""
    if monitor == "cpu":
        shown, found = _DEFAULTS["cpu"], monitor_rates.cpu(records, study, "all")
        found = found.rename({"state": "field", "percent": "value"})
    elif monitor == "pressure":
        # The counters are µs of waiting, so µs a second is a share of the time.
        found = monitor_rates.per_second(records, study, monitor).with_columns(pl.col("value") / 1e4, field="name")
        shown = [name for name in _NAMES if name.partition(".")[2] in shown]
    else:
        units: Mapping[str, str] = monitor_rates.DISK_QUANTITIES
        if monitor != "disk":
            units = {field: _UNITS[monitor][field.endswith("_bytes")] for field in shown}
        if unknown := [field for field in shown if field not in units]:
            raise NoData(f"the monitor '{monitor}' has no field '{unknown[0]}'; known: {', '.join(units)}")
        unit, *others = shared = sorted({units[field] for field in shown})
        if others:
            raise NoData(
                f"the fields {', '.join(shown)} have the units {', '.join(shared)}; expected one unit a figure"
            )
        of = {"disk": monitor_rates.disk, "net": monitor_rates.network}.get(monitor)
        found = of(records, study) if of else monitor_rates.per_second(records, study, monitor)
        names = {"interface": "device", "quantity": "field"} if of else {"name": "field"}
        found = found.rename({name: new for name, new in names.items() if name in found.columns})
    if monitor in _DEVICES:
        # The one that moved most, so that a disk and its partitions are not counted twice.
        moved = found.filter(pl.col("field").is_in(_DEFAULTS[monitor])).group_by("device").agg(pl.col("value").sum())
        device = next(iter(moved.sort("value", "device", descending=[True, False])["device"].to_list()), "")
        found, note = found.filter(pl.col("device") == device), f"{_DEVICES[monitor]} {device}"
    lines = {field: _NAMES.get(field) or field.removesuffix("_bytes").replace("_", " ") for field in shown}
    named = found.filter(pl.col("field").is_in(list(lines))).with_columns(line=pl.col("field").replace(lines))
    summed = named.group_by("trial", "time_s", "line").agg(pl.col("value").sum()).sort("trial", "time_s")
    frame = monitor_rates.during_load(summed)
    if frame.is_empty():
        nothing = sentence("figures.nothing_recorded", monitor=monitor, study=study.name)
        raise NoData(f'{nothing}; it needs watch.monitors = ["{monitor}"]')
    present = set(frame["line"].unique().to_list())
    label = _LABELS.get(monitor) or _LABELS.get(unit, "Disk")
    return MonitorLines(frame, [line for line in dict.fromkeys(lines.values()) if line in present], unit, label, note)


BANDS = ("usr", "sys", "iowait", "irq", "soft", "steal", "nice", "guest")
"""States of mpstat from the bottom, `gnice` with the guests; idle is what is left."""
_SELDOM = ("nice", "guest")
"""Bands that are in the legend only where they occur."""
_SEEN = 0.05
"""The share in per cent from which on they do."""


class StackSpec(FigureSpec):
    """Keys of stacked processor time. `core`: 'all', or one as 'cpu0'."""

    x: str | None = None
    core: Annotated[str, Field(pattern=r"^(all|cpu\d+)$")] = "all"


def draw_stack(records: Dataset, study: Study, spec: StackSpec) -> Any:
    """One bar a level. Each trial counts as one, with the shares of its whole time."""
    trials = selection.select(records, study, spec.where)
    factor = selection.main_factor(study, spec.x, spec.where)
    selection.require_factor(study, factor)
    means, counts = level_means(records, study, trials, factor, spec.core)
    axis = axes.LevelAxis(factor, study.design.in_order(factor, list(counts)))
    whose = sentence("figures.cpu_of_all") if spec.core == "all" else f"Time of {spec.core}"
    drawn = stacked_bars(means, axis, axis.encoding(spec.width), chart.percent(f"{whose} (%), grey: idle"))
    pooled = selection.pooled(selection.points_of(study, trials), factor)
    notes = ["means over trials", selection.repetitions_text(list(counts.values())), pooled]
    told: list[VegaLite] = []
    for level in axis.levels:
        shares = [(line, means[level].get(line, 0.0)) for line in (*BANDS, "idle")]
        text = ", ".join(f"{line} {share:.0f} %" for line, share in shares if share >= 0.5)
        told.append({"level": axis.position(level), "mean_text": text})
    return chart.layered(drawn, spec, study, f"{whose} by state against {factor_label(factor)}", notes, points=told)


def stacked_bars(
    means: Mapping[Any, Mapping[str, float]], axis: axes.LevelAxis, x: Any, y: Any, every: bool = False
) -> list[Any]:
    """One bar a level of `axis` from its `level_means`: idle behind, the states in front of it.

    The legend has `every` state, for charts that share it, or those that are usual or occur.
    """
    occur = [line for line in _SELDOM if every or any(shares.get(line, 0.0) >= _SEEN for shares in means.values())]
    legend = {"values": [line for line in BANDS if line not in _SELDOM or line in occur], "symbolType": "square"}
    # A state has one colour in every figure, whatever others there are.
    color = channel("part:N", title=None, scale={"domain": list(BANDS)}, legend=legend)
    busy, behind = list[VegaLite](), list[VegaLite]()
    for level in axis.levels:
        shares = [(line, means[level].get(line, 0.0)) for line in (*BANDS, "idle")]
        *stack, idle = chart.stack(axis.position(level), [(line, share, f"{share:.1f} %") for line, share in shares])
        busy += [{**one, "y2": min(one["y2"], 100.0)} for one in stack if one["y2"] > one["y"]]
        behind += [{**idle, "y2": 100.0}] if idle["y"] < 100 else []
    look: VegaLite = {
        "x": x,
        "y": y,
        "y2": "y2:Q",
        "tooltip": chart.tips({"x:N": "level", "part:N": "state", "text:N": ""}),
    }
    frame = chart.base(behind).mark("bar", style="frame", width={"band": 0.72}).encode(**look)
    return [frame, chart.base(busy).mark("bar", style="band", width={"band": 0.72}).encode(color=color, **look)]


def level_means(
    records: Dataset, study: Study, trials: pl.DataFrame, factor: str, core: str = "all"
) -> tuple[dict[Any, dict[str, float]], dict[Any, int]]:
    """Level -> band -> mean share in per cent, and level -> number of trials."""
    found = monitor_rates.mpstat(records, study, core, whole=True)
    joined = found.join(trials.select("trial", level=factor), on="trial").drop_nulls("level")
    if joined.is_empty():
        raise NoData(f"nothing watched '{core}' in the study '{study.name}'; it needs watch.monitors = [\"cpu\"]")
    counts = dict(joined.group_by("level").agg(pl.col("trial").n_unique()).iter_rows())
    banded = joined.with_columns(line=pl.col("state").replace({"gnice": "guest"}))
    means: dict[Any, dict[str, float]] = {level: {} for level in counts}
    for level, line, percent in banded.group_by("level", "line").agg(pl.col("percent").sum()).iter_rows():
        means[level][line] = percent / counts[level]
    return means, counts


TIME = "time"


class MonitorSpec(FigureSpec):
    monitor: Panel
    fields: tuple[str, ...] = ()
    x: str = TIME
    repetition: Annotated[int, Field(ge=0)] = 0


def draw_monitor(records: Dataset, study: Study, spec: MonitorSpec) -> Any:
    """One trial over time, or the mean of each level; of processors this is the kind `stack`."""
    keys = spec.model_dump(exclude={"monitor", "fields", "x", "repetition"})
    if spec.x == TIME:
        alone = TimelineSpec(**keys, panels=(spec.monitor,), trials="one", repetition=spec.repetition)
        return draw_timeline(records, study, alone, spec.fields)
    trials = selection.select(records, study, spec.where)
    selection.require_factor(study, spec.x)
    if spec.monitor == "cpu":
        return draw_stack(records, study, StackSpec(**keys, x=spec.x))
    found = monitor_lines(records, study, spec.monitor, spec.fields)
    joined = found.frame.join(trials.select("trial", level=spec.x), on="trial").drop_nulls("level")
    if joined.is_empty():
        raise NoData(f"no trial that went well was watched at a level of '{spec.x}'")
    # The mean of each trial's own mean: a long trial counts as one.
    each = joined.group_by("trial", "level", "line", maintain_order=True).agg(pl.col("value").mean())
    means = each.group_by("level", "line", maintain_order=True).agg(pl.col("value").mean()).sort("line", "level")
    axis = axes.level_axis(spec.x, study.design.in_order(spec.x, means["level"].unique().to_list()), is_size(spec.x))
    unit = axes.best_unit(found.unit, means["value"].to_list())
    rows = [
        {"line": line, "x": axis.position(level), "y": unit.scale(value)}
        for level, line, value in means.select("level", "line", "value").iter_rows()
    ]
    y, color = _upwards(unit.titled(found.label)), _lines_color(found.lines)
    tooltip = chart.tips({"line:N": "", "x:N": "level", "y:Q": unit.name or "value"})
    curves = chart.base(rows).mark("line", style="curve", point=True)
    curves = curves.encode(x=axis.encoding(spec.width), y=y, color=color, tooltip=tooltip)
    pooled = selection.pooled(selection.points_of(study, trials), spec.x)
    notes = [found.note, f"mean of {trials.height} trials", pooled]
    return chart.layered([curves], spec, study, f"{found.label} against {factor_label(spec.x)}", notes)


_MOST_LOGGED = 160
"""Of one line; a longer log is averaged over equal spans of time."""
_MOST_LINES = 30
"""Of single trials; more would hide each other, and are shown by their mean alone."""


class SeriesSpec(FigureSpec):
    y: str
    color: str | None = None
    trials: bool = True


def draw_series(records: Dataset, study: Study, spec: SeriesSpec) -> Any:
    """A metric from logs: every trial faintly, their mean in front, the steady part shaded."""
    trials = selection.select(records, study, spec.where)
    if spec.color is not None:
        selection.require_factor(study, spec.color)
    frame, since, step_s = _logged(records, study, trials, spec)
    shown = trials.filter(trials["trial"].is_in(frame["trial"].unique().to_list()))
    unit = axes.unit_for(spec.y, frame["value"].to_list())
    end_s = float(frame["span"].to_numpy().max() + 1) * step_s
    marks = chart.level_marks(records, study, spec.color, shown[spec.color].to_list() if spec.color else [])
    color = marks.color(symbolType=chart.DASH, symbolStrokeWidth=2, labelOffset=8)
    y = axes.metric_axis(spec.y, frame["value"].to_list(), False).encoding()
    channels = {"x": chart.seconds(end_s=end_s), "y": y, **color}
    if spec.color is not None:
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
    steady = sentence("figures.none_steady")
    if since:
        half_s = percentile(sorted(since), 0.5)
        told = sentence("figures.some_steady", number=len(since), of=shown.height)
        steady = sentence("figures.half_since", some=told, seconds=f"{half_s:.2g}")
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
    records: Dataset, study: Study, trials: pl.DataFrame, spec: SeriesSpec
) -> tuple[pl.DataFrame, list[float], float]:
    """What the trials logged, as means over spans of one length; when the steady parts began; and that length.

    It is the longest of the logs' own intervals and what the figure can show. Columns: group, trial, span, value.
    """
    from ioassay.analysis.measurements.log_samples import samples
    from ioassay.analysis.stability import within_trial

    logged = samples(records, study, spec.y)
    parts, since, steps_s = [], [], [0.0]
    for row in trials.iter_rows(named=True):
        if (found := logged.get(row["trial"])) is None:
            continue
        level = row.get(spec.color) if spec.color else None
        group = level_label(spec.color, level) if spec.color and level is not None else ""
        part = pl.DataFrame({"time_s": found.time_s, "value": found.value}).sort("time_s")
        parts.append(part.with_columns(group=pl.lit(group), trial=pl.lit(row["trial"])))
        first_s, last_s, intervals = float(found.time_s[0]), float(found.time_s[-1]), found.time_s.size - 1
        steps_s += [last_s / _MOST_LOGGED, (last_s - first_s) / intervals if intervals else 0.0]
        judged = within_trial(found)
        if judged is not None and judged.since_s is not None:
            since.append(judged.since_s)
    if not parts:
        raise NoData(f"no trial kept a log of '{spec.y}'; the parameter logs asks fio for one: logs = [\"bw\"]")
    step_s = max(steps_s) or 1.0
    span = (pl.col("time_s") / step_s).floor().clip(0).cast(pl.Int64)
    spans = pl.concat(parts).group_by("group", "trial", span.alias("span"), maintain_order=True)
    return spans.agg(pl.col("value").mean()), since, step_s


TIMELINE, STACK = Kind(TimelineSpec, draw_timeline), Kind(StackSpec, draw_stack)
MONITORS, SERIES = Kind(MonitorSpec, draw_monitor), Kind(SeriesSpec, draw_series)
