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
from ioassay.report.figures import (
    axes,
    chart_marks,
    condition_rows,
    latency_levels,
    level_marks,
    selection,
    statistics,
    titles,
)
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

_DASHES = ([1, 0], [6, 3], [2, 3], [8, 3, 2, 3])
_MARGIN = 2.0
"""The latency axis goes on by this factor at both ends."""
_LIMIT = 1.15
"""How far intervals of the throughput reach at most, as a multiple of the highest mean."""
_CHARACTER_PX, _LINE_PX = 6.2, 13
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
        tuple[Annotated[float, AfterValidator(_known)], ...], Field(min_length=1, max_length=len(_DASHES))
    ] = (50, 99, 99.9)
    color: str | None = None
    log_x: bool | None = None


@dataclass(frozen=True)
class _Point:
    """One level of the load in one group: throughput achieved, and each percentile that has enough requests."""

    level: Scalar
    group: Scalar | None
    throughput: statistics.Summary
    latencies: Mapping[float, statistics.Summary]
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
    import altair as alt

    selection.select(records, study, spec.where)  # says why where nothing went well
    look = _Look(records, study, spec)
    title = f"{look.latency_name} against {look.throughput_name}"
    notes = look.notes()
    return alt.layer(*look.limit(), *look.lines(), *look.intervals(), *look.points(), *look.labels()).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=f"{titles.noted(spec, title, notes)} {look.told()}.",
    )


