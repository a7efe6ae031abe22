"""A host of NVMe/TCP that authenticates itself, written from the specification and with nothing of the drive's.

It connects admin queues and I/O queues, and speaks DH-HMAC-CHAP (NVM Express Base Specification 2.0, section 8.13.5).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
import zlib
from dataclasses import dataclass

from . import nvme_tcp
from .nvme_tcp import FABRICS, READ, Refused

HASHES = {1: "sha256", 2: "sha384", 3: "sha512"}
_X = {1: (2048, 560316), 2: (3072, 2625351), 3: (4096, 5736041), 4: (6144, 15705020), 5: (8192, 10965728)}
GROUPS = (0, *_X)
_AUTHENTICATION = 1 << 17


def prime(group: int) -> int:
    """Of RFC 7919, appendix A: made of Euler's number, which is the sum of 1/n!."""
    bits, x = _X[group]
    scale = bits - 130 + 64
    total = term = 1 << scale
    number = 1
    while term:
        term //= number
        total += term
        number += 1
    return int(2**bits - 2 ** (bits - 64) + ((total >> 64) + x) * 2**64 - 1)


@dataclass(frozen=True)
class Secret:
    """A secret as `nvme gen-dhchap-key` prints it."""

    text: str

    def transformed(self, name: str) -> bytes:
        """The key that responses are computed with."""
        _, transformation, encoded, _ = self.text.split(":")
        whole = base64.b64decode(encoded)
        key, crc = whole[:-4], whole[-4:]
        assert zlib.crc32(key) == int.from_bytes(crc, "little")
        if transformation == "00":
            return key
        return hmac.digest(key, name.encode() + b"NVMe-over-Fabrics", HASHES[int(transformation)])


@dataclass(frozen=True)
class Host:
    """A host, its secret and the controller's, and what it offers."""

    name: str
    secret: Secret
    controller: Secret | None = None
    hashes: tuple[int, ...] = tuple(HASHES)
    groups: tuple[int, ...] = GROUPS


class Queue(nvme_tcp.Queue):
    """A connected queue, which may have to authenticate itself."""

    def __init__(self, address: str, subsystem: str, host: Host, number: int = 0, controller: int = 0xFFFF) -> None:
        super().__init__(address, subsystem, host.name, number, controller)
        self.subsystem, self.host = subsystem, host
        self.has_to_authenticate = bool(self.answer & _AUTHENTICATION)

    def read(self) -> bytes:
        """The first 512 bytes of the namespace, if the queue is one of I/O."""
        return self.call(READ, bytes(12), wanted=512)[1]

    def authenticate(self) -> tuple[int, int]:
        """Show that the host knows its secret, and see that the controller does; the hash and the group that it chose.

        Errors: Refused.
        """
        transaction = secrets.randbelow(1 << 16)
        offer = bytes((1, 0, len(self.host.hashes), len(self.host.groups)))
        offer += bytes(self.host.hashes).ljust(30, b"\0") + bytes(self.host.groups).ljust(30, b"\0")
        self._send(struct.pack("<BBHHBB", 0, 0, 0, transaction, 0, 1) + offer)
        challenge = self._receive(1, transaction)
        size, which, group, public_size, sequence = struct.unpack_from("<BxBBHI", challenge, 6)
        value, public = challenge[16 : 16 + size], challenge[16 + size : 16 + size + public_size]
        shared, own_public = b"", b""
        if group:
            modulus = prime(group)
            private = secrets.randbits(2 * 256)
            own_public = pow(2, private, modulus).to_bytes(public_size, "big")
            shared = pow(int.from_bytes(public, "big"), private, modulus).to_bytes(public_size, "big")

        def response(secret: Secret, challenged: bytes, numbered: int, first: str, second: str, role: bytes) -> bytes:
            if group:
                key = hashlib.new(HASHES[which], shared).digest()
                challenged = hmac.digest(key, challenged, HASHES[which])
            text = challenged + struct.pack("<IHB", numbered, transaction, 0)
            text += role + first.encode() + b"\0" + second.encode()
            return hmac.digest(secret.transformed(first), text, HASHES[which])

        host, subsystem = self.host.name, self.subsystem
        shown = response(self.host.secret, value, sequence, host, subsystem, b"HostHost")
        own = secrets.token_bytes(size) if self.host.controller else bytes(size)
        asks = self.host.controller is not None
        head = struct.pack("<BBHHBBBBHI", 1, 2, 0, transaction, size, 0, asks, 0, public_size, 77 if asks else 0)
        self._send(head + shown + own + own_public)
        accepted = self._receive(3, transaction)
        if self.host.controller:
            expected = response(self.host.controller, own, 77, subsystem, host, b"Controller")
            if accepted[8] != 1 or accepted[16 : 16 + size] != expected:
                self._send(struct.pack("<BBHHBB", 1, 0xF0, 0, transaction, 1, 1))
                raise Refused("the controller's response is wrong")
            self._send(struct.pack("<BBHH10x", 1, 4, 0, transaction))
        return which, group

    def is_over(self) -> bool:
        """Whether the controller has let go of the connection; waits for that."""
        return self.socket.recv(1) == b""

    def _send(self, message: bytes) -> None:
        self.call(FABRICS, struct.pack("<BII", 5, 0xE9010100, len(message)), data=message)

    def _receive(self, kind: int, transaction: int) -> bytes:
        room = 4096
        _, message = self.call(FABRICS, struct.pack("<BII", 6, 0xE9010100, room), wanted=room)
        if message[1] == 0xF1:
            raise Refused(f"Failure1: {message[6]} {message[7]}")
        assert (message[0], message[1], *struct.unpack_from("<H", message, 4)) == (1, kind, transaction)
        return message
