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
from ioassay.report.figures import chart_marks, scales, titles
from ioassay.report.figures.spec import NoData, VegaLite
from ioassay.stats.ratio_of_means import Ratio

MOST_ROWS = 30
"""What a screen shows and an eye compares; the others are in the page's table."""
_SHAPES: dict[str, str] = {
    Verdict.SLOWER: "triangle-down",
    Verdict.FASTER: "triangle-up",
    Verdict.CHANGED: "diamond",
    Verdict.UNDECIDED: "square",
    Verdict.SAME: "circle",
    Verdict.WITHHELD: "stroke",
}
_COLOURS = (
    Verdict.FASTER,
    Verdict.SLOWER,
    Verdict.SAME,
    Verdict.CHANGED,
    "4",
    "5",
    Verdict.WITHHELD,
    Verdict.UNDECIDED,
)
"""A verdict at the place of its colour in the theme's categories: blue, vermilion, green, purple, and grey."""
_ROW_PX, _LINE_PX, _WIDTH_PX = 21, 13, 330
_CHANGE_PX, _GAP_PX = 175, 10
_CHARACTER_PX = 6.3
"""Mean width of a character of the words in a row."""
_LEAST_PX, _MOST_PX = 70, 300
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
    known = _known(comparison)
    domain = _domain(known[:MOST_ROWS], comparison.margin)
    several = _has_several_studies(comparison)

    def place(ratio: float) -> float:
        share = math.log(ratio / domain[0]) / math.log(domain[1] / domain[0])
        return round(100 * min(max(share, 0), 1), 2)

    rows = []
    for group in known[:most]:
        row = _row(group, "", domain, several)
        label = f"{row['condition']}, {row['metric']}"
        places = [place(row[name]) for name in ("low", "ratio", "high")]
        rows.append(Bar(label, row["change"], Verdict(row["verdict"]), *places))
    return Bars(rows, (place(1 / (1 + comparison.margin)), place(1 + comparison.margin)), place(1.0))


def _known(comparison: Comparison) -> list[tuple[Row, ...]]:
    known = [group for group in comparison.results if isinstance(group[0].ratio, Ratio)]
    if not known:
        raise NoData("no condition has a ratio: each needs two repetitions or more in both runs, and means above 0")
    return known


def _has_several_studies(comparison: Comparison) -> bool:
    return len({row.study for row in comparison.rows}) > 1


def draw(comparison: Comparison) -> Any:
    """The worst rows; NoData where no row has a ratio."""
    import altair as alt

    known = _known(comparison)
    shown = known[:MOST_ROWS]
    domain = _domain(shown, comparison.margin)
    several = _has_several_studies(comparison)
    rows = [_row(group, f"{place:04}", domain, several) for place, group in enumerate(shown)]
    widths = (
        _width_px([line for row in rows for line in row["lines"]]),
        _width_px([row["metric"] for row in rows]),
    )
    left_px = sum(widths) + 2 * _GAP_PX
    ground = _ground(rows, comparison.margin, left_px)
    layers = [*ground, *_intervals(rows, domain), *_points(rows), *_words(rows, *widths)]
    y = alt.Y("place:N", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0))
    return alt.layer(*(layer.encode(y=y) if placed else layer for layer, placed in layers)).properties(
        width=_WIDTH_PX,
        height=max(_ROW_PX, _LINE_PX * max(len(row["lines"]) for row in rows) + 4) * len(rows),
        title={
            "text": "B divided by A, worst first",
            "frame": "bounds",
            "subtitle": _notes(comparison, len(known), len(shown), left_px),
        },
        description=_description(comparison, shown),
    )


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
    row = group[0]
    bounds = row.interval
    if not isinstance(row.ratio, Ratio) or bounds is None:
        raise AssertionError("a row of the picture has a ratio")
    change = comparison_text.change(row.ratio, bounds)
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
        "change": change,
        "repetitions": f"{row.n_a} and {row.n_b}",
    }


def _digits(number: float) -> float:
    return float(f"{number:.5g}")


Layer = tuple[Any, bool]
"""A chart, and whether its marks stand in rows."""


def _ground(rows: Sequence[VegaLite], margin: float, left_px: int) -> list[Layer]:
    """A stripe behind every second row, the band of the margin, and the line at 1."""
    import altair as alt

    right_px = _WIDTH_PX + _CHANGE_PX + _GAP_PX
    stripes = alt.Chart(chart_marks.data([{"place": row["place"]} for row in rows[::2]])).mark_rect(style="frame")
    band = alt.Chart(chart_marks.data([{"low": 1 / (1 + margin), "high": 1 + margin}])).mark_rect(style="window")
    line = alt.Chart(chart_marks.data([{"ratio": 1}])).mark_rule(style="reference", strokeWidth=1.5)
    return [
        (stripes.encode(x=alt.value(-left_px), x2=alt.value(right_px)), True),
        (band.encode(x="low:Q", x2="high:Q"), False),
        (line.encode(x="ratio:Q"), False),
    ]


