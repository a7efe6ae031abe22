"""Folders of served drives: those of drives that are gone go, and nothing else does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ioassay.host import drive_folders

KILLED = """
import os, signal
from ioassay.host import drive_folders
with drive_folders.socket_of_this_process() as path:
    print(path, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def killed(temporary: Path) -> Path:
    """The folder of a drive that SIGKILL ended, with its socket."""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode < 0 and done.stdout, done.stderr
    path = Path(done.stdout.strip())
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    return path.parent


def test_the_folder_of_a_killed_drive_goes_when_the_next_one_begins_or_it_is_removed(temporary: Path) -> None:
    left = killed(temporary)
    assert sorted(os.listdir(left)) == ["owner", "stats"]
    with drive_folders.socket_of_this_process() as own:
        assert os.listdir(temporary) == [own.parent.name]
        assert drive_folders.remove_leftovers() == []
        assert own.parent.is_dir()
    assert os.listdir(temporary) == []
    left = killed(temporary)
    (sentence,) = drive_folders.remove_leftovers()
    assert str(left) in sentence and not left.exists()


def test_a_living_owner_keeps_its_folder_by_its_number_or_by_its_lock(temporary: Path) -> None:
    """As of a file system without locks, and of another namespace, whose process numbers mean nothing here."""
    with drive_folders.socket_of_this_process() as own:
        record = own.with_name("owner")
        owner = json.loads(record.read_text())
        unlocked = temporary / "ioassay-device-unlocked"
        unlocked.mkdir()
        (unlocked / "owner").write_text(json.dumps(owner))
        record.write_text(json.dumps({**owner, "start_ticks": owner["start_ticks"] + 1}))
        assert drive_folders.remove_leftovers() == []
        assert own.parent.is_dir() and unlocked.is_dir()


def test_no_link_is_followed_and_nothing_unknown_is_removed(temporary: Path) -> None:
    left = killed(temporary)
    elsewhere = temporary / "elsewhere"
    left.rename(elsewhere)
    link = temporary / "ioassay-device-link"
    link.symlink_to(elsewhere)
    linked_owner = temporary / "ioassay-device-owner"
    linked_owner.mkdir()
    (linked_owner / "owner").symlink_to(elsewhere / "owner")
    for name, content in (("empty", None), ("broken", "{"), ("listed", "[]")):
        (temporary / f"ioassay-device-{name}").mkdir()
        if content is not None:
            (temporary / f"ioassay-device-{name}" / "owner").write_text(content)
    before = sorted(temporary.rglob("*"))
    assert drive_folders.remove_leftovers() == []
    link.unlink()
    elsewhere.rename(left)
    (left / "notes").write_text("of somebody")
    assert drive_folders.remove_leftovers() == []
    assert (left / "notes").exists() and len(before) == len(sorted(temporary.rglob("*")))
