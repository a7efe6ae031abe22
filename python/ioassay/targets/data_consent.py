"""By which names a user may consent to the loss of a device's data, and the refusal where that is not enough.

Consent takes by-id names and serial numbers. Kernel names change from one start to the next, so /dev/sdb is accepted
only for a device that has nothing better (loop, RAM disk). Consent (`--destroy-data`) covers data. What is in use now,
by a mount, swap, a holder or a program, it never covers: that has to be ended first, by hand, which is the moment to
notice a mistake. Reads /dev and /sys below an injected root.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ioassay import units
from ioassay.errors import SafetyRefusal
from ioassay.host import block_devices
from ioassay.host.block_devices import ROOT, Device, text_of
from ioassay.roles import Consent

_BY_ID = "dev/disk/by-id"
_HARD_TO_READ = ("wwn-", "nvme-eui.", "nvme-nvme.", "nvme-uuid.", "scsi-3", "dm-uuid-", "md-uuid-", "lvm-pv-uuid-")
_SERIAL_FILES = ("serial", "device/serial", "wwid", "device/wwid", "dm/uuid")
_NO_VENDOR = ("ATA", "Generic", "NVMe")
"""What stands for the maker where none is given: libata's own word, and those of bridges."""


@dataclass(frozen=True)
class Label:
    """What a person can compare with the drive in the machine."""

    path: Path
    """As the user named it, links followed."""
    device: Device
    name: str
    """The name to give to --destroy-data."""
    model: str
    serial: str

    def __str__(self) -> str:
        said = [units.format_size(self.device.size_bytes), self.model, f"serial {self.serial}" if self.serial else ""]
        about = ", ".join(filter(None, said))
        return f"{self.path} (block device {self.device.number}, {self.device.name}, {about})"


def label(path: Path, device: Device, root: Path = ROOT) -> Label:
    """The label of the device that `path` leads to; a partition has its disk's model and serial number."""
    disk = block_devices.disk_of(device)
    serial = next(iter(_read_serials(disk)), "")
    return Label(path, device, consent_names(device, root)[0], model(disk), serial)


def model(disk: Device) -> str:
    """Maker and model as the drive gives them; of a loop device what lies under it. Empty where nothing does."""
    if backing := text_of(disk.folder / "loop/backing_file"):
        return f"loop device over {backing}"
    maker = text_of(disk.folder / "device/vendor")
    known = (
        text_of(disk.folder / "device/model")
        or text_of(disk.folder / "device/name")
        or text_of(disk.folder / "dm/name")
    )
    # The vendor of a virtio disk is a number of PCI.
    return known if maker in _NO_VENDOR or maker.startswith("0x") else f"{maker} {known}".strip()


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
    names = [link.name for link in links if block_devices.number_of(link) == device.number]
    return sorted(names, key=lambda name: (name.startswith(_HARD_TO_READ), name))


def _serials(device: Device, root: Path) -> list[str]:
    """The serial numbers of a disk; those of a partition are its disk's with -part<N>, as udev writes them."""
    disk = block_devices.disk_of(device)
    others = [other for other in block_devices.disks(root) if other.number != disk.number]
    taken = {name for other in others for name in _read_serials(other)}
    suffix = f"-part{device.partition}" if device.partition else ""
    return [name + suffix for name in _read_serials(disk) if name not in taken]


def _read_serials(disk: Device) -> list[str]:
    found = [block_devices.scsi_serial(disk.folder), *(text_of(disk.folder / name) for name in _SERIAL_FILES)]
    return list(dict.fromkeys(name for name in found if name))


def _kernel_names(device: Device, root: Path) -> list[str]:
    names = [f"/dev/{device.name}", device.name]
    backing = [loop.backing for loop in block_devices.loops(root) if loop.device.number == device.number]
    return names + backing


_SHOWN = 12


@dataclass(frozen=True)
class Finding:
    """One reason not to write. `text` is a sentence that names what and where."""

    text: str
    in_use: bool
    """True: consent does not cover it."""
    remedies: tuple[str, ...] = ()
    """The commands that end the use, in their order."""
    beside: bool = False
    """True: not the target itself is in use, but something beside it on the same disk."""


def refuse_unless_consented(subject: str, findings: Sequence[Finding], names: Sequence[str], consent: Consent) -> None:
    """SafetyRefusal when something is in use, or when there is data and `consent` has none of `names`."""
    consented = any(consents(list(names), given) for given in consent.names)
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: not finding.in_use)
    in_use = any(finding.in_use for finding in ordered)
    if not in_use and (consented or not ordered):
        return
    lines = [f"{subject}: refused, and nothing was written to it:"]
    lines += [f"  - {finding.text}" for finding in ordered[:_SHOWN]]
    if len(ordered) > _SHOWN:
        lines.append(f"  - and {len(ordered) - _SHOWN} more findings")
    if in_use:
        remedies = "; ".join(dict.fromkeys(step for finding in ordered for step in finding.remedies))
        ends = f"; first: {remedies}" if remedies else ""
        lines.append(f"What is in use is not written to, whatever was consented to{ends}")
    if not consented and names:
        option = f"--destroy-data={shlex.quote(names[0])}"
        lines.append(f"{'Then, if' if in_use else 'If'} all data on it may be lost, go on with {option}")
    if consent.names and not consented:
        given = ", ".join(consent.names)
        lines.append(f"(--destroy-data={given} does not name it; it answers to {', '.join(names)})")
    raise SafetyRefusal("\n".join(lines))
