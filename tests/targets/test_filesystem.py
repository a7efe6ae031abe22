"""What a file system does to a measurement is said before it is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioassay.errors import StudyError
from ioassay.targets import filesystem
from ioassay.targets.filesystem import Room

Build = Callable[[Mapping[str, Any]], Path]


def mounted(kind: str, source: str = "x", options: str = "rw") -> Mapping[str, str]:
    return {
        "proc/self/mountinfo": f"20 1 0:9 / / rw - ext4 /dev/x rw\n21 20 0:9 / /there rw - {kind} {source} {options}\n"
    }


@pytest.mark.parametrize(
    ("kind", "options", "code"),
    [
        ("tmpfs", "rw", "memory-filesystem"),
        ("nfs4", "rw", "network-filesystem"),
        ("fuse.sshfs", "rw", "network-filesystem"),
        ("9p", "rw", "host-filesystem"),
        ("overlay", "rw", "overlay-filesystem"),
        ("fuse.bindfs", "rw", "fuse-filesystem"),
        ("btrfs", "rw,compress=zstd:3", "compressed-filesystem"),
        ("zfs", "rw", "compressed-filesystem"),
    ],
)
def test_a_suspicious_file_system_is_named_with_a_way_out(fake_root: Build, kind: str, options: str, code: str) -> None:
    found = filesystem.warnings(Path("/there/testfile"), fake_root(mounted(kind, options=options)))
    assert [warning.code for warning in found] == [code]
    assert f"/there/testfile lies on /there ({kind})" in found[0].text and found[0].remedy


@pytest.mark.parametrize(
    ("kind", "options"), [("ext4", "rw"), ("btrfs", "rw"), ("btrfs", "rw,compress=no"), ("xfs", "")]
)
def test_a_plain_file_system_is_not_suspicious(fake_root: Build, kind: str, options: str) -> None:
    assert filesystem.warnings(Path("/there/testfile"), fake_root(mounted(kind, options=options))) == []


def test_refused_direct_io_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_root: Build) -> None:
    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(filesystem.os, "open", refuse)
    found = filesystem.warnings(tmp_path / "testfile", fake_root(mounted("ext4")))
    assert [warning.code for warning in found] == ["no-direct-io"]
    monkeypatch.undo()
    assert filesystem.direct_io(Path("/proc/self/status")) is False
    assert list(tmp_path.glob("*")) == [tmp_path / "fake_root"], "the question leaves no file"


def test_a_memory_file_system_has_no_more_room_than_memory(fake_root: Build, tmp_path: Path) -> None:
    tree = {
        "proc/self/mountinfo": f"20 1 0:9 / {tmp_path} rw - tmpfs x rw\n",
        "proc/meminfo": "MemAvailable: 1024 kB\n",
    }
    assert filesystem.room(tmp_path, fake_root(tree)).free_bytes == 1 << 20


@pytest.mark.parametrize(
    ("size_bytes", "margin_bytes"),
    [(1 << 30, 64 << 20), (100 << 30, 5 << 30), (252 << 30, 8 << 30), (16 << 40, 8 << 30)],
)
def test_a_twentieth_is_left_alone_but_never_more_than_8_gib(
    fake_root: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int, margin_bytes: int
) -> None:
    facts = SimpleNamespace(f_blocks=size_bytes // 4096, f_frsize=4096, f_bavail=3 << 18)
    monkeypatch.setattr(filesystem.os, "statvfs", lambda _: facts)
    assert filesystem.room(tmp_path, fake_root(mounted("ext4"))) == Room(3 << 30, margin_bytes)


def test_no_room_names_size_room_and_remedy(fake_root: Build, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"does not fit: .*left alone; wanted at most .*--set target\.path"):
        filesystem.require_room(tmp_path / "testfile", 1 << 62)
    filesystem.require_room(tmp_path / "testfile", 4096)
