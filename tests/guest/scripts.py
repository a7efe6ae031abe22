"""What guests do with the drive, in shell/: connect, make a filesystem, write, read back, compare, let go."""

from __future__ import annotations

import base64
import shlex
import struct
import zlib
from pathlib import Path
from typing import Any

HOST = "10.0.2.2"
"""The host's loopback, as a guest of qemu's user network sees it."""
HOST_NAME = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001"
"""Of the guest, as a host of NVMe over fabrics."""

SHELL = Path(__file__).parent / "shell"


def text(*names: str, **variables: object) -> str:
    """The scripts of these names in this order, behind the variables that they need and what all may call."""
    given = {"host": HOST, "host_name": HOST_NAME, **variables}
    assigned = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in given.items())
    return assigned + "".join((SHELL / f"{name}.sh").read_text() for name in ("disk", "network", *names))


def place(told: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """The variables for a drive that said this of itself."""
    return {f"{prefix}port": told["nvme_tcp"].rpartition(":")[2], f"{prefix}nqn": told["nqn"]}


def zonefs_super_block() -> str:
    """The head of a zonefs super block (Linux, fs/zonefs/zonefs.h), as mkzonefs writes it, in base64.

    What follows up to 4096 bytes is zero. Debian 12 has no mkzonefs.
    """
    magic, label, identifier = 0x5A4F4653, b"ioassay", bytes(range(16))
    fields = struct.pack("<64s16sQIII", label, identifier, 0, 0, 0, 0)
    whole = struct.pack("<II", magic, 0) + fields
    checksum = ~zlib.crc32(whole.ljust(4096, b"\0")) & 0xFFFFFFFF  # the kernel's crc32 leaves out the last inversion
    return base64.b64encode(struct.pack("<II", magic, checksum) + fields).decode()


def nbd_drives(small: dict[str, Any], large: dict[str, Any]) -> list[str]:
    """Arguments of the machine: NVMe drives on PCI, of blocks of 512 and 4096 bytes, that are NBD servers' blocks."""
    arguments = ["-nic", "none"]
    for name, told, block_bytes in (("small", small, 512), ("large", large, 4096)):
        path = told["nbd"].partition("socket=")[2]
        drive = f"file=nbd:unix:{path},format=raw,if=none,id={name},cache=none,discard=unmap"
        device = f"nvme,drive={name},serial={name},logical_block_size={block_bytes},physical_block_size={block_bytes}"
        arguments += ["-drive", drive, "-device", device]
    return arguments
