"""Axes of figures: units, ticks and labels; an axis over a factor's levels, one of a metric, one of latencies.

Linear axes are divided into one unit, named in the axis title, as in print (`Read bandwidth (MB/s)`).
Logarithmic time axes span too much for one unit: their ticks carry it (`10 µs`, `1 ms`).
"""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ioassay.factors import axis_title, level_axis_numbers, level_label
from ioassay.metrics import metric
from ioassay.narrative.say import sentence
from ioassay.records.record import Scalar
from ioassay.report.figures import selection
from ioassay.report.figures.chart import CHARACTER_PX, channel
from ioassay.report.figures.spec import VegaLite
from ioassay.units import format_ns

_COUNTS = ("", "thousands", "millions")
_RATES = ("1/s", "k/s", "M/s", "G/s")
_THOUSANDS = {
    "bytes/s": ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"),
    "ns": ("ns", "µs", "ms", "s"),
    "IOPS": _COUNTS,
    "requests": _COUNTS,
    "bogo ops": _COUNTS,
    "bogo ops/s": _RATES,
    "ops/s": ("ops/s", "k ops/s", "M ops/s"),
    "1/s": _COUNTS,  # labels of these say that they are rates
    **dict.fromkeys(("switches", "faults", "processes", "threads", "tasks", "workers", "blocks", "pages"), _COUNTS),
}
_BINARY = {"bytes": ("B", "KiB", "MiB", "GiB", "TiB")}


@dataclass(frozen=True)
class Unit:
    """What stored numbers are divided by to be shown, and the name of the result ('' for none)."""

    divisor: float
    name: str

    def scale(self, number: float) -> float:
        """A stored number in this unit, to seven digits: more would only make the page larger."""
        return float(f"{number / self.divisor:.7g}")

    def titled(self, label: str) -> str:
        """An axis title: label and unit."""
        return f"{label} ({self.name})" if self.name else label


def unit_for(name: str, numbers: Iterable[float]) -> Unit:
    """`best_unit` of the metric's unit."""
    return best_unit(metric(name).unit, numbers)


def best_unit(unit: str, numbers: Iterable[float]) -> Unit:
    """The multiple of `unit` in which the largest of `numbers` has one to three digits before the point."""
    largest = max((abs(number) for number in numbers), default=0.0)
    for base, names in ((1000.0, _THOUSANDS.get(unit)), (1024.0, _BINARY.get(unit))):
        if names:
            step = 0
            while step < len(names) - 1 and largest >= base ** (step + 1):
                step += 1
            return Unit(base**step, names[step])
    return Unit(1.0, unit)


def labels_at(labels: Mapping[float, str]) -> str:
    """A Vega expression that labels the ticks at the given positions, and no others."""
    table = json.dumps(
        {f"{position:g}" if position % 1 else str(int(position)): text for position, text in labels.items()}
    )
    return f"({table})[datum.value] || ''"


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: decades, and 1-2-5 steps where decades are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1,) if last - first > 4 else (1, 2, 5)
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


MANY_FOLD = 16
"""Numbers that span at least this factor may be seen best on a logarithmic axis."""
DECADES = 20
"""A metric whose largest value is at least this multiple of its smallest has a logarithmic axis."""
_TICKS = 6
_LOG_MARGIN = 1.15
"""A logarithmic axis goes on by this factor at both ends."""
_ROOM = 10.0
"""It makes room for error bars as far as this factor beyond the values."""
_TWO_LINES_PX = 36
"""Room for a slanted label of two lines."""
_SLANTED = 14
"""Characters in a line of a slanted label."""


