"""Temperatures, from the hardware monitoring chips (hwmon) and the thermal zones; a host without has no fields here.

Sensors are asked once a second at most and repeat their value in between: reading one may wake a core (coretemp) or
send a command to a drive (nvme, which the kernel itself limits to one a second). The sensors of SATA disks (drivetemp)
are left alone: each reading is a command that waits in line with the very requests that are measured.
Sources: Documentation/hwmon/sysfs-interface.rst, Documentation/driver-api/thermal/sysfs-api.rst.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import GAUGE, Field
from ioassay.monitors.procfs import SensorFile
from ioassay.monitors.text_monitor import TextMonitor, Texts

FIELDS: dict[str, Field] = {"temperature_mc": Field(GAUGE, "m°C", "thousandths of a degree Celsius")}
LEAST_PAUSE_S = 1.0
_LEFT_ALONE = frozenset({"drivetemp"})


class ThermalMonitor(TextMonitor):
    """Fields `<chip>_<sensor>.temperature_mc`, as in `coretemp_package_id_0`, `nvme_composite`, `zone0_acpitz`."""

    name = "thermal"
    often_absent = True

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        found = {**_chips(root / "sys/class/hwmon"), **_zones(root / "sys/class/thermal")}
        super().__init__([SensorFile(path) for path in found.values()])
        self._names = tuple(f"{sensor}.temperature_mc" for sensor in found)
        self._clock = clock
        self._asked_s = float("-inf")
        self._known: Texts = ()

    def texts(self) -> Texts:
        """What the sensors say, or said less than LEAST_PAUSE_S ago."""
        if self.files and self._clock() - self._asked_s >= LEAST_PAUSE_S:
            self._asked_s = self._clock()
            self._known = super().texts()
        return self._known

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading; a sensor that has no value now is not in it."""
        values = zip(self._names, texts, strict=False)
        return {name: int(text) for name, text in values if re.fullmatch(rb"-?\d+\s*", text)}


def _chips(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for chip in _numbered(folder, "hwmon"):
        name = _text(chip / "name") or chip.name
        if name not in _LEFT_ALONE:
            for path in sorted(chip.glob("temp*_input")):
                sensor = path.name.removesuffix("_input")
                label = _text(chip / f"{sensor}_label") or sensor
                _add(found, f"{name}_{label}", path)
    return found


def _zones(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for zone in _numbered(folder, "thermal_zone"):
        number = zone.name.removeprefix("thermal_zone")
        _add(found, f"zone{number}_{_text(zone / 'type')}", zone / "temp")
    return found


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


def make(root: Path, devices: Sequence[str]) -> ThermalMonitor:
    """For `ioassay.monitors.monitor`."""
    return ThermalMonitor(root)
