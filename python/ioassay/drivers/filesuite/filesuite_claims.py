"""What the engine said, as the lab has it: a claim for each pass, in the order in which they were done."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay import units, validation
from ioassay.drivers import file_tests
from ioassay.errors import InputError, one_line
from ioassay.formats import filesuite_json
from ioassay.formats.filesuite_json import Document, Pass
from ioassay.records.record import FAILED, OK, Claim, Warning_
from ioassay.roles import Outcome, Parsed

_SOURCE, _REMEDY = "filesuite's output", "see raw/stdout"


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
        text = outcome.stdout.read_bytes()
        if "error" in (table := validation.table(text, _SOURCE, _REMEDY)):
            return Parsed(FAILED, one_line(str(table["error"])))
        return _read(validation.read(Document, text, _SOURCE, _REMEDY))
    except (OSError, InputError) as error:
        return Parsed(FAILED, str(error))


def _read(found: Document) -> Parsed:
    passes = found["passes"]
    claims = filesuite_json.claims(found)
    reason = _failed(found)
    return Parsed(
        FAILED if reason else OK,
        reason,
        metrics=_metrics(found, claims),
        parts=file_tests.parts(claims),
        claims=claims,
        warnings=_warnings(passes),
    )


def _failed(found: Document) -> str:
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


def _metrics(found: Document, claims: Sequence[Claim]) -> dict[str, float]:
    """Of one worker as `filetests` has it; of several what all moved from the first start to the last end."""
    if not found["groups"]:
        return file_tests.metrics(claims)
    values: dict[str, float] = {}
    for name in dict.fromkeys(group["name"] for group in found["groups"]):
        own = [group for group in found["groups"] if group["name"] == name and group.get("span_ns")]
        seconds = sum(group.get("span_ns") or 0 for group in own) / 1e9
        if seconds:
            values[f"{name}.bw"] = sum(group.get("bytes") or 0 for group in own) / seconds
            values[f"{name}.iops"] = sum(group.get("operations") or 0 for group in own) / seconds
    return values


def _warnings(passes: Sequence[Pass]) -> list[Warning_]:
    """Reads that came from memory although O_DIRECT was not asked for: true, and easily mistaken for the disk."""
    cached = [
        one for one in passes if one["kind"] == "read" and not one["direct"] and (one["resident_share"] or 0) > 0.5
    ]
    if not cached:
        return []
    names = ", ".join(dict.fromkeys(one["name"] for one in cached))
    text = f"{names}: more than half of the file was in the page cache when the clock started"
    return [Warning_("read-from-cache", text, 'set cache = "drop", or direct = true, to measure the disk')]
