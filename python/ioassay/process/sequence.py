"""The steps of a trial as one child: it runs them one after the other, and asks in between what the storage counted.

Started by its path in an interpreter that imports the standard library alone (`command`), since it belongs to what is
measured. What a step wrote is on the storage before the counts are asked for, so that each byte is counted in the step
that wrote it. A step that fails ends the sequence with its exit status. Deliberately not here: what the counts mean
(`roles.StepCounter`), and which steps there are (the driver).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

_ANSWER_S = 60.0
_MOST_BYTES = 2**24
_SIGNALLED = 128


def command(description: Path) -> list[str]:
    """What runs the steps of a file: `steps` (argument lists), `results` (the file that is written), `folder` (on the
    storage, or null), `cold` (whether the page cache forgets its files before each step), `socket` and `request` (of
    the storage's counts, or null)."""
    start = "import runpy, sys; sys.exit(runpy.run_path(sys.argv[1])['main'](sys.argv[2]))"
    return [sys.executable, "-I", "-S", "-c", start, __file__, str(description)]


def main(description: str) -> int:
    """Runs them; the exit status of the last one that ran."""
    wanted = json.loads(Path(description).read_text(encoding="utf-8"))
    status, ended = 0, list[dict[str, Any]]()
    found = {"before": _counted(wanted), "ended": ended}
    for argv in wanted["steps"]:
        if wanted["cold"] and wanted["folder"] is not None:
            _forget(wanted["folder"])
        try:
            status = subprocess.call(argv, stdin=subprocess.DEVNULL)
        except OSError as error:
            os.write(2, f"cannot start '{argv[0]}': {error.strerror}\n".encode())
            status = 127
        if wanted["folder"] is not None:
            descriptor = os.open(wanted["folder"], os.O_RDONLY)
            try:
                ctypes.CDLL(None).syncfs(descriptor)  # syncfs(2): Python has it of no file system alone
            finally:
                os.close(descriptor)
        sizes = {"stdout_end": os.fstat(1).st_size, "stderr_end": os.fstat(2).st_size}
        ended.append({"exit_status": status, **sizes, "counted": _counted(wanted)})
        if status:
            break
    Path(wanted["results"]).write_text(json.dumps(found), encoding="utf-8")
    return _SIGNALLED - status if status < 0 else status


def _forget(folder: str) -> None:
    """Drops the cached pages of all files. They are clean: what was written has been synchronized."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_symlink() or not path.is_file():
                continue
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)


def _counted(wanted: dict[str, Any]) -> Any:
    """The storage's answer; None where it does not count, or does not answer (the trial's end says why)."""
    if wanted["socket"] is None:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_ANSWER_S)
            client.connect(wanted["socket"])
            client.sendall(wanted["request"].encode() + b"\n")
            line = b""
            while not line.endswith(b"\n") and len(line) < _MOST_BYTES and (part := client.recv(65536)):
                line += part
        return json.loads(line)
    except (OSError, ValueError):
        return None
