"""The folder target: a new folder for each trial, removed with all that the tool left in it, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioassay.errors import RunError, SafetyRefusal, ToolError
from ioassay.roles import WRITE, Consent, Target
from ioassay.targets import target

TRIAL: Any = SimpleNamespace(id="0123456789abcdef")


pytestmark = pytest.mark.usefixtures("any_room")


def make(path: Path, **settings: object) -> Target:
    return target({"kind": "folder", "path": str(path), **settings}, Consent())


def test_a_trial_gets_an_empty_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("stays")
    with make(tmp_path, size="1MiB").load(TRIAL) as load:
        assert load.path is not None and list(load.path.iterdir()) == []
        assert load.path.parent == tmp_path
        assert (load.kind, load.size_bytes, load.read_only) == ("folder", 1 << 20, False)
        (load.path / "deep").mkdir()
        (load.path / "deep" / "data").write_text("of the tool")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_tool_that_makes_no_file_of_its_own_is_given_a_full_one(tmp_path: Path) -> None:
    with make(tmp_path, size="1MiB").load(TRIAL) as load:
        assert load.path is not None and load.new_file is not None
        file = load.new_file("data", 100_000)
        assert file == load.path / "data"
        assert file.stat().st_blocks * 512 >= 100_000
        assert len(set(file.read_bytes())) == 256
        with pytest.raises(ToolError, match="cannot be made: File exists"):
            load.new_file("data", 1)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_or_failed_trial_leaves_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".ioassay-0123456789abcdef"
    left.mkdir()
    (left / "half").write_text("written")
    with pytest.raises(ValueError, match="broken"), make(tmp_path).load(TRIAL) as load:
        assert load.path is not None and list(load.path.iterdir()) == []
        raise ValueError("broken")
    assert list(tmp_path.iterdir()) == []


def test_something_else_by_the_same_name_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data").write_text("stays")
    (tmp_path / ".ioassay-0123456789abcdef").symlink_to(elsewhere)
    with pytest.raises(SafetyRefusal, match="move it away"), make(tmp_path).load(TRIAL):
        pass
    assert (elsewhere / "data").read_text() == "stays"


def test_a_folder_in_memory_is_a_warning_that_names_the_folder() -> None:
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir():
        pytest.skip("needs /dev/shm")
    [warning] = [item for item in make(shared_memory).inspect(WRITE) if item.code == "memory-filesystem"]
    assert warning.text.startswith("/dev/shm lies on")


def test_a_folder_that_cannot_be_made_says_how_to_go_on(tmp_path: Path) -> None:
    made = make(tmp_path / "gone")
    with pytest.raises(RunError, match="resume the run"), made.load(TRIAL):
        pass
