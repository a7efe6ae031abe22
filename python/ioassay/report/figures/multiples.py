"""All studies of a run at a glance: one small panel a study, each over what it sweeps, with its own axes and units.

A study of which nothing went well keeps its panel, which says why. Says nothing that the studies' own figures do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ioassay.factors import level_phrase
from ioassay.report.figures import axes, chart_marks, condition_rows, panels, selection, stack, titles
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_TITLES = {"response": "Every sweep at a glance", "cpu": "Where the processors' time went in every sweep"}
_GAP_PX = 18
_AXIS_PX = 40
"""What an axis takes beside a panel."""
_LINES = 7
_LINE_PX = 13
_CHARACTER_PX = 6.2
"""Of the text in a panel without a chart."""


class Spec(FigureSpec):
    """Keys of small multiples. `width` and `height` are those of one panel; `studies` leaves those named."""

    show: Literal["response", "cpu"] = "response"
    y: str | None = None
    studies: tuple[str, ...] = ()
    columns: Annotated[int, Field(ge=1, le=8)] = 3
    width: Annotated[int, Field(ge=100, le=2000)] = 190
    height: Annotated[int, Field(ge=80, le=2000)] = 110


@dataclass(frozen=True)
class _Shown:
    """One study's panel, and what it says in words."""

    chart: Any
    title: str
    told: str
    missing: bool = False


def draw(records: Dataset, _: Study | None, spec: Spec) -> Any:
    """The panels in rows; NoData where none has anything to show."""
    import altair as alt

    chosen = _chosen(records, spec)
    shown = [_shown(records, one, spec) for one in chosen]
    if all(one.missing for one in shown):
        raise NoData("; ".join(dict.fromkeys(one.told for one in shown)))
    whole = spec.model_copy(update={"width": spec.columns * (spec.width + _AXIS_PX + _GAP_PX)})
    title = spec.title or _TITLES[spec.show]
    described = "; ".join(f"{one.title}: {one.told}" for one in shown)
    chart = alt.concat(*(one.chart for one in shown), columns=spec.columns, spacing=_GAP_PX)
    if spec.show == "response":
        chart = chart.resolve_scale(color="independent", shape="independent")
    return chart.properties(
        title=titles.head(whole, None, title, _notes(spec, chosen, shown)), description=f"{title}. {described}."
    )


def _chosen(records: Dataset, spec: Spec) -> Sequence[Study]:
    named = {study.name: study for study in records.studies}
    if unknown := [name for name in spec.studies if name not in named]:
        raise NoData(f"the run has no study '{unknown[0]}'; it has {', '.join(named)}")
    return [named[name] for name in spec.studies] if spec.studies else list(records.studies)


def _shown(records: Dataset, study: Study, spec: Spec) -> _Shown:
    draw = panels.draw if spec.show == "response" else _share_panel
    title = study.title or study.name
    try:
        panel = draw(records, study, panels.Ask(spec.width, spec.height, spec.where, spec.y))
    except NoData as missing:
        return _Shown(_empty(str(missing), title, spec), title, str(missing), missing=True)
    return _Shown(
        panel.chart.properties(title=_head(title, panel.notes, spec)), title, ", ".join(filter(None, panel.notes))
    )


def _head(title: str, notes: Sequence[str], spec: Spec) -> VegaLite:
    """A panel's title and what stands below it, in lines that fit over it."""
    lines = [line for note in notes if note for line in titles.broken(note, spec.width)]
    return {
        "text": titles.broken(title, spec.width, 6.8),
        "subtitle": lines,
        "fontSize": 12,
        "subtitleFontSize": 11,
        "subtitleLineHeight": _LINE_PX,
        "subtitlePadding": 3,
        "offset": 6,
    }


def _empty(reason: str, title: str, spec: Spec) -> Any:
    """The reason in the frame of a panel."""
    import altair as alt

    lines = titles.broken(reason, spec.width - _AXIS_PX - 8, _CHARACTER_PX)
    kept = lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"{lines[_LINES - 1]} …"]
    frame = alt.Chart(chart_marks.data([{}])).mark_rect(style="frame")
    text = alt.Chart(chart_marks.data([{"text": kept, "reason": reason}])).mark_text(
        style="note", align="left", baseline="top", lineHeight=_LINE_PX
    )
    text = text.encode(x=alt.value(8), y=alt.value(10), text="text:N", tooltip=[alt.Tooltip("reason:N", title="why")])
    head = _head(title, ["nothing to show"], spec)
    return alt.layer(frame, text).properties(width=spec.width, height=spec.height, title=head)


def _notes(spec: Spec, chosen: Sequence[Study], shown: Sequence[_Shown]) -> list[str]:
    missing = sum(one.missing for one in shown)
    if spec.show == "cpu":
        told = ["means over trials, of all cores (%)", "grey: idle"]
    else:
        confidence = 100 * panels.confidence(chosen)
        told = [
            f"means with their {confidence:g} % intervals",
            "ring: best level",
            f"shaded: {condition_rows.as_good()}",
            "dotted: number of hardware threads",
            "each panel has its own unit",
        ]
    return [f"{len(shown)} studies" + (f", {missing} without a curve" if missing else ""), *told]


def _share_panel(records: Dataset, study: Study, ask: panels.Ask) -> panels.Panel:
    """The panel; NoData where nothing went well, nothing is swept or nothing watched."""
    import altair as alt

    trials = selection.select(records, study, ask.where)
    points = selection.points_of(study, trials)
    factor, _ = panels.swept(study, points)
    means, counts = stack.level_means(records, study, trials, factor)
    levels = study.design.in_order(factor, list(counts))
    axis = axes.category_axis(factor, levels)
    y = alt.Y("y:Q", title=None, scale=alt.Scale(domain=[0, 100], nice=False), axis=alt.Axis(values=[0, 50, 100]))
    chart = alt.layer(*stack.bars(means, axis, axis.encoding(ask.width), y, every=True))
    busiest = max(levels, key=lambda level: 100 - means[level].get("idle", 0.0))
    share = 100 - means[busiest].get("idle", 0.0)
    told = f"busiest: {share:.0f} % at {level_phrase(factor, busiest)}"
    notes = [told, selection.pooled(points, factor)]
    return panels.Panel(chart.properties(width=ask.width, height=ask.height), notes)
