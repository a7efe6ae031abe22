"""The simulated drive served in real time, in this process or in one of its own: the face of crates/device.

`drive_options` converts the options that people write to those of the core. `serve` serves in this process until a
signal or a request ends it, `served` in a child. `ask` queries a drive that another process serves: what it counts, as
metrics too; it has it misbehave, lose power, or stop.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ioassay import _core, validation
from ioassay.errors import InputError, IoassayError, ToolError, UsageError
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
_ANSWER_S = 15.0
_LOOK_S = 0.02
_LONGEST_BYTES = 64 * 2**20
"""An answer with all histograms has some hundred KiB."""
LONGEST_PATH = 107
"""Of a Unix socket (sockaddr_un, unix(7))."""


def serve(drives: Sequence[Mapping[str, Any]], ready: Callable[[list[dict[str, Any]]], None]) -> list[dict[str, Any]]:
    """Serve drives, each until a request stops it, and all until SIGTERM, SIGINT or SIGHUP; what each counted.

    They are described by `drive_options.described`; several have a thread each. `ready` is called once, when clients
    can connect, with the addresses under `nbd`, `nvme_tcp`, `nqn`, `fuse`, `vfio_user` and all that is known of each
    drive. Raises UsageError for one that cannot be served, and then none is, ToolError, when all have ended, for those
    that did not end well or whose backing file lost something, and what `ready` raises.
    """

    def tell(text: str) -> None:
        try:
            drives = json.loads(text)
            for one in drives:  # the first address of each transport, under its name
                for way in one["ways"]:
                    one.setdefault(_KEYS[way["transport"]], way["address"])
                    if way.get("nqn"):
                        one.setdefault("nqn", way["nqn"])
            ready(drives)
        except BaseException:
            signal.raise_signal(signal.SIGTERM)  # of a drive of which nobody was told: it ends, and the error is raised
            raise

    try:
        summaries = json.loads(_core.device_serve(json.dumps(list(drives)), tell))
    except (_core.CoreError, ValueError) as error:
        raise UsageError(str(error)) from None
    failures = []
    for number, (options, summary) in enumerate(zip(drives, summaries, strict=True)):
        which = "" if len(drives) == 1 else f"drive[{number}]: "
        if why := summary.get("error"):
            failures.append(f"{which}{why}")
        elif summary["lost"]:
            failures.append(f"{which}{options.get('backing_file')}: {summary['lost']}")
    if failures:
        raise ToolError("; ".join(failures))
    return [dict(summary["statistics"]) for summary in summaries]


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
        ready, _, _ = select.select([server.answers], [], [], _START_S * len(descriptions))
        try:
            answer = json.loads(server.answers.readline() if ready else b"")
        except ValueError:
            server.end(1.0)
            said = server.said().strip().splitlines()
            answer = {"error": said[-1].removeprefix("ioassay: ") if said else "it said nothing"}
        if isinstance(answer, dict):
            raise ToolError(f"the virtual drive could not be served: {answer['error']}")
        told: list[dict[str, Any]] = answer
        try:
            yield server, told
        finally:  # its files are unmounted when it ends by itself
            for drive in told:
                with suppress(InputError, ToolError):  # it has ended by itself; what it counted was asked before
                    ask(Path(drive["stats"]), "stop")
            server.end(_END_S)
    finally:
        server.end()
        server.close()


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
        serve(json.loads(descriptions), _say)
    except IoassayError as error:
        _say({"error": str(error)})
        os.write(_COMPLAINTS, f"ioassay: {error}\n".encode())
        return _REFUSED
    return 0


def _say(told: Sequence[Mapping[str, Any]] | Mapping[str, str]) -> None:
    """In one piece, so that who reads a line has all of it."""
    os.write(_ANSWERS, (json.dumps(told) + "\n").encode())


# What a drive that another process serves can be asked


def ask(path: Path, request: str, **more: Any) -> dict[str, Any]:
    """The drive's answer to `stats`, `power-cut`, `fault-inject`, `reset-stats`, `stop`, …: docs/virtual-drive.md.

    `path` is the socket that was said as `stats`. InputError where no drive listens there, ToolError where it refuses.
    """
    text = json.dumps({"request": request, **more}) + "\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_ANSWER_S)
            client.connect(str(path))
            client.sendall(text.encode())
            line = b""
            while part := client.recv(65536):
                line += part
                if part.endswith(b"\n") or len(line) > _LONGEST_BYTES:
                    break
            if not line:
                raise ConnectionError("the connection was closed without an answer")
    except OSError as error:
        known = len(str(path).encode()) > LONGEST_PATH
        what = f"is longer than {LONGEST_PATH} bytes" if known else error.strerror or str(error)
        raise InputError(
            f"{path}: no drive answers there: {what}; expected the socket that it said as 'stats'"
        ) from None
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
    with suppress(OSError):
        while True:  # it listens
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.connect(str(path))
            time.sleep(_LOOK_S)


# Metrics of a trial: `drive.<direction>.<quantity>`, times in ns

_OPS = {"read": "reads", "write": "writes", "trim": "trims", "flush": "flushes"}
_STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999", "max": "max"}


def metrics(counted: Mapping[str, Any], page_bytes: int | None = None) -> dict[str, float]:
    """The numbers of one answer to `stats`; what did not happen is left out.

    `page_bytes` is what the drive said when it was ready; without it nothing is said of bytes of flash.
    """
    found: dict[str, float | None] = dict(_volumes(counted))
    for direction, key in _OPS.items():
        one = counted[key]
        for name, statistic in _STATISTICS.items():
            found[f"drive.{direction}.lat.{name}"] = one["latency_ns"][statistic] if one["commands"] else None
    found["drive.errors"] = sum(counted[key]["errors"] for key in _OPS.values())
    found["drive.faults"] = counted["faults_fired"] if counted["faults"] or counted["faults_fired"] else None
    found["drive.depth"] = counted["depth"]["mean"]
    found |= {f"drive.late.{name}": counted["late_ns"][key] for name, key in _STATISTICS.items()}
    buffer, flash, mapping = (counted.get(part) or {} for part in ("buffer", "flash", "mapping"))
    programmed = flash.get("written_pages", 0) + flash.get("moved_pages", 0)
    found |= {
        "drive.flash.bytes": programmed * page_bytes if flash and page_bytes else None,
        "drive.hit_ratio": _share(buffer.get("write_hits", 0), buffer.get("written_pages", 0)),
        "drive.read_hit_ratio": _share(buffer.get("read_hits", 0), buffer.get("read_pages", 0)),
        "drive.write_amplification": flash.get("write_amplification"),
        "drive.erases": flash.get("erases"),
        "drive.mapping_hit_ratio": _share(mapping.get("hits", 0), mapping.get("hits", 0) + mapping.get("misses", 0)),
        "drive.translation_reads": mapping.get("translation_reads"),
        "drive.translation_writes": mapping.get("translation_writes"),
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def metrics_between(
    before: Mapping[str, Any], after: Mapping[str, Any], page_bytes: int | None = None
) -> dict[str, float]:
    """What was counted between two answers to `stats`: bytes, requests and what became of them in flash, no times."""
    earlier = _volumes(before)
    found: dict[str, float | None] = {name: value - earlier[name] for name, value in _volumes(after).items()}
    if flash := after.get("flash") or {}:
        was, names = before.get("flash") or {}, ("written_pages", "moved_pages", "erases")
        written, moved, erased = (flash.get(name, 0) - was.get(name, 0) for name in names)
        found["drive.flash.bytes"] = (written + moved) * page_bytes if page_bytes else None
        found["drive.erases"] = erased
        found["drive.write_amplification"] = _share(written + moved, written)
    return {name: float(value) for name, value in found.items() if value is not None}


def _volumes(counted: Mapping[str, Any]) -> dict[str, float]:
    """Requests of each kind, and bytes of those that move some."""
    found = {f"drive.{direction}.ios": counted[key]["commands"] for direction, key in _OPS.items()}
    return found | {f"drive.{name}.bytes": counted[key]["bytes"] for name, key in _OPS.items() if name != "flush"}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