class _Look:
    """The layers of one figure, with the channels that they share."""

    def __init__(self, records: Dataset, study: Study, spec: Spec) -> None:
        self.spec = spec
        self.load = _load(study, spec)
        self.direction = spec.direction or _direction(records, study)
        self.throughput = f"{self.direction}.{spec.throughput or offers(self.load) or 'iops'}"
        self.percentiles = sorted(set(spec.percentiles))
        self.found, self.pooled, self.short = _measured(records, study, spec, self)
        values = [point.throughput.mean for point in self.found]
        self.x_axis = axes.metric_axis(self.throughput, values, spec.log_x)
        self.x = self.x_axis.encoding(across=True)
        centres = [found.mean for point in self.found for found in point.latencies.values()]
        self.low, self.high = max(min(centres), 1.0) / _MARGIN, max(centres) * _MARGIN
        self.y = axes.latency_axis("y", self.latency_name, self.low, self.high)
        self.rows = [row for point in self.found for row in self._rows(point)]
        self.color = self._colors(records, study)

    @property
    def latency_name(self) -> str:
        return latency_levels.latency_name(self.direction, self.spec.latency)

    @property
    def throughput_name(self) -> str:
        return selection.metric_phrase(self.throughput)

    def _colors(self, records: Dataset, study: Study) -> VegaLite:
        """Colour and mark of a level of the second factor, or of a percentile."""
        import altair as alt

        names = [percentile_name(percent) for percent in self.percentiles]
        scale = alt.Scale(domain=names, range=list(_DASHES[: len(names)]))
        if self.spec.color is not None:
            legend = alt.Legend(symbolType=chart_marks.DASH, symbolStrokeWidth=1.8, labelOffset=8)
            dash = alt.StrokeDash("percentile:N", scale=scale, sort=names, title=None, legend=legend)
            marks = level_marks.of(records, study, self.spec.color, [point.group for point in self.found])
            return {"line": {**marks.color(), "strokeDash": dash}, "rule": marks.color(), "point": marks.points()}
        legend = alt.Legend(symbolType="circle")
        named = {"sort": names, "title": None, "legend": legend, "scale": alt.Scale(domain=names)}
        color = {"color": alt.Color("percentile:N", **named)}
        return {"line": color, "rule": color, "point": color}

    def _rows(self, point: _Point) -> list[VegaLite]:
        """One row a percentile."""
        rate, unit = point.throughput, self.x_axis.unit
        row: VegaLite = {
            "level": level_label(self.load, point.level),
            "load": level_number(self.load, point.level),
            "x": unit.scale(rate.mean),
            "throughput": format_metric(self.throughput, rate.mean),
            "saturated": point.saturated,
            "n": rate.n,
        }
        if point.group is not None and self.spec.color is not None:
            row["group"] = level_label(self.spec.color, point.group)
        if point.offered is not None:
            row["offered"] = format_metric(self.throughput, point.offered)
        rows: list[VegaLite] = []
        for percent, found in point.latencies.items():
            # The throughput is the same for every percentile: its interval is drawn once.
            ends = self._interval("y", found) | ({} if rows else self._interval("x", rate))
            named = {"percentile": percentile_name(percent), "latency": format_ns(found.mean)}
            rows.append({**row, "y": float(f"{max(found.mean, 1.0):.7g}"), **ends, **named})
        return rows

    def _interval(self, field: str, found: statistics.Summary) -> VegaLite:
        """The ends of an interval, as far as they lie within the plot: those of few repetitions would fill it."""
        if found.low is None or found.high is None:
            return {}
        if field == "y":
            ends = max(found.low, self.low), min(found.high, self.high)
        else:
            scale, most = self.x_axis.unit.scale, max(self.x_axis.values) * _LIMIT
            ends = max(scale(found.low), self.x_axis.floor), scale(min(found.high, most))
        return {f"{field}_low": float(f"{ends[0]:.7g}"), f"{field}_high": float(f"{ends[1]:.7g}")}

    def limit(self) -> list[Any]:
        """The most that was achieved, where more was offered."""
        import altair as alt

        if self.spec.color is not None or not any(point.saturated for point in self.found):
            return []
        most = max(point.throughput.mean for point in self.found)
        row = {"x": self.x_axis.unit.scale(most), "text": f"at most {format_metric(self.throughput, most)}"}
        data = chart_marks.data([row])
        rule = alt.Chart(data).mark_rule(style="reference", strokeDash=[2, 4]).encode(x=self.x)
        text = alt.Chart(data).mark_text(style="note", align="right", dx=-5)
        return [rule, text.encode(x=self.x, y=alt.value(self.spec.height - 8), text="text:N")]

    def lines(self) -> list[Any]:
        """One line a percentile and group, in the order of the load."""
        import altair as alt

        line = alt.Chart(chart_marks.data(self.rows)).mark_line(style="curve", strokeWidth=1.6)
        return [line.encode(x=self.x, y=self.y, order=alt.Order("load:Q"), **self.color["line"])]

    def intervals(self) -> list[Any]:
        """Intervals of both means, where there are repetitions."""
        import altair as alt

        drawn = []
        for field in ("y", "x"):
            if rows := [row for row in self.rows if f"{field}_low" in row]:
                rule = alt.Chart(chart_marks.data(rows)).mark_rule(strokeWidth=1.2, strokeOpacity=0.3)
                places = {"x": self.x, "y": self.y, field: chart_marks.on(getattr(self, field), f"{field}_low")}
                drawn.append(rule.encode(**places, **{f"{field}2": f"{field}_high:Q"}, **self.color["rule"]))
        return drawn

    def points(self) -> list[Any]:
        """Filled; hollow where the load was more than was achieved."""
        import altair as alt

        shown = {"level": factor_label(self.load), "percentile": "percentile", "latency": "latency"}
        shown |= {"throughput": "throughput", "offered": "offered"}
        if self.spec.color is not None:
            shown["group"] = factor_label(self.spec.color)
        drawn = []
        for saturated in (False, True):
            if rows := [row for row in self.rows if row["saturated"] is saturated]:
                tooltip = [alt.Tooltip(f"{name}:N", title=title) for name, title in shown.items() if name in rows[0]]
                mark = alt.Chart(chart_marks.data(rows)).mark_point(
                    style="mark", filled=not saturated, size=46, strokeWidth=1.6
                )
                drawn.append(mark.encode(x=self.x, y=self.y, tooltip=tooltip, **self.color["point"]))
        return drawn

    def labels(self) -> list[Any]:
        """The load over the points of the highest percentile, where there is room."""
        import altair as alt

        top: dict[tuple[str, Any], VegaLite] = {}
        for row in self.rows:
            top[row["level"], row.get("group")] = row  # percentiles ascend
        kept: list[tuple[float, float, float]] = []
        shown = []
        # The ends of the load first: what lies between them can be guessed.
        ordered = sorted(top.values(), key=lambda row: row["load"])
        for row in [*ordered[:1], *ordered[:0:-1]]:
            text = self._label(row)
            x, y = self._place(row)
            half = len(text) * _CHARACTER_PX / 2 + 3
            if all(
                abs(x - other) > half + other_half or abs(y - height) > _LINE_PX for other, height, other_half in kept
            ):
                kept.append((x, y, half))
                # To the left, where a rising curve leaves room; to the right at the axis.
                shown.append({"x": row["x"], "y": row["y"], "text": text, "first": x < 2 * half})
        text = alt.Chart(chart_marks.data(shown)).mark_text(
            style="value", align="right", baseline="bottom", dx=-5, dy=-4
        )
        return [text.encode(x=self.x, y=self.y, text="text:N")]

    def _label(self, row: VegaLite) -> str:
        return format_count(row["load"]) if offers(self.load) == "iops" else str(row["level"])

    def _place(self, row: VegaLite) -> tuple[float, float]:
        """Where a row's label is, in pixels from the left and from below."""
        left, right = self.x_axis.floor, max(one["x"] for one in self.rows)
        if self.x_axis.log:
            across = math.log(row["x"] / left) / math.log(max(right / left, 1.0001))
        else:
            across = row["x"] / right if right else 0.0
        up = math.log(row["y"] / self.low) / math.log(self.high / self.low)
        return across * self.spec.width, up * self.spec.height

    def notes(self) -> list[str]:
        """What the marks are, and what saturates."""
        saturated = [point for point in self.found if point.saturated]
        first = min((level_number(self.load, point.level) or 0.0 for point in saturated), default=None)
        offered = [point.offered for point in saturated if level_number(self.load, point.level) == first]
        below = f"hollow: less than {SERVED:.0%} of the offered rate".replace("%", " %")
        numbers = "numbers: requests a second that each job was offered"
        return [
            numbers if offers(self.load) == "iops" else f"numbers: {factor_label(self.load)}",
            f"{below}, first of {format_metric(self.throughput, offered[0])}" if offered and offered[0] else "",
            selection.repetitions_text([point.throughput.n for point in self.found]),
            f"no {' and '.join(self.short)} with fewer than {latency_levels.few_slower()} requests beyond"
            if self.short
            else "",
            self.pooled,
            self.x_axis.note,
        ]

    def told(self) -> str:
        """Every point in words."""
        rows: dict[str, list[str]] = {}
        for row in self.rows:
            group = f" ({row['group']})" if "group" in row else ""
            told = rows.setdefault(f"{row['level']}{group}: {row['throughput']}", [])
            told.append(f"{row['percentile']} {row['latency']}")
        return "; ".join(f"{head}, {', '.join(parts)}" for head, parts in rows.items())


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


