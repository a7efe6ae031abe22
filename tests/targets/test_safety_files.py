"""No file is written that ioassay did not make; a file that a device or swap lives in is never written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.errors import SafetyRefusal, StudyError
from ioassay.roles import NOTHING, READ, WRITE, Consent
from ioassay.targets import ownership_mark, safety, target

from .conftest import MIB, command, digest, make_ext4


def ignore(text: str, share: float) -> None:
    pass


def refusal(path: Path | str, *names: str, hashed: Path | None = None) -> str:
    """The message of the refusal to write; asserts that job files and file targets are refused alike, unwritten."""
    consent, file = Consent(names), hashed or Path(path)
    before = digest(file), file.stat().st_size, os.listxattr(file)
    with pytest.raises(SafetyRefusal) as first:
        safety.inspect_path(Path(path), WRITE, consent)
    for step in ("inspect", "prepare"):
        made = target({"kind": "file", "path": str(path), "size": "1MiB"}, consent)
        with pytest.raises(SafetyRefusal) as again:
            made.inspect(WRITE) if step == "inspect" else made.prepare(WRITE, ignore)
        made.close()
        assert str(again.value) == str(first.value)
    assert (digest(file), file.stat().st_size, os.listxattr(file)) == before
    return str(first.value)


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter"
    path.write_text("Dear sister,\n" * 1000)
    return path


def test_a_users_file_is_refused(letter: Path) -> None:
    message = refusal(letter)
    assert f"{letter} exists and was not made by ioassay (12.7 KiB of data)" in message
    assert f"--destroy-data={letter}" in message


def test_a_users_file_is_refused_by_any_name(letter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "soft").symlink_to("letter")
    (tmp_path / "hard").hardlink_to(letter)
    for path in ("letter", "soft", "hard", "./letter", f"../{tmp_path.name}/letter"):
        assert "was not made by ioassay" in refusal(path, hashed=letter)


def test_a_users_sparse_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(4 * MIB)
    message = refusal(path)
    assert "was not made by ioassay (of its 4 MiB, byte 0 and perhaps more were never written)" in message


def test_an_allocated_but_unwritten_file_is_seen_as_unwritten(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * MIB)
    assert "never written" in safety.unwritten(path)
    assert "never written" in refusal(path)


def test_reading_an_unwritten_file_is_suspicious_in_a_job_and_refused_as_a_target(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.write(b"x" * 8192)
        file.truncate(4 * MIB)
    assert "unwritten-file" in [warning.code for warning in safety.inspect_path(path, READ, Consent())]
    made = target({"kind": "file", "path": str(path)}, Consent())
    with pytest.raises(SafetyRefusal, match=r"byte 8192 .* never written") as refused:
        made.inspect(READ)
    assert "prepare = 'none'" in str(refused.value)
    as_it_is = target({"kind": "file", "path": str(path), "prepare": "none"}, Consent())
    assert "unwritten-file" in [warning.code for warning in as_it_is.inspect(READ)]


def test_a_file_system_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(8 * MIB))
    make_ext4(path, "photos")
    assert f"{path} holds ext4, label photos" in refusal(path)


def test_our_own_file_that_was_formatted_since_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "testfile"
    path.write_bytes(bytes(8 * MIB))
    ownership_mark.write(path, ownership_mark.Mark(8 * MIB))
    safety.inspect_path(path, WRITE, Consent())
    make_ext4(path)
    assert f"{path} holds ext4, label data" in refusal(path)


def test_consent_by_the_files_path_goes(letter: Path, tmp_path: Path) -> None:
    safety.inspect_path(letter, WRITE, Consent((str(letter),)))
    assert f"--destroy-data={tmp_path}/other does not name it" in refusal(letter, f"{tmp_path}/other")


def test_reading_a_users_file_goes_and_marks_nothing(letter: Path) -> None:
    assert safety.inspect_path(letter, READ, Consent()) == []
    made = target({"kind": "file", "path": str(letter)}, Consent())
    assert made.prepare(READ, ignore) == []
    made.close()
    assert letter.read_text().startswith("Dear sister") and ownership_mark.read(letter) is None


def test_a_file_of_no_bytes_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert safety.inspect_path(tmp_path / "empty", WRITE, Consent()) == []


def test_a_path_that_is_not_there_goes(tmp_path: Path) -> None:
    for path in (tmp_path / "new", tmp_path / "no folder" / "new"):
        assert safety.inspect_path(path, WRITE, Consent()) == []
    (tmp_path / "dangling").symlink_to("new")
    assert safety.inspect_path(tmp_path / "dangling", WRITE, Consent()) == []
    assert safety.inspect_path(tmp_path, WRITE, Consent()) == [], "a folder that a job makes its files in"


def test_a_mistyped_device_is_not_made_a_file_in_memory() -> None:
    with pytest.raises(StudyError, match="/dev is no place for new files"):
        safety.inspect_path(Path("/dev/sdzz9"), WRITE, Consent())
    with pytest.raises(StudyError, match="/dev is no place for new files"):
        target({"kind": "file", "path": "/dev/sdzz9", "size": 1}, Consent()).inspect(WRITE)


def test_what_is_neither_file_nor_device_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for access in (READ, WRITE):
        with pytest.raises(SafetyRefusal, match="pipe"):
            safety.inspect_path(tmp_path / "pipe", access, Consent())
        with pytest.raises(SafetyRefusal, match="name a file"):
            target({"kind": "file", "path": str(tmp_path / "pipe"), "size": 1}, Consent()).inspect(access)
        with pytest.raises(SafetyRefusal, match="a folder"):
            target({"kind": "file", "path": str(tmp_path), "size": 1}, Consent()).inspect(access)


def test_a_load_that_touches_nothing_is_not_asked_about(letter: Path) -> None:
    assert safety.inspect_path(letter, NOTHING, Consent()) == []


def test_a_jobs_own_file_can_be_written_again(tmp_path: Path) -> None:
    path = tmp_path / "job.0.0"
    safety.inspect_path(path, WRITE, Consent())
    safety.expect_own(path)
    path.write_bytes(os.urandom(MIB))
    safety.inspect_path(path, WRITE, Consent())  # killed here: the announcement is enough
    safety.mark_own(path)
    assert sorted(tmp_path.iterdir()) == [path]
    safety.inspect_path(path, WRITE, Consent())
    path.unlink()
    path.write_text("another file of the same name")
    assert "was not made by ioassay" in refusal(path)


def test_an_unusable_path_is_a_mistake_in_the_study(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    for path in (tmp_path / "round", tmp_path / ("x" * 300), Path("nul\0l")):
        with pytest.raises(StudyError, match="cannot be looked at"):
            safety.inspect_path(path, WRITE, Consent())


@pytest.mark.root
def test_a_block_device_is_no_file_target(loop_device: Callable) -> None:
    disk = loop_device(4 * MIB)
    with pytest.raises(SafetyRefusal, match="kind = 'device'"):
        target({"kind": "file", "path": str(disk), "size": 4096}, Consent()).inspect(WRITE)
    with pytest.raises(StudyError, match="kind = 'file'"):
        target({"kind": "device", "path": __file__}, Consent()).inspect(WRITE)


@pytest.mark.root
def test_the_backing_file_of_a_mounted_loop_device_is_refused(
    loop_device: Callable, mount: Callable, tmp_path: Path
) -> None:
    disk = loop_device(16 * MIB)
    backing = Path("/sys/block", disk.name, "loop/backing_file").read_text().strip()
    make_ext4(disk)
    point = mount(disk)
    (tmp_path / "hard").hardlink_to(backing)
    (tmp_path / "soft").symlink_to(backing)
    for path in (backing, tmp_path / "hard", tmp_path / "soft"):
        message = refusal(path, str(Path(path).resolve()))
        assert f"is the backing file of the loop device {disk} (ext4, label data)" in message
        assert f"{disk} (ext4, label data) is mounted on {point} in this namespace" in message
        assert f"umount {point}; losetup -d {disk}" in message


@pytest.mark.root
def test_a_backing_file_is_refused_even_if_it_is_ours_and_not_mounted(loop_device: Callable, tmp_path: Path) -> None:
    path = tmp_path / "testfile"
    path.write_bytes(os.urandom(4 * MIB))
    ownership_mark.write(path, ownership_mark.Mark(4 * MIB))
    disk = loop_device(backing=path)
    message = refusal(path, str(path))
    assert f"is the backing file of the loop device {disk}" in message and f"losetup -d {disk}" in message


@pytest.mark.root
def test_an_active_swap_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "swap file"
    path.write_bytes(bytes(4 * MIB))
    path.chmod(0o600)
    command("mkswap", path)
    done = subprocess.run(["swapon", str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs swapon: {done.stderr.strip()}")
    try:
        (tmp_path / "hard").hardlink_to(path)
        for name in (path, tmp_path / "hard"):
            assert f"{name} is an active swap file ({path})" in refusal(name, str(name))
    finally:
        command("swapoff", path)


@pytest.mark.root
def test_the_kernels_switches_are_never_written() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        for path in (f"/proc/{sleeper.pid}/comm", "/sys/kernel/mm/transparent_hugepage/enabled"):
            with pytest.raises(SafetyRefusal, match="switches of the kernel"):
                safety.inspect_path(Path(path), WRITE, Consent((path,)))
    finally:
        sleeper.kill()
        sleeper.wait()
