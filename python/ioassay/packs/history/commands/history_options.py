"""What the commands about the history share: how a place is named, and how runs are chosen."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from ioassay import units
from ioassay.cli import completion_values, console, syntax
from ioassay.errors import UsageError
from ioassay.packs.history.record_columns import KEYS

_LEAST_LAST = 24
_NARROW = 80
PLACE_WORDS = "PLACE is a folder or the address of an object store; by default $IOASSAY_HISTORY, or one of yours."


def _columns(text: str, given: syntax.Given) -> dict[str, str]:
    return completion_values.assigned(dict.fromkeys(KEYS, ()), text, given)


Where = Annotated[
    list[str] | None,
    syntax.option("KEY=VALUE", f"Runs with this {', '.join(KEYS[:-1])} or {KEYS[-1]}.", _columns),
]

Since = Annotated[str | None, syntax.option("TIME", "Runs that began since a date (2026-01-31), or in 30d.")]


def pairs(where: Sequence[str] | None) -> dict[str, str]:
    """`--where` as columns and their texts; UsageError for a word without `=`."""
    found = {}
    for word in where or ():
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--where {word}: expected KEY=VALUE, such as host=bb60fc84")
        found[key] = value
    return found


def moment(since: str | None) -> datetime | None:
    """The time that `--since` says, of a date without a zone that of this machine."""
    if since is None:
        return None
    try:
        return datetime.fromisoformat(since).astimezone()
    except ValueError:
        try:
            return datetime.now(UTC) - timedelta(seconds=units.parse_duration_s(since))
        except ValueError:
            raise UsageError(
                f"--since {since}: expected a date such as 2026-01-31, or a duration such as 30d"
            ) from None


def fitted(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns aligned; on a terminal the last is cut where the line ends, but not below _LEAST_LAST characters."""
    aligned = console.aligned(columns, rows)
    if not sys.stdout.isatty():
        return aligned
    width = max(os.get_terminal_size(sys.stdout.fileno()).columns or _NARROW, 1)
    fixed = max(map(len, console.aligned(columns[:-1], [row[:-1] for row in rows]))) + 2
    widest = max(width, fixed + _LEAST_LAST)
    return [line if len(line) <= widest else f"{line[: widest - 1]}…" for line in aligned]
