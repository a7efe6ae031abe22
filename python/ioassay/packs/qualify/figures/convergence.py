"""Rounds until steady state: each condition over all of them (`convergence`), and the window at their end
(`steady_window`) with its average, the lines at 110 % and 90 % of that, and the fitted line.

Both are figures that the report of SNIA's Performance Test Specification asks for. Numbers are those of the question
`qualification`, so that the lines and its table agree.
"""

from __future__ import annotations

from typing import Any, Literal

from ioassay.factors import level_label
from ioassay.metrics import format_metric
from ioassay.narrative import phrases
from ioassay.narrative.say import sentence
from ioassay.packs.qualify.questions.qualification import capacity_bytes, load_text
from ioassay.packs.qualify.rounds import Point, Rounds, rounds
from ioassay.report.figures import Kind, axes, chart, selection
from ioassay.report.figures.chart import channel
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.stats.sample import MAX_RANGE, ROUNDS
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_size


class ConvergenceSpec(FigureSpec):
    """`x`: rounds, or what was written up to the end of each, as a multiple of the capacity where that is known."""

    y: str
    x: Literal["round", "written"] = "round"
    color: str | None = None
    log_y: bool | None = None


class WindowSpec(FigureSpec):
    y: str


def draw_convergence(records: Dataset, study: Study, spec: ConvergenceSpec) -> Any:
    """A line for each condition, and the window shaded."""
    found, points = _found(records, study, spec)
    if spec.color is not None:
        selection.require_factor(study, spec.color)
    values = {id(point): point.values(spec.y) for point in points}
    axis = axes.metric_axis(spec.y, [value for own in values.values() for value in own.values()], spec.log_y)
    places, title = _places(records, found, spec)
    rows = list[VegaLite]()
    for point in points:
        group = {} if spec.color is None else {"group": level_label(spec.color, point.levels[spec.color])}
        for number, value in values[id(point)].items():
            shown = {"load": load_text(study, point), "value": format_metric(spec.y, value), "round": number + 1}
            rows.append({"x": places[number], "y": axis.unit.scale(value), **shown, **group})
    levels = [point.levels[spec.color] for point in points] if spec.color else []
    marks = chart.level_marks(records, study, spec.color, levels)
    steps = {"axis": {"tickMinStep": 1}} if spec.x == "round" else {}
    x = channel("x:Q", title=title, scale={"zero": False, "nice": False, "padding": 12}, **steps)
    base = chart.base(rows).encode(x=x, y=axis.encoding(), detail="load:N")
    tooltip = chart.tips({"load:N": "", "value:N": "", "round:Q": ""})
    line = base.mark("line", style="joined", strokeWidth=1.4).encode(**marks.color())
    dots = base.mark("point", style="mark", filled=True, size=34, fillOpacity=0.85)
    ends = {"x": places[max(found.last - ROUNDS + 1, 0)], "x2": places[found.last]}
    window = chart.base([ends]).mark("rect", style="window").encode(x="x:Q", x2="x2:Q")
    notes = [
        sentence(f"qualification.chart_{'steady' if found.attained else 'unsteady'}", rounds=found.last + 1),
        axis.note,
    ]
    drawn = [window, line, dots.encode(tooltip=tooltip, **marks.points())]
    name = f"{selection.metric_label(spec.y)} over rounds"
    return chart.layered(drawn, spec, study, name, notes)


def draw_window(records: Dataset, study: Study, spec: WindowSpec) -> Any:
    """The last five rounds of one condition, which has to be named by `where` unless the study has only one."""
    import numpy as np

    found, points = _found(records, study, spec)
    if len(points) > 1:
        raise NoData(sentence("qualification.chart_several", number=len(points)))
    point, last = points[0], found.last
    known = {number: value for number, value in point.values(spec.y).items() if last - ROUNDS < number <= last}
    if len(known) < 2:
        raise NoData(sentence("qualification.chart_few"))
    numbers, values = np.array(list(known), dtype=float), np.array(list(known.values()))
    average = float(values.mean())
    slope, start = (float(one) for one in np.polyfit(numbers, values, 1))
    ends = [slope * number + start for number in numbers[[0, -1]]]
    half = MAX_RANGE / 2
    axis = axes.metric_axis(spec.y, [*values, *ends, average * (1 - half), average * (1 + half)], log=False)
    span = [float(numbers[0]) + 1, float(numbers[-1]) + 1]

    def line(names: str, heights: list[float]) -> list[VegaLite]:
        return [{"x": at, "y": axis.unit.scale(y), "line": names} for at, y in zip(span, heights, strict=True)]

    lines = {
        sentence("qualification.chart_average"): [average] * 2,
        "110 %": [average * (1 + half)] * 2,
        "90 %": [average * (1 - half)] * 2,
        sentence("qualification.chart_fitted"): ends,
    }
    rows = [row for name, heights in lines.items() for row in line(name, heights)]
    x = channel("x:Q", title="Round", scale={"zero": False, "nice": False, "padding": 16}, axis={"tickMinStep": 1})
    y = axis.encoding(zero=False)
    legend = {"orient": "bottom", "title": None, "symbolType": "stroke"}
    looks = chart.looks("line", lines, legend, color=None, strokeDash=[[1, 0], [3, 3], [3, 3], [7, 4]])
    ruled = chart.base(rows).mark("line", strokeWidth=1.6).encode(x=x, y=y, **looks)
    measured = [
        {"x": int(number) + 1, "y": axis.unit.scale(value), "value": format_metric(spec.y, value)}
        for number, value in known.items()
    ]
    dots = chart.base(measured).mark("point", style="mean", filled=True, size=70)
    shown = dots.encode(x=x, y=y, tooltip=chart.tips({"x:Q": "round", "value:N": ""}))
    state = found.state(point) if spec.y == (study.until.metric if study.until else "") else None
    notes = [
        sentence("qualification.chart_average_is", value=phrases.value(spec.y, average)),
        sentence("qualification.chart_excursion", range=state.final.range, slope=state.final.slope) if state else "",
    ]
    name = sentence("qualification.chart_window", load=load_text(study, point), metric=selection.metric_phrase(spec.y))
    return chart.layered([ruled, shown], spec, study, name, notes)


def _found(records: Dataset, study: Study, spec: Any) -> tuple[Rounds, list[Point]]:
    selection.select(records, study, spec.where)  # says why where nothing went well
    found = rounds(records, study)
    if found is None:
        raise NoData(sentence("qualification.chart_no_rounds", study=study.name))
    points = [point for point in found.points if point.has(spec.where) and point.values(spec.y)]
    if not points:
        raise NoData(sentence("qualification.chart_no_metric", metric=spec.y))
    return found, points


def _places(records: Dataset, found: Rounds, spec: ConvergenceSpec) -> tuple[list[float], str]:
    """Where each round stands on x, and the title of that."""
    if spec.x == "round":
        return [float(number + 1) for number in found], "Round"
    capacity = capacity_bytes(records, found.study)
    if capacity:
        return [number / capacity for number in found.written], sentence(
            "qualification.chart_capacities", size=format_size(capacity)
        )
    return [number / 2**30 for number in found.written], "Written (GiB)"


CONVERGENCE, STEADY_WINDOW = Kind(ConvergenceSpec, draw_convergence), Kind(WindowSpec, draw_window)
