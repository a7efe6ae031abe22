"""What a running command reads and prints: its output goes to files, and a terminal wants to see it as it comes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_PAUSE_S = 0.1
_PIECE_BYTES = 1 << 16


def piped_in() -> int | None:
    """What is piped into us goes to the command; it has no terminal, since it runs in a group of its own."""
    return None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.fileno()


@contextmanager
def followed(streams: Mapping[Path, BinaryIO]) -> Iterator[None]:
    """While this lasts, what is written to each file is copied to its stream; at the end, all that is left of it."""
    ended = threading.Event()
    copying = threading.Thread(target=_copy, args=(streams, ended), daemon=True)
    copying.start()
    try:
        yield
    finally:
        ended.set()
        copying.join()


def _copy(streams: Mapping[Path, BinaryIO], ended: threading.Event) -> None:
    done = dict.fromkeys(streams, 0)
    last = False
    while not last:
        last = ended.wait(_PAUSE_S)
        for path, stream in streams.items():
            done[path] = _copy_from(path, done[path], stream)


def _copy_from(path: Path, start: int, stream: BinaryIO) -> int:
    try:
        with path.open("rb") as file:
            file.seek(start)
            while piece := file.read(_PIECE_BYTES):
                stream.write(piece)
                start += len(piece)
            stream.flush()
    except OSError:  # not there yet, or nobody reads our output any more
        pass
    return start
