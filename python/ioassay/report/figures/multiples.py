"""All studies of a run at a glance: one small panel a study, each over what it sweeps, with its own axes and units.

A study of which nothing went well keeps its panel, which says why. Says nothing that the studies' own figures do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ioassay.factors import level_phrase
from ioassay.report.figures import axes, chart, condition_rows, panels, selection, stack
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.report.figures.vega_lite import concat, layer
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_TITLES = {"response": "Every sweep at a glance", "cpu": "Where the processors' time went in every sweep"}
_GAP_PX = 18
_AXIS_PX = 40
"""What an axis takes beside a panel."""
_LINES = 7
_LINE_PX = 15
_CHARACTER_PX = 7.2
"""Of the text in a panel without a chart."""


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
            head, text = _head(title, notes, spec), ", ".join(filter(None, notes))
        except NoData as reason:
            missing.append(str(reason))
            layers, text = _empty(str(reason), spec), str(reason)
            head = _head(title, ["nothing to show"], spec)
        told.append(f"{title}: {text}")
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
            *(["ring: best level", f"shaded: {condition_rows.as_good()}"] if marked else []),
            "dotted: number of hardware threads",
            "each panel has its own unit",
        ]
    number = "1 study" if len(shown) == 1 else f"{len(shown)} studies"
    notes = [number + (f", {len(missing)} without a curve" if missing else ""), *legend]
    wide = spec.columns * (spec.width + _AXIS_PX + _GAP_PX)
    return chart.figure(whole, spec, None, _TITLES[spec.show], notes, width=wide, details="; ".join(told))


def _head(title: str, notes: Sequence[str], spec: Spec) -> VegaLite:
    """A panel's title and what stands below it, in lines that fit over it."""
    return {
        "text": chart.broken(title, spec.width, 7.4),
        "subtitle": [line for note in notes if note for line in chart.broken(note, spec.width)],
        "fontSize": 13,
        "subtitleLineHeight": _LINE_PX,
        "subtitlePadding": 3,
        "offset": 6,
    }


def _empty(reason: str, spec: Spec) -> list[Any]:
    """The reason in the frame of a panel."""
    lines = chart.broken(reason, spec.width - _AXIS_PX - 8, _CHARACTER_PX)
    kept = lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"{lines[_LINES - 1]} …"]
    text = chart.base([{"text": kept, "reason": reason}]).mark(
        "text", style="note", align="left", baseline="top", lineHeight=_LINE_PX
    )
    told = chart.tips({"reason:N": "why"})
    frame = chart.base([{}]).mark("rect", style="frame")
    return [frame, text.encode(x={"value": 8}, y={"value": 10}, text="text:N", tooltip=told)]


def _panel(records: Dataset, study: Study, spec: Spec) -> tuple[list[Any], list[str]]:
    """The layers of a study, and what is to stand over them; NoData where there is nothing to show."""
    if spec.show == "response":
        return panels.draw(records, study, spec.where, spec.y, spec.width)
    trials = selection.select(records, study, spec.where)
    points = selection.points_of(study, trials)
    factor, _ = panels.swept(study, points)
    means, counts = stack.level_means(records, study, trials, factor)
    axis = axes.category_axis(factor, study.design.in_order(factor, list(counts)))
    layers = stack.bars(means, axis, axis.encoding(spec.width), chart.percent(None, values=[0, 50, 100]), every=True)
    busy = {level: 100 - means[level].get("idle", 0.0) for level in axis.levels}
    busiest = max(busy, key=lambda level: busy[level])
    told = f"busiest: {busy[busiest]:.0f} % at {level_phrase(factor, busiest)}"
    return layers, [told, selection.pooled(points, factor)]
