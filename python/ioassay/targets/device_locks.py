"""Exclusive claims on devices during a run: nobody can mount, swap on or build on what is being loaded.

A claim is an open with O_EXCL (open(2)); the kernel's own users take one too, other programs (fio) need none and are
not disturbed. Claims are counted in this process, so that several targets may share a device.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ioassay.errors import SafetyRefusal
from ioassay.host.block_devices import Number

_held: dict[Number, tuple[int, int]] = {}


def take(number: Number, path: Path) -> None:
    """Claim a device, or count one more user of a claim. SafetyRefusal when somebody else was faster."""
    if number in _held:
        handle, users = _held[number]
        _held[number] = (handle, users + 1)
        return
    try:
        # For reading: the close of a descriptor open for writing makes udev probe the device again.
        handle = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        raise SafetyRefusal(f"{path}: refused, nothing was written: something took it into use just now") from None
    if os.fstat(handle).st_rdev != os.makedev(*number):
        os.close(handle)
        raise SafetyRefusal(f"{path}: refused, nothing was written: it leads to another device since it was looked at")
    _held[number] = (handle, 1)


def give_back(number: Number) -> None:
    """Give back one use of a claim; the last one ends it."""
    handle, users = _held.pop(number)
    if users > 1:
        _held[number] = (handle, users - 1)
    else:
        os.close(handle)


def held() -> list[Number]:
    """The devices that this process claims."""
    return list(_held)
