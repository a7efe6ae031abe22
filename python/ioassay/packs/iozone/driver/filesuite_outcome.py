"""Was this a measurement? What the engine printed as metrics, parts, claims and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay import units, validation
from ioassay.errors import InputError, one_line
from ioassay.packs.iozone.claims import filesuite_json
from ioassay.packs.iozone.claims.filesuite_json import Document, Pass
from ioassay.packs.iozone.driver import file_tests
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


def _read(document: Document) -> Parsed:
    claims = filesuite_json.claims(document)
    reason = _failed(document)
    return Parsed(
        FAILED if reason else OK,
        reason,
        metrics=_metrics(document, claims),
        parts=file_tests.parts(claims),
        claims=claims,
        warnings=_warnings(document.passes),
    )


def _failed(document: Document) -> str:
    bad = next((each for each in document.passes if each.status != "ok"), None)
    if bad is not None:
        cell = f"{units.format_size(bad.asked_file_bytes)} in records of {units.format_size(bad.record_bytes)}"
        return f"{bad.name} of {cell}: {bad.reason}"
    for report in document.checked:
        if report.differing_records or report.reason:
            differing = f"{report.differing_records} records of the file hold something else than was written"
            return report.reason or differing
    return "" if document.passes else "filesuite did no pass at all"


def _metrics(document: Document, claims: Sequence[Claim]) -> dict[str, float]:
    """Of one worker as `file_tests` has it; of several what all moved from the first start to the last end."""
    if not document.groups:
        return file_tests.metrics(claims)
    values: dict[str, float] = {}
    for name in dict.fromkeys(group.name for group in document.groups):
        own = [group for group in document.groups if group.name == name and group.span_ns]
        seconds = sum(group.span_ns or 0 for group in own) / 1e9
        if seconds:
            values[f"{name}.bw"] = sum(group.bytes or 0 for group in own) / seconds
            values[f"{name}.iops"] = sum(group.operations or 0 for group in own) / seconds
    return values


def _warnings(passes: Sequence[Pass]) -> list[Warning_]:
    """Reads that came from memory although O_DIRECT was not asked for: true, and easily mistaken for the disk."""
    cached = [each for each in passes if each.kind == "read" and not each.direct and (each.resident_share or 0) > 0.5]
    if not cached:
        return []
    names = ", ".join(dict.fromkeys(each.name for each in cached))
    text = f"{names}: more than half of the file was in the page cache when the clock started"
    return [Warning_("read-from-cache", text, 'set cache = "drop", or direct = true, to measure the disk')]
