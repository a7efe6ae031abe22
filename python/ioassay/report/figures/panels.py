"""All studies of a run at a glance: one small panel a study, each over what it sweeps, with its own axes and units.

A panel shows the study's response, the best level, and the levels that are as good: the numbers of the question `peak`
(`analysis/optimum.py`) and of the intervals that all figures show. A study of which nothing went well keeps its
panel, which says why. Says nothing that the studies' own figures do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ioassay import metrics
from ioassay.factors import level_axis_numbers, level_phrase, level_text
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart, curves, metric_view, monitors, selection
from ioassay.report.figures.chart import concat, layer
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.analysis.optimum import Peak

_TITLES = {"response": "Every sweep at a glance", "cpu": "Where the processors' time went in every sweep"}
_GAP_PX = 18
_AXIS_PX = 40
"""What an axis takes beside a panel."""
_LINES = 6
"""Of a reason in a panel."""
_TICKS = 4
_SMALL_LEGEND: VegaLite = {"symbolSize": 36, "symbolStrokeWidth": 1, "offset": 2}
_SMALL_LEGEND |= {"titlePadding": 5, "columnPadding": 8, "labelOffset": 2}
_HEAD: VegaLite = {"fontSize": 13, "subtitleLineHeight": chart.LINE_PX, "subtitlePadding": 3, "offset": 6}


class Spec(FigureSpec):
    """Keys of small multiples. `width` and `height` are those of one panel; `studies` leaves those named."""

    show: Literal["response", "cpu"] = "response"
    y: str | None = None
    studies: tuple[str, ...] = ()
    columns: Annotated[int, Field(ge=1, le=8)] = 3
    width: Annotated[int, Field(ge=100, le=2000)] = 190
    height: Annotated[int, Field(ge=80, le=2000)] = 110


def draw(records: Dataset, _: Study | None, spec: Spec) -> Any:
    """The panels in rows; NoData where none has anything to show."""
    named = {study.name: study for study in records.studies}
    if unknown := [name for name in spec.studies if name not in named]:
        raise NoData(f"the run has no study '{unknown[0]}'; it has {', '.join(named)}")
    chosen = [named[name] for name in spec.studies or named]
    shown: list[Any] = []
    told: list[str] = []
    missing: list[str] = []
    for study in chosen:
        title = study.title or study.name
        try:
            layers, notes = _panel(records, study, spec)
            text = ", ".join(filter(None, notes))
        except NoData as reason:
            text, notes = str(reason), ["nothing to show"]
            missing.append(text)
            layers = chart.blank(text, spec.width - _AXIS_PX, _LINES)
        told.append(f"{title}: {text}")
        lines = [line for note in notes if note for line in chart.broken(note, spec.width)]
        head = {"text": chart.broken(title, spec.width, chart.CHARACTER_PX), "subtitle": lines, **_HEAD}
        shown.append(layer(*layers, width=spec.width, height=spec.height, title=head))
    if len(missing) == len(chosen):
        raise NoData("; ".join(dict.fromkeys(missing)))
    whole = concat(*shown, columns=spec.columns, spacing=_GAP_PX)
    legend = ["means over trials, of all cores (%)", "grey: idle"]
    if spec.show == "response":
        whole["resolve"] = {"scale": {"color": "independent", "shape": "independent"}}
        marked = any(selection.is_conclusive(records, study) for study in chosen)
        legend = [
            # That of the first: studies of one suite seldom ask for different ones.
            f"means with their {100 * chosen[0].analysis.confidence:g} % intervals",
            *(["ring: best level", f"shaded: {metric_view.as_good()}"] if marked else []),
            "dotted: number of hardware threads",
            "each panel has its own unit",
        ]
    number = "1 study" if len(shown) == 1 else f"{len(shown)} studies"
    notes = [number + (f", {len(missing)} without a curve" if missing else ""), *legend]
    wide = spec.columns * (spec.width + _AXIS_PX + _GAP_PX)
    return chart.figure(whole, spec, None, _TITLES[spec.show], notes, width=wide, details="; ".join(told))


def _panel(records: Dataset, study: Study, spec: Spec) -> tuple[list[Any], list[str]]:
    """The layers of a study, and what is to stand over them; NoData where there is nothing to show."""
    if spec.show == "response":
        return _response(records, study, spec)
    trials = selection.select(records, study, spec.where)
    points = selection.points_of(study, trials)
    factor, _ = swept(study, points)
    means, counts = monitors.level_means(records, study, trials, factor)
    axis = axes.LevelAxis(factor, study.design.in_order(factor, list(counts)))
    shares = chart.percent(None, values=[0, 50, 100])
    layers = monitors.stacked_bars(means, axis, axis.encoding(spec.width), shares, every=True)
    busy = {level: 100 - means[level].get("idle", 0.0) for level in axis.levels}
    busiest = max(busy, key=lambda level: busy[level])
    told = f"busiest: {busy[busiest]:.0f} % at {level_phrase(factor, busiest)}"
    return layers, [told, selection.pooled(points, factor)]


def _response(records: Dataset, study: Study, spec: Spec) -> tuple[list[Any], list[str]]:
    """The same of a metric, by default of the study's first response."""
    from ioassay.analysis import optimum

    selection.select(records, study, spec.where)  # says why where nothing went well
    if not (responses := [spec.y] if spec.y else records.responses(study)):
        raise NoData(f"no trial of the study '{study.name}' has a metric that it asks for")
    name = responses[0]
    cells = selection.measured(records, study, spec.where, name)
    x, color = swept(study, [cell.point for cell in cells])
    found = metric_view.conditions(cells, study, name, x, color)
    ask, levels = metric_view.Ask(name, color, "ci", study.analysis.confidence), metric_view.levels_of(found)
    axis = axes.level_axis(x, levels, axes.geometric(x, levels))
    view = metric_view.of(records, study, found, ask, axis, spec.width)
    y = view.metric_axis.encoding(ticks=_TICKS) | {"title": None}
    view = replace(view, marks=replace(view.marks, legend=_SMALL_LEGEND), y=y)
    pooled = selection.pooled([cell.point for cell in cells], x, color)
    conclusive = selection.is_conclusive(records, study)
    peaks: list[Peak] = []
    # Of several conditions taken together, none is best, nor where nothing is better.
    if conclusive and not pooled and not (metrics.known(name) and metrics.metric(name).better == "none"):
        every = optimum.measured(records, study, name).get(x, [])
        peaks = [peak for peak in every if curves.is_of(peak.part.cells[0].point, spec.where, x)]
    distinct = [peak for peak in peaks if not peak.indistinct]
    # The band of levels that are as good as the best, in every line where there are several.
    bands = [(one.numbers, one.plateau) for one in distinct if one.plateau and one.numbers]
    layers: list[Any] = []
    if bands and len(bands) == len(peaks):
        low, high = max(at[ends.first] for at, ends in bands), min(at[ends.last] for at, ends in bands)
        layers += [view.band(low, high)] if low < high else []
    layers += view.hardware_threads(records.machine(study), label=False)  # its name is said once for all panels
    joined: VegaLite = {} if view.axis.numbers is None else {"style": "joined", "strokeWidth": 1.2}
    layers += view.means({}, 22, 5, **joined)
    # A ring around the best mean of each line.
    best = []
    for point in (one.cells[one.best].point for one in distinct):
        place = metric_view.place(point[x], point[color] if color else None, view.axis, color)
        best.append((place["x"], place.get("group")))
    rows, aside = chart.side_by_side(view.points)
    if ringed := [row for row in rows if (row["x"], row.get("group")) in best]:
        ring = chart.base(ringed).mark("point", style="best", filled=False, size=110, **aside)
        layers.append(ring.encode(x=view.x, y=view.y, **view.marks.color()))
    unit = view.metric_axis.unit.titled(selection.metric_label(name))
    scale = f"{unit}, logarithmic" if view.metric_axis.log else unit
    return layers, [scale, _told(peaks) if conclusive else selection.UNFIT, pooled]


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


