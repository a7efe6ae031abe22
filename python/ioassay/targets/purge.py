"""Brings a drive to the state in which all its blocks are erased: the purge of SNIA's PTS (2.0, section 3.2).

A method is a row: the program that does it, and what the kernel must say of the drive. It writes nothing but the device
that it is given; `safety` has been asked before. A discard tells the drive that nothing is allocated, and leaves to the
drive what it erases: where a drive can neither format nor sanitize, it is the nearest that there is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ioassay.errors import RunError, StudyError, ToolError
from ioassay.host import block_devices
from ioassay.host.block_devices import Device, text_of
from ioassay.process import supervisor

NONE = "none"
_LONGEST_S = 24 * 3600.0
"""A format or sanitize of a large drive takes hours."""


@dataclass(frozen=True)
class Method:
    """`argv` goes before the path of the device."""

    argv: Sequence[str]
    package: str
    needs: str
    """What the drive must be, for messages."""
    offered: Callable[[Device], bool]


def _whole(device: Device) -> bool:
    return not device.partition


def _discards(device: Device) -> bool:
    limit = text_of(block_devices.disk_of(device).folder / "queue/discard_max_bytes")
    return limit.isdigit() and int(limit) > 0


METHODS = {
    "format": Method(
        ("nvme", "format", "--ses=1", "--force"),
        *("nvme-cli", "a whole NVMe namespace"),
        lambda device: _whole(device) and device.name.startswith("nvme"),
    ),
    "sanitize": Method(
        ("sg_sanitize", "--block", "--quick", "--wait"),
        *("sg3-utils", "a whole SCSI or SAS disk"),
        lambda device: _whole(device) and device.name.startswith("sd"),
    ),
    "discard": Method(
        ("blkdiscard", "--force"), "util-linux", "a drive that discards (queue/discard_max_bytes)", _discards
    ),
}
"""Those of the PTS first: Format NVM with a user data erase, SANITIZE with a block erase."""


def offered(device: Device) -> list[str]:
    """The methods that this drive has and whose program is here, the best first."""
    return [name for name, one in METHODS.items() if one.offered(device) and shutil.which(one.argv[0])]


def require(name: str, device: Device, path: Path) -> None:
    """StudyError where the drive has no such method, ToolError where its program is not here."""
    if name == NONE:
        return
    method = METHODS[name]
    if not method.offered(device):
        others = ", ".join([*offered(device), NONE])
        text = f"{path} cannot be purged by {name}, which needs {method.needs}; expected one of {others}"
        raise StudyError(text, key="target.purge")
    if shutil.which(method.argv[0]) is None:
        raise ToolError(f"{method.argv[0]}: not found; install it, on Debian with: apt-get install {method.package}")


def purge(name: str, device: Device, path: Path) -> None:
    """Purge it; RunError where the drive refuses. What is on it is lost."""
    if name == NONE:
        return
    require(name, device, path)
    done = supervisor.capture([*METHODS[name].argv, str(path)], timeout_s=_LONGEST_S)
    if done.timed_out or done.exit_code:
        why = "it did not end within a day" if done.timed_out else (done.stderr or done.stdout).strip()
        raise RunError(f"{path}: was not purged by {name}: {why}; choose another way (target.purge)")
