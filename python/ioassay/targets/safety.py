"""Decides whether a path may be loaded: the last word before anything is written to a device or a file.

What is asked, and what each answer leads to, is in docs/safety.md. The rule is to refuse whatever is not known to be
harmless: a device whose content cannot be read is refused like one that holds data. Nothing here writes.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ioassay import debug_log, units
from ioassay.errors import SafetyRefusal, StudyError, ToolError
from ioassay.host import block_devices, mounts
from ioassay.host.block_devices import ROOT, Device, entries, text_of
from ioassay.records.record import Warning_
from ioassay.roles import NOTHING, WRITE, Consent
from ioassay.targets import device_users, filesystem, occupancy, ownership_mark
from ioassay.targets.device_users import Finding

_HARMLESS = {(1, 3), (1, 5), (1, 7)}
"""/dev/null, /dev/zero and /dev/full (Linux Documentation/admin-guide/devices.txt)."""
_KERNEL_FILES = (
    "proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "configfs", "securityfs", "efivarfs", "bpf", "pstore",
    "fusectl", "binfmt_misc", "selinuxfs", "smackfs", "nfsd", "rpc_pipefs", "devpts", "mqueue", "resctrl",
)  # fmt: skip
"""File systems without data: their files are interfaces of the kernel (proc_filesystems(5))."""
_MEMORY_DEVICES = ("zram", "ram", "brd", "pmem")
_SHOWN = 12
"""Findings in a refusal."""


def inspect_path(path: Path, access: str, consent: Consent, root: Path = ROOT) -> list[Warning_]:
    """Check any path that a load names, there or not yet there. Relative paths start at the working directory.

    Returns what is suspicious. SafetyRefusal when loading it could destroy something.
    """
    if access == NOTHING:
        return []
    resolved = resolve(path)
    if resolved.is_block_device():
        return inspect_device(resolved, access, consent, root)
    if resolved.is_char_device():
        number = resolved.stat().st_rdev
        if access == WRITE and (os.major(number), os.minor(number)) not in _HARMLESS:
            raise SafetyRefusal(
                f"{resolved}: refused, nothing was written: a character device ({os.major(number)}:"
                f"{os.minor(number)}), and what is written to it cannot be checked; give the block device (such as "
                "/dev/nvme0n1 for /dev/ng0n1)"
            )
        return []
    if resolved.is_dir():
        return filesystem.warnings(resolved / "file", root)
    if resolved.is_file():
        return inspect_file(resolved, access, consent, root)
    if resolved.exists():
        raise SafetyRefusal(f"{resolved}: refused, nothing was written: a pipe or socket, neither file nor device")
    filesystem.require_real(resolved, root)
    return filesystem.warnings(resolved, root) if resolved.parent.is_dir() else []


def resolve(path: Path) -> Path:
    """The path itself: absolute, with all links followed, also where the last part is not there yet."""
    try:
        resolved = path.expanduser().resolve()
        with suppress(FileNotFoundError, NotADirectoryError):
            resolved.stat()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise StudyError(
            f"{str(path)!r} cannot be looked at: {why}; expected a path you may use", key="target.path"
        ) from None
    return resolved


def inspect_device(path: Path, access: str, consent: Consent, root: Path = ROOT) -> list[Warning_]:
    """Check a block device with its whole family. SafetyRefusal names everything that was found."""
    device = require_device(path, root)
    family = device_users.family(device, path, root)
    warnings = []
    if device.name.startswith(_MEMORY_DEVICES):
        text = f"/dev/{device.name} is memory: no disk is measured"
        warnings.append(Warning_("memory-device", text, "give the disk that you want to measure"))
    if device.name.startswith("loop"):
        text = f"/dev/{device.name} is a loop device: the file system under it and the page cache are measured with it"
        warnings.append(Warning_("loop-device", text, "give the disk itself"))
    if access != WRITE:
        return warnings + _about_reading(family)
    names = consent_names(device, root)
    consented = consents(names, consent)
    findings = device_findings(family, whole=not consented)
    debug_log.info(
        "targets", f"{path}: {len(findings)} findings against writing, consent {'given' if consented else 'not given'}"
    )
    refuse_unless_consented(label(path, device, root), findings, names, consent)
    return warnings + [Warning_("device-shared", finding.text) for finding in findings if finding.beside]


def require_device(path: Path, root: Path = ROOT) -> Device:
    """What the kernel knows of a block device; SafetyRefusal when it tells nothing, for then nothing can be checked."""
    number = block_devices.number_of(path)
    if number is None:
        raise StudyError(f"{path} is no block device", key="target.path")
    device = block_devices.device(number, root)
    if device is None:
        raise SafetyRefusal(f"{path}: refused: /sys knows no block device {number}, so who uses it cannot be checked")
    return device


def device_findings(family: device_users.Family, *, whole: bool = True) -> list[Finding]:
    """All reasons not to write to a device. What it holds while this process claims it is this process's own work.

    Without `whole`, for a device that may lose all it holds, nothing is read but formats and samples.
    """
    found = device_users.uses(family)
    if family.target.number in device_users.held():
        return [finding for finding in found if finding.in_use]
    if not any(finding.in_use for finding in found):
        found += device_users.claimed(family, device_users.held())
    if family.target.read_only:
        found.append(Finding(f"/dev/{family.target.name} is read-only", True, (f"blockdev --setrw {family.path}",)))
    return found + list(_data(family, whole=whole and not any(finding.in_use for finding in found)))


def _data(family: device_users.Family, *, whole: bool) -> Iterator[Finding]:
    """What the target holds. That it cannot be opened is no consent: it is a finding that consent does not cover."""
    name = f"/dev/{family.target.name}"
    try:
        known = occupancy.signatures(family.path)
        seen = None if known else occupancy.examine(family.path, family.target, family.root, whole=whole)
    except (OSError, ToolError) as error:
        yield Finding(f"{name} cannot be read, so what it holds is not known: {error}", True, ("run as root",))
        return
    for signature in known:
        where = "" if signature.offset_bytes is None else f" at byte {signature.offset_bytes}"
        yield Finding(f"{name} holds {signature}{where}", False)
    if seen is not None and not seen.empty:
        earlier = " (it may be left from an earlier run)" if seen.data_at_bytes is not None else ""
        yield Finding(f"{name} {seen.text}{earlier}", False)


def content(path: Path, device: Device) -> list[str]:
    """What was found on a device when it was last looked at, for people: formats, or whether it is empty."""
    known = occupancy.signatures(path)
    if known:
        return [f"holds {signature}" for signature in known]
    seen = occupancy.latest(device)
    return [seen.text] if seen is not None else ["holds no known format"]


def _about_reading(family: device_users.Family) -> list[Warning_]:
    found = []
    for finding in device_users.uses(family):
        if finding.in_use:
            text = f"{finding.text}: other requests may disturb the measurement"
            found.append(Warning_("device-in-use", text, "; ".join(finding.remedies)))
    try:
        sample = occupancy.content(family.path)
    except OSError as error:
        raise StudyError(f"{family.path} cannot be read: {error.strerror}; run as root", key="target.path") from None
    if sample.blank:
        text = (
            f"/dev/{family.target.name}: {sample.blank} of {sample.places} places looked at hold nothing but zeros or "
            "ones: a drive answers reads of what was never written without reading its medium"
        )
        found.append(Warning_("unwritten-device", text, "write it in full first, or read only what was written"))
    return found


def inspect_file(path: Path, access: str, consent: Consent, root: Path = ROOT) -> list[Warning_]:
    """Check a regular file that exists; `path` is resolved.

    Writing: SafetyRefusal for a loop device's backing file, active swap, or data that ioassay did not make.
    Reading: a warning when parts of it were never written.
    """
    if not os.access(path, os.R_OK):
        raise StudyError(f"{path}: no permission to read it; choose another path or another user", key="target.path")
    if access == WRITE:
        # A file of /proc and the like has the size 0 and is a switch: what is written to it is obeyed.
        mount = mounts.mount_of(path, root)
        if mount is not None and mount.kind in _KERNEL_FILES:
            raise SafetyRefusal(
                f"{path}: refused, nothing was written: it lies on {mount.point} ({mount.kind}), where files are "
                "switches of the kernel; give a file on a disk"
            )
        findings = file_findings(path, root)
        refuse_unless_consented(str(path), findings, [str(path)], consent)
    found = filesystem.warnings(path, root)
    if access != WRITE and (text := unwritten(path)):
        found.append(unwritten_warning(path, text))
    return found


def unwritten_warning(path: Path, what: str) -> Warning_:
    text = f"{path}: {what}: the file system answers reads of holes itself, so no disk is measured"
    return Warning_("unwritten-file", text, "write it in full first, or let a file target make one")


def file_findings(path: Path, root: Path = ROOT) -> list[Finding]:
    """All reasons not to write to an existing regular file: it is used as a device, or holds data that is not ours.

    An empty file holds none; a file of ours that was formatted since is not ours any more.
    """
    wanted = block_devices.file_id(path)
    if wanted is None:
        return []
    found = []
    for loop in block_devices.loops(root):
        if loop.file == wanted or (loop.file is None and loop.block is None and loop.backing == str(path)):
            family = device_users.family(loop.device, root / "dev" / loop.device.name, root)
            in_use = [finding for finding in device_users.uses(family) if finding.in_use]
            steps = [step for finding in in_use for step in finding.remedies]
            text = f"{path} is the backing file of the loop device {family.title(family.members[0])}"
            found.append(Finding(text, True, (*steps, f"losetup -d /dev/{loop.device.name}")))
            found += [Finding(finding.text, True) for finding in in_use]
    for swap in mounts.swaps(root):
        if swap.file == wanted:
            found.append(Finding(f"{path} is an active swap file ({swap.path})", True, (f"swapoff {swap.path}",)))
    size_bytes = path.stat().st_size
    if size_bytes == 0:
        return found
    try:
        found += [Finding(f"{path} holds {signature}", False) for signature in occupancy.signatures(path)]
    except ToolError as error:
        return [*found, Finding(f"{path} cannot be read, so what it holds is not known: {error}", True)]
    if ownership_mark.read(path) is None:
        what = unwritten(path) or f"{units.format_size(size_bytes)} of data"
        is_changed = ownership_mark.was_changed(path)
        whose = "something else wrote to it since ioassay made it" if is_changed else "was not made by ioassay"
        found.append(Finding(f"{path} exists and {whose} ({what})", False))
    return found


def unwritten(path: Path, end_bytes: int | None = None) -> str:
    """What was never written in the first `end_bytes` of a file, for a message; empty when nothing."""
    first_bytes = filesystem.first_unwritten_bytes(path, end_bytes)
    if first_bytes is None:
        return ""
    size = units.format_size(path.stat().st_size)
    return f"of its {size}, byte {first_bytes} and perhaps more were never written"


def expect_own(path: Path) -> None:
    """Say, before a job runs, that it makes this file, so that a killed run finds it to be ours.

    Only for a path that has passed `inspect_path` for writing. Devices and folders are left alone.
    """
    resolved = resolve(path)
    # Where no file can be made, none needs to be announced.
    if os.access(resolved.parent, os.W_OK) and (resolved.is_file() or not resolved.exists()):
        ownership_mark.expect(resolved)


def mark_own(path: Path) -> None:
    """Mark a file that a job made as ours, so that the job can run again.

    Only for a path that had passed `inspect_path` for writing before the job ran.
    """
    resolved = resolve(path)
    # A file that may not be marked stays unknown, so that the next run asks: the safe side.
    with suppress(PermissionError):
        if resolved.is_file():
            ownership_mark.write(resolved)
            ownership_mark.settle(resolved)
        elif not resolved.exists():
            ownership_mark.forget(resolved)


# By which names a user may consent to the loss of a device's data, and the refusal where that is not enough. Consent
# takes by-id names and serial numbers. Kernel names change from one start to the next, so /dev/sdb is accepted only for
# a device that has nothing better (loop, RAM disk). Consent (`--destroy-data`) covers data. What is in use now, by a
# mount, swap, a holder or a program, it never covers: that has to be ended first, by hand, which is the moment to
# notice a mistake

_BY_ID = "dev/disk/by-id"
_HARD_TO_READ = ("wwn-", "nvme-eui.", "nvme-nvme.", "nvme-uuid.", "scsi-3", "dm-uuid-", "md-uuid-", "lvm-pv-uuid-")
_SERIAL_FILES = ("serial", "device/serial", "wwid", "device/wwid", "dm/uuid")
_NO_VENDOR = ("ATA", "Generic", "NVMe")
"""What stands for the maker where none is given: libata's own word, and those of bridges."""


