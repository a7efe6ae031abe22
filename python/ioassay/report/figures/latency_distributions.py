"""Distributions of latencies: kinds `cdf`, `latency_histogram` and `latency_heatmap`.

The axis of shares has a decade of slower requests in each step (90, 99, 99.9 %), as plots of HdrHistogram do, and each
curve ends where too few requests are slower; on a linear axis the tail would be a line along the upper edge. The height
of a histogram is the number of requests in steps of equal ratio; each level reaches its own peak, so that shapes
compare. Over time, single requests are visible next to millions, since colours are logarithmic; averages are the kind
`series`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ioassay._core import Histogram
from ioassay.analysis.measurements import log_samples
from ioassay.errors import InputError
from ioassay.factors import CASE, axis_title, factor_label, level_label
from ioassay.metrics import percentile_name
from ioassay.records.record import Scalar
from ioassay.report.figures import Kind, axes, chart, metric_view, selection
from ioassay.report.figures.chart import channel, concat, layer, pl
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

if TYPE_CHECKING:
    from ioassay.records.record import LatencyWindow

_KINDS = {"lat": "total", "clat": "completion", "slat": "submission"}
Percentage = Annotated[float, Field(gt=0, lt=100)]


class LatencySpec(FigureSpec):
    """Keys of every distribution of latencies."""

    direction: Direction
    latency: Latency
    color: str | None = None


@dataclass(frozen=True)
class LatencyLevels:
    """One histogram a level, in the order of the study; one for None where no factor varies."""

    name: str
    """Of the latency: `Read total latency`."""
    factor: str | None
    merged: Mapping[Scalar | None, Histogram]
    counted: str
    """How much was merged: `177 k requests of 9 trials`."""
    pooled: str
    marks: chart.LevelMarks

    def group(self, level: Scalar | None) -> VegaLite:
        """The field that tells rows of a level from those of others."""
        return {} if self.factor is None or level is None else {"group": level_label(self.factor, level)}

    @property
    def tips(self) -> dict[str, str]:
        """What hovering tells of a level."""
        return {"group:N": factor_label(self.factor)} if self.factor else {}

    def supported(self) -> LatencyLevels:
        """The levels with enough requests for a median; NoData without one."""
        kept = {level: histogram for level, histogram in self.merged.items() if last_percentage(histogram) >= 50}
        if not kept:
            most = max(histogram.count for histogram in self.merged.values())
            raise NoData(
                f"no level has more than {most} requests; a median needs {2 * few_slower()}, with half of them slower"
            )
        return replace(self, merged=kept)

    def told(self, texts: Mapping[Scalar | None, str]) -> str:
        """The levels in words, each with its text."""
        return "; ".join("".join(f"{name}: " for name in self.group(at).values()) + text for at, text in texts.items())


def latency_name(direction: str, kind: str) -> str:
    """`Read total latency`."""
    return f"{direction.capitalize()} {_KINDS[kind]} latency"


def few_slower() -> int:
    """The requests that have to be slower than a percentile, so that no single ones decide it."""
    from ioassay.analysis import descriptive

    return descriptive.FEW_BEYOND


def last_percentage(histogram: Histogram) -> float:
    """The highest percentage that the requests support."""
    return round(100 * (1 - few_slower() / histogram.count), 9)


def of(records: Dataset, study: Study, spec: LatencySpec) -> LatencyLevels:
    """The levels of the factor that the figure names, or of the first that it leaves free."""
    trials = selection.select(records, study, spec.where)
    factor = spec.color or next((name for name in study.levels if name not in spec.where), None)
    if factor is not None:
        selection.require_factor(study, factor)
    rows = records.hist.filter(direction=spec.direction, kind=spec.latency)
    rows = rows.join(trials.select("trial", level=factor or pl.lit(None)), on="trial")
    if rows.is_empty():
        raise NoData(f"no {spec.direction} {spec.latency} histogram was recorded")
    # Of all jobs of a trial merged, or of its single jobs where only these were kept.
    rows = rows.filter((pl.col("job") == -1) | ~(pl.col("job") == -1).any().over("trial"))
    shown = trials.filter(trials["trial"].is_in(rows["trial"].unique().implode()))
    pooled = selection.pooled(selection.points_of(study, shown), factor)
    merged: dict[Scalar | None, Histogram] = {}
    for level in study.design.in_order(factor, rows["level"].drop_nulls().unique().to_list()) if factor else [None]:
        own = rows.filter(pl.col("level").eq_missing(level)) if factor else rows
        merged[level] = Histogram.from_buckets(own["value_ns"].to_list(), own["count"].to_list())
    counted = f"{format_count(sum(one.count for one in merged.values()))} requests of {shown.height} trials"
    marks, name = chart.level_marks(records, study, factor, merged), latency_name(spec.direction, spec.latency)
    return LatencyLevels(name, factor, merged, counted, pooled, marks)


_MARKS = {"nines": (50, 90, 99, 99.9, 99.99, 99.999), "linear": (10, 25, 50, 75, 90, 99)}
_TICKS = (0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999)
_CURVE_FOOT = 0.002
"""Share of the requests that may be faster than where the time axis begins."""
_CURVE_STEPS = 120
"""Of the axis of shares, three pixels each: finer ones would show the bins of the histogram."""
Point = tuple[float, float]
"""Latency in ns and share of the requests in percent."""
SHOWN = 0.999
"""Share of the requests that the time axis holds next to a linear one; zooming out on the page shows the rest."""


class CdfSpec(LatencySpec):
    """Keys of a cumulative distribution."""

    axis: Literal["nines", "linear"] = "nines"
    marks: tuple[Percentage, ...] | None = None


def draw_cdf(records: Dataset, study: Study, spec: CdfSpec) -> Any:
    """Curves and marks over a logarithmic time axis."""
    found, nines = of(records, study, spec), spec.axis == "nines"
    found = found.supported() if nines else found
    wanted = sorted(set(_MARKS[spec.axis] if spec.marks is None else spec.marks))
    lines, marks, texts, last = list[VegaLite](), list[VegaLite](), {}, 0.0

    def row(time_ns: float, share: float) -> VegaLite:
        slower = float(f"{max(100 - share, 0.0):.7g}")
        return {"x": float(f"{max(time_ns, 1.0):.7g}"), "y": float(f"{share:.9g}"), "slower": slower}

    for level, histogram in found.merged.items():
        end, group = last_percentage(histogram) if nines else 100.0, found.group(level)
        marked, last = [share for share in wanted if share <= end], max(last, end)
        lines += [{**row(*point), **group} for point in curve_points(histogram, marked, end, nines)]
        known = list(zip(histogram.quantiles([share / 100 for share in marked]), marked, strict=True))
        marks += [{**row(at, share), "text": format_ns(at), **group} for at, share in known]
        texts[level] = ", ".join(f"{share:g} % {format_ns(at)}" for at, share in known)
    shown = ", ".join(f"{share:g}" for share in wanted if share <= last)
    slower = f"a curve ends where fewer than {few_slower()} requests are slower"
    notes = [
        found.counted,
        f"○ {shown} % of the requests took at most this long" if shown else "",
        slower if nines else f"axis to {100 * SHOWN:.1f} % of the slowest curve",
        found.pooled,
    ]
    # The least of many requests would leave most of the plot to the flat foot of the curves, and a single stall would
    # squeeze all else into a corner.
    foot = min(one.quantile(_CURVE_FOOT) for one in found.merged.values())
    slowest = max(one.quantile(SHOWN) for one in found.merged.values())
    low, high = max(foot / 1.2, min(row["x"] for row in lines)), max(row["x"] for row in lines)
    x = axes.latency_axis("x", found.name, low, high * 1.05 if nines else min(max(slowest * 1.1, 1.0), high))
    if nines:
        # The slower requests, upside down; labels are the share of the others.
        labels = {round(100 - share, 9): f"{share:g}" for share in _TICKS}
        axis = {"values": list(labels), "labelExpr": axes.labels_at(labels)}
        scale = {"type": "log", "domain": [100, min(row["slower"] for row in lines) * 0.8], "nice": False}
        y = channel("slower:Q", title="Share of requests (%)", axis=axis, scale=scale)
    else:
        ticks = [0.0, *wanted] if wanted else [0.0, 25.0, 50.0, 75.0, 100.0]
        ticks += [] if max(ticks) >= 95 else [100]
        y = chart.percent("Share of requests (%)", values=ticks, labelOverlap="greedy")
    line = chart.base(lines).mark("line", style="curve", strokeWidth=1.8, clip=True)
    layers = [line.encode(x=x, y=y, **found.marks.color()).zoomable()]
    if marks:
        tooltip = chart.tips({**found.tips, "text:N": "latency", "y:Q": "% at most"})
        base = chart.base(marks).encode(x=x, y=y)
        points = base.mark("point", style="mark", filled=False, size=44, strokeWidth=1.6)
        layers.append(points.encode(tooltip=tooltip, **found.marks.color()))
        if len(found.merged) == 1:
            layers.append(base.mark("text", style="value", align="left", dx=9, dy=6).encode(text="text:N"))
    title = f"{found.name}, cumulative distribution"
    return chart.layered(layers, spec, study, title, notes, details=found.told(texts))


def curve_points(histogram: Histogram, marked: Sequence[float], last: float, nines: bool = False) -> list[Point]:
    """Percentiles that are even along the axis of shares up to `last`, those marked, and the end of the time axis.

    Where a value has many requests, the curve is a vertical step, of which the ends do.
    """
    least, heights = 1 - last / 100, [step / _CURVE_STEPS for step in range(_CURVE_STEPS)]
    even = [100 * (1 - least**height) if nines else last * height for height in heights]
    shares = sorted({*even, *marked, min(100 * SHOWN, last), last})
    values = histogram.quantiles([share / 100 for share in shares])
    ends = [None, *values, None]
    return [
        (value, share)
        for place, (value, share) in enumerate(zip(values, shares, strict=True))
        if share in marked or not ends[place] == value == ends[place + 2]
    ]


_HISTOGRAM_STEPS = 120
_FINEST = 2 ** (1 / 64)
"""Ratio of two neighbouring bins of fio: finer steps would have gaps."""
_HISTOGRAM_FOOT = 0.001
"""Share of the requests that may be faster than where the axis begins."""
_PEAK = 0.86
"""Of the height of a row."""


class HistogramSpec(LatencySpec):
    """Keys of latency histograms. `height` is that of one row."""

    marks: Annotated[tuple[Percentage, ...], Field(max_length=len(metric_view.DASHES))] = (50, 99, 99.9)
    height: Annotated[int, Field(ge=20, le=400)] = 52


def draw_histograms(records: Dataset, study: Study, spec: HistogramSpec) -> Any:
    """One row a level."""
    found = of(records, study, spec).supported()
    marked, last = sorted(set(spec.marks)), {level: last_percentage(one) for level, one in found.merged.items()}
    # From where almost all requests of the fastest level are slower, to where ten of the slowest are.
    low = max(min(one.quantile(_HISTOGRAM_FOOT) for one in found.merged.values()), 1.0) / 1.1
    high = max(one.quantile(last[level] / 100) for level, one in found.merged.items()) * 1.1
    steps, ticks, words, labels, texts = list[VegaLite](), list[VegaLite](), list[VegaLite](), {}, {}
    for base, (level, histogram) in zip(range(len(last) - 1, -1, -1), found.merged.items(), strict=True):
        group, shown = found.group(level), []
        for row in _steps(histogram, low, high, group):
            steps.append({**row, "base": base, "y": base + row["height"] * _PEAK})
        for percent, value in zip(marked, histogram.quantiles([share / 100 for share in marked]), strict=True):
            text = format_ns(value)
            shown.append(text if percent <= last[level] else "–")
            if percent <= last[level]:
                tick = {"x": float(f"{max(value, 1.0):.7g}"), "base": base, "y": base + _PEAK, **group}
                ticks.append({**tick, "percentile": percentile_name(percent), "text": text})
        texts[level] = ", ".join(shown)
        words.append({"y": base + 0.5, "text": texts[level]})
        labels[base + 0.5] = group.get("group", "")
    names = ", ".join(map(percentile_name, marked))
    lacking = max(marked, default=0) > min(last.values())
    notes = [
        found.counted,
        "each to its own peak" if len(last) > 1 else "",
        f"at the right: {names}" if marked else "",
        f"–: fewer than {few_slower()} requests are slower" if lacking else "",
        found.pooled,
    ]
    x = axes.latency_axis("x", found.name, low, high)
    axis = {"values": list(labels), "labelExpr": axes.labels_at(labels), "labelLimit": 220, "grid": False}
    title = axis_title(found.factor) if found.factor not in (None, CASE) else None
    y = channel("y:Q", title=title, axis=axis, scale={"domain": [0, len(last)], "nice": False})
    area = chart.base(steps).mark(
        "area", style="mark", interpolate="step-after", fillOpacity=0.45, line={"strokeWidth": 1.1}, clip=True
    )
    # The axis has the names.
    color = {name: {**one, "legend": None} for name, one in found.marks.color().items()}
    layers = [area.encode(x=x, y=y, y2="base:Q", **color)]
    if ticks:
        dash = metric_view.dashes("percentile", [percentile_name(percent) for percent in marked])
        tooltip = chart.tips({**found.tips, "percentile:N": "", "text:N": "latency"})
        rule = chart.base(ticks).mark("rule", style="deviation", strokeWidth=1.3)
        layers.append(rule.encode(x=x, y=y, y2="base:Q", strokeDash=dash, tooltip=tooltip))
        right = chart.base(words).mark("text", style="note", align="left", dx=8)
        layers.append(right.encode(x={"value": "width"}, y=y, text="text:N"))
    told = (f"{names} of " if marked else "") + found.told(texts)
    whole = layer(*layers, width=spec.width, height=spec.height * len(last))
    return chart.figure(whole, spec, study, f"{found.name}, histogram", notes, details=told)


def _steps(histogram: Histogram, low: float, high: float, group: Mapping[str, str]) -> Sequence[VegaLite]:
    """The left end of each step and its height from 0 to 1; the last closes the outline."""
    count = max(min(_HISTOGRAM_STEPS, int(math.log(high / low) / math.log(_FINEST))), 1)
    ratio = math.log(high / low) / count
    heights = [0] * count
    for value, requests in zip(*histogram.buckets(), strict=True):
        place = math.floor(math.log(max(value, 1) / low) / ratio)
        if 0 <= place < count:
            heights[place] += requests
    peak = max(heights) or 1
    ends = [*heights, 0]
    return [
        {"x": float(f"{low * math.exp(place * ratio):.6g}"), "height": round(height / peak, 5), **group}
        for place, height in enumerate(ends)
        # Of equal steps in a row the first and the last do.
        if place in (0, count) or not ends[place - 1] == height == ends[place + 1]
    ]


_COLUMNS, _STEPS = 100, 48
"""At most: of time and of latency."""
_FINEST_LOGGED = 2 ** (1 / 16)
"""Ratio of neighbouring bins in the logs: finer steps would have gaps."""
_MOST_PANELS = 12
Counts = Counter[tuple[int, int]]
"""Requests by window (from 0) and step of latency."""


class LatencyHeatmapSpec(FigureSpec):
    """Keys of a heat map of latencies. `width` and `height` are those of one panel."""

    direction: Direction = "read"
    panel: str | None = None
    repetition: Annotated[int, Field(ge=0)] | None = None
    columns: Annotated[int, Field(ge=1, le=8)] = 1
    height: Annotated[int, Field(ge=80, le=2000)] = 220


@dataclass(frozen=True)
class _Grid:
    """Windows of one length, and steps over the range of all latencies."""

    window_s: float
    low_ns: float
    ratio: float
    steps: int

    @classmethod
    def over(cls, logs: Sequence[Sequence[LatencyWindow]]) -> _Grid:
        """Windows of the logs' own length, joined where they are too many."""
        # Each trial's windows end a few milliseconds late, by its own; at the next job's log time goes back.
        steps_s = [after.end_s - before.end_s for log in logs for before, after in itertools.pairwise(log)]
        steps_s = sorted(step for step in steps_s if step > 0)
        last_s = max(window.end_s for log in logs for window in log)
        interval_s = (round(steps_s[len(steps_s) // 2], 2) if steps_s else 0.0) or last_s
        joined = max(math.ceil(last_s / interval_s / _COLUMNS), 1)
        values = [value for log in logs for window in log for value in window.values_ns]
        low, high = max(min(values), 1), max(*values, 2)
        steps = max(min(_STEPS, int(math.log(high / low) / math.log(_FINEST_LOGGED))), 1)
        return cls(interval_s * joined, low / 1.02, (high / low * 1.05) ** (1 / steps), steps)

    def edge(self, step: int) -> float:
        """Where a step begins."""
        return float(f"{self.low_ns * self.ratio**step:.5g}")

    def counts(self, members: Sequence[Sequence[LatencyWindow]]) -> Counts:
        """The requests of several trials together."""
        counts: Counts = Counter()
        for window in itertools.chain.from_iterable(members):
            # A window that ends at 107 ms is the one from 0 to 100.
            place = max(math.ceil(window.end_s / self.window_s - 0.3) - 1, 0)
            for value, count in zip(window.values_ns, window.counts, strict=True):
                step = int(math.log(max(value, 1) / self.low_ns) / math.log(self.ratio))
                counts[place, min(max(step, 0), self.steps - 1)] += count
        return counts


def draw_heatmap(records: Dataset, study: Study, spec: LatencyHeatmapSpec) -> Any:
    """One panel a level, with one scale of colours."""
    trials = selection.select(records, study, spec.where)
    if spec.repetition is not None:
        trials = trials.filter(trials["repetition"] == spec.repetition)
        if trials.is_empty():
            raise NoData(f"no trial that went well is repetition {spec.repetition}; the first is 0")
    points = selection.points_of(study, trials)
    varied = (name for name in study.levels if len({point.get(name) for point in points}) > 1)
    factor = spec.panel or next(varied, None)
    if factor:
        selection.require_factor(study, factor)
    try:
        logs = log_samples.latency_windows(records, trials["trial"].to_list(), spec.direction)
    except InputError as error:
        raise NoData(str(error)) from None
    if not logs:
        why = f"no trial kept histograms of {spec.direction} latencies over time"
        raise NoData(f'{why}; the parameter logs asks fio for them: logs = ["hist"]')
    levels = dict(trials.select("trial", factor).iter_rows()) if factor else dict.fromkeys(logs)
    shown = study.design.in_order(factor, [levels[trial] for trial in logs]) if factor else [None]
    if len(shown) > _MOST_PANELS:
        raise NoData(f"{len(shown)} levels of {factor} have histograms; choose up to {_MOST_PANELS} with `where`")
    grid, panels = _Grid.over(list(logs.values())), dict[str, Counts]()
    for level in shown:
        title = level_label(factor, level) if factor and level is not None else ""
        panels[title] = grid.counts([own for trial, own in logs.items() if levels[trial] == level])
    notes = [
        f"requests of {grid.window_s:.3g} s in each cell (logarithmic colours)",
        f"{len(logs)} trials together" if len(logs) > len(panels) else f"one trial{' in each panel' * (len(logs) > 1)}",
        selection.pooled(points, factor),
    ]
    told = []
    for name, counts in panels.items():
        window, step = max(counts, key=lambda place: (place[1], -place[0]))
        slowest = f"the slowest over {format_ns(grid.edge(step))} at {window * grid.window_s:.3g} s"
        told.append(f"{f'{name}: ' if name else ''}{format_count(sum(counts.values()))} requests, {slowest}")
    title, width = f"{latency_name(spec.direction, 'clat')} over time", min(spec.columns, len(panels)) * spec.width
    drawn = concat(*_charts(panels, grid, spec), columns=spec.columns, spacing=16)
    return chart.figure(drawn, spec, study, title, notes, width=width, details="; ".join(told))


def _charts(panels: Mapping[str, Counts], grid: _Grid, spec: LatencyHeatmapSpec) -> list[Any]:
    most = max(max(counts.values()) for counts in panels.values())
    end_s = (max(window for counts in panels.values() for window, _ in counts) + 1) * grid.window_s
    ticks = [tick for tick in axes.log_ticks(1, max(most, 10)) if math.log10(tick).is_integer()]
    tooltip = [
        channel("x:Q", title="from (s)"),
        channel("y:Q", title="latency from (ns)", format="~s"),
        channel("requests:Q", format=","),
    ]
    name = latency_name(spec.direction, "clat")
    y = axes.latency_axis("y", name, grid.edge(0), grid.edge(grid.steps))
    color = chart.heat("requests", "Requests", "log", [1, max(most, 2)], values=ticks, format="~s")
    ends = {"x": chart.seconds(end_s=end_s), "x2": "end:Q", "y": y, "y2": "top:Q"}
    # Thousands of cells: what follows from a place is computed by the chart.
    computed = {"end": f"datum.x + {grid.window_s:.6g}", "top": f"datum.y * {grid.ratio:.9g}"}
    transform = {"transform": [{"calculate": expression, "as": name} for name, expression in computed.items()]}
    charts = []
    for title, counts in panels.items():
        rows = [
            {"x": round(window * grid.window_s, 4), "y": grid.edge(step), "requests": count}
            for (window, step), count in sorted(counts.items())
        ]
        cells = chart.base(rows).mark("rect", style="band", clip=True).encode(**ends, color=color, tooltip=tooltip)
        charts.append(chart.panel([cells | transform], spec.width, spec.height, title))
    return charts


CDF, HISTOGRAM = Kind(CdfSpec, draw_cdf), Kind(HistogramSpec, draw_histograms)
HEATMAP = Kind(LatencyHeatmapSpec, draw_heatmap)