def _intervals(rows: Sequence[VegaLite], domain: tuple[float, float]) -> list[Layer]:
    """Intervals; an arrow where one goes on beyond the axis."""
    import altair as alt

    ticks = _ticks(*domain)
    x = alt.X(
        "low:Q",
        title="B / A, logarithmic",
        scale=alt.Scale(type="log", domain=[_digits(end) for end in domain], nice=False),
        axis=alt.Axis(values=ticks, format="~g", grid=True, labelOverlap="greedy", labelSeparation=5),
    )
    rule = alt.Chart(chart_marks.data(rows)).mark_rule(strokeWidth=2, opacity=0.85)
    drawn: list[Layer] = [(rule.encode(x=x, x2="high:Q", color=_colour(rows)), True)]
    for side, end, shape in ((0, "low", "triangle-left"), (1, "high", "triangle-right")):
        if beyond := [row for row in rows if row["cut"][side]]:
            arrow = alt.Chart(chart_marks.data(beyond)).mark_point(filled=True, shape=shape, size=40, opacity=1)
            drawn.append((arrow.encode(x=f"{end}:Q", color=_colour(rows)), True))
    return drawn


def _points(rows: Sequence[VegaLite]) -> list[Layer]:
    import altair as alt

    names = ("condition", "metric", "change", "verdict", "repetitions")
    mark = alt.Chart(chart_marks.data(rows)).mark_point(filled=True, size=85, opacity=1)
    shown = [alt.Tooltip(f"{name}:N", title="B / A" if name == "change" else name) for name in names]
    shape = alt.Shape("verdict:N", title=None, scale=_shapes(), legend=_legend(rows))
    return [(mark.encode(x="ratio:Q", color=_colour(rows), shape=shape, tooltip=shown), True)]


def _words(rows: Sequence[VegaLite], condition_px: int, metric_px: int) -> list[Layer]:
    """Condition and metric to the left, the change to the right."""
    by_height: dict[int, list[VegaLite]] = {}
    for row in rows:
        by_height.setdefault(len(row["lines"]), []).append(row)
    left_px = -condition_px - metric_px - _GAP_PX
    conditions = [_column(own, "lines", "value", left_px, condition_px - _GAP_PX) for own in by_height.values()]
    metrics = _column(rows, "metric", "note", -metric_px - _GAP_PX, metric_px - _GAP_PX)
    return [*conditions, metrics, _column(rows, "change", "value", _WIDTH_PX + _GAP_PX, _CHANGE_PX)]


def _column(rows: Sequence[VegaLite], field: str, style: str, left_px: int, width_px: int) -> Layer:
    """The words of one column, of rows that have as many lines."""
    import altair as alt

    lines = len(rows[0][field]) if field == "lines" else 1
    told = "condition" if field == "lines" else field
    data = chart_marks.data([{key: row[key] for key in dict.fromkeys(("place", field, told))} for row in rows])
    text = alt.Chart(data).mark_text(
        style=style, align="left", limit=width_px, lineHeight=_LINE_PX, dy=-_LINE_PX * (lines - 1) / 2
    )
    return text.encode(text=f"{field}:N", x=alt.value(left_px), tooltip=[alt.Tooltip(f"{told}:N")]), True


def _colour(rows: Sequence[VegaLite]) -> Any:
    import altair as alt

    return alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(_COLOURS)), legend=_legend(rows))


def _shapes() -> Any:
    """Over the domain of the colours, so that one legend shows both."""
    import altair as alt

    return alt.Scale(domain=list(_COLOURS), range=[_SHAPES.get(name, "circle") for name in _COLOURS])


def _legend(rows: Sequence[VegaLite]) -> Any:
    """The verdicts that occur, worst first."""
    import altair as alt

    present = {row["verdict"] for row in rows}
    return alt.Legend(values=[verdict.value for verdict in Verdict if verdict.value in present])


def _ticks(low: float, high: float) -> list[float]:
    """Round ratios, 1 among them: even steps where the axis is short, then wider ones, then decades."""
    for step in _STEPS:
        first, last = int(low / step) + 1, int(high / step)
        if last - first < _MOST_TICKS:
            return [round(step * number, 10) for number in range(first, last + 1)]
    if not _TICKS[0] <= low < high <= _TICKS[-1]:
        return scales.log_ticks(low, high)
    px = _WIDTH_PX / math.log(high / low)
    below, above = [1.0], [1.0]
    for side, ticks in ((below, reversed(_TICKS)), (above, _TICKS)):
        for tick in ticks:
            if (
                low <= tick <= high
                and (tick < 1) == (side is below)
                and abs(math.log(tick / side[-1])) * px >= _TICK_PX
            ):
                side.append(tick)
    return [*reversed(below), *above[1:]]


def _notes(comparison: Comparison, known: int, shown: int, left_px: int) -> list[str]:
    """What the picture shows and what it leaves out."""
    restated = len(comparison.rows) - len(comparison.results)
    parts = [
        f"{phrases.level(comparison.confidence)} intervals that hold for all rows at once",
        f"shaded: the same to within {phrases.percent(comparison.margin)}",
        f"{shown} of {known} rows" if shown < known else "",
        "IOPS and bandwidth of one block size share a row" if restated else "",
    ]
    return titles.broken(" · ".join(filter(None, parts)), left_px + _WIDTH_PX + _CHANGE_PX)


def _description(comparison: Comparison, shown: Sequence[Sequence[Row]]) -> str:
    said = []
    for group in shown:
        row = group[0]
        if isinstance(row.ratio, Ratio) and row.interval is not None:
            change = comparison_text.change(row.ratio, row.interval)
            said.append(f"{row.study}, {row.label}, {comparison_text.responses(group)}: {change}, {row.verdict}")
    return f"{comparison_text.headline(comparison)} {'; '.join(said)}."
