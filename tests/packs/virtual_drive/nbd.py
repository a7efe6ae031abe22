"""An NBD client for tests: one connection, simple replies, requests that are sent now and waited for later.

What others' clients do not show: which request got which error, and when. The numbers are those of the NBD protocol.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FUA = 1 << 0
_GREETING = b"NBDMAGICIHAVEOPT"
_OPTION, _GO, _ACKNOWLEDGED, _INFO, _EXPORT = b"IHAVEOPT", 7, 1, 3, 0
_REQUEST, _REPLY, _OPTION_REPLY = 0x25609513, 0x67446698, 0x3E889045565A9
_FIXED_WITHOUT_ZEROES = 3
PATIENCE_S = 240


def received(connection: socket.socket, length: int) -> bytes:
    """So many bytes of a connection."""
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise EOFError("the drive closed the connection")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


class Client:
    """A connection to the drive that listens at a Unix socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE_S)
        self._last = 0
        self._lengths: dict[int, int] = {}
        try:
            self._socket.connect(str(path))
            self.size_bytes, self.flags = self._go()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _go(self) -> tuple[int, int]:
        assert received(self._socket, 16) == _GREETING
        received(self._socket, 2)
        self._socket.sendall(struct.pack(">I", _FIXED_WITHOUT_ZEROES))
        asked = struct.pack(">IH", 0, 0)  # the export without a name, and nothing asked beside
        self._socket.sendall(_OPTION + struct.pack(">II", _GO, len(asked)) + asked)
        about = (0, 0)
        while True:
            magic, _, kind, length = struct.unpack(">QIII", received(self._socket, 20))
            said = received(self._socket, length)
            assert magic == _OPTION_REPLY and kind in (_INFO, _ACKNOWLEDGED)
            if kind == _ACKNOWLEDGED:
                return about
            if struct.unpack(">H", said[:2])[0] == _EXPORT:
                about = struct.unpack(">QH", said[2:])

    @staticmethod
    def request(kind: int, offset: int, length: int, cookie: int = 0, flags: int = 0) -> bytes:
        """The head of a request, as it is sent."""
        return struct.pack(">IHHQQI", _REQUEST, flags, kind, cookie, offset, length)

    def send_some(self, data: bytes) -> None:
        """Sends as much of this as the drive takes within a moment."""
        self._socket.settimeout(0.2)
        with suppress(TimeoutError):
            self._socket.sendall(data)
        self._socket.settimeout(PATIENCE_S)

    def submit(self, kind: int, offset: int = 0, length: int = 0, data: bytes = b"", flags: int = 0) -> int:
        """Sends a request: its cookie."""
        self._last += 1
        length = len(data) or length
        self._lengths[self._last] = length if kind == READ else 0
        self._socket.sendall(self.request(kind, offset, length, self._last, flags) + data)
        return self._last

    def reply(self) -> tuple[int, int, bytes]:
        """The next one: cookie, error, and what was read."""
        magic, error, cookie = struct.unpack(">IIQ", received(self._socket, 16))
        assert magic == _REPLY
        length = self._lengths.pop(cookie)
        return cookie, error, b"" if error else received(self._socket, length)

    def replies(self) -> dict[int, int]:
        """Of all that was submitted and is not answered: cookie to error."""
        answered = [self.reply() for _ in range(len(self._lengths))]
        return {cookie: error for cookie, error, _ in answered}

    def call(self, kind: int, offset: int = 0, length: int = 0, data: bytes = b"", flags: int = 0) -> bytes:
        """One request, answered; OSError with the drive's error."""
        cookie = self.submit(kind, offset, length, data, flags)
        answered, error, read = self.reply()
        assert answered == cookie
        if error:
            raise OSError(error, os.strerror(error))
        return read

    def read(self, offset: int, length: int) -> bytes:
        return self.call(READ, offset, length)

    def write(self, offset: int, data: bytes, *, fua: bool = False) -> None:
        self.call(WRITE, offset, data=data, flags=FUA if fua else 0)

    def flush(self) -> None:
        self.call(FLUSH)
