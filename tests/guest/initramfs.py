"""A guest's first files: a busybox, kernel modules, programs of the host with their libraries, and a script, as the
archive that a kernel unpacks (newc, cpio(5)).

It deliberately knows nothing of compression: the kernel takes an archive as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import kernel

BUSYBOX = Path("/usr/bin/busybox")
"""Debian's busybox-static: the guest has no libraries."""

FOLDERS = ("bin", "sbin", "dev", "etc", "proc", "sys", "tmp", "mnt", "modules")

INIT = """#!/bin/busybox sh
export PATH=/sbin:/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
    insmod /modules/$module || echo "GUEST: module $module cannot be loaded"
done
sh -eu /script
echo "GUEST: ended with $?"
poweroff -f
"""


def archive(script: str, modules: Sequence[Path], programs: Sequence[str] = ()) -> bytes:
    """The archive of a guest that loads `modules` in this order, runs `script` and switches itself off.

    `programs` of the host stand before busybox's own of the same name.
    """
    files: dict[str, tuple[int, bytes]] = {
        "init": (0o755, INIT.encode()),
        "script": (0o644, script.encode()),
        "bin/busybox": (0o755, BUSYBOX.read_bytes()),
        "modules/order": (0o644, "\n".join(map(_plain, modules)).encode()),
    }
    files |= {f"modules/{_plain(module)}": (0o644, kernel.content(module)) for module in modules}
    for program in programs:
        files |= {name: (0o755, path.read_bytes()) for name, path in _with_libraries(program).items()}
    return b"".join(_entries(files))


def _plain(module: Path) -> str:
    return module.name.removesuffix(".xz")


def find_program(name: str) -> str | None:
    """A program of the host, also one that is only on root's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _with_libraries(name: str) -> dict[str, Path]:
    """A program in /sbin, its libraries and their loader where it looks for them (ldd(1))."""
    program = find_program(name)
    if program is None:
        raise FileNotFoundError(f"{name} is not installed")
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", said)
    return {f"sbin/{name}": Path(program)} | {path.lstrip("/"): Path(path) for path in libraries}


def _entries(files: Mapping[str, tuple[int, bytes]]) -> Iterator[bytes]:
    of_files = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    for folder in sorted({*FOLDERS, *of_files}):  # a folder comes before what is in it
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
