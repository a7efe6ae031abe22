"""`ioassay turns`: what each side is, the order, what it leaves, and how it ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from ioassay.api.study import Study
from ioassay.errors import UsageError
from ioassay.packs.comparison.turns import planned, turns

from ...cli.conftest import ask, start

STUDY = """
title = "Null"
driver = "null"
[params]
value = 100.0
noise = 0.001
metrics = { "read.bw" = 1e8 }
effects = { half = { yes = 0.5, no = 1.0 } }
half = "no"
[analysis]
responses = ["read.bw"]
[watch]
monitors = []
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(STUDY)
    return tmp_path


def order(root: Path) -> str:
    """The letters of all trials by the time they began."""
    began = {json.loads(path.read_text())["started_unix_s"]: path for path in root.glob("[AB]/trials/*/record.json")}
    return "".join(began[moment].relative_to(root).parts[0] for moment in sorted(began))


def test_two_settings_take_turns_and_a_slower_one_ends_with_1(folder: Path) -> None:
    answer = ask("turns", "s.toml", "--set-b", "half=yes", "--turns", "4", "--output", "T", "--json", cwd=folder)
    assert answer.code == 1, answer.err
    assert (answer.json["outcome"], answer.json["scatter"], answer.json["regression"]) == ("slower", "turns", True)
    assert order(folder / "T") == "ABBAABBA"
    assert Path(answer.json["report"]) == Path("T/comparison/index.html")
    assert all((folder / "T" / side / "report" / "index.html").is_file() for side in "AB")
    assert ask("compare", "T/A", "T/B", "--output", "again", cwd=folder).code == 1


def test_a_side_has_its_environment_and_its_command_and_nothing_remains(folder: Path) -> None:
    words = ["--turns", "3", "--env-a", "SIDE=of A", "--switch-a", 'echo "$SIDE" >> seen', "--switch-b", "env >> b"]
    answer = ask("turns", "s.toml", *words, "--output", "T", cwd=folder)
    assert answer.code == 0, answer.err
    assert "B is the same as A" in answer.out
    assert (folder / "seen").read_text() == "of A\n" * 3
    assert "SIDE=" not in (folder / "b").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--turns", "2"], "--turns is 2, expected 3 or more"),
        (["--env-a", "SIDE"], "--env-a SIDE: expected NAME=VALUE"),
        (["--fail-on", "nevr"], "--fail-on nevr: expected known, any, never; did you mean 'never'?"),
        (["--output", "."], ".: exists already; expected a new or an empty folder"),
        (["--set-b", "nosuch"], "nosuch"),
        (["--margin", "no"], "--margin no: expected a share"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_measured(folder: Path, words: list[str], says: str) -> None:
    answer = ask("turns", "s.toml", *words, cwd=folder)
    assert answer.code == 2 and says in answer.err
    assert [path.name for path in folder.iterdir()] == ["s.toml"]


def test_a_command_that_fails_ends_the_turns(folder: Path) -> None:
    answer = ask("turns", "s.toml", "--switch-b", "echo no >&2; exit 3", "--output", "T", cwd=folder)
    assert answer.code == 1
    assert "--switch-b: 'echo no >&2; exit 3' ended with status 3: no" in answer.err


def test_an_interrupt_says_what_the_turns_so_far_are_good_for(folder: Path) -> None:
    words = ["turns", "s.toml", "--set", "sleep=0.2s", "--switch-a", "echo >> turns", "--turns", "50", "--output", "T"]
    with start(*words, cwd=folder) as running:
        while not (folder / "turns").exists() or (folder / "turns").read_text().count("\n") < 5:
            assert not running.has_ended()
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        said = running.err
    assert "The turns so far: ioassay compare T/A T/B" in said
    assert ask("compare", "T/A", "T/B", "--output", "page", "--json", cwd=folder).json["scatter"] == "turns"


def test_python_takes_turns_too(folder: Path) -> None:
    a, b = (Study.read(folder / "s.toml", settings={"half": half}) for half in ("no", "yes"))
    called: list[str] = []
    found = turns(a, b, turns=3, before=called.append, output=folder / "T")
    assert found.outcome == "slower" and "".join(called) == "ABBAAB"


def test_a_study_that_repeats_until_it_knows_enough_takes_no_turns(lab: Any, tmp_path: Path) -> None:
    study = Study(driver="null", until={"metric": "value", "ci": 0.05})
    with pytest.raises(UsageError, match="expected repetitions in place of until"):
        next(planned({"A": study, "B": study}, 3, tmp_path))
