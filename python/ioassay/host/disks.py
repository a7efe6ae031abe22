"""The disk under a path: its mount, and the chain of block devices from there down to the drive.

Devices are resolved by `ioassay.host.block_devices`, mounts by `ioassay.host.mounts`; here is only what describes them.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ioassay.host import block_devices, mounts
from ioassay.host.block_devices import Device, Number
from ioassay.host.machine import Machine, choices, known, section, selected

_QUEUE_NUMBERS = (
    "nr_requests", "read_ahead_kb", "wbt_lat_usec", "logical_block_size", "physical_block_size", "minimum_io_size",
    "optimal_io_size", "max_sectors_kb", "max_hw_sectors_kb", "discard_granularity", "discard_max_bytes", "nomerges",
    "rq_affinity", "io_poll", "fua", "dax",
)  # fmt: skip
"""Files of /sys/block/<disk>/queue, kept under their names (ABI/stable/sysfs-block)."""


def facts(machine: Machine, path: Path) -> dict[str, Any]:
    """Section `disk`; `path` need not exist yet, and may be a block device itself."""
    existing = _nearest(machine, path)
    is_device = block_devices.number_of(machine.path(existing)) is not None
    mount = None if is_device else mounts.mount_of(existing, machine.root)
    space: dict[str, Any] = {}
    if mount is not None:
        space["mount"] = known(
            point=mount.point,
            source=mount.source,
            filesystem=mount.kind,
            options=sorted(mount.options),
            number=str(mount.number),
        )
        with suppress(OSError):  # statvfs(3): the file system, and what an ordinary user can still have
            said = os.statvfs(machine.path(existing))
            space |= {"size_bytes": said.f_blocks * said.f_frsize, "free_bytes": said.f_bavail * said.f_frsize}
    devices = [_device(machine, device) for device in chain(machine, existing)]
    return known(path=str(path), **space, devices=devices)


def chain(machine: Machine, path: Path) -> list[Device]:
    """The block devices under a path, from the one that is mounted down to the drives, each once."""
    found: dict[Number, Device] = {}
    ahead = _starts(machine, _nearest(machine, path))
    while ahead:
        device = block_devices.device(ahead.pop(0), machine.root)
        if device is None or device.number in found:
            continue
        found[device.number] = device
        below = [block_devices.disk_of(device).number] if device.partition else []
        below += [slave.number for slave in block_devices.slaves(device)]
        loops = (loop for loop in block_devices.loops(machine.root) if loop.device.number == device.number)
        if (loop := next(loops, None)) is not None:  # what it maps, or what the file system of its file lies on
            below += [loop.block] if loop.block is not None else _starts(machine, Path(loop.backing))
        ahead = below + ahead
    return list(found.values())


def _starts(machine: Machine, path: Path) -> list[Number]:
    number = block_devices.number_of(machine.path(path))
    if number is not None:
        return [number]
    mount = mounts.mount_of(path, machine.root)
    if mount is None:
        return []
    first = sorted(mount.devices)
    for folder in machine.paths("sys/fs/btrfs/*/devices"):  # the mount names one of the devices of a btrfs only
        numbers = [Number.parse(text) for text in map(machine.text, sorted(folder.glob("*/dev"))) if text]
        if any(number in numbers for number in first):
            return first + [number for number in numbers if number not in first]
    return first


def _nearest(machine: Machine, path: Path) -> Path:
    """The nearest folder that exists, links followed: a target file is often made later."""
    here = path.resolve() if machine.root == Path("/") else path
    while not machine.path(here).exists() and here != here.parent:
        here = here.parent
    return here


def _device(machine: Machine, device: Device) -> dict[str, Any]:
    folder, whole_disk, queue = device.folder, not device.partition, device.folder / "queue"
    scheduler, rotational = machine.text(queue / "scheduler"), machine.number(queue / "rotational")
    start = machine.number(folder / "start")
    return known(
        name=device.name,
        number=str(device.number),
        kind=_kind(machine, device),
        size_bytes=device.size_bytes,
        read_only=device.read_only or None,
        start_bytes=None if start is None else start * block_devices.SECTOR_BYTES,
        alignment_offset_bytes=machine.number(folder / "alignment_offset"),
        backing_file=machine.text(folder / "loop/backing_file"),
        built_on=[slave.name for slave in block_devices.slaves(device)],
        sync_action=machine.text(folder / "md/sync_action"),
        **(_model(machine, device) if whole_disk else {}),
        queue=known(
            rotational=None if rotational is None else rotational == 1,
            scheduler=selected(scheduler),
            schedulers=choices(scheduler),
            **machine.texts(queue, write_cache="write_cache", zoned="zoned"),
            **machine.numbers(queue, **{name: name for name in _QUEUE_NUMBERS}),
        )
        if whole_disk
        else None,
        **(health(machine, device) if whole_disk else {}),
    )


def _kind(machine: Machine, device: Device) -> str:
    """What the device is: partition, loop, raid1, crypt, lvm, zram, or disk."""
    if device.partition:
        return "partition"
    if level := machine.text(device.folder / "md/level"):
        return level
    if identity := machine.text(device.folder / "dm/uuid"):
        return identity.partition("-")[0].lower()
    virtual = re.match(r"(loop|zram|ram|nbd|dm|md)-?\d", device.name)
    return virtual[1] if virtual else "disk"


def _model(machine: Machine, device: Device) -> dict[str, Any]:
    folder, vendor = device.folder, machine.text(device.folder / "device/vendor") or ""
    return known(
        model=machine.text(folder / "device/model"),
        vendor=None if vendor.startswith("0x") else vendor or None,  # a number, of virtio and PCI devices
        firmware=machine.text(folder / "device/firmware_rev") or machine.text(folder / "device/rev"),
        serial=machine.text(folder / "serial")
        or machine.text(folder / "device/serial")
        or block_devices.scsi_serial(folder)
        or None,
        wwid=machine.text(folder / "wwid") or machine.text(folder / "device/wwid"),
    )


# What a drive says of itself: link to the machine, health, temperature, wear. Needs smartctl or nvme, and root

_PHYSICAL = re.compile(r"(nvme\d+n\d+|sd[a-z]+|hd[a-z]+)$")
_NVME_LOG = (
    "critical_warning", "temperature", "available_spare", "percentage_used", "data_units_read", "data_units_written",
    "power_on_hours", "unsafe_shutdowns", "media_errors", "warning_temp_time", "critical_comp_time",
)  # fmt: skip
"""Fields of the health log (NVM Express Base Specification, Get Log Page 02h) as smartctl names them."""


def health(machine: Machine, device: Device) -> dict[str, Any]:
    """`link` and `health` of a physical drive; nothing for others."""
    if not _PHYSICAL.match(device.name):
        return {}
    pci = device.folder / "device/device"
    # Of PCI Express: what it runs at, and what it could (ABI/testing/sysfs-bus-pci).
    link = machine.texts(pci, speed="current_link_speed", max_speed="max_link_speed")
    link |= machine.numbers(pci, width="current_link_width", max_width="max_link_width")
    said = machine.answer("smartctl", "-j", "-i", "-H", "-A", f"/dev/{device.name}")
    log = section(said, "nvme_smart_health_information_log")
    found = known(
        passed=section(said, "smart_status").get("passed"),
        temperature_c=section(said, "temperature").get("current"),
        power_on_h=section(said, "power_on_time").get("hours"),
        **{name: log.get(name) for name in _NVME_LOG if name not in ("temperature", "power_on_hours")},
    )
    if not found and device.name.startswith("nvme"):  # nvme-cli gives the same log, the temperature in kelvin
        log = machine.answer("nvme", "smart-log", "-o", "json", f"/dev/{device.name}")
        kelvin, warning = log.get("temperature"), log.get("critical_warning")
        found = known(
            passed=warning == 0 if isinstance(warning, int) else None,
            temperature_c=kelvin - 273 if isinstance(kelvin, int) else None,
            power_on_h=log.get("power_on_hours"),
            percentage_used=log.get("percentage_used", log.get("percent_used")),
            available_spare=log.get("available_spare", log.get("avail_spare")),
            **{name: log.get(name) for name in ("critical_warning", "media_errors", "warning_temp_time")},
        )
    return known(link=link, health=found)
