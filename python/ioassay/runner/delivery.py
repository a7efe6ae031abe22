"""A trial computed where no folder is shared: its input files go there by content, what it leaves comes back by value.

`compute` is what the other process does, `Order` and `Delivered` are what travels. Records do not tell where a trial
was computed: a path of the other host is replaced by that of this one wherever the driver mentions it.
Which executor takes the orders is decided in `sites`.

A file that a trial reads is used where it has the digest that the trial's host computed, wherever it came from. Each
use checks this: the content is hashed again when the kernel's attributes of the file have changed.
The cache is a folder of one user. It is bounded, and the files that were not used for longest go first.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

import ioassay
from ioassay import units
from ioassay.errors import RunError
from ioassay.records.record import FAILED
from ioassay.roles import Parsed, Trial
from ioassay.runner import worker
from ioassay.runner.worker import Computed

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
    """Which program a process is: what has to be equal in all that compute trials of one run.

    A version number is not enough. Checkouts keep theirs from release to release, and a worker may have an older
    compiled module beside newer Python files.
    """

    version: str
    python: str
    """Major and minor version of the interpreter."""
    sources: str
    """Digest of the package's Python files, with their names."""
    compiled: str
    """Digest of the compiled module."""

    def difference(self, other: Identity) -> str:
        """The first thing in which `other` differs, with both values; '' where there is none."""
        for part in fields(self):
            wanted, seen = getattr(self, part.name), getattr(other, part.name)
            if wanted != seen:
                return f"{_NAMES[part.name]} {seen[:_SHOWN]}; expected {wanted[:_SHOWN]}"
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


MOST_RETURNED_BYTES = 256 * 2**20
"""What a trial may leave in its raw folder to come back by value."""

INPUTS = "inputs"
"""In a worker's own folder: the cache of input files."""


class UnfitWorker(RunError):
    """A worker cannot compute trials of this run: it is another program, or cannot write its temporary files."""


@dataclass(frozen=True)
class Order:
    """A trial to compute, with what the other process has to know of this host."""

    trial: Trial
    identity: Identity
    inputs: Sequence[InputFile] = ()
    contents: Sequence[Part] = ()
    """Pieces of input files that a worker has said to lack."""


@dataclass(frozen=True)
class Delivered:
    """A computed trial and the files of its raw folder, by their path in it."""

    computed: Computed
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Lacking:
    files: Sequence[InputFile]
    host: str


def compute(order: Order, folder: Path | None = None) -> Delivered | Lacking:
    """Compute a trial in a temporary folder below `folder`, by default that of the system.

    UnfitWorker where this is not the program that planned the trial, and where the folder cannot be written.
    """
    if why := order.identity.difference(identity()):
        raise UnfitWorker(f"the worker on {socket.gethostname()} has {why}")
    own = Path(tempfile.gettempdir()) / f"ioassay-inputs-{os.geteuid()}"  # of this user on this host
    cache, host = Cache(folder / INPUTS if folder else own), socket.gethostname()
    try:
        for part in order.contents:
            cache.receive(part)
        found = {file: cache.find(file) for file in order.inputs}
        if lacking := [file for file, path in found.items() if path is None]:
            return Lacking(lacking, host)
        with tempfile.TemporaryDirectory(prefix="ioassay-", dir=folder) as name:
            return _deliver(order, {file: str(path) for file, path in found.items()}, Path(name))
    except OSError as error:
        raise UnfitWorker(f"the worker on {host} fails: {error}") from None


def _deliver(order: Order, places: Mapping[InputFile, str], raw: Path) -> Delivered:
    trial = order.trial
    params = {**trial.params, **{file.key: path for file, path in places.items()}}
    computed = worker.compute(trial.driver, dataclasses.replace(trial, params=params), raw)
    files = {str(path.relative_to(raw)): path for path in sorted(raw.rglob("*")) if path.is_file()}
    size_bytes = sum(path.stat().st_size for path in files.values())
    if size_bytes > MOST_RETURNED_BYTES:
        text = (
            f"it leaves {units.format_size(size_bytes)}, and an executor returns at most "
            f"{units.format_size(MOST_RETURNED_BYTES)}; --executor local computes it here"
        )
        return Delivered(dataclasses.replace(computed, parsed=Parsed(FAILED, text)))
    names = {path: file.named for file, path in places.items() if path != file.named}
    parsed = computed.parsed
    texts = {name: _renamed(getattr(parsed, name), names) for name in ("reason", "parts", "claims", "warnings")}
    contents = {name: path.read_bytes() for name, path in files.items()}
    for old, new in names.items():  # paths are written as JSON has them, which is how drivers write what they leave
        written = json.dumps(old)[1:-1].encode(), json.dumps(new)[1:-1].encode()
        contents = {name: content.replace(*written) for name, content in contents.items()}
    return Delivered(dataclasses.replace(computed, parsed=dataclasses.replace(parsed, **texts)), contents)


