"""Drives that tests serve with the real command line, each a process of its own.

A fork of a command server serves and asks them (command_server.py), unless a test needs a new interpreter.
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

from ioassay.packs.virtual_drive import serving

from ...cli import command_server

COMMAND = [sys.executable, "-m", "ioassay", "device"]
PATIENCE_S = 240
POLICIES = (
    *("none", "fifo", "lru", "clock", "sieve", "s3-fifo", "arc"),
    *("bplru", "bplru-padded", "fab", "epo", "epo-all", "idle-cold"),
)


def typed(
    folder: Path, *words: str, server: command_server.CommandServer | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """`ioassay device WORDS` in a folder."""
    argv = ["device", *words]
    code, out, err = (server or command_server.shared()).run(argv, folder, {**os.environ, **env}, PATIENCE_S)
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

    @property
    def stats(self) -> dict[str, Any]:
        """What it has counted, asked by this process."""
        found: dict[str, Any] = serving.ask(Path(self.told["stats"]), "stats")["stats"]
        return found

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        if isinstance(self.process, command_server.Running):
            return self.process.wait(PATIENCE_S), self.process.err
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@contextmanager
def served_all(
    folder: Path,
    *words: str,
    drives: int,
    before: Sequence[str] = (),
    alone: bool = False,
    server: command_server.CommandServer | None = None,
    **env: str,
) -> Iterator[list[Drive]]:
    """So many drives of one process that are ready. `before` starts its interpreter; `alone`: it needs its own."""
    argv, environment = ["serve", "--json", *words], {**os.environ, **env}
    read, write = os.pipe()
    with os.fdopen(read) as lines:
        process: command_server.Running | subprocess.Popen[str]
        try:
            if before or alone:
                streams: Any = {"stdin": subprocess.DEVNULL, "stdout": write, "stderr": subprocess.PIPE}
                argv = [*before, *COMMAND, *argv]
                process = subprocess.Popen(argv, cwd=folder, env=environment, text=True, **streams)
            else:
                start = (server or command_server.shared()).start
                process = start(["device", *argv], folder, environment, None, write)
        finally:
            os.close(write)
        with process:
            told = [lines.readline() for _ in range(drives)]
            try:
                assert all(told), process.err if isinstance(process, command_server.Running) else process.communicate()
                yield [Drive(process, json.loads(line)) for line in told]
            finally:
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    process.send_signal(signal.SIGTERM)
                    process.wait(PATIENCE_S)
                if isinstance(process, subprocess.Popen):
                    process.kill()


@contextmanager
def served(folder: Path, *words: str, **options: Any) -> Iterator[Drive]:
    """A drive that is ready; `options` as of `served_all`."""
    with served_all(folder, *words, drives=1, **options) as (drive,):
        yield drive


def fio(folder: Path, *options: str, **env: str) -> tuple[list[dict[str, Any]], str]:
    """fio's jobs, and all that it said. Its nbd engine ignores SIGTERM, so one that hangs is killed."""
    argv = ["fio", "--output-format=json", "--eta=never", "--verify_state_save=0", *options]
    environment = {**os.environ, **env}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    said = done.stdout + done.stderr
    assert "{" in done.stdout, said
    jobs: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]  # what engines say is first
    return jobs, said


def over_nbd(drive: Drive, *options: str) -> list[str]:
    """Options of fio for one job over NBD."""
    return ["--name=job", "--ioengine=nbd", f"--uri={drive.told['nbd']}", "--thread", *options]


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
