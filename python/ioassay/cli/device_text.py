"""What a served drive tells, for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ioassay import units
from ioassay.cli import console

_UNCALIBRATED = {"calibration-uncertain", "floor-unknown"}
"""Warnings that its latencies may not be the model's."""
_OPS = ("reads", "writes", "trims", "flushes")


def ready(told: Mapping[str, Any], *, as_json: bool) -> None:
    """Clients can connect: one line of JSON, or how to reach it."""
    if as_json:
        console.line(json.dumps(told))
    else:
        what = f"{units.format_size(told['size_bytes'])}, model {told['model']}, policy {told['policy']}"
        uncertain = ", calibration uncertain" if _UNCALIBRATED & {item["kind"] for item in told["warnings"]} else ""
        console.line(f"serving {what}{uncertain}")
        for way in told["ways"]:
            floor = f", takes {units.format_ns(way['floor_ns'])} by itself" if way.get("floor_ns") else ""
            console.line(f"  {way['transport']:8}  {way['address']}{floor}")
            if way.get("nqn"):
                console.line(f"            {way['nqn']}")
        console.line(f"  stats     {told['stats']}")
        console.line(f"  memory    at most {units.format_size(told['memory_bytes'])}, with the drive's content")
    for item in told["warnings"]:  # each of its own: there is no report that would have the rest
        console.warnings([{"code": item["kind"], "text": item["text"], "remedy": ""}])
    console.flush()


def ended(counted: Mapping[str, Any]) -> None:
    """The drive has ended."""
    done = [f"{console.count(counted[name]['commands'], name[:-1])}" for name in ("reads", "writes")]
    console.line(f"served {' and '.join(done)} in {units.format_duration(counted['served_s'])}")


def statistics(found: Mapping[str, Any]) -> None:
    """All that was counted."""
    rows = []
    for name in _OPS:
        one = found[name]
        times = one["latency_ns"]
        rows.append(
            [
                name,
                units.format_count(one["commands"]),
                units.format_size(one["bytes"]),
                str(one["errors"]),
                *(latency(times[key]) for key in ("mean", "p50", "p99", "max")),
            ]
        )
    console.table(["", "commands", "bytes", "errors", "mean", "p50", "p99", "max"], rows)
    console.line()
    if (buffer := found.get("buffer")) and buffer["capacity_pages"]:
        console.line(
            f"buffer    {buffer['held_pages']} of {buffer['capacity_pages']} pages held; found in it: "
            f"{_share(buffer['write_hits'], buffer['written_pages'])} of written, "
            f"{_share(buffer['read_hits'], buffer['read_pages'])} of read"
        )
    if flash := found.get("flash"):
        amplification = flash["write_amplification"]
        console.line(
            f"flash     {units.format_count(flash['written_pages'])} pages written, {flash['erases']} blocks erased"
            + (f", write amplification {amplification:.3f}" if amplification else "")
        )
    if mapping := found.get("mapping"):
        read = mapping["hits"] + mapping["misses"]
        console.line(
            f"mapping   {_share(mapping['hits'], read)} of read pages found in the cache; "
            f"{units.format_count(mapping['translation_reads'])} translation pages read, "
            f"{units.format_count(mapping['translation_writes'])} written"
        )
    console.line(f"volatile  {console.count(found['volatile_pages'], 'page')} that would be lost with the power")
    console.line(
        f"late      {latency(found['late_ns']['p50'])} in the middle, {latency(found['late_ns']['p99'])} at 99 %"
    )


def latency(value: float | None) -> str:
    """A time, or a gap where nothing happened."""
    return "-" if value is None else units.format_ns(value)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"
