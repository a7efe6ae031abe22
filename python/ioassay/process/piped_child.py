"""A child that is talked to while it runs: it computes the trials that measure nothing (`pool`, `worker`).

What starts a tool and waits for its end is `process`. What is said is the business of the two that talk.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from ioassay.errors import ToolError
from ioassay.process import process_table
from ioassay.process.supervisor import EXEC_FAILED, OWN, PR_SET_PDEATHSIG, TRIAL_VARIABLE


class PipedChild:
    """A child that answers on its standard output what it is asked on its standard input, in a session of its own.

    Ctrl-C of the terminal does not reach it. It carries `tag`, so that `kill_orphans_after` ends it with this process.
    ToolError when it cannot be started.
    """

    def __init__(self, argv: Sequence[str], tag: str) -> None:
        self._said = os.memfd_create("stderr", os.MFD_CLOEXEC)
        fcntl.fcntl(self._said, fcntl.F_SETFL, os.O_APPEND)  # so that `forget` moves the child's place too
        try:
            self._child = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                start_new_session=True,
                env={**os.environ, TRIAL_VARIABLE: tag},
            )
        except OSError as error:
            os.close(self._said)
            raise ToolError(f"cannot start '{argv[0]}': {error.strerror}") from None
        OWN.add(self._child.pid)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self.questions: IO[bytes] = self._child.stdin
        self.answers: IO[bytes] = self._child.stdout

    def forget(self) -> None:
        """Drop what it has said on its standard error so far."""
        os.ftruncate(self._said, 0)

    def said(self, most_bytes: int = 4096) -> str:
        """The beginning of what it said on its standard error since `forget`."""
        return os.pread(self._said, most_bytes, 0).decode(errors="replace")

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does; from any thread."""
        self._child.kill()

    def ended(self) -> int | None:
        """How it ended, negative for a signal; None while it lives."""
        return self._child.poll()

    def processor_s(self) -> float:
        """CPU time that it has used so far, of its threads too; 0 once it is gone."""
        found = process_table.status(self._child.pid)
        return (found.user_ticks + found.system_ticks) / os.sysconf("SC_CLK_TCK") if found is not None else 0.0

    def end(self, grace_s: float = 0.0) -> int:
        """How it ended, negative for a signal; one that does not end by itself within `grace_s` is killed."""
        if self._child.poll() is None and grace_s:  # where Popen.wait looks for its end every 50 ms
            watch, ends = os.pidfd_open(self._child.pid), select.poll()
            try:
                ends.register(watch, select.POLLIN)
                ends.poll(grace_s * 1e3)
            finally:
                os.close(watch)
        self._child.kill()
        status = self._child.wait()
        OWN.discard(self._child.pid)
        for pipe in (self.questions, self.answers):
            with suppress(OSError):
                pipe.close()
        return status

    def close(self) -> None:
        os.close(self._said)


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the thread that started it, one of process `parent`, is gone."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(EXEC_FAILED)  # it went before the kernel was asked
