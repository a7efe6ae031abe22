"""A file of /proc that is read again and again: opened once, read whole from its start each time.

Keeping it open saves half of the cost of a reading (benches/monitor_cost.py). It parses nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_READ_BYTES = 1 << 16


class ProcFile:
    """`path` below an injected root. A file that is not there reads as b"" until it appears."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def read(self) -> bytes:
        """The whole text as it is now. OSError when the file is there but the kernel will not have it read."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                return b""
        # The kernel gives the longer tables a page at a time (fs/seq_file.c), so one read is not enough.
        text = piece = os.pread(self._descriptor, _READ_BYTES, 0)
        while piece:
            piece = os.pread(self._descriptor, _READ_BYTES, len(text))
            text += piece
        return text

    def close(self) -> None:
        """Give the descriptor back; the next `read` opens the file again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            self.close()
