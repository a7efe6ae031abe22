"""A metric over the levels of a factor: conditions, their statistics, and the marks that figures are drawn from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay.factors import level_label, takes_processors
from ioassay.metrics import format_metric
from ioassay.narrative import phrases
from ioassay.narrative.say import sentence
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart, selection
from ioassay.report.figures.axes import LevelAxis
from ioassay.report.figures.chart import Rows, channel
from ioassay.report.figures.spec import ErrorBar, FigureSpec, VegaLite
from ioassay.store.dataset import Dataset, Host
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.measurements.cells import Cell

MOST_REPETITIONS = 1000
"""Beyond, a figure shows means and their intervals only."""


class MetricSpec(FigureSpec):
    """Keys of kinds that show a metric, by the levels of a second factor or of none."""

    y: str
    color: str | None = None
    log_y: bool | None = None


@dataclass(frozen=True)
class Condition:
    """One level of the x factor (and of the colour factor), with its repetitions in run order.

    `cell` has them; cells of several conditions are joined.
    """

    level: Scalar
    group: Scalar | None
    cell: Cell

    @property
    def measured(self) -> list[float]:
        """What each repetition measured by itself."""
        return [float(value) for value in self.cell.measured]


def conditions(cells: Sequence[Cell], study: Study, metric: str, x: str, color: str | None = None) -> list[Condition]:
    """The conditions that occur, by colour and then by level, each in the order of its factor.

    Cells that differ only in other factors are put together; `selection.pooled` says so on the figure.
    """
    from ioassay.analysis.measurements.cells import pooled

    found: dict[tuple[Scalar | None, Scalar], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.point[color] if color else None, cell.point[x]), []).append(cell)
    groups = [None] if color is None else study.design.in_order(color, [group for group, _ in found])
    levels = study.design.in_order(x, [level for _, level in found])
    known = [place for place in itertools.product(groups, levels) if place in found]
    return [Condition(level, group, pooled(found[group, level], metric)) for group, level in known]


def as_good() -> str:
    """What levels are called that are as good as the best."""
    from ioassay.stats.contrasts import MARGIN

    return sentence("figures.as_good", percent=f"{100 * MARGIN:g}")


def levels_of(conditions: Sequence[Condition]) -> list[Scalar]:
    return list(dict.fromkeys(condition.level for condition in conditions))


def measured_values(found: Sequence[Condition] | Sequence[Cell]) -> list[float]:
    return [float(value) for one in found for value in one.measured]


def centre(cells: Iterable[Cell]) -> str:
    """What the mark of a condition stands for."""
    return phrases.centre(any(cell.histograms for cell in cells))


def point_rows(
    conditions: Sequence[Condition],
    metric: str,
    axis: LevelAxis,
    unit: axes.Unit,
    color: str | None,
    error: ErrorBar = "none",
    confidence: float = 0.95,
) -> list[VegaLite]:
    """One row a condition: x, y (mean), median, low, high in `unit`, and the same as text for tooltips."""
    rows = []
    for condition in conditions:
        n, numbers = summarise(metric, condition.cell, error, confidence)
        texts = {name: format_metric(metric, value) for name, value in numbers.items()}
        row = {**place(condition.level, condition.group, axis, color), "n": n}
        row |= {name: unit.scale(value) for name, value in numbers.items()}
        row |= {"mean_text": texts["y"], "median_text": texts["median"]}
        ends = {"error_text": f"{texts['low']} to {texts['high']}"} if "low" in texts and "high" in texts else {}
        rows.append({**row, **ends})
    return rows


def place(level: Scalar, group: Scalar | None, axis: LevelAxis, color: str | None) -> VegaLite:
    """Where a condition is: x, level and, with a colour factor, group."""
    row = {"x": axis.position(level), "level": level_label(axis.factor, level)}
    return row if color is None or group is None else {**row, "group": level_label(color, group)}


def summarise(metric: str, cell: Cell, error: ErrorBar, confidence: float) -> tuple[int, dict[str, float]]:
    """How many repetitions a condition has, its value `y`, its `median`, and the ends `low` and `high` of its bar.

    The median and the deviation are those of what its repetitions measured. One repetition has no bar.
    """
    from ioassay.analysis.measurements import cells
    from ioassay.stats import sample
    from ioassay.stats.result import Undefined

    mean, found = cell.mean, sample.moments(cell.measured)
    numbers = {"y": mean, "median": found.median}
    if error == "sd" and found.stddev is not None:
        numbers |= {"low": mean - found.stddev, "high": mean + found.stddev}
    elif error == "ci" and not isinstance(interval := cells.interval(metric, cell, confidence), Undefined):
        numbers |= {"low": interval.low, "high": interval.high}
    return found.n, numbers


def error_text(error: ErrorBar, confidence: float, centre: str = "mean") -> str:
    """What the error bars are, for a legend: `mean ± standard deviation`."""
    shown = {"sd": " ± standard deviation", "ci": f" with {confidence * 100:g} % interval", "none": ""}
    return centre + shown[error]


REPETITION = "one repetition"
DASHED: VegaLite = {"symbolType": chart.DASH, "symbolStrokeWidth": 1.8, "labelOffset": 8}
"""The legend of lines that differ in their dashes."""
DASHES = ([1, 0], [6, 3], [2, 3], [8, 3, 2, 3])


@dataclass(frozen=True)
class View:
    """The conditions, both axes with their channels, a row a condition, and the marks of the colour factor's levels."""

    conditions: Sequence[Condition]
    axis: axes.LevelAxis
    metric_axis: axes.MetricAxis
    points: Rows
    marks: chart.LevelMarks
    x: Any
    y: Any
    width: int
    error: ErrorBar
    confidence: float

    @property
    def centre(self) -> str:
        return centre(one.cell for one in self.conditions)

    @property
    def mean_name(self) -> str:
        """What the mark of a condition stands for, with its error bar."""
        return error_text(self.error, self.confidence, self.centre)

    @property
    def counted(self) -> str:
        """How many repetitions stand behind each mark."""
        return selection.repetitions_text([row["n"] for row in self.points])

    @property
    def tooltip(self) -> list[Any]:
        return chart.point_tooltip(self.marks.factor, self.error, self.centre)

    def places(self) -> VegaLite:
        """The channels of x where the levels of the colour factor stand side by side."""
        return {"x": self.x, **self.marks.aside()}

    def offset_px(self, share: float) -> float:
        """Pixels to the right of a condition's middle, as a share of its room: repetitions do not hide error bars."""
        levels, groups = ({getattr(one, name) for one in self.conditions} for name in ("level", "group"))
        return round(self.width / max(len(levels) * len(groups), 1) * share, 1)

    def single(self) -> list[VegaLite]:
        """A row a repetition; none where so many marks would be a smear, and take the page a second."""
        if len(measured_values(self.conditions)) > MOST_REPETITIONS:
            return []
        return [
            place(condition.level, condition.group, self.axis, self.marks.factor)
            | {"y": self.metric_axis.unit.scale(value), "value": format_metric(self.metric_axis.name, value)}
            for condition in self.conditions
            for value in condition.measured
        ]

    def symbols(self, rows: Rows, role: str, shapes: Mapping[str, str]) -> Any:
        """A layer over rows with one symbol of `shapes`, which the legend names where no colours have theirs."""
        if self.marks.factor:
            return chart.base(rows).encode(x=self.x, y=self.y, shape={"value": shapes[role]})
        scale = {"domain": list(shapes), "range": list(shapes.values())}
        named = chart.base([{**row, "role": role} for row in rows])
        return named.encode(x=self.x, y=self.y, shape=channel("role:N", scale=scale, title=None))

    def repetitions(self, single: Rows, shapes: Mapping[str, str]) -> list[Any]:
        """The repetitions, those of several groups aside of each other."""
        if not single:
            return []
        rows, aside = chart.side_by_side(single)
        marks = self.symbols(rows, REPETITION, shapes).mark("point", style="repetition", filled=True, size=60, **aside)
        return [marks.encode(tooltip=chart.tips({"level:N": "", "value:N": REPETITION}), **self.marks.color())]

    def means(self, shapes: Mapping[str, str], size: float = 44, cap_px: float = 9, **line: Any) -> list[Any]:
        """The means with their error bars, those of several groups aside of each other; joined by a `line`.

        Without `shapes`, no legend says what they are.
        """
        rows, aside = chart.side_by_side(self.points)
        base = chart.base(rows).encode(x=self.x, y=self.y)
        joined = [base.mark("line", aria=False, **line, **aside).encode(**self.marks.color())] if line else []
        named = shapes and not self.marks.factor
        points = self.symbols(rows, self.mean_name, shapes) if named else base.encode(**self.marks.points())
        bars = chart.error_bars(rows, self.y, cap_px, aside, x=self.x, **self.marks.color())
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
        return [marks.encode(x=self.x, y=self.y, strokeDash=dashes("role", [name], [dash]), **self.marks.color())]

    def band(self, low: float, high: float) -> Any:
        """Levels that are as good as the best."""
        return chart.base([{"x": low, "end": high}]).mark("rect", style="window").encode(x=self.x, x2="end:Q")

    def hardware_threads(self, host: Host, label: bool = True) -> list[Any]:
        """A rule at the host's number of hardware threads: from there on, workers share processors.

        Nothing where the axis does not count workers, its levels are all below, or the host is unknown: neither a rule
        at the left edge nor one beyond the levels would say anything. `label`: its name stands at the lower end.
        """
        known, numbers = host.get("cpu", {}).get("cpus"), self.axis.numbers
        if not isinstance(known, int) or not takes_processors(self.axis.factor) or not numbers:
            return []
        if not min(numbers) < known <= max(numbers):
            return []
        text = f"{known} hardware thread{'' if known == 1 else 's'}"
        base = chart.base([{"x": known, "text": text}]).encode(x=self.x)
        line = base.mark("rule", style="reference", strokeWidth=1.2, strokeDash=[1, 3])
        # Upright from the axis on: a curve that has grown up to there is far above.
        name = base.mark("text", style="note", angle=270, align="left", baseline="bottom", dx=6, dy=-3)
        named = [name.encode(y={"value": "height"}, text="text:N")] if label else []
        return [line.encode(tooltip=chart.tips({"text:N": "the machine has"})), *named]