def _told(peaks: Sequence[Peak]) -> str:
    """The best level in words, of each combination of other factors where they differ."""
    from ioassay.narrative import peak_text, phrases
    from ioassay.stats.contrasts import BestLevel

    seen = [one for one in peaks if not one.indistinct]
    if not seen:
        return "the levels are not distinguishable" if peaks else ""
    best = {peak_text.level_at(one, one.best) for one in seen}
    if len(seen) < len(peaks) or len(best) > 1:
        named = [(one.part.where(), peak_text.level_at(one, one.best) if one in seen else "none") for one in peaks]
        told = [f"{', '.join(level_text(*level) for level in where.items())}: {text}" for where, text in named]
        return f"best of {'; '.join(told)}" if len(told) < 4 else f"best: {len(best)} different levels"
    text, one = f"best: {best.pop()}", seen[0]
    if len(peaks) > 1:
        return text
    # The levels that are as good: a span of numbers, or why there is none, or a list of words.
    if one.plateau is not None:
        return f"{text}, as good: {peak_text.span(one, one.plateau.first, one.plateau.last)}"
    if one.numbers is not None:
        return f"{text}; {one.no_plateau}"
    others = [place for place in one.levels.as_good if place != one.best] if isinstance(one.levels, BestLevel) else []
    named_levels = phrases.listed([peak_text.level_at(one, place) for place in others])
    return f"{text}, as good: {named_levels}" if others else text
