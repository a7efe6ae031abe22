"""The ratios of two runs as a forest plot: a row a condition and metric, with its interval, worst first.

Colour and shape both say the verdict. The band is the margin within which a difference counts as none.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis.run_comparison import Comparison, Row, Verdict
from ioassay.narrative import comparison_text, phrases
from ioassay.report.figures import chart, scales
from ioassay.report.figures.spec import NoData, VegaLite
from ioassay.report.figures.vega_lite import channel, layer
from ioassay.stats.ratio_of_means import Ratio

MOST_ROWS = 30
"""What a screen shows and an eye compares; the others are in the page's table."""
_SHAPES: dict[str, str] = {
    Verdict.FASTER: "triangle-up",
    Verdict.SLOWER: "triangle-down",
    Verdict.SAME: "circle",
    Verdict.CHANGED: "diamond",
    "4": "circle",
    "5": "circle",
    Verdict.WITHHELD: "stroke",
    Verdict.UNDECIDED: "square",
}
"""A verdict at the place of its colour in the theme's categories: blue, vermilion, green, purple, and grey."""
_ROW_PX, _LINE_PX, _WIDTH_PX = 23, 15, 330
_CHANGE_PX, _GAP_PX = 195, 10
_CHARACTER_PX = 7.0
"""Mean width of a character of the words in a row."""
_LEAST_PX, _MOST_PX = 80, 320
"""Of a column of words."""
_LINE_CHARACTERS, _MOST_LINES = 44, 3
"""Of the words for a condition: what tells two apart often stands at their ends."""
_BEYOND = 1.6
"""Intervals are cut at this factor beyond the outermost ratios."""
_ROOM = 0.03
"""Share of the axis beyond the outermost mark."""
_STEPS = (0.01, 0.02, 0.05, 0.1)
_MOST_TICKS, _TICK_PX = 9, 24
"""How many even steps an axis has at most, and how far apart others are at least, so that no label is dropped."""
_TICKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4, 5, 7, 10)


@dataclass(frozen=True)
class Bar:
    """A row for screens that are too narrow for the picture: places on the ratio axis in percent of its length."""

    label: str
    change: str
    verdict: Verdict
    low: float
    ratio: float
    high: float


@dataclass(frozen=True)
class Bars:
    """The worst rows, the ends of the margin's band and the place of the ratio 1."""

    rows: Sequence[Bar]
    band: tuple[float, float]
    one: float


def bars(comparison: Comparison, most: int) -> Bars:
    """The rows that `draw` begins with, on the same axis."""
    rows, (low, high), _ = _rows(comparison)

    def place(ratio: float) -> float:
        share = math.log(ratio / low) / math.log(high / low)
        return round(100 * min(max(share, 0), 1), 2)

    shown = [
        Bar(
            f"{row['condition']}, {row['metric']}",
            row["change"],
            Verdict(row["verdict"]),
            *(place(row[name]) for name in ("low", "ratio", "high")),
        )
        for row in rows[:most]
    ]
    return Bars(shown, (place(1 / (1 + comparison.margin)), place(1 + comparison.margin)), place(1.0))


