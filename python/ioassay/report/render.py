"""From a chart's declaration to SVG and PNG files, through vl-convert: no browser, no network.

A chart takes about a tenth of a second, in which Python's lock is held. The PNG is made from the SVG, so that the two
cannot differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from ioassay.report import theme

if TYPE_CHECKING:
    from ioassay.report.figures.spec import VegaLite

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
    """Without what only moves under a pointer.

    Lines that are clipped for it end on the edge of their axis, along which they have a fraction of a pixel left: to
    clip them by masks takes longer than the rest of the picture.
    """
    if "params" not in spec:
        return spec
    layers = [_unclipped(one) if one["mark"].get("clip") else one for one in spec["layer"]]
    return {**{key: part for key, part in spec.items() if key != "params"}, "layer": layers}


def _unclipped(layer: VegaLite) -> VegaLite:
    x = layer["encoding"]["x"]
    ending = {**x, "scale": {**x["scale"], "clamp": True}}
    return {**layer, "mark": {**layer["mark"], "clip": False}, "encoding": {**layer["encoding"], "x": ending}}


def png(drawn: str) -> bytes:
    """The picture of an SVG."""
    import vl_convert

    pixels: bytes = vl_convert.svg_to_png(drawn, scale=PNG_SCALE)
    return pixels


def write(spec: VegaLite, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `<name>.png` and `<name>.svg`; their paths."""
    vector = folder / f"{name}.svg"
    write_svg(spec, vector)
    return write_png(vector), vector


def write_svg(spec: VegaLite, path: Path) -> None:
    """The first half of `write`."""
    path.write_text(svg(spec), encoding="utf-8")


def write_png(vector: Path) -> Path:
    """The second half: the picture beside an SVG; it needs no interpreter."""
    path = vector.with_suffix(".png")
    path.write_bytes(png(vector.read_text(encoding="utf-8")))
    return path


def submit(
    charts: Sequence[tuple[str, VegaLite]], folder: Path, executors: Sequence[Executor]
) -> Callable[[], list[tuple[Path, Path]]]:
    """`write` each chart under its name by the first executor, and by the others where there is enough to draw.

    What is returned waits, and meanwhile writes the PNGs that no executor has begun.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not executors:
        return lambda: [write(spec, folder, name) for name, spec in charts]
    sharing = itertools.cycle(executors[: 1 + len(charts) // _WORTH_STARTING])
    turns = [(executor, folder / f"{name}.svg", spec) for executor, (name, spec) in zip(sharing, charts, strict=False)]
    drawn = [executor.submit(write_svg, spec, path) for executor, path, spec in turns]
    pictures = [(path, executor.submit(write_png, path)) for executor, path, _ in turns]

    def wait() -> list[tuple[Path, Path]]:
        for one in drawn:
            one.result()
        for path, picture in reversed(pictures):
            if picture.cancel():
                write_png(path)
            else:
                picture.result()
        return [(path.with_suffix(".png"), path) for path, _ in pictures]

    return wait


def warm_up() -> None:
    """Start vl-convert's interpreter, which takes as long as writing several figures."""
    from ioassay.report import page

    page.bundle()
    svg({"data": {"values": []}, "mark": "point"})
