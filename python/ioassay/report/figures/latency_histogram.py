"""Latency histograms of the levels of a factor below each other, over one logarithmic axis, with percentiles marked.

The height is the number of requests in steps of equal ratio; each level reaches its own peak, so that shapes compare.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ioassay.factors import CASE, axis_title
from ioassay.metrics import percentile_name
from ioassay.report.figures import axes, chart, latency_levels, metric_view
from ioassay.report.figures.latency_levels import LatencyLevels, LatencySpec, Percentage
from ioassay.report.figures.spec import VegaLite
from ioassay.report.figures.vega_lite import channel, layer
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay._core import Histogram

_STEPS = 120
_FINEST = 2 ** (1 / 64)
"""Ratio of two neighbouring bins of fio: finer steps would have gaps."""
_FOOT = 0.001
"""Share of the requests that may be faster than where the axis begins."""
_PEAK = 0.86
"""Of the height of a row."""


class Spec(LatencySpec):
    """Keys of latency histograms. `height` is that of one row."""

    marks: Annotated[tuple[Percentage, ...], Field(max_length=len(metric_view.DASHES))] = (50, 99, 99.9)
    height: Annotated[int, Field(ge=20, le=400)] = 52


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One row a level."""
    found = latency_levels.of(records, study, spec).supported()
    marked = sorted(set(spec.marks))
    last = {level: latency_levels.last_percentage(one) for level, one in found.merged.items()}
    bases = {level: len(last) - 1 - place for place, level in enumerate(last)}
    # From where almost all requests of the fastest level are slower, to where ten of the slowest are.
    low = min(one.quantile(_FOOT) for one in found.merged.values())
    low = max(low, 1.0) / 1.1
    high = max(one.quantile(last[level] / 100) for level, one in found.merged.items()) * 1.1
    steps, ticks, texts = list[VegaLite](), list[VegaLite](), {}
    for level, histogram in found.merged.items():
        base, group = bases[level], found.group(level)
        for row in _steps(histogram, low, high, group):
            steps.append({**row, "base": base, "y": base + row["height"] * _PEAK})
        known = latency_levels.percentiles(histogram, marked)
        for percent, value, text in known:
            if percent <= last[level]:
                row = {"x": float(f"{max(value, 1.0):.7g}"), "base": base, "y": base + _PEAK, **group}
                ticks.append({**row, "percentile": percentile_name(percent), "text": text})
        texts[level] = ", ".join(text if percent <= last[level] else "–" for percent, _, text in known)
    names = ", ".join(map(percentile_name, marked))
    lacking = max(marked, default=0) > min(last.values())
    notes = [
        found.requests_text(),
        "each to its own peak" if len(last) > 1 else "",
        f"at the right: {names}" if marked else "",
        f"–: fewer than {latency_levels.few_slower()} requests are slower" if lacking else "",
        found.pooled,
    ]
    x, y = axes.latency_axis("x", found.name, low, high), _rows_axis(found, bases)
    area = chart.base(steps).mark(
        "area", style="mark", interpolate="step-after", fillOpacity=0.45, line={"strokeWidth": 1.1}, clip=True
    )
    # The axis has the names.
    color = {"color": {**found.color["color"], "legend": None}} if found.color else {}
    layers = [area.encode(x=x, y=y, y2="base:Q", **color)]
    if ticks:
        dash = metric_view.dashes("percentile", [percentile_name(percent) for percent in marked])
        tooltip = chart.tips({**found.tips, "percentile:N": "", "text:N": "latency"})
        rule = chart.base(ticks).mark("rule", style="deviation", strokeWidth=1.3)
        layers.append(rule.encode(x=x, y=y, y2="base:Q", strokeDash=dash, tooltip=tooltip))
        words = chart.base([{"y": bases[level] + 0.5, "text": told} for level, told in texts.items()])
        words = words.mark("text", style="note", align="left", dx=8)
        layers.append(words.encode(x={"value": "width"}, y=y, text="text:N"))
    told = (f"{names} of " if marked else "") + found.told(texts)
    whole = layer(*layers, width=spec.width, height=spec.height * len(last))
    return chart.figure(whole, spec, study, f"{found.name}, histogram", notes, details=told)


def _rows_axis(found: LatencyLevels, bases: Mapping[Any, int]) -> Any:
    """The levels' names in the middle of their rows."""
    labels = {f"{base + 0.5:g}": next(iter(found.group(level).values()), "") for level, base in bases.items()}
    axis = {
        "values": [base + 0.5 for base in bases.values()],
        "labelExpr": f"({json.dumps(labels)})[datum.value] || ''",
        "labelLimit": 220,
        "grid": False,
    }
    scale = {"domain": [0, len(bases)], "nice": False}
    title = axis_title(found.factor) if found.factor not in (None, CASE) else None
    return channel("y:Q", title=title, axis=axis, scale=scale)


def _steps(histogram: Histogram, low: float, high: float, group: Mapping[str, str]) -> Sequence[VegaLite]:
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
