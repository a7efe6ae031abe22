"""A study in one small panel: its response over what it sweeps, the best level, and the levels that are as good.

The numbers are those of the question `peak` (`analysis/optimum/optimum.py`) and of the intervals that all figures show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.factors import level_axis_numbers, level_label, level_text, same_level
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart_marks, condition_rows, hardware_threads, level_marks, selection
from ioassay.report.figures.spec import NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.store.schema import Host
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.measurements.cells import Cell, Cells
    from ioassay.analysis.optimum.optimum import Peak

_TICKS = 4
_SMALL_LEGEND: VegaLite = {
    "labelFontSize": 11,
    "titleFontSize": 11,
    "titlePadding": 5,
    "symbolSize": 36,
    "symbolStrokeWidth": 1,
    "offset": 2,
    "columnPadding": 8,
    "labelOffset": 2,
}


@dataclass(frozen=True)
class Ask:
    """The size of a panel in px, the trials that it keeps, and its metric (None: the study's first response)."""

    width: int
    height: int
    where: Mapping[str, Scalar] = field(default_factory=dict)
    metric: str | None = None


@dataclass(frozen=True)
class Panel:
    """A chart without a title, and what is to stand over it."""

    chart: Any
    notes: Sequence[str]


def confidence(studies: Sequence[Study]) -> float:
    """That of the first: studies of one suite seldom ask for different ones."""
    return studies[0].analysis.confidence


def draw(records: Dataset, study: Study, ask: Ask) -> Panel:
    """The panel; NoData where nothing went well or nothing is swept."""
    import altair as alt

    selection.select(records, study, ask.where)  # says why where nothing went well
    name = ask.metric or _first_response(records, study)
    cells = selection.measured(records, study, ask.where, name)
    x, color = swept(study, [cell.point for cell in cells])
    look = _Look(records, study, ask, name, cells, x, color)
    pooled = selection.pooled([cell.point for cell in cells], x, color)
    # Of several conditions taken together, none is best.
    conclusive = selection.is_conclusive(records, study)
    peaks = [] if pooled or not conclusive else _peaks(records, study, ask, name, x)
    drawn = [*look.plateau(peaks), *look.threads(records.machine(study)), *look.levels(), *look.best(peaks)]
    chart = alt.layer(*drawn).properties(width=ask.width, height=ask.height)
    return Panel(chart, [look.unit_note, _told(peaks) if conclusive else selection.UNFIT, pooled])


def _first_response(records: Dataset, study: Study) -> str:

    found = records.responses(study)
    if not found:
        raise NoData(f"no trial of the study '{study.name}' has a metric that it asks for")
    return found[0]


def swept(study: Study, points: Sequence[Mapping[str, Scalar]]) -> tuple[str, str | None]:
    """The factor with most levels, rather of numbers than of words, and the next one, which takes the colour."""

    levels = {name: study.design.in_order(name, [point.get(name) for point in points]) for name in study.levels}
    varied = [name for name in levels if len(levels[name]) > 1]
    if not varied:
        raise NoData(f"the study '{study.name}' has values of one condition only")
    numeric = [name for name in varied if level_axis_numbers(name, levels[name]) and len(levels[name]) > 2]
    x = max(numeric or varied, key=lambda name: len(levels[name]))
    others = [name for name in varied if name != x]
    return x, others[0] if others else None


def _peaks(records: Dataset, study: Study, ask: Ask, name: str, x: str) -> list[Peak]:
    """The best level along x, once for each combination of the other factors; none where nothing is better."""
    from ioassay.analysis.optimum import optimum

    if metrics.known(name) and metrics.metric(name).better == "none":
        return []
    peaks = optimum.measured(records, study, name).get(x, [])
    return [peak for peak in peaks if _matches(peak.part, ask.where, x)]


def _matches(part: Cells, where: Mapping[str, Scalar], x: str) -> bool:
    point = part.cells[0].point
    return all(same_level(name, level, point[name]) for name, level in where.items() if name != x)


def _told(peaks: Sequence[Peak]) -> str:
    """The best level in words, of each combination of other factors where they differ."""
    from ioassay.narrative import peak_tables

    seen = [one for one in peaks if not one.indistinct]
    if not seen:
        return "the levels are not distinguishable" if peaks else ""
    best = {peak_tables.phrase_at(one, one.best) for one in seen}
    if len(seen) < len(peaks) or len(best) > 1:
        named = [(one.part.where(), peak_tables.phrase_at(one, one.best) if one in seen else "none") for one in peaks]
        told = [f"{', '.join(level_text(*level) for level in where.items())}: {text}" for where, text in named]
        return f"best of {'; '.join(told)}" if len(told) < 4 else f"best: {len(best)} different levels"
    return f"best: {best.pop()}{_as_good(seen[0]) if len(peaks) == 1 else ''}"


def _as_good(one: Peak) -> str:
    """The levels that are as good: a span of numbers, or why there is none, or a list of words."""
    from ioassay.narrative import peak_tables, phrases
    from ioassay.stats.best_level import BestLevel

    if one.plateau is not None:
        return f", as good: {peak_tables.span(one, one.plateau.first, one.plateau.last)}"
    if one.numbers is not None:
        return f"; {one.no_plateau}"
    others = [place for place in one.levels.as_good if place != one.best] if isinstance(one.levels, BestLevel) else []
    return f", as good: {phrases.listed([peak_tables.phrase_at(one, place) for place in others])}" if others else ""


class _Look:
    """The layers of one panel, with the channels that they share."""

    def __init__(
        self,
        records: Dataset,
        study: Study,
        ask: Ask,
        name: str,
        cells: Sequence[Cell],
        x: str,
        color: str | None,
    ) -> None:
        found = condition_rows.of(cells, study, name, x, color)
        values = condition_rows.measured_values(found)
        levels = condition_rows.levels_of(found)
        self.factor, self.color_factor, self.centre = x, color, condition_rows.centre(found)
        self.axis = axes.level_axis(x, levels, axes.geometric(x, levels))
        metric_axis = axes.metric_axis(name, values)
        self.unit = metric_axis.unit
        self.ask = condition_rows.Ask(name, color, "ci", study.analysis.confidence)
        metric_axis, self.points = metric_axis.holding(condition_rows.point_rows(found, self.axis, self.ask, self.unit))
        self.x = self.axis.encoding(ask.width)
        self.y = metric_axis.encoding(ticks=_TICKS).title(None)
        self.unit_note = self.unit.titled(selection.metric_label(name)) + (", logarithmic" if metric_axis.log else "")
        groups = [condition.group for condition in found]
        marks = replace(level_marks.of(records, study, color, groups), legend=_SMALL_LEGEND) if color else None
        self.color: VegaLite = marks.color() if marks else {}
        self.marks: VegaLite = marks.points() if marks else {}

    def plateau(self, peaks: Sequence[Peak]) -> list[Any]:
        """The band of levels that are as good as the best, in every line where there are several."""
        import altair as alt

        found = [(one.numbers, one.plateau) for one in peaks if not one.indistinct and one.plateau and one.numbers]
        if not found or len(found) < len(peaks):
            return []
        low = max(numbers[ends.first] for numbers, ends in found)
        high = min(numbers[ends.last] for numbers, ends in found)
        if low >= high:
            return []
        rect = alt.Chart(chart_marks.data([{"x": low, "end": high}])).mark_rect(style="window")
        return [rect.encode(x=self.x, x2="end:Q")]

    def threads(self, host: Host) -> list[Any]:
        """The number of hardware threads; its name is told once for all panels."""
        number = hardware_threads.threads(host, self.factor, self.axis.numbers)
        return [] if number is None else hardware_threads.rule(number, self.x, label=False)

    def levels(self) -> list[Any]:
        """Means with their intervals, joined where the levels are numbers."""
        import altair as alt

        tooltip = chart_marks.point_tooltip(self.color_factor, "ci", self.centre)
        rows, aside = chart_marks.side_by_side(self.points)
        base = alt.Chart(chart_marks.data(rows)).encode(x=self.x, y=self.y)
        drawn = chart_marks.error_bars(rows, self.y, 5, aside, x=self.x, **self.color)
        if self.axis.numbers is not None:
            drawn.append(base.mark_line(style="joined", strokeWidth=1.2, **aside).encode(**self.color))
        means = base.mark_point(style="mean", filled=True, size=22, **aside)
        return [*drawn, means.encode(tooltip=tooltip, **self.marks)]

    def best(self, peaks: Sequence[Peak]) -> list[Any]:
        """A ring around the best mean of each line."""
        import altair as alt

        rows, aside = chart_marks.side_by_side(self.points)
        best = [row for row in rows if any(self._is_best(row, one) for one in peaks if not one.indistinct)]
        if not best:
            return []
        ring = alt.Chart(chart_marks.data(best)).mark_point(style="best", filled=False, size=110, **aside)
        return [ring.encode(x=self.x, y=self.y, **self.color)]

    def _is_best(self, row: Mapping[str, Any], one: Peak) -> bool:
        point = one.cells[one.best].point
        if row["x"] != self.axis.position(point[self.factor]):
            return False
        other = self.color_factor
        return other is None or row.get("group") == level_label(other, point[other])
