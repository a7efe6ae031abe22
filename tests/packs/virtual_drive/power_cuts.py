"""A host that loses power together with the drive's file that it has mounted, for tests of what writes to it.

What writes is stopped at any point, the drive is cut, and ext4 is shut down as the godown of xfstests does, so that
nothing of what the host still knows reaches the drive. In this order: a shutdown writes the journal's superblock with
FUA, and by that flushes the drive.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ioassay.packs.virtual_drive import serving

from ...conftest import loop_on
from . import drives
from .drives import PATIENCE_S

CUTS = 20 if os.environ.get("IOASSAY_THOROUGH") else 6
DRIVE = ("--size", "128MiB", "--policy", "lru", "--buffer", "4MiB")
PAGE = 4096
SCRATCH_PAGES = 256
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
"""EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH: fs/ext4/ext4.h."""


@contextmanager
def served(folder: Path, *words: str) -> Iterator[dict[str, Any]]:
    """A drive as the file `drive` in the folder, and what it says of itself."""
    with drives.served(folder, "--transport", "fuse:drive", "--no-calibrate", *words) as drive:
        yield drive.told


def run(*argv: object, fails: bool = False, within_s: float = PATIENCE_S) -> str:
    """What a program said. Skips where it is not installed."""
    if not shutil.which(str(argv[0])):
        pytest.skip(f"needs {argv[0]}")
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=within_s)
    assert bool(done.returncode) == fails, (argv, done.stdout, done.stderr)
    return done.stdout


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """The file system on the drive's file; its journal is replayed when it was cut off."""
    point = folder / "mounted"
    point.mkdir(exist_ok=True)
    with loop_on(folder / "drive", "--direct-io=on") as block:
        run("mount", "-t", "ext4", block, point)
        try:
            yield point
        finally:
            run("umount", "--lazy", point)  # somebody may be counting its free space just now


def cut(point: Path, told: dict[str, Any]) -> int:
    """Drive and host lose power: how many pages were lost."""
    descriptor = os.open(point, os.O_RDONLY)
    try:
        answer: int = serving.ask(Path(told["stats"]), "power-cut")["lost_pages"]
        fcntl.ioctl(descriptor, _SHUTDOWN, _NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
        return answer
    finally:
        os.close(descriptor)


def acknowledged_until_cut(point: Path, told: dict[str, Any], argv: Sequence[object], count: int) -> tuple[int, int]:
    """Runs a program that writes, and cuts when it has printed a number `count` times, each for what it knows to be
    durable: the last number and 1, and lost pages.
    """
    words = [sys.executable, *map(str, argv)]
    with other_work(point) as await_more, subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        try:
            lines = [writer.stdout.readline() for _ in range(count)]
            assert all(lines), "the writer ended"
            writer.send_signal(signal.SIGSTOP)
            os.waitpid(writer.pid, os.WUNTRACED)  # all its threads
            await_more()  # the last of its flushes may have ended just now, with nothing written since
            lost = cut(point, told)
        finally:
            writer.kill()
            rest = writer.stdout.readlines()  # not communicate(), which passes by what was read ahead
    return int([*lines, *rest][-1]) + 1, lost


@contextmanager
def other_work(point: Path) -> Iterator[Callable[[], None]]:
    """Pages that are written all the time and never flushed, so that a cut finds some in the drive's buffer.

    What it yields waits until a page is written that was begun after the call. Ends by itself at the cut.
    """
    descriptor = os.open(point / "scratch", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, PAGE)
    for number in range(os.fstat(descriptor).st_size // PAGE, SCRATCH_PAGES):
        os.pwrite(descriptor, page, number * PAGE)  # so that later writes change no extents: those go by the journal
    os.fsync(descriptor)
    ended, written = threading.Event(), threading.Semaphore(0)

    def write() -> None:
        with suppress(OSError):  # the cut
            while not ended.is_set():
                page[:16] = os.urandom(16)  # the same content again would be no loss
                os.pwrite(descriptor, page, random.randrange(SCRATCH_PAGES) * PAGE)
                written.release()

    def await_more() -> None:
        while written.acquire(blocking=False):
            pass
        for _ in range(2):  # the first of them may have been begun before
            assert written.acquire(timeout=PATIENCE_S), "nothing is written any more"

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield await_more
    finally:
        ended.set()
        thread.join()
        os.close(descriptor)


def formatted(folder: Path) -> None:
    """The drive's file gets an ext4."""
    if shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip("needs mkfs.ext4 (package e2fsprogs)")
    run("mkfs.ext4", "-q", "-F", folder / "drive")
