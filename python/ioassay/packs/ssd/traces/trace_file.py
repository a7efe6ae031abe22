"""The file that a trace is written to: what its name tells, and that it is whole or as it was before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ioassay import atomic_file
from ioassay.errors import UsageError

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
        raise UsageError(f"{path} is no regular file, wanted one, or - for standard output")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force replaces it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder, wanted one that exists for {path.name}")


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
