"""How fast each core is clocked, from cpufreq, and how often heat slowed it, from its throttle counters (x86).

A host without them, as most virtual machines, has no fields here. /proc/cpuinfo is left alone: without cpufreq its MHz
is the rate of the time stamp counter, whatever the core does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import COUNTER, GAUGE, Field
from ioassay.monitors.procfs import SensorFile
from ioassay.monitors.text_monitor import TextMonitor, Texts

FIELDS: dict[str, Field] = {
    "frequency_khz": Field(GAUGE, "kHz", "clock of the core, as the driver last knew it"),
    "throttles": Field(COUNTER, "events", "how often the core was slowed because it was too hot"),
}
_FILES = {"frequency_khz": "cpufreq/scaling_cur_freq", "throttles": "thermal_throttle/core_throttle_count"}


class FrequencyMonitor(TextMonitor):
    """Fields `cpu<N>.<field>`; cores that share one clock (a cpufreq policy) have it under the first of them."""

    name = "frequency"
    often_absent = True

    def __init__(self, root: Path = Path("/")) -> None:
        found = dict(_found(root / "sys/devices/system/cpu"))
        super().__init__([SensorFile(path) for path in found.values()])
        self._names = tuple(found)

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading; a core that is offline is not in it."""
        values = zip(self._names, texts, strict=True)
        return {name: int(text) for name, text in values if text.strip().isdigit()}


def _found(folder: Path) -> list[tuple[str, Path]]:
    """Name of the field and the file it is read from; of a clock that several cores share one file."""
    cores = [path for path in folder.glob("cpu[0-9]*") if re.fullmatch(r"cpu\d+", path.name)]
    files: dict[Path, tuple[str, Path]] = {}
    for core in sorted(cores, key=lambda path: int(path.name[3:])):
        for field, place in _FILES.items():
            if (path := core / place).exists():
                files.setdefault(path.resolve(), (f"{core.name}.{field}", path))
    return list(files.values())


def make(root: Path, devices: Sequence[str]) -> FrequencyMonitor:
    """For `ioassay.monitors.monitor`."""
    return FrequencyMonitor(root)
