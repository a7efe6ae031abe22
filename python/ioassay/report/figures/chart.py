"""What charts of several kinds are built from: layers over rows, their channels, and panels under one title.

Altair and Polars are imported when a figure is drawn: a study is checked without them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ioassay.report.figures import chart_marks, titles
from ioassay.report.figures.spec import FigureSpec, VegaLite
from ioassay.study.model import Study

__all__ = ["alt", "base", "figure", "grid", "heat", "layered", "panel", "percent", "pl", "rows", "seconds", "tips"]


class _Library(ModuleType):
    """A library that is imported at its first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    import altair as alt
    import polars as pl
else:
    alt, pl = _Library("altair"), _Library("polars")


def base(data: chart_marks.Rows) -> Any:
    """A layer over these rows, to be given a mark and its channels."""
    return alt.Chart(chart_marks.data(data))


def tips(shown: Mapping[str, str]) -> list[Any]:
    """What hovering tells: field with its type -> title ('': its name)."""
    return [alt.Tooltip(field, title=title or alt.Undefined) for field, title in shown.items()]


def seconds(title: str | None = "Time (s)", end_s: float | None = None, labels: bool = True) -> Any:
    """The x channel of time, up to the end where it is known."""
    domain = {} if end_s is None else {"domain": [0, end_s]}
    hidden = {} if labels else {"labels": False, "ticks": False}
    return alt.X("x:Q", title=title, scale=alt.Scale(nice=False, **domain), axis=alt.Axis(tickCount=8, **hidden))


def percent(title: str | None, **axis: Any) -> Any:
    """The y channel of shares that fill up to 100 %; `axis` as altair has it."""
    look = {"axis": alt.Axis(**axis)} if axis else {}
    return alt.Y("y:Q", title=title, scale=alt.Scale(domain=[0, 100], nice=False), **look)


def panel(layers: Sequence[Any], width: int, height: int, title: str = "") -> Any:
    """Layers over each other, one of several panels of a figure, with its own title."""
    head = {"title": {"text": title, "fontSize": 13, "offset": 6}} if title else {}
    return alt.layer(*layers).properties(width=width, height=height, **head)


def rows(panels: Sequence[Any], columns: int, spacing: int = 14) -> list[Any]:
    """Panels beside each other, `columns` in a row."""
    parts = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    return [alt.hconcat(*part, spacing=spacing) for part in parts]


def grid(panels: Sequence[Any], columns: int, spacing: int = 14) -> Any:
    """The same rows below each other."""
    return alt.vconcat(*rows(panels, columns, spacing), spacing=max(spacing, 16))


def layered(
    layers: Sequence[Any], spec: FigureSpec, study: Study, title: str, notes: Sequence[str], **more: Any
) -> Any:
    """A figure of one panel, in the size that was asked for; `more` as of `figure`."""
    whole = alt.layer(*layers).properties(width=spec.width, height=spec.height)
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
    """The chart with title, notes as its subtitle, and a description: of its `points`, else of its notes and `details`.

    `width` is that of all panels together, where the spec's is that of one.
    """
    whole = spec if width is None else spec.model_copy(update={"width": width})
    noted = titles.noted(whole, title, notes) + (f" {details}." if details else "")
    said = titles.description(whole, study, title, points) if points and study else noted
    return chart.properties(title=titles.head(whole, study, title, notes), description=said)


def heat(field: str, title: str, scale: str, domain: Sequence[float], **legend: Any) -> Any:
    """The colour channel of cells over a quantitative field, in the theme's palette, with a gradient as its legend."""
    gradient = alt.Legend(gradientLength=220, gradientThickness=12, **legend)
    return alt.Color(f"{field}:Q", title=title, scale=alt.Scale(type=scale, domain=domain, nice=False), legend=gradient)
