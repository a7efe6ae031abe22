"""The monitor that watches nothing: it tests the sampler and measures what sampling itself costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import COUNTER, Field

FIELDS: dict[str, Field] = {"readings": Field(COUNTER, "readings", "how often this monitor was read")}


class NullMonitor:
    """Counts its own readings."""

    name = "null"
    remedy = ""

    def __init__(self) -> None:
        self._readings = 0

    def read(self) -> Mapping[str, float]:
        """The number of this reading, from 1."""
        self._readings += 1
        return {"readings": self._readings}


def make(root: Path, devices: Sequence[str]) -> NullMonitor:
    """For `ioassay.monitors.monitor`."""
    return NullMonitor()
