"""A search's trials in the order they were asked, with the best so far, and what each axis of it had to do with that.

Winner, default and confirmation are those of the question `tuned` (`analysis/optimum/tuning.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay.factors import level_phrase, same_level
from ioassay.metrics import format_metric
from ioassay.records.record import OK, Scalar
from ioassay.report.figures import axes, chart_marks, scales, selection, titles
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store import schema
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.optimum.tuning import Side, Tuned

KINDS = {
    "default": "diamond",
    "explore": "circle",
    "refine": "triangle-up",
    "repeat": "square",
    "pruned": "cross",
}
"""What a trial was for -> its symbol. The first part of one that went on (`short`) is not shown: the whole follows."""
_WHOLE = ("default", "explore", "refine", "repeat")
_CONFIRM_PX = 110
_AXIS_PX = 150
_SMALL_PX = 110


class Spec(FigureSpec):
    """Keys of a search. `axes`: also the value over each axis, in small panels."""

    axes: bool = True
    height: int = 260


@dataclass(frozen=True)
class _Trial:
    """One trial of the search; `bound` are its values of the metrics that are constrained, in their order."""

    number: int
    kind: str
    point: Mapping[str, Scalar]
    value: float
    bound: Sequence[float | None]


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Trials with the confirmation beside them, and the axes below."""
    import altair as alt

    selection.select(records, study, spec.where)  # says why where nothing went well
    if records.tuning is None:
        raise NoData(f"the study '{study.name}' is no search; `ioassay tune` makes one")
    look = _Look(records, study, records.tuning, spec)
    row = alt.hconcat(look.over_trials(), *look.confirmation(), spacing=14)
    panels = look.over_axes() if spec.axes else []
    lines = [panels[start : start + look.columns] for start in range(0, len(panels), look.columns)]
    chart = alt.vconcat(row, *(alt.hconcat(*line, spacing=14) for line in lines), spacing=16)
    title = f"{selection.metric_label(look.metric)} over the trials of the search"
    return chart.properties(
        title=titles.head(spec, study, title, look.notes()),
        description=titles.noted(spec, title, look.notes()),
    )


