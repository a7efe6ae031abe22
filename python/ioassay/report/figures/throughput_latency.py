"""Throughput against latency: percentiles of the latency at the throughput that each level of a load achieved.

The points of a percentile are joined in the order of the load, so that the curve bends back where more load lowers
throughput. A percentile ends where too few requests lie beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

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
from ioassay.metrics import DIRECTIONS, PERCENTILES, format_metric, percentile_name
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart, condition_rows, latency_levels, level_marks, metric_view, selection
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
from ioassay.report.figures.vega_lite import channel
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

_MARGIN = 2.0
"""The latency axis goes on by this factor at both ends."""
_LIMIT = 1.15
"""How far intervals of the throughput reach at most, as a multiple of the highest mean."""
_CHARACTER_PX, _LINE_PX = 7.3, 15
"""Of a level's label."""


def _known(percent: float) -> float:
    if percent not in PERCENTILES:
        raise ValueError(
            f"{percent:g} is not recorded; wanted some of {', '.join(f'{known:g}' for known in PERCENTILES)}"
        )
    return percent


class Spec(FigureSpec):
    """Keys of throughput against latency. Without a `load`, the first of LOADS that the study varies."""

    load: str | None = None
    direction: Direction | None = None
    throughput: Literal["iops", "bw"] | None = None
    latency: Latency = "lat"
    percentiles: Annotated[
        tuple[Annotated[float, AfterValidator(_known)], ...], Field(min_length=1, max_length=len(metric_view.DASHES))
    ] = (50, 99, 99.9)
    color: str | None = None
    log_x: bool | None = None


@dataclass(frozen=True)
class _Point:
    """One level of the load in one group: throughput achieved, and each percentile that has enough requests."""

    level: Scalar
    number: float
    group: Scalar | None
    throughput: condition_rows.Summary
    latencies: Mapping[float, condition_rows.Summary]
    offered: float | None

    @property
    def saturated(self) -> bool:
        return self.offered is not None and self.throughput.mean < SERVED * self.offered


@dataclass(frozen=True)
class _Look:
    """What the layers share."""

    spec: Spec
    load: str
    throughput: str
    points: Sequence[_Point]
    x_axis: axes.MetricAxis
    low: float
    high: float


def load_factor(study: Study, where: Iterable[str] = ()) -> str | None:
    """The factor of the study that is its load; None without one of at least three levels."""
    levels = {name: levels for name, levels in study.levels.items() if name not in set(where)}
    return next((name for name in LOADS if len(levels.get(name, ())) > 2), None)


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
    selection.select(records, study, spec.where)  # says why where nothing went well
    load, direction = _load(study, spec), spec.direction or _direction(records, study)
    throughput = f"{direction}.{spec.throughput or offers(load) or 'iops'}"
    points, pooled, short = _measured(records, study, spec, load, direction, throughput)
    latency_name = latency_levels.latency_name(direction, spec.latency)
    centres = [max(found.mean, 1.0) for point in points for found in point.latencies.values()]
    low, high = min(centres) / _MARGIN, max(centres) * _MARGIN
    x_axis = axes.metric_axis(throughput, [point.throughput.mean for point in points], spec.log_x)
    look = _Look(spec, load, throughput, points, x_axis, low, high)
    x, y = x_axis.encoding(across=True), axes.latency_axis("y", latency_name, low, high)
    names = [percentile_name(percent) for percent in sorted(set(spec.percentiles))]
    if spec.color is None:
        legend, scale = {"symbolType": "circle"}, {"domain": names}
        line = color = dot = {"color": channel("percentile:N", sort=names, title=None, legend=legend, scale=scale)}
    else:
        marks = level_marks.of(records, study, spec.color, [point.group for point in points])
        color, dot = marks.color(), marks.points()
        line = {**color, "strokeDash": metric_view.dashes("percentile", names)}
    rows, told = list[VegaLite](), list[VegaLite]()
    for point in points:
        own = _rows(look, point)
        texts = ", ".join([own[0]["throughput"], *(f"{row['percentile']} {row['latency']}" for row in own)])
        told.append({**own[0], "mean_text": texts})
        rows += own
    curve = chart.base(rows).mark("line", style="curve", strokeWidth=1.6).encode(x=x, y=y, **line)
    conclusive = selection.is_conclusive(records, study)
    layers = [*(_limit(look, x) if conclusive else []), curve.encode(order=channel("load:Q"))]
    intervals = [(field, own) for field in ("y", "x") if (own := [row for row in rows if f"{field}_low" in row])]
    for field, own in intervals:
        rule = chart.base(own).mark("rule", strokeWidth=1.2, strokeOpacity=0.3)
        ends = {field: chart.on(x if field == "x" else y, f"{field}_low"), f"{field}2": f"{field}_high:Q"}
        layers.append(rule.encode(**{"x": x, "y": y, **ends}, **color))
    shown = {"level:N": factor_label(load), "percentile:N": "percentile", "latency:N": "latency"}
    shown |= {"throughput:N": "throughput", "offered:N": "offered"}
    shown |= {"group:N": factor_label(spec.color)} if spec.color else {}
    for saturated in (False, True):
        # Filled; hollow where the load was more than was achieved.
        if own := [row for row in rows if row["saturated"] is saturated]:
            tooltip = chart.tips({field: title for field, title in shown.items() if field[:-2] in own[0]})
            mark = chart.base(own).mark("point", style="mark", filled=not saturated, size=46, strokeWidth=1.6)
            layers.append(mark.encode(x=x, y=y, tooltip=tooltip, **dot))
    text = chart.base(_labels(look, rows)).mark("text", style="value", align="right", baseline="bottom", dx=-5, dy=-4)
    layers.append(text.encode(x=x, y=y, text="text:N"))
    few, hollow = latency_levels.few_slower(), ""
    if saturated_points := [point for point in points if point.saturated]:
        hollow = f"hollow: less than {100 * SERVED:.0f} % of the offered rate"
        hollow += f", first of {format_metric(throughput, saturated_points[0].offered or 0)}" if conclusive else ""
    notes = [
        "numbers: requests a second that each job was offered"
        if offers(load) == "iops"
        else f"numbers: {factor_label(load)}",
        hollow,
        f"bars: {100 * study.analysis.confidence:g} % intervals" if intervals else "",
        selection.repetitions_text([point.throughput.n for point in points]),
        f"no {' and '.join(short)} with fewer than {few} requests beyond" if short else "",
        pooled,
        x_axis.note,
        "" if conclusive else selection.UNFIT,
    ]
    title = f"{latency_name} against {selection.metric_phrase(throughput)}"
    return chart.layered(layers, spec, study, title, notes, points=told)


