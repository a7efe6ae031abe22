"""From a chart's declaration to SVG and PNG files, through vl-convert: no browser, no network.

A chart takes about a tenth of a second, in which Python's lock is held. The PNG is made from the SVG, so that the two
cannot differ.
"""

from __future__ import annotations

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
    """The chart in the light scheme. What only moves under a pointer is left out: it would cost clipping masks."""
    import vl_convert

    still = {key: part for key, part in spec.items() if key != "params"}
    text: str = vl_convert.vegalite_to_svg(still, config=theme.config(), allowed_base_urls=[])
    return text


def png(drawn: str) -> bytes:
    """The picture of an SVG."""
    import vl_convert

    pixels: bytes = vl_convert.svg_to_png(drawn, scale=PNG_SCALE)
    return pixels


def write(spec: VegaLite, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `<name>.png` and `<name>.svg`; their paths."""
    drawn = svg(spec)
    png_path, svg_path = folder / f"{name}.png", folder / f"{name}.svg"
    svg_path.write_text(drawn, encoding="utf-8")
    png_path.write_bytes(png(drawn))
    return png_path, svg_path


def write_all(charts: Sequence[tuple[str, VegaLite]], folder: Path) -> list[tuple[Path, Path]]:
    """`write` each chart under its name."""
    return [write(spec, folder, name) for name, spec in charts]


def submit(
    charts: Sequence[tuple[str, VegaLite]], folder: Path, executors: Sequence[Executor]
) -> Callable[[], list[tuple[Path, Path]]]:
    """`write_all` by the first executor, and by the others where there is enough to draw; what is returned waits."""
    sharing = executors[: 1 + len(charts) // _WORTH_STARTING]
    parts = [
        executor.submit(write_all, charts[place :: len(sharing)], folder) for place, executor in enumerate(sharing)
    ]

    def wait() -> list[tuple[Path, Path]]:
        written = {path.stem: (path, vector) for part in parts for path, vector in part.result()}
        return [written[name] for name, _ in charts]

    return wait if parts else lambda: write_all(charts, folder)


def warm_up() -> None:
    """Start vl-convert's interpreter, which takes as long as writing several figures."""
    from ioassay.report import page

    page.bundle()
    svg({"data": {"values": []}, "mark": "point"})