class _Look:
    """The charts of one search, with the channels that they share."""

    def __init__(self, records: Dataset, study: Study, asked: schema.Search, spec: Spec) -> None:
        from ioassay.analysis.optimum import tuning

        self.spec, self.study = spec, study
        self.tuning = asked
        self.found: Tuned = tuning.measure(records, study, asked)
        self.metric = self.found.metric
        self.trials, self.lost = _trials(records, study, self.found, self.tuning, spec.where)
        if not self.trials:
            raise NoData(f"no trial of the search has the metric '{self.metric}'")
        values = [one.value for one in self.trials] + self._fresh_values()
        self.unit = scales.unit_for(self.metric, values)
        self.y = _value_axis(self.metric, self.unit, values)
        self.constraints = self.tuning["constraints"]
        self.marks = _marks(self.trials)
        self.columns = max(1, min(3, len(self.tuning["axes"])))

    def over_trials(self) -> Any:
        """Value over trial, the best so far, and the default's level."""
        import altair as alt

        numbers = [one.number for one in self.trials] + self.lost
        scale = alt.Scale(domain=[0.5, max(numbers) + 0.5], nice=False)
        x = alt.X("x:Q", title="Trial of the search", scale=scale, axis=alt.Axis(tickMinStep=1, format="d"))
        steps = [{"x": number, "y": self.unit.scale(value)} for number, value in self._best_so_far()]
        best = alt.Chart(chart_marks.data(steps)).mark_line(
            style="deviation", interpolate="step-after", strokeWidth=1.6
        )
        drawn = [
            *self._default_rule(),
            best.encode(x=x, y=self.y),
            *self._points([self._row(one) for one in self.trials], x, self.y),
        ]
        if self.lost:
            failed = alt.Chart(chart_marks.data([{"x": number} for number in self.lost]))
            mark = failed.mark_point(style="failed", shape="cross", angle=45, size=40, strokeWidth=1.5)
            drawn.append(mark.encode(x=x, y=alt.value(self.spec.height - 6)))
        width = self.spec.width - (_CONFIRM_PX + 14 if self.confirmation() else 0)
        return alt.layer(*drawn).properties(width=width, height=self.spec.height)

    def _best_so_far(self) -> list[tuple[int, float]]:
        """After each trial the mean of the best point that keeps the constraints; repeats may lower it."""
        points: dict[tuple[str, ...], list[_Trial]] = {}
        steps: list[tuple[int, float]] = []
        for one in self.trials:
            if one.kind in _WHOLE:
                points.setdefault(tuple(map(str, one.point.values())), []).append(one)
            means = [_mean([trial.value for trial in own]) for own in points.values() if _keeps(self.constraints, own)]
            if means:
                steps.append((one.number, max(means) if self.found.maximize else min(means)))
        return steps

    def _default_rule(self) -> list[Any]:
        import altair as alt

        values = [one.value for one in self.trials if one.kind == "default"]
        if not values:
            return []
        row = {"y": self.unit.scale(_mean(values)), "text": "default"}
        data = chart_marks.data([row])
        rule = alt.Chart(data).mark_rule(style="reference", strokeDash=[4, 3]).encode(y=self.y)
        text = alt.Chart(data).mark_text(style="note", align="right", baseline="bottom", dx=-3, dy=-2)
        return [rule, text.encode(x=alt.value("width"), y=self.y, text="text:N")]

    def _points(self, rows: Sequence[VegaLite], x: Any, y: Any) -> list[Any]:
        """Filled where every constraint is kept, else hollow."""
        import altair as alt

        drawn = []
        for keeps in (True, False):
            part = [row for row in rows if row["keeps"] is keeps]
            if part:
                mark = alt.Chart(chart_marks.data(part)).mark_point(
                    style="mark", filled=keeps, size=48, strokeWidth=1.4
                )
                drawn.append(mark.encode(x=x, y=y, tooltip=_tooltip(), **self.marks))
        return drawn

    def _row(self, one: _Trial) -> VegaLite:

        told = ", ".join(level_phrase(name, level) for name, level in one.point.items())
        keeps = _keeps(self.constraints, [one])
        row = {"x": one.number, "y": self.unit.scale(one.value), "kind": one.kind, "keeps": keeps, "point": told}
        return {**row, "value": format_metric(self.metric, one.value), "constraints": "kept" if keeps else "broken"}

    def _sides(self) -> dict[str, Side]:
        """Default and winner, where they were measured anew."""
        role = "winner" if self.found.feasible else "candidate"
        named = {"default": self.found.default, role: None if self.found.stayed else self.found.winner}
        return {name: side for name, side in named.items() if side is not None and side.fresh}

    def _ends(self, side: Side) -> list[float]:
        """The ends of a mean's interval, where it has one."""
        return [] if side.interval is None else [side.interval.low, side.interval.high]

    def _fresh_values(self) -> list[float]:
        return [value for side in self._sides().values() for value in (side.mean, *self._ends(side))]

    def confirmation(self) -> list[Any]:
        """Means of fresh repetitions with their intervals."""
        import altair as alt

        rows = []
        for name, side in self._sides().items():
            row = {
                "x": name,
                "y": self.unit.scale(side.mean),
                "value": format_metric(self.metric, side.mean),
                "n": side.n,
            }
            row |= {end: self.unit.scale(value) for end, value in zip(("low", "high"), self._ends(side), strict=False)}
            rows.append(row)
        if not rows:
            return []
        x = alt.X("x:N", title="Confirmation", sort=["default", "winner", "candidate"], axis=alt.Axis(labelAngle=0))
        y = self.y.copy().title(None)
        y.axis = alt.Axis(labels=False, ticks=False)
        tooltip = [alt.Tooltip("x:N", title="point"), alt.Tooltip("value:N", title="mean"), alt.Tooltip("n:Q")]
        mean = alt.Chart(chart_marks.data(rows)).mark_point(style="mean", filled=True, size=60)
        bars = chart_marks.error_bars(rows, y, x=x)
        return [
            alt.layer(*bars, mean.encode(x=x, y=y, tooltip=tooltip)).properties(
                width=_CONFIRM_PX, height=self.spec.height
            )
        ]

    def over_axes(self) -> list[Any]:
        """The value over each axis; a line marks the winner's level."""
        import altair as alt

        width = int((self.spec.width - 14 * (self.columns - 1)) / self.columns) - 8 * (self.columns > 1)
        panels = []
        for place, axis in enumerate(self.tuning["axes"]):
            name = axis["name"]
            levels = [
                level
                for level in axis["levels"]
                if any(same_level(name, level, one.point[name]) for one in self.trials)
            ]
            shown = axes.level_axis(name, levels, axis["log"])
            x = shown.encoding(width)
            y = self.y.copy().title(None)
            y.axis = alt.Axis(labels=place % self.columns == 0, ticks=False, tickCount=3)
            rows = [
                {**self._row(one), "x": shown.position(_spelled(name, levels, one.point[name]))} for one in self.trials
            ]
            drawn = self._points(rows, x, y)
            if self.found.winner is not None and self.found.feasible:
                at = {"x": shown.position(_spelled(name, levels, self.found.winner.point[name]))}
                drawn.insert(0, alt.Chart(chart_marks.data([at])).mark_rule(style="fit", strokeDash=[4, 3]).encode(x=x))
            panels.append(alt.layer(*drawn).properties(width=width, height=_SMALL_PX))
        return panels

    def notes(self) -> list[str]:
        """What was found and how to read the marks."""

        found = self.found
        broken = " or ".join(constraint["text"] for constraint in self.constraints)
        hollow = any(not _keeps(self.constraints, [one]) for one in self.trials)
        winner = found.winner
        told = ""
        if winner is not None and found.feasible:
            told = "winner: " + ", ".join(level_phrase(name, level) for name, level in winner.point.items())
        return [
            f"{len(self.trials) + len(self.lost)} trials at {found.tried} of {found.points} points",
            told if found.feasible or winner is None else "no winner: the constraints are violated",
            "line: mean of the best point so far",
            f"hollow: breaks {broken}" if hollow else "",
            f"× failed: {len(self.lost)}" if self.lost else "",
            f"confirmation: means with {100 * found.confidence:g} % intervals" if self._sides() else "not confirmed",
        ]


