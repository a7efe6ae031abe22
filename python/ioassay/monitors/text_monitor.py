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

    def __init__(
        self,
        kind: TextKind,
        root: Path = Path("/"),
        devices: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        sensors = kind.sensors(root)
        self.name, self.remedy, self.often_absent = kind.name, kind.remedy, not kind.paths
        self.sensors = tuple(sensors)
        """The field of each file that is a sensor."""
        self.devices = frozenset(device.encode() for device in devices)
        files = [ProcFile(root / path) for path in kind.paths]
        self.files: tuple[ProcFile, ...] = (*files, *map(SensorFile, sensors.values()))
        self._kind, self._clock = kind, clock
        self._names: dict[bytes, tuple[str, ...]] = {}
        self._asked_s = float("-inf")
        self._known: Texts = ()

    def texts(self) -> Texts:
        """What the files say now, or said less than a sensor's pause ago; OSError when one may not be read."""
        if self._kind.least_pause_s:
            if self._clock() - self._asked_s < self._kind.least_pause_s:
                return self._known
            self._asked_s = self._clock()
        self._known = tuple([file.read() for file in self.files])
        return self._known

    def parse(self, texts: Texts) -> Mapping[str, float]:
        return self._kind.reading(self, texts)

    def read(self) -> Mapping[str, float]:
        return self.parse(self.texts())

    def names_of(self, instance: bytes) -> tuple[str, ...]:
        """The names of the columns of one core, device or interface; made once."""
        if instance not in self._names:
            prefix = instance.decode(errors="replace")
            self._names[instance] = tuple(f"{prefix}.{field}" for field in self._kind.FIELDS)
        return self._names[instance]


def sensor_values(monitor: TextMonitor, texts: Texts) -> Mapping[str, float]:
    """A field for each sensor; one that has no value now is not in the reading."""
    values = zip(monitor.sensors, texts, strict=False)
    return {name: int(text) for name, text in values if re.fullmatch(rb"-?\d+\s*", text)}


@dataclass(frozen=True)
class TextKind:
    """A row of the table: a monitor's fields, the files that are read, and how a reading follows from their texts.

    `sensors` are files by the names of their fields, of those that there are below a root at the start. They repeat
    their value if they are asked again within `least_pause_s`. `remedy` says what makes a machine have the files.
    """

    name: str
    FIELDS: Mapping[str, Field]
    paths: tuple[str, ...] = ()
    reading: Callable[[TextMonitor, Texts], Mapping[str, float]] = sensor_values
    sensors: Callable[[Path], Mapping[str, Path]] = lambda root: {}
    least_pause_s: float = 0.0
    remedy: str = ""

    def make(self, root: Path, devices: Sequence[str]) -> TextMonitor:
        return TextMonitor(self, root, devices)
