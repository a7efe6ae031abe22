"""What charts are built from: layers over rows, marks and channels, colours of levels, panels, and words over them.

Charts are declarations of Vega-Lite in the words of its grammar: channels, marks, layers and panels are plain
dictionaries. Altair has these words as classes that check themselves. Its import alone takes as long as reading and
judging a small run, so tests hold the declarations against the schema. Colours come from the theme's styles, or from a
colour factor. Polars is imported when a figure is drawn: a study is checked without it.
"""

from __future__ import annotations

import importlib
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ioassay.factors import axis_title, factor_label, level_axis_numbers, level_key, level_label, level_number
from ioassay.records.record import Scalar
from ioassay.report.figures import selection
from ioassay.report.figures.spec import ErrorBar, FigureSpec, VegaLite
from ioassay.report.page import ZOOMED
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}


class VegaView(dict[str, Any]):
    """A single view; its methods return another one and leave this one as it is."""

    def mark(self, kind: str, **look: Any) -> VegaView:
        return VegaView(self, mark={"type": kind, **look})

    def encode(self, **channels: Any) -> VegaView:
        """With channels in addition: as `channel` makes them, or a field with its type alone."""
        fields = {name: channel(one) if isinstance(one, str) else one for name, one in channels.items()}
        for name in fields.keys() & {"x2", "y2"}:
            fields[name].pop("type", None)  # it is that of x or y
        return VegaView(self, encoding={**self.get("encoding", {}), **fields})

    def zoomable(self) -> VegaView:
        """Shift and wheel zooms, shift and drag moves, so that the page still scrolls; one view of a figure can."""
        moves = "[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!"
        select = {"type": "interval", "zoom": "wheel![event.shiftKey]", "translate": moves}
        zoom = {"name": "zoomed", "select": select, "bind": "scales", "views": [ZOOMED]}
        return VegaView(self, name=ZOOMED, params=[zoom])


def channel(shorthand: str, **look: Any) -> VegaLite:
    """A channel over a field, named with its type: `x:Q`, `level:N`."""
    field, _, kind = shorthand.partition(":")
    return {"field": field, "type": _TYPES[kind], **look}


def _composed(kind: str, *views: Mapping[str, Any], **more: Any) -> VegaLite:
    """Views as one, which has the data that all of them draw, and their parameters: these have to stand at the top."""
    data = views[0].get("data")
    shared = {"data"} if data is not None and all(view.get("data") is data for view in views) else set[str]()
    params = [param for view in views for param in view.get("params", ())]
    parts = [{key: part for key, part in view.items() if key not in {"params", *shared}} for view in views]
    return {kind: parts, **more, **({"data": data} if shared else {}), **({"params": params} if params else {})}


layer, concat, hconcat, vconcat = (partial(_composed, kind) for kind in ("layer", "concat", "hconcat", "vconcat"))


__all__ = ["pl"]
"""Of others, which modules of figures import from here."""


class _Library(ModuleType):
    """A library that is imported at its first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    import polars as pl
else:
    pl = _Library("polars")

DASH = "M-2,0L2,0"
"""A legend symbol for lines, wide enough to show dashes."""
# All marks of a legend are filled where those of its chart are, so those that look hollow are outlines with a hole.
RING = "M-1.2,0A1.2,1.2,0,1,1,1.2,0A1.2,1.2,0,1,1,-1.2,0ZM-.96,0A.96,.96,0,1,0,.96,0A.96,.96,0,1,0,-.96,0Z"
"""A circle larger than a mean's."""
DIAMOND = "M0,-1L1,0L0,1L-1,0ZM0,-.62L-.62,0L0,.62L.62,0Z"
BAR = "M-1,-.17L1,-.17L1,.17L-1,.17Z"

_ASIDE_PX = 6.0
"""Between the marks of two groups at one level."""
_ASIDE_ROOM_PX = 30.0
"""What those of all groups take at most."""
CHARACTER_PX, LINE_PX = 7.0, 15
"""Mean width of a character of a label, and the height of a line."""
_TITLE_PX, _SUBTITLE_PX = 8.2, 6.3
"""The width of theirs, for breaking lines."""
Rows = Sequence[VegaLite]
MEAN: VegaLite = {"style": "mean", "filled": True, "size": 70}
"""The look of means where lengths would say nothing: points, in the place of bars."""


