"""The kernel's host of NVMe over TCP: connects it to a drive of ours, finds the devices there, and disconnects it.

A subsystem is ours if it has the name and the address that our drive said. No other one is read, and none is
disconnected. The module nvme_tcp stays loaded: to unload it would disconnect everybody's drives.
Deliberately not here: discovery, authentication, and drives of others.
Sources: drivers/nvme/host/fabrics.c (`nvmf_parse_options`), Documentation/ABI/testing/sysfs-nvme, nvme-connect(1).
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ioassay.errors import ToolError
from ioassay.host import block_devices
from ioassay.host.block_devices import ROOT, entries, text_of
from ioassay.process import supervisor
from ioassay.process.supervisor import Captured

MODULE = "nvme_tcp"
_FABRICS = "dev/nvme-fabrics"
_CONTROLLERS = "sys/class/nvme"
_MOST_QUEUES = 7
"""Of each kind. The drive has 16 I/O queues for a controller."""
_RETRY_S, _LOST_S = 2, 10
"""A drive that is gone is given up soon: its device fails instead of holding up who uses it (`ctrl_loss_tmo`)."""
_APPEARS_S = 20.0
_CHARACTER_S = 1.0
_GONE_S = 30.0
_COMMAND_S = 30.0
_LOOK_S = 0.02

NO_CHARACTER = "this kernel has no character device of an NVMe drive; expected Linux 5.13 or later"

Run = Callable[[Sequence[str]], Captured]


def _captured(argv: Sequence[str]) -> Captured:
    return supervisor.capture(argv, timeout_s=_COMMAND_S)


@dataclass(frozen=True)
class Subsystem:
    """A subsystem of our own drive: its address (`127.0.0.1:4420`), its name, the drive's serial number and size."""

    address: str
    nqn: str
    serial: str
    size_bytes: int


@dataclass(frozen=True)
class Connected:
    """What the kernel has of the subsystem: the controller's name, the block device, and its character device.

    `character` (/dev/ng*) takes NVMe commands past the block layer (io_uring_cmd); None before Linux 5.13.
    """

    controller: str
    block: Path
    character: Path | None


def lack(root: Path = ROOT, run: Run = _captured) -> str:
    """Why the kernel cannot connect, with the remedy; '' where it can. Loads nothing."""
    if root == ROOT and os.geteuid():
        return "connecting the kernel to a drive by NVMe/TCP requires root; run as root"
    if not _has_module(root) and not _runs(run, ["modprobe", "--dry-run", "--quiet", MODULE]):
        return "this kernel has no NVMe/TCP host; expected one with the module nvme-tcp (modprobe nvme-tcp)"
    return ""


def options(subsystem: Subsystem, queues: int, host: str) -> str:
    """What is written to /dev/nvme-fabrics. `host` is a UUID; there are as many polled queues as others."""
    address, _, port = subsystem.address.rpartition(":")
    number = max(1, min(queues, _MOST_QUEUES))
    words = [f"transport=tcp,traddr={address},trsvcid={port},nqn={subsystem.nqn}"]
    words += [f"hostnqn=nqn.2014-08.org.nvmexpress:uuid:{host},hostid={host}"]
    words += [f"nr_io_queues={number},nr_poll_queues={number},keep_alive_tmo=5"]
    return ",".join([*words, f"reconnect_delay={_RETRY_S},ctrl_loss_tmo={_LOST_S}"])


@contextmanager
def connected(subsystem: Subsystem, root: Path = ROOT, run: Run = _captured) -> Iterator[Connected]:
    """The kernel's devices of the subsystem, for as long as this lasts, however it ends. ToolError: there are none."""
    if not _has_module(root) and not _runs(run, ["modprobe", MODULE]):
        raise ToolError("the module nvme-tcp cannot be loaded; expected a kernel with it: modprobe nvme-tcp says why")

    def disconnect_quietly() -> None:
        """After a kill. What stays connected all the same, the kernel gives up after `ctrl_loss_tmo`."""
        with suppress(ToolError, OSError):
            _disconnect(subsystem, root)

    with supervisor.if_killed(disconnect_quietly):
        try:
            _connect(subsystem, root)
            yield _awaited(subsystem, root)
        finally:
            _disconnect(subsystem, root)


