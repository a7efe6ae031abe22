"""The output of a command on its way to our own: shown as it comes, and kept in files for who reads its claims.

Each of the two streams has its own way, so that they stay apart. The command writes to a pseudoterminal where ours is a
terminal, else to a pipe. The pseudoterminal has the size and the modes of the terminal; only the work on line ends is
left to the latter, so that what is kept is what the command wrote. It is nobody's controlling terminal: keys and
signals come from the real one (`job_control`).
Where nobody reads our output any more, the command's own way is closed, and it learns of it as it would without us.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from ioassay.errors import ToolError
from ioassay.process import supervisor

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
        """Whether there was more than is kept."""
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
        sources = self._sources()
        if not sources or os.fork():
            return
        try:
            os.setsid()
            supervisor.close_all_but(*sources)
            while sources:
                ready, _, _ = select.select(sources, [], [])
                sources -= {source for source in ready if not _is_open(source)}
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
                self._copy_rest()
                self._is_drained.set()

    def _sources(self) -> set[int]:
        return {stream.source for stream in self._streams if stream.source is not None}

    def _copy_rest(self) -> None:
        for stream in self._streams:
            left_bytes = _MOST_LEFT_BYTES
            while left_bytes > 0 and (copied := stream.copy()):
                left_bytes -= copied


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
        self._keep(piece)
        self._copy_modes()
        if self.failure is None:
            try:
                _write(self.sink, piece)
            except BrokenPipeError:
                self.refuse()
            except OSError as error:
                self.failure = error
        return len(piece)

    def _copy_modes(self) -> None:
        """Set on the terminal what the command has set on its own one: full-screen programs do so on their output."""
        if self._is_terminal and (modes := termios.tcgetattr(self.end)) != self._modes:
            self._modes = list(modes)
            with suppress(termios.error):  # the terminal is gone
                modes[_OUTPUT_MODES] |= termios.tcgetattr(self.sink)[_OUTPUT_MODES] & termios.OPOST
                termios.tcsetattr(self.sink, termios.TCSANOW, modes)

    def _keep(self, piece: bytes) -> None:
        try:
            self._kept.write(piece[: self._room_bytes])
            self.is_truncated |= len(piece) > self._room_bytes
            self._room_bytes = max(0, self._room_bytes - len(piece))
        except OSError:  # no room where temporary files are
            self.is_truncated, self._room_bytes = True, 0

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


def _is_open(source: int) -> bool:
    """Read a piece and drop it; whether anybody may write another."""
    try:
        return bool(os.read(source, _PIECE_BYTES))
    except OSError:  # EIO: the last one has closed the pseudoterminal
        return False
