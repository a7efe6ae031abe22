"""Asking a drive that another process serves: what it counts, and to cut its power or to stop."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

from ioassay import validation
from ioassay.errors import InputError, ToolError

_ANSWER_S = 15.0
_LOOK_S = 0.02
_LONGEST_BYTES = 64 * 2**20
"""An answer with all histograms has some hundred KiB."""
LONGEST_PATH = 107
"""Of a Unix socket (sockaddr_un, unix(7))."""


def ask(path: Path, request: str, **more: Any) -> dict[str, Any]:
    """The drive's answer to `stats`, `power-cut`, `reset-stats` or `stop`.

    `path` is the socket that was said as `stats`. InputError where no drive listens there, ToolError where it refuses.
    """
    text = json.dumps({"request": request, **more}) + "\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_ANSWER_S)
            client.connect(str(path))
            client.sendall(text.encode())
            line = _line(client)
    except OSError as error:
        known = len(str(path).encode()) > LONGEST_PATH
        what = f"is longer than {LONGEST_PATH} bytes" if known else error.strerror or str(error)
        raise InputError(f"{path}: no drive answers there: {what}; wanted the socket that it said as 'stats'") from None
    try:
        answer = validation.table(line, str(path))
    except InputError:
        raise InputError(f"{path}: what answers there is no drive of ioassay") from None
    if not answer.get("ok"):
        raise ToolError(f"{path}: the drive refuses '{request}': {answer.get('error', 'without a reason')}")
    return answer


def stop(path: Path) -> None:
    """Ends the drive and waits until it has ended: its backing file has everything then. Errors as of `ask`."""
    ask(path, "stop")
    while _listens(path):
        time.sleep(_LOOK_S)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _line(client: socket.socket) -> bytes:
    parts, length = [], 0
    while part := client.recv(65536):
        parts.append(part)
        length += len(part)
        if part.endswith(b"\n") or length > _LONGEST_BYTES:
            break
    return b"".join(parts)