def _measured(records: Dataset, study: Study, spec: Spec, look: _Look) -> tuple[list[_Point], str, list[str]]:
    """The points in the order of the load, what lies together in one of them, and the percentiles that are short."""
    split = (look.load, spec.color)
    cells = selection.measured(records, study, spec.where, look.throughput, *split)
    confidence = study.analysis.confidence
    requests: dict[tuple[str, str], int] = {}
    latencies: dict[tuple[str, str], dict[float, statistics.Summary]] = {}
    short = []
    for percent in look.percentiles:
        name = f"{look.direction}.{spec.latency}.{percentile_name(percent)}"
        found = selection.measured(records, study, spec.where, name, *split)
        if not requests:
            for cell in found:
                key = _key(cell.point, split)
                requests[key] = requests.get(key, 0) + sum(histogram.count for histogram in cell.histograms)
        for one in condition_rows.of(found, study, name, *split):
            key = (level_key(look.load, one.level), level_key(spec.color or CASE, one.group))
            if one.merged and round(requests[key] * (100 - percent) / 100, 6) < latency_levels.few_slower():
                short.append(percentile_name(percent))
            else:
                latencies.setdefault(key, {})[percent] = statistics.summarise(name, one.cell, "ci", confidence)
    points = [
        _Point(
            one.level,
            one.group,
            statistics.summarise(look.throughput, one.cell, "ci", confidence),
            latencies[key],
            _offered(study, look, one, spec),
        )
        for one in condition_rows.of(cells, study, look.throughput, *split)
        if (key := (level_key(look.load, one.level), level_key(spec.color or CASE, one.group))) in latencies
    ]
    if not points:
        raise NoData(f"fewer than {latency_levels.few_slower()} requests lie beyond {short[0]}")
    points.sort(key=lambda point: level_number(look.load, point.level) or 0.0)
    return points, selection.pooled([cell.point for cell in cells], *split), list(dict.fromkeys(short))


def _key(point: Mapping[str, Scalar], split: Sequence[str | None]) -> tuple[str, str]:
    load, color = split
    assert load is not None
    return level_key(load, point[load]), level_key(color or CASE, point[color] if color else None)


def _offered(study: Study, look: _Look, one: condition_rows.Condition, spec: Spec) -> float | None:
    """The rate that all jobs together were offered; None where the load is no rate, or jobs differ among trials."""
    if offers(look.load) != look.throughput.rpartition(".")[2]:
        return None
    jobs = study.params.get("numjobs", 1)
    if "numjobs" in study.levels:
        jobs = one.group if spec.color == "numjobs" else spec.where.get("numjobs")
    number, rate = level_number("numjobs", jobs), level_number(look.load, one.level)
    return None if number is None or rate is None else number * rate