def label(path: Path, device: Device, root: Path = ROOT) -> str:
    """What a person can compare with the drive in the machine; a partition has its disk's model and serial number."""
    disk = block_devices.disk_of(device)
    number = next(iter(serials(disk)), "")
    said = [units.format_size(device.size_bytes), model(disk), f"serial {number}" if number else ""]
    return f"{path} (block device {device.number}, {device.name}, {', '.join(filter(None, said))})"


def model(disk: Device) -> str:
    """Maker and model as the drive gives them; of a loop device what lies under it. Empty where nothing does."""
    if backing := text_of(disk.folder / "loop/backing_file"):
        return f"loop device over {backing}"
    maker = text_of(disk.folder / "device/vendor")
    names = (text_of(disk.folder / name) for name in ("device/model", "device/name", "dm/name"))
    known = next(filter(None, names), "")
    # The vendor of a virtio disk is a number of PCI.
    return known if maker in _NO_VENDOR or maker.startswith("0x") else f"{maker} {known}".strip()


def consent_names(device: Device, root: Path = ROOT) -> list[str]:
    """Names that mean exactly this device, the one to propose first. Never empty.

    A serial number counts only where one device of this machine bears it (NVMe namespaces share theirs).
    """
    links = [link.name for link in entries(root / _BY_ID) if block_devices.number_of(link) == device.number]
    by_id = sorted(links, key=lambda name: (name.startswith(_HARD_TO_READ), name))
    # Those of a partition are its disk's with -part<N>, as udev writes them.
    disk = block_devices.disk_of(device)
    others = [other for other in block_devices.disks(root) if other.number != disk.number]
    taken = {name for other in others for name in serials(other)}
    suffix = f"-part{device.partition}" if device.partition else ""
    if names := [*by_id, *(name + suffix for name in serials(disk) if name not in taken)]:
        return names
    backing = [loop.backing for loop in block_devices.loops(root) if loop.device.number == device.number]
    return [f"/dev/{device.name}", device.name, *backing]


def consents(names: Sequence[str], consent: Consent) -> bool:
    """True when a text after --destroy-data is one of the names; by-id names also with their folder."""
    return any(given in names or given.removeprefix(f"/{_BY_ID}/") in names for given in consent.names)


def serials(disk: Device) -> list[str]:
    """Serial numbers and world-wide names of a disk, the one to show first."""
    found = [block_devices.scsi_serial(disk.folder), *(text_of(disk.folder / name) for name in _SERIAL_FILES)]
    return list(dict.fromkeys(name for name in found if name))


def refuse_unless_consented(subject: str, findings: Sequence[Finding], names: Sequence[str], consent: Consent) -> None:
    """SafetyRefusal when something is in use, or when there is data and `consent` has none of `names`."""
    consented = consents(names, consent)
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
