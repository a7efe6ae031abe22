"""What a served drive tells, for people."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ioassay import units
from ioassay.cli import console
from ioassay.errors import InputError

_OPS = ("reads", "writes", "trims", "flushes")
_HEAD = ("read/s", "write/s", "read", "written", "read p50", "write p50", "depth", "in buffer", "late p99")
_HEAD_EVERY = 20


def ready(told: Mapping[str, Any], *, as_json: bool) -> None:
    """Clients can connect: one line of JSON, or how to reach it."""
    if as_json:
        console.line(json.dumps(told))
    else:
        what = f"{units.format_size(told['size_bytes'])}, model {told['model']}, policy {told['policy']}"
        console.line(f"serving {what}")
        for way in told["ways"]:
            floor = f", takes {units.format_ns(way['floor_ns'])} by itself" if way.get("floor_ns") else ""
            console.line(f"  {way['transport']:8}  {way['address']}{floor}")
            if way.get("nqn"):
                console.line(f"            {way['nqn']}")
        console.line(f"  stats     {told['stats']}")
    console.warnings({"code": item["kind"], "text": item["text"], "remedy": ""} for item in told["warnings"])
    sys.stdout.flush()


def ended(counted: Mapping[str, Any]) -> None:
    """The drive has ended."""
    done = [f"{console.count(counted[name]['commands'], name[:-1])}" for name in ("reads", "writes")]
    console.line(f"served {' and '.join(done)} in {units.format_duration(counted['served_s'])}")


def statistics(found: Mapping[str, Any]) -> None:
    """All that was counted."""
    rows = []
    for name in _OPS:
        one = found[name]
        latency = one["latency_ns"]
        rows.append(
            [
                name,
                units.format_count(one["commands"]),
                units.format_size(one["bytes"]),
                str(one["errors"]),
                *(_ns(latency[key]) for key in ("mean", "p50", "p99", "max")),
            ]
        )
    console.table(["", "commands", "bytes", "errors", "mean", "p50", "p99", "max"], rows)
    console.line()
    if buffer := found.get("buffer"):
        console.line(
            f"buffer    {buffer['held_pages']} of {buffer['capacity_pages']} pages held; "
            f"{_share(buffer['write_hits'], buffer['written_pages'])} of written and "
            f"{_share(buffer['read_hits'], buffer['read_pages'])} of read pages were in it"
        )
    if flash := found.get("flash"):
        amplification = flash["write_amplification"]
        console.line(
            f"flash     {units.format_count(flash['written_pages'])} pages written, {flash['erases']} blocks erased"
            + (f", write amplification {amplification:.3f}" if amplification else "")
        )
    console.line(f"volatile  {console.count(found['volatile_pages'], 'page')} that a power cut would touch")
    console.line(f"late      {_ns(found['late_ns']['p50'])} in the middle, {_ns(found['late_ns']['p99'])} at 99 %")


def follow(look: Callable[[], Mapping[str, Any]], interval_s: float, rows: int, *, as_json: bool) -> None:
    """A row for each interval, until Ctrl-C or the drive's end; as JSON all that is counted, one line each."""
    before, number = look(), 0
    while not rows or number < rows:
        time.sleep(interval_s)
        try:
            now = look()
        except InputError:
            if not as_json:
                console.line("the drive has ended")
            return
        if as_json:
            console.line(json.dumps(now))
        else:
            if number % _HEAD_EVERY == 0:
                console.line("  ".join(f"{name:>9}" for name in _HEAD))
            console.line("  ".join(f"{cell:>9}" for cell in _row(before, now)))
        sys.stdout.flush()
        before, number = now, number + 1


def _row(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What happened between two looks; percentiles and depth are of all the time since counting began."""
    seconds: float = max(now["served_s"] - before["served_s"], 1e-9)

    def rate(name: str, key: str) -> float:
        gained: float = now[name][key] - before[name][key]
        return max(gained, 0.0) / seconds

    buffer = now.get("buffer")
    return [
        units.format_count(rate("reads", "commands")),
        units.format_count(rate("writes", "commands")),
        units.format_rate(rate("reads", "bytes")),
        units.format_rate(rate("writes", "bytes")),
        _ns(now["reads"]["latency_ns"]["p50"]),
        _ns(now["writes"]["latency_ns"]["p50"]),
        str(now["depth_now"]),
        str(buffer["held_pages"]) if buffer else "-",
        _ns(now["late_ns"]["p99"]),
    ]


def _ns(value: float | None) -> str:
    return "-" if value is None else units.format_ns(value)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"
