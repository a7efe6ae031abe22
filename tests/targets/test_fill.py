"""What is written cannot be compressed, and no two blocks are alike."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from ioassay.targets import fill

BLOCK_BYTES = 4096


def test_no_block_compresses_and_none_comes_twice(seed: int) -> None:
    blocks = set()
    size_bytes = 3 * fill.CHUNK_BYTES
    for chunk in fill.chunks(size_bytes, seed):
        pieces = [bytes(chunk[start : start + BLOCK_BYTES]) for start in range(0, len(chunk), BLOCK_BYTES)]
        blocks |= {hash(piece) for piece in pieces}
        assert all(len(zlib.compress(piece, 1)) > BLOCK_BYTES * 0.99 for piece in pieces[::97])
    assert len(blocks) == size_bytes // BLOCK_BYTES


def test_two_fills_differ() -> None:
    assert bytes(next(fill.chunks(4096))) != bytes(next(fill.chunks(4096)))
    assert bytes(next(fill.chunks(4096, 7))) == bytes(next(fill.chunks(4096, 7)))


@pytest.mark.parametrize(("start", "end"), [(0, 10000), (4096, 8192), (100, 4196)])
def test_only_the_asked_range_is_written(tmp_path: Path, start: int, end: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(12288))
    handle = os.open(path, os.O_RDWR)
    try:
        fill.fill(handle, start, end, lambda share: None)
    finally:
        os.close(handle)
    data = path.read_bytes()
    assert len(data) == 12288
    assert not any(data[:start]) and not any(data[end:])
    assert data[start:end].count(0) < (end - start) * 0.05


def test_a_file_system_without_direct_io_is_filled_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, command: int, argument: int = 0) -> int:
        if argument & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return 0

    monkeypatch.setattr(fill.fcntl, "fcntl", refuse)
    with (tmp_path / "file").open("w+b") as file:
        fill.fill(file.fileno(), 0, 8192, lambda share: None)
    assert (tmp_path / "file").stat().st_size == 8192
