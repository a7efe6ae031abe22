"""Power cuts under real programs: what was acknowledged as durable is there afterwards, what was not may be gone.

The host goes with the drive. What writes is stopped at any point, the drive is cut, and ext4 is shut down as the godown
of xfstests does, so that nothing of what the host still knows reaches the drive. In this order: a shutdown writes the
journal's superblock with FUA, and by that flushes the drive.
"""

from __future__ import annotations

import ctypes.util
import fcntl
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ioassay.virtual_drive import control

KEYS = Path(__file__).parent / "rocksdb_keys.py"
PATIENCE_S = 60
CUTS = 20 if os.environ.get("IOASSAY_THOROUGH") else 6
PAGE = 4096
SCRATCH_PAGES = 256
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
"""EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH: fs/ext4/ext4.h."""
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(os.geteuid()), reason="needs root to mount a file without fusermount3"),
]


@contextmanager
def served(folder: Path, *words: str) -> Iterator[dict[str, Any]]:
    """A drive as the file `drive` in the folder, and what it says of itself."""
    argv = [sys.executable, "-m", "ioassay", "device", "serve", "--json", "--with-parent", str(os.getpid())]
    argv += ["--transport", "fuse:drive", "--no-calibrate", *words]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            process.kill()


def run(*argv: object) -> str:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """The file system on the drive's file; its journal is replayed when it was cut off."""
    point = folder / "mounted"
    point.mkdir(exist_ok=True)
    block = run("losetup", "--find", "--show", "--direct-io=on", folder / "drive").strip()
    try:
        run("mount", "-t", "ext4", block, point)
        try:
            yield point
        finally:
            run("umount", point)
    finally:
        run("losetup", "--detach", block)


def cut(point: Path, told: dict[str, Any]) -> int:
    """Drive and host lose power: how many pages were lost."""
    descriptor = os.open(point, os.O_RDONLY)
    try:
        answer: int = control.ask(Path(told["stats"]), "power-cut")["lost_pages"]
        fcntl.ioctl(descriptor, _SHUTDOWN, _NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
        return answer
    finally:
        os.close(descriptor)


def acknowledged_until_cut(point: Path, told: dict[str, Any], first: int, count: int, way: str) -> tuple[int, int]:
    """Writes keys from `first` on and cuts when `count` are acknowledged: the next key's number, and lost pages."""
    argv = [sys.executable, str(KEYS), "write", str(point / "db"), str(first), way]
    with other_work(point) as await_more, subprocess.Popen(argv, stdout=subprocess.PIPE) as writer:
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


def missing(point: Path, count: int) -> list[int]:
    return [int(line) for line in run(sys.executable, KEYS, "missing", point / "db", count).split()]


@pytest.fixture
def rocksdb() -> None:
    if ctypes.util.find_library("rocksdb") is None:
        pytest.skip("needs librocksdb (package rocksdb-tools)")
    if shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip("needs mkfs.ext4 (package e2fsprogs)")


def formatted(folder: Path) -> None:
    run("mkfs.ext4", "-q", "-F", folder / "drive")


DRIVE = ("--size", "128MiB", "--policy", "lru", "--buffer", "4MiB")


@pytest.mark.rocksdb
@pytest.mark.slow
@pytest.mark.usefixtures("rocksdb")
def test_rocksdb_has_every_acknowledged_key_after_all_cuts(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    known, lost = 0, 0
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for _ in range(CUTS):
            with mounted(tmp_path) as point:
                assert missing(point, known) == []
                known, pages = acknowledged_until_cut(point, told, known, chance.randint(1, 200), "sync")
                lost += pages
        with mounted(tmp_path) as point:
            assert missing(point, known) == []
        counted = control.ask(Path(told["stats"]), "stats")["stats"]
    print(f"{known} keys acknowledged, {lost} pages lost")
    assert counted["power_cuts"] == CUTS
    assert lost > 0  # the drive had something to lose


@pytest.mark.rocksdb
@pytest.mark.usefixtures("rocksdb")
def test_keys_that_were_not_synced_are_found_missing(tmp_path: Path) -> None:
    """So the test above sees what is lost. Several times, as another program may sync the whole machine."""
    gone, known = [], 0
    with served(tmp_path, *DRIVE) as told:
        formatted(tmp_path)
        for _ in range(5):
            with mounted(tmp_path) as point:
                known, _ = acknowledged_until_cut(point, told, known, 20, "no-sync")
            with mounted(tmp_path) as point:
                if gone := missing(point, known):
                    break
    assert gone != []


def test_of_writes_to_the_file_those_with_dsync_or_before_a_flush_stay(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with served(tmp_path, "--size", "16MiB", "--policy", "lru", "--buffer", "1MiB") as told:
        plain = os.open(tmp_path / "drive", os.O_RDWR)
        synced = os.open(tmp_path / "drive", os.O_RDWR | os.O_DSYNC)
        try:
            for value in range(1, 6):
                pages = chance.sample(range(4096), 90)
                flushed, durable, volatile = pages[:30], pages[30:60], pages[60:]
                before = {page: os.pread(plain, PAGE, page * PAGE) for page in volatile}
                for page in flushed:
                    os.pwrite(plain, bytes([value]) * PAGE, page * PAGE)
                os.fdatasync(plain)
                for page, other in zip(durable, volatile, strict=True):
                    os.pwrite(synced, bytes([value]) * PAGE, page * PAGE)
                    os.pwrite(plain, bytes([value]) * PAGE, other * PAGE)
                lost = control.ask(Path(told["stats"]), "power-cut")["lost_pages"]
                after = {page: os.pread(plain, PAGE, page * PAGE) for page in pages}
                assert all(after[page] == bytes([value]) * PAGE for page in (*flushed, *durable))
                assert all(after[page] in (before[page], bytes([value]) * PAGE) for page in volatile)
                assert lost == sum(after[page] != bytes([value]) * PAGE for page in volatile)
        finally:
            os.close(synced)
            os.close(plain)
