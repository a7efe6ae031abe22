"""What stands in the place of a figure that cannot be drawn: the reason, in the figure's own frame."""

from __future__ import annotations

from typing import Any

from ioassay.report.figures import chart_marks, titles
from ioassay.report.figures.spec import FigureSpec


def draw(spec: FigureSpec, reason: str) -> Any:
    """A chart that shows `reason`."""
    import altair as alt

    lines = ["Nothing to draw:", *titles.broken(reason, spec.width - 120, 6.4)]
    text = alt.Chart(chart_marks.data([{"text": lines}])).mark_text(
        style="whisper", align="center", lineHeight=18, dy=-9 * len(lines) + 9
    )
    frame = alt.Chart(chart_marks.data([{}])).mark_rect(style="frame")
    return alt.layer(frame, text.encode(text="text:N")).properties(
        width=spec.width,
        height=min(spec.height, 160),
        title={"text": spec.title or spec.name, "subtitle": f"figure '{spec.name}' of kind {spec.kind}"},
        description=f"{spec.title or spec.name}: nothing to draw: {reason}",
    )
