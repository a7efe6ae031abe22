"""What `ioassay trace` says to people: texts, tables, and the picture of a miss ratio curve (SVG, PNG or a page)."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ioassay.cli import console
from ioassay.errors import UsageError
from ioassay.units import format_duration, format_ns, format_size

_CHANGES = {
    "dropped_device": "dropped, of another device",
    "dropped_kind": "dropped, of another kind",
    "dropped_empty": "dropped, of no bytes",
    "dropped_beyond": "dropped, out of range",
    "skipped": "skipped",
    "folded": "moved beside another device",
    "shrunk": "moved by shrinking the range",
    "rounded": "begin at their page now",
    "lengthened": "longer than they were",
    "cut": "shorter than they were",
    "split": "split into pages",
    "wrapped": "moved into the range",
}


def describe(seen: Mapping[str, Any]) -> None:
    time, space = seen["time"], seen["space"]
    console.line(f"{seen['path']}: {seen['format']}, {seen['requests']:,} requests")
    if not seen["requests"]:
        return
    for kind, amount in seen["kinds"].items():
        if amount["requests"]:
            share = amount["requests"] / seen["requests"]
            size = f"  {format_size(amount['bytes'])}" if amount["bytes"] else ""
            _row(f"{kind}s" if kind != "flush" else "flushes", f"{amount['requests']:,} ({share:.1%}){size}")
    per_s = time["requests_per_s"]
    rate = "no rate" if per_s is None else f"{per_s:,.4g} requests/s"
    _row("span", f"{format_duration(time['span_s'])}, {rate}, {time['distinct']:,} time stamps")
    _row("gaps", _spread(time["gap_ns"], format_ns))
    _row("bursts", f"up to {console.count(time['largest_burst'], 'request')} on one time stamp")
    _row("sizes", _spread(seen["size_bytes"], format_size))
    _row("reach", f"{format_size(space['end_bytes'])}, {console.count(space['devices'], 'device')}")
    _row("aligned", f"offsets to {_align(space['offset_align_bytes'])}, sizes to {_align(space['length_align_bytes'])}")
    about = "" if space["pages_exact"] else "about "
    touched = format_size(space["distinct_pages"] * space["page_bytes"])
    _row("touched", f"{about}{space['distinct_pages']:,} pages of {format_size(space['page_bytes'])}, {touched}")
    if space["hottest_1_percent_share"] is not None:
        hot = f"{space['hottest_1_percent_share']:.1%} of accesses to the hottest 1 % of them"
        _row("hottest", f"{hot}, {space['hottest_20_percent_share']:.1%} to 20 %")
    if space["sequential_share"] is not None:
        _row("in order", f"{space['sequential_share']:.1%} begin where the one before ended")


BAR_COLUMNS = 40
"""Width of a miss ratio of 1 in the drawing of a curve."""


def miss_ratio_curve(trace: str, of: str, curve: Mapping[str, Any]) -> None:
    """A table of sizes with their miss ratios, drawn as bars."""
    kinds = "reads and writes" if of == "both" else of
    pages = f"{round(curve['pages']):,} pages of {format_size(curve['page_bytes'])}"
    console.line(f"{trace}: {kinds}, {curve['references']:,} references to {pages}")
    sampled = any(error is not None for error in curve["error"])
    exact = curve["exact_miss_ratio"]
    if sampled:
        share = f"{curve['rate']:.3g} of the pages, {curve['sampled']:,} references"
        largest = max(error or 0.0 for error in curve["error"])
        _row("sample", f"{share}; each ratio is within its error with 95 % confidence, {largest:.4f} at most")
    if sampled and exact:
        differences = [abs(mine - other) for mine, other in zip(curve["miss_ratio"], exact, strict=True)]
        mean, worst = sum(differences) / len(differences), max(differences)
        _row("compared", f"with the exact curve, the sample is off by {mean:.4f} on average and {worst:.4f} at most")
    rows = []
    for at, (pages, ratio) in enumerate(zip(curve["size_pages"], curve["miss_ratio"], strict=True)):
        cells = [format_size(pages * curve["page_bytes"]), f"{pages:,}", f"{ratio:.4f}"]
        cells += [f"{curve['error'][at]:.4f}"] if sampled else []
        cells += [f"{exact[at]:.4f}"] if exact else []
        rows.append([*cells, "█" * round(BAR_COLUMNS * ratio)])
    columns = ["buffer", "pages", "miss ratio", *(["error"] if sampled else []), *(["exact"] if exact else []), ""]
    console.table(columns, rows)


def cache_entries(kept: Mapping[str, Any]) -> None:
    total_bytes = sum(entry["bytes"] for entry in kept["entries"])
    limit = f"of at most {format_size(kept['limit_bytes'])}" if kept["limit_bytes"] else "and off"
    console.line(
        f"{kept['folder']}: {console.count(len(kept['entries']), 'trace')}, {format_size(total_bytes)} {limit}"
    )
    if kept["entries"]:
        rows = [
            [entry["name"], format_size(entry["bytes"]), f"{datetime.fromtimestamp(entry['used_s']):%Y-%m-%d %H:%M}"]
            for entry in kept["entries"]
        ]
        console.table(["name", "size", "last use"], rows)


def written(output: Path, done: Mapping[str, Any]) -> None:
    """What was written and what was changed; beside the trace where that goes to standard output."""
    say = console.note if str(output) == "-" else console.line
    if say is console.note:
        console.use_stdout()
    changes = done["changes"]
    kept = f"{changes['given']:,} requests, {format_size(changes['bytes_given'])}"
    say(f"{output}: {done['to']}, {kept}")
    same = (changes["seen"], changes["bytes_seen"]) == (changes["given"], changes["bytes_given"])
    if done["from"] is not None and not same:
        say(f"  {changes['seen']:,} requests read, {format_size(changes['bytes_seen'])}")
    for name, text in _CHANGES.items():
        if changes[name]:
            say(f"  {changes[name]:,} {text}")


def _row(name: str, text: str) -> None:
    console.line(f"  {name:<9} {text}")


def _spread(of: Mapping[str, Any], show: Any) -> str:
    if of["mean"] is None:
        return "none"
    parts = [("mean", "mean"), ("p50", "median"), ("p99", "99 %"), ("max", "largest")]
    return ", ".join(f"{word} {show(of[key])}" for key, word in parts)


def _align(align_bytes: int) -> str:
    return format_size(align_bytes) if align_bytes else "anything (all are 0)"


_ENDINGS = (".svg", ".png", ".html")
_SIZE_LABEL = (
    "datum.value < 1048576 ? format(datum.value / 1024, '~r') + ' KiB' : "
    "datum.value < 1073741824 ? format(datum.value / 1048576, '~r') + ' MiB' : "
    "datum.value < 1099511627776 ? format(datum.value / 1073741824, '~r') + ' GiB' : "
    "format(datum.value / 1099511627776, '~r') + ' TiB'"
)
"""Vega's expression for the labels of an axis of sizes."""