@dataclass(frozen=True)
class LevelAxis:
    """How a factor lies on x: at its numbers, or as categories side by side."""

    factor: str
    levels: Sequence[Scalar]
    numbers: Sequence[float] | None = None
    """None: categories side by side."""
    log: bool = False
    note: str = ""
    """What the reader has to know of it."""

    def position(self, level: Scalar) -> float | str:
        """The value to plot for a level."""
        if self.numbers is None:
            return level_label(self.factor, level)
        return self.numbers[self.levels.index(level)]

    def places(self, steps: int, first: float | None = None, last: float | None = None) -> list[float]:
        """The numbers from `first` to `last`, or of all levels, in steps that are even on the axis."""
        low = min(self.numbers or [0.0]) if first is None else first
        high = max(self.numbers or [0.0]) if last is None else last
        shares = [step / steps for step in range(steps + 1)]
        along = [low * (high / low) ** share if self.log else low + (high - low) * share for share in shares]
        return [float(f"{place:.7g}") for place in along]

    def encoding(self, width_px: int) -> Any:
        """The x channel over the field `x`."""
        title, labels = axis_title(self.factor), [level_label(self.factor, level) for level in self.levels]
        if self.numbers is not None:
            known = dict(zip(self.numbers, labels, strict=True))
            axis = {"labelExpr": labels_at(known), "labelOverlap": "greedy", "labelSeparation": 6}
            kind = {"type": "log", "base": 2} if self.log else {"zero": False}
            scale = {**kind, "nice": False, "padding": 18}
            return channel("x:Q", title=title, axis={"values": list(known), **axis}, scale=scale)
        room = int(width_px / max(len(labels), 1) / CHARACTER_PX) - 1
        lines, look = {label: _wrapped(label, room) for label in labels}, VegaLite(labelAngle=0)
        if max((len(line) for label in labels for line in lines[label]), default=0) > room:
            # Slanted, and so short that they do not reach into a chart at the left.
            two_lines = width_px / len(labels) >= _TWO_LINES_PX
            lines = {label: _wrapped(label, _SLANTED) if two_lines else [label] for label in labels}
            look = {"labelAngle": -35 if two_lines else -60, "labelLimit": 200}
        axis = {"labelExpr": f"({json.dumps(lines)})[datum.value]", **look}
        return channel("x:N", title=title, sort=labels, axis=axis)


def _wrapped(label: str, room: int) -> list[str]:
    """The label's lines; a number is not parted from its unit, nor what stands in parentheses."""
    label = re.sub(r"\([^)]*\)", lambda found: found[0].replace(" ", "\u00a0"), label)
    joined = re.sub(r"(\d) (?=[kKMGT]?i?B\b|[nµm]?s\b)", "\\1\u00a0", label)
    return textwrap.wrap(joined, max(room, 4), break_long_words=False) or [""]


def level_axis(factor: str, levels: Sequence[Scalar], log: bool = False) -> LevelAxis:
    """The axis of a factor; logarithmic only where that is asked for and all levels are positive."""
    numbers, note = level_axis_numbers(factor, levels), ""
    if log and numbers is None:
        note = sentence("figures.category_axis", factor=factor)
    elif log and numbers and min(numbers) <= 0:
        note = sentence("figures.linear_level_axis")
    return LevelAxis(factor, levels, numbers, log and not note, note)


def geometric(factor: str, levels: Sequence[Scalar]) -> bool:
    """Whether levels are seen best on a logarithmic axis: spanning MANY_FOLD, and growing by factors, not by steps."""
    numbers = sorted(level_axis_numbers(factor, levels) or ())
    if len(numbers) < 3 or numbers[0] <= 0 or numbers[-1] < MANY_FOLD * numbers[0]:
        return False
    pairs = list(itertools.pairwise(numbers))
    factors, steps = [high / low for low, high in pairs], [high - low for low, high in pairs]
    uneven = [statistics.pstdev(found) / statistics.fmean(found) for found in (factors, steps)]
    return uneven[0] < uneven[1]