def dashes(field: str, names: Sequence[str], looks: Sequence[Sequence[int]] = DASHES) -> Any:
    """The channel of a line's dashes over a field, with a legend of its own."""
    scale = {"domain": list(names), "range": list(looks[: len(names)])}
    return channel(f"{field}:N", scale=scale, sort=list(names), title=None, legend=DASHED)


def of(
    records: Dataset,
    study: Study,
    found: Sequence[Condition],
    metric: str,
    axis: axes.LevelAxis,
    width: int,
    color: str | None = None,
    error: ErrorBar = "ci",
    log_y: bool | None = None,
    zero: bool = True,
) -> View:
    """The view of conditions over an axis of their levels."""
    metric_axis, confidence = axes.metric_axis(metric, measured_values(found), log_y), study.analysis.confidence
    rows = point_rows(found, metric, axis, metric_axis.unit, color, error, confidence)
    metric_axis, points = metric_axis.holding(rows)
    marks = chart.level_marks(records, study, color, [one.group for one in found])
    x, y = axis.encoding(width), metric_axis.encoding(zero=zero)
    return View(found, axis, metric_axis, points, marks, x, y, width, error, confidence)


def over_levels(
    records: Dataset, study: Study, spec: Any, error: ErrorBar, log_x: bool | None = None, zero: bool = True
) -> tuple[View, str]:
    """The view of a spec that has `x`, `y`, `color` and `log_y`, and what is pooled in a mark.

    Without `x`, over the first factor that is free; with `log_x` None, over categories.
    """
    factor = selection.main_factor(study, spec.x, spec.where)
    cells = selection.measured(records, study, spec.where, spec.y, factor, spec.color)
    found = conditions(cells, study, spec.y, factor, spec.color)
    levels = levels_of(found)
    axis = axes.LevelAxis(factor, levels) if log_x is None else axes.level_axis(factor, levels, log_x)
    view = of(records, study, found, spec.y, axis, spec.width, spec.color, error, spec.log_y, zero)
    return view, selection.pooled([cell.point for cell in cells], factor, spec.color)
