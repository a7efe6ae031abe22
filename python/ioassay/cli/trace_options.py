"""Options of commands that read traces, so that they read and mean the same in `trace`, `simulate` and `replay`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ioassay import _core
from ioassay.cli import console, syntax
from ioassay.cli.completion_values import listed, words
from ioassay.cli.syntax import row
from ioassay.errors import UsageError
from ioassay.simulation import traces


def trace_formats(text: str, given: syntax.Given) -> dict[str, str]:
    return {each["name"]: each["about"] for each in _core.trace_formats()}


CSV = {
    "columns": row(str, None, "A,B,…", "Column names of a CSV trace; - skips a column."),
    "pattern": row(str, None, "REGEX", "What lines look like: groups named as columns, (?P<time_s>…)."),
    "skip_unmatched": row(bool, False, "--skip-unmatched", "With --pattern: skip lines that it does not match."),
    "skip_header": row(bool, False, "--skip-header", "With --columns: the first line is a header."),
    "time_unit": row(str, None, "UNIT", "Unit of times: s, ms, us or ns.", words("s", "ms", "us", "ns")),
    "offset_unit": row(str, None, "SIZE", "Bytes per unit of offsets (or ids of objects), such as 512."),
    "length_unit": row(str, None, "SIZE", "Bytes per unit of lengths."),
    "kinds": row(
        *(str, None, "CODE", "Kinds: words, read-is-1, write-is-1, scsi or rwbs; all are reads, or writes."),
        words("words", "read-is-1", "write-is-1", "scsi", "rwbs", "reads", "writes"),
    ),
}
READING = {
    "out_of_order": row(
        *(str, None, "HOW", "Decreasing times: refuse, keep, or sort:PLACES."), words("refuse", "keep", "sort:")
    ),
    "zero_length": row(str, None, "HOW", "Empty requests: refuse or skip.", words("refuse", "skip")),
    "bad_lines": row(int, 0, "N", "Skip up to N unreadable lines of each file.", min=0),
    "member": row(str, None, "NAME", "Read these files of an archive or folder; * and ? match any text and character."),
    **CSV,
    "event": row(
        *(str, None, "NAME", "Events of blktrace, blkparse and fiolat: queued, issued or completed."),
        words("queued", "issued", "completed"),
    ),
}
PAGE = {"page": row(str, "4KiB", "SIZE", "Page size in bytes.")}
PREPARING = {
    "devices": row(
        *(str, None, "HOW", "ignore, only:NUMBER or side-by-side:SIZE."), words("ignore", "only:", "side-by-side:")
    ),
    "keep": row(
        *(str, None, "KINDS", "Kinds to keep: reads, writes, trims, flushes, separated by commas."),
        listed(words("reads", "writes", "trims", "flushes")),
    ),
    "drop_empty": row(bool, False, "--drop-empty", "Drop empty requests."),
    "shrink": row(str, None, "SIZE", "Shrink the address range evenly to this size."),
    "shrink_from": row(str, None, "SIZE", "End of the trace's addresses; without it the trace is read twice."),
    **PAGE,
    "offsets": row(str, None, "HOW", "Offsets within a page: keep, down or refuse.", words("keep", "down", "refuse")),
    "sizes": row(
        *(str, None, "HOW", "Lengths: keep, round-out, cut, split or split:SIZE."),
        words("keep", "round-out", "cut", "split", "split:"),
    ),
    "limit": row(str, None, "SIZE", "Last address at which a request may end."),
    "beyond": row(str, None, "HOW", "Requests beyond it: refuse, wrap or drop.", words("refuse", "wrap", "drop")),
    "skip": row(int, 0, "N", "Skip the first N of the remaining requests.", min=0),
    "first": row(int, None, "N", "Keep the first N of the remaining requests.", min=1),
    "rebase": row(bool, False, "--rebase", "Shift times to begin at 0."),
    "time_scale": row(float, 1.0, "X", "Multiply times; 0.5 is twice as fast."),
}
FORMAT = {"format": row(str, None, "NAME", "Format of FILE; detected by default.", trace_formats)}
NO_CACHE = {
    "no_cache": row(bool, False, "--no-cache", "Parse the trace, and keep nothing of it in the cache of parsed traces.")
}


def reading(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of reading, those that were given."""
    how: str | int | None = given["out_of_order"]
    if isinstance(how, str) and how.startswith("sort:"):
        places = how.removeprefix("sort:")
        if not places.isdecimal():
            raise UsageError(f"--out-of-order is '{how}', expected refuse, keep or sort:PLACES")
        how = int(places)
    read = {"out_of_order": how, **{name: given[name] for name in ("zero_length", "event", "member")}}
    read["bad_lines"] = given["bad_lines"] or None
    csv = traces.csv(**{name: given[name] for name in CSV})
    return {**{name: value for name, value in read.items() if value is not None}, **csv}


def preparing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of preparation, those that were given."""
    return traces.preparation(**{name: given[name] for name in PREPARING})


def cache_note(done: Mapping[str, Any]) -> None:
    """What was left out of an archive or folder, and what went wrong with the cache."""
    for note in filter(None, (done["cache"]["left_out"], done["cache"]["note"])):
        console.note(f"note: {note}")