def shared_rows(declared: VegaLite) -> VegaLite:
    """A declaration with equal rows of its layers once, under names (Vega-Lite's `datasets`)."""
    names: dict[str, str] = {}
    datasets: dict[str, list[VegaLite]] = {}

    def named(part: Any) -> Any:
        if isinstance(part, list):
            return [named(one) for one in part]
        if not isinstance(part, dict):
            return part
        rows = part["data"].get("values") if isinstance(part.get("data"), dict) else None
        if rows is None:
            return {key: named(one) for key, one in part.items()}
        name = names.setdefault(json.dumps(rows), f"rows{len(names)}")
        datasets[name] = rows
        return {**{key: named(one) for key, one in part.items() if key != "data"}, "data": {"name": name}}

    return {**named(declared), "datasets": datasets}


def base(drawn: Rows) -> VegaView:
    """A layer over these rows, to be given a mark and its channels."""
    return VegaView(data={"values": list(drawn)})


def blank(reason: str, width_px: int, most: int = 100) -> list[Any]:
    """A frame with the reason in its middle, in `most` lines, where there is nothing to draw."""
    lines = broken(reason, width_px, CHARACTER_PX)
    kept = lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1]} …"]
    text = base([{"text": kept, "reason": reason}]).mark(
        "text", style="whisper", align="center", lineHeight=18, dy=9 - 9 * len(kept)
    )
    return [base([{}]).mark("rect", style="frame"), text.encode(text="text:N", tooltip=tips({"reason:N": "why"}))]


def tips(shown: Mapping[str, str]) -> list[Any]:
    """What hovering tells: field with its type -> title ('': its name)."""
    return [channel(field, **({"title": title} if title else {})) for field, title in shown.items()]


def seconds(title: str | None = "Time (s)", end_s: float | None = None, labels: bool = True) -> Any:
    """The x channel of time, up to the end where it is known."""
    domain = {} if end_s is None else {"domain": [0, end_s]}
    hidden = {} if labels else {"labels": False, "ticks": False}
    return channel("x:Q", title=title, scale={"nice": False, **domain}, axis={"tickCount": 8, **hidden})


def looks(field: str, names: Iterable[str], legend: VegaLite, **ranges: Sequence[Any] | None) -> VegaLite:
    """Channels over one field of words, with one legend; `ranges` has their looks, None for the theme's colours."""
    domain: VegaLite = {"domain": list(names)}
    scales = {name: {**domain, "range": list(look)} if look else domain for name, look in ranges.items()}
    return {name: channel(f"{field}:N", title=None, scale=scale, legend=legend) for name, scale in scales.items()}


def percent(title: str | None, **axis: Any) -> Any:
    """The y channel of shares that fill up to 100 %; `axis` as Vega-Lite has it."""
    look = {"axis": axis} if axis else {}
    return channel("y:Q", title=title, scale={"domain": [0, 100], "nice": False}, **look)


def panel(layers: Sequence[Any], width: int, height: int, title: str = "") -> Any:
    """Layers over each other, one of several panels of a figure, with its own title."""
    head = {"title": {"text": title, "fontSize": 13, "offset": 6}} if title else {}
    return layer(*layers, width=width, height=height, **head)


def rows(panels: Sequence[Any], columns: int, spacing: int = 14) -> list[Any]:
    """Panels beside each other, `columns` in a row."""
    parts = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    return [hconcat(*part, spacing=spacing) for part in parts]


def grid(panels: Sequence[Any], columns: int, spacing: int = 14) -> Any:
    """The same rows below each other."""
    return vconcat(*rows(panels, columns, spacing), spacing=max(spacing, 16))


def layered(
    layers: Sequence[Any], spec: FigureSpec, study: Study, title: str, notes: Sequence[str], **more: Any
) -> Any:
    """A figure of one panel, in the size that was asked for; `more` as of `figure`."""
    whole = layer(*layers, width=spec.width, height=spec.height)
    return figure(whole, spec, study, title, notes, **more)


def figure(
    chart: Any,
    spec: FigureSpec,
    study: Study | None,
    title: str,
    notes: Sequence[str],
    points: Sequence[VegaLite] = (),
    width: int | None = None,
    details: str = "",
) -> Any:
    """The chart with its title, with notes and what all trials share as subtitle, and a description for screen readers.

    That has its `points`, else its notes and `details`. No study: it shows several. `width` is that of all panels
    together, where the spec's is that of one.
    """
    width_px, named = width or spec.width, titled(spec, title)
    shared = selection.conditions(study, spec) if study else ""
    said = [*notes, details]
    if points and study:
        groups = (f" ({point['group']})" if "group" in point else "" for point in points)
        means = (f"{point['level']}{group}: {point['mean_text']}" for point, group in zip(points, groups, strict=True))
        said = [shared, "; ".join(means)]
    subtitle = " · ".join(filter(None, [selection.describe_where(spec.where) if spec.title else "", *notes, shared]))
    head = {"text": broken(named, width_px, _TITLE_PX), "subtitle": broken(subtitle, width_px)}
    return {**chart, "title": head, "description": f"{'. '.join(filter(None, [named, *said]))}."}


