"""The cache of parsed traces: where it is, how large it may become, what is in it. The core reads and writes it.

Its files may be removed at any time: a trace that is not there is parsed again. What they are, and why a trace that
changed is never mistaken for another: docs/traces.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ioassay.errors import UsageError
from ioassay.units import parse_size

SWITCH = "IOASSAY_TRACE_CACHE"
"""The environment variable: `off`, or the size that the cache may have."""
LIMIT = "4GiB"


def folder() -> Path | None:
    """Where the cache is (XDG Base Directory Specification: a relative path there is to be ignored); None: nowhere."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (named if named.is_absolute() else Path("~/.cache").expanduser()) / "ioassay" / "traces"
    except RuntimeError:  # there is no home
        return None


def limit_bytes() -> int:
    """How many bytes it may have; 0 where it is off. Raises UsageError for a switch that is neither."""
    value = os.environ.get(SWITCH, "") or LIMIT
    if value == "off":
        return 0
    try:
        return parse_size(value)
    except ValueError as error:
        raise UsageError(f"{SWITCH} is '{value}', wanted off or a size such as 4GiB: {error}") from None


def description() -> dict[str, Any] | None:
    """What the core takes; None where there is no cache."""
    limit, place = limit_bytes(), folder()
    return {"folder": str(place), "limit_bytes": limit} if limit and place else None


def entries() -> list[dict[str, Any]]:
    """The parsed traces that are kept, the last used one first: name, bytes, and time of the last use (seconds)."""
    kept = []
    for path in _files(".columns"):
        with suppress(FileNotFoundError):  # another run has removed it
            status = path.stat()
            kept.append({"name": path.name, "bytes": status.st_size, "used_s": status.st_mtime})
    return sorted(kept, key=lambda entry: -entry["used_s"])


def clear() -> int:
    """Remove all that the cache has; returns the bytes that became free. Raises OSError."""
    freed = 0
    for path in _files(".columns", ".same", ".unfinished"):
        with suppress(FileNotFoundError):
            freed += path.stat().st_size
            path.unlink()
    return freed


def _files(*endings: str) -> Iterator[Path]:
    """Only files that are the cache's own, whatever else may be in the folder."""
    place = folder()
    if place is None or not place.is_dir():
        return iter(())
    return (path for path in place.iterdir() if path.suffix in endings and path.is_file())
