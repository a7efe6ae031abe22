"""The user's key, and the pseudonyms made with it.

A plain hash of a host name or a serial number can be reversed by trying all likely ones. A keyed hash cannot, as long
as the key is unknown. The key is random, made on first use, and stays in the user's state folder.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Self

from ioassay.host.settings import restore_file

NAME = "identity.key"
_KEY_BYTES = 32
_PSEUDONYM_DIGITS = 16
_ID_DIGITS = 8


class Pseudonyms:
    """Names for values that only the holder of the key can link to them; equal values have equal names."""

    def __init__(self, key: bytes | None = None, folder: Path | None = None) -> None:
        self._key = key
        self._folder = folder

    @classmethod
    def of_user(cls, root: Path = Path("/")) -> Self:
        """With the key in the state folder of this user; it is read, or made, when the first name is asked for."""
        return cls(folder=folder_of(root))

    @property
    def key_id(self) -> str:
        """Which key this is, without telling it: names made with different keys cannot be compared."""
        return hashlib.sha256(b"ioassay key " + self._secret()).hexdigest()[:_ID_DIGITS]

    def of(self, kind: str, value: str) -> str:
        """16 hexadecimal digits (HMAC-SHA-256, RFC 2104, cut short)."""
        text = f"{kind}\0{value}".encode(errors="surrogateescape")
        return hmac.new(self._secret(), text, hashlib.sha256).hexdigest()[:_PSEUDONYM_DIGITS]

    def _secret(self) -> bytes:
        if self._key is None:
            self._key = _read_or_make(self._folder)
        return self._key


def folder_of(root: Path = Path("/")) -> Path | None:
    """Where the key lies; None for a user without a home folder."""
    try:
        return restore_file.lasting_folder(root)
    except RuntimeError:
        return None


def _read_or_make(folder: Path | None) -> bytes:
    """The key of a folder. Where none can be kept, one for this process alone: its names then match no other run."""
    fresh = secrets.token_bytes(_KEY_BYTES)
    if folder is None:
        return fresh
    path = folder / NAME
    if (known := _read(path)) is not None:
        return known
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, fresh)
    known = _read(path)
    return fresh if known is None else known


def _read(path: Path) -> bytes | None:
    """The key; None where there is none, or a damaged one."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None


def _write(path: Path, key: bytes) -> None:
    """Make the key durable for its owner alone. Of two processes that make one, the first wins."""
    mine = path.with_name(f".{NAME}.{os.getpid()}")
    descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        if path.exists():  # _read found it damaged
            mine.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(mine, path)
    finally:
        mine.unlink(missing_ok=True)
