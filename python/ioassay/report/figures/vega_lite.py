"""Declarations of Vega-Lite in the words of its grammar: channels, marks, layers and panels are plain dictionaries.

Altair has these words as classes that check themselves. Its import alone takes as long as reading and judging a small
run, so tests hold the declarations against the schema, and none of it is needed where figures are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ioassay.report.figures.spec import VegaLite
from ioassay.report.render import ZOOMED

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}


class VegaView(dict[str, Any]):
    """A single view; its methods return another one and leave this one as it is."""

    def mark(self, kind: str, **look: Any) -> VegaView:
        """With this mark."""
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
