"""A result that cannot be written is said on stderr by every command, with an exit status and without a traceback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from .command_server import CLOSED
from .conftest import NULL, ask, start

WITNESS = ("witness", "--level", "counters")
GONE = "ioassay: the reader of the output is gone, and the rest of it is lost\n"
FULL = "ioassay: the output cannot be written: No space left on device\n"
SAID = {"full": FULL, "closed": "ioassay: the output cannot be written: standard output is closed\n", "gone": GONE}
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


def ended(argv: Sequence[str], folder: Path, stdin: str = "", stdout: str = "", stderr: str = "") -> tuple[int, str]:
    """Its exit status and what it said on stderr: of streams that are full or closed, or whose reader is gone."""
    made = [*map(stream, (stdin, stdout, stderr))]
    with start(*argv, cwd=folder, streams=made) as running:
        for one in made:
            if one is not None and one != CLOSED:
                os.close(one)
        return running.wait(), running.err


def stream(kind: str) -> int | None:
    if kind == "full":
        return os.open("/dev/full", os.O_WRONLY)
    if kind == "gone":
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    return CLOSED if kind == "closed" else None


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
    for stdout, said in SAID.items():
        shutil.rmtree(work / "R", ignore_errors=True)
        (work / "a.tar.gz").unlink(missing_ok=True)
        code, errors = ended(COMMANDS[name], work, stdout=stdout)
        assert code == (141 if (name, stdout) == ("witness of what prints", "gone") else 1), (stdout, errors)
        if (name, stdout) == ("trace convert", "full"):  # who writes a trace does not know where to
            said = "ioassay: No space left on device\n"
        assert errors.count(said) == 1 and "Traceback" not in errors, (stdout, errors)


def test_a_command_whose_reader_goes_away_is_told_as_without_us(tmp_path: Path) -> None:
    """`ioassay witness -- yes | head -1`: yes is ended by SIGPIPE."""
    reader, writer = os.pipe()
    with start(*WITNESS, "--", "yes", cwd=tmp_path, streams=(None, writer)) as command:
        os.close(writer)
        assert os.read(reader, 2) == b"y\n"
        os.close(reader)
        assert (command.wait(), command.err) == (141, GONE)


def test_the_verdict_decides_the_status_also_where_it_cannot_be_written(tmp_path: Path) -> None:
    lie = (*WITNESS, "--claim", "bytes=4KiB,seconds=100000", "--")
    assert ended([*lie, "true"], tmp_path, stdout="full") == (4, FULL)
    assert ended([*WITNESS, "--", "sh", "-c", "exit 42"], tmp_path, stdout="full") == (42, FULL)
    assert ended([*WITNESS, "--json", "--", "sh", "-c", "exit 42"], tmp_path, stdout="full") == (42, FULL)


def test_a_command_runs_to_its_end_where_its_output_cannot_be_shown(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 500 ]; do echo $i; i=$((i+1)); done; echo end > ran"
    assert ended([*WITNESS, "--", "sh", "-c", script], tmp_path, stdout="full") == (1, FULL)
    assert (tmp_path / "ran").read_text() == "end\n"


@pytest.mark.parametrize("stderr", ["full", "closed"])
def test_without_a_stderr_a_command_does_its_work(stderr: str, tmp_path: Path) -> None:
    assert ended([*WITNESS, "--", "sh", "-c", "echo lost >&2; exit 5"], tmp_path, stderr=stderr)[0] in (1, 5)
    for argv, code in ((["studies"], 0), (["run", "nothing"], 2), ([*WITNESS, "--", "true"], 0)):
        assert ended(argv, tmp_path, stderr=stderr) == (code, "")


@pytest.mark.parametrize("closed", [(), ("stdout",), ("stdout", "stderr"), ("stderr",)])
def test_closed_streams_are_not_mistaken_for_others(closed: tuple[str, ...], tmp_path: Path) -> None:
    script = "cat > read; echo out; echo err >&2; exit 6"
    streams = dict.fromkeys(("stdin", *closed), "closed")
    assert ended([*WITNESS, "--", "sh", "-c", script], tmp_path, **streams)[0] == 6
    assert (tmp_path / "read").read_bytes() == b""
