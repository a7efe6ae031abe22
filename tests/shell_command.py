"""`ioassay` for shell scripts that tests run: a small program that asks the command server, in place of an interpreter.

Run as a program, with the inherited descriptor of the server: it has its streams and its folder used, passes on the
signals that end a command, and ends as the command ends. It imports nothing of the package.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def write(folder: Path, server: int) -> None:
    """Write the program `ioassay` into a folder. What runs it must inherit the descriptor `server`."""
    path = folder / "ioassay"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" {server} "$@"\n')
    path.chmod(0o755)


def main() -> None:
    """Ask for the command in the arguments."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = {
        "argv": sys.argv[2:],
        "cwd": str(Path.cwd()),
        "env": dict(os.environ),
        "open": [0, 1, 2],
        "of_its_own": False,
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    socket.send_fds(requests, [json.dumps(request).encode()], [theirs.fileno(), 0, 1, 2])
    theirs.close()
    command = int(answers.recv(32))
    for number in ENDING:
        signal.signal(number, lambda seen, _: os.kill(command, seen))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    status = int(answers.recv(32))
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)  # without closing the server's descriptor, which others use


if __name__ == "__main__":
    main()
