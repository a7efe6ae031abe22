"""Cumulative distribution of a latency: one curve a level, percentiles marked on the curve.

The axis of shares has a decade of slower requests in each step (90, 99, 99.9 %), as plots of HdrHistogram do, and each
curve ends where too few requests are slower; on a linear axis the tail would be a line along the upper edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ioassay.report.figures import axes, chart, latency_levels, scales
from ioassay.report.figures.latency_levels import LatencySpec, Percentage
from ioassay.report.figures.spec import VegaLite
from ioassay.report.figures.vega_lite import channel
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay._core import Histogram

_MARKS = {"nines": (50, 90, 99, 99.9, 99.99, 99.999), "linear": (10, 25, 50, 75, 90, 99)}
_TICKS = (0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999)
_FOOT = 0.002
"""Share of the requests that may be faster than where the time axis begins."""
_STEPS = 120
"""Of the axis of shares, three pixels each: finer ones would show the bins of the histogram."""
Point = tuple[float, float]
"""Latency in ns and share of the requests in percent."""
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
        ends.append(latency_levels.last_percentage(histogram) if nines else 100.0)
        marked = [share for share in wanted if share <= ends[-1]]
        curve = curve_points(histogram, marked, ends[-1], nines)
        lines += [{**_row(*point), **found.group(level)} for point in curve]
        known = latency_levels.percentiles(histogram, marked)
        marks += [{**_row(at, share), "text": text, **found.group(level)} for share, at, text in known]
        texts[level] = ", ".join(f"{share:g} % {text}" for share, _, text in known)
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
    line = chart.base(lines).mark("line", style="curve", strokeWidth=1.8, clip=True)
    layers = [line.encode(x=x, y=y, **found.color).zoomable()]
    if marks:
        tooltip = chart.tips({**found.tips, "text:N": "latency", "y:Q": "% at most"})
        base = chart.base(marks).encode(x=x, y=y)
        points = base.mark("point", style="mark", filled=False, size=44, strokeWidth=1.6)
        layers.append(points.encode(tooltip=tooltip, **found.color))
        if len(found.merged) == 1:
            layers.append(base.mark("text", style="value", align="left", dx=9, dy=6).encode(text="text:N"))
    title = f"{found.name}, cumulative distribution"
    return chart.layered(layers, spec, study, title, notes, details=found.told(texts))


def _row(time_ns: float, share: float) -> VegaLite:
    """A point of a curve: x (ns), y (percent at most), slower (percent)."""
    slower = float(f"{max(100 - share, 0.0):.7g}")
    return {"x": float(f"{max(time_ns, 1.0):.7g}"), "y": float(f"{share:.9g}"), "slower": slower}


def _nines_axis(least: float) -> Any:
    """The logarithmic channel of the slower requests, upside down; its labels are the share of the others."""
    labels = {round(100 - share, 9): f"{share:g}" for share in _TICKS}
    axis = {"values": list(labels), "labelExpr": scales.labels_at(labels)}
    scale = {"type": "log", "domain": [100, least * 0.8], "nice": False}
    return channel("slower:Q", title="Share of requests (%)", axis=axis, scale=scale)


def _percent_axis(marked: Sequence[float]) -> Any:
    ticks = [0.0, *marked] if marked else [0.0, 25.0, 50.0, 75.0, 100.0]
    values = ticks if max(ticks) >= 95 else [*ticks, 100]
    return chart.percent("Share of requests (%)", values=values, labelOverlap="greedy")


def curve_points(histogram: Histogram, marked: Sequence[float], last: float, nines: bool = False) -> list[Point]:
    """Percentiles that are even along the axis of shares up to `last`, those marked, and the end of the time axis.

    Where a value has many requests, the curve is a vertical step, of which the ends do.
    """
    least, heights = 1 - last / 100, [step / _STEPS for step in range(_STEPS)]
    even = [100 * (1 - least**height) if nines else last * height for height in heights]
    shares = sorted({*even, *marked, min(100 * SHOWN, last), last})
    values = histogram.quantiles([share / 100 for share in shares])
    ends = [None, *values, None]
    return [
        (value, share)
        for place, (value, share) in enumerate(zip(values, shares, strict=True))
        if share in marked or not ends[place] == value == ends[place + 2]
    ]
