"""A trial computed where no folder is shared: its input files go there by content, what it leaves comes back by value.

`compute` is what the other process does, `Order` and `Delivered` are what travels. Records do not tell where a trial
was computed: a path of the other host is replaced by that of this one wherever the driver mentions it.
Which executor takes the orders is decided in `sites`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

import ioassay
from ioassay import units
from ioassay.errors import RunError
from ioassay.records.record import FAILED
from ioassay.roles import Parsed, Trial
from ioassay.runner import input_files, worker
from ioassay.runner.input_files import Cache, InputFile, Part
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


def host_name() -> str:
    """Of the machine that this process runs on, for messages."""
    return socket.gethostname()


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
    """Input files that are not where the trial was to be computed."""

    files: Sequence[InputFile]
    host: str


def compute(order: Order, folder: Path | None = None) -> Delivered | Lacking:
    """Compute a trial in a temporary folder below `folder`, by default that of the system.

    UnfitWorker where this is not the program that planned the trial, and where the folder cannot be written.
    """
    if why := order.identity.difference(identity()):
        raise UnfitWorker(f"the worker on {host_name()} has {why}")
    cache = Cache(folder / INPUTS) if folder else input_files.own_cache()
    try:
        for part in order.contents:
            cache.receive(part)
        found = {file: cache.find(file) for file in order.inputs}
        if lacking := [file for file, path in found.items() if path is None]:
            return Lacking(lacking, host_name())
        with tempfile.TemporaryDirectory(prefix="ioassay-", dir=folder) as name:
            return _deliver(order, {file: str(path) for file, path in found.items()}, Path(name))
    except OSError as error:
        raise UnfitWorker(f"the worker on {host_name()} fails: {error}") from None


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
    contents = {name: _renamed_text(path.read_bytes(), names) for name, path in files.items()}
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


def _renamed_text(content: bytes, names: Mapping[str, str]) -> bytes:
    """Paths are written as JSON has them, which is how drivers write what they leave."""
    for old, new in names.items():
        content = content.replace(json.dumps(old)[1:-1].encode(), json.dumps(new)[1:-1].encode())
    return content
