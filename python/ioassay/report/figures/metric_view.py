"""A metric over the levels of a factor: what trends, scaling curves, bars, boxes and small panels are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.report.figures import axes, chart, condition_rows, level_marks, selection
from ioassay.report.figures.chart import Rows
from ioassay.report.figures.condition_rows import Ask, Condition
from ioassay.report.figures.spec import ErrorBar, VegaLite
from ioassay.report.figures.vega_lite import channel
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

REPETITION = "one repetition"
DASHED: VegaLite = {"symbolType": chart.DASH, "symbolStrokeWidth": 1.8, "labelOffset": 8}
"""The legend of lines that differ in their dashes."""
DASHES = ([1, 0], [6, 3], [2, 3], [8, 3, 2, 3])


@dataclass(frozen=True)
class View:
    """The conditions, both axes with their channels, a row a condition, and the marks of the colour factor's levels."""

    ask: Ask
    conditions: Sequence[Condition]
    axis: axes.LevelAxis
    metric_axis: axes.MetricAxis
    points: Rows
    x: Any
    y: Any
    marks: level_marks.LevelMarks | None

    @property
    def mean_name(self) -> str:
        """What the mark of a condition stands for, with its error bar."""
        centre = condition_rows.centre(self.conditions)
        return condition_rows.error_text(self.ask.error, self.ask.confidence, centre)

    @property
    def counted(self) -> str:
        """How many repetitions stand behind each mark."""
        return selection.repetitions_text([row["n"] for row in self.points])

    @property
    def color(self) -> VegaLite:
        """The colour channel, where there is a colour factor."""
        return self.marks.color() if self.marks else {}

    @property
    def pointed(self) -> VegaLite:
        """The channels of points, where there is a colour factor."""
        return self.marks.points() if self.marks else {}

    @property
    def tooltip(self) -> list[Any]:
        """What hovering over a mean tells."""
        return chart.point_tooltip(self.ask.color, self.ask.error, condition_rows.centre(self.conditions))

    def places(self) -> VegaLite:
        """The channels of x where the levels of the colour factor stand side by side."""
        return {"x": self.x, **({"xOffset": self.marks.offset()} if self.marks else {})}

    def single(self) -> list[VegaLite]:
        """A row a repetition."""
        return condition_rows.repetition_rows(self.conditions, self.axis, self.ask, self.metric_axis.unit)

    def symbols(self, rows: Rows, role: str, shapes: Mapping[str, str]) -> Any:
        """A layer over rows with one symbol of `shapes`, which the legend names where no colours have theirs."""
        named = [] if self.marks else [{**row, "role": role} for row in rows]
        scale = {"domain": list(shapes), "range": list(shapes.values())}
        shape = {"value": shapes[role]} if self.marks else channel("role:N", scale=scale, title=None)
        return chart.base(named or rows).encode(x=self.x, y=self.y, shape=shape)

    def repetitions(self, single: Rows, shapes: Mapping[str, str]) -> list[Any]:
        """The repetitions, those of several groups aside of each other."""
        if not single:
            return []
        rows, aside = chart.side_by_side(single)
        marks = self.symbols(rows, REPETITION, shapes).mark("point", style="repetition", filled=True, size=60, **aside)
        return [marks.encode(tooltip=chart.tips({"level:N": "", "value:N": REPETITION}), **self.color)]

    def means(self, shapes: Mapping[str, str], size: float = 44, cap_px: float = 9, **line: Any) -> list[Any]:
        """The means with their error bars, those of several groups aside of each other; joined by a `line`.

        Without `shapes`, no legend says what they are.
        """
        rows, aside = chart.side_by_side(self.points)
        base = chart.base(rows).encode(x=self.x, y=self.y)
        joined = [base.mark("line", aria=False, **line, **aside).encode(**self.color)] if line else []
        named = shapes and not self.marks
        points = self.symbols(rows, self.mean_name, shapes) if named else base.encode(**self.pointed)
        bars = chart.error_bars(rows, self.y, cap_px, aside, x=self.x, **self.color)
        mean = points.mark("point", style="mean", filled=True, size=size, **aside).encode(tooltip=self.tooltip)
        return [*joined, *bars, mean]

    def along(self, at: Callable[[float], float], places: Sequence[float]) -> list[VegaLite]:
        """Points of a curve as far as it is within the axis of the metric."""
        axis = self.metric_axis
        heights = ((x, axis.unit.scale(at(x))) for x in places)
        return [{"x": x, "y": y} for x, y in heights if axis.floor <= y <= axis.ceiling]

    def curve(self, name: str, rows: Rows, style: str, dash: Sequence[int]) -> list[Any]:
        """A line with a legend entry of its own."""
        if not rows:
            return []
        marks = chart.base([{**row, "role": name} for row in rows]).mark("line", style=style, strokeWidth=1.8)
        return [marks.encode(x=self.x, y=self.y, strokeDash=dashes("role", [name], [dash]), **self.color)]

    def band(self, low: float, high: float) -> Any:
        """Levels that are as good as the best."""
        return chart.base([{"x": low, "end": high}]).mark("rect", style="window").encode(x=self.x, x2="end:Q")


def dashes(field: str, names: Sequence[str], looks: Sequence[Sequence[int]] = DASHES) -> Any:
    """The channel of a line's dashes over a field, with a legend of its own."""
    scale = {"domain": list(names), "range": list(looks[: len(names)])}
    return channel(f"{field}:N", scale=scale, sort=list(names), title=None, legend=DASHED)


def of(
    records: Dataset,
    study: Study,
    found: Sequence[Condition],
    ask: Ask,
    axis: axes.LevelAxis,
    width: int,
    log_y: bool | None = None,
    zero: bool = True,
) -> View:
    """The view of conditions over an axis of their levels."""
    metric_axis = axes.metric_axis(ask.metric, condition_rows.measured_values(found), log_y)
    metric_axis, points = metric_axis.holding(condition_rows.point_rows(found, axis, ask, metric_axis.unit))
    marks = level_marks.of(records, study, ask.color, [one.group for one in found]) if ask.color else None
    return View(ask, found, axis, metric_axis, points, axis.encoding(width), metric_axis.encoding(zero=zero), marks)


def over_levels(
    records: Dataset, study: Study, spec: Any, factor: str, error: ErrorBar, log_x: bool | None, zero: bool = True
) -> tuple[View, str]:
    """The view of a spec that has `y`, `color` and `log_y`, and what is pooled in a mark; `log_x` None: categories."""
    cells = selection.measured(records, study, spec.where, spec.y, factor, spec.color)
    found = condition_rows.of(cells, study, spec.y, factor, spec.color)
    ask = Ask(spec.y, spec.color, error, study.analysis.confidence)
    levels = condition_rows.levels_of(found)
    axis = axes.category_axis(factor, levels) if log_x is None else axes.level_axis(factor, levels, log_x)
    view = of(records, study, found, ask, axis, spec.width, spec.log_y, zero)
    return view, selection.pooled([cell.point for cell in cells], factor, spec.color)


def over_categories(
    records: Dataset, study: Study, spec: Any, error: ErrorBar = "none", zero: bool = True
) -> tuple[View, str]:
    """The same over categories, by default of the first factor that is free."""
    factor = selection.main_factor(study, spec.x, spec.where)
    return over_levels(records, study, spec, factor, error, None, zero)
