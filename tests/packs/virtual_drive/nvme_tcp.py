"""An NVMe/TCP host for tests: one controller with one I/O queue, one command at a time, without digests,
written from the specification and with nothing of the drive's.

What others' hosts do not do: each command at the moment that a test wants. The numbers are those of the NVMe base, NVM
command set and TCP transport specifications; data to the drive go in the capsule, so at most 8 KiB.
"""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack
from typing import Self

from .nbd import PATIENCE_S, received

FLUSH, WRITE, READ, WRITE_ZEROES, DATASET_MANAGEMENT, COPY, FABRICS = 0x00, 0x01, 0x02, 0x08, 0x09, 0x19, 0x7F
_ICREQ, _ICRESP, _CAPSULE, _RESPONSE, _DATA = 0x00, 0x01, 0x04, 0x05, 0x07
_HEAD_BYTES, _CAPSULE_BYTES = 8, 72
_SUCCESS = 1 << 3
"""Of a data unit: no response follows."""
_PROPERTY_SET, _CONNECT = 0x00, 0x01
_CC, _ENABLE = 0x14, 6 << 16 | 4 << 20 | 1
_IN_CAPSULE, _IN_DATA_UNITS = 0x01, 0x5A
_ANY_CONTROLLER = 0xFFFF
_NAME = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-0000000000aa"
_DEALLOCATE_ZEROES, _DEALLOCATE = 1 << 25, 1 << 2


class Refused(Exception):
    """The drive's status without the phase bit, or what a host does not accept."""


class Queue:
    """A connection with a connected queue: the admin queue, or one of I/O of a controller."""

    def __init__(self, address: str, nqn: str, name: str, number: int = 0, controller: int = _ANY_CONTROLLER) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.sendall(struct.pack("<BBBBIHBBI112x", _ICREQ, 0, 128, 0, 128, 0, 0, 0, 0))
            kind, _, _ = self._unit()
            assert kind == _ICRESP
            data = struct.pack("<16sH238x256s256s256x", b"tests", controller, nqn.encode(), name.encode())
            words = struct.pack("<BHHHxxI", _CONNECT, 0, number, 31, 0)
            self.answer, _ = self.call(FABRICS, words, data=data)
        except BaseException:
            self.socket.close()
            raise
        self.controller = self.answer & 0xFFFF

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def enable(self) -> None:
        """Set the controller's configuration."""
        self.call(FABRICS, struct.pack("<BB3xIQ", _PROPERTY_SET, 0, _CC, _ENABLE))

    def _unit(self) -> tuple[int, int, bytes]:
        """The next one: its type, its flags, and what comes after the common header."""
        kind, flags, _, _, length = struct.unpack("<BBBBI", received(self.socket, _HEAD_BYTES))
        return kind, flags, received(self.socket, length - _HEAD_BYTES)

    def call(self, opcode: int, words: bytes, *, data: bytes = b"", wanted: int = 0) -> tuple[int, bytes]:
        """A command of which `words` are bytes 40 to 63, or of fabrics also byte 4: the first word of its answer, and
        what was read. Refused with the status.
        """
        kind, size = (_IN_CAPSULE, len(data)) if data else (_IN_DATA_UNITS, wanted)
        of_fabrics = opcode == FABRICS
        name = words[:1] if of_fabrics else b"\1"  # the kind of command, or the namespace
        head = struct.pack("<BBH", opcode, 1 << 6, 1) + name.ljust(20, b"\0") + struct.pack("<QI3xB", 0, size, kind)
        entry = (head + words[of_fabrics:]).ljust(64, b"\0")
        start = _CAPSULE_BYTES if data else 0
        self.socket.sendall(struct.pack("<BBBBI", _CAPSULE, 0, 72, start, _CAPSULE_BYTES + len(data)) + entry + data)
        read = b""
        while True:
            unit, flags, body = self._unit()
            if unit == _DATA:
                read += body[24 - _HEAD_BYTES :]
                if flags & _SUCCESS:
                    return 0, read
                continue
            assert unit == _RESPONSE
            answer, status = struct.unpack("<I10xH", body)
            if status >> 1:
                raise Refused(f"{status >> 1:#x}")
            return answer, read


class Host:
    """A controller that is enabled, for namespace 1 of 512-byte blocks."""

    BLOCK = 512

    def __init__(self, address: str, nqn: str) -> None:
        with ExitStack() as opened:
            admin = opened.enter_context(Queue(address, nqn, _NAME))
            admin.enable()
            self._io = opened.enter_context(Queue(address, nqn, _NAME, 1, admin.controller))
            self._opened = opened.pop_all()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _blocks(self, offset: int, length: int, flags: int = 0) -> bytes:
        """Words 10 to 12 of a command for these bytes."""
        return struct.pack("<QI", offset // self.BLOCK, length // self.BLOCK - 1 | flags)

    def _call(self, opcode: int, words: bytes = b"", *, data: bytes = b"", wanted: int = 0) -> bytes:
        return self._io.call(opcode, words, data=data, wanted=wanted)[1]

    def read(self, offset: int, length: int) -> bytes:
        return self._call(READ, self._blocks(offset, length), wanted=length)

    def write(self, offset: int, data: bytes) -> None:
        self._call(WRITE, self._blocks(offset, len(data)), data=data)

    def write_zeroes(self, offset: int, length: int) -> None:
        """With deallocation."""
        self._call(WRITE_ZEROES, self._blocks(offset, length, _DEALLOCATE_ZEROES))

    def deallocate(self, offset: int, length: int) -> None:
        ranges = struct.pack("<IIQ", 0, length // self.BLOCK, offset // self.BLOCK)
        self._call(DATASET_MANAGEMENT, struct.pack("<II", 0, _DEALLOCATE), data=ranges)

    def copy(self, offset: int, *sources: tuple[int, int]) -> None:
        """Copy what is at these offsets, each with its length."""
        ranges = b"".join(struct.pack("<8xQH14x", at // self.BLOCK, size // self.BLOCK - 1) for at, size in sources)
        self._call(COPY, struct.pack("<QI", offset // self.BLOCK, len(sources) - 1), data=ranges)

    def flush(self) -> None:
        self._call(FLUSH)
