"""The simulated drive served in real time: the face of crates/device.

`drive_options` converts the options that people write to those of the core. `serve` serves in this process until a
signal or a request ends it. `control.ask` queries a drive that another process serves; `targets.virtual_drive` or a
user's `ioassay device serve` starts that process.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ioassay.errors import ToolError, UsageError

_KEYS = {"nbd": "nbd", "nvme-tcp": "nvme_tcp", "fuse": "fuse", "vfio-user": "vfio_user"}
"""Transport -> key of its address in what is said when the drive is ready."""


def serve(options: Mapping[str, Any], ready: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Serve until SIGTERM, SIGINT, SIGHUP or a request to stop, then what was counted.

    `options` are those of `drive_options.described`; `ready` is called once, when clients can connect, with the
    addresses under `nbd`, `nvme_tcp`, `nqn`, `fuse`, `vfio_user` and all that is known of the drive. Raises UsageError
    for what cannot be served so, ToolError where the backing file lost something at the end, and what `ready` raises.
    """
    from ioassay import _core

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
    from ioassay import _core

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
    """What the core calls when clients can connect."""

    def tell(text: str) -> None:
        try:
            ready(json.loads(text))
        except BaseException:
            signal.raise_signal(signal.SIGTERM)  # of a drive of which nobody was told: it ends, and the error is raised
            raise

    return tell


def models() -> dict[str, str]:
    """Name -> what the model is."""
    from ioassay import _core

    return dict(_core.device_models())


def _addressed(told: dict[str, Any]) -> dict[str, Any]:
    """The first address of each transport, under its name."""
    addresses: dict[str, Any] = {}
    for way in told["ways"]:
        addresses.setdefault(_KEYS[way["transport"]], way["address"])
        if way.get("nqn"):
            addresses.setdefault("nqn", way["nqn"])
    return {**addresses, **told}
