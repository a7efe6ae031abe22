"""How a response scales with the number of workers: levels, perfect scaling, the fitted law and the plateau.

All numbers are those of the question `peak` (`analysis/optimum/optimum.py`); where it tells no law, none is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.factors import factor_label, level_number, same_level
from ioassay.report.figures import (
    axes,
    chart_marks,
    condition_rows,
    hardware_threads,
    selection,
    statistics,
    titles,
)
from ioassay.report.figures.chart_marks import Rows
from ioassay.report.figures.spec import ErrorBar, FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.store.schema import Host
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.optimum.optimum import Peak
    from ioassay.stats.scalability import Law

REPETITION = "one repetition"
IDEAL = "perfect scaling"
BEST = "best level"
LAWS = {"usl": "universal scalability law", "amdahl": "Amdahl's law"}
_STEPS = 80
_HEADROOM = 1.08
"""The line of perfect scaling ends this much above the highest value."""


class Spec(FigureSpec):
    """Keys of a scaling curve."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool | None = None
    error: ErrorBar = "ci"
    ideal: bool = True
    law: bool = True
    plateau: bool = True
    repetitions: bool = True
    threads: bool = True


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart."""
    import altair as alt

    found = measured(records, study, spec)
    shown = condition_rows.of(found.cells, study, spec.y, spec.x)
    look = _Look(spec, found, shown, study.analysis.confidence, conclusive=selection.is_conclusive(records, study))
    title = f"{selection.metric_label(spec.y)} over {factor_label(spec.x)}: scaling"
    drawn = [*look.plateau(), *look.threads(records.machine(study)), *look.lines(), *look.peak()]
    drawn += [*look.repetitions(), *look.means(), *look.best()]
    notes = [selection.repetitions_text([row["n"] for row in look.points]), *look.notes(), look.axis.note, look.note]
    chart = alt.layer(*drawn).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.description(spec, study, title, look.points),
    )
    # A legend that all lines shared would show them in the colour of one.
    return chart.resolve_scale(strokeDash="independent")


def measured(records: Dataset, study: Study, spec: Spec) -> Peak:
    """The peak's analysis of what the figure shows; NoData where that is not one row of numbers."""
    from ioassay.analysis.effects.level_contrasts import families
    from ioassay.analysis.optimum import optimum

    selection.measured(records, study, spec.where, spec.y, spec.x)  # says why where there is nothing
    groups = families(records, study, spec.y).get(spec.x, [])
    parts = [family for family in groups if _matches(family.cells[0].point, spec)]
    if len(parts) > 1:
        free = [name for name in study.levels if name != spec.x and name not in spec.where]
        raise NoData(f"{' and '.join(free)} vary as well; choose one level of each with `where`")
    if not parts:
        raise NoData(f"only one level of {spec.x} has values; scaling needs two")
    found = optimum.measure(parts[0], replace(optimum.ask_of(records, study), workers=True))
    if found.numbers is None:
        raise NoData(f"levels of {spec.x} are words; scaling needs numbers")
    return found


def _matches(point: Mapping[str, Any], spec: Spec) -> bool:
    return all(same_level(name, level, point[name]) for name, level in spec.where.items() if name != spec.x)


