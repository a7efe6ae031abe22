"""What the process of a virtual target's drive does: it serves the drive as `ioassay device serve` does for people.

It imports little, and not the command line, since a study starts one for each of its trials. Its one line of output
says where the drive is, as JSON, or under `error` why there is none. Who starts it and asks it: `virtual`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from ioassay import virtual_drive
from ioassay.errors import IoassayError
from ioassay.process import piped_child

_ANSWERS, _COMPLAINTS = 1, 2
"""Standard output and standard error."""
_REFUSED = 2
"""Exit code where nothing could be served, as the command line has it."""


def command(description: Mapping[str, Any]) -> list[str]:
    """What starts it as a child of this process. `description` is made by `drive_options.described`."""
    isolated = "-I" if sys.flags.isolated else "-P"  # a file of the working directory must not shadow a module
    start = f"sys.exit(serve({os.getpid()}, sys.argv[1]))"
    code = f"import sys; from ioassay.targets.virtual_drive_process import serve; {start}"
    return [sys.executable, isolated, "-c", code, json.dumps(description)]


def serve(parent: int, description: str) -> int:
    """Serve until asked to stop, or until process `parent` is gone; the exit code."""
    piped_child.end_with(parent)
    try:
        virtual_drive.serve(json.loads(description), _say)
    except IoassayError as error:
        _say({"error": str(error)})
        os.write(_COMPLAINTS, f"ioassay: {error}\n".encode())
        return _REFUSED
    return 0


def _say(told: Mapping[str, Any]) -> None:
    """In one piece, so that who reads a line has all of it."""
    os.write(_ANSWERS, (json.dumps(told) + "\n").encode())
