"""A command as a job of the user's terminal: it may read from it, and Ctrl-C, Ctrl-\\, Ctrl-Z, fg and bg reach it.

The command is a process group of its own, so that it can be ended with all that it starts. While it runs it is lent
the terminal, if we are in the foreground and alone there. Others of our group, such as `less` behind a pipe or a script
that runs us, may need the terminal too. Then we keep it, and pass its signals on. A command that reads from it all the
same, or changes its modes, is stopped by the kernel (SIGTTIN, SIGTTOU), is lent the terminal and goes on. Where the
command stops for another reason, we stop too, and the user's shell sees one stopped job (tcsetpgrp(3), setpgid(2)).

The first SIGINT, and the first SIGQUIT, are the command's alone: benchmarks print their results on Ctrl-C. The second
is for us.

The output of the command is shown as it comes, and kept in files for who reads its claims. Each of the two streams has
its own way, so that they stay apart. The command writes to a pseudoterminal where ours is a terminal, else to a pipe.
The pseudoterminal has the size and the modes of the terminal; only the work on line ends is left to the latter, so that
what is kept is what the command wrote. It is nobody's controlling terminal: keys and signals come from the real one.
Where nobody reads our output any more, the command's own way is closed, and it learns of it as it would without us.
"""

from __future__ import annotations

import fcntl
import marshal
import mmap
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from ioassay.errors import Interrupted, StartError, ToolError
from ioassay.process import process_table, signals, supervisor
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


MOST_KEPT_BYTES = 64 << 20
"""Of each stream. A command that prints without end must not fill the disk that it measures."""
_PIECE_BYTES = 1 << 16
_MOST_LEFT_BYTES = 1 << 18
"""More than a pipe or a pseudoterminal holds: what comes after it was written after the end of the command."""
_FINISH, _DRAIN = b"f", b"d"
_PATIENCE_S = 1.0
_OUTPUT_MODES = 1  # index in what tcgetattr returns


class OutputRelay:
    """Copies what is written to `ends` to the descriptors `sinks` and into the files `kept`, from a thread.

    A context manager, at whose end all is copied that the command wrote before its own end. Without `kept` the command
    writes to `sinks` itself.
    """

    def __init__(self, sinks: tuple[int, int], kept: Sequence[Path]) -> None:
        self._streams = [_Stream(sink, path) for sink, path in zip(sinks, kept, strict=False)]
        self.ends = (self._streams[0].end, self._streams[1].end) if self._streams else sinks
        """What the command writes to."""
        self._requests, self._request = os.pipe()
        self._is_drained = threading.Event()
        self._thread = threading.Thread(target=self._copy, name="ioassay-output", daemon=True)

    @property
    def failure(self) -> OSError | None:
        """Why a part of the output could not be written; a reader that went away is no failure."""
        return next((stream.failure for stream in self._streams if stream.failure), None)

    @property
    def is_truncated(self) -> bool:
        return any(stream.is_truncated for stream in self._streams)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        for stream in self._streams:
            stream.close()
        os.close(self._requests)
        os.close(self._request)

    def finish(self) -> None:
        """Copy what is left of a command that has ended, and nothing from then on."""
        if self._thread.is_alive():
            os.write(self._request, _FINISH)
            self._thread.join()

    def drain(self) -> None:
        """Copy what a command has written that is stopped. Where the terminal takes nothing, it is copied later."""
        self._is_drained.clear()
        os.write(self._request, _DRAIN)
        self._is_drained.wait(_PATIENCE_S)

    def resize(self) -> bool:
        """Give the pseudoterminals the sizes of their terminals; whether one of them had another."""
        return sum(stream.resize() for stream in self._streams) > 0

    def discard(self) -> None:
        """Drop what processes print that outlived the command, so that they are not ended for want of a reader.

        A process of its own does so until the last of them closes its output.
        """
        sources = {stream.source for stream in self._streams if stream.source is not None}
        if not sources or os.fork():
            return
        try:
            os.setsid()
            supervisor.close_all_but(*sources)
            while sources:
                ready, _, _ = select.select(sources, [], [])
                for source in ready:
                    with suppress(OSError):  # EIO: the last one has closed the pseudoterminal
                        if os.read(source, _PIECE_BYTES):
                            continue
                    sources.remove(source)
        finally:
            os._exit(0)

    def _copy(self) -> None:
        # Signals are for the main thread. This one still stops us when we write from the background (stty tostop).
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGTTOU})
        request = b""
        while _FINISH not in request:
            poll = select.poll()
            for stream in self._streams:
                if stream.source is not None:
                    poll.register(stream.source, select.POLLIN)
                    poll.register(stream.sink, 0)  # no event but that nobody reads it any more
            poll.register(self._requests, select.POLLIN)
            ready = dict(poll.poll())
            for stream in self._streams:
                if ready.get(stream.sink, 0) & (select.POLLERR | select.POLLHUP):
                    stream.refuse()
                elif stream.source in ready:
                    stream.copy()
            if self._requests in ready:
                request = os.read(self._requests, 64)
                for stream in self._streams:
                    left_bytes = _MOST_LEFT_BYTES
                    while left_bytes > 0 and (copied := stream.copy()):
                        left_bytes -= copied
                self._is_drained.set()


