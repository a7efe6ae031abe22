"""What monitors are made of: fields, files of /proc and /sys that are opened once, and monitors of texts.

Keeping a file open saves half of the cost of a reading, and half of what is left is the parsing
(benches/monitor_cost.py). So the sampler keeps the texts of a trial and parses them when it has ended. A text is as raw
as can be: what is parsed of it later is what was there then.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

COUNTER = "counter"
GAUGE = "gauge"
_READ_BYTES = 1 << 16
_HALF_PAGE_BYTES = 2048

Texts = tuple[bytes, ...]
"""The text of each file, in the order of the files."""


@dataclass(frozen=True)
class Field:
    """`kind` COUNTER: only grows, so the difference of two readings counts; GAUGE: a level at the time of reading."""

    kind: str
    unit: str
    meaning: str


class ProcFile:
    """`path` below an injected root, read whole from its start each time. One that is not there reads as b""."""

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


class ListedMonitor:
    """A monitor (`roles.Monitor`) that is an entry of the list by its class."""

    name: ClassVar[str]
    FIELDS: ClassVar[Mapping[str, Field]]
    remedy = ""
    """What makes a machine have what it reads."""
    often_absent = False
    """Whether it is no surprise that a machine has nothing of it."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    @classmethod
    def make(cls, root: Path, devices: Sequence[str]) -> Self:
        """For `ioassay.monitors.monitor`."""
        return cls(root)


class TextMonitor(ListedMonitor, ABC):
    """A monitor whose readings follow from the texts of `files`: by default `paths` below the root."""

    paths: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Of a line by position: its fields in their order, by default all."""

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self.files: tuple[ProcFile, ...] = tuple(ProcFile(root / path) for path in self.paths)
        self._names: dict[bytes, tuple[str, ...]] = {}

    def texts(self) -> Texts:
        """What the files say now; OSError when one is there and may not be read."""
        return tuple([file.read() for file in self.files])

    @abstractmethod
    def parse(self, texts: Texts) -> Mapping[str, float]:
        """The reading that these texts hold."""

    def read(self) -> Mapping[str, float]:
        """One reading, now; what is gone is simply not in it."""
        return self.parse(self.texts())

    def names_of(self, instance: bytes) -> tuple[str, ...]:
        """The names of the columns of one core, device or interface; made once."""
        if instance not in self._names:
            prefix = instance.decode(errors="replace")
            self._names[instance] = tuple(f"{prefix}.{field}" for field in self.columns or self.FIELDS)
        return self._names[instance]