def _rows(look: _Look, point: _Point) -> list[VegaLite]:
    """One row a percentile."""
    rate, unit, color = point.throughput, look.x_axis.unit, look.spec.color
    row: VegaLite = {"level": level_label(look.load, point.level), "load": point.number, "n": rate.n}
    row |= {"x": unit.scale(rate.mean), "throughput": format_metric(look.throughput, rate.mean)}
    row |= {"saturated": point.saturated}
    if point.group is not None and color is not None:
        row["group"] = level_label(color, point.group)
    if point.offered is not None:
        row["offered"] = format_metric(look.throughput, point.offered)
    # Intervals as far as they lie within the plot: those of few repetitions would fill it.
    across: VegaLite = {}
    if rate.low is not None and rate.high is not None:
        most = max(look.x_axis.values) * _LIMIT
        across = {"x_low": max(unit.scale(rate.low), look.x_axis.floor), "x_high": unit.scale(min(rate.high, most))}
    rows: list[VegaLite] = []
    for percent, found in point.latencies.items():
        up: VegaLite = {}
        if found.low is not None and found.high is not None:
            up = {"y_low": max(found.low, look.low), "y_high": min(found.high, look.high)}
        ends = {name: float(f"{end:.7g}") for name, end in (up | across).items()}
        named = {"percentile": percentile_name(percent), "latency": format_ns(found.mean)}
        rows.append({**row, "y": float(f"{max(found.mean, 1.0):.7g}"), **ends, **named})
        across = {}  # the throughput is the same for every percentile
    return rows


def _limit(look: _Look, x: Any) -> list[Any]:
    """The most that was achieved, where more was offered."""
    if look.spec.color is not None or not any(point.saturated for point in look.points):
        return []
    most = max(point.throughput.mean for point in look.points)
    row = {"x": look.x_axis.unit.scale(most), "text": f"at most {format_metric(look.throughput, most)}"}
    base = chart.base([row]).encode(x=x)
    text = base.mark("text", style="note", align="right", dx=-5)
    return [
        base.mark("rule", style="reference", strokeDash=[2, 4]),
        text.encode(y={"value": look.spec.height - 8}, text="text:N"),
    ]


