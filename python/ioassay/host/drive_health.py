"""What a drive says of itself: link to the machine, health, temperature, wear. Needs smartctl or nvme, and root."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ioassay.host.block_devices import Device
from ioassay.host.machine import Machine, known, section

_PHYSICAL = re.compile(r"(nvme\d+n\d+|sd[a-z]+|hd[a-z]+)$")
_NVME_LOG = (
    "critical_warning", "temperature", "available_spare", "percentage_used", "data_units_read", "data_units_written",
    "power_on_hours", "unsafe_shutdowns", "media_errors", "warning_temp_time", "critical_comp_time",
)  # fmt: skip
"""Fields of the health log (NVM Express Base Specification, Get Log Page 02h) as smartctl names them."""


def facts(machine: Machine, device: Device) -> dict[str, Any]:
    """`link` and `health` of a physical drive; nothing for others."""
    if not _PHYSICAL.match(device.name):
        return {}
    return known(link=_link(machine, device.folder), health=_smartctl(machine, device) or _nvme(machine, device))


def _link(machine: Machine, folder: Path) -> dict[str, Any]:
    """PCI Express: what the link runs at, and what it could (ABI/testing/sysfs-bus-pci)."""
    pci = folder / "device/device"
    return known(
        speed=machine.text(pci / "current_link_speed"),
        max_speed=machine.text(pci / "max_link_speed"),
        width=machine.number(pci / "current_link_width"),
        max_width=machine.number(pci / "max_link_width"),
    )


def _smartctl(machine: Machine, device: Device) -> dict[str, Any]:
    said = machine.answer("smartctl", "-j", "-i", "-H", "-A", f"/dev/{device.name}")
    log = section(said, "nvme_smart_health_information_log")
    return known(
        passed=section(said, "smart_status").get("passed"),
        temperature_c=section(said, "temperature").get("current"),
        power_on_h=section(said, "power_on_time").get("hours"),
        **{name: log.get(name) for name in _NVME_LOG if name not in ("temperature", "power_on_hours")},
    )


def _nvme(machine: Machine, device: Device) -> dict[str, Any]:
    """nvme-cli gives the same log, the temperature in kelvin."""
    if not device.name.startswith("nvme"):
        return {}
    log = machine.answer("nvme", "smart-log", "-o", "json", f"/dev/{device.name}")
    kelvin, warning = log.get("temperature"), log.get("critical_warning")
    return known(
        passed=warning == 0 if isinstance(warning, int) else None,
        temperature_c=kelvin - 273 if isinstance(kelvin, int) else None,
        power_on_h=log.get("power_on_hours"),
        percentage_used=log.get("percentage_used", log.get("percent_used")),
        available_spare=log.get("available_spare", log.get("avail_spare")),
        **{name: log.get(name) for name in _NVME_LOG if name in log and name in ("critical_warning", "media_errors")},
        warning_temp_time=log.get("warning_temp_time"),
    )
