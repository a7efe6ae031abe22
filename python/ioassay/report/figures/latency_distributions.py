"""Latencies: kinds `cdf`, `latency_histogram` and `throughput_latency`.

The axis of shares has a decade of slower requests in each step (90, 99, 99.9 %), as plots of HdrHistogram do, and each
curve ends where too few requests are slower; on a linear axis the tail would be a line along the upper edge. The height
of a histogram is the number of requests in steps of equal ratio; each level reaches its own peak, so that shapes
compare. Against the throughput that each level of a load achieved, the points of a percentile are joined in the order
of the load, so that the curve bends back where more load lowers throughput.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ioassay._core import Histogram
from ioassay.factors import (
    CASE,
    LOADS,
    SERVED,
    axis_title,
    factor_label,
    level_axis_numbers,
    level_key,
    level_label,
    level_number,
    offers,
)
from ioassay.metrics import DIRECTIONS, PERCENTILES, format_metric, percentile_name
from ioassay.records.record import Scalar
from ioassay.report.figures import Kind, axes, chart, metric_view, selection
from ioassay.report.figures.chart import channel, layer, pl
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

_KINDS = {"lat": "total", "clat": "completion", "slat": "submission"}
Percentage = Annotated[float, Field(gt=0, lt=100)]


class LatencySpec(FigureSpec):
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

    def alt_text(self, texts: Mapping[Scalar | None, str]) -> str:
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
    return chart.layered(layers, spec, study, title, notes, details=found.alt_text(texts))


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
    told = (f"{names} of " if marked else "") + found.alt_text(texts)
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


_MARGIN = 2.0
"""The latency axis goes on by this factor at both ends."""
_LIMIT = 1.15
"""How far intervals of the throughput reach at most, as a multiple of the highest mean."""


def _recorded(percent: float) -> float:
    if percent not in PERCENTILES:
        raise ValueError(
            f"{percent:g} is not recorded; expected some of {', '.join(f'{one:g}' for one in PERCENTILES)}"
        )
    return percent


class ThroughputSpec(FigureSpec):
    """Keys of throughput against latency. Without a `load`, the first of LOADS that the study varies."""

    load: str | None = None
    direction: Direction | None = None
    throughput: Literal["iops", "bw"] | None = None
    latency: Latency = "lat"
    percentiles: Annotated[
        tuple[Annotated[float, AfterValidator(_recorded)], ...], Field(min_length=1, max_length=len(metric_view.DASHES))
    ] = (50, 99, 99.9)
    color: str | None = None
    log_x: bool | None = None


@dataclass(frozen=True)
class _Point:
    """One level of the load in one group: throughput achieved, and each percentile that has enough requests."""

    level: Scalar
    number: float
    group: Scalar | None
    throughput: metric_view.Summary
    latencies: Mapping[float, metric_view.Summary]
    offered: float | None

    @property
    def saturated(self) -> bool:
        return self.offered is not None and self.throughput.mean < SERVED * self.offered


def load_factor(study: Study, where: Iterable[str] = ()) -> str | None:
    """The factor of the study that is its load; None without one of at least three levels."""
    levels = {name: levels for name, levels in study.levels.items() if name not in set(where)}
    return next((name for name in LOADS if len(levels.get(name, ())) > 2), None)


def draw_throughput(records: Dataset, study: Study, spec: ThroughputSpec) -> Any:
    selection.select(records, study, spec.where)  # says why where nothing went well
    load = spec.load or load_factor(study, spec.where)
    if load is None:
        wanted = "three levels of a rate, a depth or a number of jobs"
        raise NoData(f"the study '{study.name}' varies no load; expected {wanted}")
    selection.require_factor(study, load)
    if level_axis_numbers(load, study.levels[load]) is None:
        raise NoData(f"levels of {load} are words; a load needs numbers")
    direction: str | None = spec.direction
    if direction is None:  # the first with requests
        trials = records.trials_of(study)
        known = [one for one in DIRECTIONS if f"{one}.iops" in trials.columns]
        direction = next((one for one in known if (trials[f"{one}.iops"].fill_null(0) > 0).any()), None)
    if direction is None:
        raise NoData(f"no trial of the study '{study.name}' has a throughput in IOPS")
    throughput = f"{direction}.{spec.throughput or offers(load) or 'iops'}"
    points, pooled, short = _points_of_load(records, study, spec, load, direction, throughput)
    named = latency_name(direction, spec.latency)
    centres = [max(found.mean, 1.0) for point in points for found in point.latencies.values()]
    low, high = min(centres) / _MARGIN, max(centres) * _MARGIN
    x_axis = axes.metric_axis(throughput, [point.throughput.mean for point in points], spec.log_x)
    x, y = x_axis.encoding(across=True), axes.latency_axis("y", named, low, high)
    names = [percentile_name(percent) for percent in sorted(set(spec.percentiles))]
    if spec.color is None:
        legend, scale = {"symbolType": "circle"}, {"domain": names}
        line = color = dot = {"color": channel("percentile:N", sort=names, title=None, legend=legend, scale=scale)}
    else:
        marks = chart.level_marks(records, study, spec.color, [point.group for point in points])
        color, dot = marks.color(), marks.points()
        line = {**color, "strokeDash": metric_view.dashes("percentile", names)}
    rows, told = list[VegaLite](), list[VegaLite]()
    for point in points:
        own = _load_rows(point, spec, load, throughput, x_axis, (low, high))
        texts = [own[0]["throughput"], *(f"{row['percentile']} {row['latency']}" for row in own)]
        told.append({**own[0], "mean_text": ", ".join(texts)})
        rows += own
    conclusive = selection.is_conclusive(records, study)
    saturated = [point for point in points if point.saturated]
    layers = []
    if conclusive and saturated and spec.color is None:
        # The most that was achieved, where more was offered.
        most = max(x_axis.values)
        row = {"x": x_axis.unit.scale(most), "text": f"at most {format_metric(throughput, most)}"}
        limit = chart.base([row]).encode(x=x)
        text = limit.mark("text", style="note", align="right", dx=-5)
        layers.append(limit.mark("rule", style="reference", strokeDash=[2, 4]))
        layers.append(text.encode(y={"value": spec.height - 8}, text="text:N"))
    curve = chart.base(rows).mark("line", style="curve", strokeWidth=1.6)
    layers.append(curve.encode(x=x, y=y, order=channel("load:Q"), **line))
    intervals = [(field, own) for field in ("y", "x") if (own := [row for row in rows if f"{field}_low" in row])]
    for field, own in intervals:
        rule = chart.base(own).mark("rule", strokeWidth=1.2, strokeOpacity=0.3).encode(x=x, y=y, **color)
        ends = {field: chart.on(x if field == "x" else y, f"{field}_low"), f"{field}2": f"{field}_high:Q"}
        layers.append(rule.encode(**ends))
    shown = {"level:N": factor_label(load), "percentile:N": "percentile", "latency:N": "latency"}
    shown |= {"throughput:N": "throughput", "offered:N": "offered"}
    shown |= {"group:N": factor_label(spec.color)} if spec.color else {}
    for filled in (True, False):
        # Hollow where the load was more than was achieved.
        if own := [row for row in rows if row["saturated"] is not filled]:
            tooltip = chart.tips({field: title for field, title in shown.items() if field[:-2] in own[0]})
            mark = chart.base(own).mark("point", style="mark", filled=filled, size=46, strokeWidth=1.6)
            layers.append(mark.encode(x=x, y=y, tooltip=tooltip, **dot))
    labels = chart.base(_load_labels(rows, spec, load, x_axis, (low, high)))
    text = labels.mark("text", style="value", align="right", baseline="bottom", dx=-5, dy=-4)
    layers.append(text.encode(x=x, y=y, text="text:N"))
    hollow = f"hollow: less than {100 * SERVED:.0f} % of the offered rate" if saturated else ""
    if saturated and conclusive:
        hollow += f", first of {format_metric(throughput, saturated[0].offered or 0)}"
    counted = "requests a second that each job was offered" if offers(load) == "iops" else factor_label(load)
    few = few_slower()
    notes = [
        f"numbers: {counted}",
        hollow,
        f"bars: {100 * study.analysis.confidence:g} % intervals" if intervals else "",
        selection.repetitions_text([point.throughput.n for point in points]),
        f"no {' and '.join(short)} with fewer than {few} requests beyond" if short else "",
        pooled,
        x_axis.note,
        "" if conclusive else selection.UNFIT,
    ]
    title = f"{named} against {selection.metric_phrase(throughput)}"
    return chart.layered(layers, spec, study, title, notes, points=told)


def _load_rows(
    point: _Point, spec: ThroughputSpec, load: str, throughput: str, x_axis: axes.MetricAxis, ends: tuple[float, float]
) -> list[VegaLite]:
    """One row a percentile. Intervals end within the plot: those of few repetitions would fill it."""
    rate, unit = point.throughput, x_axis.unit
    row: VegaLite = {"level": level_label(load, point.level), "load": point.number, "saturated": point.saturated}
    row |= {"x": unit.scale(rate.mean), "throughput": format_metric(throughput, rate.mean), "n": rate.n}
    row |= {"group": level_label(spec.color, point.group)} if spec.color and point.group is not None else {}
    row |= {"offered": format_metric(throughput, point.offered)} if point.offered is not None else {}
    across: VegaLite = {}
    if rate.low is not None and rate.high is not None:
        most = max(x_axis.values) * _LIMIT
        across = {"x_low": max(unit.scale(rate.low), x_axis.floor), "x_high": unit.scale(min(rate.high, most))}
    rows: list[VegaLite] = []
    for percent, found in point.latencies.items():
        numbers = {"y": max(found.mean, 1.0), **across}
        if found.low is not None and found.high is not None:
            numbers |= {"y_low": max(found.low, ends[0]), "y_high": min(found.high, ends[1])}
        named = {"percentile": percentile_name(percent), "latency": format_ns(found.mean)}
        rows.append({**row, **named, **{name: float(f"{number:.7g}") for name, number in numbers.items()}})
        across = {}  # the throughput is the same for every percentile
    return rows


def _load_labels(
    rows: chart.Rows, spec: ThroughputSpec, load: str, x_axis: axes.MetricAxis, ends: tuple[float, float]
) -> list[VegaLite]:
    """The load over the points of the highest percentile, where there is room."""
    top = {(row["level"], row.get("group")): row for row in rows}  # percentiles ascend
    scale = math.log if x_axis.log else float
    left, right = scale(x_axis.floor) if x_axis.log else 0.0, scale(max(row["x"] for row in rows))
    kept: list[tuple[float, float, float]] = []
    shown = []
    # The ends of the load first: what lies between them can be guessed.
    ordered = sorted(top.values(), key=lambda row: row["load"])
    for row in [*ordered[:1], *ordered[:0:-1]]:
        text = format_count(row["load"]) if offers(load) == "iops" else str(row["level"])
        x = (scale(row["x"]) - left) / max(right - left, 1e-4) * spec.width
        y = math.log(row["y"] / ends[0]) / math.log(ends[1] / ends[0]) * spec.height
        half = len(text) * chart.CHARACTER_PX / 2 + 3
        if all(abs(x - other) > half + room or abs(y - height) > chart.LINE_PX for other, height, room in kept):
            kept.append((x, y, half))
            shown.append({"x": row["x"], "y": row["y"], "text": text})
    return shown


def _points_of_load(
    records: Dataset, study: Study, spec: ThroughputSpec, load: str, direction: str, throughput: str
) -> tuple[list[_Point], str, list[str]]:
    """The points in the order of the load, what lies together in one of them, and the percentiles that are short."""
    confidence = study.analysis.confidence
    cells = selection.measured(records, study, spec.where, throughput, load, spec.color)

    def key(one: metric_view.Condition) -> tuple[str, str]:
        return level_key(load, one.level), level_key(spec.color or CASE, one.group)

    latencies: dict[tuple[str, str], dict[float, metric_view.Summary]] = {}
    short: dict[str, None] = {}
    for percent in sorted(set(spec.percentiles)):
        name = f"{direction}.{spec.latency}.{percentile_name(percent)}"
        found = selection.measured(records, study, spec.where, name, load, spec.color)
        for one in metric_view.conditions(found, study, name, load, spec.color):
            requests = sum(histogram.count for histogram in one.cell.histograms)
            if one.cell.histograms and round(requests * (100 - percent) / 100, 6) < few_slower():
                short[percentile_name(percent)] = None
            else:
                latencies.setdefault(key(one), {})[percent] = metric_view.summarise(name, one.cell, "ci", confidence)
    points = []
    for one in metric_view.conditions(cells, study, throughput, load, spec.color):
        if key(one) in latencies:
            rate = metric_view.summarise(throughput, one.cell, "ci", confidence)
            number = level_number(load, one.level) or 0.0
            # The rate that all jobs together were offered; unknown where jobs differ among trials.
            jobs = study.params.get("numjobs", 1)
            if "numjobs" in study.levels:
                jobs = one.group if spec.color == "numjobs" else spec.where.get("numjobs")
            factor = level_number("numjobs", jobs) if offers(load) == throughput.rpartition(".")[2] else None
            offered = None if factor is None else factor * number
            points.append(_Point(one.level, number, one.group, rate, latencies[key(one)], offered))
    if not points:
        raise NoData(f"fewer than {few_slower()} requests lie beyond {next(iter(short))}")
    points.sort(key=lambda point: point.number)
    return points, selection.pooled([cell.point for cell in cells], load, spec.color), list(short)


CDF, HISTOGRAM = Kind(CdfSpec, draw_cdf), Kind(HistogramSpec, draw_histograms)
THROUGHPUT_LATENCY = Kind(ThroughputSpec, draw_throughput)
