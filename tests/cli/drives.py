"""Drives that tests serve with the real command line, each a process of its own.

A fork of the command server serves and asks them (command_server.py), unless a test needs a new interpreter.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import command_server

COMMAND = [sys.executable, "-m", "ioassay", "device"]
PATIENCE_S = 240
POLICIES = (
    *("none", "fifo", "lru", "clock", "sieve", "s3-fifo", "arc"),
    *("bplru", "bplru-padded", "fab", "epo", "epo-all", "idle-cold"),
)


def typed(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`ioassay device WORDS` in a folder."""
    argv = ["device", *words]
    code, out, err = command_server.shared().run(argv, folder, {**os.environ, **env}, PATIENCE_S)
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(argv, code, out, err)


@dataclass
class Drive:
    """A drive that is served by a process of its own."""

    process: command_server.Running | subprocess.Popen[str]
    told: dict[str, Any]

    def ask(self, command: str, *words: str) -> dict[str, Any]:
        done = typed(Path.cwd(), command, self.told["stats"], *words, "--json")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        if isinstance(self.process, command_server.Running):
            return self.process.wait(PATIENCE_S), self.process.err
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@contextmanager
def served(folder: Path, *words: str, before: Sequence[str] = (), alone: bool = False) -> Iterator[Drive]:
    """A drive that is ready. `before` starts its interpreter, and `alone` says that it needs one of its own."""
    if before or alone:
        with served_alone(folder, *words, before=before) as drive:
            yield drive
        return
    read, write = os.pipe()
    with os.fdopen(read) as lines:
        try:
            argv = ["device", "serve", "--json", *words]
            running = command_server.shared().start(argv, folder, os.environ, None, write)
        finally:
            os.close(write)
        with running:
            line = lines.readline()
            assert line, (running.wait(PATIENCE_S), running.err)
            try:
                yield Drive(running, json.loads(line))
            finally:
                if not running.has_ended():
                    running.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    running.wait(PATIENCE_S)


@contextmanager
def served_alone(folder: Path, *words: str, before: Sequence[str]) -> Iterator[Drive]:
    argv = [*before, *COMMAND, "serve", "--json", *words]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                assert process.stderr is not None
                raise AssertionError(process.stderr.read())
            yield Drive(process, json.loads(line))
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            process.kill()


def require_overhead(folder: Path, *words: str) -> None:
    """That a drive with one transport measures this one's overhead, or says how few reads it could do in its time.

    The processors may be so busy that it can do none: then it is served again.
    """
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        with served(folder, *words) as drive:
            (way,) = drive.told["ways"]
            said = " ".join(warning["text"] for warning in drive.told["warnings"])
        if way["floor_ns"] or re.search("only [1-9][0-9]* reads", said):
            return
        assert "only 0 reads" in said or "no answer" in said, said
        assert time.monotonic() < give_up_s, said
