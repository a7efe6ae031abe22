"""The simulated drive served in real time, in this process or in one of its own: the face of crates/device.

`drive_options` converts the options that people write to those of the core. `serve` serves in this process until a
signal or a request ends it, `served` in a child. `control.ask` queries a drive that another process serves.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ioassay import _core
from ioassay.errors import InputError, IoassayError, ToolError, UsageError
from ioassay.packs.virtual_drive import control
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
_KEYS = {"nbd": "nbd", "nvme-tcp": "nvme_tcp", "fuse": "fuse", "vfio-user": "vfio_user"}
"""Transport -> key of its address in what is said when the drive is ready."""


def serve(options: Mapping[str, Any], ready: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Serve until SIGTERM, SIGINT, SIGHUP or a request to stop, then what was counted.

    `options` are those of `drive_options.described`; `ready` is called once, when clients can connect, with the
    addresses under `nbd`, `nvme_tcp`, `nqn`, `fuse`, `vfio_user` and all that is known of the drive. Raises UsageError
    for what cannot be served so, ToolError where the backing file lost something at the end, and what `ready` raises.
    """
    try:
        told = _core.device_serve(json.dumps(options), _teller(lambda told: ready(_addressed(told))))
    except (_core.CoreError, ValueError) as error:
        raise UsageError(str(error)) from None
    summary: dict[str, Any] = json.loads(told)
    if summary["lost"]:
        raise ToolError(f"{options.get('backing_file')}: {summary['lost']}")
    return dict(summary["statistics"])


def serve_group(
    drives: Sequence[Mapping[str, Any]], ready: Callable[[list[dict[str, Any]]], None]
) -> list[dict[str, Any]]:
    """Serve several drives, each until a request stops it, and all until SIGTERM, SIGINT or SIGHUP.

    As `serve`, with a list for what is one there. UsageError for one drive that cannot be served: then none is.
    ToolError, when all have ended, for those that did not end well.
    """

    def tell(told: list[dict[str, Any]]) -> None:
        ready([_addressed(drive) for drive in told])

    try:
        told = _core.device_serve_group(json.dumps(list(drives)), _teller(tell))
    except (_core.CoreError, ValueError) as error:
        raise UsageError(str(error)) from None
    summaries: list[dict[str, Any]] = json.loads(told)
    failures = []
    for number, (options, summary) in enumerate(zip(drives, summaries, strict=True)):
        if why := summary.get("error"):
            failures.append(f"drive[{number}]: {why}")
        elif summary["lost"]:
            failures.append(f"drive[{number}]: {options.get('backing_file')}: {summary['lost']}")
    if failures:
        raise ToolError("; ".join(failures))
    return [dict(summary["statistics"]) for summary in summaries]


def _teller(ready: Callable[[Any], None]) -> Callable[[str], None]:
    def tell(text: str) -> None:
        try:
            ready(json.loads(text))
        except BaseException:
            signal.raise_signal(signal.SIGTERM)  # of a drive of which nobody was told: it ends, and the error is raised
            raise

    return tell


def _addressed(told: dict[str, Any]) -> dict[str, Any]:
    """The first address of each transport, under its name."""
    addresses: dict[str, Any] = {}
    for way in told["ways"]:
        addresses.setdefault(_KEYS[way["transport"]], way["address"])
        if way.get("nqn"):
            addresses.setdefault("nqn", way["nqn"])
    return {**addresses, **told}


@contextmanager
def served(
    descriptions: Sequence[Mapping[str, Any]], ending: signal.Signals = signal.SIGKILL
) -> Iterator[tuple[PipedChild, list[dict[str, Any]]]]:
    """Drives of one process that are ready, and what each said of itself.

    They end with this, and by `ending` with the thread. `descriptions` are made by `drive_options.described`. ToolError
    where one cannot be served.
    """
    server = PipedChild(command(descriptions, ending), _TAG)
    try:
        told = _ready(server, _START_S * len(descriptions))
        try:
            yield server, told
        finally:  # its files are unmounted when it ends by itself
            for drive in told:
                with suppress(InputError, ToolError):  # it has ended by itself; what it counted was asked before
                    control.ask(Path(drive["stats"]), "stop")
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


def command(descriptions: Sequence[Mapping[str, Any]], ending: signal.Signals = signal.SIGKILL) -> list[str]:
    """What starts it as a child of this process, which gets the signal `ending` when the thread that starts it ends."""
    isolated = "-I" if sys.flags.isolated else "-P"  # a file of the working directory must not shadow a module
    start = f"sys.exit(serve_process({os.getpid()}, sys.argv[1], {int(ending)}))"
    code = f"import sys; from ioassay.packs.virtual_drive.serving import serve_process; {start}"
    return [sys.executable, isolated, "-c", code, json.dumps(list(descriptions))]


def serve_process(parent: int, descriptions: str, ending: int = signal.SIGKILL) -> int:
    """Serve them until asked to stop, or until process `parent` is gone; the exit code."""
    piped_child.end_with(parent, signal.Signals(ending))
    try:
        drives = json.loads(descriptions)
        if len(drives) == 1:
            serve(drives[0], lambda told: _say([told]))
        else:
            serve_group(drives, _say)
    except IoassayError as error:
        _say({"error": str(error)})
        os.write(_COMPLAINTS, f"ioassay: {error}\n".encode())
        return _REFUSED
    return 0


def _say(told: Sequence[Mapping[str, Any]] | Mapping[str, str]) -> None:
    """In one piece, so that who reads a line has all of it."""
    os.write(_ANSWERS, (json.dumps(told) + "\n").encode())
