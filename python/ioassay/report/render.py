"""From a chart's declaration to SVG and PNG files, through vl-convert: no browser, no network.

A chart takes about a tenth of a second, in which Python's lock is held. The PNG is made from the SVG, so that the two
cannot differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.report import page, theme

if TYPE_CHECKING:
    from ioassay.report.figures import Drawn
    from ioassay.report.figures.spec import VegaLite

Waiting = Callable[[], Sequence[tuple[Path, Path]]]
"""Waits for figures: the paths of the PNG and the SVG of each."""
ZOOMED = "view_zoomed"
"""The name of the view that moves under a pointer."""
PNG_SCALE = 2.0
"""Twice the nominal resolution: sharp in print and on dense screens."""
_WORTH_STARTING = 16
"""So many charts take several times as long as starting vl-convert in one more process."""


def svg(spec: VegaLite) -> str:
    """The chart in the light scheme."""
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(_still(spec), config=theme.config(), allowed_base_urls=[])
    return text


def _still(spec: VegaLite) -> VegaLite:
    """Without what only moves under a pointer. What is clipped for it ends on the edge of its axis: masks cost most."""
    still = {key: part for key, part in spec.items() if key != "params"}
    if "params" in spec and "layer" in spec:
        still["layer"] = [_unclipped(**one) if one.get("name") == ZOOMED else one for one in spec["layer"]]
    return still


def _unclipped(mark: VegaLite, encoding: VegaLite, **others: Any) -> VegaLite:
    ending = {**encoding["x"], "scale": {**encoding["x"]["scale"], "clamp": True}}
    return {**others, "mark": {**mark, "clip": False}, "encoding": {**encoding, "x": ending}}


def png(drawn: str) -> bytes:
    """The picture of an SVG."""
    import vl_convert

    pixels: bytes = vl_convert.svg_to_png(drawn, scale=PNG_SCALE)
    return pixels


def write_svg(spec: VegaLite, vector: Path) -> Path:
    """Write the chart as SVG; the path."""
    vector.write_text(svg(spec), encoding="utf-8")
    return vector


def write_png(vector: Path) -> Path:
    """Write the picture of an SVG beside it, which needs no interpreter; the path."""
    path = vector.with_suffix(".png")
    path.write_bytes(png(vector.read_text(encoding="utf-8")))
    return path


def submit(drawn: Sequence[Drawn], folder: Path, executors: Sequence[Executor] = ()) -> Waiting:
    """Write `<name>.svg` and `<name>.png` of each figure by the first executor, by others as well where there are many.

    What is returned waits for the paths of both, and meanwhile writes the PNGs that no executor has begun.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sharing = itertools.cycle(executors[: 1 + len(drawn) // _WORTH_STARTING] or [ThreadPoolExecutor(1)])
    turns = [(executor, folder / f"{one.name}.svg", one.spec) for executor, one in zip(sharing, drawn, strict=False)]
    vectors = [executor.submit(write_svg, spec, path) for executor, path, spec in turns]
    pictures = [executor.submit(write_png, path) for executor, path, _ in turns]

    def wait() -> list[tuple[Path, Path]]:
        written = [vector.result() for vector in vectors]
        last_first = zip(reversed(pictures), reversed(written), strict=True)
        shown = [write_png(path) if picture.cancel() else picture.result() for picture, path in last_first]
        return list(zip(reversed(shown), written, strict=True))

    return wait


def warm_up() -> None:
    """Start vl-convert's interpreter, which takes as long as writing several figures."""
    page.bundle()
    svg({"data": {"values": []}, "mark": "point"})
