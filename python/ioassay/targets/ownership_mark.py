"""How ioassay knows the files that it made, so that it overwrites and removes no others.

A file of ours carries the extended attribute `user.ioassay`, which dies with the file. It names the file's inode, so
a copy does not inherit it. Where a file system keeps no such attributes, a hidden file `.<name>.ioassay` beside it
names inode and time of birth instead, so that another file of the same name is not taken for ours.
A file that a tool is about to make is announced beforehand (`expect`): a kill cannot leave it unknown.
Inode and attribute stay when somebody copies other data over a file of ours. Therefore a mark that nobody is at work
under is settled with the time of the last change; a change since then makes the file somebody else's.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

ATTRIBUTE = "user.ioassay"
_NOT_KEPT = (errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.E2BIG, errno.ENOSYS)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CLOCK_REALTIME_COARSE = 5  # linux/time.h
# statx(2) and struct statx of linux/stat.h
_AT_FDCWD = -100
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_BTIME_OFFSET = 80


def read(path: Path) -> int | None:
    """How many bytes of a file of ours, from its start, have been filled and flushed; None of one that is not ours."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    note = _noted(path, status)
    if note is not None and note.get("settled_ns", status.st_mtime_ns) == status.st_mtime_ns:
        written_bytes = note.get("written_bytes")
        return written_bytes if isinstance(written_bytes, int) else None
    if note is None:  # ours as well: born after its announcement, and in the same run of the machine
        announced, birth_ns = _sidecar(path), time_of_birth_ns(path)
        since_ns = announced.get("expected_since_ns")
        if since_ns is not None and birth_ns is not None and birth_ns > since_ns:
            return 0 if announced["boot_id"] == _BOOT_ID.read_text().strip() else None
    return None


def was_changed(path: Path) -> bool:
    """Whether ioassay made this file and something else has changed it since."""
    return path.is_file() and _noted(path, path.lstat()) is not None and read(path) is None


def write(path: Path, written_bytes: int = 0) -> None:
    """Make a file ours, to be worked on. What counts as written must have been flushed before."""
    _write(path, {"inode": path.lstat().st_ino, "written_bytes": written_bytes})


def settle(path: Path) -> None:
    """Say that ioassay has done with a file of ours: who changes it from now on makes it his.

    Nothing happens to a file that is not ours. Where it cannot be noted, the mark stays as it is.
    """
    written_bytes = read(path)
    with suppress(OSError):
        if written_bytes is not None:
            status = path.lstat()
            note = {"inode": status.st_ino, "written_bytes": written_bytes, "settled_ns": status.st_mtime_ns}
            _write(path, note)


def _noted(path: Path, status: os.stat_result) -> dict[str, Any] | None:
    """What is noted of this very file; None when nothing is."""
    attribute, note = {}, _sidecar(path)
    with suppress(OSError):
        attribute = _note(os.getxattr(path, ATTRIBUTE, follow_symlinks=False))
    if attribute.get("inode") == status.st_ino:
        return attribute
    # An inode's number is given to another file as soon as it is free; its time of birth is not.
    key, age = ("birth_ns", time_of_birth_ns(path)) if "birth_ns" in note else ("change_ns", status.st_mtime_ns)
    return note if note.get("inode") == status.st_ino and note[key] == age else None


def _write(path: Path, note: Mapping[str, Any]) -> None:
    try:
        os.setxattr(path, ATTRIBUTE, json.dumps(note).encode(), follow_symlinks=False)
        _sidecar_of(path).unlink(missing_ok=True)
    except OSError as error:
        if error.errno not in _NOT_KEPT:
            raise
        birth_ns = time_of_birth_ns(path)
        age = {"change_ns": path.lstat().st_mtime_ns} if birth_ns is None else {"birth_ns": birth_ns}
        _write_sidecar(path, {**note, **age})


def expect(path: Path) -> None:
    """Announce that a tool of ours is about to make (or make anew, or change) this file."""
    if (written_bytes := read(path)) is not None:
        write(path, written_bytes)
    since_ns = time.time_ns()
    _write_sidecar(path, {**_sidecar(path), "expected_since_ns": since_ns, "boot_id": _BOOT_ID.read_text().strip()})
    # File systems stamp new files with a clock that lags by up to a tick: what is made from now on is stamped later.
    while time.clock_gettime_ns(_CLOCK_REALTIME_COARSE) <= since_ns:
        time.sleep(0.001)


def files(path: Path) -> list[Path]:
    """A file of ours and what is noted beside it, as far as they are there: what is to be removed of it."""
    return [part for part in (path, _sidecar_of(path)) if part.is_file()] if read(path) is not None else []


def forget(path: Path) -> None:
    """Remove what is noted beside a file, after the file itself has gone."""
    with suppress(NotADirectoryError):
        _sidecar_of(path).unlink(missing_ok=True)


def _sidecar(path: Path) -> dict[str, Any]:
    try:
        return _note(_sidecar_of(path).read_bytes())
    except OSError:
        return {}


def _note(text: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        note = json.loads(text)
        if isinstance(note, dict):
            return note
    return {}


def _sidecar_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.ioassay")


def _write_sidecar(path: Path, note: Mapping[str, Any]) -> None:
    sidecar = _sidecar_of(path)
    draft = sidecar.with_name(f"{sidecar.name}.{os.getpid()}")
    with draft.open("w") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(sidecar)


def time_of_birth_ns(path: Path) -> int | None:
    """When the file was made; None where the file system does not know, and `read` knows no file that was announced.

    Python's stat does not tell on Linux.
    """
    statx = getattr(ctypes.CDLL(None), "statx", None)
    if statx is None:
        return None
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, answer) != 0:
        return None
    (mask,) = struct.unpack_from("=I", answer.raw)
    seconds, nanoseconds = struct.unpack_from("=qI", answer.raw, _BTIME_OFFSET)
    return int(seconds * 1_000_000_000 + nanoseconds) if mask & _STATX_BTIME else None
