"""A search's trials in the order they were asked, with the best so far, and what each axis of it had to do with that.

Winner, default and confirmation are those of the question `tuned` (`questions/tuned.py`). Where the machine was
unfit to measure, no mark says which point is best: the points that were measured again are called by their roles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ioassay.factors import level_phrase, same_level
from ioassay.metrics import format_metric
from ioassay.narrative.say import sentence
from ioassay.packs.tuning.questions import tuned
from ioassay.packs.tuning.search.request import Constraint
from ioassay.records.record import OK, Scalar
from ioassay.report.figures import axes, chart, selection
from ioassay.report.figures.chart import channel, hconcat, vconcat
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store import dataset
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

KINDS = {"default": "diamond", "explore": "circle", "refine": "triangle-up", "repeat": "square", "pruned": "cross"}
"""What a trial was for -> its symbol. The first part of one that went on (`short`) is not shown: the whole follows."""
_CONFIRM_PX = 110
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
    selection.select(records, study, spec.where)  # says why where nothing went well
    if records.tuning is None:
        raise NoData(f"the study '{study.name}' is no search; `ioassay tune` makes one")
    layers = _Layers(records, study, records.tuning, spec)
    rows = [hconcat(*layers.over_trials(), spacing=14)]
    if spec.axes:
        rows += chart.rows(layers.over_axes(), layers.columns)
    title = sentence("tuned.chart_title", metric=selection.metric_label(layers.found.metric))
    return chart.figure(vconcat(*rows, spacing=16), spec, study, title, layers.notes())


class _Layers:
    def __init__(self, records: Dataset, study: Study, asked: dataset.Search, spec: Spec) -> None:
        self.spec, self.axes = spec, asked["axes"]
        self.constraints = [Constraint(**constraint) for constraint in asked["constraints"]]
        self.columns = max(1, min(3, len(self.axes)))
        self.found = found = tuned.measure(records, study)
        self.trials: list[_Trial] = []
        self.lost: list[int] = []
        asked_for = (
            (one, row)
            for one, row in zip(found.history, records.trials_of(study).iter_rows(named=True), strict=True)
            if one["search"] in KINDS
            and all(same_level(name, level, one["point"][name]) for name, level in spec.where.items())
        )
        for number, (one, row) in enumerate(asked_for, start=1):
            if one["status"] != OK or one["value"] is None:
                self.lost.append(number)
            else:
                bound = [row.get(constraint.metric) for constraint in self.constraints]
                self.trials.append(_Trial(number, str(one["search"]), one["point"], float(one["value"]), bound))
        if not self.trials:
            raise NoData(f"no trial of the search has the metric '{found.metric}'")
        self.conclusive = selection.is_conclusive(records, study)
        # What may be called the winner, and its role among the points that were measured again.
        self.winner = found.winner if found.feasible and self.conclusive else None
        sides = {"default": found.default}
        if not found.stayed:
            sides["winner" if self.winner else "candidate"] = found.winner
        fresh = {name: side for name, side in sides.items() if side is not None and side.fresh}
        ends = {name: [side.interval.low, side.interval.high] if side.interval else [] for name, side in fresh.items()}
        means = {name: [side.mean, *ends[name]] for name, side in fresh.items()}
        values = [one.value for one in self.trials] + [value for own in means.values() for value in own]
        self.unit = axes.unit_for(found.metric, values)
        # The y channel that all panels share, with one range for all of them.
        axis = axes.metric_axis(found.metric, values)
        self.y = axis.encoding(zero=False)
        if not axis.log:
            low, high = min(values), max(values)
            margin = 0.06 * (high - low or abs(high) or 1.0)
            floor = max(low - margin, 0.0) if low >= 0 else low - margin
            domain = [self.unit.scale(floor), self.unit.scale(high + margin)]
            self.y = {**self.y, "scale": {"domain": domain, "nice": False, "zero": False}}
        self.rows: list[VegaLite] = [
            {"x": one.number, "y": self.unit.scale(one.value), "kind": one.kind, "keeps": self._keeps([one])}
            | {"value": format_metric(found.metric, one.value), "point": _phrase(one.point)}
            | {"constraints": "kept" if self._keeps([one]) else "broken"}
            for one in self.trials
        ]
        self.confirmed: list[VegaLite] = [
            {"x": name, "n": side.n, "value": format_metric(found.metric, side.mean)}
            | dict(zip(("y", "low", "high"), map(self.unit.scale, means[name]), strict=False))
            for name, side in fresh.items()
        ]

    def _keeps(self, trials: Sequence[_Trial]) -> bool:
        """Whether the means of these trials of one point keep every constraint; what was not measured does not."""
        for place, constraint in enumerate(self.constraints):
            known = [value for one in trials if (value := one.bound[place]) is not None]
            if not known or not constraint.holds(fmean(known)):
                return False
        return True

    def over_trials(self) -> list[Any]:
        """Value over trial, the best so far, and the default's level; beside it the confirmation."""
        scale = {"domain": [0.5, len(self.trials) + len(self.lost) + 0.5], "nice": False}
        x = channel("x:Q", title=sentence("tuned.chart_trial"), scale=scale, axis={"tickMinStep": 1, "format": "d"})
        drawn = []
        if default := [one.value for one in self.trials if one.kind == "default"]:
            base = chart.base([{"y": self.unit.scale(fmean(default)), "text": "default"}]).encode(y=self.y)
            text = base.mark("text", style="note", align="right", baseline="bottom", dx=-3, dy=-2)
            rule = base.mark("rule", style="reference", strokeDash=[4, 3])
            drawn += [rule, text.encode(x={"value": "width"}, text="text:N")]
        if self.conclusive:
            # After each trial the mean of the best point that keeps the constraints; repeats may lower it.
            points: dict[tuple[str, ...], list[_Trial]] = {}
            steps = []
            for one in self.trials:
                if one.kind != "pruned":
                    points.setdefault(tuple(map(str, one.point.values())), []).append(one)
                if means := [fmean(trial.value for trial in own) for own in points.values() if self._keeps(own)]:
                    reached = max(means) if self.found.maximize else min(means)
                    steps.append({"x": one.number, "y": self.unit.scale(reached)})
            best = chart.base(steps)
            line = best.mark("line", style="deviation", interpolate="step-after", strokeWidth=1.6)
            drawn.append(line.encode(x=x, y=self.y))
        drawn += self._points(self.rows, x, self.y)
        if self.lost:
            failed = chart.base([{"x": number} for number in self.lost])
            mark = failed.mark("point", style="failed", shape="cross", angle=45, size=40, strokeWidth=1.5)
            drawn.append(mark.encode(x=x, y={"value": self.spec.height - 6}))
        if not self.confirmed:
            return [chart.panel(drawn, self.spec.width, self.spec.height)]
        names = [row["x"] for row in self.confirmed]
        x = channel("x:N", title="Confirmation", sort=names, axis={"labelAngle": 0})
        y, tooltip = self._bare_y(labels=False), chart.tips({"x:N": "point", "value:N": "mean", "n:Q": ""})
        mean = chart.base(self.confirmed).mark("point", style="mean", filled=True, size=60)
        confirmation = [*chart.error_bars(self.confirmed, y, x=x), mean.encode(x=x, y=y, tooltip=tooltip)]
        return [
            chart.panel(drawn, self.spec.width - _CONFIRM_PX - 14, self.spec.height),
            chart.panel(confirmation, _CONFIRM_PX, self.spec.height),
        ]

    def over_axes(self) -> list[Any]:
        """The value over each axis; a line marks the winner's level."""
        width = int((self.spec.width - 14 * (self.columns - 1)) / self.columns) - 8 * (self.columns > 1)
        panels = []
        for place, searched in enumerate(self.axes):
            name, levels = searched["name"], searched["levels"]
            tried = [one.point[name] for one in self.trials]
            shown = [level for level in levels if any(same_level(name, level, other) for other in tried)]
            axis = axes.level_axis(name, shown, searched["log"])
            x, y = axis.encoding(width), self._bare_y(labels=place % self.columns == 0, tickCount=3)
            rows = [{**row, "x": _position(axis, level)} for row, level in zip(self.rows, tried, strict=True)]
            drawn = self._points(rows, x, y)
            if self.winner is not None:
                level = chart.base([{"x": _position(axis, self.winner.point[name])}])
                drawn.insert(0, level.mark("rule", style="fit", strokeDash=[4, 3]).encode(x=x))
            panels.append(chart.panel(drawn, width, _SMALL_PX))
        return panels

    def _bare_y(self, **axis: Any) -> Any:
        return {**self.y, "title": None, "axis": {"ticks": False, **axis}}

    def _points(self, rows: Sequence[VegaLite], x: Any, y: Any) -> list[Any]:
        """Filled where every constraint is kept, else hollow; a kind looks the same in every search."""
        present = {one.kind for one in self.trials}
        legend = {"values": [kind for kind in KINDS if kind in present]}
        looks = chart.looks("kind", KINDS, legend, color=None, shape=list(KINDS.values()))
        tooltip = chart.tips({"point:N": "", "value:N": "", "kind:N": "trial", "constraints:N": ""})
        drawn = []
        for keeps in (True, False):
            if part := [row for row in rows if row["keeps"] is keeps]:
                mark = chart.base(part).mark("point", style="mark", filled=keeps, size=48, strokeWidth=1.4)
                drawn.append(mark.encode(x=x, y=y, tooltip=tooltip, **looks))
        return drawn

    def notes(self) -> list[str]:
        found = self.found
        told = f"winner: {_phrase(self.winner.point)}" if self.winner else ""
        if found.winner is not None and not found.feasible:
            told = sentence("tuned.chart_no_winner")
        broken = " or ".join(constraint.text for constraint in self.constraints)
        trials, percent = len(self.trials) + len(self.lost), f"{100 * found.confidence:g}"
        return [
            sentence("tuned.chart_trials", trials=trials, tried=found.tried, points=found.points),
            told if self.conclusive else selection.UNFIT,
            sentence("tuned.chart_best") if self.conclusive else "",
            "" if all(row["keeps"] for row in self.rows) else f"hollow: breaks {broken}",
            f"× failed: {len(self.lost)}" if self.lost else "",
            sentence("tuned.chart_confirmed", percent=percent) if self.confirmed else "not confirmed",
        ]


def _position(axis: axes.LevelAxis, level: Scalar) -> float | str:
    return axis.position(next(known for known in axis.levels if same_level(axis.factor, known, level)))


def _phrase(point: Mapping[str, Scalar]) -> str:
    return ", ".join(level_phrase(name, level) for name, level in point.items())
