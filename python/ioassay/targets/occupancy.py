"""What a device or file holds: known formats, data of none, or nothing: every byte read as zero, or the drive's word.

Formats are those that libblkid knows (wipefs(8), blkid(8)): wipefs lists every signature at every offset, so it also
sees leftovers of an older format; blkid adds what only its low-level probe knows.
A sample proves nothing about what lies between its places, so it only finds data sooner. Bytes of a loop device that
are holes in its backing file are zero without being read. Reading ends after `LIMIT_S`: what was not read by then is
not known to be empty. Erased flash that reads as ones is not empty: data of ones looks the same. Nothing here writes,
except that the kernel is asked to write back what it still holds for the device.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.errors import ToolError
from ioassay.host import block_devices
from ioassay.host.block_devices import ROOT, Device, Number
from ioassay.process import supervisor

LIMIT_S = 30.0
"""The longest that a person waits for it at a terminal."""
_FORECAST_S, _HOPE = 3.0, 1.25
"""When it is known how long all of it takes; what then needs so many times the limit is given up."""
_PIECE_BYTES = 8 << 20
_ALIGNMENT_BYTES = 1 << 16
"""A multiple of every logical block, for direct I/O."""
_WORD_BYTES = 8

Read = Callable[[int, int], memoryview]
"""Offset and length in bytes to the bytes there, valid until the next call."""
_progress: ContextVar[Callable[[str, float], None] | None] = ContextVar("progress", default=None)
_known: dict[Number, tuple[tuple[int | None, ...] | None, Occupancy]] = {}
"""Device -> its state when it was examined, None where changes would not show, and what that found."""


@dataclass(frozen=True)
class Occupancy:
    """What is known of a device's content."""

    size_bytes: int
    zero_bytes: int = 0
    """So much from the beginning is zero, holes of a backing file included."""
    data_at_bytes: int | None = None
    """Offset of a byte that is not zero."""
    failure: str = ""
    """What could not be read, and why."""
    reported: str = ""
    """The drive's own word that nothing is allocated."""
    whole_s: float | None = None
    """What reading all of it would take, where it was given up."""

    @property
    def empty(self) -> bool:
        """Whether nothing can be lost."""
        refuted = self.data_at_bytes is not None or self.failure
        return not refuted and (bool(self.reported) or self.zero_bytes == self.size_bytes)

    @property
    def text(self) -> str:
        """For people, after the name of the device."""
        if self.data_at_bytes is not None:
            return f"holds data of no known format, at byte {self.data_at_bytes}"
        if self.failure:
            return f"cannot be read {self.failure}, so what it holds is not known"
        if self.reported:
            return f"is empty: {self.reported}"
        if self.empty:
            return "is empty: every byte was read as zero"
        partly = "samples of it are zero"
        if self.whole_s is not None:
            partly = (
                f"the first {units.format_size(self.zero_bytes)} of {units.format_size(self.size_bytes)} are zero, "
                f"reading all of it takes about {units.format_duration(self.whole_s)}"
            )
        return f"was not read whole, so what it holds is not known: {partly}"


