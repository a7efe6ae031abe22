"""Durable files: whole or absent, and what the umask has no say in."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioassay import atomic_file


def test_content_is_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, Path.rename
    names = Path("/proc/self/fd")
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append((names / str(fd)).readlink().name), real_fsync(fd)))
    monkeypatch.setattr(Path, "rename", lambda old, new: (steps.append("rename"), real_rename(old, new))[1])
    atomic_file.write(tmp_path / "a.json", "text")
    assert steps == [".a.json.tmp", "rename", tmp_path.name]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "text"


def test_a_writer_that_dies_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_file.write(path, "old")

    def broken() -> Iterator[str]:
        yield "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic_file.write_pieces(path, broken())
    assert path.read_text() == "old"


def test_others_may_read_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        atomic_file.write(tmp_path / "a", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
