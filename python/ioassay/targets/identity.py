"""By which names a user may consent to the loss of a device's data: its by-id names, its serial number.

Kernel names change from one start to the next, so /dev/sdb is accepted only for a device that has nothing better
(loop, RAM disk). Reads /dev and /sys below an injected root.
"""

from __future__ import annotations

from pathlib import Path

from ioassay import blockdev
from ioassay.blockdev import ROOT, Device

_BY_ID = "dev/disk/by-id"
_HARD_TO_READ = ("wwn-", "nvme-eui.", "nvme-nvme.", "nvme-uuid.", "scsi-3", "dm-uuid-", "md-uuid-", "lvm-pv-uuid-")
_SERIAL_FILES = ("serial", "device/serial", "wwid", "device/wwid", "dm/uuid")
_SCSI_SERIAL = "device/vpd_pg80"
_VPD_HEADER_BYTES = 4  # SPC-5, 7.7.9: unit serial number page


def consent_names(device: Device, root: Path = ROOT) -> list[str]:
    """Names that mean exactly this device, the one to propose first. Never empty.

    A serial number counts only where one device of this machine bears it (NVMe namespaces share theirs).
    """
    return [*_by_id(device, root), *_serials(device, root)] or _kernel_names(device, root)


def consents(names: list[str], given: str) -> bool:
    """True when the text after --destroy-data is one of the names; by-id names also with their folder."""
    return given in names or given.removeprefix(f"/{_BY_ID}/") in names


def _by_id(device: Device, root: Path) -> list[str]:
    folder = root / _BY_ID
    links = sorted(folder.iterdir()) if folder.is_dir() else []
    names = [link.name for link in links if blockdev.number_of(link) == device.number]
    return sorted(names, key=lambda name: (name.startswith(_HARD_TO_READ), name))


def _serials(device: Device, root: Path) -> list[str]:
    """The serial numbers of a disk; those of a partition are its disk's with -part<N>, as udev writes them."""
    disk = blockdev.disk_of(device)
    others = [other for other in blockdev.disks(root) if other.number != disk.number]
    taken = {name for other in others for name in _read_serials(other)}
    suffix = f"-part{device.partition}" if device.partition else ""
    return [name + suffix for name in _read_serials(disk) if name not in taken]


def _read_serials(disk: Device) -> list[str]:
    found = [_scsi_serial(disk.folder / _SCSI_SERIAL), *(_line(disk.folder / name) for name in _SERIAL_FILES)]
    return list(dict.fromkeys(name for name in found if name))


def _scsi_serial(path: Path) -> str:
    try:
        return path.read_bytes()[_VPD_HEADER_BYTES:].decode("ascii", "replace").strip("\0 ")
    except OSError:
        return ""


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _kernel_names(device: Device, root: Path) -> list[str]:
    names = [f"/dev/{device.name}", device.name]
    backing = [loop.backing for loop in blockdev.loops(root) if loop.device.number == device.number]
    return names + backing
