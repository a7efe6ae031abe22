"""A served drive, watched: a row for each interval, of what happened in it alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ioassay import units
from ioassay.cli import console
from ioassay.errors import InputError, ToolError
from ioassay.packs.virtual_drive.commands.device_text import latency

_COLUMNS = (
    *(("r/s", 6), ("w/s", 6), ("read", 9), ("written", 9), ("r p50", 7), ("w p50", 7)),
    *(("depth", 5), ("buffer", 6), ("late p99", 8)),
)
"""Names, of which iostat has the first two, and widths; a row is less than 80 characters long."""
_HEAD_EVERY = 20


def follow(look: Callable[[], Mapping[str, Any]], interval_s: float, rows: int, *, as_json: bool) -> None:
    """A row for each interval, until Ctrl-C or the drive's end; as JSON all that is counted, one line each.

    `look` gives the drive's statistics; rows need them with buckets.
    """
    try:
        _follow(look, interval_s, rows, as_json=as_json)
    except KeyboardInterrupt:
        if rows:  # without a count that is its end, and no interruption
            raise


def _follow(look: Callable[[], Mapping[str, Any]], interval_s: float, rows: int, *, as_json: bool) -> None:
    before, number = look(), 0
    while not rows or number < rows:
        time.sleep(interval_s)
        try:
            now = look()
        except (InputError, ToolError):  # one that is about to end still listens, and refuses
            if not as_json:
                console.line("the drive has ended")
            return
        if as_json:
            console.line(json.dumps(now))
        else:
            if number % _HEAD_EVERY == 0:
                console.line(_aligned(name for name, _ in _COLUMNS))
            console.line(_aligned(row(before, now)))
        console.flush()
        before, number = now, number + 1


def row(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What happened between two looks; depth and buffer as they are now."""
    if now["counted_s"] < before["counted_s"]:
        before = {}  # counting began anew
    seconds: float = max(now["served_s"] - before["served_s"] if before else now["counted_s"], 1e-9)

    def rate(name: str, key: str) -> float:
        gained: float = now[name][key] - (before[name][key] if before else 0)
        return gained / seconds

    def quantile(of: Callable[[Mapping[str, Any]], Mapping[str, Any]], q: float) -> str:
        return latency(_quantile(of(before)["buckets"] if before else [], of(now)["buckets"], q))

    buffer = now.get("buffer")
    return [
        units.format_count(rate("reads", "commands")),
        units.format_count(rate("writes", "commands")),
        units.format_rate(rate("reads", "bytes")),
        units.format_rate(rate("writes", "bytes")),
        quantile(lambda found: found["reads"]["latency_ns"], 0.5),
        quantile(lambda found: found["writes"]["latency_ns"], 0.5),
        str(now["depth_now"]),
        units.format_count(buffer["held_pages"]) if buffer and buffer["capacity_pages"] else "-",
        quantile(lambda found: found["late_ns"], 0.99),
    ]


def _quantile(before: Iterable[tuple[int, int]], now: Iterable[tuple[int, int]], q: float) -> float | None:
    """Of what came between two states of a distribution; None of nothing."""
    from ioassay import _core

    was = dict(before)
    gained = _core.Histogram()
    for value, times in now:
        if (more := times - was.get(value, 0)) > 0:
            gained.record(value, more)
    return gained.quantile(q) if gained.count else None


def _aligned(cells: Iterable[str]) -> str:
    return "  ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