@contextmanager
def announced(progress: Callable[[str, float], None]) -> Iterator[None]:
    """Within this, `progress` is called with a text and a share from 0 to 1 while a device is read."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


def examine(path: Path, device: Device, root: Path = ROOT, *, whole: bool = True) -> Occupancy:
    """What a device holds, as far as that can be found out in `LIMIT_S`. Without `whole`, samples are enough.

    A device that was examined by this process and not written since is not read again. OSError when it cannot be
    opened.
    """
    handle = _open(path)
    try:
        with suppress(OSError):
            os.fsync(handle)  # what waits in the page cache is neither in counters nor in a backing file
        state = _state(device, root)
        earlier_state, seen = _known.get(device.number, (None, None))
        # A sample of zeros is no answer where all is to be read. A drive's word is asked for anew.
        is_known = seen is not None and (seen.empty or seen.whole_s is not None or seen.data_at_bytes is not None)
        is_same = state is not None and state == earlier_state
        if seen is None or not is_same or seen.reported or seen.failure or (whole and not is_known):
            seen = _examined(path, handle, device, root, whole)
        else:
            seen = replace(seen, data_at_bytes=seen.data_at_bytes or _sample(path).data_at_bytes)
    finally:
        os.close(handle)
    _known[device.number] = (state, seen)
    return seen


def latest(device: Device) -> Occupancy | None:
    """What the last look of this process found, for people to read; None where there was none."""
    return _known.get(device.number, (None, None))[1]


def _examined(path: Path, handle: int, device: Device, root: Path, whole: bool) -> Occupancy:
    disk = block_devices.disk_of(device)  # of a namespace's partitions as well
    node = block_devices.node_of(disk, root) if NAMESPACE.fullmatch(disk.name) else None
    blocks = unallocated_blocks(node, disk.size_bytes) if node is not None else None
    if blocks is not None:
        word = f"the drive reports that none of its {blocks} blocks is allocated (NVMe, NUSE 0)"
        return Occupancy(device.size_bytes, reported=word)
    spans = _stored(device, root) if whole else None
    if spans is None:
        sample = replace(_sample(path), size_bytes=device.size_bytes)
        if not whole or sample.data_at_bytes is not None or sample.failure:
            return sample
        spans = [(0, device.size_bytes)]
    progress = _progress.get() or (lambda text, share: None)
    text = f"reading {path} to see whether it is empty"
    return scan(_reader(handle), device.size_bytes, spans, lambda share: progress(text, share))


def scan(
    read: Read,
    size_bytes: int,
    spans: Iterable[tuple[int, int]],
    progress: Callable[[float], None] = lambda share: None,
    clock: Callable[[], float] = time.monotonic,
) -> Occupancy:
    """Read `spans` (start and end in bytes, rising; all else is zero) to the first byte set, or to the limit."""
    import numpy as np

    began_s, done_bytes = clock(), 0
    for start, end in spans:
        for offset in range(start, end, _PIECE_BYTES):
            length = min(_PIECE_BYTES, end - offset)
            try:
                data = read(offset, length)
            except OSError as error:
                where = f"in the {units.format_size(length)} from byte {offset}"
                return Occupancy(size_bytes, offset, failure=f"{where} ({error.strerror or error})")
            whole = length // _WORD_BYTES * _WORD_BYTES
            if np.frombuffer(data[:whole], dtype=np.uint64).any() or any(data[whole:]):
                at = offset + int((np.frombuffer(data, dtype=np.uint8) != 0).argmax())
                return Occupancy(size_bytes, at, data_at_bytes=at)
            done_bytes += length
            elapsed_s = clock() - began_s
            whole_s = elapsed_s * (size_bytes - offset - length + done_bytes) / done_bytes
            late = elapsed_s > LIMIT_S or (elapsed_s > _FORECAST_S and whole_s > _HOPE * LIMIT_S)
            if late and offset + length < size_bytes:
                return Occupancy(size_bytes, offset + length, whole_s=whole_s)
            progress((offset + length) / size_bytes)
    return Occupancy(size_bytes, size_bytes)


def _sample(path: Path) -> Occupancy:
    """A look at some places, which finds most data at once."""
    try:
        sample = content(path, ZEROS)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return Occupancy(0, failure=f"in one of {PLACES} places ({error.strerror})")
    return Occupancy(0, data_at_bytes=sample.first_data_bytes)


def _open(path: Path) -> int:
    """Past the page cache where that goes, so that nothing else is driven out of it."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(path, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.open(path, flags)


