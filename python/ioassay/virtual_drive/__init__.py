"""The simulated drive served in real time: the face of crates/device.

`drive_options` converts the options that people write to those of the core. `serve` serves in this process until a
signal or a request ends it. `control.ask` queries a drive that another process serves; `targets.virtual_drive` or a
user's `ioassay device serve` starts that process.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from typing import Any

from ioassay.errors import ToolError, UsageError

_KEYS = {"nbd": "nbd", "nvme-tcp": "nvme_tcp", "fuse": "fuse"}
"""Transport -> key of its address in what is said when the drive is ready."""


def serve(options: Mapping[str, Any], ready: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Serve until SIGTERM, SIGINT, SIGHUP or a request to stop, then what was counted.

    `options` are those of `options.described`; `ready` is called once, when clients can connect, with the addresses
    under `nbd`, `nvme_tcp`, `nqn`, `fuse` and all that is known of the drive. Raises UsageError for what cannot be
    served so, ToolError where the backing file lost something at the end, and what `ready` raises.
    """
    from ioassay import _core

    def tell(text: str) -> None:
        try:
            ready(_addressed(json.loads(text)))
        except BaseException:
            signal.raise_signal(signal.SIGTERM)  # of a drive of which nobody was told: it ends, and the error is raised
            raise

    try:
        told = _core.device_serve(json.dumps(options), tell)
    except (_core.CoreError, ValueError) as error:
        raise UsageError(str(error)) from None
    summary: dict[str, Any] = json.loads(told)
    if summary["lost"]:
        raise ToolError(f"{options.get('backing_file')}: {summary['lost']}")
    return dict(summary["statistics"])


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