def _labels(look: _Look, rows: Sequence[VegaLite]) -> list[VegaLite]:
    """The load over the points of the highest percentile, where there is room."""
    top = {(row["level"], row.get("group")): row for row in rows}  # percentiles ascend
    left, right = look.x_axis.floor, max(row["x"] for row in rows)
    kept: list[tuple[float, float, float]] = []
    shown = []
    # The ends of the load first: what lies between them can be guessed.
    ordered = sorted(top.values(), key=lambda row: row["load"])
    for row in [*ordered[:1], *ordered[:0:-1]]:
        text = format_count(row["load"]) if offers(look.load) == "iops" else str(row["level"])
        across = row["x"] / right if right else 0.0
        if look.x_axis.log:
            across = math.log(row["x"] / left) / math.log(max(right / left, 1.0001))
        x = across * look.spec.width
        y = math.log(row["y"] / look.low) / math.log(look.high / look.low) * look.spec.height
        half = len(text) * _CHARACTER_PX / 2 + 3
        if all(abs(x - other) > half + room or abs(y - height) > _LINE_PX for other, height, room in kept):
            kept.append((x, y, half))
            # To the left, where a rising curve leaves room; to the right at the axis.
            shown.append({"x": row["x"], "y": row["y"], "text": text, "first": x < 2 * half})
    return shown


def _load(study: Study, spec: Spec) -> str:
    """The factor of the load; NoData where there is none, or one of words."""
    factor = spec.load or load_factor(study, spec.where)
    if factor is None:
        wanted = "three levels of a rate, a depth or a number of jobs"
        raise NoData(f"the study '{study.name}' varies no load; wanted {wanted}")
    selection.require_factor(study, factor)
    if level_axis_numbers(factor, study.levels[factor]) is None:
        raise NoData(f"levels of {factor} are words; a load needs numbers")
    return factor


def _direction(records: Dataset, study: Study) -> str:
    """The first direction with requests."""
    trials = records.trials_of(study)
    for direction in DIRECTIONS:
        name = f"{direction}.iops"
        if name in trials.columns and (trials[name].fill_null(0) > 0).any():
            return direction
    raise NoData(f"no trial of the study '{study.name}' has a throughput in IOPS")


def _measured(
    records: Dataset, study: Study, spec: Spec, load: str, direction: str, throughput: str
) -> tuple[list[_Point], str, list[str]]:
    """The points in the order of the load, what lies together in one of them, and the percentiles that are short."""
    confidence = study.analysis.confidence
    cells = selection.measured(records, study, spec.where, throughput, load, spec.color)

    def key(one: condition_rows.Condition) -> tuple[str, str]:
        return level_key(load, one.level), level_key(spec.color or CASE, one.group)

    latencies: dict[tuple[str, str], dict[float, condition_rows.Summary]] = {}
    short: dict[str, None] = {}
    for percent in sorted(set(spec.percentiles)):
        name = f"{direction}.{spec.latency}.{percentile_name(percent)}"
        found = selection.measured(records, study, spec.where, name, load, spec.color)
        for one in condition_rows.of(found, study, name, load, spec.color):
            requests = sum(histogram.count for histogram in one.cell.histograms)
            if one.merged and round(requests * (100 - percent) / 100, 6) < latency_levels.few_slower():
                short[percentile_name(percent)] = None
            else:
                latencies.setdefault(key(one), {})[percent] = condition_rows.summarise(name, one.cell, "ci", confidence)
    points = []
    for one in condition_rows.of(cells, study, throughput, load, spec.color):
        if key(one) in latencies:
            rate = condition_rows.summarise(throughput, one.cell, "ci", confidence)
            number = level_number(load, one.level) or 0.0
            offered = _offered(study, spec, one, load) if offers(load) == throughput.rpartition(".")[2] else None
            points.append(_Point(one.level, number, one.group, rate, latencies[key(one)], offered))
    if not points:
        raise NoData(f"fewer than {latency_levels.few_slower()} requests lie beyond {next(iter(short))}")
    points.sort(key=lambda point: point.number)
    return points, selection.pooled([cell.point for cell in cells], load, spec.color), list(short)


def _offered(study: Study, spec: Spec, one: condition_rows.Condition, load: str) -> float | None:
    """The rate that all jobs together were offered; None where jobs differ among trials."""
    jobs = study.params.get("numjobs", 1)
    if "numjobs" in study.levels:
        jobs = one.group if spec.color == "numjobs" else spec.where.get("numjobs")
    number, rate = level_number("numjobs", jobs), level_number(load, one.level)
    return None if number is None or rate is None else number * rate