def check_picture(path: Path) -> None:
    """UsageError for a name that tells no kind of picture."""
    if path.suffix.lower() not in _ENDINGS:
        raise UsageError(f"{path}: the name tells no kind of picture, expected one that ends in {', '.join(_ENDINGS)}")


def draw(path: Path, spec: Mapping[str, Any], ending: str) -> None:
    """Write a chart to `path` as the kind of picture that `ending` names: .svg, .png or .html."""
    from ioassay.report import page

    drawn = page.svg(dict(spec))
    if ending == ".png":
        path.write_bytes(page.png(drawn))
        return
    title = html.escape(" ".join(spec["title"]["text"]))
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
    text = f"{head}<body>\n{drawn}\n</body></html>\n" if ending == ".html" else drawn
    path.write_text(text, encoding="utf-8")


def chart(trace: str, of: str, curve: Mapping[str, Any]) -> dict[str, Any]:
    """The curve that `traces.mrc` returned, for Vega-Lite: its ratios as a line, in the band of their errors, with the
    exact ones where there are any."""
    from ioassay.report.figures.chart import VegaView, channel

    page_bytes, exact = curve["page_bytes"], curve["exact_miss_ratio"] or ()
    is_sampled = any(error is not None for error in curve["error"])
    rows: list[dict[str, Any]] = []
    for pages, ratio, error in zip(curve["size_pages"], curve["miss_ratio"], curve["error"], strict=True):
        band = {} if error is None else {"low": max(0.0, ratio - error), "high": min(1.0, ratio + error)}
        rows.append({"bytes": pages * page_bytes, "ratio": ratio, "curve": "sample" if is_sampled else "exact", **band})
    for pages, ratio in zip(curve["size_pages"], exact, strict=False):
        rows.append({"bytes": pages * page_bytes, "ratio": ratio, "curve": "exact"})
    axis = {"labelExpr": _SIZE_LABEL, "tickCount": 8, "labelOverlap": True}
    scale = {"type": "log", "base": 2, "nice": False}
    x = channel("bytes:Q", scale=scale, axis=axis, title="size of an LRU buffer")
    y = channel("ratio:Q", scale={"domain": [0, 1]}, title="miss ratio")
    layers = [VegaView().mark("line", strokeWidth=1.8).encode(x=x, y=y)]
    if any("low" in row for row in rows):
        band_layer = VegaView(transform=[{"filter": "isValid(datum.low)"}]).mark("area", opacity=0.22, aria=False)
        layers.insert(0, band_layer.encode(x=x, y={**y, "field": "low"}, y2="high:Q"))
    title = f"Miss ratio of {'reads and writes' if of == 'both' else of} in LRU buffers"
    distinct = f"{round(curve['pages']):,} pages of {format_size(page_bytes)}"
    subtitle = [f"{trace}: {curve['references']:,} references to {distinct}"]
    if is_sampled:
        share = f"{curve['rate']:.3g}"
        subtitle.append(f"sample of {share} of the pages; the band has the exact ratio with 95 % confidence")
    names = list(dict.fromkeys(row["curve"] for row in rows))
    legend = {"symbolType": "stroke", "symbolOpacity": 1} if exact else None
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": [title], "subtitle": subtitle},
        "description": f"{title}: {'; '.join(subtitle)}",
        "width": 640,
        "height": 340,
        "data": {"values": rows},
        "encoding": {"color": channel("curve:N", title=None, scale={"domain": names}, legend=legend)},
        "layer": layers,
    }