def draw(comparison: Comparison) -> Any:
    """The worst rows; NoData where no row has a ratio."""
    rows, domain, known = _rows(comparison)
    told = "; ".join(
        f"{group[0].study}, {group[0].label}, {row['metric']}: {row['change']}, {row['verdict']}"
        for group, row in zip(known, rows, strict=False)
    )
    condition_px = _width_px([line for row in rows for line in row["lines"]])
    metric_px = _width_px([row["metric"] for row in rows])
    left_px = condition_px + metric_px + 2 * _GAP_PX
    margin, right_px = comparison.margin, _WIDTH_PX + _CHANGE_PX + _GAP_PX
    y = channel("place:N", axis=None, scale={"paddingInner": 0, "paddingOuter": 0})
    # A stripe behind every second row, the band of the margin, and the line at 1.
    stripes = chart.base([{"place": row["place"]} for row in rows[::2]]).mark("rect", style="frame")
    band = chart.base([{"low": 1 / (1 + margin), "high": 1 + margin}]).mark("rect", style="window")
    line = chart.base([{"ratio": 1}]).mark("rule", style="reference", strokeWidth=1.5)
    layers = [
        stripes.encode(x={"value": -left_px}, x2={"value": right_px}, y=y),
        band.encode(x="low:Q", x2="high:Q"),
        line.encode(x="ratio:Q"),
        *_marks(rows, domain, y),
    ]
    # Condition and metric to the left, the change to the right; a text has the lines of all rows that have as many.
    for lines in sorted({len(row["lines"]) for row in rows}, key=[len(row["lines"]) for row in rows].index):
        own = [row for row in rows if len(row["lines"]) == lines]
        layers.append(_column(own, y, "lines", "value", -left_px + _GAP_PX, condition_px - _GAP_PX, lines))
    layers.append(_column(rows, y, "metric", "note", -metric_px - _GAP_PX, metric_px - _GAP_PX))
    layers.append(_column(rows, y, "change", "value", _WIDTH_PX + _GAP_PX, _CHANGE_PX))
    notes = [
        f"{phrases.level(comparison.confidence)} intervals that hold for all rows at once",
        f"shaded: the same to within {phrases.percent(margin)}",
        f"{len(rows)} of {len(known)} rows" if len(rows) < len(known) else "",
        "IOPS and bandwidth of one block size share a row" if len(comparison.rows) > len(comparison.results) else "",
    ]
    subtitle = chart.broken(" · ".join(filter(None, notes)), left_px + _WIDTH_PX + _CHANGE_PX)
    height = max(_ROW_PX, _LINE_PX * max(len(row["lines"]) for row in rows) + 4) * len(rows)
    return layer(
        *layers,
        width=_WIDTH_PX,
        height=height,
        title={"text": "B divided by A, worst first", "frame": "bounds", "subtitle": subtitle},
        description=f"{comparison_text.headline(comparison)} {told}.",
    )


def _rows(comparison: Comparison) -> tuple[list[VegaLite], tuple[float, float], Sequence[Sequence[Row]]]:
    """The rows of the picture, the ends of its axis, and all results with a ratio; NoData without one."""
    known = [group for group in comparison.results if isinstance(group[0].ratio, Ratio)]
    if not known:
        raise NoData("no condition has a ratio: each needs two repetitions or more in both runs, and means above 0")
    domain = _domain(known[:MOST_ROWS], comparison.margin)
    several = len({row.study for row in comparison.rows}) > 1
    rows = [_row(group, f"{place:04}", domain, several) for place, group in enumerate(known[:MOST_ROWS])]
    return rows, domain, known


def _width_px(texts: Sequence[str]) -> int:
    return int(min(max(_CHARACTER_PX * max(map(len, texts)) + 12, _LEAST_PX), _MOST_PX))


def _domain(shown: Sequence[Sequence[Row]], margin: float) -> tuple[float, float]:
    """The ends of the ratio axis: all ratios, and of their intervals what does not squeeze them."""
    ratios = [group[0].ratio.ratio for group in shown if isinstance(group[0].ratio, Ratio)]
    ends = [group[0].interval for group in shown]
    low = max(min(end.low for end in ends if end), min(*ratios, 1.0) / _BEYOND)
    high = min(max(end.high for end in ends if end), max(*ratios, 1.0) * _BEYOND)
    low, high = min(low, 1 / (1 + margin)), max(high, 1 + margin)
    room = (high / low) ** _ROOM
    return low / room, high * room