def _reader(handle: int) -> Read:
    memory = memoryview(mmap.mmap(-1, _PIECE_BYTES))  # page-aligned, as direct I/O wants it

    def read(offset: int, length: int) -> memoryview:
        done = 0
        while done < length:
            count = os.preadv(handle, [memory[done:length]], offset + done)
            if count == 0:
                raise OSError(errno.EIO, "ends before its size")
            done += count
        os.posix_fadvise(handle, offset, length, os.POSIX_FADV_DONTNEED)
        return memory[:length]

    return read


def _stored(device: Device, root: Path) -> list[tuple[int, int]] | None:
    """Where the backing file of a loop device holds anything, as offsets of the device; None where not known."""
    loop = next((loop for loop in block_devices.loops(root) if loop.device.number == device.number), None)
    if loop is None or loop.file is None or device.partition:
        return None
    with suppress(OSError, ValueError):
        handle = os.open(root / loop.backing.lstrip("/"), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(handle)
            if (status.st_dev, status.st_ino) == loop.file:
                begin = int((loop.device.folder / "loop/offset").read_text())
                return list(_data_spans(handle, begin, device.size_bytes))
        finally:
            os.close(handle)
    return None


def _data_spans(handle: int, begin: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """SEEK_DATA and SEEK_HOLE (lseek(2)), cut to the device and to whole blocks."""
    at, end = begin, begin + size_bytes
    while at < end:
        try:
            start = os.lseek(handle, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # no data from here on
            raise
        if start >= end:
            return
        at = min(os.lseek(handle, start, os.SEEK_HOLE), end)
        first, last = (start - begin) // _ALIGNMENT_BYTES, -(-(at - begin) // _ALIGNMENT_BYTES)
        yield first * _ALIGNMENT_BYTES, min(last * _ALIGNMENT_BYTES, size_bytes)


def _state(device: Device, root: Path) -> tuple[int | None, ...] | None:
    """What changes with every write: the medium's number and the counters of its disk. None where writes may not show.

    The bytes of a loop, md or dm device also change below it. Fields of /sys/block/*/stat: Linux
    Documentation/block/stat.rst.
    """
    disk = block_devices.disk_of(device)
    is_layered = block_devices.slaves(disk) or (disk.folder / "loop/backing_file").exists()
    try:
        counted = (disk.folder / "queue/iostats").read_text().strip() == "1"
        fields = [int(word) for word in (disk.folder / "stat").read_text().split()]
    except (OSError, ValueError):
        return None
    if is_layered or not counted or device.diskseq is None or len(fields) < 14:
        return None
    return (device.diskseq, device.size_bytes, fields[4], fields[6], fields[11], fields[13])


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
    kind: str
    label: str
    offset_bytes: int | None

    def __str__(self) -> str:
        title = _TABLES.get(self.kind, self.kind)
        return f"{title}, label {self.label}" if self.label else title


@dataclass(frozen=True)
class Content:
    places: int
    """Blocks of 4 KiB looked at."""
    blank: int
    """Of these, those that are blank: zeros or ones, as a drive answers for what was never written."""
    first_data_bytes: int | None
    """Offset of the first block that holds anything."""


def signatures(path: Path) -> list[Signature]:
    """All known formats on a device or in a file. ToolError when it cannot be found out."""
    answer = supervisor.capture(["wipefs", "--no-act", "--json", str(path)], timeout_s=_PATIENCE_S)
    if answer.exit_code != 0:
        raise ToolError(f"wipefs cannot say what {path} holds: {answer.stderr.strip() or 'it did not end'}")
    try:
        entries = json.loads(answer.stdout)["signatures"] if answer.stdout.strip() else []
        found = [Signature(entry["type"], entry["label"] or "", int(entry["offset"], 16)) for entry in entries]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ToolError(f"wipefs said of {path} what cannot be read ({type(error).__name__}: {error})") from None
    answer = supervisor.capture(["blkid", "-p", "-o", "export", str(path)], timeout_s=_PATIENCE_S)
    if answer.exit_code not in (0, _BLKID_NOTHING, _BLKID_AMBIVALENT):
        raise ToolError(f"blkid cannot say what {path} holds: {answer.stderr.strip() or 'it did not end'}")
    fields = dict(line.partition("=")[::2] for line in answer.stdout.splitlines())
    more = [(fields.get("TYPE"), fields.get("LABEL", "")), (fields.get("PTTYPE"), "")]
    if answer.exit_code == _BLKID_AMBIVALENT:
        more = [("several formats at once", "")]
    kinds = {None, "", *(signature.kind for signature in found)}
    return found + [Signature(str(kind), label, None) for kind, label in more if kind not in kinds]


def content(path: Path, blanks: Sequence[bytes] = _BLANKS) -> Content:
    """Look at the first and the last MiB and at places between. OSError when it cannot be read.

    A block is blank that begins one of `blanks`, each a MiB: by default zeros or ones.
    """
    places = blank = 0
    first: int | None = None
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        for offset, length in _spans(os.lseek(handle, 0, os.SEEK_END)):
            data = os.pread(handle, length, offset)
            is_blank = any(data == each[: len(data)] for each in blanks)  # in one comparison, as nearly always
            for start in range(0, len(data), _BLOCK_BYTES):
                places += 1
                if is_blank or any(
                    (block := data[start : start + _BLOCK_BYTES]) == each[: len(block)] for each in blanks
                ):
                    blank += 1
                elif first is None:
                    first = offset + start
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
    return Content(places, blank, first)


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


_IOCTL_ID = 0x4E40  # NVME_IOCTL_ID: the namespace's identifier
_IOCTL_ADMIN = 0xC0484E41  # NVME_IOCTL_ADMIN_CMD
_IDENTIFY, _CNS_NAMESPACE = 0x06, 0x00
_COMMAND = struct.Struct("=BBHIIIQQII6III")  # struct nvme_passthru_cmd
_DATA_BYTES = 4096
_SIZES = struct.Struct("<QQQBBB")  # NSZE, NCAP, NUSE, NSFEAT, NLBAF, FLBAS
_FORMATS_AT = 128
_FORMAT_BYTES = 4
_THIN = 0x1
_PATIENCE_MS = 10_000
NAMESPACE = re.compile(r"nvme\d+n\d+")
"""The kernel's name of a whole NVMe namespace."""

Ioctl = Callable[[int, int, Any], Any]


def unallocated_blocks(node: Path, size_bytes: int, ioctl: Ioctl | None = None) -> int | None:
    """How many blocks the namespace behind `node` has, where it is of this size and says that none is allocated.

    None where it says something else, makes no sense or cannot be asked.
    """
    ask = ioctl or fcntl.ioctl
    data = ctypes.create_string_buffer(_DATA_BYTES)
    words = (ctypes.addressof(data), 0, _DATA_BYTES, _CNS_NAMESPACE, 0, 0, 0, 0, 0)
    try:
        handle = os.open(node, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            identifier = ask(handle, _IOCTL_ID, 0)
            command = _COMMAND.pack(_IDENTIFY, 0, 0, identifier, 0, 0, 0, *words, _PATIENCE_MS, 0)
            if ask(handle, _IOCTL_ADMIN, bytearray(command)):  # OSError where the driver refuses
                return None
        finally:
            os.close(handle)
    except OSError:
        return None
    blocks, _, allocated, features, _, format_index = _SIZES.unpack_from(data)
    # Bits 6:5 are the upper ones of an index into more than 16 formats.
    index = format_index & 0xF | (format_index >> 5 & 0x3) << 4
    shift = data.raw[_FORMATS_AT + _FORMAT_BYTES * index + 2]  # LBADS: the block's size as a power of two
    # NUSE counts the blocks that were written and not deallocated since, where the namespace is thin.
    is_empty = bool(features & _THIN) and allocated == 0 and 9 <= shift <= 31 and 0 < blocks << shift == size_bytes
    return blocks if is_empty else None
