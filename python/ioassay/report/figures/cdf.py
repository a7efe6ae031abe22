"""Cumulative distribution of a latency: one curve a level, percentiles marked on the curve.

The axis of shares has a decade of slower requests in each step (90, 99, 99.9 %), as plots of HdrHistogram do, and each
curve ends where too few requests are slower; on a linear axis the tail would be a line along the upper edge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ioassay.factors import factor_label
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart_marks, latency_levels, level_marks, scales, titles
from ioassay.report.figures.latency_levels import LatencyLevels, LatencySpec
from ioassay.report.figures.spec import VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_ns

if TYPE_CHECKING:
    from ioassay._core import Histogram

Percentage = Annotated[float, Field(gt=0, lt=100)]
_MARKS: Mapping[str, Sequence[float]] = {"nines": (50, 90, 99, 99.9, 99.99, 99.999), "linear": (10, 25, 50, 75, 90, 99)}
_TICKS = (0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999)
_FOOT = 0.002
"""Share of the requests that may be faster than where the time axis begins."""
SHOWN = 0.999
"""Share of the requests that the time axis holds next to a linear one; zooming out on the page shows the rest."""


class Spec(LatencySpec):
    """Keys of a cumulative distribution."""

    axis: Literal["nines", "linear"] = "nines"
    marks: tuple[Percentage, ...] | None = None

    @property
    def marked(self) -> Sequence[float]:
        """The percentages to mark, ascending."""
        return sorted(set(self.marks if self.marks is not None else _MARKS[self.axis]))


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Curves and marks over a logarithmic time axis."""
    import altair as alt

    found = latency_levels.of(records, study, spec)
    found = found if spec.axis == "linear" else found.supported()
    color = level_marks.of(records, study, found.factor, found.levels).color() if found.factor else {}
    notes = [found.requests_text(), _marks_text(spec, found.merged), _end_text(spec), found.pooled]
    title = f"{found.name}, cumulative distribution"
    return alt.layer(*_layers(spec, found, color)).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=_description(titles.text(spec, title), spec, found),
    )


def _marks_text(spec: Spec, merged: Mapping[Scalar | None, Histogram]) -> str:
    """The percentages that are marked on some curve."""
    ends = [_last(spec, histogram) for histogram in merged.values()]
    shown = [f"{share:g}" for share in spec.marked if share <= max(ends)]
    return f"○ {', '.join(shown)} % of the requests took at most this long" if shown else ""


def _end_text(spec: Spec) -> str:
    if spec.axis == "nines":
        return f"a curve ends where fewer than {latency_levels.few_slower()} requests are slower"
    return f"axis to {SHOWN:.1%}".replace("%", " %") + " of the slowest curve"


def _last(spec: Spec, histogram: Histogram) -> float:
    """Where a curve ends, in percent."""
    return 100.0 if spec.axis == "linear" else latency_levels.last_percentage(histogram)


def _layers(spec: Spec, found: LatencyLevels, color: Mapping[str, Any]) -> list[Any]:
    import altair as alt

    merged = found.merged

    lines, marks = (
        _point_rows(spec, found, curve_points),
        _point_rows(spec, found, percentile_points),
    )
    marks = [{**row, "text": format_ns(row["x"])} for row in marks]
    # The least of many requests would leave most of the plot to the flat foot of the curves.
    low = max(min(float(one.quantiles([_FOOT])[0]) for one in merged.values()) / 1.2, min(row["x"] for row in lines))
    high = max(row["x"] for row in lines) * 1.05
    x = axes.latency_axis("x", found.name, low, high if spec.axis == "nines" else _right_end(lines, merged))
    y = _nines_axis(min(row["slower"] for row in lines)) if spec.axis == "nines" else _percent_axis(spec)
    line = alt.Chart(chart_marks.data(lines)).mark_line(style="curve", strokeWidth=1.8, clip=True)
    drawn = [line.encode(x=x, y=y, **color).add_params(chart_marks.zoom())]
    if marks:
        tooltip = [alt.Tooltip("text:N", title="latency"), alt.Tooltip("y:Q", title="% at most")]
        if found.factor:
            tooltip.insert(0, alt.Tooltip("group:N", title=factor_label(found.factor)))
        points = alt.Chart(chart_marks.data(marks)).mark_point(style="mark", filled=False, size=44, strokeWidth=1.6)
        drawn.append(points.encode(x=x, y=y, tooltip=tooltip, **color))
    if marks and len(merged) == 1:
        text = alt.Chart(chart_marks.data(marks)).mark_text(style="value", align="left", dx=9, dy=6)
        drawn.append(text.encode(x=x, y=y, text="text:N"))
    return drawn


def _point_rows(
    spec: Spec,
    found: LatencyLevels,
    points_of: Callable[[Histogram, Sequence[float], Shares], Sequence[Point]],
) -> list[VegaLite]:
    """Rows of curves or of marks: x (ns), y (percent at most), slower (percent), ascending."""
    rows = []
    for level, histogram in found.merged.items():
        shares = Shares(spec.axis == "nines", _last(spec, histogram))
        marked = [share for share in spec.marked if share <= shares.last]
        for time_ns, share in points_of(histogram, marked, shares):
            row = {"x": float(f"{max(time_ns, 1.0):.7g}"), "y": float(f"{share:.9g}")}
            rows.append({**row, "slower": float(f"{max(100 - share, 0.0):.7g}"), **found.group(level)})
    return rows


