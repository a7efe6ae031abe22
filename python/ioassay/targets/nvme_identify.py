"""What an NVMe namespace says of its own allocation, by Identify Namespace (CNS 00h). Sends nothing that writes.

Only a namespace with thin provisioning (NSFEAT, bit 0) has to follow deallocation in its utilization (NUSE). Any other
may report its whole capacity at all times, or nothing of use, so its answer is not taken for evidence. Sources: NVM
Command Set Specification, Identify Namespace Data Structure; linux/nvme_ioctl.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_IOCTL_ID = 0x4E40  # NVME_IOCTL_ID: the namespace's identifier
_IOCTL_ADMIN = 0xC0484E41  # NVME_IOCTL_ADMIN_CMD
_IDENTIFY, _CNS_NAMESPACE = 0x06, 0x00
_COMMAND = struct.Struct("=BBHIIIQQII6III")  # struct nvme_passthru_cmd
_DATA_BYTES = 4096
_SIZES = struct.Struct("<QQQBBB")  # NSZE, NCAP, NUSE, NSFEAT, NLBAF, FLBAS
_FORMATS_AT = 128
_FORMAT_BYTES = 4
_THIN = 0x1
_PATIENCE_MS = 10_000
_NAME = re.compile(r"nvme\d+n\d+")

Ioctl = Callable[[int, int, Any], Any]


@dataclass(frozen=True)
class Utilization:
    """The answer of one namespace, in logical blocks."""

    blocks: int
    """NSZE: its size."""
    allocated: int
    """NUSE: blocks that were written and not deallocated since, where `thin`."""
    thin: bool
    block_bytes: int

    def proves_empty(self, size_bytes: int) -> bool:
        """Whether the answer is about a device of this size and says that none of its blocks is allocated."""
        return self.thin and self.allocated == 0 and 0 < self.blocks * self.block_bytes == size_bytes


def is_namespace(name: str) -> bool:
    """Whether a kernel name is that of a whole NVMe namespace."""
    return _NAME.fullmatch(name) is not None


def utilization(node: Path, ioctl: Ioctl | None = None) -> Utilization | None:
    """Ask the namespace behind `node`; None where it cannot be asked or its answer makes no sense."""
    ask = ioctl or fcntl.ioctl
    with suppress(OSError):
        handle = os.open(node, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return _read(_identify(handle, ask(handle, _IOCTL_ID, 0), ask))
        finally:
            os.close(handle)
    return None


def _identify(handle: int, identifier: int, ask: Ioctl) -> bytes:
    """The data structure of 4096 bytes. OSError where the driver or the drive refuses (a status of NVMe is EIO)."""
    data = ctypes.create_string_buffer(_DATA_BYTES)
    where = ctypes.addressof(data)
    words = (_CNS_NAMESPACE, 0, 0, 0, 0, 0)
    command = bytearray(
        _COMMAND.pack(_IDENTIFY, 0, 0, identifier, 0, 0, 0, where, 0, _DATA_BYTES, *words, _PATIENCE_MS, 0)
    )
    if ask(handle, _IOCTL_ADMIN, command):
        raise OSError("the drive refused Identify Namespace")
    return data.raw


def _read(data: bytes) -> Utilization | None:
    blocks, _, allocated, features, _, format_index = _SIZES.unpack_from(data)
    # Bits 6:5 are the upper ones of an index into more than 16 formats.
    index = format_index & 0xF | (format_index >> 5 & 0x3) << 4
    shift = data[_FORMATS_AT + _FORMAT_BYTES * index + 2]  # LBADS: the block's size as a power of two
    if not 9 <= shift <= 31:
        return None
    return Utilization(blocks, allocated, bool(features & _THIN), 1 << shift)