def unpack(delivered: Delivered, raw: Path) -> Computed:
    """Write the files that came with a trial to its raw folder. OSError; UnfitWorker for a path outside of it."""
    for name, content in delivered.files.items():
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or not place.parts:
            raise UnfitWorker(f"a worker returned a file '{name}'; expected a path in the trial's raw folder")
        path = raw / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return delivered.computed


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same with other paths in all its texts."""
    if not names:
        return value
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {entry.name: _renamed(getattr(value, entry.name), names) for entry in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    if isinstance(value, Mapping):
        return {key: _renamed(entry, names) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_renamed(entry, names) for entry in value)
    return value


# The files that trials read: on the other host by their own path, or in a cache after they came

MOST_CACHED_BYTES = 4 * 2**30
"""What a cache keeps; a larger file has to be on the worker at its own path."""
PART_BYTES = 16 * 2**20
"""What is sent of a file at once, so that no process holds a large one in memory."""


@dataclass(frozen=True)
class InputFile:
    """A file that a trial reads, as the host describes it on which the trial was planned."""

    key: str
    """The driver's parameter that names it."""
    named: str
    """The path as the driver found it, which results mention."""
    path: str
    """The same, absolute."""
    size_bytes: int
    digest: str
    """SHA-256 of the content."""


@dataclass(frozen=True)
class Part:
    """A piece of a file on its way into a cache; `offset` is where in the file it belongs."""

    file: InputFile
    offset: int
    content: bytes


def parts(file: InputFile) -> Iterator[Part]:
    """The pieces in which a file that is here is sent; an empty file is one empty piece."""
    with Path(file.path).open("rb") as source:
        for offset in range(0, file.size_bytes, PART_BYTES) or (0,):
            source.seek(offset)
            yield Part(file, offset, source.read(min(PART_BYTES, file.size_bytes - offset)))


def digest(path: Path) -> str:
    """SHA-256 of a file's content, computed anew when the kernel says that the file is another or was changed."""
    state = path.stat()
    return _digest(str(path), (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@functools.lru_cache(maxsize=1024)
def _digest(path: str, state: tuple[int, ...]) -> str:
    """`state`: what the kernel changes with the content, st_ctime above all, which no program can set back."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Cache:
    """Files by content, in a folder that is made when something comes."""

    folder: Path

    def find(self, file: InputFile) -> Path | None:
        """Where the content is: at the file's own path, or here; None where it is at neither."""
        for path in (Path(file.path), self._place(file)):
            with suppress(OSError):
                if path.stat().st_size == file.size_bytes and digest(path) == file.digest:
                    if path.is_relative_to(self.folder):
                        os.utime(path.parent)
                    return path
        return None

    def receive(self, part: Part) -> bool:
        """Take in a piece; True once the file is whole. ValueError where its content is not what was announced.

        PermissionError where another user could change what is in the folder.
        """
        file, place = part.file, self._place(part.file)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = self.folder.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
            raise PermissionError(f"{self.folder}: is not a folder of this user alone; remove it")
        self._make_room(file.size_bytes, keep=place.parent)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        unfinished = place.with_name(f".{place.name}.{os.getpid()}")
        with unfinished.open("r+b" if part.offset else "wb") as target:
            target.seek(part.offset)
            target.write(part.content)
        if part.offset + len(part.content) < file.size_bytes:
            return False
        if (seen := digest(unfinished)) != file.digest:
            unfinished.unlink()
            raise ValueError(f"{place.name}: arrived with digest {seen[:12]}; expected {file.digest[:12]}")
        unfinished.rename(place)
        return True

    def _place(self, file: InputFile) -> Path:
        return self.folder / file.digest / Path(file.path).name

    def _make_room(self, size_bytes: int, keep: Path) -> None:
        kept = [(folder.stat().st_mtime_ns, folder) for folder in self.folder.iterdir() if folder != keep]
        sizes = {folder: sum(path.stat().st_size for path in folder.iterdir()) for _, folder in kept}
        total_bytes = sum(sizes.values()) + size_bytes
        for _, folder in sorted(kept):
            if total_bytes <= MOST_CACHED_BYTES:
                return
            shutil.rmtree(folder, ignore_errors=True)
            total_bytes -= sizes[folder]
