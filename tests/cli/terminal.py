"""A terminal with a person at it: a session of its own on a pseudoterminal, what it shows, and keys.

Nothing here waits for a time: `until` waits for what the terminal shows, and fails with it after PATIENCE_S.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from . import command_server
from .command_server import PATIENCE_S
from .conftest import command, start

CTRL_C, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x1a", "\x1c"


def _resize(descriptor: int, size: tuple[int, int]) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


def _lead() -> None:
    """Have stdin as the terminal of this session, and the usual actions of keys, in a child."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)


class Terminal:
    """`argv` as the leader of the session; a context manager, which ends what is left of it.

    A command of ours (`conftest.command`) is forked from what has everything imported, unless another starts it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str] | None = None,
        size: tuple[int, int] = (24, 80),
    ) -> None:
        self._shown = b""
        self._seen = 0
        self._keys, theirs = pty.openpty()
        _resize(theirs, size)
        self.modes_before = self.modes
        variables = {"TERM": "dumb", **(env or {})}
        ours = command()
        self._leader: command_server.Running | subprocess.Popen[bytes]
        if list(argv[: len(ours)]) == ours:
            words = argv[len(ours) :]
            self._leader = start(*words, cwd=cwd, streams=[theirs] * 3, of_its_own=True, **variables)
        else:
            streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
            self._leader = subprocess.Popen(
                argv, cwd=cwd, env={**os.environ, **variables}, start_new_session=True, preexec_fn=_lead, **streams
            )
        self.pid = self._leader.pid
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._leader:
            self._leader.send_signal(signal.SIGKILL)
        os.close(self._keys)

    @property
    def shown(self) -> str:
        """All that it has shown so far."""
        return self._shown.decode(errors="replace")

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._keys, keys.encode())

    def until(self, pattern: str) -> re.Match[bytes]:
        """Wait until it shows what matches, after the last thing that was waited for."""
        give_up_s = time.monotonic() + PATIENCE_S
        while (match := re.compile(pattern.encode()).search(self._shown, self._seen)) is None:
            assert self._read(give_up_s), f"ended without {pattern!r}:\n{self.shown}"
        self._seen = match.end()
        return match

    def ended(self) -> int:
        """Its exit status at its end, or minus the signal that ended it."""
        give_up_s = time.monotonic() + PATIENCE_S
        while self._read(give_up_s):
            pass
        return self._leader.wait(PATIENCE_S)

    def _read(self, give_up_s: float) -> bool:
        """Wait for more; False at the end."""
        ready, _, _ = select.select([self._keys], [], [], max(0.0, give_up_s - time.monotonic()))
        assert ready, f"nothing more after:\n{self.shown}"
        try:
            piece = os.read(self._keys, 1 << 16)
        except OSError:  # nobody has it open any more
            return False
        self._shown += piece
        return bool(piece)

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size."""
        _resize(self._keys, (rows, columns))

    @property
    def modes(self) -> list[Any]:
        """Its modes, as termios.tcgetattr has them."""
        return termios.tcgetattr(self._keys)

    @property
    def foreground(self) -> int:
        """The process group that reads from it."""
        return os.tcgetpgrp(self._keys)
