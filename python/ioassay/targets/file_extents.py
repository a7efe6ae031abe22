"""Which parts of a file were never written: holes, and extents that are allocated but unwritten.

Reads of those are answered by the file system without any disk. FIEMAP shows both (Linux
Documentation/filesystems/fiemap.rst). SEEK_HOLE (lseek(2)), for file systems without FIEMAP, takes unwritten extents
for data once they have been read into the page cache, so it is only the second choice.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_FS_IOC_FIEMAP = 0xC020660B  # linux/fs.h
_HEAD = struct.Struct("=QQIIII")  # start, length, flags, mapped extents, room for extents, reserved
_EXTENT = struct.Struct("=QQQQQIIII")  # logical, physical, length, 2 reserved, flags, 3 reserved
_BATCH = 512
_LAST = 0x1
_UNWRITTEN = 0x800
_NO_FIEMAP = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)


def first_unwritten_bytes(path: Path, end_bytes: int | None = None) -> int | None:
    """Offset of the first byte before `end_bytes` (by default the file's end) that was never written, or None."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(handle).st_size
        end = size_bytes if end_bytes is None else min(end_bytes, size_bytes)
        found = _first_gap(handle, end) if end else None
    finally:
        os.close(handle)
    return found if found is not None and found < end else None


def _first_gap(handle: int, end: int) -> int:
    """Where the written part of a file that begins at its first byte ends."""
    reached = 0
    try:
        for logical, length, flags in _extents(handle, end):
            if logical > reached or flags & _UNWRITTEN:
                return reached
            reached = logical + length
    except OSError as error:
        if error.errno not in _NO_FIEMAP:
            raise
        return os.lseek(handle, 0, os.SEEK_HOLE)
    return reached


def _extents(handle: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Logical offset, length (bytes) and flags of each extent before `end`, in their order."""
    start = 0
    while start < end:
        buffer = bytearray(_HEAD.size + _BATCH * _EXTENT.size)
        _HEAD.pack_into(buffer, 0, start, end - start, 0, 0, _BATCH, 0)
        fcntl.ioctl(handle, _FS_IOC_FIEMAP, buffer)
        mapped = _HEAD.unpack_from(buffer)[3]
        if mapped == 0:
            return
        for index in range(mapped):
            logical, _, length, _, _, flags, *_ = _EXTENT.unpack_from(buffer, _HEAD.size + index * _EXTENT.size)
            yield logical, length, flags
            if flags & _LAST:
                return
            start = logical + length
