"""What monitors are made of: fields, files of /proc and /sys that are opened once, and monitors of texts.

Keeping a file open saves half of the cost of a reading, and half of what is left is the parsing
(benches/monitor_cost.py). So the sampler keeps the texts of a trial and parses them when it has ended. A text is as raw
as can be: what is parsed of it later is what was there then.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
    """One value of /sys, which a driver asks its hardware for: whatever goes wrong, it has no value now (b"").

    A sensor may be busy (EAGAIN), asleep (ENODATA, EIO) or gone with its device (ENODEV), and be back later.
    """

    def read(self) -> bytes:
        try:
            return super().read()
        except OSError:
            self.close()
            return b""


class TextMonitor:
    """A monitor whose readings follow from the texts of `files`."""

    often_absent = False
    """Whether it is no surprise that a machine has nothing of it."""

    def __init__(self, kind: TextKind | SensorKind, files: Sequence[ProcFile], devices: Sequence[str] = ()) -> None:
        self.name, self.remedy, self.files = kind.name, kind.remedy, tuple(files)
        self.devices = frozenset(device.encode() for device in devices)
        self._kind = kind
        self._names: dict[bytes, tuple[str, ...]] = {}

    def texts(self) -> Texts:
        """What the files say now; OSError when one is there and may not be read."""
        return tuple([file.read() for file in self.files])

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """The reading that these texts hold."""
        assert isinstance(self._kind, TextKind)
        return self._kind.reading(self, texts)

    def read(self) -> Mapping[str, float]:
        """One reading, now."""
        return self.parse(self.texts())

    def names_of(self, instance: bytes) -> tuple[str, ...]:
        """The names of the columns of one core, device or interface; made once."""
        if instance not in self._names:
            prefix = instance.decode(errors="replace")
            self._names[instance] = tuple(f"{prefix}.{field}" for field in self._kind.FIELDS)
        return self._names[instance]


@dataclass(frozen=True)
class TextKind:
    """A row of the table: the files of a monitor, its fields, and how a reading follows from the texts."""

    name: str
    paths: tuple[str, ...]
    FIELDS: Mapping[str, Field]
    reading: Callable[[TextMonitor, Texts], Mapping[str, float]]
    remedy: str = ""
    """What makes a machine have what it reads."""

    def make(self, root: Path, devices: Sequence[str]) -> TextMonitor:
        """For `ioassay.monitors.monitor`."""
        return TextMonitor(self, [ProcFile(root / path) for path in self.paths], devices)


class SensorMonitor(TextMonitor):
    """A field for each sensor that there is at the start; one that has no value now is not in a reading."""

    often_absent = True

    def __init__(self, kind: SensorKind, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        sensors = kind.sensors(root)
        super().__init__(kind, [SensorFile(path) for path in sensors.values()])
        self._fields, self._least_pause_s, self._clock = tuple(sensors), kind.least_pause_s, clock
        self._asked_s = float("-inf")
        self._known: Texts = ()

    def texts(self) -> Texts:
        """What the sensors say, or said less than the least pause ago."""
        if self.files and self._clock() - self._asked_s >= self._least_pause_s:
            self._asked_s = self._clock()
            self._known = super().texts()
        return self._known

    def parse(self, texts: Texts) -> Mapping[str, float]:
        values = zip(self._fields, texts, strict=False)
        return {name: int(text) for name, text in values if re.fullmatch(rb"-?\d+\s*", text)}


@dataclass(frozen=True)
class SensorKind:
    """A row of the table: the fields of a monitor, and the files of its sensors below a root, by the fields' names."""

    name: str
    FIELDS: Mapping[str, Field]
    sensors: Callable[[Path], Mapping[str, Path]]
    least_pause_s: float = 0.0
    """Sensors repeat their value if they are asked again within it."""
    remedy: str = ""

    def make(self, root: Path, devices: Sequence[str]) -> SensorMonitor:
        """For `ioassay.monitors.monitor`."""
        return SensorMonitor(self, root)
