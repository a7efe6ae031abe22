"""Files as tools and people pack them: one layer below every reader of results.

`unpacked` gives the files in gzip, bzip2, xz, Zstandard, zip and tar, also in each other, and in folders, told by their
content. Text in UTF-16, or with a byte order mark, becomes UTF-8. What is unpacked goes to a folder as it comes, and
never into memory. Deliberately not here: which format a file has.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from ioassay._core import CoreError, unpack_zstd
from ioassay.errors import InputError
from ioassay.units import format_size

_LARGEST_RATIO = 1000
"""Of a file and what is packed into it: logs of one value a line have about 200 by xz."""
_ALWAYS_BYTES = 2**26
"""As much is unpacked from any file."""
_DEEPEST = 4
_BLOCK = 2**20
_STREAMS: dict[bytes, Callable[[Path], IO[bytes]]] = {
    b"\x1f\x8b": cast(Callable[[Path], IO[bytes]], gzip.open),
    b"BZh": cast(Callable[[Path], IO[bytes]], bz2.open),
    b"\xfd7zXZ\0": cast(Callable[[Path], IO[bytes]], lzma.open),
}
_ZSTD = b"\x28\xb5\x2f\xfd"
_TAR = b"ustar"
_ZIP = b"PK\3\4"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, CoreError, RuntimeError,
           UnicodeError)  # fmt: skip
"""RuntimeError is that of zipfile for a file with a password."""


class Member(NamedTuple):
    """A file that is packed into nothing: how it is called in messages, and where it is."""

    name: str
    path: Path


def unpacked(paths: Iterable[Path], folder: Path) -> list[Member]:
    """The files in these, and in folders of them, in their order; what has to be unpacked is put below `folder`.

    Files that lay together lie together afterwards. InputError names what is damaged, has a password, or is more than a
    thousand times as large as it looks.
    """
    unpacker = _Unpacker(folder)
    found: list[Member] = []
    for path in paths:
        inside = sorted(one for one in path.rglob("*") if one.is_file() and not one.name.startswith("."))
        for one in inside if path.is_dir() else [path]:
            size = one.stat().st_size if one.is_file() else 0
            unpacker.left_bytes = max(_ALWAYS_BYTES, size * _LARGEST_RATIO)
            found += unpacker.members(Member(str(one), one), 0) if one.is_file() else [Member(str(one), one)]
    return found


class _Unpacker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._homes: dict[Path, Path] = {}
        self.left_bytes = 0
        """What may still be written for the file that was given."""

    def members(self, one: Member, depth: int) -> Iterator[Member]:
        """What is in a file, however deep; itself where it is plain."""
        try:
            with one.path.open("rb") as file:
                head = file.read(512)
            found = list(self._inside(one, head))
        except InputError:
            raise
        except _BROKEN as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise InputError(f"{one.name}: cannot be unpacked: {why or 'it is cut off'}") from None
        for member in found:
            if member.path == one.path:
                yield member
            elif depth == _DEEPEST:
                raise InputError(f"{one.name}: is packed more than {_DEEPEST} times; unpack it first")
            else:
                yield from self.members(member, depth + 1)

    def _inside(self, one: Member, head: bytes) -> Iterator[Member]:
        if opened := next((opened for magic, opened in _STREAMS.items() if head.startswith(magic)), None):
            with opened(one.path) as stream:
                yield Member(one.name, self._kept(one, one.path.parent, one.path.stem, stream))
        elif head.startswith(_ZSTD):
            target = self._place(one.path.parent, one.path.stem)
            self._count(one, unpack_zstd(str(one.path), str(target), self.left_bytes))
            yield Member(one.name, target)
        elif head[257:262] == _TAR:
            with tarfile.open(one.path, "r:") as archive:
                for entry in archive:
                    if entry.isfile() and (inside := archive.extractfile(entry)) is not None:
                        yield Member(f"{one.name}: {entry.name}", self._kept(one, one.path, entry.name, inside))
        elif head.startswith(_ZIP):
            with zipfile.ZipFile(one.path) as packed:
                for info in packed.infolist():
                    if not info.is_dir():
                        with packed.open(info) as stream:
                            yield Member(
                                f"{one.name}: {info.filename}", self._kept(one, one.path, info.filename, stream)
                            )
        elif encoding := next((name for mark, name in _MARKS.items() if head.startswith(mark)), None):
            target = self._place(one.path.parent, one.path.name)
            with (
                one.path.open(encoding=encoding, newline="") as text,
                target.open("w", encoding="utf-8", newline="") as plain,
            ):
                shutil.copyfileobj(text, plain, _BLOCK)
            yield Member(one.name, target)
        else:
            yield one

    def _kept(self, one: Member, near: Path, name: str, stream: IO[bytes]) -> Path:
        target = self._place(near, name)
        with target.open("wb") as file:
            while block := stream.read(_BLOCK):
                self._count(one, len(block))
                file.write(block)
        return target

    def _count(self, one: Member, written: int) -> None:
        self.left_bytes -= written
        if self.left_bytes <= 0:
            most = format_size(_ALWAYS_BYTES)
            raise InputError(f"{one.name}: holds more than {most} and {_LARGEST_RATIO} times its size; unpack it first")

    def _place(self, near: Path, name: str) -> Path:
        """A path for a file that lay next to others in a folder, or in an archive; nowhere outside of ours."""
        if near not in self._homes:
            self._homes[near] = Path(tempfile.mkdtemp(dir=self._folder))
        parts = [part for part in Path(name).parts if part not in ("/", "..")]
        target = self._homes[near].joinpath(*parts or ["file"])
        if target.exists():  # twice in an archive
            target = Path(tempfile.mkdtemp(dir=self._folder)) / target.name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target
