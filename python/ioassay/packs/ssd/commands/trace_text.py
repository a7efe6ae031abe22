"""What `ioassay trace` says to people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ioassay.cli import console
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
    """A trace, one thing a line."""
    time, space = seen["time"], seen["space"]
    console.line(f"{seen['path']}: {seen['format']}, {seen['requests']:,} requests")
    if not seen["requests"]:
        return
    for kind, amount in seen["kinds"].items():
        if amount["requests"]:
            share = amount["requests"] / seen["requests"]
            size = f"  {format_size(amount['bytes'])}" if amount["bytes"] else ""
            _row(f"{kind}s" if kind != "flush" else "flushes", f"{amount['requests']:,} ({share:.1%}){size}")
    rate = time["requests_per_s"]
    _row("span", f"{format_duration(time['span_s'])}, {_rate(rate)}, {time['distinct']:,} time stamps")
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
    """The parsed traces that are kept."""
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


def cache_cleared(freed_bytes: int) -> None:
    """What is gone."""
    console.line(f"{format_size(freed_bytes)} of parsed traces removed")


def written(output: Path, done: Mapping[str, Any]) -> None:
    """What was written and what was changed; beside the trace where that goes to standard output."""
    say = console.note if str(output) == "-" else console.line
    if say is console.note:
        console.use_stdout()
    changes = done["changes"]
    kept = f"{changes['given']:,} requests, {format_size(changes['bytes_given'])}"
    say(f"{output}: {done['to']}, {kept}")
    if done["from"] is not None and (changes["seen"], changes["bytes_seen"]) != (
        changes["given"],
        changes["bytes_given"],
    ):
        say(f"  {changes['seen']:,} requests read, {format_size(changes['bytes_seen'])}")
    for name, text in _CHANGES.items():
        if changes[name]:
            say(f"  {changes[name]:,} {text}")


def _row(name: str, text: str) -> None:
    console.line(f"  {name:<9} {text}")


def _rate(per_second: float | None) -> str:
    return "no rate" if per_second is None else f"{per_second:,.4g} requests/s"


def _spread(of: Mapping[str, Any], show: Any) -> str:
    if of["mean"] is None:
        return "none"
    parts = [("mean", "mean"), ("p50", "median"), ("p99", "99 %"), ("max", "largest")]
    return ", ".join(f"{word} {show(of[key])}" for key, word in parts)


def _align(align_bytes: int) -> str:
    return format_size(align_bytes) if align_bytes else "anything (all are 0)"
