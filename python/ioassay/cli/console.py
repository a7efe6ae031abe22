"""What is said and where: results to stdout, everything else to stderr, JSON where it was asked for."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ioassay.errors import IoassayError
from ioassay.record import Warning_

_as_json = False


def use_json(wanted: bool) -> bool:
    """Whether this command's result is one JSON object; an error then is one as well."""
    global _as_json
    _as_json = wanted
    return wanted


def line(text: str = "") -> None:
    """One line of the result."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """One line beside the result, to stderr."""
    sys.stderr.write(text + "\n")


def emit(result: Mapping[str, Any]) -> None:
    """The result as one JSON object. NaN and infinities, which JSON has not, become null."""
    line(json.dumps(_plain(result), indent=2, default=str, allow_nan=False))


def problem(error: IoassayError) -> None:
    """An error: its message to stderr, and under --json an object with it to stdout."""
    note(f"ioassay: {error}")
    if _as_json:
        emit({"error": str(error), "kind": type(error).__name__, "exit_code": error.exit_code})


def warnings(found: Iterable[Warning_ | Mapping[str, Any]]) -> None:
    """Warnings with their remedies, to stderr."""
    for warning in found:
        fields = vars(warning) if isinstance(warning, Warning_) else warning
        remedy = f"\n    remedy: {fields['remedy']}" if fields.get("remedy") else ""
        note(f"warning: {fields['text']} [{fields['code']}]{remedy}")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns aligned; the first to the left, the others to the right."""
    cells = [list(columns), *[list(row) for row in rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    for row in cells:
        shown = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line("  ".join(shown).rstrip())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
