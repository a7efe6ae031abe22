"""`--log-level`: what was decided and why, on standard error, and nothing without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ioassay import debug_log
from ioassay.errors import UsageError

STUDY = 'title = "Null"\ndriver = "null"\nrepetitions = 2\n[watch]\nmonitors = []\n'


def ioassay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-m", "ioassay", *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "null.toml").write_text(STUDY)
    return tmp_path


def test_nothing_is_logged_unless_asked_for(study: Path) -> None:
    assert " ms " not in ioassay(study, "plan", "null.toml").stderr
    assert ioassay(study, "--log-level", "off", "plan", "null.toml").stderr == ""


@pytest.mark.parametrize("words", ["--log-level info plan null.toml", "plan null.toml --log-level=info"])
def test_the_option_stands_before_or_after_the_command(study: Path, words: str) -> None:
    done = ioassay(study, *words.split())
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert "INFO  command: ioassay plan null.toml" in lines[0]
    assert any("study: 'null.toml' is null.toml" in line for line in lines)
    assert lines[-1].endswith("command: exit status 0")


def test_debug_says_of_each_trial_what_became_of_it(study: Path) -> None:
    first = ioassay(study, "run", "null.toml", "--output", "out", "--log-level", "debug")
    assert first.returncode == 0, first.stderr
    assert first.stderr.count(": measured: null, ") == 2
    again = ioassay(study, "run", "--resume", "out", "--log-level", "debug")
    assert again.stderr.count(": has its record") == 2
    assert "measured:" not in again.stderr


def test_results_do_not_change(study: Path) -> None:
    plain, logged = ioassay(study, "plan", "null.toml"), ioassay(study, "plan", "null.toml", "--log-level", "debug")
    assert plain.stdout == logged.stdout


def test_the_option_of_another_program_is_left_alone(study: Path) -> None:
    done = ioassay(
        study,
        "witness",
        "--level",
        "counters",
        "--",
        sys.executable,
        "-c",
        "import sys; print(sys.argv)",
        "--log-level",
        "x",
    )
    assert "--log-level" in done.stdout
    assert " ms " not in done.stderr


@pytest.mark.parametrize("words", ["--log-level loud plan null.toml", "plan null.toml --log-level"])
def test_a_level_that_there_is_not_is_refused_with_those_there_are(study: Path, words: str) -> None:
    done = ioassay(study, *words.split())
    assert done.returncode == 2
    assert "wanted off, info, debug" in done.stderr


def test_an_unknown_level_is_an_error_of_usage() -> None:
    with pytest.raises(UsageError, match="wanted off, info, debug"):
        debug_log.enable("verbose", sys.stderr)
