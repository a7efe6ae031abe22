"""Folders of served drives' control sockets, below the folder for temporary files: made, and removed with their drives.

A killed drive leaves its folder behind; the next drive that starts removes it, and `ioassay doctor --restore` does. The
file `owner` names the process and its start time, and the drive holds a lock on it while it lives. Both must say that
the owner is gone: process numbers mean nothing in another namespace, and a lock nothing on a file system without locks.
Folders of other users, links, and folders with anything else in them stay.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ioassay.host import settings

_PREFIX = "ioassay-device-"
_OWNER, _SOCKET, NBD = "owner", "stats", "nbd"
_MOST_BYTES = 4096


@contextmanager
def socket_of_this_process() -> Iterator[Path]:
    """A path for the control socket in a new folder, which goes at the end. Removes leftovers first."""
    remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        # The lock says that the drive lives; the file has its name only once it is locked.
        unnamed = Path(name, f"{_OWNER}.new")
        lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.write(lock, json.dumps(asdict(settings.this_process())).encode())
            unnamed.rename(Path(name, _OWNER))
            yield Path(name) / _SOCKET
        finally:
            os.close(lock)


def remove_leftovers() -> list[str]:
    """Remove the folders whose drive is gone; a sentence for each."""
    folders = sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))
    return [f"{folder}: removed, the folder of a drive that was killed" for folder in folders if _removed(folder)]


def _removed(path: Path) -> bool:
    """Remove a folder if its drive is gone; whether it was."""
    opened: list[int] = []
    try:
        opened.append(folder := os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
        names = os.listdir(folder)
        if os.fstat(folder).st_uid != os.geteuid() or not {*names} <= {_OWNER, _SOCKET, NBD}:
            return False
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        opened.append(record := os.open(_OWNER, flags, dir_fd=folder))
        fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if settings.is_alive(settings.Owner(**json.loads(os.read(record, _MOST_BYTES)))):
            return False
        for name in sorted(names, key=_OWNER.__eq__):  # `owner` last: without it nobody removes the rest
            os.unlink(name, dir_fd=folder)
        path.rmdir()
        return True
    except (OSError, ValueError, TypeError):
        return False  # it goes just now, lives, or is none of ours
    finally:
        for descriptor in reversed(opened):
            os.close(descriptor)
