"""Files that are whole or absent after a crash: temporary file, fsync, rename, fsync of the folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

MODE = 0o644
"""Of every file written here, whatever the umask: another user's `doctor` must see what was left."""


def write(path: Path, text: str) -> None:
    """Make `text` the content of `path`: once this returns, no kill and no power cut loses it. Raises OSError."""
    write_pieces(path, (text,))


def write_pieces(path: Path, pieces: Iterable[str]) -> None:
    """`write` for a text that comes piece by piece and need not fit into memory."""
    unfinished = unfinished_of(path)
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), MODE)
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def unfinished_of(path: Path) -> Path:
    """The name that a file has until it is whole."""
    return path.with_name(f".{path.name}.tmp")


def sync(path: Path) -> None:
    """Make a file's content, or a folder's list of names, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
