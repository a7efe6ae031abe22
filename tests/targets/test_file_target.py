"""The file target: made once, full of data before it is read, never past the free space, never another's."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioassay.errors import RunError, SafetyRefusal, StudyError
from ioassay.roles import READ, WRITE, Consent, Load, Target
from ioassay.targets import filesystem, fill, ownership_mark, target
from ioassay.targets.file_targets import FileTarget

from .conftest import MIB, command, digest, ignore

pytestmark = pytest.mark.usefixtures("any_room")
TRIAL: Any = None
"""Targets look at nothing of a trial."""


def make(path: Path | str, size: str | int | None = "1MiB", **settings: Any) -> Target:
    sized = {} if size is None else {"size": size}
    return target({"kind": "file", "path": str(path), **sized, **settings}, Consent())


def loaded(made: Target) -> Load:
    with made.load(TRIAL) as load:
        return load


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "testfile"


@pytest.mark.parametrize("size_bytes", [1, 4096, 1000000, fill.CHUNK_BYTES + 4096, 2 * fill.CHUNK_BYTES + 5])
def test_the_file_is_written_in_full_before_it_is_loaded(path: Path, size_bytes: int) -> None:
    told: list[float] = []
    made = make(path, size_bytes)
    made.inspect(READ)
    assert not path.exists(), "inspecting makes nothing"
    made.prepare(READ, lambda text, share: told.append(share))
    assert path.stat().st_size == size_bytes
    assert filesystem.first_unwritten_bytes(path) is None
    assert ownership_mark.read(path) == size_bytes
    assert told == sorted(told) and told[-1] == 1.0
    assert loaded(made) == Load("file", path, size_bytes, read_only=True)


def test_a_complete_file_of_ours_is_used_again(path: Path) -> None:
    make(path).prepare(WRITE, ignore)
    before = digest(path), path.stat().st_ino
    again = make(path)
    again.inspect(WRITE)
    again.prepare(WRITE, ignore)
    assert (digest(path), path.stat().st_ino) == before
    assert loaded(again).read_only is False
    smaller = make(path, "512KiB")  # a larger file of ours is used as it is
    smaller.prepare(READ, ignore)
    assert digest(path) == before[0] and loaded(smaller).size_bytes == MIB // 2
    head = path.read_bytes()  # and a smaller one is made longer
    larger = make(path, "3MiB")
    larger.prepare(WRITE, ignore)
    assert path.stat().st_size == 3 * MIB and path.read_bytes()[:MIB] == head
    assert filesystem.first_unwritten_bytes(path) is None
    larger.close()
    assert path.exists(), "files are kept"
    for keep in (True, False):
        made = make(path, keep=keep)
        made.prepare(WRITE, ignore)
        made.close()
        made.close()
        assert path.exists() is keep


def test_an_interrupted_fill_is_noticed_and_started_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(path, 3 * fill.CHUNK_BYTES).prepare(READ, lambda text, share: stop(share))
    assert ownership_mark.read(path) == 0 and 0 < path.stat().st_size < 3 * fill.CHUNK_BYTES
    made = make(path, 3 * fill.CHUNK_BYTES)
    made.prepare(READ, ignore)
    assert ownership_mark.read(path) == 3 * fill.CHUNK_BYTES


def die_at(number: int) -> None:
    """This process is killed before that one of the calls that change files."""
    calls = itertools.count(1)

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in ("pwrite", "fsync", "fdatasync", "setxattr", "ftruncate", "posix_fallocate"):
        setattr(os, name, dying(getattr(os, name)))


def test_a_fill_that_is_killed_at_any_instant_is_never_taken_for_complete(path: Path) -> None:
    """Killed before the first, the second, ... of the calls that change the file, until one fill ends by itself."""
    size_bytes = 3 * fill.CHUNK_BYTES
    for number in itertools.count(1):
        child = os.fork()
        if child == 0:
            try:
                die_at(number)
                make(path, size_bytes).prepare(READ, ignore)
            finally:
                os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        mark = ownership_mark.read(path)
        if mark is not None and mark:
            assert mark == size_bytes == path.stat().st_size
            assert filesystem.first_unwritten_bytes(path) is None
        if not killed:
            break
        path.unlink(missing_ok=True)
    assert number > 5 and mark == size_bytes


def test_a_fill_leaves_the_page_cache_clean(path: Path) -> None:
    if shutil.which("fincore") is None or filesystem.direct_io(path) is not True:
        pytest.skip("needs fincore and a file system with direct I/O")
    make(path, "16MiB").prepare(READ, ignore)
    assert int(command("fincore", "--bytes", "--noheadings", "--output", "RES", path)) < MIB


def test_holes_that_a_load_has_made_are_filled_again(path: Path) -> None:
    made = make(path, "2MiB")
    made.prepare(WRITE, ignore)
    with made.load(TRIAL):
        command("fallocate", "--punch-hole", "--offset", "8192", "--length", "65536", path)
    assert filesystem.first_unwritten_bytes(path) == 8192
    make(path, "2MiB").prepare(READ, ignore)
    assert filesystem.first_unwritten_bytes(path) is None


def test_data_on_its_way_to_the_disk_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During write-back ext4 has extents that are allocated, and unwritten until the data has arrived."""
    (tmp_path / "file").write_bytes(bytes(range(256)) * 16)
    looks = []

    def ioctl(_: int, __: int, buffer: bytearray) -> None:
        start, length, how, *_ = filesystem._HEAD.unpack_from(buffer)
        looks.append(how)
        filesystem._HEAD.pack_into(buffer, 0, start, length, how, 1, 1, 0)
        flags = 0 if how & 0x1 else 0x800  # FIEMAP_FLAG_SYNC, FIEMAP_EXTENT_UNWRITTEN
        filesystem._EXTENT.pack_into(buffer, filesystem._HEAD.size, start, 0, length, 0, 0, flags, 0, 0, 0)

    monkeypatch.setattr(filesystem.fcntl, "ioctl", ioctl)
    assert filesystem.first_unwritten_bytes(tmp_path / "file") is None
    assert looks == [0, 1]


