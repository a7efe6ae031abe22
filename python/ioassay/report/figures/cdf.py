"""Cumulative distribution of a latency: one curve a level, percentiles marked on the curve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ioassay.factors import factor_label, level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart_marks, level_marks, selection, titles
from ioassay.report.figures.spec import Direction, FigureSpec, Latency, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

if TYPE_CHECKING:
    import polars as pl

    from ioassay._core import Histogram

import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioassay._core import Histogram

Percentage = Annotated[float, Field(gt=0, lt=100)]
SHOWN = 0.999
"""Share of the requests that the axis holds; zooming out on the page shows the rest."""
_KINDS = {"lat": "total", "clat": "completion", "slat": "submission"}


class Spec(FigureSpec):
    """Keys of a cumulative distribution."""

    direction: Direction
    latency: Latency
    color: str | None = None
    marks: tuple[Percentage, ...] = (10, 25, 50, 75, 90, 99)


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Curves and marks over a logarithmic time axis."""
    import altair as alt

    trials = selection.select(records, study, spec.where)
    factor = _factor(study, spec)
    rows = _rows(records, study, trials, spec, factor)
    merged = _merged(study, trials, rows, factor)
    shown = trials.filter(trials["trial"].is_in(rows["trial"].unique().implode()))
    name = f"{spec.direction.capitalize()} {_KINDS[spec.latency]} latency"
    levels = [level for level in merged if level is not None]
    color = level_marks.of(records, study, factor, levels).color() if factor else {}
    drawn = _layers(spec, factor, merged, name, color)
    requests = format_count(sum(found.count for found in merged.values()))
    notes = [
        f"{requests} requests of {shown.height} trials",
        f"○ {', '.join(f'{share:g}' for share in sorted(spec.marks))} % of the requests took at most this long"
        if spec.marks
        else "",
        f"axis to {SHOWN:.1%}".replace("%", " %") + " of the slowest curve",
        selection.pooled(selection.points_of(study, shown), factor),
    ]
    title = f"{name}, cumulative distribution"
    return alt.layer(*drawn).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=_description(titles.text(spec, title), spec, factor, merged),
    )


def _factor(study: Study, spec: Spec) -> str | None:
    """The factor of the curves; none where the study has one point only."""
    free = [name for name in study.levels if name not in spec.where]
    return spec.color or (free[0] if free else None)


def _rows(records: Dataset, study: Study, trials: pl.DataFrame, spec: Spec, factor: str | None) -> pl.DataFrame:
    """The buckets of each trial: of all its jobs merged, or of its single jobs where only these were kept."""
    import polars as pl

    if factor is not None:
        selection.require_factor(study, factor)
    wanted = (pl.col("direction") == spec.direction) & (pl.col("kind") == spec.latency)
    rows = records.hist.filter(wanted & pl.col("trial").is_in(trials["trial"].implode()))
    if rows.is_empty():
        raise NoData(f"no {spec.direction} {spec.latency} histogram was recorded")
    merged = rows.filter(pl.col("job") == -1)
    apart = rows.filter(~pl.col("trial").is_in(merged["trial"].unique().implode()))
    return pl.concat([merged, apart])


def _merged(
    study: Study, trials: pl.DataFrame, rows: pl.DataFrame, factor: str | None
) -> dict[Scalar | None, Histogram]:
    """One histogram a level, all its trials merged."""
    from ioassay._core import Histogram

    if factor is None:
        return {None: Histogram.from_buckets(rows["value_ns"].to_list(), rows["count"].to_list())}
    rows = rows.join(trials.select("trial", factor), on="trial").drop_nulls(factor)
    found: dict[Scalar | None, Histogram] = {}
    for level in study.design.in_order(factor, rows[factor].unique().to_list()):
        members = rows.filter(rows[factor] == level)
        found[level] = Histogram.from_buckets(members["value_ns"].to_list(), members["count"].to_list())
    return found


def _layers(
    spec: Spec, factor: str | None, merged: Mapping[Scalar | None, Histogram], name: str, color: Mapping[str, Any]
) -> list[Any]:
    import altair as alt

    lines, marks = (
        _point_rows(spec, factor, merged, curve_points),
        _point_rows(spec, factor, merged, percentile_points),
    )
    marks = [{**row, "text": format_ns(row["x"])} for row in marks]
    x = axes.latency_axis("x", name, min(row["x"] for row in lines), _right_end(lines, merged))
    y = _percent_axis(spec)
    line = alt.Chart(chart_marks.data(lines)).mark_line(style="curve", strokeWidth=1.8, clip=True)
    drawn = [line.encode(x=x, y=y, **color).add_params(chart_marks.zoom())]
    if marks:
        tooltip = [alt.Tooltip("text:N", title="latency"), alt.Tooltip("y:Q", title="% at most")]
        if factor:
            tooltip.insert(0, alt.Tooltip("group:N", title=factor_label(factor)))
        points = alt.Chart(chart_marks.data(marks)).mark_point(style="mark", filled=False, size=44, strokeWidth=1.6)
        drawn.append(points.encode(x=x, y=y, tooltip=tooltip, **color))
    if marks and len(merged) == 1:
        text = alt.Chart(chart_marks.data(marks)).mark_text(style="value", align="left", dx=9, dy=6)
        drawn.append(text.encode(x=x, y=y, text="text:N"))
    return drawn


