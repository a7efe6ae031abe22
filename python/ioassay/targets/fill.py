"""Writes a file or device full of data that no drive or file system can compress or find twice.

A base of random bytes is combined (exclusive or) with a fresh random word for each chunk: as incompressible as the
base, different in every block, and made at memory speed, so that the disk is the limit. Written with direct I/O where
that goes, so that the page cache stays clean. Knows nothing of safety: its callers have asked. Which devices were
filled in full is remembered, so that the next study and a resumed run need not do it again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from typing_extensions import TypedDict

from ioassay import units, validation
from ioassay.errors import InputError, ToolError
from ioassay.host import block_devices
from ioassay.host.block_devices import Device
from ioassay.targets import occupancy
from ioassay.validation import Count, Whole

CHUNK_BYTES = 8 << 20
_ALIGNMENT_BYTES = 4096


REQUEST_BYTES = 128 << 10
"""The size of writes that precondition a drive (SNIA PTS 2.0, workload-independent preconditioning)."""


def fill(
    handle: int, start_bytes: int, end_bytes: int, progress: Callable[[float], None], request_bytes: int = CHUNK_BYTES
) -> None:
    """Write from start to end, flush to the medium and drop from the cache. OSError as the kernel says it.

    `progress` gets the share from 0 to 1. Each write(2) has `request_bytes` at most. The descriptor's direct flag is
    set while it goes and is off at the end.
    """
    offset = start_bytes
    try:
        for chunk in chunks(end_bytes - start_bytes):
            _set_direct(handle, wanted=(offset | len(chunk)) % _ALIGNMENT_BYTES == 0)
            for start in range(0, len(chunk), request_bytes):
                _write(handle, chunk[start : start + request_bytes], offset + start)
            offset += len(chunk)
            progress((offset - start_bytes) / (end_bytes - start_bytes))
    finally:
        _set_direct(handle, wanted=False)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def new_file(path: Path, size_bytes: int) -> Path:
    """A new file of that size, full of such data and flushed. ToolError where it cannot be made; nothing stays then."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ToolError(f"{path}: cannot be made: {error.strerror}") from None
    try:
        fill(handle, 0, size_bytes, lambda share: None)
    except OSError as error:
        path.unlink()
        raise ToolError(f"{path}: {error.strerror} while {units.format_size(size_bytes)} were written to it") from None
    finally:
        os.close(handle)
    return path


def chunks(size_bytes: int, seed: int | None = None) -> Iterator[memoryview]:
    """Page-aligned chunks of incompressible data, `size_bytes` in all; each is valid until the next is asked for."""
    import numpy as np

    words = random.Random(seed)
    base = np.frombuffer(words.randbytes(CHUNK_BYTES), dtype=np.uint64)
    memory = mmap.mmap(-1, CHUNK_BYTES)
    chunk = np.frombuffer(memory, dtype=np.uint64)
    view = memoryview(memory)
    for offset in range(0, size_bytes, CHUNK_BYTES):
        np.bitwise_xor(base, np.uint64(words.getrandbits(64)), out=chunk)
        yield view[: min(CHUNK_BYTES, size_bytes - offset)]


def _write(handle: int, chunk: memoryview, offset: int) -> None:
    done = 0
    while done < len(chunk):
        try:
            done += os.pwrite(handle, chunk[done:], offset + done)
        except OSError as error:
            # A file system may accept the flag and refuse the write, or want a larger alignment after a short write.
            is_direct = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT
            if error.errno != errno.EINVAL or not is_direct:
                raise
            _set_direct(handle, wanted=False)


def _set_direct(handle: int, *, wanted: bool) -> None:
    """Turn direct I/O on or off; where the file system has none, the cache is used."""
    flags = fcntl.fcntl(handle, fcntl.F_GETFL)
    new = flags | os.O_DIRECT if wanted else flags & ~os.O_DIRECT
    if new == flags:
        return
    try:
        fcntl.fcntl(handle, fcntl.F_SETFL, new)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


class _Fill(TypedDict):
    diskseq: int | None
    size_bytes: Whole
    times: Count


STATE = Path("/run/ioassay/filled")
_DATA_SHARE = 0.99


def times(device: Device, size_bytes: int, state: Path = STATE) -> int:
    """How many times this medium was filled up to this size, 0 when that is not known."""
    try:
        note = validation.read(_Fill, _note(device, state).read_bytes(), "the note")
    except (OSError, InputError):
        return 0
    if note["diskseq"] != device.diskseq or device.diskseq is None or note["size_bytes"] < size_bytes:
        return 0
    node = block_devices.node_of(device)
    sample = occupancy.content(node) if node is not None else None
    whole = sample is not None and (sample.places - sample.blank) >= _DATA_SHARE * sample.places
    return note["times"] if whole else 0


def note(device: Device, size_bytes: int, number: int, state: Path = STATE) -> None:
    """Remember a fill that has been flushed. Where nothing can be noted, the next study fills again."""
    path = _note(device, state)
    text = json.dumps({"diskseq": device.diskseq, "size_bytes": size_bytes, "times": number})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        path.unlink(missing_ok=True)


def forget(device: Device, state: Path = STATE) -> None:
    """Have the device filled again, whatever was written to it before."""
    _note(device, state).unlink(missing_ok=True)


def _note(device: Device, state: Path) -> Path:
    return state / f"{device.number.major}-{device.number.minor}.json"
