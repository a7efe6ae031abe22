"""The FUSE file through the page cache: whatever way the content changes, no way reads what it was before.

The file is opened with direct I/O, but splice, sendfile and private mappings read through the page cache.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import signal
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ioassay.virtual_drive import control

from ..cli.drives import PATIENCE_S, Drive, served
from .nbd import TRIM, WRITE, WRITE_ZEROES, Client

PAGE = 4096
SIZE = 4 << 20
WORDS = ("--size", str(SIZE), "--no-calibrate", "--transport", "nbd:unix:a", "--transport", "fuse:file")
PUNCH_HOLE, KEEP_SIZE = 2, 1

pytestmark = pytest.mark.root


def page_of(value: int) -> bytes:
    return value.to_bytes(4, "little") * (PAGE // 4)


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


class Paths:
    """All ways to one drive, each with its name."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.client = client
        self.path = folder / "file"
        self.file = os.open(self.path, os.O_RDWR)
        self.direct = os.open(self.path, os.O_RDWR | os.O_DIRECT)
        self.mapped = mmap.mmap(self.file, SIZE, mmap.MAP_PRIVATE, mmap.PROT_READ)
        self.buffer = mmap.mmap(-1, PAGE)
        self.readers: dict[str, Callable[[int], bytes]] = {
            "nbd": lambda at: client.read(at, PAGE),
            "pread": lambda at: os.pread(self.file, PAGE, at),
            "direct": self._direct,
            "splice": self._splice,
            "sendfile": self._sendfile,
            "mapping": lambda at: self.mapped[at : at + PAGE],
            "new mapping": self._new_mapping,
        }
        self.writers: dict[str, Callable[[int, bytes], object]] = {
            "nbd": client.write,
            "pwrite": lambda at, data: os.pwrite(self.file, data, at),
            "direct": self._write_direct,
            "part": self._write_part,
        }
        self.zeroers: dict[str, Callable[[int], object]] = {
            "nbd trim": lambda at: client.call(TRIM, at, PAGE),
            "nbd zeroes": lambda at: client.call(WRITE_ZEROES, at, PAGE),
            "hole": self._punch,
        }

    def close(self) -> None:
        self.mapped.close()
        os.close(self.file)
        os.close(self.direct)

    def _direct(self, at: int) -> bytes:
        assert os.preadv(self.direct, [self.buffer], at) == PAGE
        return self.buffer[:]

    def _splice(self, at: int) -> bytes:
        with pipe() as (reader, writer):
            assert os.splice(self.file, writer, PAGE, offset_src=at) == PAGE
            return os.read(reader, PAGE)

    def _sendfile(self, at: int) -> bytes:
        with pipe() as (reader, writer):
            assert os.sendfile(writer, self.file, at, PAGE) == PAGE
            return os.read(reader, PAGE)

    def _new_mapping(self, at: int) -> bytes:
        with mmap.mmap(self.file, PAGE, mmap.MAP_PRIVATE, mmap.PROT_READ, offset=at) as mapped:
            return mapped[:]

    def _write_direct(self, at: int, data: bytes) -> None:
        self.buffer[:] = data
        assert os.pwritev(self.direct, [self.buffer], at) == PAGE

    def _write_part(self, at: int, data: bytes) -> None:
        """In two writes that are not whole blocks."""
        for start, end in ((0, 1001), (1001, PAGE)):
            os.pwrite(self.file, data[start:end], at + start)

    def _punch(self, at: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        offsets = ctypes.c_int64(at), ctypes.c_int64(PAGE)
        assert libc.fallocate(self.file, PUNCH_HOLE | KEEP_SIZE, *offsets) == 0, os.strerror(ctypes.get_errno())


@contextmanager
def paths_to(folder: Path, *words: str) -> Iterator[tuple[Drive, Paths]]:
    with served(folder, *WORDS, *words) as drive, Client(folder / "a") as client:
        paths = Paths(folder, client)
        try:
            yield drive, paths
        finally:
            paths.close()


def test_hosts_are_told_the_page_size(tmp_path: Path) -> None:
    with served(tmp_path, *WORDS, "--set", "page=16KiB"):
        assert (tmp_path / "file").stat().st_blksize == 16384


def test_what_one_path_changes_all_others_read(tmp_path: Path) -> None:
    value = 0
    with paths_to(tmp_path) as (_, paths):
        for writer, write in paths.writers.items():
            for before in paths.readers:
                for after in paths.readers:
                    value += 1
                    at = value % 64 * PAGE
                    paths.readers[before](at)  # cached, where this way caches
                    write(at, page_of(value))
                    assert paths.readers[after](at) == page_of(value), f"{before}, then {writer}, then {after}"


def test_what_one_path_discards_all_others_read_as_zeroes(tmp_path: Path) -> None:
    with paths_to(tmp_path) as (_, paths):
        for zeroer, zero in paths.zeroers.items():
            for name, read in paths.readers.items():
                paths.client.write(0, page_of(7))
                assert read(0) == page_of(7)
                zero(0)
                assert read(0) == bytes(PAGE), f"{zeroer}, then {name}"


def test_what_a_power_cut_takes_no_path_reads_any_more(tmp_path: Path) -> None:
    with paths_to(tmp_path, "--policy", "lru", "--buffer", "1MiB") as (drive, paths):
        stats = Path(drive.told["stats"])
        for name, read in paths.readers.items():
            paths.client.write(0, page_of(1))
            paths.client.flush()
            paths.client.write(0, page_of(2))
            assert read(0) == page_of(2)
            assert control.ask(stats, "power-cut", keep_connections=True)["lost_pages"] == 1
            assert read(0) == page_of(1), name


def test_no_reader_sees_a_value_older_than_one_that_was_answered(tmp_path: Path) -> None:
    """Writes over NBD, without a pause, beside readers through the page cache."""
    confirmed, last, wrong = [0], 300, list[str]()
    with paths_to(tmp_path, "--set", "program_us=100") as (_, paths):
        paths.client.write(0, page_of(0))

        def watch(name: str) -> None:
            while confirmed[0] < last:
                least = confirmed[0]
                content = paths.readers[name](0)
                seen = set(array("I", content))
                if min(seen) < least or (len(seen) > 1 and "mapping" not in name):  # a mapping changes while it is read
                    wrong.append(f"{name} saw {sorted(seen)} after {least}")

        watchers = [threading.Thread(target=watch, args=(name,)) for name in ("splice", "mapping", "new mapping")]
        for watcher in watchers:
            watcher.start()
        try:
            for value in range(1, last + 1):
                paths.client.write(0, page_of(value))
                confirmed[0] = value
        finally:
            confirmed[0] = last
            for watcher in watchers:
                watcher.join(PATIENCE_S)
    assert wrong == []


def test_what_is_read_again_through_the_page_cache_is_counted(tmp_path: Path) -> None:
    with paths_to(tmp_path) as (drive, paths):
        for name in ("splice", "sendfile", "mapping"):
            before = reads(drive)
            deadline = time.monotonic() + PATIENCE_S
            while reads(drive) < before + 5:
                assert time.monotonic() < deadline, f"{name}: what is read again is not counted"
                paths.readers[name](0)
                time.sleep(0.01)


def reads(drive: Drive) -> int:
    return int(control.ask(Path(drive.told["stats"]), "stats")["stats"]["reads"]["commands"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_drive_that_ends_while_the_page_cache_waits_leaves_nobody_waiting(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A read of 16 s fills the page cache, and what it reads changes meanwhile: to drop its pages the kernel waits for
    the read, for which nobody is left when the drive ends.
    """
    ended, slow = list[int](), ("--set", "read_us=1000000", "--set", "elements=1")
    with served(tmp_path, *WORDS, *slow) as drive, Client(tmp_path / "a") as client:
        file = os.open(tmp_path / "file", os.O_RDONLY)

        def fill() -> None:
            with pipe() as (_, writer):
                try:
                    ended.append(os.splice(file, writer, 16 * PAGE, offset_src=0))
                except OSError as error:
                    ended.append(-(error.errno or 0))

        reader = threading.Thread(target=fill, daemon=True)
        reader.start()
        in_flight(drive, 1)
        client.submit(WRITE, data=random.randbytes(PAGE))
        in_flight(drive, 2)
        drive.process.send_signal(number)
        drive.process.wait(PATIENCE_S)
        reader.join(PATIENCE_S)
        with suppress(OSError):  # the file system is gone, the descriptor is closed all the same
            os.close(file)
    assert ended and ended[0] < 0, "the reader waits for a drive that is gone"


def in_flight(drive: Drive, commands: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while control.ask(Path(drive.told["stats"]), "stats")["stats"]["depth_now"] < commands:
        assert time.monotonic() < deadline, "the commands do not arrive"
        time.sleep(0.01)
