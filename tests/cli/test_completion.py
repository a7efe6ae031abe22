"""What shells are offered: the words for a command line, and each shell with our script."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.cli import COMMANDS, COMPLETE, completion

from ..corpora import cases
from .conftest import NULL
from .terminal import Terminal

HEAVY = {"pydantic", "polars", "numpy", "importlib.metadata", "dask", "altair"}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a study, and the folders of two runs."""
    (tmp_path / "null.toml").write_text(NULL + "[scale.small]\nrepetitions = 1\n")
    for name in ("20260101-null", "20260102-null"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "plan.jsonl").touch()
    (tmp_path / "runs" / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tool(work: Path) -> Path:
    """A folder with a program `ioassay` that completes as ours, and otherwise says what it was given."""
    folder = work / "bin"
    folder.mkdir()
    ours = f"exec {shlex.quote(sys.executable)} -I -m ioassay"
    (folder / "ioassay").write_text(
        f'#!/bin/sh\nif [ "$1" = --complete ] || [ "$1" = --candidates ]; then {ours} "$@"; fi\necho "given: $*."\n'
    )
    (folder / "ioassay").chmod(0o755)
    return folder


@cases("completion", "offers")
def test_shells_are_offered_commands_options_and_values(case: dict[str, Any], work: Path) -> None:
    assert set(completion.candidates(case["words"])) == set(case["offered"])


@cases("completion", "meanings")
def test_what_is_offered_says_what_it_means(case: dict[str, Any], work: Path) -> None:
    (work / "titled.toml").write_text('title = "Is it fast?"\n')
    (work / "untitled.toml").write_text("title = 5\n")
    (work / "runs" / "20260102-null" / "study.toml").write_text('name = "a"\ntitle = "Is it fast?"\n')
    began = time.mktime((2026, 1, 2, 3, 4, 0, 0, 0, -1))
    for plan in work.glob("runs/*/plan.jsonl"):
        os.utime(plan, (began, began))
    assert next(iter(completion.candidates(case["words"]).values())) == case["meaning"]


@pytest.mark.parametrize("content", ["suite = 1", "factors = []", "[[", "study = [1]\nsuite = ['null.toml', 2]", "\0"])
def test_a_study_that_is_wrong_offers_nothing_of_its_own(content: str, work: Path) -> None:
    (work / "wrong.toml").write_text(content)
    for option, offered in (("--scale", {"full", "small"}), ("--factor", {"noise=", "x="})):
        assert set(completion.candidates(["run", "wrong.toml", option, ""])) <= offered


def test_completion_imports_nothing_that_takes_time() -> None:
    code = (
        f"import sys; from ioassay.cli import completion; [completion.candidates([x, '--x']) for x in {[*COMMANDS]}]; "
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", code + "print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout
    assert not HEAVY & set(said.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_once(shell: str, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("alias x=y")
    first = completion.install(shell, tmp_path)
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert completion.install(shell, tmp_path) == first
    assert before == {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(f" {option} " in first.read_text() for option in COMPLETE)
    assert (tmp_path / ".bashrc").read_text().startswith("alias x=y")


TYPED = [
    ("ioassay device sta", "device stats"),
    ("ioassay run block-io --scale q", "run block-io --scale quick"),
    ("ioassay run write-buffer-size --set policy=sie", "run write-buffer-size --set policy=sieve"),
    ("ioassay run --executor slurm:jobs=2,acc", "run --executor slurm:jobs=2,account="),
    ("ioassay report runs/20260102", "report runs/20260102-null"),
    ("ioassay import nul", "import null.toml"),  # a file name, by the shell itself
]


def bash(work: Path) -> list[str]:
    (work / "rc").write_text(f"PS1='ready> '; source {completion.install('bash', work)}\n")
    return ["bash", "--noprofile", "--rcfile", "rc", "-i"]


def zsh(work: Path) -> list[str]:
    script = completion.install("zsh", work)
    (work / ".zshrc").write_text(f"autoload -Uz compinit && compinit -u -D\nsource {script}\nPROMPT='ready> '\n")
    return ["zsh", "-i"]


@pytest.mark.parametrize("shell", [bash, zsh])
def test_a_shell_completes_what_is_typed(shell: Callable[[Path], list[str]], work: Path, tool: Path) -> None:
    _need(shell.__name__)
    env = {"PATH": f"{tool}:{os.environ['PATH']}", "HOME": str(work), "ZDOTDIR": str(work), "INPUTRC": "/dev/null"}
    with Terminal(shell(work), work, env, size=(40, 200)) as terminal:
        for typed, given in TYPED:
            terminal.until("ready> ")
            terminal.type(f"{typed}\t\n")
            terminal.until(f"given: {given} ?\\.")


def test_zsh_lists_what_candidates_mean(work: Path, tool: Path) -> None:
    _need("zsh")
    env = {"PATH": f"{tool}:{os.environ['PATH']}", "HOME": str(work), "ZDOTDIR": str(work)}
    with Terminal(zsh(work), work, env, size=(40, 60)) as terminal:
        terminal.until("ready> ")
        terminal.type("ioassay run access-paths-\t")
        terminal.until("access-paths-depth  -- Access paths: which is fastest over")
        terminal.until("access-paths-jobs   -- Access paths: which is fastest")
        terminal.type("\x15ioassay --\t")
        terminal.until("--log-level +-- Log what is decided and w")  # cut at the width


def test_fish_completes_what_is_typed(work: Path, tool: Path) -> None:
    _need("fish")
    script = completion.install("fish", work)
    env = {**os.environ, "PATH": f"{tool}:{os.environ['PATH']}", "HOME": str(work)}
    for typed, given in TYPED:
        code = f"source {script}; complete --do-complete {shlex.quote(typed)}"
        said = subprocess.run(
            ["fish", "--no-config", "-c", code], cwd=work, env=env, capture_output=True, text=True, check=True
        )
        assert [line.partition("\t")[0] for line in said.stdout.splitlines()] == [given.split()[-1]], typed
        assert said.stderr == ""
        if typed.endswith("device sta"):
            assert said.stdout == "stats\tSay what a served drive has counted.\n"


def _need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell} on PATH: apt-get install {shell}")
