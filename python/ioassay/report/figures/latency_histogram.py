"""Latency histograms of the levels of a factor below each other, over one logarithmic axis, with percentiles marked.

The height is the number of requests in steps of equal ratio; each level reaches its own peak, so that shapes compare.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ioassay.factors import CASE, axis_title, factor_label
from ioassay.metrics import percentile_name
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart_marks, latency_levels, level_marks, titles
from ioassay.report.figures.latency_levels import LatencyLevels, LatencySpec
from ioassay.report.figures.spec import VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_ns

if TYPE_CHECKING:
    from ioassay._core import Histogram

_STEPS = 120
_FINEST = 2 ** (1 / 64)
"""Ratio of two neighbouring bins of fio: finer steps would have gaps."""
_FOOT = 0.001
"""Share of the requests that may be faster than where the axis begins."""
_PEAK = 0.86
"""Of the height of a row."""
_DASHES = ([1, 0], [5, 3], [1, 2], [7, 2, 1, 2])
Percentage = Annotated[float, Field(gt=0, lt=100)]


class Spec(LatencySpec):
    """Keys of latency histograms. `height` is that of one row."""

    marks: Annotated[tuple[Percentage, ...], Field(max_length=len(_DASHES))] = (50, 99, 99.9)
    height: Annotated[int, Field(ge=20, le=400)] = 52


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One row a level."""
    import altair as alt

    found = latency_levels.of(records, study, spec).supported()
    color = level_marks.of(records, study, found.factor, found.levels).color() if found.factor else {}
    if color:  # the axis has the names
        color = {"color": color["color"].legend(None)}
    marked = sorted(set(spec.marks))
    notes = [
        found.requests_text(),
        "each to its own peak" if len(found.merged) > 1 else "",
        f"at the right: {', '.join(map(percentile_name, marked))}" if marked else "",
        f"–: fewer than {latency_levels.few_slower()} requests are slower" if _lacking(found, marked) else "",
        found.pooled,
    ]
    title = f"{found.name}, histogram"
    return alt.layer(*_layers(spec, found, marked, color)).properties(
        width=spec.width,
        height=spec.height * len(found.merged),
        title=titles.head(spec, study, title, notes),
        description=f"{titles.noted(spec, title, notes)} {_told(found, marked)}.",
    )


def _layers(spec: Spec, found: LatencyLevels, marked: Sequence[float], color: Mapping[str, Any]) -> list[Any]:
    import altair as alt

    low, high = _range(found)
    rows = len(found.merged)
    bases = {level: rows - 1 - place for place, level in enumerate(found.merged)}
    x = axes.latency_axis("x", found.name, low, high)
    y = _rows_axis(found, bases)
    steps = [
        {**row, "base": bases[level], "y": bases[level] + row["height"] * _PEAK}
        for level, histogram in found.merged.items()
        for row in _steps(histogram, low, high, found.group(level))
    ]
    area = alt.Chart(chart_marks.data(steps)).mark_area(
        style="mark", interpolate="step-after", fillOpacity=0.45, line={"strokeWidth": 1.1}, clip=True
    )
    drawn = [area.encode(x=x, y=y, y2="base:Q", **color)]
    if ticks := [row for level in found.merged for row in _ticks(found, level, bases[level], marked)]:
        names = [percentile_name(percent) for percent in marked]
        legend = alt.Legend(symbolType=chart_marks.DASH, symbolStrokeWidth=1.8, labelOffset=8)
        scale = alt.Scale(domain=names, range=list(_DASHES[: len(names)]))
        dash = alt.StrokeDash("percentile:N", title=None, sort=names, scale=scale, legend=legend)
        rule = alt.Chart(chart_marks.data(ticks)).mark_rule(style="deviation", strokeWidth=1.3)
        tooltip = [alt.Tooltip("percentile:N"), alt.Tooltip("text:N", title="latency")]
        if found.factor:
            tooltip.insert(0, alt.Tooltip("group:N", title=factor_label(found.factor)))
        drawn.append(rule.encode(x=x, y=y, y2="base:Q", strokeDash=dash, tooltip=tooltip))
        texts = [{"y": base + 0.5, "text": _values(found.merged[level], marked)} for level, base in bases.items()]
        text = alt.Chart(chart_marks.data(texts)).mark_text(style="note", align="left", dx=8)
        drawn.append(text.encode(x=alt.value("width"), y=y, text="text:N"))
    return drawn


def _range(found: LatencyLevels) -> tuple[float, float]:
    """From where almost all requests of the fastest level are slower, to where ten of the slowest are."""
    lows = [float(one.quantiles([_FOOT])[0]) for one in found.merged.values()]
    highs = [float(one.quantiles([latency_levels.last_percentage(one) / 100])[0]) for one in found.merged.values()]
    return max(min(lows), 1.0) / 1.1, max(highs) * 1.1


def _rows_axis(found: LatencyLevels, bases: Mapping[Scalar | None, int]) -> Any:
    """The levels' names in the middle of their rows."""
    import altair as alt

    labels = {f"{base + 0.5:g}": next(iter(found.group(level).values()), "") for level, base in bases.items()}
    axis = alt.Axis(
        values=[base + 0.5 for base in bases.values()],
        labelExpr=f"({json.dumps(labels)})[datum.value] || ''",
        labelLimit=220,
        grid=False,
    )
    scale = alt.Scale(domain=[0, len(bases)], nice=False)
    title = axis_title(found.factor) if found.factor not in (None, CASE) else None
    return alt.Y("y:Q", title=title, axis=axis, scale=scale)


def _steps(histogram: Histogram, low: float, high: float, group: Mapping[str, str]) -> list[VegaLite]:
    """The left end of each step and its height from 0 to 1; the last closes the outline."""
    count = max(min(_STEPS, int(math.log(high / low) / math.log(_FINEST))), 1)
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


def _ticks(found: LatencyLevels, level: Scalar | None, base: int, marked: Sequence[float]) -> list[VegaLite]:
    """A row for each percentile that the requests of a level support."""
    histogram = found.merged[level]
    shown = [percent for percent in marked if percent <= latency_levels.last_percentage(histogram)]
    values = histogram.quantiles([percent / 100 for percent in shown])
    return [
        {
            "x": float(f"{max(value, 1.0):.7g}"),
            "base": base,
            "y": base + _PEAK,
            "percentile": percentile_name(percent),
            "text": format_ns(value),
            **found.group(level),
        }
        for percent, value in zip(shown, values, strict=True)
    ]


def _values(histogram: Histogram, marked: Sequence[float]) -> str:
    """The percentiles of a level: `56.1 µs, 178 µs, –`."""
    last = latency_levels.last_percentage(histogram)
    values = histogram.quantiles([percent / 100 for percent in marked])
    texts = [format_ns(value) if percent <= last else "–" for percent, value in zip(marked, values, strict=True)]
    return ", ".join(texts)


def _lacking(found: LatencyLevels, marked: Sequence[float]) -> bool:
    return any(max(marked, default=0) > latency_levels.last_percentage(one) for one in found.merged.values())


def _told(found: LatencyLevels, marked: Sequence[float]) -> str:
    """The percentiles in words."""
    names = ", ".join(map(percentile_name, marked))
    told = [
        "".join(f"{group}: " for group in found.group(level).values()) + _values(histogram, marked)
        for level, histogram in found.merged.items()
    ]
    return f"{names} of {'; '.join(told)}" if marked else "; ".join(told)
