"""Drives that tests serve with the real command line, each a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "ioassay", "device"]
PATIENCE_S = 60
POLICIES = (
    *("none", "fifo", "lru", "clock", "sieve", "s3-fifo", "arc"),
    *("bplru", "bplru-padded", "fab", "epo", "epo-all", "idle-cold"),
)


@dataclass
class Drive:
    """A drive that is served by a process of its own."""

    process: subprocess.Popen[str]
    told: dict[str, Any]

    def ask(self, command: str, *words: str) -> dict[str, Any]:
        done = subprocess.run(
            [*COMMAND, command, self.told["stats"], *words, "--json"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@contextmanager
def served(folder: Path, *words: str, before: Sequence[str] = ()) -> Iterator[Drive]:
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
