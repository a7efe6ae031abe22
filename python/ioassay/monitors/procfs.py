"""Files of /proc and /sys that are read again and again: opened once, read whole from their start each time.

Keeping one open saves half of the cost of a reading (benches/monitor_cost.py). Nothing is parsed here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_READ_BYTES = 1 << 16
_HALF_PAGE_BYTES = 2048


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
        text = piece = os.pread(self._descriptor, _READ_BYTES, 0)
        # The kernel gives the longer tables a page at a time (fs/seq_file.c); less than half of one was all of it, for
        # no line of the tables is as long as the other half.
        while len(piece) >= _HALF_PAGE_BYTES:
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


class SensorFile(ProcFile):
    """One value of /sys, which a driver asks its hardware for: whatever goes wrong, it has no value now.

    A sensor may be busy (EAGAIN), asleep (ENODATA, EIO) or gone with its device (ENODEV), and be back later.
    """

    def read(self) -> bytes:
        """The value's text, b"" when there is none at the moment."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDONLY)
            return os.pread(self._descriptor, _READ_BYTES, 0)
        except OSError:
            self.close()
            return b""
