"""A result that cannot be written is said on stderr by every command, with an exit status and without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from .conftest import ask

IOASSAY = [sys.executable, "-I", "-m", "ioassay"]
WITNESS = ("witness", "--level", "counters")
GONE = "ioassay: the reader of the output is gone, and the rest of it is lost\n"
FULL = "ioassay: the output cannot be written: No space left on device\n"
CLOSED = "ioassay: the output cannot be written: standard output is closed\n"
REDIRECTIONS = {"full": (">/dev/full", FULL), "closed": (">&-", CLOSED), "gone": ("| exec true", GONE)}
NULL = """
title = "Null"
driver = "null"
repetitions = 2
[factors]
x = [1, 2]
[watch]
monitors = []
"""
COMMANDS: dict[str, Sequence[str]] = {
    "help": ("--help",),
    "version": ("--version",),
    "help of a command": ("run", "--help"),
    "run": ("run", "null.toml", "--output", "R"),
    "run --json": ("run", "null.toml", "--output", "R", "--json"),
    "plan": ("plan", "null.toml"),
    "studies": ("studies",),
    "report": ("report", "A"),
    "compare": ("compare", "A", "B"),
    "export": ("export", "A", "--output", "a.tar.gz"),
    "doctor": ("doctor", "."),
    "sql": ("sql", "A", "SELECT 1"),
    "simulate": ("simulate", "t.disksim"),
    "filesuite": ("filesuite", "-s", "64k", "-r", "64k", "-i", "0"),
    "trace info": ("trace", "info", "t.disksim"),
    "trace convert": ("trace", "convert", "t.disksim", "-", "--to", "csv"),
    "witness": (*WITNESS, "--", "true"),
    "witness --json": (*WITNESS, "--json", "--", "true"),
    "witness of what prints": (*WITNESS, "--", "echo", "said"),
}


def ended(argv: Sequence[str], redirection: str, folder: Path) -> tuple[int, str]:
    """Its exit status and what it said on stderr. The reader of a pipe is gone before it begins."""
    if redirection.startswith("|"):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([*IOASSAY, *argv], cwd=folder, stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
    else:
        command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *IOASSAY, *argv]
        done = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, two runs of it, A and B, and a trace."""
    folder = tmp_path_factory.mktemp("unwritten")
    (folder / "null.toml").write_text(NULL)
    for name in ("A", "B"):
        assert ask("run", "null.toml", "--output", name, cwd=folder).code == 0
    assert ask("trace", "make", "t.disksim", "--requests", "100", cwd=folder).code == 0
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_result_that_cannot_be_written_is_said(name: str, work: Path) -> None:
    for redirection, said in REDIRECTIONS.values():
        subprocess.run(["rm", "-rf", "R", "a.tar.gz"], cwd=work, check=True)
        code, errors = ended(COMMANDS[name], redirection, work)
        assert code == (141 if (name, said) == ("witness of what prints", GONE) else 1), (redirection, errors)
        if name == "trace convert" and said == FULL:  # who writes a trace does not know where to
            said = "ioassay: No space left on device\n"
        assert errors.count(said) == 1 and "Traceback" not in errors, (redirection, errors)


def test_a_command_whose_reader_goes_away_is_told_as_without_us(tmp_path: Path) -> None:
    """`ioassay witness -- yes | head -1`: yes is ended by SIGPIPE."""
    command = subprocess.Popen([*IOASSAY, *WITNESS, "--", "yes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout is not None and command.stderr is not None
    assert command.stdout.readline() == b"y\n"
    command.stdout.close()
    assert (command.wait(), command.stderr.read().decode()) == (141, GONE)
    command.stderr.close()


def test_the_verdict_decides_the_status_also_where_it_cannot_be_written(tmp_path: Path) -> None:
    lie = (*WITNESS, "--claim", "bytes=4KiB,seconds=100000", "--")
    assert ended([*lie, "true"], ">/dev/full", tmp_path) == (4, FULL)
    assert ended([*WITNESS, "--", "sh", "-c", "exit 42"], ">/dev/full", tmp_path) == (42, FULL)
    assert ended([*WITNESS, "--json", "--", "sh", "-c", "exit 42"], ">/dev/full", tmp_path) == (42, FULL)


def test_a_command_runs_to_its_end_where_its_output_cannot_be_shown(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 500 ]; do echo $i; i=$((i+1)); done; echo end > ran"
    assert ended([*WITNESS, "--", "sh", "-c", script], ">/dev/full", tmp_path) == (1, FULL)
    assert (tmp_path / "ran").read_text() == "end\n"


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_without_a_stderr_a_command_does_its_work(stderr: str, tmp_path: Path) -> None:
    assert ended([*WITNESS, "--", "sh", "-c", "echo lost >&2; exit 5"], stderr, tmp_path)[0] in (1, 5)
    for argv, code in ((["studies"], 0), (["run", "nothing"], 2), ([*WITNESS, "--", "true"], 0)):
        assert ended(argv, stderr + " >/dev/null", tmp_path) == (code, "")


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-", "<&- 2>&-"])
def test_closed_streams_are_not_mistaken_for_others(closed: str, tmp_path: Path) -> None:
    script = "cat > read; echo out; echo err >&2; exit 6"
    assert ended([*WITNESS, "--", "sh", "-c", script], closed, tmp_path)[0] == 6
    assert (tmp_path / "read").read_bytes() == b""
