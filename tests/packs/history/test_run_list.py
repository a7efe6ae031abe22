"""Runs found in folders: what no command line of the corpus can make."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ioassay.packs.history import run_list


def test_a_folder_that_cannot_be_entered_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad/x").mkdir(parents=True)
    (tmp_path / "bad/x/plan.jsonl").write_text("{}")
    stat = os.stat

    def denied(path: object, *words: object, **keys: object) -> os.stat_result:
        if "bad/x/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *words, **keys)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", denied)
    (found,) = run_list.in_folders([tmp_path])
    assert found.run == str(tmp_path / "bad/x")
    assert found.state == "no run: Permission denied"


def test_links_are_not_followed_and_a_run_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "runs/a").mkdir(parents=True)
    (tmp_path / "runs/a/plan.jsonl").write_text("{}")
    (tmp_path / "runs/latest").symlink_to("a")
    (tmp_path / "runs/.hidden").mkdir()
    found = run_list.in_folders([tmp_path, tmp_path / "runs", tmp_path / "runs/a"])
    assert [one.run for one in found] == [str(tmp_path / "runs/a")]
    assert found[0].state.startswith("broken: ")