def _point_rows(
    spec: Spec,
    factor: str | None,
    merged: Mapping[Scalar | None, Histogram],
    points_of: Callable[[Histogram, Sequence[float]], Sequence[Point]],
) -> list[VegaLite]:
    """Rows of curves or of marks: x (ns), y (percent), ascending."""
    rows = []
    for level, histogram in merged.items():
        group = {} if factor is None or level is None else {"group": level_label(factor, level)}
        for time_ns, share in points_of(histogram, spec.marks):
            rows.append({"x": float(f"{max(time_ns, 1.0):.7g}"), "y": float(f"{share:.7g}"), **group})
    return rows


def _right_end(lines: chart_marks.Rows, merged: Mapping[Scalar | None, Histogram]) -> float:
    """Where the slowest curve has `SHOWN` of its requests: a single stall would squeeze all else into a corner."""
    last = max(row["x"] for row in lines)
    slowest = max(float(found.quantiles([SHOWN])[0]) for found in merged.values())
    return float(min(max(slowest * 1.1, 1.0), last))


def _percent_axis(spec: Spec) -> Any:
    import altair as alt

    ticks = [0, *sorted(spec.marks)] if spec.marks else [0, 25, 50, 75, 100]
    if max(ticks) < 95:
        ticks.append(100)
    axis = alt.Axis(values=ticks, labelOverlap="greedy")
    return alt.Y("y:Q", title="Share of requests (%)", axis=axis, scale=alt.Scale(domain=[0, 100], nice=False))


def _description(title: str, spec: Spec, factor: str | None, merged: Mapping[Scalar | None, Histogram]) -> str:
    """The percentiles in words."""
    told = []
    for level, histogram in merged.items():
        name = "" if factor is None or level is None else f"{level_label(factor, level)}: "
        told.append(
            name + ", ".join(f"{share:g} % {format_ns(at)}" for at, share in percentile_points(histogram, spec.marks))
        )
    return f"{title}. {'; '.join(told)}."


# The curve: each bucket of `_core.Histogram` gives the point (its value, share of the requests up to it), and straight
# lines join them. The percentiles of the histogram are vertices too, so thinning the curve cannot part mark and curve.
# A bucket that holds a visible share of all requests is drawn as the vertical step that it is.

MAX_POINTS = 240
"""A curve of 640 pixels does not show more."""
_VISIBLE_STEP = 2.0
"""Percent: about seven pixels."""
Point = tuple[float, float]
"""Latency in ns and share of the requests in percent."""


def percentile_points(histogram: Histogram, percentages: Sequence[float]) -> list[Point]:
    """The percentiles asked for, in ascending order."""
    ordered = sorted(set(percentages))
    return list(zip(histogram.quantiles([share / 100 for share in ordered]), ordered, strict=True))


def curve_points(histogram: Histogram, percentages: Sequence[float], most: int = MAX_POINTS) -> list[Point]:
    """At most `most` vertices, ascending, the marks among them."""
    kept = percentile_points(histogram, percentages)
    steps = thinned(vertices(histogram), most - len(kept))
    return sorted({*steps, *kept}, key=lambda point: (point[1], point[0]))


def vertices(histogram: Histogram) -> list[Point]:
    """From 0 to 100 %, ascending in both; the value of rank r (from 0) of n lies at r / (n - 1), as type 7 has it."""
    last_rank = max(histogram.count - 1, 1)
    found: list[Point] = []
    rank = 0
    for value, count in zip(*histogram.buckets(), strict=True):
        low, high = 100 * rank / last_rank, 100 * (rank + count - 1) / last_rank
        if not found or high - low > _VISIBLE_STEP:
            found.append((float(value), low))
        found.append((float(value), high))
        rank += count
    return found if histogram.count > 1 else [found[0], (found[0][0], 100.0)]


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` of the points, spread evenly along the drawn line; the first and the last are kept.

    Lengths are those on paper: logarithmic time, percent, and both axes of about one length.
    """
    if len(points) <= most:
        return list(points)
    lengths = [0.0]
    span = math.log(max(points[-1][0], 1) / max(points[0][0], 1)) or 1.0
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        lengths.append(lengths[-1] + math.log(max(next_x, 1) / max(x, 1)) / span + (next_y - y) / 100)
    kept: list[Point] = []
    for point, length in zip(points, lengths, strict=True):
        if length >= lengths[-1] * len(kept) / (most - 1):
            kept.append(point)
    return [*kept[: most - 1], points[-1]]
