"""What the machine did over one trial or over all of them: processor, disk, network and memory, one panel each.

Trials stand one after the other as if nothing had been between them, with their boundaries marked, so a run that was
resumed days later is as long as its loads. A value is drawn over the interval that it is the mean of. Rates come from
`analysis.measurements.monitor_rates`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from ioassay.analysis.measurements import monitor_rates, sysstat
from ioassay.factors import factor_label, level_label
from ioassay.report.figures import chart, scales, selection
from ioassay.report.figures.chart import pl
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.report.figures.vega_lite import vconcat
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

_STATES = {
    "user": "user",
    "nice": "user",
    "system": "kernel",
    "iowait": "waiting for I/O",
    "irq": "interrupts",
    "softirq": "interrupts",
    "steal": "stolen by the hypervisor",
}
"""CPU state -> band of the chart; idle is what is left to 100 %."""
_BANDS = list(dict.fromkeys(_STATES.values()))
_NAMES = {
    "read_bw": "read",
    "write_bw": "written",
    "read_iops": "reads",
    "write_iops": "writes",
    "read_await": "time of a read",
    "write_await": "time of a write",
    "rx_bytes": "received",
    "tx_bytes": "sent",
}
_DEFAULTS = {
    "disk": ("read_bw", "write_bw"),
    "memory": ("free_bytes", "cached_bytes", "dirty_bytes"),
    "net": ("rx_bytes", "tx_bytes"),
    "pressure": ("some_total", "full_total"),
}
_DEVICES = {"disk": "device", "net": "interface"}
_UNITS = {"net": ("packets/s", "bytes/s"), "memory": ("per second", "bytes")}
"""Of fields that count, and of those that count bytes."""
_LABELS = {"bytes/s": "Disk bandwidth", "requests/s": "Disk requests", "ms": "Disk waiting time"}


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
    found: dict[str, MonitorLines] = {}
    absent: list[str] = []
    for panel in dict.fromkeys(spec.panels):
        try:
            found[panel] = monitor_lines(records, study, panel)
        except NoData:
            absent.append(panel)
    if not found:
        listed = ", ".join(f'"{panel}"' for panel in spec.panels)
        raise NoData(f"no monitor watched the study '{study.name}'; it needs watch.monitors = [{listed}]")
    repetition = 0 if spec.trials == "one" and spec.repetition is None else spec.repetition
    rows = _watched(trials, found.values(), repetition)
    if spec.order == "levels":
        rows.sort(key=study.design.place)
    spans, varied = _spans(rows[:1] if spec.trials == "one" else rows, found.values(), study, spec)
    several, (first, *_, last) = len(spans) > 1, (*found, *found)
    panels = [_panel(name, one, spans, spec, several and name == first, name == last) for name, one in found.items()]
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


def draw_trial(
    trials: pl.DataFrame, monitor: str, found: MonitorLines, study: Study, spec: FigureSpec, repetition: int
) -> Any:
    """What one monitor saw during the first trial of a repetition."""
    spans, _ = _spans(_watched(trials, [found], repetition)[:1], [found], study, spec)
    notes = [found.note, f"repetition {repetition + 1}", spans[0]["label"]]
    drawn = _panel(monitor, found, spans, spec, zoom=True)
    return chart.figure(drawn, spec, study, f"{found.label} over time", notes)


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


def _spans(
    rows: Sequence[Mapping[str, Any]], found: Iterable[MonitorLines], study: Study, spec: FigureSpec
) -> tuple[chart.Rows, list[str]]:
    """A row a trial, from `x` to `x2`: as long as it was, or as the last reading that was taken; factors that vary."""
    varied = [name for name in study.levels if name not in spec.where]
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
    return spans, varied


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
    labels, height_px = _labels(spans, spec, x) if labelled and len(spans) <= _MOST_LABELS else ([], 0)
    legend = {"offset": 2 + height_px, "symbolType": "square" if stacked else "stroke"}
    tooltip = chart.tips({"line:N": "", "x:Q": "time (s)", "value:Q": unit.name})
    base = chart.base(rows).encode(x=x, detail="trial:N", tooltip=tooltip)
    if stacked:
        y, color = chart.percent("CPU (%)", tickCount=ticks), chart.lines_color(_BANDS, legend=legend)
        marks = base.mark("area", style="band", interpolate="step-before").encode(y=y, y2="y2:Q", color=color)
    else:
        # Upwards also where nothing was to be seen.
        y = chart.upwards(unit.titled(found.label), ticks, any(row["y"] for row in rows))
        color = chart.lines_color(found.lines, legend=legend)
        marks = base.mark("line", style="curve", strokeWidth=1.5, interpolate="step-before").encode(y=y, color=color)
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


def _boundaries(spans: chart.Rows, x: Any) -> list[Any]:
    """A line where one trial ends and the next begins, or at the end of the only one; every second trial shaded."""
    ends = [(one["x2"] + other["x"]) / 2 for one, other in itertools.pairwise(spans)] or [spans[0]["x2"]]
    rule = chart.base([{"x": end} for end in ends]).mark("rule", style="reference", strokeDash=[3, 3]).encode(x=x)
    frame = chart.base(spans[1::2]).mark("rect", style="frame")
    shaded = frame.encode(x=x, x2="x2:Q", tooltip=chart.tips({"label:N": "trial"}))
    return [shaded, rule] if len(spans) > 1 else [rule]


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
    found, names, unit, label = _rates(records, study, monitor, fields or _DEFAULTS.get(monitor, ()))
    note = ""
    if monitor in _DEVICES:
        # The one that moved most, so that a disk and its partitions are not counted twice.
        moved = found.filter(pl.col("field").is_in(_DEFAULTS[monitor])).group_by("device").agg(pl.col("value").sum())
        device = next(iter(moved.sort("value", "device", descending=[True, False])["device"].to_list()), "")
        found, note = found.filter(pl.col("device") == device), f"{_DEVICES[monitor]} {device}"
    named = found.filter(pl.col("field").is_in(list(names))).with_columns(line=pl.col("field").replace(names))
    lines = named.group_by("trial", "time_s", "line").agg(pl.col("value").sum()).sort("trial", "time_s")
    frame = monitor_rates.during_load(lines)
    if frame.is_empty():
        nothing = f"the monitor '{monitor}' recorded nothing of that for the study '{study.name}'"
        raise NoData(f'{nothing}; it needs watch.monitors = ["{monitor}"]')
    present = set(frame["line"].unique().to_list())
    return MonitorLines(frame, [line for line in dict.fromkeys(names.values()) if line in present], unit, label, note)


def _rates(
    records: Dataset, study: Study, monitor: str, fields: Sequence[str]
) -> tuple[pl.DataFrame, Mapping[str, str], str, str]:
    """Rates by `field`, of several by `device`; the fields to show and what their lines are called; unit; label."""
    if monitor == "cpu":
        found = monitor_rates.cpu(records, study).filter(pl.col("core") == "all")
        return found.rename({"state": "field", "percent": "value"}), _STATES, "%", "CPU time of all cores"
    if monitor == "pressure":
        # The counters are µs of waiting, so µs a second is a share of the time.
        found = monitor_rates.per_second(records, study, "pressure").with_columns(pl.col("value") / 1e4, field="name")
        scopes = {field: scope for field, scope in (("some_total", "some"), ("full_total", "all")) if field in fields}
        resources = ("cpu", "memory", "io", "irq")
        waits = {f"{one}.{field}": f"{one}, {scope} tasks" for one in resources for field, scope in scopes.items()}
        return found, waits, "%", "Time spent waiting"
    unit = _shared_unit(monitor, fields)
    if monitor == "memory":
        found = monitor_rates.per_second(records, study, "memory").rename({"name": "field"})
        return found, {field: field.removesuffix("_bytes").replace("_", " ") for field in fields}, unit, "Memory"
    names = {field: _NAMES.get(field, field) for field in fields}
    if monitor == "net":
        found = sysstat.network(records, study).rename({"interface": "device", "quantity": "field"})
        return found, names, unit, "Network"
    return monitor_rates.disk(records, study).rename({"quantity": "field"}), names, unit, _LABELS.get(unit, "Disk")


def _shared_unit(monitor: str, fields: Sequence[str]) -> str:
    """The unit of all fields; NoData where they have several: one axis has one unit."""
    units: Mapping[str, str] = monitor_rates.DISK_QUANTITIES
    if monitor != "disk":
        units = {field: _UNITS[monitor][field.endswith("_bytes")] for field in fields}
    if unknown := [field for field in fields if field not in units]:
        raise NoData(f"the monitor '{monitor}' has no field '{unknown[0]}'; known: {', '.join(units)}")
    shared = sorted({units[field] for field in fields})
    if len(shared) != 1:
        raise NoData(f"the fields {', '.join(fields)} have the units {', '.join(shared)}; expected one unit a figure")
    return shared[0]
