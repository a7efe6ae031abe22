"""How a CSV trace is read: from what people write to what the core takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.errors import UsageError
from ioassay.units import parse_size


def csv(
    columns: str | Sequence[str] | None = None,
    skip_header: bool = False,
    time_unit: str | None = None,
    offset_unit: str | int | None = None,
    length_unit: str | int | None = None,
    kinds: str | None = None,
) -> dict[str, Any]:
    """Options for `read`, where a CSV trace's header does not say everything.

    `columns`: their names in order, `-` for one of no interest; `skip_header`: the first line is one nevertheless.
    `time_unit`: s, ms, us, ns. `offset_unit` and `length_unit`: bytes of one, such as 512. `kinds`: words, read-is-1,
    write-is-1 or scsi. Raises UsageError.
    """
    names = columns.split(",") if isinstance(columns, str) else columns
    given = {
        "columns": [name.strip() for name in names] if names else None,
        "skip_header": skip_header or None,
        "time_unit": time_unit,
        "offset_unit_bytes": _size("offset-unit", offset_unit),
        "length_unit_bytes": _size("length-unit", length_unit),
        "kinds": kinds,
    }
    return {name: value for name, value in given.items() if value is not None}


def _size(name: str, text: str | int | None) -> int | None:
    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
