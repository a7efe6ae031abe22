"""What processes have open, by /proc: the files' paths and identities as the kernel keeps them, and what waits in them.

A file's device is that of its filesystem (of a block device, its own number), its inode that of the open file: what
stat(2) says of files on btrfs or overlayfs is another one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

Identity = tuple[str, int]
"""'major:minor' and inode."""


@dataclass
class OpenFiles:
    """What a number of processes have open."""

    paths: dict[Identity, str] = field(default_factory=dict)
    descriptors: int = 0
    """Of files with a path."""
    uring_requests: int = 0
    """Submitted to io_uring and not completed."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Processes whose descriptors may not be looked at, and why."""


def read(pids: Iterable[int], root: Path = Path("/")) -> OpenFiles:
    """What the processes have open now; those that have ended have nothing."""
    found, rings = OpenFiles(), set[int]()
    for pid in pids:
        _read_process(found, rings, pid, root / f"proc/{pid}")
    return found


def _read_process(found: OpenFiles, rings: set[int], pid: int, process: Path) -> None:
    try:
        numbers = os.listdir(process / "fd")
        devices = _devices(process)
    except (FileNotFoundError, ProcessLookupError):
        return
    except OSError as error:
        found.unreadable[pid] = error.strerror or str(error)
        return
    for number in numbers:
        try:
            link = str((process / "fd" / number).readlink())
            told = _fields((process / "fdinfo" / number).read_text())
            status = (process / "fd" / number).stat() if link.startswith("/") else None
        except OSError:
            continue  # closed meanwhile
        if status is not None:
            found.paths.setdefault(_identity(status, told, devices), link)
            found.descriptors += 1
        elif link == "anon_inode:[io_uring]" and told.get("ino") not in rings:
            rings.add(told.get("ino", 0))
            found.uring_requests += max(told.get("CachedSqHead", 0) - told.get("CachedCqTail", 0), 0)


def _identity(status: os.stat_result, told: dict[str, int], devices: dict[int, str]) -> Identity:
    inode = told.get("ino", status.st_ino)  # since Linux 5.14
    if stat.S_ISBLK(status.st_mode):
        return _number(status.st_rdev), inode
    return devices.get(told.get("mnt_id", -1), _number(status.st_dev)), inode


def _number(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"


def _devices(process: Path) -> dict[int, str]:
    """Devices of the filesystems that the process can see, by the ids of their mounts (proc_pid_mountinfo(5))."""
    lines = (line.split(maxsplit=3) for line in (process / "mountinfo").read_text(errors="replace").splitlines())
    return {int(words[0]): words[2] for words in lines if len(words) > 3}


def _fields(text: str) -> dict[str, int]:
    """The numbers of a file of /proc/<pid>/fdinfo (proc_pid_fdinfo(5))."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs if value.strip().isdecimal()}