def heat(field: str, title: str, scale: str, domain: Sequence[float], **legend: Any) -> Any:
    """The colour channel of cells over a quantitative field, in the theme's palette, with a gradient as its legend."""
    gradient = {"gradientLength": 220, "gradientThickness": 12, **legend}
    return channel(f"{field}:Q", title=title, scale={"type": scale, "domain": domain, "nice": False}, legend=gradient)


# Marks


def on(over: VegaLite, field: str) -> VegaLite:
    """The same channel (axis, scale, title) over another quantitative field."""
    return {**over, "field": field, "type": "quantitative"}


def side_by_side(rows: Rows) -> tuple[Rows, VegaLite]:
    """Rows of several groups, and what their marks are given so that they do not hide those of others at one level.

    All groups share their layers: ten of them in layers of their own took a browser three times as long to draw.
    """
    groups = list(dict.fromkeys(row.get("group") for row in rows))
    if len(groups) < 2:
        return rows, {}
    step_px = min(_ASIDE_PX, _ASIDE_ROOM_PX / len(groups))
    middle = (len(groups) - 1) / 2
    offsets = {group: round((place - middle) * step_px, 2) for place, group in enumerate(groups)}
    return [{**row, "aside": offsets[row.get("group")]} for row in rows], {"xOffset": {"expr": "datum.aside"}}


def error_bars(rows: Rows, y: Any, cap_px: float = 9, aside: VegaLite | None = None, **places: Any) -> list[Any]:
    """A vertical rule from `low` to `high` with caps, for the rows that have them; `places` are the other channels.

    An end that is `cut` at the axis has no cap. `aside` is of `side_by_side`.
    """
    style: VegaLite = {"style": "deviation", **(aside or {})}
    bars = [row for row in rows if "low" in row]
    if not bars:
        return []
    rule = base(bars).mark("rule", strokeWidth=1.4, **style)
    drawn = [rule.encode(y=on(y, "low"), y2="high:Q", **places)]
    for end in ("low", "high"):
        ends = [row for row in bars if end not in row.get("cut", ())]
        if not ends:
            continue  # an empty layer has no extent, which Vega warns of
        cap = base(ends).mark("tick", orient="horizontal", size=cap_px, thickness=1.4, **style)
        drawn.append(cap.encode(y=on(y, end), **places))
    return drawn


def stack(x: Any, parts: Iterable[tuple[str, float, str]]) -> list[VegaLite]:
    """A row for each part of the bar at `x`, from `y` to `y2` on those before: parts are name, size and text."""
    rows, low = list[VegaLite](), 0.0
    for name, size, text in parts:
        rows.append({"x": x, "part": name, "y": round(low, 4), "y2": round(low + size, 4), "text": text})
        low += size
    return rows


def point_tooltip(color: str | None, error: ErrorBar, centre: str = "mean") -> list[Any]:
    shown = {"level:N": "level", **({"group:N": factor_label(color)} if color is not None else {})}
    shown |= {"mean_text:N": centre, "median_text:N": "median"}
    if error != "none":
        shown["error_text:N"] = f"{centre} ± deviation" if error == "sd" else "interval"
    return tips({**shown, "n:Q": "repetitions"})


# Colours and marks of levels

# A diamond is the mark of a median.
_TRIANGLES = ("triangle-up", "triangle-down", "cross", "triangle-right", "triangle-left")
SHAPES = ("circle", "square", *_TRIANGLES, "diamond", "wedge")
_LEGEND_PX = 600
_COLOURS = 9
"""Distinct ones of the theme."""
_ORDERED = 4
"""More levels than this, if they are numbers, have ordered colours."""


