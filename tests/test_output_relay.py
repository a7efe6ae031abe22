"""The output of a command is copied whole and in order, whatever our own output is."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import termios
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.process import job_control
from ioassay.process.job_control import OutputRelay

from .patience import PATIENCE_S


@pytest.fixture
def relayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., OutputRelay]:
    """A function that makes a relay of two streams to `sinks`, kept in `out` and `err`."""
    monkeypatch.setattr(job_control, "_PATIENCE_S", PATIENCE_S)
    return lambda *sinks: OutputRelay(sinks, (tmp_path / "out", tmp_path / "err"))


def write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


class Reader:
    """Reads a pipe to its end, from a thread; `into` is its other end."""

    def __init__(self) -> None:
        self._out, self.into = os.pipe()
        self._pieces: list[bytes] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while piece := os.read(self._out, 1 << 16):
            self._pieces.append(piece)

    def end(self) -> bytes:
        """All that was written."""
        os.close(self.into)
        self._thread.join()
        os.close(self._out)
        return b"".join(self._pieces)


@pytest.mark.parametrize("blocking", [True, False])
def test_all_bytes_arrive_and_are_kept_stream_by_stream(
    blocking: bool, relayed: Callable[..., OutputRelay], tmp_path: Path
) -> None:
    out, err = Reader(), Reader()
    os.set_blocking(out.into, blocking)
    data, other = random.Random(1).randbytes(3_000_000), random.Random(2).randbytes(100_000)
    with relayed(out.into, err.into) as relay:
        write(relay.ends[0], data)
        write(relay.ends[1], other)
    assert out.end() == data == (tmp_path / "out").read_bytes()
    assert err.end() == other == (tmp_path / "err").read_bytes()
    assert relay.failure is None and not relay.is_truncated


def test_what_is_kept_has_an_upper_bound(
    relayed: Callable[..., OutputRelay], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_control, "MOST_KEPT_BYTES", 10)
    out, err = Reader(), Reader()
    with relayed(out.into, err.into) as relay:
        write(relay.ends[0], b"0123456789")
        relay.drain()
        assert not relay.is_truncated
        write(relay.ends[0], b"more")
    assert relay.is_truncated
    assert (out.end(), err.end()) == (b"0123456789more", b"")
    assert (tmp_path / "out").read_bytes() == b"0123456789"


def test_output_is_kept_where_it_cannot_be_shown(relayed: Callable[..., OutputRelay], tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with relayed(full, full) as relay:
        write(relay.ends[0], b"claim\n")
        relay.drain()
        write(relay.ends[0], b"another\n")
    os.close(full)
    assert relay.failure is not None and "No space" in str(relay.failure)
    assert (tmp_path / "out").read_bytes() == b"claim\nanother\n"


def test_a_command_learns_that_its_reader_is_gone(relayed: Callable[..., OutputRelay]) -> None:
    out, into = os.pipe()
    os.close(out)
    err = Reader()
    with relayed(into, err.into) as relay:
        relay.drain()
        with pytest.raises(BrokenPipeError):
            os.write(relay.ends[0], b"nobody reads this")
        write(relay.ends[1], b"the other stream goes on")
    os.close(into)
    assert err.end() == b"the other stream goes on"
    assert relay.failure is None


def test_a_terminal_gives_its_size_and_modes_to_what_the_command_writes_to(
    relayed: Callable[..., OutputRelay], tmp_path: Path
) -> None:
    keys, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 70, 0, 0))
    err = Reader()
    with relayed(terminal, err.into) as relay:
        end = relay.ends[0]
        assert os.isatty(end) and not os.isatty(relay.ends[1])
        assert os.get_terminal_size(end) == (70, 20)
        assert not relay.resize()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
        assert relay.resize()
        assert os.get_terminal_size(end) == (90, 30)
        modes = termios.tcgetattr(end)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(end, termios.TCSANOW, modes)
        write(end, b"line\n")
        relay.drain()
        assert not termios.tcgetattr(terminal)[3] & termios.ECHO
        assert termios.tcgetattr(terminal)[1] & termios.OPOST
    assert b"".join(iter(lambda: os.read(keys, 1), b"\n")) == b"line\r"  # it comes in pieces
    assert (tmp_path / "out").read_bytes() == b"line\n"
    err.end()
    os.close(keys)
    os.close(terminal)


def test_what_outlives_the_command_may_print_until_it_ends(
    relayed: Callable[..., OutputRelay], monkeypatch: pytest.MonkeyPatch
) -> None:
    forked: list[int] = []  # this process may have other children, which earlier tests left
    fork = os.fork

    def noted_fork() -> int:
        if child := fork():
            forked.append(child)
        return child

    monkeypatch.setattr(job_control.os, "fork", noted_fork)
    out, err = Reader(), Reader()
    with relayed(out.into, err.into) as relay:
        daemon = os.dup(relay.ends[0])
        write(daemon, b"heard\n")
        relay.finish()
        relay.discard()
    write(daemon, bytes(1 << 20))  # more than a pipe holds, and no SIGPIPE
    os.close(daemon)
    (child,) = forked
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (out.end(), err.end()) == (b"heard\n", b"")


def test_without_files_the_command_writes_to_our_output_itself(tmp_path: Path) -> None:
    out, err = Reader(), Reader()
    with OutputRelay((out.into, err.into), ()) as relay:
        assert relay.ends == (out.into, err.into)
        relay.drain()
        assert not relay.resize()
    assert (out.end(), err.end()) == (b"", b"")
