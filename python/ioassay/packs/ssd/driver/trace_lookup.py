"""Where a trace that a study names is: at its path, or by its file name in the folders where traces usually lie.

Reads no trace. A study that names a trace by its bare file name runs wherever somebody keeps that file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ioassay.packs.ssd import traces

FOLDERS = "IOASSAY_TRACES"
"""Environment variable: folders in which traces are looked for first, with ':' between them."""
_COMPRESSED = ("", ".zst", ".gz")


class NotFound(Exception):
    """None of the wanted files is here; the message names them and the folders that were searched."""


def find(names: Sequence[str]) -> Path | str:
    """The first of the traces that is here: a path, or the name of a trace that is shipped. NotFound otherwise."""
    for name in names:
        if Path(name).is_file():
            return Path(name)
        if name in traces.shipped():
            return name
        if Path(name).name == name:
            for folder in folders():
                for ending in _COMPRESSED:
                    if (path := folder / f"{name}{ending}").is_file():
                        return path
    raise NotFound(f"no file {' or '.join(names)} here{_searched(names)}")


def folders() -> Iterator[Path]:
    """Where bare names are looked for, in this order."""
    yield from (Path(folder) for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder)
    yield from (Path("traces"), Path("data"))
    yield from sorted(Path("..").glob("*/data"))


def _searched(names: Sequence[str]) -> str:
    if all(Path(name).name != name for name in names):
        return ""
    return f", nor in the folders of ${FOLDERS}, in ./traces, ./data or ../*/data"
