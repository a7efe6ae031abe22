"""Monitors of sensors in /sys, each a file of its own: clocks of cores and temperatures. A host without has no fields.

Sources: Documentation/hwmon/sysfs-interface.rst, Documentation/driver-api/thermal/sysfs-api.rst.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from ioassay.monitors.text_monitor import COUNTER, GAUGE, Field, SensorFile, TextMonitor, Texts


class SensorMonitor(TextMonitor):
    """A field for each sensor that there is at the start; one that has no value now is not in a reading."""

    often_absent = True
    least_pause_s = 0.0
    """Sensors repeat their value if they are asked again within it."""

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(root)
        sensors = self.sensors(root)
        self.files = tuple(SensorFile(path) for path in sensors.values())
        self._fields = tuple(sensors)
        self._clock = clock
        self._asked_s = float("-inf")
        self._known: Texts = ()

    @abstractmethod
    def sensors(self, root: Path) -> Mapping[str, Path]:
        """Name of each field, and the file that it is read from."""

    def texts(self) -> Texts:
        """What the sensors say, or said less than `least_pause_s` ago."""
        if self.files and self._clock() - self._asked_s >= self.least_pause_s:
            self._asked_s = self._clock()
            self._known = super().texts()
        return self._known

    def parse(self, texts: Texts) -> Mapping[str, float]:
        values = zip(self._fields, texts, strict=False)
        return {name: int(text) for name, text in values if re.fullmatch(rb"-?\d+\s*", text)}


class FrequencyMonitor(SensorMonitor):
    """How fast each core is clocked, from cpufreq, and how often heat slowed it, from its throttle counters (x86).

    Fields `cpu<N>.<field>`; cores that share one clock (a cpufreq policy) have it under the first of them.
    /proc/cpuinfo is left alone: without cpufreq its MHz is the rate of the time stamp counter, whatever the core does.
    """

    name = "frequency"
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "frequency_khz": Field(GAUGE, "kHz", "clock of the core, as the driver last knew it"),
        "throttles": Field(COUNTER, "events", "how often the core was slowed because it was too hot"),
    }
    _FILES: ClassVar = {
        "frequency_khz": "cpufreq/scaling_cur_freq",
        "throttles": "thermal_throttle/core_throttle_count",
    }

    def sensors(self, root: Path) -> Mapping[str, Path]:
        files: dict[Path, tuple[str, Path]] = {}
        for core in _numbered(root / "sys/devices/system/cpu", "cpu"):
            for field, place in self._FILES.items():
                if (path := core / place).exists():
                    files.setdefault(path.resolve(), (f"{core.name}.{field}", path))
        return dict(files.values())


class ThermalMonitor(SensorMonitor):
    """Temperatures, from the hardware monitoring chips (hwmon) and the thermal zones.

    Fields `<chip>_<sensor>.temperature_mc`, as in `coretemp_package_id_0`, `nvme_composite`, `zone0_acpitz`. Sensors
    are asked once a second at most: reading one may wake a core (coretemp) or send a command to a drive (nvme, which
    the kernel itself limits to one a second). The sensors of SATA disks (drivetemp) are left alone: each reading is a
    command that waits in line with the very requests that are measured.
    """

    name = "thermal"
    FIELDS: ClassVar[Mapping[str, Field]] = {"temperature_mc": Field(GAUGE, "m°C", "thousandths of a degree Celsius")}
    least_pause_s = 1.0

    def sensors(self, root: Path) -> Mapping[str, Path]:
        found: dict[str, Path] = {}
        for chip in _numbered(root / "sys/class/hwmon", "hwmon"):
            name = _text(chip / "name") or chip.name
            for path in sorted(chip.glob("temp*_input")) if name != "drivetemp" else ():
                sensor = path.name.removesuffix("_input")
                _add(found, f"{name}_{_text(chip / f'{sensor}_label') or sensor}", path)
        for zone in _numbered(root / "sys/class/thermal", "thermal_zone"):
            _add(found, f"zone{zone.name.removeprefix('thermal_zone')}_{_text(zone / 'type')}", zone / "temp")
        return {f"{name}.temperature_mc": path for name, path in found.items()}


def _numbered(folder: Path, prefix: str) -> Iterator[Path]:
    paths = [path for path in folder.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdecimal()]
    return iter(sorted(paths, key=lambda path: int(path.name.removeprefix(prefix))))


def _add(found: dict[str, Path], name: str, path: Path) -> None:
    """Under a name of letters, digits and underscores; the second of two alike gets a number (two NVMe drives)."""
    plain = re.sub(r"\W+", "_", name.lower()).strip("_")
    alike = sum(1 for known in found if re.fullmatch(rf"{plain}(_\d+)?", known))
    found[f"{plain}_{alike + 1}" if plain in found else plain] = path


def _text(path: Path) -> str:
    return SensorFile(path).read().decode(errors="replace").strip()
