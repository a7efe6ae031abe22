"""Marks that several kinds of figure share. Colours come from the theme's styles, or from a colour factor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ioassay.factors import factor_label
from ioassay.report.figures.spec import ErrorBar, VegaLite

if TYPE_CHECKING:
    from ioassay.report.figures.condition_rows import Condition

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

Rows = Sequence[VegaLite]


class Carried(str):
    """Rows on their way through altair, which copies data again and again, but takes text as it is: see `data`."""

    rows: list[VegaLite]


def data(rows: Rows) -> Any:
    """Rows as the inline data of a layer; `with_rows` puts them into the finished declaration."""
    import altair as alt

    carried = Carried(f"{len(rows)} rows")
    carried.rows = list(rows)
    return alt.Data(values=carried)


def with_rows(declared: Any) -> Any:
    """A declaration with the rows that its layers carried."""
    if isinstance(declared, dict):
        return {key: with_rows(part) for key, part in declared.items()}
    if isinstance(declared, list):
        return [with_rows(part) for part in declared]
    return declared.rows if isinstance(declared, Carried) else declared


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


def on(channel: Any, field: str) -> Any:
    """The same channel (axis, scale, title) over another quantitative field."""
    other = channel.copy()
    other.shorthand = f"{field}:Q"
    return other


def legend_columns(labels: Sequence[str], width_px: int = 600) -> int:
    """In how many columns the entries of a legend fit."""
    longest = max((len(label) for label in labels), default=1)
    return max(1, min(len(labels), int(width_px / (longest * 7.2 + 36))))


def side_by_side(rows: Rows) -> tuple[Rows, VegaLite]:
    """Rows of several groups, and what their marks are given so that they do not hide those of others at one level.

    All groups share their layers: ten of them in layers of their own took a browser three times as long to draw.
    """
    import altair as alt

    groups = list(dict.fromkeys(row.get("group") for row in rows))
    if len(groups) < 2:
        return rows, {}
    step_px = min(_ASIDE_PX, _ASIDE_ROOM_PX / len(groups))
    middle = (len(groups) - 1) / 2
    offsets = {group: round((place - middle) * step_px, 2) for place, group in enumerate(groups)}
    return [{**row, "aside": offsets[row.get("group")]} for row in rows], {"xOffset": alt.ExprRef("datum.aside")}


def error_bars(rows: Rows, y: Any, cap_px: float = 9, aside: VegaLite | None = None, **places: Any) -> list[Any]:
    """A vertical rule from `low` to `high` with caps, for the rows that have them; `places` are the other channels.

    An end that is `cut` at the axis has no cap. `aside` is of `side_by_side`.
    """
    import altair as alt

    style: VegaLite = {"style": "deviation", **(aside or {})}
    bars = [row for row in rows if "low" in row]
    if not bars:
        return []
    rule = alt.Chart(data(bars)).mark_rule(strokeWidth=1.4, **style)
    drawn = [rule.encode(y=on(y, "low"), y2="high:Q", **places)]
    for end in ("low", "high"):
        ends = [row for row in bars if end not in row.get("cut", ())]
        if not ends:
            continue  # an empty layer has no extent, which Vega warns of
        cap = alt.Chart(data(ends)).mark_tick(orient="horizontal", size=cap_px, thickness=1.4, **style)
        drawn.append(cap.encode(y=on(y, end), **places))
    return drawn


def points(rows: Rows) -> Any:
    """Means where lengths would say nothing: points, in the place of bars."""
    import altair as alt

    return alt.Chart(data(rows)).mark_point(style="mean", filled=True, size=70)


def point_tooltip(color: str | None, error: ErrorBar, centre: str = "mean") -> list[Any]:
    """What hovering over a mean tells."""
    import altair as alt

    shown = [alt.Tooltip("level:N", title="level")]
    if color is not None:
        shown.append(alt.Tooltip("group:N", title=factor_label(color)))
    shown += [alt.Tooltip("mean_text:N", title=centre), alt.Tooltip("median_text:N", title="median")]
    if error != "none":
        shown.append(alt.Tooltip("error_text:N", title=f"{centre} ± deviation" if error == "sd" else "interval"))
    return [*shown, alt.Tooltip("n:Q", title="repetitions")]


def offset_px(width_px: int, conditions: Sequence[Condition], share: float) -> float:
    """Pixels to the right of a condition's middle, as a share of its room: repetitions do not hide error bars."""
    levels = len({condition.level for condition in conditions})
    groups = len({condition.group for condition in conditions})
    return round(width_px / max(levels * groups, 1) * share, 1)


def zoom() -> Any:
    """Shift and wheel zooms, shift and drag moves, so that the page still scrolls."""
    import altair as alt

    return alt.selection_interval(
        bind="scales",
        name="zoomed",
        zoom="wheel![event.shiftKey]",
        translate="[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!",
    )
