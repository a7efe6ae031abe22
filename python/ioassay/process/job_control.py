"""A command as a job of the user's terminal: it may read from it, and Ctrl-C, Ctrl-\\, Ctrl-Z, fg and bg reach it.

The command is a process group of its own, so that it can be ended with all that it starts. While it runs it is lent
the terminal, if we are in the foreground and alone there. Others of our group, such as `less` behind a pipe or a script
that runs us, may need the terminal too. Then we keep it, and pass its signals on. A command that reads from it all the
same, or changes its modes, is stopped by the kernel (SIGTTIN, SIGTTOU), is lent the terminal and goes on. Where the
command stops for another reason, we stop too, and the user's shell sees one stopped job (tcsetpgrp(3), setpgid(2)).

The first SIGINT, and the first SIGQUIT, are the command's alone: benchmarks print their results on Ctrl-C. The second
is for us. Nothing here is about output; see `output_relay`.
"""

from __future__ import annotations

import marshal
import mmap
import os
import signal
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

from ioassay.errors import Interrupted, StartError, ToolError
from ioassay.process import process_table, signals
from ioassay.process.output_relay import OutputRelay
from ioassay.roles import Outcome

_INTERRUPTING = (signal.SIGINT, signal.SIGQUIT)
_WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
_STOPPING_S = 5.0
"""How long the user's shell waits for processes that have yet to stop; one in an uninterruptible sleep may never."""


