"""What stress-ng leaves in shared memory is removed, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

from ioassay.drivers.stress_ng import stressor_outcome


def test_only_forgotten_objects_of_the_trial_are_removed(tmp_path: Path) -> None:
    folder, proc = tmp_path / "shm", tmp_path / "proc"
    (proc / "21").mkdir(parents=True)
    folder.mkdir()
    forgotten = folder / "stress-ng-20-1a-c99ca433"
    forgotten.write_bytes(bytes(4096))
    others = [folder / "stress-ng-21-1a-c99ca433", folder / "stress-ng-20-1a", folder / "mine"]
    for path in others:
        path.touch()
    (folder / "stress-ng-22-0-0").mkdir()
    (folder / "stress-ng-23-0-0").symlink_to(forgotten)
    since_unix_s = forgotten.stat().st_ctime
    assert stressor_outcome.remove_shared_memory(since_unix_s + 1, folder, proc) == []
    (warning,) = stressor_outcome.remove_shared_memory(since_unix_s, folder, proc)
    assert warning.text == f"stress-ng left 1 object of shared memory (4 KiB) in {folder}; removed"
    kept = {"stress-ng-22-0-0", "stress-ng-23-0-0", *(path.name for path in others)}
    assert set(os.listdir(folder)) == kept


def test_a_host_without_shared_memory_has_none_left(tmp_path: Path) -> None:
    assert stressor_outcome.remove_shared_memory(0.0, tmp_path / "none") == []
