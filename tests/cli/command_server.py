"""Answers commands from a process that has everything imported: a fork for each, instead of a new interpreter.

Most of the time of a short command goes into imports and into the start of the drawing process. What a command says,
records and leaves is the same. Two things differ from a command of its own: its figures' files hold only their names,
and nothing is known of how Python starts. Tests of these use `ask_alone` (conftest.py).

Run as a program, with the descriptor of a socket: the other side of `CommandServer`.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_REQUEST_BYTES = 1 << 17


class CommandServer:
    """The side of the tests. Requests may overlap."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
        argv = [sys.executable, "-I", __file__, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def run(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], within_s: float) -> tuple[int, str, str]:
        """Exit status, output and errors of one command; TimeoutExpired after `within_s`."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status = self._status({"argv": argv, "cwd": str(cwd), "env": dict(env)}, [out, err], within_s)
            return status, _text(out), _text(err)

    def _status(self, request: Mapping[str, Any], files: Sequence[IO[bytes]], within_s: float) -> int:
        answers, theirs = socket.socketpair()
        with answers:
            with theirs:
                handles = [*(file.fileno() for file in files), theirs.fileno()]
                socket.send_fds(self._requests, [json.dumps(request).encode()], handles)
            answers.settimeout(within_s)
            with answers.makefile() as lines:
                pid = int(lines.readline())
                try:
                    return int(lines.readline())
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(request["argv"], within_s) from None

    def close(self) -> None:
        """End the server."""
        self._requests.close()
        self._process.wait(30)


@functools.cache
def shared() -> CommandServer:
    """The server of this process, started where it is first needed."""
    return CommandServer()


def end() -> None:
    """Close the shared server, if there is one."""
    if shared.cache_info().currsize:
        shared().close()
        shared.cache_clear()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="surrogateescape")


def serve(requests: socket.socket) -> None:
    """Answer until the tests close their side."""
    _load()
    while True:
        message, handles, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        if not message:
            return
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


def _load() -> None:
    """Import what commands import; no code of theirs runs."""
    import jinja2
    import numpy
    import polars

    import ioassay
    from ioassay.report import figures

    assert jinja2 and numpy and polars
    for module in pkgutil.walk_packages(ioassay.__path__, "ioassay."):
        if module.name not in ("ioassay.__main__", "ioassay.cli.run"):  # its name is also a function's
            importlib.import_module(module.name)
    figures.load()


def _answer(request: Mapping[str, Any], out: int, err: int, answers: int) -> None:
    """Run the command in a child, and say its id and then its status."""
    child = os.fork()
    if not child:
        os.close(answers)
        _become(request, out, err)
    os.write(answers, f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: Mapping[str, Any], out: int, err: int) -> None:
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 64)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["ioassay", *request["argv"]]
        from ioassay import __main__

        _draw_names()
        __main__.main()
    finally:
        os._exit(70)  # not reached: main ends the process


def _draw_names() -> None:
    """Declare figures as ever, in this process, and write their names instead of drawing them."""
    from ioassay.api import publication
    from ioassay.report import render
    from ioassay.runner import worker_pool

    @contextmanager
    def here() -> Iterator[publication.FigureProcesses]:
        yield publication.FigureProcesses(worker_pool.Here(), worker_pool.Here())

    def write(spec: Any, folder: Path, name: str) -> tuple[Path, Path]:
        paths = folder / f"{name}.png", folder / f"{name}.svg"
        for path in paths:
            path.write_text(name)
        return paths

    setattr(publication, "figure_processes", here)  # noqa: B010 # mypy does not let a function be replaced otherwise
    setattr(render, "write", write)  # noqa: B010


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