def _trials(
    records: Dataset, study: Study, found: Tuned, tuning: schema.Search, where: Mapping[str, Scalar]
) -> tuple[list[_Trial], list[int]]:
    """The trials with a value, and the numbers of those without."""

    rows = list(records.trials_of(study).iter_rows(named=True))
    kept = [
        (one, row)
        for one, row in zip(found.history, rows, strict=True)
        if one["search"] in KINDS and all(same_level(name, level, one["point"][name]) for name, level in where.items())
    ]
    trials, lost = [], []
    for number, (one, row) in enumerate(kept, 1):
        if one["status"] != OK or one["value"] is None:
            lost.append(number)
            continue
        bound = [row.get(constraint["metric"]) for constraint in tuning["constraints"]]
        trials.append(_Trial(number, str(one["search"]), one["point"], float(one["value"]), bound))
    return trials, lost


def _keeps(constraints: Sequence[schema.Bound], trials: Sequence[_Trial]) -> bool:
    """Whether the means of these trials of one point keep every constraint; what was not measured does not."""
    from ioassay.analysis.optimum import tuning

    for place, constraint in enumerate(constraints):
        known = [value for one in trials if (value := one.bound[place]) is not None]
        if not known or not tuning.holds(constraint, _mean(known)):
            return False
    return True


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _value_axis(name: str, unit: scales.Unit, values: Sequence[float]) -> Any:
    """The y channel that all panels share, with one range for all of them."""
    low, high = min(values), max(values)
    axis = axes.metric_axis(name, values)
    shared = axis.encoding(zero=False)
    if axis.log:
        return shared
    margin = 0.06 * (high - low or abs(high) or 1.0)
    floor = max(low - margin, 0.0) if low >= 0 else low - margin
    shared.scale = {"domain": [unit.scale(floor), unit.scale(high + margin)], "nice": False, "zero": False}
    return shared


def _spelled(name: str, levels: Sequence[Scalar], level: Scalar) -> Scalar:
    return next((known for known in levels if same_level(name, known, level)), level)


def _marks(trials: Sequence[_Trial]) -> VegaLite:
    """Colour and symbol of a kind; the same in every search, with a legend of those that occur."""
    import altair as alt

    present = {one.kind for one in trials}
    legend = alt.Legend(values=[kind for kind in KINDS if kind in present])
    named: VegaLite = {"title": None, "legend": legend}
    kinds = list(KINDS)
    return {
        "color": alt.Color("kind:N", scale=alt.Scale(domain=kinds), **named),
        "shape": alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=list(KINDS.values())), **named),
    }


def _tooltip() -> list[Any]:
    import altair as alt

    return [
        alt.Tooltip("point:N"),
        alt.Tooltip("value:N"),
        alt.Tooltip("kind:N", title="trial"),
        alt.Tooltip("constraints:N"),
    ]