class _Look:
    """The layers of one scaling curve, with the channels that they share."""

    def __init__(
        self,
        spec: Spec,
        found: Peak,
        shown: Sequence[condition_rows.Condition],
        confidence: float,
        *,
        conclusive: bool = True,
    ) -> None:
        self.spec = spec if conclusive else spec.model_copy(update={"law": False})
        self.found, self.conclusive = found, conclusive
        self.conditions = sorted(shown, key=lambda one: self._number(one))
        values = condition_rows.measured_values(self.conditions)
        self.ask = condition_rows.Ask(spec.y, None, spec.error, confidence)
        metric_axis = axes.metric_axis(spec.y, values, spec.log_y)
        self.unit, self.note = metric_axis.unit, metric_axis.note
        levels = condition_rows.levels_of(self.conditions)
        # Perfect scaling is a straight line where both axes are linear or both logarithmic.
        self.axis = axes.level_axis(spec.x, levels, spec.log_x or (metric_axis.log and axes.geometric(spec.x, levels)))
        self.top = max(values) * _HEADROOM
        rows = condition_rows.point_rows(self.conditions, self.axis, self.ask, self.unit)
        metric_axis, self.points = metric_axis.holding(rows)
        self.floor = metric_axis.floor
        self.x = self.axis.encoding(spec.width)
        self.y = metric_axis.encoding()
        self.centre = condition_rows.centre(self.conditions)
        self.mean_name = statistics.error_text(spec.error, confidence, self.centre)

    def _number(self, one: condition_rows.Condition) -> float:
        return level_number(self.spec.x, one.level) or 0.0

    @property
    def numbers(self) -> Sequence[float]:
        return self.found.numbers or ()

    @property
    def unmarked(self) -> bool:
        """Whether no level is marked as the best."""
        return self.found.indistinct or not self.conclusive

    @property
    def law(self) -> Law | None:
        return self.found.law if self.spec.law else None

    @property
    def growth(self) -> Law | None:
        """The law of the levels up to the plateau, where all together follow none."""
        return self.found.growth if self.spec.law and self.found.plateau and not self.law else None

    def plateau(self) -> list[Any]:
        """The band of levels that are as good as the best within noise."""
        import altair as alt

        ends = self.found.plateau
        if not self.spec.plateau or ends is None or ends.first == ends.last or self.unmarked:
            return []
        row = {"x": self.numbers[ends.first], "end": self.numbers[ends.last]}
        return [alt.Chart(chart_marks.data([row])).mark_rect(style="window").encode(x=self.x, x2="end:Q")]

    def threads(self, host: Host) -> list[Any]:
        """Where workers begin to share processors."""
        number = hardware_threads.threads(host, self.spec.x, self.numbers) if self.spec.threads else None
        return [] if number is None else hardware_threads.rule(number, self.x)

    def lines(self) -> list[Any]:
        """Perfect scaling from the first level on, and the law, with a legend entry each."""
        import altair as alt

        law = self.law or self.growth
        rows = {IDEAL: self._ideal(), **({LAWS[law.kind]: self._curve(law)} if law else {})}
        names = {name: found for name, found in rows.items() if found}
        legend = alt.Legend(symbolType=chart_marks.DASH, symbolStrokeWidth=1.8, labelOffset=8)
        drawn = []
        for name, found in names.items():
            style, dash = ("reference", [2, 4]) if name == IDEAL else ("fit", [7, 3])
            scale = alt.Scale(domain=[name], range=[dash])
            channel = alt.StrokeDash("role:N", scale=scale, title=None, legend=legend)
            marks = alt.Chart(chart_marks.with_role(found, name)).mark_line(style=style, strokeWidth=1.8)
            drawn.append(marks.encode(x=self.x, y=self.y, strokeDash=channel))
        return drawn

    def _ideal(self) -> Rows:
        """As far as it stays in the picture: perfect scaling soon leaves what is measured."""
        from ioassay.stats.result import mean_of

        first = mean_of(self.found.cells[0].values)
        start = self.numbers[0]
        if not self.spec.ideal or self.found.scaling is None:
            return []
        last = min(self.numbers[-1], self.top / first * start)
        return [{"x": x, "y": self.unit.scale(first * x / start)} for x in self._along(start, last)]

    def _curve(self, law: Law) -> Rows:
        ends = self.found.plateau if law is self.growth else None
        last = self.numbers[ends.first] if ends else self.numbers[-1]
        rows = [{"x": x, "y": self.unit.scale(law.at(x))} for x in self._along(self.numbers[0], last)]
        return [row for row in rows if row["y"] >= self.floor]

    def _along(self, first: float, last: float) -> list[float]:
        """Places from `first` to `last`, even on the axis."""
        if self.axis.log:
            return [float(f"{first * (last / first) ** (step / _STEPS):.7g}") for step in range(_STEPS + 1)]
        return [float(f"{first + (last - first) * step / _STEPS:.7g}") for step in range(_STEPS + 1)]

    def peak(self) -> list[Any]:
        """The law's peak with its interval, where it lies within what was measured."""
        import altair as alt

        law = self.law
        if law is None or law.peak is None or law.peak_interval is None:
            return []
        if not self.numbers[0] <= law.peak <= self.numbers[-1]:
            return []
        row = {
            "x": float(f"{law.peak:.7g}"),
            "y": self.unit.scale(law.at(law.peak)),
            "from": max(law.peak_interval.low, self.numbers[0]),
            "to": min(law.peak_interval.high, self.numbers[-1]),
            "peak": f"{law.peak:.3g}",
        }
        data, tooltip = chart_marks.data([row]), [alt.Tooltip("peak:N", title="peak of the law")]
        across = alt.Chart(data).mark_rule(style="fit", strokeWidth=5, opacity=0.45)
        down = alt.Chart(data).mark_rule(style="fit", strokeWidth=1.2)
        return [
            across.encode(x=chart_marks.on(self.x, "from"), x2="to:Q", y=self.y),
            down.encode(x=self.x, y=self.y, y2=alt.value(self.spec.height), tooltip=tooltip),
        ]

    def repetitions(self) -> list[Any]:
        import altair as alt

        if not self.spec.repetitions:
            return []
        rows = condition_rows.repetition_rows(self.conditions, self.axis, self.ask, self.unit)
        if not rows:
            return []
        data, shape = self._role(rows, REPETITION)
        marks = alt.Chart(data).mark_point(style="repetition", filled=True, size=60)
        tooltip = [alt.Tooltip("level:N"), alt.Tooltip("value:N", title=REPETITION)]
        return [marks.encode(x=self.x, y=self.y, shape=shape, tooltip=tooltip)]

    def means(self) -> list[Any]:
        import altair as alt

        points = self.points
        data, shape = self._role(points, self.mean_name)
        tooltip = chart_marks.point_tooltip(None, self.spec.error, self.centre)
        mean = alt.Chart(data).encode(x=self.x, y=self.y, tooltip=tooltip)
        # A law's curve leads the eye already.
        joined = [] if self.law else [mean.mark_line(style="joined", strokeWidth=1.3)]
        return [
            *joined,
            *chart_marks.error_bars(points, self.y, x=self.x),
            mean.mark_point(style="mean", filled=True, size=44).encode(shape=shape),
        ]

    def best(self) -> list[Any]:
        """A ring around the best mean, unless the levels are not distinguishable."""
        import altair as alt

        if self.unmarked:
            return []
        data, shape = self._role([self.points[self.found.best]], BEST)
        ring = alt.Chart(data).mark_point(style="best", filled=True, size=230)
        tooltip = chart_marks.point_tooltip(None, self.spec.error, self.centre)
        return [ring.encode(x=self.x, y=self.y, shape=shape, tooltip=tooltip)]

    def _role(self, rows: Rows, name: str) -> tuple[Any, Any]:
        """Rows that know what they are, and the channel that gives it its symbol and legend entry."""
        import altair as alt

        shapes = {self.mean_name: "circle", **({REPETITION: chart_marks.BAR} if self.spec.repetitions else {})}
        shapes |= {} if self.unmarked else {BEST: chart_marks.RING}
        scale = alt.Scale(domain=list(shapes), range=list(shapes.values()))
        return chart_marks.with_role(rows, name), alt.Shape("role:N", scale=scale, title=None)

    def notes(self) -> list[str]:
        """The band, the law and what it predicts, or where the curve bends, in words."""
        if not self.conclusive:
            return [selection.UNFIT]
        if self.found.indistinct:
            return ["the levels are not distinguishable"]
        said = [f"shaded: {condition_rows.as_good()}"] if self.plateau() else []
        if self.found.plateau is None and self.found.no_plateau:
            said.append(f"no plateau: {self.found.no_plateau}")
        if self.law is not None:
            return [*said, _law_note(self.law)]
        said += _bend_note(self.found)
        if self.growth is not None:
            return [*said, f"up to the plateau: {_law_note(self.growth)}"]
        return [*said, *(["no law of scaling fits"] if self.spec.law else [])]


def _law_note(law: Law) -> str:
    told = f"{units.format_percent(law.alpha)} % cannot run in parallel"
    if law.peak is not None and law.peak_interval is not None:
        told += f", peak at {law.peak:.3g} ({law.peak_interval.low:.3g} to {law.peak_interval.high:.3g})"
    return f"{told}, R² = {law.r2:.3f}"


def _bend_note(found: Peak) -> list[str]:
    from ioassay.narrative import peak_tables
    from ioassay.stats.saturation import Knee

    if not isinstance(found.knee, Knee):
        return []
    at, bounds = found.knee.x, found.knee.interval
    low, high = (peak_tables.place(found, end) for end in (bounds.low, bounds.high))
    return [f"bends near {peak_tables.place_text(found, at)} ({low} to {high})"]