def _row(group: Sequence[Row], place: str, domain: tuple[float, float], several: bool) -> VegaLite:
    row, bounds = group[0], group[0].interval
    if not isinstance(row.ratio, Ratio) or bounds is None:
        raise AssertionError("a row of the picture has a ratio")
    condition = f"{row.study}: {row.label}" if several else row.label
    return {
        "place": place,
        "condition": condition,
        "lines": textwrap.wrap(condition, _LINE_CHARACTERS, max_lines=_MOST_LINES, placeholder=" …") or [""],
        "metric": comparison_text.responses(group),
        "verdict": row.verdict.value,
        "ratio": _digits(row.ratio.ratio),
        "low": _digits(max(bounds.low, domain[0])),
        "high": _digits(min(bounds.high, domain[1])),
        "cut": [bounds.low < domain[0], bounds.high > domain[1]],
        "change": comparison_text.change(row),
        "repetitions": f"{row.n_a} and {row.n_b}",
    }


def _digits(number: float) -> float:
    return float(f"{number:.5g}")


def _marks(rows: Sequence[VegaLite], domain: tuple[float, float], y: Any) -> list[Any]:
    """Intervals, with an arrow where one goes on beyond the axis, and ratios."""
    x = channel(
        "low:Q",
        title="B / A, logarithmic",
        scale={"type": "log", "domain": [_digits(end) for end in domain], "nice": False},
        axis={"values": _ticks(*domain), "format": "~g", "grid": True, "labelOverlap": "greedy", "labelSeparation": 5},
    )
    present = {row["verdict"] for row in rows}
    legend = {"values": [verdict.value for verdict in Verdict if verdict.value in present]}
    color = channel("verdict:N", title=None, scale={"domain": list(_SHAPES)}, legend=legend)
    shown = {"condition": "", "metric": "", "change": "B / A", "verdict": "", "repetitions": ""}
    # Over the domain of the colours, so that one legend shows both.
    shapes = {"domain": list(_SHAPES), "range": list(_SHAPES.values())}
    base = chart.base(rows).encode(color=color, y=y)
    layers = [base.mark("rule", strokeWidth=2, opacity=0.85).encode(x=x, x2="high:Q")]
    for side, end, shape in ((0, "low", "triangle-left"), (1, "high", "triangle-right")):
        if beyond := [row for row in rows if row["cut"][side]]:
            arrow = chart.base(beyond).mark("point", filled=True, shape=shape, size=40, opacity=1)
            layers.append(arrow.encode(x=f"{end}:Q", color=color, y=y))
    point = base.mark("point", filled=True, size=85, opacity=1).encode(
        x="ratio:Q",
        shape=channel("verdict:N", title=None, scale=shapes, legend=legend),
        tooltip=chart.tips({f"{name}:N": title or name for name, title in shown.items()}),
    )
    return [*layers, point]


def _column(
    rows: Sequence[VegaLite], y: Any, field: str, style: str, left_px: int, width_px: int, lines: int = 1
) -> Any:
    """The words of one column, of rows that have as many lines."""
    told = "condition" if field == "lines" else field
    base = chart.base([{key: row[key] for key in dict.fromkeys(("place", field, told))} for row in rows])
    text = base.mark(
        "text", style=style, align="left", limit=width_px, lineHeight=_LINE_PX, dy=-_LINE_PX * (lines - 1) / 2
    )
    return text.encode(text=f"{field}:N", x={"value": left_px}, y=y, tooltip=chart.tips({f"{told}:N": ""}))


def _ticks(low: float, high: float) -> list[float]:
    """Round ratios, 1 among them: even steps where the axis is short, then wider ones, then decades."""
    for step in _STEPS:
        first, last = int(low / step) + 1, int(high / step)
        if last - first < _MOST_TICKS:
            return [round(step * number, 10) for number in range(first, last + 1)]
    if not _TICKS[0] <= low < high <= _TICKS[-1]:
        return scales.log_ticks(low, high)
    least = _TICK_PX * math.log(high / low) / _WIDTH_PX
    ticks = [1.0]
    for tick in sorted(_TICKS, key=lambda tick: abs(math.log(tick))):
        if low <= tick <= high and all(abs(math.log(tick / other)) >= least for other in ticks):
            ticks.append(tick)
    return sorted(ticks)