@dataclass(frozen=True)
class MetricAxis:
    """How a metric lies on y: in one unit, from zero on a linear axis, or on a logarithmic one.

    `values` are the stored numbers that it shows.
    """

    name: str
    unit: Unit
    values: Sequence[float]
    log: bool = False
    note: str = ""
    """Why it is not as it was asked for."""
    floor: float = -math.inf
    """Where the axis can begin, in its unit."""
    ceiling: float = math.inf
    """Where it ends, in its unit; nowhere if it is linear."""

    def holding(self, rows: Sequence[VegaLite]) -> tuple[MetricAxis, list[VegaLite]]:
        """The axis with room for the error bars of the rows, and the rows, whose error bars end where the axis does.

        `cut` of a row names the ends that would reach beyond it. Those of a logarithmic axis may end before the
        interval does: decades of it would hide the values.
        """
        axis, cut_rows = self, []
        if self.log and rows:
            lows: list[float] = [row["low"] if "low" in row else row["y"] for row in rows]
            highs: list[float] = [row["high"] if "high" in row else row["y"] for row in rows]
            least, most = self.unit.scale(min(self.values)) / _ROOM, self.unit.scale(max(self.values)) * _ROOM
            low = max(min(lows), least) / _LOG_MARGIN
            high = min(max(highs), most) * _LOG_MARGIN
            axis = replace(self, floor=min(self.floor, low), ceiling=max(self.ceiling, high))
        for row in rows:
            ends = [end for end in ("low", "high") if end in row and not axis.floor <= row[end] <= axis.ceiling]
            bars: VegaLite = {end: min(max(row[end], axis.floor), axis.ceiling) for end in ends}
            cut_rows.append({**row, **bars, "cut": ends} if ends else row)
        return axis, cut_rows

    def encoding(self, zero: bool = True, ticks: int = _TICKS, across: bool = False) -> Any:
        """The channel over the field `y` (`across`: on x, over `x`) with about as many ticks.

        A linear axis begins at zero, so that lengths compare, unless it shows no lengths (`zero=False`). A metric that
        is never negative keeps its axis at zero, even where a regression line or a deviation reaches below.
        """
        title = self.unit.titled(selection.metric_label(self.name))
        field = "x:Q" if across else "y:Q"
        if self.log:
            domain = [self.floor, self.ceiling]
            places = log_ticks(*domain)
            decades = [place for place in places if math.log10(place).is_integer()]
            kept = decades if len(places) > ticks + 2 and len(decades) > 1 else places
            scale = {"type": "log", "domain": domain, "nice": False}
            return channel(field, title=f"{title}, logarithmic", axis={"values": kept, "format": "~g"}, scale=scale)
        if not zero:
            scale = {"zero": False, "nice": ticks, "padding": 8}
        elif any(self.values):
            scale = {"zero": True, "nice": ticks, **({"domainMin": 0} if min(self.values) >= 0 else {})}
        else:
            scale = {"domain": [0, 1]}
        return channel(field, title=title, scale=scale, axis={"tickCount": ticks})


def metric_axis(name: str, values: Sequence[float], log: bool | None = None, unit: Unit | None = None) -> MetricAxis:
    """The axis of a metric: logarithmic if `log` is True, or if it is None and `values` span decades.

    Shares of a whole (%) are then linear; values that are not positive always are.
    """
    unit = unit or unit_for(name, values)
    if not values or min(values) <= 0:
        note = sentence("figures.linear_metric_axis") if log else ""
        return MetricAxis(name, unit, values, note=note, floor=0.0 if values and min(values) == 0 else -math.inf)
    if log is None:
        log = metric(name).unit != "%" and max(values) >= DECADES * min(values)
    if not log:
        return MetricAxis(name, unit, values, floor=0.0)
    low, high = unit.scale(min(values)) / _LOG_MARGIN, unit.scale(max(values)) * _LOG_MARGIN
    return MetricAxis(name, unit, values, log, floor=low, ceiling=high)


def latency_axis(field: str, title: str, low_ns: float, high_ns: float) -> Any:
    """The logarithmic channel of latencies over the field `x` or `y` in ns, whose ticks carry their units."""
    if high_ns < 2 * low_ns:
        low_ns, high_ns = low_ns / 1.5, high_ns * 1.5
    ticks = {tick: format_ns(tick) for tick in log_ticks(low_ns, high_ns)}
    axis = {"values": list(ticks), "labelExpr": labels_at(ticks), "labelOverlap": "greedy", "grid": True}
    scale = {"type": "log", "domain": [low_ns, high_ns], "nice": False}
    return channel(f"{field}:Q", title=f"{title} (logarithmic)", axis=axis, scale=scale)