class Job:
    """The job control of one command, whose process group is known from `begin` on. A context manager.

    For the main thread, which alone may handle signals. `relay` copies the command's output.
    """

    def __init__(self, relay: OutputRelay) -> None:
        self._relay = relay
        self._group = 0
        self._passed: set[int] = set()
        self._former: dict[int, Any] = {}
        self.terminal: int | None = None
        """A descriptor of our controlling terminal, while there is one."""
        self._is_lent = False
        self._continuations = 0
        self._command_modes: list[Any] | None = None
        self._loan = mmap.mmap(-1, mmap.PAGESIZE)
        """Whom the terminal is lent to and the modes that it had before, for the process that waits for our end."""

    def was_interrupted(self, outcome: Outcome) -> bool:
        """Whether the user ended the command, or asked it to end."""
        return bool(self._passed) or outcome.signal in _INTERRUPTING

    def __enter__(self) -> Self:
        with suppress(OSError):  # no terminal is ours
            self.terminal = os.open("/dev/tty", os.O_RDWR)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None
        if self._passed and isinstance(error, ToolError) and not isinstance(error, StartError):
            raise Interrupted(signals.sentence(signal.SIGINT)) from None  # before the command was its own program

    def begin(self, group: int) -> None:
        """The command is there, and waits before its first instruction."""
        self._group = group
        handlers: dict[int, Callable[[int, FrameType | None], None]] = {
            **dict.fromkeys(_INTERRUPTING, self._pass_on),
            signal.SIGTSTP: lambda number, _: self._signal(number),
            signal.SIGCONT: self._continued,
            signal.SIGCHLD: self._changed,
            signal.SIGWINCH: self._resized,
        }
        for number, handler in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, handler)
        own = {os.getpid(), *process_table.offspring()}  # those that wait for our end may not have left the group yet
        if own.issuperset(process_table.members(os.getpgrp())):
            self._lend()

    def end(self) -> None:
        """The command has ended: signals and the terminal are ours again. More than one call does no harm."""
        self._take_back()
        while self._former:
            signal.signal(*self._former.popitem())
        self._group = 0

    def look(self) -> None:
        """Look for a new size of the terminal: while it is lent, the kernel tells only the command. Call it often."""
        if self._relay.resize():
            self._signal(signal.SIGWINCH)

    def _resized(self, *_: object) -> None:
        self._relay.resize()
        self._signal(signal.SIGWINCH)

    def settle(self) -> None:
        """After our end, in the process that waits for it: have the terminal as before, unless a shell has done so."""
        if self._loan[0] and self.terminal is not None:
            _, borrower, _ = marshal.loads(self._loan[:])
            foreground = os.tcgetpgrp(self.terminal)
            if foreground == borrower or not process_table.members(foreground):
                self._end_loan(self.terminal)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self._group:
                os.killpg(self._group, number)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if number not in self._passed:
            self._passed.add(number)
            self._signal(number)
            return
        former = self._former[number]
        self.end()
        if callable(former):
            former(number, frame)
        else:
            signal.raise_signal(number)

    def _changed(self, *_: object) -> None:
        """A child has changed its state; it may be the command that has stopped."""
        continuations = self._continuations
        try:
            stopped = os.waitid(os.P_PID, self._group, os.WSTOPPED | os.WNOHANG) if self._group else None
        except ChildProcessError:
            return
        if stopped is None:
            return
        if stopped.si_status in _WANTS_TERMINAL and self._lend():
            self._signal(signal.SIGCONT)
        elif stopped.si_status != signal.SIGSTOP or self._is_lent:  # SIGSTOP from elsewhere is none of ours
            self._stop(stopped.si_status, continuations)

    def _stop(self, number: int, continuations: int) -> None:
        """Stop as the command did, and go on with it; not where we were continued since it stopped."""
        until_s = time.monotonic() + _STOPPING_S
        late = process_table.members(self._group)
        while (late := tuple(filter(process_table.has_yet_to_stop, late))) and time.monotonic() < until_s:
            time.sleep(0.001)
        self._relay.drain()
        if self._continuations != continuations:  # a shell that saw others of our group stop has continued it already
            return
        number = signal.SIGTSTP if number == signal.SIGSTOP else number
        was_lent = self._take_back()
        former = signal.signal(number, signal.SIG_DFL)
        if was_lent:  # the others of our group have not heard of it
            os.killpg(os.getpgrp(), number)
        else:
            signal.raise_signal(number)
        signal.signal(number, former)
        if self._continuations == continuations:  # we were not stopped: nobody could continue us (setpgid(2), orphaned)
            if number in _WANTS_TERMINAL:
                self._signal(signal.SIGHUP)
            self._signal(signal.SIGCONT)

    def _continued(self, *_: object) -> None:
        self._continuations += 1
        if self._command_modes is not None:
            self._lend()
        self._signal(signal.SIGCONT)

    def _lend(self) -> bool:
        """Give the terminal to the command, with the modes that it had set before; False where it is not ours."""
        if self.terminal is None or self._is_lent:
            return False
        with suppress(OSError, termios.error):  # it may have been closed
            if os.tcgetpgrp(self.terminal) != os.getpgrp():
                return False
            modes = termios.tcgetattr(self.terminal)
            self._loan[:] = marshal.dumps((os.getpgrp(), self._group, modes)).ljust(mmap.PAGESIZE)
            if self._command_modes is not None:
                termios.tcsetattr(self.terminal, termios.TCSANOW, self._command_modes)
            # From now on we are in the background ourselves, and must not be stopped for what we write.
            self._former[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            self._is_lent = True
            os.tcsetpgrp(self.terminal, self._group)
        return self._is_lent

    def _take_back(self) -> bool:
        """Have the terminal as it was before it was lent; whether it was."""
        if not self._is_lent:
            return False
        assert self.terminal is not None
        with suppress(termios.error):
            self._command_modes = termios.tcgetattr(self.terminal)
        self._end_loan(self.terminal)
        self._is_lent = False
        signal.signal(signal.SIGTTOU, self._former.pop(signal.SIGTTOU))
        return True

    def _end_loan(self, terminal: int) -> None:
        """End the loan: the terminal has its modes again, and belongs to our group."""
        owner, _, modes = marshal.loads(self._loan[:])
        with suppress(OSError, termios.error):  # each by itself: the group may be gone
            termios.tcsetattr(terminal, termios.TCSANOW, modes)
        with suppress(OSError):
            os.tcsetpgrp(terminal, owner)
        self._loan[:] = bytes(mmap.PAGESIZE)
