"""Asking a drive that another process serves: what it counts, as metrics too; to misbehave, lose power, or stop."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ioassay import validation
from ioassay.errors import InputError, ToolError

_ANSWER_S = 15.0
_LOOK_S = 0.02
_LONGEST_BYTES = 64 * 2**20
"""An answer with all histograms has some hundred KiB."""
LONGEST_PATH = 107
"""Of a Unix socket (sockaddr_un, unix(7))."""


def ask(path: Path, request: str, **more: Any) -> dict[str, Any]:
    """The drive's answer to `stats`, `power-cut`, `fault-inject`, `reset-stats`, `stop`, …: docs/virtual-drive.md.

    `path` is the socket that was said as `stats`. InputError where no drive listens there, ToolError where it refuses.
    """
    text = json.dumps({"request": request, **more}) + "\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_ANSWER_S)
            client.connect(str(path))
            client.sendall(text.encode())
            line = b""
            while part := client.recv(65536):
                line += part
                if part.endswith(b"\n") or len(line) > _LONGEST_BYTES:
                    break
            if not line:
                raise ConnectionError("the connection was closed without an answer")
    except OSError as error:
        known = len(str(path).encode()) > LONGEST_PATH
        what = f"is longer than {LONGEST_PATH} bytes" if known else error.strerror or str(error)
        raise InputError(
            f"{path}: no drive answers there: {what}; expected the socket that it said as 'stats'"
        ) from None
    try:
        answer = validation.table(line, str(path))
    except InputError:
        raise InputError(f"{path}: what answers there is no drive of ioassay") from None
    if not answer.get("ok"):
        raise ToolError(f"{path}: the drive refuses '{request}': {answer.get('error', 'without a reason')}")
    return answer


def stop(path: Path) -> None:
    """Ends the drive and waits until it has ended: its backing file has everything then. Errors as of `ask`."""
    ask(path, "stop")
    with suppress(OSError):
        while True:  # it listens
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.connect(str(path))
            time.sleep(_LOOK_S)


# Metrics of a trial: `drive.<direction>.<quantity>`, times in ns

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
    found["drive.faults"] = counted["faults_fired"] if counted["faults"] or counted["faults_fired"] else None
    found["drive.depth"] = counted["depth"]["mean"]
    found |= {f"drive.late.{name}": counted["late_ns"][key] for name, key in _STATISTICS.items()}
    found |= _of_model(counted, page_bytes)
    return {name: float(value) for name, value in found.items() if value is not None}


def metrics_between(
    before: Mapping[str, Any], after: Mapping[str, Any], page_bytes: int | None = None
) -> dict[str, float]:
    """What was counted between two answers to `stats`: bytes, requests and what became of them in flash, no times."""
    found: dict[str, float | None] = {}
    for direction, key in _OPS.items():
        found[f"drive.{direction}.ios"] = after[key]["commands"] - before[key]["commands"]
        if direction != "flush":
            found[f"drive.{direction}.bytes"] = after[key]["bytes"] - before[key]["bytes"]
    flash, earlier = after.get("flash") or {}, before.get("flash") or {}
    if flash:
        written, moved, erased = (
            flash.get(name, 0) - earlier.get(name, 0) for name in ("written_pages", "moved_pages", "erases")
        )
        found["drive.flash.bytes"] = (written + moved) * page_bytes if page_bytes else None
        found["drive.erases"] = erased
        found["drive.write_amplification"] = (written + moved) / written if written else None
    return {name: float(value) for name, value in found.items() if value is not None}


def _of_model(counted: Mapping[str, Any], page_bytes: int | None) -> dict[str, float | None]:
    buffer, flash = counted.get("buffer") or {}, counted.get("flash") or {}
    written, read = buffer.get("written_pages", 0), buffer.get("read_pages", 0)
    programmed = flash.get("written_pages", 0) + flash.get("moved_pages", 0)
    mapping = counted.get("mapping") or {}
    mapped = mapping.get("hits", 0) + mapping.get("misses", 0)
    return {
        "drive.flash.bytes": programmed * page_bytes if flash and page_bytes else None,
        "drive.hit_ratio": buffer["write_hits"] / written if written else None,
        "drive.read_hit_ratio": buffer["read_hits"] / read if read else None,
        "drive.write_amplification": flash.get("write_amplification"),
        "drive.erases": flash.get("erases"),
        "drive.mapping_hit_ratio": mapping["hits"] / mapped if mapped else None,
        "drive.translation_reads": mapping.get("translation_reads"),
        "drive.translation_writes": mapping.get("translation_writes"),
    }
