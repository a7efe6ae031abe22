"""What the engine said, as the lab has it: a claim for each pass, in the order in which they were done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ioassay import units
from ioassay.claims import filesuite
from ioassay.drivers import filetests
from ioassay.record import FAILED, OK, Claim, Warning_
from ioassay.roles import Outcome, Parsed


def parsed(outcome: Outcome | None) -> Parsed:
    """The result of one trial; failed with the engine's reason, or the first pass's that has no result."""
    if outcome is None:
        return Parsed(FAILED, "filesuite was not started")
    if outcome.timed_out:
        took = units.format_duration(outcome.duration_s)
        return Parsed(FAILED, f"filesuite did not end within {took} and was ended; raise run.timeout")
    if outcome.signal is not None:
        return Parsed(FAILED, f"filesuite was ended by signal {outcome.signal}")
    try:
        found = json.loads(outcome.stdout.read_text(encoding="utf-8", errors="replace"))
        return _read(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Parsed(FAILED, f"filesuite's output cannot be read ({type(error).__name__}: {error}); see raw/stdout")


def _read(found: Mapping[str, Any]) -> Parsed:
    if "error" in found:
        return Parsed(FAILED, str(found["error"]))
    passes = found["passes"]
    claims = filesuite.from_json(found)
    reason = _failed(found)
    return Parsed(
        FAILED if reason else OK,
        reason,
        metrics=_metrics(found, claims),
        parts=filetests.parts(claims),
        claims=claims,
        warnings=_warnings(passes),
    )


def _failed(found: Mapping[str, Any]) -> str:
    bad = [one for one in found["passes"] if one["status"] != "ok"]
    if bad:
        cell = f"{units.format_size(bad[0]['asked_file_bytes'])} in records of "
        return f"{bad[0]['name']} of {cell}{units.format_size(bad[0]['record_bytes'])}: {bad[0]['reason']}"
    for one in found["checked"]:
        if one["differing_records"] or one["reason"]:
            return (
                one["reason"] or f"{one['differing_records']} records of the file hold something else than was written"
            )
    return "" if found["passes"] else "filesuite did no pass at all"


def _metrics(found: Mapping[str, Any], claims: Sequence[Claim]) -> dict[str, float]:
    """Of one worker as `filetests` has it; of several what all moved from the first start to the last end."""
    if not found["groups"]:
        return filetests.metrics(claims)
    values: dict[str, float] = {}
    for name in dict.fromkeys(group["name"] for group in found["groups"]):
        own = [group for group in found["groups"] if group["name"] == name and group.get("span_ns")]
        seconds = sum(group["span_ns"] for group in own) / 1e9
        if seconds:
            values[f"{name}.bw"] = sum(group["bytes"] for group in own) / seconds
            values[f"{name}.iops"] = sum(group["operations"] for group in own) / seconds
    return values


def _warnings(passes: Sequence[Mapping[str, Any]]) -> list[Warning_]:
    """Reads that came from memory although O_DIRECT was not asked for: true, and easily mistaken for the disk."""
    cached = [
        one for one in passes if one["kind"] == "read" and not one["direct"] and (one["resident_share"] or 0) > 0.5
    ]
    if not cached:
        return []
    names = ", ".join(dict.fromkeys(one["name"] for one in cached))
    text = f"{names}: more than half of the file was in the page cache when the clock started"
    return [Warning_("read-from-cache", text, 'set cache = "drop", or direct = true, to measure the disk')]
