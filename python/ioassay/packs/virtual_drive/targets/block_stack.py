"""What is laid on the file of a drive: a loop device, a file system on that; and the folder that all of it lies in.

None of it outlives the runner, however that ends: a loop device goes with its last user (LO_FLAGS_AUTOCLEAR), and the
folder with its mounts is cleared by a process of its own where the runner is killed. What is served is not here.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ioassay.errors import ToolError
from ioassay.process import supervisor

_POINT = "mounted"
# Without it ext4 initialises its tables in the background once it is mounted, which is when trials run (mke2fs(8)).
_AT_ONCE = "lazy_itable_init=0,lazy_journal_init=0"
_MADE = {"ext4": ["-q", "-F", "-E", _AT_ONCE], "xfs": ["-q", "-f"], "btrfs": ["-q", "-f"]}
_KEEPING = {"ext4": ["-q", "-F", "-E", f"{_AT_ONCE},nodiscard"], "xfs": ["-q", "-f", "-K"], "btrfs": ["-q", "-f", "-K"]}
_PATIENCE_S = 60.0
_CLEARED_S = 15.0
"""A killed tool's last requests end first."""
# linux/loop.h: struct loop_config is fd, block size, struct loop_info64 of 232 bytes, and 64 reserved bytes.
_LOOP_CONFIGURE, _LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
_AUTOCLEAR, _DIRECT_IO = 4, 16
_CONFIG = "=II5Q4I64s112x64x"
_NAME_BYTES = 63
_TRIES = 16
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8  # umount2(2)


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A new folder that is cleared in the end, also where this process is killed. ToolError: something stays in it."""
    with supervisor.temporary_folder(prefix, clear=_clear) as made:
        yield made
    if made.exists():
        raise ToolError(f"{made}: cannot be removed: something in it is still in use; unmount it and remove it")


@contextmanager
def looped(file: Path, block_bytes: int) -> Iterator[Path]:
    """A loop device on a file, by direct I/O, with blocks of that size. ToolError where there is none to be had."""
    try:
        handle, device = _attached(file, block_bytes)
    except OSError as error:
        raise ToolError(f"a loop device on the virtual drive failed: {error.strerror}") from None
    try:
        yield device
    finally:
        os.close(handle)


@contextmanager
def mounted(block: Path, filesystem: str, within: Path, *, discard: bool = True) -> Iterator[Path]:
    """A new file system on a device, mounted in that folder. ToolError with what the tools said.

    Unless it may `discard`, what the device holds stays as it is: a drive that was trimmed from end to end is as new.
    """
    how = (_MADE if discard else _KEEPING)[filesystem]
    _run([f"mkfs.{filesystem}", *how, str(block)], f"an {filesystem} file system")
    point = within / _POINT
    point.mkdir()
    _run(["mount", "-t", filesystem, str(block), str(point)], "the mount")
    try:
        yield point
    finally:
        if supervisor.capture(["umount", str(point)], timeout_s=_PATIENCE_S).exit_code:
            _detach(point)  # a drive that was killed, or a program that is still in it


def _attached(file: Path, block_bytes: int) -> tuple[int, Path]:
    """A free loop device that is set up, held open: it is given back with its last descriptor."""
    handle = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        name = os.fsencode(file)[:_NAME_BYTES]
        config = struct.pack(_CONFIG, handle, block_bytes, *[0] * 8, _AUTOCLEAR | _DIRECT_IO, name)
        for _ in range(_TRIES):
            device = Path(f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}")
            held = os.open(device, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(held, _LOOP_CONFIGURE, config)
                return held, device
            except OSError as error:
                os.close(held)
                if error.errno != errno.EBUSY:  # somebody was faster
                    raise
        raise OSError(errno.EBUSY, "all that were free were taken by others")
    finally:
        os.close(control)
        os.close(handle)


def _clear(made: Path) -> None:
    """Unmount what is mounted in the folder, and remove it; only what lies in itself, whatever stays mounted."""
    give_up_s = time.monotonic() + _CLEARED_S
    while made.exists():
        with suppress(OSError):
            for entry in made.iterdir():
                _detach(entry)
                entry.rmdir() if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            made.rmdir()
        if time.monotonic() > give_up_s:
            return
        time.sleep(0.01)


def _detach(point: Path) -> None:
    """Unmount, as soon as nobody uses it; nothing where nothing is mounted, or where that takes root."""
    ctypes.CDLL(None).umount2(os.fsencode(point), _MNT_DETACH | _UMOUNT_NOFOLLOW)


def _run(argv: Sequence[str], what: str) -> None:
    done = supervisor.capture(argv, timeout_s=_PATIENCE_S)
    if done.timed_out:
        raise ToolError(f"{what} on the virtual drive was not made within {_PATIENCE_S:.0f} s: {' '.join(argv)}")
    if done.exit_code:
        raise ToolError(f"{what} on the virtual drive failed: {(done.stderr or done.stdout).strip()[:200]}")
