"""Command lines and what they must answer: the rows of tests/corpus/commands, whose README has the words of a row."""

from __future__ import annotations

import functools
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay.store import packed_page

from ..corpora import CORPUS, cases, has, rows
from .conftest import ask

BEGINNINGS = {row["id"]: row for row in rows("commands", "beginnings")}
TABLES = sorted(path.stem for path in (CORPUS / "commands").glob("*.toml") if path.stem != "beginnings")
REFUSED = (2, 3)
OF_ROWS = {"id", "needs", "thorough", "beginning", "executable", "private", "files", "steps"}
OF_STEPS = {
    "remove",
    "files",
    "ask",
    "in",
    "env",
    "code",
    "out",
    "err",
    "both",
    "whole_out",
    "whole_err",
    "first",
    "last",
}
OF_STEPS |= {"without", "lines", "json", "pages", "there", "gone", "writes"}


@pytest.fixture(scope="module")  # and so all rows run in one worker, which makes each beginning once
def beginning(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that returns the folder in which a row begins, by its name. Copy it before you change it."""

    @functools.cache
    def made(name: str) -> Path:
        folder = tmp_path_factory.mktemp("beginning")
        act(BEGINNINGS[name], folder)
        return folder

    return made


@cases("commands", *TABLES)
def test_a_command_line_is_answered_as_its_row_says(
    case: dict[str, Any], beginning: Callable[[str], Path], tmp_path: Path
) -> None:
    if "beginning" in case:
        shutil.copytree(beginning(case["beginning"]), tmp_path, dirs_exist_ok=True)
    act(case, tmp_path)


def act(row: Mapping[str, Any], folder: Path) -> None:
    """Take the row's steps one after another; a row without steps is one itself."""
    assert not row.keys() - OF_ROWS - (OF_STEPS if "steps" not in row else set())
    for step in [{"files": row.get("files", {})}, *row["steps"]] if "steps" in row else [row]:
        assert not step.keys() - OF_STEPS - (OF_ROWS if step is row else set())
        for name in step.get("remove", ()):
            (shutil.rmtree if (folder / name).is_dir() else Path.unlink)(folder / name)
        for name, text in step.get("files", {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.replace("{here}", str(folder)))
            (folder / name).chmod(0o755 if name in row.get("executable", ()) else 0o644)
        for name in row.get("private", ()):
            (folder / name).chmod(0o600)
        if "ask" in step:
            take(step, folder)


def take(step: Mapping[str, Any], folder: Path) -> None:
    """Ask, and compare. Whom a command refuses (2, 3) finds every file as it was, and under --json one object."""
    code = step.get("code", 0)
    before = contents(folder) if code in REFUSED else {}
    words = shlex.split(step["ask"].replace("{here}", str(folder)))
    env = {name: text.replace("{here}", str(folder)) for name, text in step.get("env", {}).items()}
    answer = ask(*words, cwd=folder / step.get("in", "."), env=env)
    assert answer.code == code, answer
    said = {"out": answer.out, "err": answer.err, "both": answer.out + answer.err}
    for name, texts in step.items():
        if name in said:
            assert [text for text in texts if text.replace("{here}", str(folder)) not in said[name]] == [], answer
        elif name.startswith("whole_"):
            assert texts.replace("{here}", str(folder)) == said[name.removeprefix("whole_")]
        elif name in ("first", "last"):
            assert answer.out.splitlines()[0 if name == "first" else -1] == texts
        elif name == "pages":
            for place, parts in texts.items():
                page = packed_page.unpacked((folder / place).read_text())
                assert [text for text in parts if text not in page] == [], place
    assert [text for text in step.get("without", ()) if text in said["both"]] == [], answer
    assert len(said["both"].splitlines()) <= step.get("lines", 10_000), answer
    if "--json" in words:
        assert has(answer.json, step.get("json", {})), answer.json
        if code in REFUSED:
            assert answer.json["exit_code"] == code
            assert [text for text in step["err"] if text not in answer.json["error"]] == [], answer.json
    assert [name for name in step.get("there", ()) if not list(folder.glob(name))] == []
    assert [name for name in step.get("gone", ()) if list(folder.glob(name))] == []
    assert code not in REFUSED or "writes" in step or contents(folder) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
