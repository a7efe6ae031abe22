"""All paths to one drive: NBD, NVMe/TCP, the FUSE file in each way that programs read and write files, and loop devices
on it.

A loop device is read past its own page cache, which is the host's as that of any disk.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ioassay.packs.virtual_drive import serving

from ...conftest import loop_on
from ...patience import until
from .drives import Drive, served
from .nbd import TRIM, WRITE_ZEROES, Client
from .nvme_tcp import Host

PAGE = 4096
SIZE = 4 << 20
WORDS = ("--size", str(SIZE), "--no-calibrate", "--transport", "nbd:unix:a", "--transport", "fuse:file")
NVME_TCP = ("--transport", "nvme-tcp:127.0.0.1:0")
PUNCH_HOLE, ZERO_RANGE, KEEP_SIZE = 2, 16, 1
BLKDISCARD, BLKZEROOUT = 0x1277, 0x127F
"""linux/falloc.h and linux/fs.h."""
LOOPS = {"loop": "--direct-io=off", "direct loop": "--direct-io=on"}
BLOCK = 512
MOST = 8192
"""Bytes of one read or write: what NVMe/TCP takes in a capsule."""


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


class Paths:
    """All ways to one drive, each with its name. Those of `ANY_BYTES` take any bytes, others whole blocks."""

    ANY_BYTES = frozenset(
        {"pread", "splice", "sendfile", "mapping", "new mapping", "pwrite", "part", "hole", "zero range"}
    )

    def __init__(self, folder: Path, client: Client, host: Host, loops: dict[str, Path]) -> None:
        self.client = client
        self.path = folder / "file"
        self.file = os.open(self.path, os.O_RDWR)
        self.direct = os.open(self.path, os.O_RDWR | os.O_DIRECT)
        self.mapped = mmap.mmap(self.file, SIZE, mmap.MAP_PRIVATE, mmap.PROT_READ)
        self.loops = {name: os.open(device, os.O_RDWR | os.O_DIRECT) for name, device in loops.items()}
        self.buffer = mmap.mmap(-1, MOST)
        self.readers: dict[str, Callable[[int, int], bytes]] = {
            "nbd": client.read,
            "nvme-tcp": host.read,
            "pread": lambda at, length: os.pread(self.file, length, at),
            "direct": partial(self._direct, self.direct),
            "splice": self._splice,
            "sendfile": self._sendfile,
            "mapping": lambda at, length: self.mapped[at : at + length],
            "new mapping": self._new_mapping,
            **{name: partial(self._direct, device) for name, device in self.loops.items()},
        }
        self.writers: dict[str, Callable[[int, bytes], object]] = {
            "nbd": client.write,
            "nvme-tcp": host.write,
            "nvme-tcp copy": partial(self._write_copy, host),
            "pwrite": lambda at, data: os.pwrite(self.file, data, at),
            "direct": partial(self._write_direct, self.direct),
            "part": self._write_part,
            **{name: partial(self._write_direct, device) for name, device in self.loops.items()},
        }
        self.zeroers: dict[str, Callable[[int, int], object]] = {
            "nbd trim": partial(client.call, TRIM),
            "nbd zeroes": partial(client.call, WRITE_ZEROES),
            "nvme-tcp deallocation": host.deallocate,
            "nvme-tcp zeroes": host.write_zeroes,
            "hole": partial(self._fallocate, PUNCH_HOLE | KEEP_SIZE),
            "zero range": partial(self._fallocate, ZERO_RANGE | KEEP_SIZE),
            **{f"{name} discard": partial(self._order, BLKDISCARD, device) for name, device in self.loops.items()},
            **{f"{name} zeroes": partial(self._order, BLKZEROOUT, device) for name, device in self.loops.items()},
        }
        self.flushers: dict[str, Callable[[], object]] = {
            "nbd": client.flush,
            "nvme-tcp": host.flush,
            "fsync": lambda: os.fsync(self.file),
            **{name: partial(os.fdatasync, device) for name, device in self.loops.items()},
        }

    def close(self) -> None:
        self.mapped.close()
        for descriptor in (self.file, self.direct, *self.loops.values()):
            os.close(descriptor)

    def _direct(self, descriptor: int, at: int, length: int) -> bytes:
        assert os.preadv(descriptor, [memoryview(self.buffer)[:length]], at) == length
        return self.buffer[:length]

    def _splice(self, at: int, length: int) -> bytes:
        with pipe() as (reader, writer):
            return _in_parts(
                length, lambda done, rest: os.splice(self.file, writer, rest, offset_src=at + done), reader
            )

    def _sendfile(self, at: int, length: int) -> bytes:
        with pipe() as (reader, writer):
            return _in_parts(length, lambda done, rest: os.sendfile(writer, self.file, at + done, rest), reader)

    def _new_mapping(self, at: int, length: int) -> bytes:
        start = at % mmap.ALLOCATIONGRANULARITY
        with mmap.mmap(self.file, start + length, mmap.MAP_PRIVATE, mmap.PROT_READ, offset=at - start) as mapped:
            return mapped[start : start + length]

    def _write_direct(self, descriptor: int, at: int, data: bytes) -> None:
        self.buffer[: len(data)] = data
        assert os.pwritev(descriptor, [memoryview(self.buffer)[: len(data)]], at) == len(data)

    @staticmethod
    def _write_copy(host: Host, at: int, data: bytes) -> None:
        """Both halves in the other order, which a Copy within the same blocks puts right."""
        half = len(data) // 2 // BLOCK * BLOCK
        host.write(at, data[half:] + data[:half])
        sources = [(at + len(data) - half, half), (at, len(data) - half)]
        host.copy(at, *[source for source in sources if source[1]])

    def _write_part(self, at: int, data: bytes) -> None:
        """In two writes that are not whole blocks."""
        middle = len(data) // 4
        for start, end in ((0, middle), (middle, len(data))):
            os.pwrite(self.file, data[start:end], at + start)

    def _fallocate(self, mode: int, at: int, length: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        offsets = ctypes.c_int64(at), ctypes.c_int64(length)
        assert libc.fallocate(self.file, mode, *offsets) == 0, os.strerror(ctypes.get_errno())

    @staticmethod
    def _order(order: int, device: int, at: int, length: int) -> None:
        fcntl.ioctl(device, order, struct.pack("QQ", at, length))


def _in_parts(length: int, send: Callable[[int, int], int], reader: int) -> bytes:
    """What arrives at a pipe, into which `send` puts some of the rest."""
    found = b""
    while len(found) < length:
        sent = send(len(found), length - len(found))
        assert sent > 0
        found += os.read(reader, sent)
    return found


@contextmanager
def paths_to(folder: Path, *words: str, loops: bool = False) -> Iterator[tuple[Drive, Paths]]:
    with ExitStack() as opened:
        drive = opened.enter_context(served(folder, *WORDS, *NVME_TCP, *words))
        client = opened.enter_context(Client(folder / "a"))
        host = opened.enter_context(Host(drive.told["nvme_tcp"], drive.told["nqn"]))
        names = LOOPS if loops else {}
        devices = {name: opened.enter_context(loop_on(folder / "file", flag)) for name, flag in names.items()}
        paths = Paths(folder, client, host, devices)
        opened.callback(paths.close)
        yield drive, paths


def ask(drive: Drive, request: str, **more: Any) -> dict[str, Any]:
    """Without a process of its own."""
    return serving.ask(Path(drive.told["stats"]), request, **more)


def statistics(drive: Drive) -> dict[str, Any]:
    found: dict[str, Any] = ask(drive, "stats")["stats"]
    return found


def until_in_flight(drive: Drive, commands: int) -> None:
    until(lambda: statistics(drive)["depth_now"] >= commands)


def power_cut(drive: Drive) -> int:
    """How many pages were lost."""
    lost: int = ask(drive, "power-cut", keep_connections=True)["lost_pages"]
    return lost