def _has_module(root: Path) -> bool:
    return (root / "sys/module" / MODULE).is_dir()  # one that is built in has its folder, too


def _runs(run: Run, argv: Sequence[str]) -> bool:
    try:
        done = run(argv)
    except ToolError:
        return False
    return not done.exit_code and not done.timed_out


def _connect(subsystem: Subsystem, root: Path) -> None:
    text = options(subsystem, os.cpu_count() or 1, str(uuid.uuid4()))
    try:
        with (root / _FABRICS).open("r+b", buffering=0) as fabrics:
            fabrics.write(text.encode())
    except OSError as error:
        why = error.strerror or str(error)
        raise ToolError(
            f"the kernel does not connect to {subsystem.address} by NVMe/TCP: {why}; dmesg says more"
        ) from None


def _awaited(subsystem: Subsystem, root: Path) -> Connected:
    """The kernel looks for namespaces after it has connected, in its own time."""
    give_up_s = time.monotonic() + _APPEARS_S
    while (found := _devices(subsystem, root)) is None:
        if time.monotonic() > give_up_s:
            raise ToolError(f"the kernel connected to {subsystem.nqn} and has no block device of it; dmesg says more")
        time.sleep(_LOOK_S)
    give_up_s = time.monotonic() + _CHARACTER_S
    while found.character is None and time.monotonic() < give_up_s:  # it comes right after the block device
        time.sleep(_LOOK_S)
        found = _devices(subsystem, root) or found
    return found


def _devices(subsystem: Subsystem, root: Path) -> Connected | None:
    controllers = _ours(subsystem, root)
    if not controllers:
        return None
    for disk in block_devices.disks(root):
        # With multipath, /sys/block/*/device is the subsystem, and without it the controller. Both have these files.
        if not re.fullmatch(r"nvme\d+n\d+", disk.name) or text_of(disk.folder / "device/subsysnqn") != subsystem.nqn:
            continue
        if not disk.size_bytes:  # it is being made
            continue
        # A name alone is no proof: what is written to must have the drive's serial number and its size.
        if (serial := text_of(disk.folder / "device/serial")) != subsystem.serial:
            raise ToolError(f"{disk.name} has serial number '{serial}', expected '{subsystem.serial}': not used")
        if disk.size_bytes != subsystem.size_bytes:
            raise ToolError(f"{disk.name} has {disk.size_bytes} bytes, expected {subsystem.size_bytes}: not used")
        block = block_devices.node_of(disk, root)
        if block is not None:
            character = root / "dev" / f"ng{disk.name.removeprefix('nvme')}"
            return Connected(controllers[0], block, character if character.exists() else None)
    return None


def _ours(subsystem: Subsystem, root: Path) -> list[str]:
    """Controllers that are connected to the subsystem's name at the subsystem's address."""
    address, _, port = subsystem.address.rpartition(":")
    found = []
    for folder in entries(root / _CONTROLLERS):
        place = text_of(folder / "address").split(",")
        there = f"traddr={address}" in place and f"trsvcid={port}" in place
        if there and text_of(folder / "transport") == "tcp" and text_of(folder / "subsysnqn") == subsystem.nqn:
            found.append(folder.name)
    return found


def _disconnect(subsystem: Subsystem, root: Path) -> None:
    """ToolError where a controller stays."""
    _delete(subsystem, root)
    give_up_s = time.monotonic() + _GONE_S
    while left := _ours(subsystem, root):
        if time.monotonic() > give_up_s:
            raise ToolError(f"{left[0]} stays connected to {subsystem.nqn}; wanted: nvme disconnect -n {subsystem.nqn}")
        time.sleep(_LOOK_S)
        _delete(subsystem, root)


def _delete(subsystem: Subsystem, root: Path) -> None:
    for name in _ours(subsystem, root):
        with suppress(OSError):  # it is being deleted already
            (root / _CONTROLLERS / name / "delete_controller").write_text("1")
