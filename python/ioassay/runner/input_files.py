"""Files that trials read on a host where they may not lie: found there by content, or kept in a cache after they came.

A file is used where it has the digest that the trial's host computed, wherever it came from. Each use checks this: the
content is hashed again when the kernel's attributes of the file have changed since it was last hashed.
The cache is a folder of one user. It is bounded, and the files that were not used for longest go first.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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

    digest: str
    name: str
    size_bytes: int
    offset: int
    content: bytes


def described(key: str, path: Path) -> InputFile:
    """The description of a file that is here; OSError where it cannot be read."""
    whole = path.absolute()
    return InputFile(key, str(path), str(whole), whole.stat().st_size, digest(whole))


def parts(file: InputFile) -> list[tuple[int, int]]:
    """Offset and length of each piece in which a file is sent; an empty file is one empty piece."""
    starts = range(0, file.size_bytes, PART_BYTES) or (0,)
    return [(start, min(PART_BYTES, file.size_bytes - start)) for start in starts]


def part(file: InputFile, offset: int, length: int) -> Part:
    """A piece of a file that is here."""
    with Path(file.path).open("rb") as source:
        source.seek(offset)
        return Part(file.digest, Path(file.path).name, file.size_bytes, offset, source.read(length))


def digest(path: Path) -> str:
    """SHA-256 of a file's content, computed anew when the kernel says that the file is another or was changed."""
    state = path.stat()
    return _digest(str(path), (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@functools.lru_cache(maxsize=1024)
def _digest(path: str, state: tuple[int, ...]) -> str:
    """`state`: what the kernel changes with the content, st_ctime above all, which no program can set back."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Cache:
    """Files by content, in a folder that is made when something comes."""

    def __init__(self, folder: Path, most_bytes: int = MOST_CACHED_BYTES) -> None:
        self.folder = folder
        self._most_bytes = most_bytes

    def find(self, file: InputFile) -> Path | None:
        """Where the content is: at the file's own path, or here; None where it is at neither."""
        for path in (Path(file.path), self._place(file.digest, Path(file.path).name)):
            with suppress(OSError):
                if path.stat().st_size == file.size_bytes and digest(path) == file.digest:
                    if path.is_relative_to(self.folder):
                        os.utime(path.parent)
                    return path
        return None

    def receive(self, part: Part) -> bool:
        """Take in a piece; True once the file is whole. ValueError where its content is not what was announced."""
        place = self._place(part.digest, part.name)
        self._open()
        self._make_room(part.size_bytes, keep=place.parent)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        unfinished = place.with_name(f".{part.name}.{os.getpid()}")
        with unfinished.open("r+b" if part.offset else "wb") as file:
            file.seek(part.offset)
            file.write(part.content)
        if part.offset + len(part.content) < part.size_bytes:
            return False
        if (seen := digest(unfinished)) != part.digest:
            unfinished.unlink()
            raise ValueError(f"{part.name}: arrived with digest {seen[:12]}; expected {part.digest[:12]}")
        unfinished.rename(place)
        return True

    def _place(self, digest: str, name: str) -> Path:
        return self.folder / digest / name

    def _open(self) -> None:
        """Make the folder; PermissionError where another user could change what is in it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = self.folder.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
            raise PermissionError(f"{self.folder}: is not a folder of this user alone; remove it")

    def _make_room(self, size_bytes: int, keep: Path) -> None:
        kept = [(folder.stat().st_mtime_ns, folder) for folder in self.folder.iterdir() if folder != keep]
        sizes = {folder: sum(path.stat().st_size for path in folder.iterdir()) for _, folder in kept}
        total_bytes = sum(sizes.values()) + size_bytes
        for _, folder in sorted(kept):
            if total_bytes <= self._most_bytes:
                return
            shutil.rmtree(folder, ignore_errors=True)
            total_bytes -= sizes[folder]


def own_cache() -> Cache:
    """The cache of this user on this host."""
    return Cache(Path(tempfile.gettempdir()) / f"ioassay-inputs-{os.geteuid()}")
