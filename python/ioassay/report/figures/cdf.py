"""Cumulative distribution of a latency: one curve a level, percentiles marked on the curve.

The axis of shares has a decade of slower requests in each step (90, 99, 99.9 %), as plots of HdrHistogram do, and each
curve ends where too few requests are slower; on a linear axis the tail would be a line along the upper edge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ioassay.report.figures import axes, chart, latency_levels, scales
from ioassay.report.figures.chart import alt
from ioassay.report.figures.latency_levels import LatencySpec, Percentage
from ioassay.report.figures.spec import VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay._core import Histogram

_MARKS = {"nines": (50, 90, 99, 99.9, 99.99, 99.999), "linear": (10, 25, 50, 75, 90, 99)}
_TICKS = (0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999)
_FOOT = 0.002
"""Share of the requests that may be faster than where the time axis begins."""
SHOWN = 0.999
"""Share of the requests that the time axis holds next to a linear one; zooming out on the page shows the rest."""


class Spec(LatencySpec):
    """Keys of a cumulative distribution."""

    axis: Literal["nines", "linear"] = "nines"
    marks: tuple[Percentage, ...] | None = None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Curves and marks over a logarithmic time axis."""
    found, nines = latency_levels.of(records, study, spec), spec.axis == "nines"
    found = found.supported() if nines else found
    wanted = sorted(set(_MARKS[spec.axis] if spec.marks is None else spec.marks))
    lines, marks, texts, ends = list[VegaLite](), list[VegaLite](), {}, list[float]()
    for level, histogram in found.merged.items():
        shares = Shares(nines, latency_levels.last_percentage(histogram) if nines else 100.0)
        marked = [share for share in wanted if share <= shares.last]
        lines += [{**_row(*point), **found.group(level)} for point in curve_points(histogram, marked, shares)]
        known = latency_levels.percentiles(histogram, marked)
        marks += [{**_row(at, share), "text": text, **found.group(level)} for share, at, text in known]
        texts[level] = ", ".join(f"{share:g} % {text}" for share, _, text in known)
        ends.append(shares.last)
    shown = ", ".join(f"{share:g}" for share in wanted if share <= max(ends))
    slower = f"a curve ends where fewer than {latency_levels.few_slower()} requests are slower"
    notes = [
        found.requests_text(),
        f"○ {shown} % of the requests took at most this long" if shown else "",
        slower if nines else f"axis to {100 * SHOWN:.1f} % of the slowest curve",
        found.pooled,
    ]
    # The least of many requests would leave most of the plot to the flat foot of the curves.
    foot = min(one.quantile(_FOOT) for one in found.merged.values())
    low, last = max(foot / 1.2, min(row["x"] for row in lines)), max(row["x"] for row in lines)
    # A single stall would squeeze all else into a corner.
    slowest = max(one.quantile(SHOWN) for one in found.merged.values())
    x = axes.latency_axis("x", found.name, low, last * 1.05 if nines else min(max(slowest * 1.1, 1.0), last))
    y = _nines_axis(min(row["slower"] for row in lines)) if nines else _percent_axis(wanted)
    line = chart.base(lines).mark_line(style="curve", strokeWidth=1.8, clip=True)
    layers = [line.encode(x=x, y=y, **found.color).add_params(chart.zoom())]
    if marks:
        tooltip = chart.tips({**found.tips, "text:N": "latency", "y:Q": "% at most"})
        base = chart.base(marks).encode(x=x, y=y)
        points = base.mark_point(style="mark", filled=False, size=44, strokeWidth=1.6)
        layers.append(points.encode(tooltip=tooltip, **found.color))
        if len(found.merged) == 1:
            layers.append(base.mark_text(style="value", align="left", dx=9, dy=6).encode(text="text:N"))
    title = f"{found.name}, cumulative distribution"
    return chart.layered(layers, spec, study, title, notes, details=found.told(texts))


def _row(time_ns: float, share: float) -> VegaLite:
    """A point of a curve: x (ns), y (percent at most), slower (percent)."""
    slower = float(f"{max(100 - share, 0.0):.7g}")
    return {"x": float(f"{max(time_ns, 1.0):.7g}"), "y": float(f"{share:.9g}"), "slower": slower}


def _nines_axis(least: float) -> Any:
    """The logarithmic channel of the slower requests, upside down; its labels are the share of the others."""
    labels = {round(100 - share, 9): f"{share:g}" for share in _TICKS}
    axis = alt.Axis(values=list(labels), labelExpr=scales.labels_at(labels))
    scale = alt.Scale(type="log", domain=[100, least * 0.8], nice=False)
    return alt.Y("slower:Q", title="Share of requests (%)", axis=axis, scale=scale)


def _percent_axis(marked: Sequence[float]) -> Any:
    ticks = [0.0, *marked] if marked else [0.0, 25.0, 50.0, 75.0, 100.0]
    values = ticks if max(ticks) >= 95 else [*ticks, 100]
    return chart.percent("Share of requests (%)", values=values, labelOverlap="greedy")


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


def curve_points(
    histogram: Histogram, percentages: Sequence[float], shares: Shares | None = None, most: int = MAX_POINTS
) -> list[Point]:
    """At most `most` vertices, ascending, the marks and the end among them."""
    shares = shares or Shares()
    ends = [shares.last] if shares.last < 100 else []
    marked = latency_levels.percentiles(histogram, sorted({*percentages, *ends}))
    kept = [(at, share) for share, at, _ in marked]
    before = [point for point in _vertices(histogram, shares) if point[1] <= shares.last]
    steps = thinned(before, most - len(kept), shares)
    return sorted({*steps, *kept}, key=lambda point: (point[1], point[0]))


def _vertices(histogram: Histogram, shares: Shares) -> list[Point]:
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


def thinned(points: Sequence[Point], most: int, shares: Shares) -> list[Point]:
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
