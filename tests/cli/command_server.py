"""Answers commands from a process that has everything imported: a fork for each, instead of a new interpreter.

A fork costs 15 ms of processor time, and a new interpreter 20 to 430 ms before its command begins; a run's drawing
processes take four seconds. What a command says, records, leaves and answers to signals is the same. Two things differ
from a command of its own: its figures' files are empty, and nothing is known of how Python starts. Tests of
these use `ask_alone` (conftest.py).

Run as a program, with the descriptor of a socket: the other side of `CommandServer`.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Self

PATIENCE_S = 240.0
SIGNALLED = "IOASSAY_TEST_SIGNALLED"
"""In a command's environment: the signal that waits for a command `of_its_own` from its beginning."""
CLOSED = -10
"""A stream that the caller has closed; DEVNULL and STDOUT are those of subprocess."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REQUEST_BYTES = 1 << 17
_STREAMS = ("stdin", "stdout", "stderr")


class Running:
    """A command that was started; a context manager, which ends it. Its id stays its own until then."""

    def __init__(self, answers: socket.socket, out: IO[bytes], err: IO[bytes], opened: ExitStack) -> None:
        self._answers, self._out, self._err, self._opened = answers, out, err, opened
        self.status: int | None = None
        self.pid = self._number(PATIENCE_S)

    def _number(self, within_s: float) -> int:
        if not select.select([self._answers], [], [], within_s)[0]:
            raise subprocess.TimeoutExpired("ioassay", within_s)
        return int(self._answers.recv(32))

    def wait(self, within_s: float = PATIENCE_S) -> int:
        """Its exit status, or minus the signal that ended it; TimeoutExpired while it runs."""
        if self.status is None:
            self.status = self._number(within_s)
        return self.status

    def has_ended(self) -> bool:
        """Whether it is there no more."""
        try:
            return self.wait(0) is not None
        except subprocess.TimeoutExpired:
            return False

    def send_signal(self, number: int) -> None:
        """What os.kill does."""
        os.kill(self.pid, number)

    @property
    def out(self) -> str:
        """What it has said so far, unless its output goes elsewhere."""
        return _text(self._out)

    @property
    def err(self) -> str:
        """What it has said so far on stderr, unless that goes elsewhere."""
        return _text(self._err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.has_ended():
            self.send_signal(signal.SIGKILL)
            self.wait()
        self._opened.close()


class CommandServer:
    """The side of the tests. Requests may overlap. It imports `modules` beside ours; `ahead` is what starts Python."""

    def __init__(self, *modules: str, ahead: Sequence[str] = ()) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
        argv = [*ahead, sys.executable, "-I", __file__, str(theirs.fileno()), *modules]
        with theirs:
            self._process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def start(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *streams: int | None, of_its_own: bool = False
    ) -> Running:
        """Begin a command. `streams` are stdin, stdout and stderr: descriptors, or None for nothing and files.

        `of_its_own` gives it a session, whose terminal is a stdin that is one. It also blocks the signals that end a
        command until it listens, as a launcher does.
        """
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ExitStack() as opened:
            out, err = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            opened.enter_context(answers)
            with theirs, Path(os.devnull).open("rb") as nothing:
                usual = (nothing.fileno(), out.fileno(), err.fileno())
                chosen = [
                    use if given is None else given for use, given in zip(usual, (*streams, *[None] * 3), strict=False)
                ]
                request = {
                    "argv": argv,
                    "cwd": str(cwd),
                    "env": dict(env),
                    "open": [number for number, stream in enumerate(chosen) if stream != CLOSED],
                    "of_its_own": of_its_own,
                }
                handles = [theirs.fileno(), *(stream for stream in chosen if stream != CLOSED)]
                socket.send_fds(self._requests, [json.dumps(request).encode()], handles)
            return Running(answers, out, err, opened.pop_all())

    def run(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], within_s: float) -> tuple[int, str, str]:
        """Exit status, output and errors of one command; TimeoutExpired after `within_s`."""
        with self.start(argv, cwd, env) as running:
            return running.wait(within_s), running.out, running.err

    def fileno(self) -> int:
        """The descriptor that takes requests, for programs that inherit it (tests/shell_command.py)."""
        return self._requests.fileno()

    def close(self) -> None:
        """End the server."""
        self._requests.close()
        self._process.wait(PATIENCE_S)


_shared: dict[tuple[tuple[str, ...], tuple[str, ...]], CommandServer] = {}


def shared(*modules: str, ahead: Sequence[str] = ()) -> CommandServer:
    """The server of this process for these, started where it is first needed. Whatever outlives a module is one."""
    key = modules, tuple(ahead)
    if key not in _shared:
        _shared[key] = CommandServer(*modules, ahead=ahead)
    return _shared[key]


def end() -> None:
    """Close the shared servers."""
    while _shared:
        _shared.popitem()[1].close()


def _text(file: IO[bytes]) -> str:
    """All of it; the command writes at the place that it shares with us, which stays."""
    size_bytes = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size_bytes, 0).decode(errors="surrogateescape")


def serve(requests: socket.socket, modules: Sequence[str]) -> None:
    """Answer until the tests close their side."""
    _load()
    for name in modules:
        importlib.import_module(name)
    gc.freeze()  # a collection in a fork would copy the pages of all that is imported
    gc.set_threshold(100_000)  # what a command makes is seldom worth looking through
    while True:
        message, handles, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
        if not message:
            return _reap_all()
        if not os.fork():
            requests.close()
            _answer(json.loads(message), *handles)
        for handle in handles:
            os.close(handle)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _reap_all() -> None:
    """Wait for the last commands, so that their processor time counts as ours."""
    signal.alarm(10)  # ends this process: a command that nobody ended is not waited for
    try:
        while os.waitpid(-1, 0)[0]:
            pass
    except ChildProcessError:
        pass


def _load() -> None:
    """Import what commands import, and make what is the same in each; nothing here may start a thread of Polars."""
    import ioassay
    from ioassay import _core, validation
    from ioassay.host import privacy
    from ioassay.records.observation import Observation
    from ioassay.records.record import Record
    from ioassay.report import figures, page
    from ioassay.store import dataset

    for module in pkgutil.walk_packages(ioassay.__path__, "ioassay."):
        if module.name not in ("ioassay.__main__", "ioassay.cli.run"):  # its name is also a function's
            importlib.import_module(module.name)
    for name in ("polars", "narwhals._interchange", "numpy.ma", "numpy.polynomial", "numpy.random", "tomli_w"):
        importlib.import_module(name)
    for kind in figures.REGISTRY:
        figures.REGISTRY.load(kind)
    for name in page.environment().list_templates(extensions=["j2"]):
        page.environment().get_template(name)
    for secret in privacy.of_host():
        secret.strength()
    _core.witness_capability()
    for kind in (Record, Observation, dataset.Planned, dataset.Identity, dataset.Host):
        validation._adapter(kind)


def _answer(request: Mapping[str, Any], answers: int, *streams: int) -> None:
    """Run the command in a child, which says its id; say its status, and keep the id until nobody needs it."""
    if request["of_its_own"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    child = os.fork()
    if not child:
        _become(request, answers, streams)
    for stream in streams:
        os.close(stream)
    ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    os.write(answers, str(status).encode())
    os.read(answers, 1)  # until the tests have closed their side
    os.waitpid(child, 0)
    os._exit(0)


def _become(request: Mapping[str, Any], answers: int, streams: Sequence[int]) -> None:
    try:
        if request["of_its_own"]:
            os.setsid()
            for number in (signal.SIGQUIT, signal.SIGHUP):  # a check in the background, or under nohup, ignores them
                signal.signal(number, signal.SIG_DFL)
            if number := request["env"].get(SIGNALLED):
                os.kill(os.getpid(), int(number))
        os.write(answers, str(os.getpid()).encode())
        _use(dict(zip(request["open"], streams, strict=True)))
        if request["of_its_own"] and os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        tempfile.tempdir = None  # what TMPDIR says now
        sys.argv = ["ioassay", *request["argv"]]
        from ioassay import __main__, registry

        if folders := request["env"].get("PYTHONPATH"):
            sys.path[:0] = folders.split(os.pathsep)
            registry.installed.cache_clear()
        _draw_names()
        __main__.main()
    finally:
        os._exit(70)  # not reached: main ends the process


def _use(streams: Mapping[int, int]) -> None:
    """Have these as stdin, stdout and stderr, and close what is missing, as of an interpreter that starts with them."""
    for number in range(len(_STREAMS)):
        if number in streams:
            os.dup2(streams[number], number)
        else:
            os.close(number)
    os.closerange(len(_STREAMS), 64)
    for number, name in enumerate(_STREAMS):
        opened: Any = io.FileIO(number, "w" if number else "r", closefd=False) if number in streams else None
        if opened and number:
            opened = io.TextIOWrapper(
                io.BufferedWriter(opened), "utf-8", line_buffering=os.isatty(number) or number == 2
            )
        elif opened:
            opened = io.TextIOWrapper(io.BufferedReader(opened), "utf-8")
        setattr(sys, name, opened)


def _draw_names() -> None:
    """Declare figures as ever, in this process, and write empty files instead of drawing them."""
    from ioassay.api import publication
    from ioassay.report import page
    from ioassay.runner import worker_pool

    @contextmanager
    def here() -> Iterator[Sequence[Executor]]:
        yield [worker_pool.InlineExecutor()]

    setattr(publication, "figure_processes", here)  # noqa: B010 # mypy does not let a function be replaced otherwise
    setattr(page, "write_svg", lambda spec, vector: vector.touch() or vector)  # noqa: B010
    setattr(page, "write_png", lambda vector: vector.with_suffix(".png").touch() or vector.with_suffix(".png"))  # noqa: B010


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
