"""Files of traces: what the name of one tells, that it is written whole or not at all, and the cache of parsed traces.

The core reads and writes the cache. Its files may be removed at any time: a trace that is not there is parsed again.
What they are, and why a trace that changed is never mistaken for another: docs/traces.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ioassay import atomic_file
from ioassay.errors import UsageError
from ioassay.units import parse_size

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def format_of(output: str | Path, to: str | None, formats: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """The format and the compression for a file: `to`, or what the name's ending tells. Raises UsageError."""
    name = "" if str(output) == "-" else Path(output).name
    ending = Path(name).suffix.lower()
    compress = _COMPRESSIONS.get(ending)
    if to is not None:
        return to, compress
    plain = name.lower().removesuffix(ending) if compress else name.lower()
    fitting = [
        (len(end), known["name"])
        for known in formats
        for end in (*known["endings"], "." + known["name"])
        if plain.endswith(end)
    ]
    longest = {name for length, name in fitting if length == max(fitting)[0]}
    if len(longest) != 1:
        several = f"could be {' or '.join(sorted(longest))}" if longest else "tells no format"
        known_names = ", ".join(known["name"] for known in formats)
        raise UsageError(f"{output}: the name {several}; say it with --to, one of {known_names}")
    return longest.pop(), compress


def check(path: Path, *, force: bool) -> None:
    """UsageError where something is there that may not be replaced, or there is no folder for it."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file, expected one, or - for standard output")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force replaces it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder, expected one that exists for {path.name}")


@contextmanager
def replaced(path: Path, *, force: bool) -> Iterator[Path]:
    """A path to write to, which becomes `path` when all went well and is removed otherwise.

    Raises UsageError where something is there that may not be replaced, OSError as the system does.
    """
    path = path.resolve()  # a symbolic link stays, and what it names is replaced
    check(path, force=force)
    unfinished = atomic_file.unfinished_of(path)
    try:
        yield unfinished
        atomic_file.sync(unfinished)
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    atomic_file.sync(path.parent)


SWITCH = "IOASSAY_TRACE_CACHE"
"""The environment variable: `off`, or the size that the cache may have."""
LIMIT = "4GiB"


def cache_folder() -> Path | None:
    """Where the cache is (XDG Base Directory Specification: a relative path there is to be ignored); None: nowhere."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (named if named.is_absolute() else Path("~/.cache").expanduser()) / "ioassay" / "traces"
    except RuntimeError:  # there is no home
        return None


def cache_limit_bytes() -> int:
    """How many bytes it may have; 0 where it is off. Raises UsageError for a switch that is neither."""
    value = os.environ.get(SWITCH, "") or LIMIT
    if value == "off":
        return 0
    try:
        return parse_size(value)
    except ValueError as error:
        raise UsageError(f"{SWITCH} is '{value}', expected off or a size such as 4GiB: {error}") from None


def cache_description() -> dict[str, Any] | None:
    """What the core takes; None where there is no cache."""
    limit, place = cache_limit_bytes(), cache_folder()
    return {"folder": str(place), "limit_bytes": limit} if limit and place else None


def cache_entries() -> list[dict[str, Any]]:
    """The parsed traces that are kept, the last used one first: name, bytes, and time of the last use (seconds)."""
    kept = []
    for path in _files(".columns"):
        with suppress(FileNotFoundError):  # another run has removed it
            status = path.stat()
            kept.append({"name": path.name, "bytes": status.st_size, "used_s": status.st_mtime})
    return sorted(kept, key=lambda entry: -entry["used_s"])


def clear_cache() -> int:
    """Remove all that the cache has; returns the bytes that became free. Raises OSError."""
    freed = 0
    for path in _files(".columns", ".same", ".unfinished"):
        with suppress(FileNotFoundError):
            freed += path.stat().st_size
            path.unlink()
    return freed


def _files(*endings: str) -> Iterator[Path]:
    """Only files that are the cache's own, whatever else may be in the folder."""
    place = cache_folder()
    if place is None or not place.is_dir():
        return iter(())
    return (path for path in place.iterdir() if path.suffix in endings and path.is_file())
