"""Monitors watch the machine while a trial runs: one row or class each, one literal list here.

A monitor reads raw counters and gauges and computes nothing: rates and shares are derived by analyses from the stored
samples, so a better formula improves old data. `field` says which is which, and in what unit.

To add one: a `TextKind`, or for what is no file an object with `FIELDS` (last part of a field's name -> Field) and
`make(root, devices)`; its line in `MONITORS`, its tests, its section in docs/monitors.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ioassay.errors import UsageError
from ioassay.monitors.text_monitor import COUNTER, GAUGE, Field
from ioassay.pack import listed
from ioassay.registry import Contract, Registry
from ioassay.roles import Monitor

__all__ = ["COUNTER", "GAUGE", "MONITORS", "REGISTRY", "Field", "field", "fields", "monitor"]

MONITORS: dict[str, str] = listed(
    "monitors",
    {
        "cpu": "ioassay.monitors.system_monitors:CPU",
        "disk": "ioassay.monitors.system_monitors:DISK",
        "memory": "ioassay.monitors.system_monitors:MEMORY",
        "net": "ioassay.monitors.system_monitors:NET",
        "pressure": "ioassay.monitors.system_monitors:PRESSURE",
        "scheduler": "ioassay.monitors.system_monitors:SCHEDULER",
        "frequency": "ioassay.monitors.system_monitors:FREQUENCY",
        "thermal": "ioassay.monitors.system_monitors:THERMAL",
        "perf": "ioassay.monitors.process_monitors:PerfMonitor",
        "schedstat": "ioassay.monitors.process_monitors:SchedstatMonitor",
        "cgroup": "ioassay.monitors.process_monitors:CgroupMonitor",
        "null": "ioassay.monitors.system_monitors:NullMonitor",
    },
)
"""Name -> row or class. The order is the order of the documentation."""

REGISTRY = Registry("monitors", "monitor", MONITORS, Contract("FIELDS", "make"))


def monitor(name: str, *, devices: Sequence[str] = (), root: Path = Path("/")) -> Monitor:
    """The monitor called `name`, reading below `root`; UsageError when there is none.

    `devices` are kernel names ('nvme0n1', 'dm-0') of the block devices that the disk monitor watches; with none it
    watches all that do anything. The other monitors ignore it.
    """
    return cast(Monitor, _entry(name).make(root, devices))


def fields(name: str) -> Mapping[str, Field]:
    """What the monitor called `name` reads: last part of a field's name -> Field (`user` for `cpu0.user`)."""
    return cast(Mapping[str, Field], _entry(name).FIELDS)


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
