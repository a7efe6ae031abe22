"""Latencies: kinds `cdf` and `throughput_latency`.

The axis of shares has a decade of slower requests in each step (90, 99, 99.9 %), as plots of HdrHistogram do, and each
curve ends where too few requests are slower. Against the throughput that each level of a load achieved, the points of a
percentile are joined in the order of the load, so that the curve bends back where more load lowers throughput.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ioassay._core import Histogram
from ioassay.factors import (
    CASE,
    LOADS,
    SERVED,
    factor_label,
    level_axis_numbers,
    level_key,
    level_label,
    level_number,
    offers,
)
from ioassay.metrics import DIRECTIONS, PERCENTILES, format_metric, metric, percentile_name
from ioassay.narrative.say import sentence
from ioassay.records.record import Scalar
from ioassay.report.figures import Kind, axes, chart, metric_view, selection
from ioassay.report.figures.chart import channel, pl
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

if TYPE_CHECKING:
    from ioassay.analysis.measurements.cells import Cell

_TICKS = (0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999)
_CURVE_FOOT = 0.002
"""Share of the requests that may be faster than where the time axis begins."""
_CURVE_STEPS = 120
"""Of the axis of shares, three pixels each: finer ones would show the bins of the histogram."""


class CdfSpec(FigureSpec):
    direction: Direction
    latency: Latency
    color: str | None = None
    marks: tuple[Annotated[float, Field(gt=0, lt=100)], ...] = (50, 90, 99, 99.9, 99.99, 99.999)


def latency_name(direction: str, kind: str) -> str:
    """`Read total latency`."""
    return metric(f"{direction}.{kind}.mean").label.partition(",")[0]


def few_slower() -> int:
    """The requests that have to be slower than a percentile, so that no single ones decide it."""
    from ioassay.analysis import descriptive

    return descriptive.FEW_BEYOND


def draw_cdf(records: Dataset, study: Study, spec: CdfSpec) -> Any:
    """A curve a level, of the factor that the figure names or of the first that it leaves free, and marks on it."""
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
    merged: dict[Scalar | None, Histogram] = {}
    for level in study.design.in_order(factor, rows["level"].drop_nulls().unique().to_list()) if factor else [None]:
        own = rows.filter(pl.col("level").eq_missing(level)) if factor else rows
        merged[level] = Histogram.from_buckets(own["value_ns"].to_list(), own["count"].to_list())
    # The highest percentage that the requests support.
    ends = {level: round(100 * (1 - few_slower() / one.count), 9) for level, one in merged.items()}
    kept = {level: one for level, one in merged.items() if ends[level] >= 50}
    if not kept:
        most = max(one.count for one in merged.values())
        few = sentence("figures.few_requests", most=most)
        raise NoData(f"{few}; a median needs {2 * few_slower()}, with half of them slower")
    lines, marks, texts = list[VegaLite](), list[VegaLite](), list[str]()
    for level, histogram in kept.items():
        group = {} if factor is None or level is None else {"group": level_label(factor, level)}
        marked = [share for share in sorted(set(spec.marks)) if share <= ends[level]]
        known = list(zip(histogram.quantiles([share / 100 for share in marked]), marked, strict=True))
        lines += [{**_point(*point), **group} for point in curve_points(histogram, marked, ends[level])]
        marks += [{**_point(at, share), "text": format_ns(at), **group} for at, share in known]
        percentiles = ", ".join(f"{share:g} % {format_ns(at)}" for at, share in known)
        texts.append("".join(f"{name}: " for name in group.values()) + percentiles)
    # The least of many requests would leave most of the plot to the flat foot of the curves.
    foot = min(one.quantile(_CURVE_FOOT) for one in kept.values())
    low, high = max(foot / 1.2, min(row["x"] for row in lines)), max(row["x"] for row in lines)
    name = latency_name(spec.direction, spec.latency)
    # The slower requests, upside down; labels are the share of the others.
    labels = {round(100 - share, 9): f"{share:g}" for share in _TICKS}
    axis = {"values": list(labels), "labelExpr": axes.labels_at(labels)}
    scale = {"type": "log", "domain": [100, min(row["slower"] for row in lines) * 0.8], "nice": False}
    y = channel("slower:Q", title="Share of requests (%)", axis=axis, scale=scale)
    x, color = axes.latency_axis("x", name, low, high * 1.05), chart.level_marks(records, study, factor, merged).color()
    line = chart.base(lines).mark("line", style="curve", strokeWidth=1.8, clip=True)
    layers = [line.encode(x=x, y=y, **color).zoomable()]
    if marks:
        levels = {"group:N": factor_label(factor)} if factor else {}
        base, tooltip = chart.base(marks).encode(x=x, y=y), {**levels, "text:N": "latency", "y:Q": "% at most"}
        points = base.mark("point", style="mark", filled=False, size=44, strokeWidth=1.6)
        layers.append(points.encode(tooltip=chart.tips(tooltip), **color))
        if len(kept) == 1:
            layers.append(base.mark("text", style="value", align="left", dx=9, dy=6).encode(text="text:N"))
    marked_shares = ", ".join(f"{share:g}" for share in sorted({row["y"] for row in marks}))
    measured = trials.filter(trials["trial"].is_in(rows["trial"].unique().implode()))
    notes = [
        f"{format_count(sum(one.count for one in merged.values()))} requests of {measured.height} trials",
        sentence("figures.marked_shares", shares=marked_shares) if marks else "",
        sentence("figures.curve_ends", few=few_slower()),
        selection.pooled(selection.points_of(study, measured), factor),
    ]
    return chart.layered(layers, spec, study, f"{name}, cumulative distribution", notes, details="; ".join(texts))


def _point(time_ns: float, share: float) -> VegaLite:
    slower = float(f"{max(100 - share, 0.0):.7g}")
    return {"x": float(f"{max(time_ns, 1.0):.7g}"), "y": float(f"{share:.9g}"), "slower": slower}


def curve_points(histogram: Histogram, marked: Sequence[float], last: float) -> list[tuple[float, float]]:
    """Latencies in ns and shares in percent: even along the axis of shares up to `last`, and those marked.

    Where a value has many requests, the curve is a vertical step, of which the ends do.
    """
    even = [100 * (1 - (1 - last / 100) ** (step / _CURVE_STEPS)) for step in range(_CURVE_STEPS)]
    shares = sorted({*even, *marked, last})
    values = histogram.quantiles([share / 100 for share in shares])
    ends = [None, *values, None]
    return [
        (value, share)
        for place, (value, share) in enumerate(zip(values, shares, strict=True))
        if share in marked or not ends[place] == value == ends[place + 2]
    ]


_MARGIN = 2.0
"""The latency axis goes on by this factor at both ends."""
_LIMIT = 1.15
"""How far intervals of the throughput reach at most, as a multiple of the highest mean."""
_NUMBERS = {"x", "x_low", "x_high", "y", "y_low", "y_high"}


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


def load_factor(study: Study, where: Iterable[str] = ()) -> str | None:
    """The factor of the study that is its load; None without one of at least three levels."""
    levels = {name: levels for name, levels in study.levels.items() if name not in set(where)}
    return next((name for name in LOADS if len(levels.get(name, ())) > 2), None)


def _load_and_throughput(records: Dataset, study: Study, spec: ThroughputSpec) -> tuple[str, str]:
    """The factor and the metric that the figure names or else has by default; NoData without one."""
    selection.select(records, study, spec.where)  # says why where nothing went well
    load = spec.load or load_factor(study, spec.where)
    if load is None:
        wanted = sentence("figures.load_levels")
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
    return load, f"{direction}.{spec.throughput or offers(load) or 'iops'}"


def draw_throughput(records: Dataset, study: Study, spec: ThroughputSpec) -> Any:
    """The points of each percentile, joined in the order of the load, with their intervals."""
    load, throughput = _load_and_throughput(records, study, spec)
    cells = selection.measured(records, study, spec.where, throughput, load, spec.color)
    rows, short = _rows_of_load(records, study, spec, load, throughput, cells)
    named = latency_name(throughput.partition(".")[0], spec.latency)
    low, high = min(row["y"] for row in rows) / _MARGIN, max(row["y"] for row in rows) * _MARGIN
    x_axis = axes.metric_axis(throughput, [row["x"] for row in rows], spec.log_x)
    x, y = x_axis.encoding(across=True), axes.latency_axis("y", named, low, high)
    most, scale = max(x_axis.values), x_axis.unit.scale
    # Intervals end within the plot: those of few repetitions would fill it.
    for row in rows:
        row["x"] = scale(row["x"])
        if "x_low" in row:
            row |= {"x_low": max(scale(row["x_low"]), x_axis.floor), "x_high": scale(min(row["x_high"], most * _LIMIT))}
        if "y_low" in row:
            row |= {"y_low": max(row["y_low"], low), "y_high": min(row["y_high"], high)}
        row |= {name: float(f"{row[name]:.7g}") for name in row.keys() & _NUMBERS}
    names = [percentile_name(percent) for percent in sorted(set(spec.percentiles))]
    if spec.color is None:
        legend, domain = {"symbolType": "circle"}, {"domain": names}
        line = color = dot = {"color": channel("percentile:N", sort=names, title=None, legend=legend, scale=domain)}
    else:
        groups = {cell.point[spec.color] for cell in cells}
        drawn = {row["group"] for row in rows}
        shown_groups = [group for group in groups if level_label(spec.color, group) in drawn]
        marks = chart.level_marks(records, study, spec.color, shown_groups)
        color, dot = marks.color(), marks.points()
        line = {**color, "strokeDash": metric_view.dashes("percentile", names)}
    conclusive = selection.is_conclusive(records, study)
    saturated = [row for row in rows if row["saturated"]]
    layers = []
    if conclusive and saturated and spec.color is None:
        # The most that was achieved, where more was offered.
        limit = chart.base([{"x": scale(most), "text": f"at most {format_metric(throughput, most)}"}]).encode(x=x)
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
    hollow = sentence("figures.hollow", percent=f"{100 * SERVED:.0f}") if saturated else ""
    if saturated and conclusive:
        hollow += f", first of {saturated[0]['offered']}"
    counted = sentence("figures.offered") if offers(load) == "iops" else factor_label(load)
    notes = [
        f"numbers: {counted}",
        hollow,
        f"bars: {100 * study.analysis.confidence:g} % intervals" if intervals else "",
        selection.repetitions_text([row["n"] for row in rows]),
        sentence("figures.few_beyond", percentiles=" and ".join(short), few=few_slower()) if short else "",
        selection.pooled([cell.point for cell in cells], load, spec.color),
        x_axis.note,
        "" if conclusive else selection.UNFIT,
    ]
    told: dict[tuple[str, str | None], VegaLite] = {}
    for row in rows:
        point = told.setdefault((row["level"], row.get("group")), {**row, "mean_text": row["throughput"]})
        point["mean_text"] += f", {row['percentile']} {row['latency']}"
    title = f"{named} against {selection.metric_phrase(throughput)}"
    return chart.layered(layers, spec, study, title, notes, points=[*told.values()])


def _rows_of_load(
    records: Dataset, study: Study, spec: ThroughputSpec, load: str, throughput: str, cells: Sequence[Cell]
) -> tuple[list[VegaLite], list[str]]:
    """A row a percentile in the order of the load, in stored units; and the percentiles with too few beyond."""
    from ioassay.analysis.measurements.cells import offered_loads, point_key

    confidence, direction = study.analysis.confidence, throughput.partition(".")[0]
    latencies: dict[tuple[str, str], list[VegaLite]] = {}
    short: dict[str, None] = {}

    def key(one: metric_view.Condition) -> tuple[str, str]:
        return level_key(load, one.level), level_key(spec.color or CASE, one.group)

    for percent in sorted(set(spec.percentiles)):
        percentile = percentile_name(percent)
        name = f"{direction}.{spec.latency}.{percentile}"
        measured = selection.measured(records, study, spec.where, name, load, spec.color)
        for one in metric_view.conditions(measured, study, name, load, spec.color):
            requests = sum(histogram.count for histogram in one.cell.histograms)
            if one.cell.histograms and round(requests * (100 - percent) / 100, 6) < few_slower():
                short[percentile] = None
                continue
            _, found = metric_view.summarise(name, one.cell, "ci", confidence)
            row: VegaLite = {
                "percentile": percentile,
                "latency": format_metric(name, found["y"]),
                "y": max(found["y"], 1.0),
            }
            row |= {f"y_{end}": found[end] for end in ("low", "high") if end in found}
            latencies.setdefault(key(one), []).append(row)
    rows: list[VegaLite] = []
    for one in metric_view.conditions(cells, study, throughput, load, spec.color):
        n, rate = metric_view.summarise(throughput, one.cell, "ci", confidence)
        number = level_number(load, one.level) or 0.0
        row = {"level": level_label(load, one.level), "load": number, "saturated": False}
        row |= {"x": rate["y"], "throughput": format_metric(throughput, rate["y"]), "n": n}
        row |= {"group": level_label(spec.color, one.group)} if spec.color and one.group is not None else {}
        if (offered := offered_loads(records, study).get(point_key(one.cell.point))) is not None:
            row |= {"offered": format_metric(offered.metric, offered.offered), "saturated": offered.saturated}
        across = {f"x_{end}": rate[end] for end in ("low", "high") if end in rate}
        for own in latencies.get(key(one), ()):
            rows.append({**row, **across, **own})
            across = {}  # the throughput is the same for every percentile
    if not rows:
        raise NoData(f"fewer than {few_slower()} requests lie beyond {next(iter(short))}")
    rows.sort(key=lambda row: row["load"])
    return rows, list(short)


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


CDF, THROUGHPUT_LATENCY = Kind(CdfSpec, draw_cdf), Kind(ThroughputSpec, draw_throughput)