@dataclass(frozen=True)
class LevelMarks:
    """The channels over the field `group` of a figure that shows `shown`, some of the levels `every`, by label.

    Without a factor there are none. Colour and mark follow from the level's place among all levels of the run's
    studies, never from what a figure happens to show.
    """

    factor: str | None
    every: Sequence[str] = ()
    shown: Sequence[str] = ()
    ordered: bool = False
    """Colours of a scale, and one mark for all."""
    legend: VegaLite | None = None
    """The look of a legend smaller than usual."""

    def color(self, **symbol: Any) -> VegaLite:
        """The colour channel, to be passed on as keywords; `symbol` is the look of the legend's."""
        return {} if self.factor is None else {"color": self._channel({"domain": list(self.every)}, **symbol)}

    def points(self) -> VegaLite:
        """The channels of points: colour and shape, which share one legend."""
        return self.color() if self.ordered or self.factor is None else {**self.color(), "shape": self.looks(SHAPES)}

    def looks(self, looks: Sequence[Any]) -> Any:
        """A channel that gives each level one of `looks`, a shape or an area; again from the first where they end."""
        return self._channel({"domain": list(self.every), "range": self._turns(looks)})

    def dash(self, looks: Sequence[Sequence[int]]) -> Any:
        """The channel of a line's dashes, which would make the outlines of the legend's marks dashed.

        Vega-Lite merges the legends of one domain, the hidden ones too. So this one has its domain in another order.
        """
        turned = {"domain": list(self.every)[::-1], "range": self._turns(looks)[::-1]}
        return channel(f"group:{'O' if self.ordered else 'N'}", scale=turned, legend=None)

    def aside(self) -> VegaLite:
        """The channel that puts the levels side by side."""
        return {} if self.factor is None else {"xOffset": channel("group:N", sort=list(self.shown))}

    def _turns(self, looks: Sequence[Any]) -> list[Any]:
        return [looks[at % len(looks)] for at in range(len(self.every))]

    def _channel(self, scale: VegaLite, **symbol: Any) -> VegaLite:
        # As many columns as fit.
        entry_px = max((len(label) for label in self.shown), default=1) * 7.2 + 36
        columns = max(1, min(len(self.shown), int(_LEGEND_PX / entry_px)))
        look = self.legend or {"columns": columns, "labelLimit": 560}
        title = (axis_title if self.legend is None else factor_label)(str(self.factor))
        legend = {"values": list(self.shown), **look, **symbol}
        return channel(f"group:{'O' if self.ordered else 'N'}", scale=scale, title=title, legend=legend)


def level_marks(records: Dataset, study: Study, factor: str | None, levels: Iterable[Scalar | None]) -> LevelMarks:
    """The marks of a figure of `study` that shows these levels of the factor."""
    if factor is None:
        return LevelMarks(None)
    shown = [level_label(factor, level) for level in study.design.in_order(factor, levels)]
    known, own = _levels_of_run(records, study, factor), study.levels.get(factor, ())
    known = own if len(known) > _COLOURS >= len(own) else known
    numbers = level_axis_numbers(factor, known) if known else None
    if numbers is not None:
        known = [level for _, level in sorted(zip(numbers, known, strict=True), key=lambda pair: pair[0])]
    every = list(dict.fromkeys([*(level_label(factor, level) for level in known), *shown]))
    ordered = len(every) > _COLOURS or (len(every) > _ORDERED and numbers is not None)
    return LevelMarks(factor, every, shown, ordered)


def _levels_of_run(records: Dataset, study: Study, factor: str) -> Sequence[Scalar]:
    """The levels of all studies of the run that share some with this one, directly or through others, in its words."""
    studies = [*(study if one.name == study.name else one for one in records.studies), study]
    listed = [{level_key(factor, level): level for level in one.levels.get(factor, ())} for one in studies]
    own = listed[-1]
    reached = set(own)
    while joined := [levels for levels in listed if levels.keys() & reached and not levels.keys() <= reached]:
        reached.update(*joined)
    known: dict[str, Scalar] = {}
    for levels in listed:
        known |= {key: own.get(key, level) for key, level in levels.items() if key in reached and key not in known}
    return list(known.values())


def titled(spec: FigureSpec, title: str) -> str:
    """The study's own title if it gave one, or else `title` with the restriction: `… (randrw, numjobs = 4)`."""
    if spec.title or not spec.where:
        return spec.title or title
    levels = (
        selection.describe_where({factor: level})
        if isinstance(level, bool) or level_number(factor, level) is not None
        else level_label(factor, level)
        for factor, level in spec.where.items()
    )
    return f"{title} ({', '.join(levels)})"


def broken(text: str, width_px: int, character_px: float = _SUBTITLE_PX) -> list[str]:
    """Lines that fit over a plot of the given width."""
    unbroken = text.replace(" = ", "\u00a0=\u00a0")
    return textwrap.wrap(unbroken, max(int((width_px + 40) / character_px), 20)) or [""]
