"""Monitors watch the machine while a trial runs: one file each, one literal list here.

A monitor reads raw counters and gauges and computes nothing: rates and shares are derived by analyses from the stored
samples, so a better formula improves old data. `field` says which is which, and in what unit.

To add one: `monitors/<name>.py` with `FIELDS` (last part of a field's name -> Field) and `make(root, devices)`, its
line in `MONITORS`, its tests, its section in docs/monitors.md. Files are read with `procfs.py` and `text_monitor.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.errors import UsageError
from ioassay.monitors.field import COUNTER, GAUGE, Field
from ioassay.pack import listed
from ioassay.registry import Contract, Registry
from ioassay.roles import Monitor

__all__ = ["COUNTER", "GAUGE", "MONITORS", "REGISTRY", "Field", "field", "fields", "monitor"]

MONITORS: dict[str, str] = listed(
    "monitors",
    {
        "cpu": "ioassay.monitors.cpu",
        "disk": "ioassay.monitors.block_layer",
        "memory": "ioassay.monitors.memory",
        "net": "ioassay.monitors.net",
        "pressure": "ioassay.monitors.pressure",
        "scheduler": "ioassay.monitors.scheduler",
        "frequency": "ioassay.monitors.frequency",
        "thermal": "ioassay.monitors.thermal",
        "perf": "ioassay.monitors.perf",
        "schedstat": "ioassay.monitors.schedstat",
        "cgroup": "ioassay.monitors.control_group",
        "null": "ioassay.monitors.null",
    },
)
"""Name -> module. The order is the order of the documentation."""

REGISTRY = Registry("monitors", "monitor", MONITORS, Contract("FIELDS", "make"))


def monitor(name: str, *, devices: Sequence[str] = (), root: Path = Path("/")) -> Monitor:
    """The monitor called `name`, reading below `root`; UsageError when there is none.

    `devices` are kernel names ('nvme0n1', 'dm-0') of the block devices that the disk monitor watches; with none it
    watches all that do anything. The other monitors ignore it.
    """
    made: Monitor = _entry(name).make(root, devices)
    return made


def fields(name: str) -> Mapping[str, Field]:
    """What the monitor called `name` reads: last part of a field's name -> Field (`user` for `cpu0.user`)."""
    known: Mapping[str, Field] = _entry(name).FIELDS
    return known


def field(name: str, field_name: str) -> Field | None:
    """What `field_name` of the monitor called `name` is, or None when neither is known (an older ioassay's records).

    The part before the last dot says which one of several it belongs to: `cpu0.user`, `eth0.100.rx_bytes`.
    """
    if name not in REGISTRY:
        return None
    return fields(name).get(field_name.rpartition(".")[2])


def _entry(name: str) -> Any:
    if why := REGISTRY.refusal(name):
        raise UsageError(why)
    return REGISTRY.load(name)
