"""A monitor of files: taking their texts is parted from parsing them, which can wait until the load is over.

Half of what a reading costs is the parsing (benches/monitor_cost.py), so the sampler keeps the texts of a trial
and parses them when it has ended. A text is as raw as can be: what is parsed of it later is what was there then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from ioassay.monitors.procfs import ProcFile

Texts = tuple[bytes, ...]
"""The text of each file, in the order of the files."""


class TextMonitor(ABC):
    """A monitor (`roles.Monitor`) whose readings follow from the texts of `files`."""

    name: str
    remedy = ""
    often_absent = False
    """Whether it is no surprise that a machine has nothing of it."""

    def __init__(self, files: Sequence[ProcFile]) -> None:
        self.files = tuple(files)

    def texts(self) -> Texts:
        """What the files say now; OSError when one is there and may not be read."""
        return tuple([file.read() for file in self.files])

    @abstractmethod
    def parse(self, texts: Texts) -> Mapping[str, float]:
        """The reading that these texts hold."""

    def read(self) -> Mapping[str, float]:
        """One reading, now; what is gone is simply not in it."""
        return self.parse(self.texts())
