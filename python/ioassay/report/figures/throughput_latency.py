"""Throughput against latency: percentiles of the latency at the throughput that each level of a load achieved.

The points of a percentile are joined in the order of the load, so that the curve bends back where more load lowers
throughput. A percentile ends where too few requests lie beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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
from ioassay.report.figures import axes, chart, latency_distributions, metric_view, selection
from ioassay.report.figures.chart import channel
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
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
            f"{percent:g} is not recorded; expected some of {', '.join(f'{one:g}' for one in PERCENTILES)}"
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


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
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
    points, pooled, short = _measured(records, study, spec, load, direction, throughput)
    latency_name = latency_distributions.latency_name(direction, spec.latency)
    centres = [max(found.mean, 1.0) for point in points for found in point.latencies.values()]
    low, high = min(centres) / _MARGIN, max(centres) * _MARGIN
    x_axis = axes.metric_axis(throughput, [point.throughput.mean for point in points], spec.log_x)
    x, y = x_axis.encoding(across=True), axes.latency_axis("y", latency_name, low, high)
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
        own = _rows(point, spec, load, throughput, x_axis, (low, high))
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
    labels = chart.base(_labels(rows, spec, load, x_axis, (low, high)))
    text = labels.mark("text", style="value", align="right", baseline="bottom", dx=-5, dy=-4)
    layers.append(text.encode(x=x, y=y, text="text:N"))
    hollow = f"hollow: less than {100 * SERVED:.0f} % of the offered rate" if saturated else ""
    if saturated and conclusive:
        hollow += f", first of {format_metric(throughput, saturated[0].offered or 0)}"
    counted = "requests a second that each job was offered" if offers(load) == "iops" else factor_label(load)
    few = latency_distributions.few_slower()
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
    title = f"{latency_name} against {selection.metric_phrase(throughput)}"
    return chart.layered(layers, spec, study, title, notes, points=told)


def _rows(
    point: _Point, spec: Spec, load: str, throughput: str, x_axis: axes.MetricAxis, ends: tuple[float, float]
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


def _labels(
    rows: chart.Rows, spec: Spec, load: str, x_axis: axes.MetricAxis, ends: tuple[float, float]
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
        half = len(text) * _CHARACTER_PX / 2 + 3
        if all(abs(x - other) > half + room or abs(y - height) > _LINE_PX for other, height, room in kept):
            kept.append((x, y, half))
            shown.append({"x": row["x"], "y": row["y"], "text": text})
    return shown


def _measured(
    records: Dataset, study: Study, spec: Spec, load: str, direction: str, throughput: str
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
            if one.cell.histograms and round(requests * (100 - percent) / 100, 6) < latency_distributions.few_slower():
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
        raise NoData(f"fewer than {latency_distributions.few_slower()} requests lie beyond {next(iter(short))}")
    points.sort(key=lambda point: point.number)
    return points, selection.pooled([cell.point for cell in cells], load, spec.color), list(short)
