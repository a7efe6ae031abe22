"""What a served drive counted, as metrics of a trial: `drive.<direction>.<quantity>`, times in ns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OPS = {"read": "reads", "write": "writes", "trim": "trims", "flush": "flushes"}
_STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999", "max": "max"}


def metrics(counted: Mapping[str, Any], page_bytes: int | None = None) -> dict[str, float]:
    """The numbers of one answer to `stats`; what did not happen is left out.

    `page_bytes` is what the drive said when it was ready; without it nothing is said of bytes of flash.
    """
    found: dict[str, float | None] = {}
    for direction, key in _OPS.items():
        one = counted[key]
        found[f"drive.{direction}.ios"] = one["commands"]
        if direction != "flush":
            found[f"drive.{direction}.bytes"] = one["bytes"]
        for name, statistic in _STATISTICS.items():
            found[f"drive.{direction}.lat.{name}"] = one["latency_ns"][statistic] if one["commands"] else None
    found["drive.errors"] = sum(counted[key]["errors"] for key in _OPS.values())
    found["drive.depth"] = counted["depth"]["mean"]
    found |= {f"drive.late.{name}": counted["late_ns"][key] for name, key in _STATISTICS.items()}
    found |= _of_model(counted, page_bytes)
    return {name: float(value) for name, value in found.items() if value is not None}


def _of_model(counted: Mapping[str, Any], page_bytes: int | None) -> dict[str, float | None]:
    buffer, flash = counted.get("buffer") or {}, counted.get("flash") or {}
    written, read = buffer.get("written_pages", 0), buffer.get("read_pages", 0)
    programmed = flash.get("written_pages", 0) + flash.get("moved_pages", 0)
    return {
        "drive.flash.bytes": programmed * page_bytes if flash and page_bytes else None,
        "drive.hit_ratio": buffer["write_hits"] / written if written else None,
        "drive.read_hit_ratio": buffer["read_hits"] / read if read else None,
        "drive.write_amplification": flash.get("write_amplification"),
        "drive.erases": flash.get("erases"),
    }
