"""Which program this is: two processes of the same program compute the same trial to the same bytes.

A version number is not enough. Checkouts keep theirs from release to release, and a worker may have an older compiled
module beside newer Python files.
"""

from __future__ import annotations

import functools
import hashlib
import socket
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import ioassay

_SHOWN = 12
"""Digits of a digest in messages."""
_NAMES = {
    "version": "ioassay",
    "python": "Python",
    "sources": "the Python files of ioassay",
    "compiled": "the compiled module of ioassay",
}


@dataclass(frozen=True)
class Identity:
    """What has to be equal in all processes that compute trials of one run."""

    version: str
    python: str
    """Major and minor version of the interpreter."""
    sources: str
    """Digest of the package's Python files, with their names."""
    compiled: str
    """Digest of the compiled module."""

    def difference(self, other: Identity) -> str:
        """The first thing in which `other` differs, with both values; '' where there is none."""
        for field in fields(self):
            wanted, seen = getattr(self, field.name), getattr(other, field.name)
            if wanted != seen:
                return f"{_NAMES[field.name]} {seen[:_SHOWN]}; wanted {wanted[:_SHOWN]}"
        return ""


@functools.cache
def identity() -> Identity:
    """That of this process. It reads all files of the package once, which takes about 50 ms."""
    package = Path(ioassay.__file__).parent
    sources = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        sources.update(f"{path.relative_to(package)}\0".encode())
        sources.update(path.read_bytes())
    compiled = hashlib.sha256()
    for path in sorted(package.glob("_core.*")):
        if path.suffix != ".pyi":
            with path.open("rb") as file:
                compiled.update(hashlib.file_digest(file, "sha256").digest())
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Identity(ioassay.__version__, python, sources.hexdigest(), compiled.hexdigest())


def host_name() -> str:
    """Of the machine that this process runs on, for messages."""
    return socket.gethostname()
