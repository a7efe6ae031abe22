"""The process of drives that are served for a trial or a program, as `ioassay device serve` serves them for people.

`served` and `served_group` start and end it; `serve` is what it does. It imports little, and not the command line,
since a study starts one for each of its trials. Its one line of output is JSON: a list that says where each drive is,
or an object whose `error` says why there is none.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ioassay.errors import InputError, IoassayError, ToolError
from ioassay.packs.virtual_drive import control, serving
from ioassay.process import piped_child
from ioassay.process.piped_child import PipedChild

_ANSWERS, _COMPLAINTS = 1, 2
"""Standard output and standard error."""
_REFUSED = 2
"""Exit code where nothing could be served, as the command line has it."""


_TAG = "a drive"
_START_S = 120.0
"""A large drive is preconditioned and calibrated first."""
_END_S = 20.0
"""A drive that does not end by itself within it is killed."""


@contextmanager
def served(
    description: Mapping[str, Any], ending: signal.Signals = signal.SIGKILL
) -> Iterator[tuple[PipedChild, dict[str, Any]]]:
    """A drive that is ready, and what it said of itself; it ends with this, and by `ending` with the thread.

    `description` is made by `drive_options.described`. ToolError where it cannot be served.
    """
    with _serving([description], ending) as (server, (told,)):
        yield server, told


@contextmanager
def served_group(
    descriptions: Sequence[Mapping[str, Any]], ending: signal.Signals = signal.SIGKILL
) -> Iterator[list[dict[str, Any]]]:
    """As `served`, for several drives of one process: what each said of itself. All end with this."""
    with _serving(descriptions, ending) as (_, told):
        yield told


@contextmanager
def _serving(
    descriptions: Sequence[Mapping[str, Any]], ending: signal.Signals
) -> Iterator[tuple[PipedChild, list[dict[str, Any]]]]:
    server = PipedChild(command(descriptions, ending), _TAG)
    try:
        told = _ready(server, _START_S * len(descriptions))
        try:
            yield server, told
        finally:  # its files are unmounted when it ends by itself
            for drive in told:
                _stop(Path(drive["stats"]))
            server.end(_END_S)
    finally:
        server.end()
        server.close()


def _ready(server: PipedChild, patience_s: float) -> list[dict[str, Any]]:
    ready, _, _ = select.select([server.answers], [], [], patience_s)
    line = server.answers.readline() if ready else b""
    try:
        told: list[dict[str, Any]] | dict[str, Any] = json.loads(line)
    except ValueError:
        server.end(1.0)
        said = server.said().strip().splitlines()
        told = {"error": said[-1].removeprefix("ioassay: ") if said else "it said nothing"}
    if isinstance(told, dict):
        raise ToolError(f"the virtual drive could not be served: {told['error']}")
    return told


def _stop(socket: Path) -> None:
    try:
        control.ask(socket, "stop")
    except (InputError, ToolError):
        return  # it has ended by itself; what it counted was asked before


def command(descriptions: Sequence[Mapping[str, Any]], ending: signal.Signals = signal.SIGKILL) -> list[str]:
    """What starts it as a child of this process, which gets the signal `ending` when the thread that starts it ends."""
    isolated = "-I" if sys.flags.isolated else "-P"  # a file of the working directory must not shadow a module
    start = f"sys.exit(serve({os.getpid()}, sys.argv[1], {int(ending)}))"
    code = f"import sys; from ioassay.packs.virtual_drive.targets.virtual_drive_process import serve; {start}"
    return [sys.executable, isolated, "-c", code, json.dumps(list(descriptions))]


def serve(parent: int, descriptions: str, ending: int = signal.SIGKILL) -> int:
    """Serve them until asked to stop, or until process `parent` is gone; the exit code."""
    piped_child.end_with(parent, signal.Signals(ending))
    try:
        drives = json.loads(descriptions)
        if len(drives) == 1:
            serving.serve(drives[0], lambda told: _say([told]))
        else:
            serving.serve_group(drives, _say)
    except IoassayError as error:
        _say({"error": str(error)})
        os.write(_COMPLAINTS, f"ioassay: {error}\n".encode())
        return _REFUSED
    return 0


def _say(told: Sequence[Mapping[str, Any]] | Mapping[str, str]) -> None:
    """In one piece, so that who reads a line has all of it."""
    os.write(_ANSWERS, (json.dumps(told) + "\n").encode())
