"""What stands over and behind a chart: title, subtitle with n and conditions, description for screen readers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ioassay.factors import level_label, level_number
from ioassay.report.figures import selection
from ioassay.report.figures.spec import FigureSpec, VegaLite
from ioassay.study.model import Study

_CHARACTER_PX = 6.3
"""Mean width of a character of the subtitle's font, for breaking lines."""


def head(spec: FigureSpec, study: Study | None, title: str, notes: Sequence[str]) -> VegaLite:
    """The chart's title object; notes, then what all its trials share, as subtitle. No study: it shows several."""
    restriction = selection.describe_where(spec.where) if spec.title else ""
    shared = selection.conditions(study, spec) if study else ""
    parts = [part for part in (restriction, *notes, shared) if part]
    return {"text": broken(text(spec, title), spec.width, 8.2), "subtitle": broken(" · ".join(parts), spec.width)}


def text(spec: FigureSpec, title: str) -> str:
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


def noted(spec: FigureSpec, title: str, notes: Sequence[str]) -> str:
    """The description of a chart whose notes say what it shows."""
    return f"{text(spec, title)}. {'. '.join(filter(None, notes))}."


def broken(text: str, width_px: int, character_px: float = _CHARACTER_PX) -> list[str]:
    """Lines that fit over a plot of the given width."""
    unbroken = text.replace(" = ", "\u00a0=\u00a0")
    return textwrap.wrap(unbroken, max(int((width_px + 40) / character_px), 20)) or [""]


def description(spec: FigureSpec, study: Study, title: str, points: Sequence[VegaLite]) -> str:
    """What a reader who cannot see the chart needs: the title, the conditions, and each condition's mean."""
    told = []
    for point in points:
        group = f" ({point['group']})" if "group" in point else ""
        told.append(f"{point['level']}{group}: {point['mean_text']}")
    return ". ".join(filter(None, (text(spec, title), selection.conditions(study, spec), "; ".join(told)))) + "."
