"""A guest's first files: a busybox, kernel modules and a script, as the archive that a kernel unpacks (newc, cpio(5)).

It deliberately knows nothing of compression: the kernel takes an archive as it is.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

BUSYBOX = Path("/usr/bin/busybox")
"""Debian's busybox-static: the guest has no libraries."""

FOLDERS = ("bin", "dev", "proc", "sys", "mnt", "modules")

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
    insmod /modules/$module.ko || echo "GUEST: module $module cannot be loaded"
done
sh -eu /script
echo "GUEST: ended with $?"
poweroff -f
"""


def archive(script: str, modules: Sequence[Path]) -> bytes:
    """The archive of a guest that loads `modules` in this order, runs `script` and switches itself off."""
    files: dict[str, tuple[int, bytes]] = {
        "init": (0o755, INIT.encode()),
        "script": (0o644, script.encode()),
        "bin/busybox": (0o755, BUSYBOX.read_bytes()),
        "modules/order": (0o644, "\n".join(module.stem for module in modules).encode()),
    }
    files |= {f"modules/{module.name}": (0o644, module.read_bytes()) for module in modules}
    return b"".join(_entries(files))


def _entries(files: Mapping[str, tuple[int, bytes]]) -> Iterator[bytes]:
    for folder in FOLDERS:
        yield _entry(folder, stat.S_IFDIR | 0o755, b"")
    for name, (mode, content) in files.items():
        yield _entry(name, stat.S_IFREG | mode, content)
    yield _entry("TRAILER!!!", 0, b"")


def _entry(name: str, mode: int, content: bytes) -> bytes:
    """One file: thirteen numbers of eight digits, the name, the content, each filled to whole words."""
    numbers = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + name.encode() + b"\0"
    return _filled(head) + _filled(content)


def _filled(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 4)
