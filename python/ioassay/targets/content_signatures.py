"""What a device or file holds: known formats by libblkid (wipefs and blkid), anything else by looking at its bytes.

wipefs lists every signature at every offset, so it also sees leftovers of an older format; blkid adds what only its
low-level probe knows. Reads only. Sources: wipefs(8), blkid(8).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ioassay.errors import ToolError
from ioassay.process import supervisor

_PATIENCE_S = 60.0
_BLKID_NOTHING, _BLKID_AMBIVALENT = 2, 8
_TABLES = {"dos": "MBR partition table", "PMBR": "protective MBR", "gpt": "GPT partition table"}
_MIB = 1 << 20
_BLOCK_BYTES = 4096
_WHOLE_BYTES = 256 * _MIB
"""Up to this size everything is looked at."""
PLACES = 256
"""Places between the first and the last MiB of larger ones: about a second on a hard disk."""
ZEROS = (bytes(_MIB),)
_BLANKS = (*ZEROS, b"\xff" * _MIB)


@dataclass(frozen=True)
class Signature:
    """One known format."""

    kind: str
    label: str
    offset_bytes: int | None

    def __str__(self) -> str:
        return f"{_TABLES.get(self.kind, self.kind)}, label {self.label}" if self.label else self.title

    @property
    def title(self) -> str:
        """The format without its label."""
        return _TABLES.get(self.kind, self.kind)


@dataclass(frozen=True)
class Content:
    """What looking at a sample of places showed."""

    places: int
    """Blocks of 4 KiB looked at."""
    blank: int
    """Of these, those that are blank: zeros or ones, as a drive answers for what was never written."""
    first_data_bytes: int | None
    """Offset of the first block that holds anything."""


def signatures(path: Path) -> list[Signature]:
    """All known formats on a device or in a file. ToolError when it cannot be found out."""
    found = _wipefs(path)
    kinds = {signature.kind for signature in found}
    return found + [signature for signature in _blkid(path) if signature.kind not in kinds]


def _wipefs(path: Path) -> list[Signature]:
    answer = supervisor.capture(["wipefs", "--no-act", "--json", str(path)], timeout_s=_PATIENCE_S)
    if answer.exit_code != 0:
        raise ToolError(f"wipefs cannot say what {path} holds: {answer.stderr.strip() or 'it did not end'}")
    if not answer.stdout.strip():
        return []
    try:
        entries = json.loads(answer.stdout)["signatures"]
        return [Signature(entry["type"], entry["label"] or "", int(entry["offset"], 16)) for entry in entries]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ToolError(f"wipefs said of {path} what cannot be read ({type(error).__name__}: {error})") from None


def _blkid(path: Path) -> list[Signature]:
    answer = supervisor.capture(["blkid", "-p", "-o", "export", str(path)], timeout_s=_PATIENCE_S)
    if answer.exit_code == _BLKID_AMBIVALENT:
        return [Signature("several formats at once", "", None)]
    if answer.exit_code not in (0, _BLKID_NOTHING):
        raise ToolError(f"blkid cannot say what {path} holds: {answer.stderr.strip() or 'it did not end'}")
    fields = dict(line.partition("=")[::2] for line in answer.stdout.splitlines())
    known = [(fields.get("TYPE"), fields.get("LABEL", "")), (fields.get("PTTYPE"), "")]
    return [Signature(kind, label, None) for kind, label in known if kind]


def content(path: Path, blanks: Sequence[bytes] = _BLANKS) -> Content:
    """Look at the first and the last MiB and at places between. OSError when it cannot be read.

    A block is blank that begins one of `blanks`, each a MiB: by default zeros or ones.
    """
    places = blank = 0
    first: int | None = None
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        for offset, length in _spans(os.lseek(handle, 0, os.SEEK_END)):
            filled = _filled_blocks(os.pread(handle, length, offset), blanks)
            places += -(-length // _BLOCK_BYTES)
            blank += -(-length // _BLOCK_BYTES) - len(filled)
            if filled and first is None:
                first = offset + filled[0]
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
    return Content(places, blank, first)


def _filled_blocks(data: bytes, blanks: Sequence[bytes]) -> list[int]:
    """Offsets of the blocks of 4 KiB, at most a MiB of them, that hold anything."""
    if any(data == blank[: len(data)] for blank in blanks):
        return []
    starts = range(0, len(data), _BLOCK_BYTES)
    pieces = ((start, data[start : start + _BLOCK_BYTES]) for start in starts)
    return [start for start, piece in pieces if all(piece != blank[: len(piece)] for blank in blanks)]


def _spans(size_bytes: int) -> Iterator[tuple[int, int]]:
    """Offsets and lengths to look at, in bytes, in rising order and without overlap."""
    if size_bytes <= _WHOLE_BYTES:
        yield from ((offset, min(_MIB, size_bytes - offset)) for offset in range(0, size_bytes, _MIB))
        return
    yield 0, _MIB
    between = size_bytes - 2 * _MIB
    for place in range(PLACES):
        yield _MIB + (between * place // PLACES) // _BLOCK_BYTES * _BLOCK_BYTES, _BLOCK_BYTES
    yield size_bytes - _MIB, _MIB