def _right_end(lines: chart_marks.Rows, merged: Mapping[Scalar | None, Histogram]) -> float:
    """Where the slowest curve has `SHOWN` of its requests: a single stall would squeeze all else into a corner."""
    last = max(row["x"] for row in lines)
    slowest = max(float(found.quantiles([SHOWN])[0]) for found in merged.values())
    return float(min(max(slowest * 1.1, 1.0), last))


def _nines_axis(least: float) -> Any:
    """The logarithmic channel of the slower requests, upside down; its labels are the share of the others."""
    import altair as alt

    labels = {round(100 - share, 9): f"{share:g}" for share in _TICKS}
    axis = alt.Axis(values=list(labels), labelExpr=scales.labels_at(labels))
    scale = alt.Scale(type="log", domain=[100, least * 0.8], nice=False)
    return alt.Y("slower:Q", title="Share of requests (%)", axis=axis, scale=scale)


def _percent_axis(spec: Spec) -> Any:
    import altair as alt

    ticks = [0.0, *spec.marked] if spec.marked else [0.0, 25.0, 50.0, 75.0, 100.0]
    if max(ticks) < 95:
        ticks.append(100)
    axis = alt.Axis(values=ticks, labelOverlap="greedy")
    return alt.Y("y:Q", title="Share of requests (%)", axis=axis, scale=alt.Scale(domain=[0, 100], nice=False))


def _description(title: str, spec: Spec, found: LatencyLevels) -> str:
    """The percentiles in words."""
    told = []
    for level, histogram in found.merged.items():
        name = "".join(f"{group}: " for group in found.group(level).values())
        marked = [share for share in spec.marked if share <= _last(spec, histogram)]
        points = percentile_points(histogram, marked)
        told.append(name + ", ".join(f"{share:g} % {format_ns(at)}" for at, share in points))
    return f"{title}. {'; '.join(told)}."


# The curve: each bucket of `_core.Histogram` gives the point (its value, share of the requests up to it), and straight
# lines join them. The percentiles of the histogram are vertices too, so thinning the curve cannot part mark and curve.
# A bucket that holds a visible share of all requests is drawn as the vertical step that it is.

MAX_POINTS = 240
"""A curve of 640 pixels does not show more."""
_VISIBLE_STEP = 0.02
"""Of the axis: about seven pixels."""
Point = tuple[float, float]
"""Latency in ns and share of the requests in percent."""


@dataclass(frozen=True)
class Shares:
    """The axis of shares: linear, or with a decade of slower requests in each step, and where a curve ends on it."""

    nines: bool = False
    last: float = 100.0

    def height(self, share: float) -> float:
        """How far above the lower end a share is, of the whole axis."""
        if not self.nines:
            return share / 100
        slower, least = max(1 - share / 100, 1e-12), max(1 - self.last / 100, 1e-12)
        return math.log(slower) / math.log(least)


_LINEAR = Shares()


def percentile_points(histogram: Histogram, percentages: Sequence[float], shares: Shares | None = None) -> list[Point]:
    """The percentiles asked for, in ascending order."""
    ordered = sorted(set(percentages))
    return list(zip(histogram.quantiles([share / 100 for share in ordered]), ordered, strict=True))


def curve_points(
    histogram: Histogram, percentages: Sequence[float], shares: Shares = _LINEAR, most: int = MAX_POINTS
) -> list[Point]:
    """At most `most` vertices, ascending, the marks and the end among them."""
    kept = percentile_points(histogram, [*percentages, *([shares.last] if shares.last < 100 else [])])
    before = [point for point in vertices(histogram, shares) if point[1] <= shares.last]
    steps = thinned(before, most - len(kept), shares)
    return sorted({*steps, *kept}, key=lambda point: (point[1], point[0]))


def vertices(histogram: Histogram, shares: Shares = _LINEAR) -> list[Point]:
    """From 0 to 100 %, ascending in both; the value of rank r (from 0) of n lies at r / (n - 1), as type 7 has it."""
    last_rank = max(histogram.count - 1, 1)
    found: list[Point] = []
    rank = 0
    for value, count in zip(*histogram.buckets(), strict=True):
        low, high = 100 * rank / last_rank, 100 * (rank + count - 1) / last_rank
        if not found or shares.height(high) - shares.height(low) > _VISIBLE_STEP:
            found.append((float(value), low))
        found.append((float(value), high))
        rank += count
    return found if histogram.count > 1 else [found[0], (found[0][0], 100.0)]


def thinned(points: Sequence[Point], most: int, shares: Shares = _LINEAR) -> list[Point]:
    """At most `most` of the points, spread evenly along the drawn line; the first and the last are kept.

    Lengths are those on paper: logarithmic time, the axis of shares, and both axes of about one length.
    """
    if len(points) <= most:
        return list(points)
    lengths = [0.0]
    span = math.log(max(points[-1][0], 1) / max(points[0][0], 1)) or 1.0
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        rise = shares.height(next_y) - shares.height(y)
        lengths.append(lengths[-1] + math.log(max(next_x, 1) / max(x, 1)) / span + rise)
    kept: list[Point] = []
    for point, length in zip(points, lengths, strict=True):
        if length >= lengths[-1] * len(kept) / (most - 1):
            kept.append(point)
    return [*kept[: most - 1], points[-1]]
