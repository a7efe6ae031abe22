"""A miss ratio curve as a picture: SVG, PNG, or a page that needs nothing else. What it shows is computed elsewhere."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ioassay.errors import UsageError
from ioassay.report import page
from ioassay.report.figures.chart import VegaView, channel
from ioassay.report.figures.spec import VegaLite
from ioassay.units import format_size

ENDINGS = (".svg", ".png", ".html")
WIDTH, HEIGHT = 640, 340
_SIZE_LABEL = (
    "datum.value < 1048576 ? format(datum.value / 1024, '~r') + ' KiB' : "
    "datum.value < 1073741824 ? format(datum.value / 1048576, '~r') + ' MiB' : "
    "datum.value < 1099511627776 ? format(datum.value / 1073741824, '~r') + ' GiB' : "
    "format(datum.value / 1099511627776, '~r') + ' TiB'"
)
"""Vega's expression for the labels of an axis of sizes."""


@dataclass(frozen=True)
class Curve:
    """Miss ratios of buffers of many sizes; the fields are those of what `ioassay.traces.mrc` returns."""

    page_bytes: int
    references: int
    pages: float
    """Different pages."""
    rate: float
    """Share of the pages that were looked at."""
    size_pages: Sequence[int]
    miss_ratio: Sequence[float]
    error: Sequence[float | None]
    """Of each ratio, with 95 % confidence; None where all pages were looked at."""
    exact_miss_ratio: Sequence[float] | None

    @classmethod
    def of(cls, found: Mapping[str, object]) -> Curve:
        """The curve that `ioassay.traces.mrc` returned."""
        return cls(**{field.name: found[field.name] for field in fields(cls)})  # type: ignore[arg-type]


def check(path: Path) -> None:
    """UsageError for a name that tells no kind of picture."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path}: the name tells no kind of picture, expected one that ends in {', '.join(ENDINGS)}")


def write(path: Path, spec: VegaLite, ending: str) -> None:
    """Write the chart to `path` as the kind of picture that `ending` names, one of `ENDINGS`."""
    drawn = page.svg(spec)
    if ending == ".png":
        path.write_bytes(page.png(drawn))
        return
    title = html.escape(" ".join(spec["title"]["text"]))
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
    text = f"{head}<body>\n{drawn}\n</body></html>\n" if ending == ".html" else drawn
    path.write_text(text, encoding="utf-8")


def chart(trace: str, of: str, curve: Curve) -> VegaLite:
    """The declaration: the ratios as a line, in the band of their errors, with the exact ones where there are any."""
    rows = _rows(curve)
    axis = {"labelExpr": _SIZE_LABEL, "tickCount": 8, "labelOverlap": True}
    scale = {"type": "log", "base": 2, "nice": False}
    x = channel("bytes:Q", scale=scale, axis=axis, title="size of an LRU buffer")
    y = channel("ratio:Q", scale={"domain": [0, 1]}, title="miss ratio")
    legend = {"symbolType": "stroke", "symbolOpacity": 1} if curve.exact_miss_ratio else None
    names = list(dict.fromkeys(row["curve"] for row in rows))
    color = channel("curve:N", title=None, scale={"domain": names}, legend=legend)
    layers = [VegaView().mark("line", strokeWidth=1.8).encode(x=x, y=y)]
    if any("low" in row for row in rows):
        band = VegaView(transform=[{"filter": "isValid(datum.low)"}]).mark("area", opacity=0.22, aria=False)
        layers.insert(0, band.encode(x=x, y={**y, "field": "low"}, y2="high:Q"))
    text = f"Miss ratio of {'reads and writes' if of == 'both' else of} in LRU buffers"
    pages = f"{round(curve.pages):,} pages of {format_size(curve.page_bytes)}"
    subtitle = [f"{trace}: {curve.references:,} references to {pages}"]
    if _sampled(curve):
        subtitle.append(f"sample of {curve.rate:.3g} of the pages; the band has the exact ratio with 95 % confidence")
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": [text], "subtitle": subtitle},
        "description": f"{text}: {'; '.join(subtitle)}",
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": rows},
        "encoding": {"color": color},
        "layer": layers,
    }


def _rows(curve: Curve) -> list[VegaLite]:
    name, rows = "sample" if _sampled(curve) else "exact", []
    for pages, ratio, error in zip(curve.size_pages, curve.miss_ratio, curve.error, strict=True):
        row = {"bytes": pages * curve.page_bytes, "ratio": ratio, "curve": name}
        if error is not None:
            row |= {"low": max(0.0, ratio - error), "high": min(1.0, ratio + error)}
        rows.append(row)
    for pages, ratio in zip(curve.size_pages, curve.exact_miss_ratio or (), strict=False):
        rows.append({"bytes": pages * curve.page_bytes, "ratio": ratio, "curve": "exact"})
    return rows


def _sampled(curve: Curve) -> bool:
    return any(error is not None for error in curve.error)
