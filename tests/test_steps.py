"""Trials of several processes: one child runs them, and what the storage counts is read in between."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ioassay.process import supervisor
from ioassay.roles import Command, Load, Outcome, Step, StepCounter
from ioassay.runner import trial

from .patience import until


@contextmanager
def counting(folder: Path) -> Iterator[StepCounter]:
    """Storage that counts the bytes of the file `data`, with what it was asked."""
    path = folder / "socket"
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    asked = client.recv(4096)
                    size = (folder / "data").stat().st_size if (folder / "data").exists() else 0
                    client.sendall(json.dumps({"ok": asked == b"count\n", "size": size}).encode() + b"\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield StepCounter(path, "count", grown)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def grown(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    return {"drive.write.bytes": after["size"] - before["size"]}


def python(name: str, code: str) -> Step:
    return Step(name, [sys.executable, "-I", "-S", "-c", code])


def ran(
    folder: Path, *wanted: Step, counter: StepCounter | None = None, cold: bool = True
) -> tuple[Outcome, dict[str, float]]:
    """How a trial of these steps ended, and what the storage counted."""
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    command, load = Command.of_steps(wanted, 600, cold=cold), Load("folder", folder, 0, False, step_counter=counter)
    outcome = supervisor.run(
        trial.step_argv(command, load, raw), stdout=raw / "stdout", stderr=raw / "stderr", timeout_s=600, cwd=folder
    )
    return trial.with_steps(outcome, command, raw), trial.step_metrics(command, load, raw)


def test_each_step_has_its_output_and_its_counts(tmp_path: Path) -> None:
    write = "open('data', 'ab').write(b'x' * {}); print('{}')"
    with counting(tmp_path) as counter:
        wanted = python("", write.format(7, "first")), python("a", write.format(100, "one")), python("b", "pass")
        outcome, found = ran(tmp_path, *wanted, counter=counter)
    assert outcome.exit_code == 0
    ended = [(step.name, step.exit_status, step.stdout_end) for step in outcome.steps]
    assert ended == [("", 0, 6), ("a", 0, 10), ("b", 0, 10)]
    assert found == {"a.drive.write.bytes": 100, "b.drive.write.bytes": 0}


@pytest.mark.parametrize(
    ("step", "status", "said"),
    [
        (python("a", "import sys; sys.exit(3)"), 3, ""),
        (python("a", "import os, signal; os.kill(os.getpid(), 9)"), 137, ""),
        (Step("a", ["there-is-no-such-program"]), 127, "there-is-no-such-program"),
    ],
    ids=["an exit status", "a signal", "no program"],
)
def test_a_step_that_fails_is_the_last(tmp_path: Path, step: Step, status: int, said: str) -> None:
    outcome, found = ran(tmp_path, step, python("b", "open('data', 'w')"))
    assert outcome.exit_code == status and [ended.name for ended in outcome.steps] == ["a"]
    assert said in outcome.stderr.read_text()
    assert found == {} and not (tmp_path / "data").exists()


def test_storage_that_does_not_answer_has_no_counts(tmp_path: Path) -> None:
    outcome, found = ran(tmp_path, python("a", "pass"), counter=StepCounter(tmp_path / "nobody", "count", grown))
    assert outcome.exit_code == 0 and found == {}


def test_a_command_of_one_process_is_started_as_it_is(tmp_path: Path) -> None:
    load = Load("folder", tmp_path, 0, False)
    assert trial.step_argv(Command(["true"], 1), load, tmp_path) == ["true"]
    assert list(tmp_path.iterdir()) == []
    assert Command.of_steps([Step("a", ["x", "1"]), Step("b", ["y"])], 1).argv == ["x", "1", "&&", "y"]


def test_a_step_finds_in_memory_what_the_one_before_wrote_unless_that_is_forgotten(tmp_path: Path) -> None:
    if subprocess.check_output(["stat", "-f", "-c", "%T", tmp_path], text=True).strip() == "tmpfs":
        pytest.skip("files in memory stay there: point --basetemp to a disk")

    def resident_bytes(cold: bool) -> int:
        write = python("write", "open('data', 'wb').write(b'x' * 2**20)")
        look = Step("look", ["fincore", "--bytes", "--noheadings", "--output", "RES", "data"])
        outcome, _ = ran(tmp_path, write, look, cold=cold)
        assert outcome.exit_code == 0, outcome.stderr.read_text()
        return int(outcome.stdout.read_text())

    until(lambda: resident_bytes(cold=True) == 0)  # it may hold a page for a moment
    until(lambda: resident_bytes(cold=False) == 2**20)  # the kernel may take memory back at any time
