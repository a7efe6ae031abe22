"""A mark stays with the file that it was made for, and with no other."""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

import pytest
from tests.patience import until

from ioassay.targets import ownership_mark


@pytest.fixture(params=["attribute", "sidecar", "sidecar without time of birth"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A marked file, with extended attributes or as if without; what is made later has a later time."""
    if request.param != "attribute":

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.ENOTSUP, "not kept")

        monkeypatch.setattr(os, "setxattr", refuse)
    if request.param == "sidecar without time of birth":
        monkeypatch.setattr(ownership_mark, "time_of_birth_ns", lambda path: None)
    path = tmp_path / "testfile"
    path.write_bytes(b"x" * 4096)
    ownership_mark.write(path, 4096)
    until(lambda: time.clock_gettime_ns(ownership_mark._CLOCK_REALTIME_COARSE) > path.stat().st_mtime_ns)
    return path


def test_only_the_marked_file_is_ours(file: Path) -> None:
    assert ownership_mark.read(file) == 4096
    copy = file.with_name("copy")
    shutil.copy2(file, copy)
    assert ownership_mark.read(copy) is None
    copy.write_bytes(b"a letter")
    copy.replace(file)
    assert ownership_mark.read(file) is None


def test_another_file_of_the_same_name_is_not_ours(file: Path) -> None:
    for _ in range(3):  # a file system gives a free inode number to the next file
        file.unlink()
        assert ownership_mark.read(file) is None
        file.write_bytes(b"a letter")
        assert ownership_mark.read(file) is None
    file.unlink()
    ownership_mark.forget(file)
    assert list(file.parent.iterdir()) == []


def test_writing_to_our_file_keeps_it_ours(tmp_path: Path) -> None:
    path = tmp_path / "testfile"
    path.write_bytes(b"x" * 4096)
    ownership_mark.write(path, 4096)
    path.write_bytes(b"y" * 8192)
    assert ownership_mark.read(path) == 4096


def test_a_garbled_note_is_no_mark(tmp_path: Path) -> None:
    path = tmp_path / "testfile"
    path.write_bytes(b"x")
    for text in (b"", b"[]", b"{", b'{"inode": 1}'):
        os.setxattr(path, ownership_mark.ATTRIBUTE, text)
        (tmp_path / ".testfile.ioassay").write_bytes(text)
        assert ownership_mark.read(path) is None


def test_a_file_that_was_there_before_the_announcement_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "job.0.0"
    path.write_bytes(b"a letter")
    ownership_mark.expect(path)
    assert ownership_mark.read(path) is None


def test_an_announcement_does_not_outlive_a_restart_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.0.0"
    ownership_mark.expect(path)
    path.write_bytes(b"x")
    assert ownership_mark.read(path) == 0
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(ownership_mark, "_BOOT_ID", tmp_path / "boot_id")
    assert ownership_mark.read(path) is None


def test_an_announcement_keeps_an_earlier_mark(file: Path) -> None:
    ownership_mark.expect(file)
    assert ownership_mark.read(file) == 4096


def test_a_settled_file_is_ours_until_something_writes_to_it(file: Path) -> None:
    ownership_mark.settle(file)
    assert ownership_mark.read(file) == 4096 and not ownership_mark.was_changed(file)
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert ownership_mark.read(file) is None
    assert ownership_mark.was_changed(file) or not os.listxattr(
        file
    )  # without birth or attribute nothing tells it from another


def test_a_file_that_is_expected_again_is_ours_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "made"
    path.write_bytes(b"x")
    ownership_mark.write(path)
    ownership_mark.settle(path)
    ownership_mark.expect(path)
    path.write_bytes(b"changed by a tool that is then killed")
    assert ownership_mark.read(path) == 0


def test_settling_makes_no_file_ours(tmp_path: Path) -> None:
    letter = tmp_path / "letter"
    letter.write_text("Dear sister,")
    ownership_mark.settle(letter)
    assert ownership_mark.read(letter) is None and not os.listxattr(letter)