class _Stream:
    """One stream of a command, from `source` to one of ours and into a file."""

    def __init__(self, sink: int, kept: Path) -> None:
        self.sink = sink
        self._is_terminal = os.isatty(sink)
        try:
            source, self.end = os.openpty() if self._is_terminal else os.pipe()
        except OSError as error:
            raise ToolError(f"the output of the command cannot be read: {error.strerror}") from None
        self.source: int | None = source
        """What the command has written is read here; None from when nobody reads ours."""
        self._kept = kept.open("wb", buffering=0)
        self._room_bytes = MOST_KEPT_BYTES
        self.is_truncated = False
        self.failure: OSError | None = None
        os.set_blocking(source, False)
        if self._is_terminal:
            modes = termios.tcgetattr(sink)
            modes[_OUTPUT_MODES] &= ~termios.OPOST
            termios.tcsetattr(self.end, termios.TCSANOW, modes)
            self._modes = termios.tcgetattr(self.end)
            self.resize()

    def resize(self) -> bool:
        if not self._is_terminal or self.source is None:
            return False
        with suppress(OSError):  # the terminal is gone
            wanted, size = (fcntl.ioctl(each, termios.TIOCGWINSZ, bytes(8)) for each in (self.sink, self.end))
            if wanted != size:
                fcntl.ioctl(self.end, termios.TIOCSWINSZ, wanted)
                return True
        return False

    def copy(self) -> int:
        """Copy a piece of what is there; its number of bytes, 0 where there is nothing."""
        if self.source is None:
            return 0
        try:
            piece = os.read(self.source, _PIECE_BYTES)
        except BlockingIOError:
            return 0
        try:
            self._kept.write(piece[: self._room_bytes])
            self.is_truncated |= len(piece) > self._room_bytes
            self._room_bytes = max(0, self._room_bytes - len(piece))
        except OSError:  # no room where temporary files are
            self.is_truncated, self._room_bytes = True, 0
        # Full-screen programs set the modes of their output: they are set on the terminal as well.
        if self._is_terminal and (modes := termios.tcgetattr(self.end)) != self._modes:
            self._modes = list(modes)
            with suppress(termios.error):  # the terminal is gone
                modes[_OUTPUT_MODES] |= termios.tcgetattr(self.sink)[_OUTPUT_MODES] & termios.OPOST
                termios.tcsetattr(self.sink, termios.TCSANOW, modes)
        if self.failure is None:
            try:
                _write(self.sink, piece)
            except BrokenPipeError:
                self.refuse()
            except OSError as error:
                self.failure = error
        return len(piece)

    def refuse(self) -> None:
        """Let nothing more be written: who tries is ended by SIGPIPE, or gets an error."""
        if self.source is not None:
            os.close(self.source)
            self.source = None

    def close(self) -> None:
        self.refuse()
        os.close(self.end)
        with suppress(OSError):
            self._kept.close()


def _write(sink: int, piece: bytes) -> None:
    """Write all of it, also to what somebody else has made non-blocking."""
    left = memoryview(piece)
    while left:
        try:
            left = left[os.write(sink, left) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(sink, select.POLLOUT)
            poll.poll()
