"""Drives that tests serve with the real command line, each a process of its own."""

from __future__ import annotations

import json
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