def test_a_full_disk_in_the_middle_removes_the_partial_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite

    def pwrite(handle: int, data: memoryview, offset: int) -> int:
        if offset >= fill.CHUNK_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(RunError, match=r"No space left on device while it was filled to 32 MiB.*target\.size"):
        make(path, "32MiB").prepare(WRITE, ignore)
    assert list(path.parent.iterdir()) == []


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system of 1000 MiB with 200 MiB free, of which 64 MiB are the margin."""
    facts = SimpleNamespace(f_bavail=200, f_blocks=1000, f_frsize=MIB)
    monkeypatch.setattr(filesystem.os, "statvfs", lambda folder: facts)


@pytest.mark.usefixtures("small_disk")
def test_the_margin_is_left_free(path: Path) -> None:
    make(path, "136MiB").inspect(WRITE)
    with pytest.raises(StudyError, match="200 MiB are free and 64 MiB of them are reserved; expected at most 136 MiB"):
        make(path, 136 * MIB + 1).inspect(WRITE)


@pytest.mark.usefixtures("small_disk")
def test_what_our_file_holds_already_counts_as_free(path: Path) -> None:
    made = make(path, "8MiB")
    made.prepare(WRITE, ignore)
    make(path, "144MiB").inspect(WRITE)
    with pytest.raises(StudyError, match=r"208.* are free"):
        make(path, 144 * MIB + 65536).inspect(WRITE)


@pytest.mark.root
def test_a_real_small_file_system_is_never_filled_up(loop_device: Callable, tmp_path: Path) -> None:
    disk, point = loop_device(160 * MIB), tmp_path / "mnt"
    command("mkfs.ext4", "-q", "-E", "nodiscard", disk)
    point.mkdir()
    command("mount", disk, point)
    try:
        with pytest.raises(StudyError, match="does not fit"):
            make(point / "testfile", "150MiB").prepare(WRITE, ignore)
        room = filesystem.room(point)
        most = room.free_bytes - room.margin_bytes
        made = make(point / "testfile", most, keep=False)
        made.prepare(WRITE, ignore)
        assert filesystem.room(point).free_bytes >= room.margin_bytes * 0.95
        made.close()
        assert not (point / "testfile").exists()
    finally:
        command("umount", point)


def test_a_path_is_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = make("testfile")
    made.prepare(WRITE, ignore)
    monkeypatch.chdir("/")
    assert loaded(made).path == tmp_path / "testfile"
    placed = target({"kind": "file", "path": "x", "size": 1}, Consent(), study_folder=tmp_path)
    placed.prepare(WRITE, ignore)
    assert (tmp_path / "x").stat().st_size == 1


def test_a_users_file_is_not_made_longer_to_be_read(path: Path) -> None:
    path.write_bytes(b"x" * 4096)
    with pytest.raises(StudyError, match=r"target\.size: .* has 4 KiB and was not made by ioassay"):
        make(path, "1MiB").inspect(READ)
    made = make(path, None, keep=False)
    made.prepare(READ, ignore)
    assert loaded(made) == Load("file", path, 4096, read_only=True)
    made.close()
    assert path.read_bytes() == b"x" * 4096 and ownership_mark.read(path) is None, "neither removed nor marked"


def test_consent_overwrites_a_users_file(path: Path) -> None:
    path.write_bytes(b"x" * 3 * MIB)
    made = target({"kind": "file", "path": str(path), "size": "1MiB"}, Consent((str(path),)))
    made.prepare(WRITE, ignore)
    assert path.stat().st_size == MIB and ownership_mark.read(path) == MIB


def test_what_is_not_to_be_prepared_is_overwritten_in_place(path: Path) -> None:
    """As it has to be where a file cannot be made anew: a drive that is served as one."""
    path.write_bytes(b"x" * 3 * MIB)
    made = target({"kind": "file", "path": str(path), "size": "1MiB", "prepare": "none"}, Consent((str(path),)))
    made.prepare(WRITE, ignore)
    assert loaded(made) == Load("file", path, MIB, read_only=False)
    made.close()
    assert path.read_bytes() == b"x" * 3 * MIB and ownership_mark.read(path) is None
    with pytest.raises(SafetyRefusal):
        make(path, prepare="none").prepare(WRITE, ignore)


def replace_by(content: bytes, path: Path) -> None:
    path.unlink()
    path.write_bytes(content)  # ext4 gives it the number of the inode that has just become free


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.rename(path.with_name("moved")), "removed"),
        (lambda path: replace_by(path.read_bytes(), path), "removed, replaced or cut short"),
        (lambda path: replace_by(b"letters" * MIB, path), "replaced"),
        (lambda path: os.truncate(path, 4096), "cut short"),
        (lambda path: (os.truncate(path, 0), os.truncate(path, MIB)), "cut short"),
    ],
    ids=["moved away", "replaced by a copy", "replaced by a user's", "cut short", "full of holes"],
)
def test_a_file_that_is_no_longer_what_was_prepared_ends_the_run(
    path: Path, change: Callable[[Path], object], said: str
) -> None:
    made = make(path)
    made.prepare(READ, ignore)
    change(path)
    with pytest.raises(RunError, match=said):
        loaded(made)


def test_data_copied_over_our_file_is_not_overwritten_and_not_removed(path: Path) -> None:
    letters = path.with_name("letters")
    letters.write_bytes(b"letters" * MIB)
    made = make(path, keep=False)
    made.prepare(WRITE, ignore)
    loaded(made)
    command("cp", letters, path)  # into the same inode, so the attribute stays
    with pytest.raises(RunError, match="something else wrote to it"):
        loaded(made)
    made.close()
    with pytest.raises(SafetyRefusal, match="something else wrote to it since ioassay made it"):
        make(path).inspect(WRITE)
    assert digest(path) == digest(letters)


def test_what_the_load_itself_writes_leaves_the_file_ours(path: Path) -> None:
    made = make(path)
    made.prepare(WRITE, ignore)
    for _ in range(2):
        with made.load(TRIAL) as load, path.open("r+b") as file:
            file.write(b"written by the load")
            assert ownership_mark.read(path) is not None and load.path == path
    made.close()
    make(path).prepare(WRITE, ignore)


def test_our_file_that_was_formatted_is_not_removed(path: Path) -> None:
    make(path, "8MiB").prepare(WRITE, ignore)
    command("mkfs.ext4", "-q", "-F", path)
    made = make(path, "8MiB", keep=False)
    with pytest.raises(SafetyRefusal, match="ext4"):
        made.prepare(WRITE, ignore)
    made.close()
    assert path.exists()


def test_a_file_swapped_between_look_and_write_is_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letter = path.with_name("letter")
    letter.write_text("Dear sister,")
    real = filesystem.require_room

    def swap(*arguments: Any) -> None:
        real(*arguments)
        path.symlink_to(letter)

    monkeypatch.setattr(filesystem, "require_room", swap)
    with pytest.raises((RunError, SafetyRefusal)):
        make(path).prepare(WRITE, ignore)
    assert letter.read_text() == "Dear sister,"


def test_prepare_none_makes_an_unwritten_file_and_says_so(path: Path) -> None:
    made = make(path, prepare="none")
    assert "unwritten-file" in [warning.code for warning in made.prepare(READ, ignore)]
    assert path.stat().st_size == MIB and path.stat().st_blocks * 512 <= 4096  # the attribute's
    made.prepare(WRITE, ignore)
    make(path).prepare(READ, ignore)
    assert filesystem.first_unwritten_bytes(path) is None


# What is written

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


def test_a_renewed_file_is_written_as_often_as_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[tuple[int, int, int]] = []
    filled = fill.fill

    def count(handle: int, start: int, end: int, *rest: Any) -> None:
        ranges.append((start, end, *rest[1:]))
        filled(handle, start, end, *rest)

    monkeypatch.setattr(fill, "fill", count)
    made = FileTarget({"kind": "file", "path": str(path), "size": "4MiB", "purge": "discard", "prepare": 2}, Consent())
    for again in (True, True, False):
        if again:
            made.renew()
        made.prepare(WRITE, lambda text, share: None)
    assert ranges == [(0, 4 << 20, 128 << 10)] * 4
    made.close()
