"""Streams of commands: pipes, and results that cannot be written, which every command says on stderr.

Such a command has an exit status and no traceback.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ..corpora import cases
from ..patience import until
from .command_server import CLOSED
from .conftest import Ask, start

WITNESS = ("witness", "--level", "counters")
GONE = "ioassay: the reader of the output is gone, and the rest of it is lost\n"
FULL = "ioassay: the output cannot be written: No space left on device\n"
SAID = {"full": FULL, "closed": "ioassay: the output cannot be written: standard output is closed\n", "gone": GONE}


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


@cases("endings", "commands", having="streams")
def test_a_result_that_cannot_be_written_is_said(case: dict[str, Any], workshop: Path, tmp_path: Path) -> None:
    argv = [word.format(work=workshop) for word in shlex.split(case["words"])]
    for stdout, said in {**SAID, "full": case.get("full", FULL)}.items():
        (tmp_path / stdout).mkdir()
        code, errors = ended(argv, tmp_path / stdout, stdout=stdout)
        assert code == (case.get("gone", 1) if stdout == "gone" else 1), (stdout, errors)
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


def test_a_made_trace_comes_through_pipes(ioassay: Ask, tmp_path: Path) -> None:
    made, writing = os.pipe()
    converted, written = os.pipe()
    convert = ("trace", "convert", "-", "-", "--from", "disksim", "--to", "disksim")
    with start("trace", "make", "-", "--requests", 1000, cwd=tmp_path, streams=(None, writing)) as make:
        os.close(writing)
        with start(*convert, cwd=tmp_path, streams=(made, written)) as converting:
            os.close(made)
            os.close(written)
            with start("simulate", "-", "--json", cwd=tmp_path, streams=(converted,)) as simulate:
                os.close(converted)
                assert (simulate.wait(), converting.wait(), make.wait()) == (0, 0, 0)
                assert "1,000 requests" in converting.err
                found = json.loads(simulate.out)
    assert ioassay("trace", "make", "t.disksim", "--requests", 1000).code == 0
    assert found["mean_response_ms"] == ioassay("simulate", "t.disksim", "--json").json["mean_response_ms"]
    assert found["trace"] == "-"


def test_a_reader_that_goes_away_ends_a_trace_with_a_sentence(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with start("trace", "make", "-", "--to", "disksim", cwd=tmp_path, streams=(None, writing)) as running:
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        assert (running.wait(), running.err) == (1, GONE)


def test_ctrl_c_ends_a_wait_for_standard_input(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with start("trace", "info", "-", cwd=tmp_path, streams=(reading,)) as running:
        os.close(reading)
        until(lambda: running.has_ended() or "pipe" in Path(f"/proc/{running.pid}/wchan").read_text())
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130, running.err
    os.close(writing)
